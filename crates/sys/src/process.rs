//! Processes: locks, replacing this one, starting others, and resource usage.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::FlockOperation,
    io::Errno,
    process::Pid,
};

use crate::File;

/// Returns true if a process with this id runs, even if this process may not signal it. A zombie
/// does not run: in a container, it may stay until the container ends. Returns `None` if `pid` is
/// out of range.
pub fn is_running(pid: u64) -> Option<bool> {
    let has_ended = || u32::try_from(pid).is_ok_and(crate::namespace::has_ended);
    process_exists(pid).map(|exists| exists && !has_ended())
}

/// Returns true if a process with this id exists, which may be a zombie. Returns `None` if `pid` is
/// out of range.
pub fn process_exists(pid: u64) -> Option<bool> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    Some(rustix::process::test_kill_process(pid) != Err(Errno::SRCH))
}

/// Sends SIGTERM to a child of this process that was not waited for. The child may have ended.
pub fn terminate(child: &std::process::Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The signal has no effect on a zombie.
    let _ = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
}

/// Takes an exclusive `flock` without waiting. Returns false if another open file holds it. The
/// lock lasts until `file` is closed, so the end of the process always releases it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Takes an exclusive `flock`, and waits while another open file holds one, or until a signal
/// arrives. The lock lasts until `file` is closed.
pub fn lock(file: &File) -> io::Result<()> {
    crate::interrupt::waiting(|| rustix::fs::flock(file, FlockOperation::LockExclusive))
}

/// Returns true for the error of an exclusive `flock` on NFS, if the file is open for reading only.
pub fn is_lock_of_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::BADF.raw_os_error())
}

