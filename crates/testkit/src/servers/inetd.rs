//! Starts a program for each connection, with the connection as its standard input and output.
//!
//! When the value is dropped, the programs are killed, each with its process group.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    net::{SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::Acceptor;

/// A server that starts one program per connection.
pub(super) struct Inetd {
    acceptor: Acceptor,
    running: Running,
}

type Running = Arc<Mutex<BTreeMap<usize, Pid>>>;

fn lock(running: &Running) -> MutexGuard<'_, BTreeMap<usize, Pid>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inetd {
    /// For each connection, starts the command that `command` returns. Its standard error is
    /// appended to the file `log`.
    pub(super) fn start(log: PathBuf, command: impl Fn() -> Command + Send + Sync + 'static) -> Inetd {
        let running = Running::default();
        let started = Arc::clone(&running);
        let acceptor = Acceptor::start(move |stream, number| {
            if let Some(child) = spawn(command(), stream, &log) {
                lock(&started).insert(number, Pid::from_child(&child));
                reap(child, number, &started);
            }
        });
        Inetd { acceptor, running }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    pub(super) fn accepted(&self) -> usize {
        self.acceptor.accepted()
    }
}

fn spawn(mut command: Command, stream: TcpStream, log: &Path) -> Option<Child> {
    let log: File = OpenOptions::new().create(true).append(true).open(log).ok()?;
    let input: OwnedFd = stream.try_clone().ok()?.into();
    let output: OwnedFd = stream.into();
    command.stdin(input).stdout(output).stderr(log).process_group(0).spawn().ok()
}

/// Waits for the program. It is reaped only after its group is no longer tracked: until then its id
/// cannot be reused for another group.
fn reap(mut child: Child, number: usize, running: &Running) {
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(Pid::from_child(&child)), ended), Err(rustix::io::Errno::INTR)) {}
    lock(running).remove(&number);
    let _ = child.wait();
}

impl Drop for Inetd {
    fn drop(&mut self) {
        self.acceptor.cut();
        for pid in lock(&self.running).values() {
            let _ = kill_process_group(*pid, Signal::KILL);
        }
    }
}

/// A command that can be created repeatedly, on any thread.
pub(super) struct Plan {
    program: OsString,
    dir: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Plan {
    pub(super) fn of(command: &Command) -> Plan {
        let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Plan {
            program: command.get_program().to_owned(),
            dir: command.get_current_dir().expect("a sandbox's command has a directory").to_owned(),
            environment: set.collect(),
        }
    }

    pub(super) fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.dir).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Returns the text of a log, which may not exist yet.
pub(super) fn read(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}
