//! Child processes: `sapwood` and Git, with the ids of a volume.
//!
//! Ids and capabilities belong to a process, so each child begins as this program, which becomes
//! the user and then executes the other program. A child of an ordinary user keeps two
//! capabilities: to mount, and to enter the work directory of an overlay.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use rustix::{
    process::{Signal, getppid, set_parent_process_death_signal},
    thread::{
        CapabilitySet, CapabilitySets, Gid, Uid, configure_capability_in_ambient_set, set_capabilities,
        set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

use crate::{Error, Secrets, Settings, Volume};

/// The first argument of a child process that is still this program.
pub const BECOME: &str = "--become";

/// The capabilities of a child with the ids of an ordinary user.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::DAC_OVERRIDE);

/// A child process that can be started several times.
#[derive(Clone, Copy)]
pub(crate) struct Child<'a> {
    pub(crate) settings: &'a Settings,
    /// Its ids are those of the process.
    pub(crate) volume: &'a Volume,
    /// The home directory, which is the current directory too.
    pub(crate) home: &'a Path,
    /// Their values do not appear in messages.
    pub(crate) secrets: &'a Secrets,
    /// The file that the process locks.
    pub(crate) lock: &'a Path,
    /// More variables.
    pub(crate) environment: &'a [(String, String)],
}

/// The end of a child process.
pub(crate) struct Ended {
    pub(crate) is_success: bool,
    pub(crate) stdout: String,
    /// The last lines of the standard error output, without secrets.
    pub(crate) said: String,
}

impl Child<'_> {
    /// Runs `sapwood`. Fails with its words unless it succeeds.
    pub(crate) fn sapwood<S: AsRef<OsStr>>(&self, action: &str, args: &[S]) -> Result<String, Error> {
        self.succeed(action, &self.settings.sapwood, args)
    }

    /// Runs the real Git. Fails with its words unless it succeeds.
    pub(crate) fn git<S: AsRef<OsStr>>(&self, action: &str, args: &[S]) -> Result<String, Error> {
        self.succeed(action, &self.settings.git, args)
    }

    fn succeed<S: AsRef<OsStr>>(&self, action: &str, program: &Path, args: &[S]) -> Result<String, Error> {
        let ended = self.run(program, args)?;
        if ended.is_success {
            Ok(ended.stdout)
        } else {
            Err(Error::Failed { action: action.to_owned(), reason: ended.said })
        }
    }

    /// Runs a program to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, program: &Path, args: &[S]) -> Result<Ended, Error> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(BECOME).arg(self.volume.uid.to_string()).arg(self.volume.gid.to_string());
        command.arg(std::process::id().to_string()).arg(self.lock).arg(program).args(args);
        command.current_dir(self.home).env_clear().envs(self.settings.environment.iter().cloned());
        command.env("HOME", self.home).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        let global = self.settings.git_config.as_deref().unwrap_or(Path::new("/dev/null"));
        command.env("GIT_CONFIG_GLOBAL", global).env("GIT_ALLOW_PROTOCOL", self.settings.protocols());
        command.env("SAPWOOD_GIT", &self.settings.git);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = command.stdin(Stdio::null()).output().map_err(Error::io("run", program))?;
        let stderr = self.secrets.redact(&String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let mut said = lines[lines.len().saturating_sub(5)..].join("; ");
        if said.is_empty() {
            said = format!("{} ended with {}", program.display(), output.status);
        }
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Ended { is_success: output.status.success(), stdout, said })
    }
}

/// Becomes the user of the arguments and executes the program of the arguments. Returns only after
/// a failure. The process has one thread.
///
/// The arguments are uid, gid, the process that started this one, a file, the program, its
/// arguments. The program gets SIGTERM when the service ends, also when it is killed. It and its
/// children have a shared lock on the file, so that the next service waits for them.
pub fn become_user(mut args: impl Iterator<Item = OsString>) -> io::Error {
    let mut number = || args.next()?.to_str()?.parse::<u32>().ok();
    let (Some(uid), Some(gid), Some(parent)) = (number(), number(), number()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let (Some(lock), Some(program)) = (args.next(), args.next()) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let lock = match share(Path::new(&lock)) {
        Ok(lock) => lock,
        Err(error) => return error,
    };
    let failure = match become_ids(uid, gid, parent) {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(error) => error,
    };
    drop(lock);
    failure
}

/// Opens a file for this process and its children, with a shared lock.
fn share(path: &Path) -> io::Result<sys::File> {
    let file = sys::by_path::lock_file(path, 0o600)?;
    if !sys::try_lock_shared(&file)? {
        return Err(io::Error::other("another service begins"));
    }
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    Ok(file)
}

fn become_ids(uid: u32, gid: u32, parent: u32) -> io::Result<()> {
    if uid != 0 {
        set_keep_capabilities(true)?;
    }
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    if (uid, gid) != (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()) {
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
    }
    if uid != 0 {
        set_capabilities(None, CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: KEPT })?;
        for capability in KEPT.iter() {
            configure_capability_in_ambient_set(capability, true)?;
        }
    }
    set_no_new_privs(true)?;
    // After the change of ids, which would undo it.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let now = getppid().map(|pid| pid.as_raw_nonzero().get());
    if now != i32::try_from(parent).ok() {
        return Err(io::Error::other("the service ended"));
    }
    Ok(())
}
