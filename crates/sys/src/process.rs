//! Other processes.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
};

use rustix::{fs::FlockOperation, io::Errno, process::Pid};

use crate::File;

/// Whether a process with this id exists, ours to signal or not. `None` if `pid` is no process id.
pub fn is_running(pid: u64) -> Option<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    Some(rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// `flock`, exclusive, without waiting: `false` if another open file holds it. It is held until `file`
/// is closed, so the end of the process, however it ends, gives it up.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// `execve`: replaces this program by another, in the same process. Only returns if that failed. The
/// environment goes on as it is, with `variable` added if there is one.
///
/// `SIGPIPE`, which Rust programs ignore, gets its default back; handlers of other signals are the
/// kernel's business (they are reset), and what the parent made us ignore or block stays so.
pub fn exec(program: &OsStr, argv: &[OsString], variable: Option<(&OsStr, &OsStr)>) -> io::Error {
    let prepare = || -> Result<_, io::Error> {
        let program = CString::new(program.as_bytes())?;
        let argv = argv.iter().map(|arg| CString::new(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let environment = variable.map(environment_with).transpose()?;
        Ok((program, argv, environment))
    };
    let (program, argv, environment) = match prepare() {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, environment) = (pointers(&argv), environment.as_deref().map(pointers));
    // SAFETY: `program`, and every pointer of `argv` and `environment` but the last, which is null as
    // execve(2) asks, are NUL-terminated strings owned by bindings that live until the end of this
    // function. Setting a signal to its default has no other precondition than a valid number.
    let old = unsafe {
        let old = libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        match &environment {
            Some(environment) => libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()),
            None => libc::execv(program.as_ptr(), argv.as_ptr()),
        };
        old
    };
    let error = io::Error::last_os_error();
    // SAFETY: puts back what `signal` itself said was there.
    unsafe { libc::signal(libc::SIGPIPE, old) };
    error
}

/// Starts a program that goes on when we are gone: in a session of its own, so that no terminal's or job's end reaches
/// it; with nothing of ours open, so that nobody who waits for the end of our output waits for it; at the lowest
/// priority; in the root directory, so that it keeps none busy. Nobody waits for it.
pub fn spawn_detached(program: &Path, argv0: &OsStr, args: &[&OsStr]) -> io::Result<()> {
    let mut command = Command::new(program);
    command.arg0(argv0).args(args).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let detach = || {
        // Courtesies: a kernel that refuses one of them makes the program no less able to do its work.
        // SAFETY: plain system calls without pointers, allowed between fork and exec.
        unsafe {
            libc::setsid();
            libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST);
            libc::syscall(libc::SYS_close_range, FIRST_OTHER, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        Ok(())
    };
    // SAFETY: `detach` allocates nothing, takes no lock and touches no memory of ours.
    unsafe { command.pre_exec(detach) };
    command.spawn().map(drop)
}

/// The "nice" value of what gives way to everybody.
const LOWEST: libc::c_int = 19;
/// The first descriptor that is not a standard stream.
const FIRST_OTHER: libc::c_uint = 3;

fn environment_with((name, value): (&OsStr, &OsStr)) -> Result<Vec<CString>, io::Error> {
    let others = std::env::vars_os().filter(|(other, _)| other != name);
    let all = others.chain([(name.to_owned(), value.to_owned())]);
    let line = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(io::Error::from)
    };
    all.map(line).collect()
}

/// How long the calling thread has run.
pub fn thread_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // A clock that only grows from zero: neither part is negative.
    std::time::Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How often threads of this process have begun to wait, for a disk, a lock or each other. Source: `getrusage(2)`, voluntary context switches.
pub fn waits() -> u64 {
    usage(libc::RUSAGE_SELF).ru_nvcsw.unsigned_abs()
}

/// The same of the calling thread alone.
pub fn thread_waits() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nvcsw.unsigned_abs()
}

/// Whether a block device had to be read for this process so far, if only for its own code. Source: `getrusage(2)`, `ru_inblock`.
pub fn has_read_block_device() -> bool {
    usage(libc::RUSAGE_SELF).ru_inblock > 0
}

fn usage(of: libc::c_int) -> libc::rusage {
    // SAFETY: all zeros is a value of this struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours to be written to. It stays zero if the call fails.
    unsafe { libc::getrusage(of, &mut usage) };
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_one_is_and_impossible_ones_are_not() {
        assert_eq!(is_running(u64::from(std::process::id())), Some(true));
        assert_eq!(is_running(i32::MAX as u64), Some(false));
        assert_eq!(is_running(0), None);
        assert_eq!(is_running(u64::MAX), None);
    }

    #[test]
    fn what_cannot_be_run_is_an_error() {
        let argv = ["x".into()];
        assert_eq!(exec("/does/not/exist".as_ref(), &argv, None).kind(), io::ErrorKind::NotFound);
        assert_eq!(exec("a\0b".as_ref(), &argv, None).kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_detached_program_holds_no_pipe_of_ours() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let fifo = place.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("can be run").success());
        let script = format!("echo there > '{}'", fifo.display());
        spawn_detached("/bin/sh".as_ref(), "sh".as_ref(), &["-c".as_ref(), script.as_ref()])
            .expect("started");
        assert_eq!(std::fs::read(&fifo).expect("it writes"), b"there\n");
        let missing = spawn_detached("/does/not/exist".as_ref(), "x".as_ref(), &[]);
        assert_eq!(missing.expect_err("not there").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_lock_is_held_until_its_file_is_closed() {
        let file = tempfile::NamedTempFile::new().expect("a file for tests");
        let first = File::from(file.reopen().expect("opened"));
        let second = File::from(file.reopen().expect("opened"));
        assert!(try_lock(&first).expect("locked"));
        assert!(!try_lock(&second).expect("tried"));
        drop(first);
        assert!(try_lock(&second).expect("locked"));
    }
}
