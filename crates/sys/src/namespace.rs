//! User and mount namespaces: mounts that are visible only to the processes of one namespace.
//!
//! The kernel refuses every call here to a process with more than one thread, so the calls must
//! come before the first thread starts.

use std::{
    ffi::OsStr,
    fmt, fs, io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::PathBuf,
    process::Command,
};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, getegid, geteuid, pidfd_open, pidfd_send_signal, waitpid,
    },
    thread::{ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, unshare_unsafe},
};

use crate::{
    file::Closing,
    profile::{Phase, call, retried},
};

/// Moves this process into a new user namespace and a new mount namespace. It has all capabilities
/// there. User and group ids stay the same: all ids that the process may map if it is privileged,
/// otherwise only its own.
pub fn enter_new() -> io::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let outside = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let (users, groups) = (outside("/proc/self/uid_map"), outside("/proc/self/gid_map"));
    let parts = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    // SAFETY: only `CLONE_FILES` could break the use of descriptors by other threads, and it is not
    // set.
    call(Phase::Other, || unsafe { unshare_unsafe(parts) })?;
    map_users(&users, uid, gid, &groups)
}

/// Returns the kernel's error if it refuses a new user namespace and a new mount namespace to this
/// process: a container's filter of system calls, a limit, or a security module. A child process
/// tries it, so this process stays as it is.
pub fn probe() -> io::Result<()> {
    /// Reports success: the child must not start a program.
    const ENTERED: Errno = Errno::XDEV;
    let enter = || {
        let parts = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
        // SAFETY: only `CLONE_FILES` could break the use of descriptors by other threads, and it is
        // not set.
        unsafe { unshare_unsafe(parts) }?;
        Err(ENTERED.into())
    };
    let mut child = Command::new("/");
    // SAFETY: `enter` allocates nothing, takes no lock and touches no memory of this process.
    unsafe { child.pre_exec(enter) };
    match call(Phase::Other, || child.spawn()) {
        Err(error) if error.raw_os_error() == Some(ENTERED.raw_os_error()) => Ok(()),
        Err(error) => Err(error),
        Ok(mut child) => child.wait().map(drop),
    }
}

/// Moves this process into a new mount namespace. Needs the right to mount.
pub fn enter_new_mounts() -> io::Result<()> {
    // SAFETY: as in `enter_new`.
    Ok(call(Phase::Other, || unsafe { unshare_unsafe(UnshareFlags::NEWNS) })?)
}

/// Makes a user namespace that maps only these ids, each to itself, and returns its descriptor. No
/// process is in it. Needs the rights of root. The process has one thread.
pub fn of_ids(uid: u32, gids: &[u32]) -> io::Result<OwnedFd> {
    let ((is_made, made), (go_on, end)) = (io::pipe()?, io::pipe()?);
    // SAFETY: the process has one thread, so the child may call everything. It ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        drop((is_made, end));
        // SAFETY: as in `enter_new`.
        if unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.is_ok() {
            let _ = rustix::io::write(&made, b"1");
            let _ = rustix::io::read(&go_on, &mut [0; 1]);
        }
        // SAFETY: this runs no destructor and no handler of the parent.
        unsafe { libc::_exit(0) }
    }
    drop((made, go_on));
    let open = || -> io::Result<OwnedFd> {
        if rustix::io::retry_on_intr(|| rustix::io::read(&is_made, &mut [0; 1]))? == 0 {
            return Err(io::Error::other("no user namespace can be made"));
        }
        let lines = |ids: &[u32]| ids.iter().map(|id| format!("{id} {id} 1\n")).collect::<String>();
        fs::write(format!("/proc/{child}/uid_map"), lines(&[uid]))?;
        // The kernel takes so many lines.
        fs::write(format!("/proc/{child}/gid_map"), lines(&gids[..gids.len().min(340)]))?;
        Ok(fs::File::open(format!("/proc/{child}/ns/user"))?.into())
    };
    let opened = open();
    drop(end);
    let child = Pid::from_raw(child).expect("a child has a positive id");
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
    opened
}

fn map_users(users: &str, uid: u32, gid: u32, groups: &str) -> io::Result<()> {
    if fs::write("/proc/self/uid_map", all_ids(users)).is_ok() {
        return fs::write("/proc/self/gid_map", all_ids(groups))
            .or_else(|_| fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n")));
    }
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    // Without this a process could give up a group that denies it access.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}

/// Returns the map of the new namespace that keeps all ids of the outer one, whose map is
/// `outside`.
fn all_ids(outside: &str) -> String {
    let ranges = outside.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace();
        let (first, count) = (numbers.next()?, numbers.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    });
    ranges.collect()
}

/// The identity of a process. Its start time distinguishes it from a later process with the same
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The start time, in clock ticks since the machine started.
    pub start: u64,
}

