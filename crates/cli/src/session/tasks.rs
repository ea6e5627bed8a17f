//! Child processes in parallel, with the output of each kept in one piece.
//!
//! Order of output: the output of the oldest running process is printed as it arrives; the output
//! of the others is kept until they have ended. A task ends with an exit code. The owner of the
//! tasks is notified of each end, and may stop the rest. If a task fails to go on, running
//! processes are ended.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Sender},
    time::Duration,
};

use crate::{
    session::invocation::Invocation,
    term::{
        console,
        failure::Failure,
        files,
        interrupt::Interrupt,
        process,
        text::{clock::wall_clock, os_error, os_str},
    },
};

/// The longest delay until a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

/// A task to run.
pub(crate) struct Task<K> {
    /// The owner's identifier of the task.
    pub(crate) key: K,
    pub(crate) what: Start,
}

/// How a task begins.
pub(crate) enum Start {
    /// The process to start. Its standard streams are replaced.
    Process(Box<Command>),
    /// The task ended without a process.
    Ended(u8),
}

/// The decision after a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    /// Start no more tasks, and wait for the running ones.
    Stop,
}

/// The source of tasks.
pub(crate) trait Work {
    type Key;

    /// Returns the next task. May be called again after `None`, when another task has ended. Text
    /// in `output` precedes the output of the task; without a task it is printed on its own.
    fn next(&mut self, output: &mut Vec<u8>) -> Result<Option<Task<Self::Key>>, Failure>;

    /// Receives the exit code of a task. Text in `output` follows the output of the task.
    fn ended(&mut self, key: Self::Key, code: u8, output: &mut Vec<u8>) -> Result<Next, Failure>;
}

enum Event {
    Output(usize, Vec<u8>),
    Closed(usize),
}

struct Running<K> {
    key: K,
    child: Option<Child>,
    code: u8,
    output: Vec<u8>,
}

/// The running processes. Dropping it ends them.
struct Pool<K> {
    running: BTreeMap<usize, Running<K>>,
    /// Output of ended tasks, kept until the oldest running one has ended.
    waiting: Vec<u8>,
}

impl<K> Drop for Pool<K> {
    fn drop(&mut self) {
        for child in self.running.values_mut().filter_map(|running| running.child.as_mut()) {
            process::terminate(child);
            // If the wait fails, the child does not exist any more.
            let _ = child.wait();
        }
    }
}

/// Runs the tasks of `work`, up to `jobs` at once.
pub(crate) fn run<W: Work>(run: &Invocation, jobs: usize, work: &mut W) -> Result<(), Failure> {
    trace(run, jobs);
    let (events, inbox) = mpsc::channel();
    let mut pool = Pool { running: BTreeMap::new(), waiting: Vec::new() };
    let (mut number, mut next) = (0, Next::GoOn);
    loop {
        while next == Next::GoOn && pool.running.len() < jobs {
            run.interrupt.check()?;
            let mut output = Vec::new();
            let Some(task) = work.next(&mut output)? else {
                pool.waiting.append(&mut output);
                break;
            };
            pool.running.insert(number, begin(number, task, output, &events));
            number += 1;
        }
        let Some((&oldest, _)) = pool.running.first_key_value() else { break };
        pool.show(oldest);
        let event = match inbox.recv_timeout(PATIENCE) {
            Ok(event) => event,
            Err(_) => {
                run.interrupt.check()?;
                continue;
            }
        };
        match event {
            Event::Output(task, bytes) => {
                if let Some(running) = pool.running.get_mut(&task) {
                    running.output.extend_from_slice(&bytes);
                }
            }
            Event::Closed(task) => {
                let Some(mut running) = pool.running.remove(&task) else { continue };
                let code = running.child.take().map_or(running.code, wait);
                if work.ended(running.key, code, &mut running.output)? == Next::Stop {
                    next = Next::Stop;
                }
                pool.waiting.append(&mut running.output);
                if task == oldest {
                    pool.flush_if_full();
                }
            }
        }
    }
    pool.flush_if_full();
    Ok(())
}

impl<K> Pool<K> {
    fn show(&mut self, task: usize) {
        let Some(running) = self.running.get_mut(&task) else { return };
        if !running.output.is_empty() {
            console::eprint_raw(&std::mem::take(&mut running.output));
        }
    }

    fn flush_if_full(&mut self) {
        if !self.waiting.is_empty() {
            console::eprint_raw(&std::mem::take(&mut self.waiting));
        }
    }
}

/// Writes the number of tasks to `GIT_TRACE`, where scripts expect it.
fn trace(run: &Invocation, jobs: usize) {
    let path = match run.variable("GIT_TRACE") {
        Some(b"1" | b"2" | b"true") => Path::new("/proc/self/fd/2"),
        Some(path @ [b'/', ..]) => Path::new(os_str(path)),
        _ => return,
    };
    let line = format!(
        "{} {:<23} run_processes_parallel: preparing to run up to {jobs} tasks\n",
        wall_clock(),
        "run-command.c"
    );
    if let Ok(mut file) = files::open_log(path) {
        // A failed write to the trace does not affect the command.
        let _ = file.write_all(line.as_bytes());
    }
}

/// Starts the process of a task, and a thread that reads its output.
fn begin<K>(number: usize, task: Task<K>, output: Vec<u8>, events: &Sender<Event>) -> Running<K> {
    let mut running = Running { key: task.key, child: None, code: 0, output };
    let closed = Event::Closed(number);
    let mut command = match task.what {
        Start::Process(command) => command,
        Start::Ended(code) => {
            running.code = code;
            let _ = events.send(closed);
            return running;
        }
    };
    console::flush();
    Interrupt::install_now();
    process::note_change();
    let started = std::io::pipe().and_then(|(reader, writer)| {
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        Ok((reader, command.spawn()?))
    });
    // The pipe ends when the child closes the only other copy of its write end.
    drop(command);
    match started {
        Ok((mut reader, child)) => {
            running.child = Some(child);
            let events = events.clone();
            let listen = move || {
                let mut buffer = vec![0; 16 << 10];
                while let Ok(read @ 1..) = reader.read(&mut buffer) {
                    let _ = events.send(Event::Output(number, buffer[..read].to_vec()));
                }
                let _ = events.send(closed);
            };
            std::thread::spawn(listen);
        }
        Err(error) => {
            running.code = 127;
            running
                .output
                .extend_from_slice(format!("error: cannot run git: {}\n", os_error(&error)).as_bytes());
            let _ = events.send(closed);
        }
    }
    running
}

/// Waits for a process. Returns its exit code as a shell reports it.
pub(crate) fn wait(mut child: Child) -> u8 {
    let status = child.wait();
    let code = status.ok().map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(127)
}