/// Takes a shared `flock` without waiting. Returns false if another open file holds an exclusive
/// one. The lock lasts until `file` is closed.
pub fn try_lock_shared(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if this process ignores the signal, as under `nohup`.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a valid `sigaction`. Without a new action, `sigaction` only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let read = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        read == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Waits until one of the streams can be read, or has ended. Returns true for each such stream.
pub fn wait_to_read(first: impl AsFd, second: impl AsFd) -> io::Result<(bool, bool)> {
    let mut awaited = [PollFd::new(&first, PollFlags::IN), PollFd::new(&second, PollFlags::IN)];
    crate::by_path::uninterrupted(|| Ok(rustix::event::poll(&mut awaited, None)?))?;
    Ok((!awaited[0].revents().is_empty(), !awaited[1].revents().is_empty()))
}

/// Waits until the stream can be read or has ended. Returns false after the timeout `time`.
pub fn wait_to_read_for(stream: impl AsFd, time: std::time::Duration) -> io::Result<bool> {
    let time = rustix::time::Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    let mut awaited = [PollFd::new(&stream, PollFlags::IN)];
    let ready = crate::by_path::uninterrupted(|| Ok(rustix::event::poll(&mut awaited, Some(&time))?))?;
    Ok(ready > 0)
}

/// Enables keepalive probes, so that the kernel detects a lost connection (`SO_KEEPALIVE`).
pub fn keep_alive(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is a C integer, which lives throughout the call.
    let result = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(&socket.as_fd()),
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns true if standard input is a regular file.
pub fn stdin_is_file() -> bool {
    let stat = rustix::fs::fstat(rustix::stdio::stdin());
    stat.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Reads standard input, without the buffer of Rust's library.
pub fn read_stdin(buffer: &mut [u8]) -> io::Result<usize> {
    crate::by_path::uninterrupted(|| Ok(rustix::io::read(rustix::stdio::stdin(), &mut *buffer)?))
}

/// Restores the default action of the signals that end a program. Ignored signals stay ignored.
pub fn end_by_signals() {
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        if is_ignored(number) {
            continue;
        }
        // SAFETY: the default action of a signal needs no handler; the numbers are valid.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
}

/// True if SIGPIPE was ignored before [`ignore_broken_pipes`].
static IGNORED_PIPES: AtomicBool = AtomicBool::new(false);

/// Ignores SIGPIPE until [`exec`].
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: setting a signal to be ignored needs only a valid number.
    let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    IGNORED_PIPES.store(before == libc::SIG_IGN, Ordering::Relaxed);
}

/// Replaces this program by another one in the same process (`execve`). Returns only on failure.
/// The new program gets the same environment, plus `variable` if it is given.
///
/// SIGPIPE, which Rust programs ignore, gets its default action again, unless it was ignored at the
/// start. The kernel resets handlers of other signals. Signals that the parent process blocked or
/// ignored stay so.
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
    let was_ignored = IGNORED_PIPES.load(Ordering::Relaxed);
    let pipe_action = if was_ignored { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: `program` is a NUL-terminated string. So is every pointer of `argv` and `environment`
    // but the last, which is null as execve(2) demands. The bindings that own the strings live
    // until the end of this function. Setting a signal's action needs only a valid number.
    let old = unsafe {
        let old = libc::signal(libc::SIGPIPE, pipe_action);
        match &environment {
            Some(environment) => libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()),
            None => libc::execv(program.as_ptr(), argv.as_ptr()),
        };
        old
    };
    let error = io::Error::last_os_error();
    // SAFETY: restores the action that `signal` returned.
    unsafe { libc::signal(libc::SIGPIPE, old) };
    error
}

/// Starts a background program that outlives this process. It gets its own session, so the end of a
/// terminal or job does not reach it. It inherits no open file, so a process that waits for the end
/// of our output does not wait for the program. It runs at the lowest priority, and in the root
/// directory, so that it keeps no mount busy. The caller does not wait for it.
pub fn spawn_detached(program: &Path, argv0: &OsStr, args: &[&OsStr]) -> io::Result<()> {
    let mut command = detached(program, argv0, args);
    let lower = || {
        // An error is ignored: the program works at normal priority too.
        // SAFETY: a plain system call without pointers, allowed between fork and exec.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST) };
        Ok(())
    };
    // SAFETY: `lower` allocates nothing, takes no lock and touches no memory of this process.
    unsafe { command.pre_exec(lower) };
    command.spawn().map(drop)
}

/// Like [`spawn_detached`], at normal priority. Returns the read end of the program's standard
/// output.
pub fn spawn_service(program: &Path, argv0: &OsStr, args: &[&OsStr]) -> io::Result<File> {
    let mut child = detached(program, argv0, args).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("it is a pipe");
    Ok(std::fs::File::from(std::os::fd::OwnedFd::from(output)).into())
}

/// The result of a program.
#[derive(Debug)]
pub struct Ended {
    /// True if its exit code is 0.
    pub is_success: bool,
    /// The content of its standard error.
    pub errors: Vec<u8>,
}

/// Runs a program in the directory `dir` and waits for its end. Like [`spawn_detached`], at normal
/// priority: a process that the program leaves in the background does not belong to our session and
/// has none of our files.
pub fn run_detached(program: &Path, args: &[&OsStr], dir: &Path) -> io::Result<Ended> {
    let mut command = detached(program, program.as_os_str(), args);
    let output = command.current_dir(dir).stderr(Stdio::piped()).output()?;
    Ok(Ended { is_success: output.status.success(), errors: output.stderr })
}

fn detached(program: &Path, argv0: &OsStr, args: &[&OsStr]) -> Command {
    crate::interrupt::install();
    crate::changes::note();
    let mut command = Command::new(program);
    command.arg0(argv0).args(args).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let detach = || {
        // Each call is optional: an error is ignored, because the program works without it.
        // SAFETY: plain system calls without pointers, allowed between fork and exec.
        unsafe {
            libc::setsid();
            libc::syscall(libc::SYS_close_range, FIRST_OTHER, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        Ok(())
    };
    // SAFETY: `detach` allocates nothing, takes no lock and touches no memory of this process.
    unsafe { command.pre_exec(detach) };
    command
}

/// The lowest priority ("nice" value).
const LOWEST: libc::c_int = 19;
/// The first descriptor after the standard streams.
const FIRST_OTHER: libc::c_uint = 3;

fn environment_with((name, value): (&OsStr, &OsStr)) -> Result<Vec<CString>, io::Error> {
    let others = std::env::vars_os().filter(|(other, _)| other != name);
    let all = others.chain([(name.to_owned(), value.to_owned())]);
    let line = |(name, value): (OsString, OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).map_err(io::Error::from)
    };
    all.map(line).collect()
}

/// Returns the CPU time of the calling thread.
pub fn thread_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // This clock counts up from zero, so neither part is negative.
    std::time::Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns how many times threads of this process blocked, for example on a disk or a lock. Source:
/// `getrusage(2)`, voluntary context switches.
pub fn waits() -> u64 {
    usage(libc::RUSAGE_SELF).ru_nvcsw.unsigned_abs()
}

/// Like [`waits`], for the calling thread only.
pub fn thread_waits() -> u64 {
    usage(libc::RUSAGE_THREAD).ru_nvcsw.unsigned_abs()
}

/// Returns true if the kernel has read a block device for this process, even if only for its own
/// code. Source: `getrusage(2)`, `ru_inblock`.
pub fn has_read_block_device() -> bool {
    usage(libc::RUSAGE_SELF).ru_inblock > 0
}

fn usage(of: libc::c_int) -> libc::rusage {
    // SAFETY: all zeros is a valid value of this structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writes. It stays zero if the call fails.
    unsafe { libc::getrusage(of, &mut usage) };
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_impossible_ids_do_not() {
        assert_eq!(is_running(u64::from(std::process::id())), Some(true));
        assert_eq!(is_running(i32::MAX as u64), Some(false));
        assert_eq!(is_running(0), None);
        assert_eq!(is_running(u64::MAX), None);
    }

    #[test]
    fn a_zombie_exists_and_does_not_run() {
        let mut child = Command::new("true").spawn().expect("started");
        let pid = u64::from(child.id());
        let is_zombie = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            is_running(pid) == Some(false)
        });
        assert!(is_zombie, "it counts as running");
        assert_eq!(process_exists(pid), Some(true));
        child.wait().expect("it has ended");
        assert_eq!((is_running(pid), process_exists(pid)), (Some(false), Some(false)));
    }

    #[test]
    fn a_missing_program_is_an_error() {
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
        // A child that another test forks has the file open until it executes.
        assert!((0..1000).any(|_| {
            let is_locked = try_lock(&second).expect("tried");
            std::thread::sleep(std::time::Duration::from_millis(if is_locked { 0 } else { 1 }));
            is_locked
        }));
    }
}