impl Process {
    /// Returns the identity of this process.
    pub fn current() -> io::Result<Process> {
        let pid = std::process::id();
        Process::of(pid)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns the identity of the process with this id. Returns `None` if the process does not
    /// exist, or is a zombie.
    pub fn of(pid: u32) -> io::Result<Option<Process>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(line) => Ok(start_in(&line).map(|start| Process { pid, start })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            // The process ended while its file was read.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the process has not ended.
    pub fn is_alive(&self) -> bool {
        matches!(Process::of(self.pid), Ok(Some(found)) if found == *self)
    }

    /// Returns a handle to the process. Returns `None` if it has ended.
    fn handle(&self) -> io::Result<Option<Closing<OwnedFd>>> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let handle = match retried(Phase::Open, || pidfd_open(pid, PidfdFlags::empty())) {
            Ok(handle) => Closing::new(handle),
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        // The id may have been reused before the handle was opened.
        Ok(self.is_alive().then_some(handle))
    }

    /// Sends SIGTERM to the process. Does nothing if it has ended.
    pub fn terminate(&self) -> io::Result<()> {
        let Some(handle) = self.handle()? else { return Ok(()) };
        match retried(Phase::Other, || pidfd_send_signal(handle.get(), Signal::TERM)) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Waits for the end of the process, at most `wait`. Returns false after a timeout.
    pub fn await_end(&self, wait: std::time::Duration) -> io::Result<bool> {
        let Some(handle) = self.handle()? else { return Ok(true) };
        let events = rustix::event::PollFlags::IN;
        let mut awaited = [rustix::event::PollFd::new(handle.get(), events)];
        let wait = rustix::event::Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        Ok(retried(Phase::Wait, || rustix::event::poll(&mut awaited, Some(&wait)))? > 0)
    }

    /// Moves this process into the user namespace and the mount namespace of the process `self`.
    /// The working directory becomes the root of that namespace. Returns `ESRCH` if that process
    /// has ended.
    pub fn join(&self) -> io::Result<()> {
        let handle = self.handle()?.ok_or(Errno::SRCH)?;
        let both = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
        let parts = match (self.shares("user"), self.shares("mnt")) {
            (true, true) => return Ok(()),
            // The kernel refuses to join the user namespace that a process is already in.
            (true, false) => ThreadNameSpaceType::MOUNT,
            (false, _) => both,
        };
        use std::os::fd::AsFd as _;
        Ok(call(Phase::Other, || move_into_thread_name_spaces(handle.get().as_fd(), parts))?)
    }

    /// Returns true if this process is in the same namespace of the kind `kind` (a name in
    /// `/proc/PID/ns`).
    fn shares(&self, kind: &str) -> bool {
        let ours = fs::read_link(format!("/proc/self/ns/{kind}")).ok();
        ours.is_some() && ours == fs::read_link(format!("/proc/{}/ns/{kind}", self.pid)).ok()
    }

    /// Returns the mount namespace of the process. Returns `None` if the process has ended or
    /// belongs to another user.
    pub fn mount_namespace(&self) -> Option<MountNamespace> {
        MountNamespace::of(self.pid)
    }
}

/// Returns the name of the process `pid` (`comm`).
pub fn name_of(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Returns the command lines of a process and of its ancestors, nearest first. Processes that are
/// not visible are omitted.
pub fn command_lines_up_from(pid: u32) -> Vec<Vec<Vec<u8>>> {
    let (mut lines, mut next) = (Vec::new(), Some(pid));
    while let Some(pid) = next.filter(|pid| *pid > 1 && lines.len() < MAX_ANCESTORS) {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        lines.push(line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect());
        next = fs::read(format!("/proc/{pid}/stat")).ok().and_then(|line| parent_in(&line));
    }
    lines
}

/// Returns a path by which the program of the nearest ancestor of this process whose file name is
/// `wanted` can be started. Ancestors above the first one of another user are not examined: this
/// user does not run that one's programs.
pub fn program_above(wanted: impl Fn(&OsStr) -> bool) -> Option<PathBuf> {
    let user = geteuid().as_raw();
    let mut pid = std::os::unix::process::parent_id();
    for _ in 0..MAX_ANCESTORS {
        if pid <= 1 || user_of(pid) != Some(user) {
            return None;
        }
        // The kernel follows this link to the file that runs, also if another one has its name now.
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        if fs::read_link(&program).is_ok_and(|path| path.file_name().is_some_and(&wanted)) {
            return Some(program);
        }
        pid = parent_in(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    }
    None
}

/// The limit of ancestors to examine: ids may be reused during the search.
const MAX_ANCESTORS: usize = 64;

/// The identity of a mount namespace. The kernel may reuse it after the namespace has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MountNamespace(PathBuf);

impl MountNamespace {
    /// Returns the mount namespace of this process.
    pub fn current() -> Option<MountNamespace> {
        fs::read_link("/proc/self/ns/mnt").ok().map(MountNamespace)
    }

    /// Returns the mount namespace of the process `pid`.
    pub fn of(pid: u32) -> Option<MountNamespace> {
        fs::read_link(format!("/proc/{pid}/ns/mnt")).ok().map(MountNamespace)
    }
}

impl fmt::Display for MountNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Returns true if the process `pid` exists and has ended: it is a zombie without other threads.
pub(crate) fn has_ended(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    has_ended_in(&line).unwrap_or(false)
}

/// Returns the effective user of the process `pid`. Returns `None` if it has ended.
pub fn user_of(pid: u32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(format!("/proc/{pid}")).ok().map(|stat| stat.uid())
}

/// Returns the ids of all processes that are visible to this one.
pub fn process_ids() -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

/// Returns the fields after the name in a line of `/proc/PID/stat`. The first one, field 3, is the
/// state.
fn fields_in(line: &[u8]) -> Option<std::str::SplitWhitespace<'_>> {
    // The name, in parentheses, may contain any byte.
    let after_name = line.iter().rposition(|&byte| byte == b')')? + 1;
    Some(std::str::from_utf8(&line[after_name..]).ok()?.split_whitespace())
}

/// Returns the id of the parent in a line of `/proc/PID/stat`.
fn parent_in(line: &[u8]) -> Option<u32> {
    fields_in(line)?.nth(1)?.parse().ok()
}

/// Returns the start time in a line of `/proc/PID/stat`; `None` for a process that has ended.
fn start_in(line: &[u8]) -> Option<u64> {
    if has_ended_in(line)? {
        return None;
    }
    // Field 22 of the line; the state is field 3.
    fields_in(line)?.nth(19)?.parse().ok()
}

/// Returns true if a line of `/proc/PID/stat` is of a process that has ended, and whose parent has
/// not waited for it. A process whose first thread has ended runs as long as others do.
fn has_ended_in(line: &[u8]) -> Option<bool> {
    let mut fields = fields_in(line)?;
    let state = fields.next()?;
    // Field 20 of the line is the number of threads.
    let threads: u64 = fields.nth(16)?.parse().ok()?;
    Some(matches!(state, "Z" | "X" | "x") && threads <= 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_process_is_itself_until_it_ends() {
        let current = Process::current().expect("it runs");
        assert!(current.is_alive());
        assert!(!Process { start: current.start + 1, ..current }.is_alive());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("started");
        let process = Process::of(child.id()).expect("readable").expect("it runs");
        assert!(process.start >= current.start);
        assert_eq!(process.mount_namespace(), MountNamespace::current());
        // The kernel may still be loading the program.
        let loaded = (0..1000).map(|_| command_lines_up_from(process.pid)).find(|lines| {
            std::thread::sleep(Duration::from_millis(1));
            lines[0] != [b""]
        });
        let lines = loaded.expect("it is loaded");
        assert_eq!(lines[0], [b"sleep".to_vec(), b"100".to_vec()]);
        assert!(lines.len() > 1, "this process is its parent");
        assert_eq!(program_above(|name| name == "no such program"), None);
        assert!(program_above(|_| true).is_some_and(|program| program.is_absolute()));
        assert!(process_ids().expect("listed").contains(&process.pid));
        assert!(!process.await_end(Duration::from_millis(1)).expect("it runs"));
        process.terminate().expect("it is ours");
        assert!(process.await_end(Duration::from_secs(10)).expect("it is ours"));
        // The child is a zombie: this process has not waited for it yet.
        assert!(!process.is_alive());
        child.wait().expect("it has ended");
        process.terminate().expect("nothing to do");
        assert!(process.await_end(Duration::ZERO).expect("nothing to do"));
        assert_eq!(process.join().expect_err("gone").raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 18 4711 20\n";
        assert_eq!(start_in(format!("12 (a b) {rest}").as_bytes()), Some(4711));
        assert_eq!(start_in(format!("12 (a) Z 9)) {rest}").as_bytes()), Some(4711));
        let ended = format!("12 (a) {}", rest.replace('S', "Z"));
        assert_eq!(start_in(ended.as_bytes()), None);
        // Another thread still runs.
        assert_eq!(start_in(ended.replace(" 16 1 ", " 16 2 ").as_bytes()), Some(4711));
        assert_eq!(start_in(b""), None);
        assert_eq!(parent_in(format!("12 (a b) {rest}").as_bytes()), Some(1));
    }

    #[test]
    fn maps_keep_the_numbers_inside() {
        assert_eq!(all_ids("         0          0 4294967295\n"), "0 0 4294967295\n");
        assert_eq!(all_ids(" 0 1000 1\n 1 100000 65536\n"), "0 0 1\n1 1 65536\n");
    }
}
