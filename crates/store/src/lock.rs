//! Locks: `<path>.lock`, made with `O_EXCL`, filled, and renamed over `<path>`.
//!
//! Promise: whoever reads `<path>` sees the old content or the new, whole. While the lock file is
//! there, no other Git (and no other sapwood) changes `<path>`.
//!
//! On failure, and whenever a [`Lock`] is dropped before [`Lock::commit`], the lock file is removed and
//! `<path>` is as before. There is no registry of locks and no signal handler: interrupted commands
//! stop by returning, and returning drops their locks. A process killed outright leaves the lock file
//! behind, as Git's would; [`Error::Locked`] names it to whoever comes next.

use std::{
    ffi::OsString,
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use sys::{File, by_path};

use crate::{Components, Error, Fsync, SharedRepository};

/// How locks are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// How long to wait for somebody else's.
    pub wait: Wait,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// `core.lockfilePid`: say in `<path>~pid.lock` who holds it.
    pub record_pid: bool,
}

/// How long to wait for a lock somebody else holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Try once.
    #[default]
    No,
    /// At least this long, trying at growing intervals.
    Millis(u32),
    /// Until it is free.
    Forever,
}

impl Wait {
    /// From `core.filesRefLockTimeout` and `core.packedRefsTimeout`: milliseconds, 0 tries once, and
    /// anything negative waits for ever.
    pub fn from_config(millis: i64) -> Wait {
        match millis {
            0 => Wait::No,
            1.. => Wait::Millis(u32::try_from(millis).unwrap_or(u32::MAX)),
            _ => Wait::Forever,
        }
    }
}

/// Who holds a lock, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Git was not told to record it (`core.lockfilePid`).
    Unknown,
    /// This process, which exists.
    Running(u64),
    /// This process, which does not exist any more.
    Gone(u64),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Unknown => f.write_str(
                "Another git process seems to be running in this repository, or the lock file may be stale",
            ),
            Holder::Running(pid) => write!(
                f,
                "Lock may be held by process {pid}; if no git process is running, the lock file may be \
                 stale (PIDs can be reused)"
            ),
            Holder::Gone(pid) => write!(
                f,
                "Lock was held by process {pid}, which is no longer running; the lock file appears to be stale"
            ),
        }
    }
}

/// A lock that is held. See the module.
#[derive(Debug)]
pub struct Lock {
    /// What is locked, symbolic links resolved.
    path: PathBuf,
    lock_path: PathBuf,
    pid_path: Option<PathBuf>,
    file: Option<File>,
    held: bool,
}

impl Lock {
    /// Locks `path`. If it is a symbolic link, what it points to is locked and will be replaced.
    pub fn take(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
        Lock::acquire(path, follow(path.to_owned()), options)
    }

    /// Locks `path` itself, even if it is a symbolic link. For refs.
    pub fn take_no_follow(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
        Lock::acquire(path, path.to_owned(), options)
    }

    /// As [`Lock::take_no_follow`], but the lock is only waited for, not taken: an error if somebody else holds it on.
    pub fn wait_until_free(path: &Path, wait: Wait) -> Result<(), Error> {
        let lock_path = with_suffix(path, ".lock");
        let look = || match by_path::stat(&lock_path)? {
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
            None => Ok(()),
        };
        wait_for(wait, look).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::Locked { path: lock_path.clone(), holder: holder_of(path) }
            }
            _ => Error::CannotLock { path: lock_path.clone(), source },
        })
    }

    fn acquire(named: &Path, path: PathBuf, options: &LockOptions) -> Result<Lock, Error> {
        let lock_path = with_suffix(&path, ".lock");
        let file = wait_for(options.wait, || by_path::create_new(&lock_path, 0o666)).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                Error::Locked { path: with_suffix(named, ".lock"), holder: holder_of(named) }
            } else {
                Error::CannotLock { path: with_suffix(named, ".lock"), source }
            }
        })?;
        let mut lock = Lock { path, lock_path, pid_path: None, file: Some(file), held: true };
        let adjusted = options.shared.adjust_file(lock.file());
        adjusted.map_err(|source| lock.error("fix permission bits on", source))?;
        if options.record_pid {
            lock.record_pid();
        }
        Ok(lock)
    }

    /// Gives the lock file the permissions of what it will replace, if that is there.
    pub fn keep_mode(&self) -> Result<(), Error> {
        let mode = by_path::stat_followed(&self.path)
            .map_err(|source| Error::Io { what: "stat", path: self.path.clone(), source })?
            .map(|stat| stat.mode & 0o7777);
        match mode {
            Some(mode) => {
                sys::set_mode(self.file(), mode).map_err(|source| self.error("set the mode of", source))
            }
            None => Ok(()),
        }
    }

    /// A record of the holder is a courtesy; where it cannot be written, the lock holds without.
    fn record_pid(&mut self) {
        let path = with_suffix(&self.path, "~pid.lock");
        let Ok(mut file) = by_path::create_new(&path, 0o666) else { return };
        self.pid_path = Some(path);
        let _ = writeln!(file, "pid {}", std::process::id());
    }

    /// What will be replaced.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is written goes there, and what is locked stays as it is.
    pub fn deliver_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// The lock file.
    pub fn lock_path(&self) -> &Path {
        &self.lock_path
    }

    /// The lock file, open for writing. Panics after [`Lock::close`].
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("the lock file is open until it is closed")
    }

    /// Appends to the lock file.
    pub fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        self.file().write_all(content).map_err(|source| self.error("write", source))
    }

    /// Brings what was written to the disk, if `component` is hardened.
    pub fn sync(&mut self, fsync: &Fsync, component: Components) -> Result<(), Error> {
        fsync.file(component, self.file()).map_err(|source| self.error("sync", source))
    }

    /// Closes the lock file; the lock is still held. Transactions over many refs would run out of
    /// descriptors otherwise. What was written may turn out only here not to have fitted.
    pub fn close(&mut self) -> Result<(), Error> {
        match self.file.take() {
            Some(file) => sys::close(file).map_err(|source| self.error("close", source)),
            None => Ok(()),
        }
    }

    /// Whether the lock file is there: until it was published.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Empties the lock file, to be written once more.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        let file = by_path::open_to_rewrite(&self.lock_path);
        self.file = Some(file.map_err(|source| self.error("open", source))?);
        Ok(())
    }

    /// Publishes what was written: renames the lock file over the path.
    pub fn commit(mut self) -> Result<(), Error> {
        self.publish()
    }

    /// As [`Lock::commit`]; after an error the lock is held as before.
    pub(crate) fn publish(&mut self) -> Result<(), Error> {
        self.close()?;
        by_path::rename(&self.lock_path, &self.path).map_err(|source| self.error("rename", source))?;
        self.held = false;
        Ok(())
    }

    /// [`Lock::sync`], [`Lock::commit`], and the directory synced if `component` is hardened.
    pub fn commit_synced(mut self, fsync: &Fsync, component: Components) -> Result<(), Error> {
        self.sync(fsync, component)?;
        let path = self.path.clone();
        self.commit()?;
        sync_parent(fsync, component, &path)
    }

    fn error(&self, what: &'static str, source: io::Error) -> Error {
        Error::Io { what, path: self.lock_path.clone(), source }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.held
            && let Err(error) = by_path::remove_file(&self.lock_path)
            && error.kind() != io::ErrorKind::NotFound
        {
            // There is nobody to return it to. Git says the same.
            let (path, reason) = (self.lock_path.display(), sys::reason(&error));
            let _ = writeln!(io::stderr(), "warning: unable to unlink '{path}': {reason}");
        }
        if let Some(path) = &self.pid_path {
            let _ = by_path::remove_file(path);
        }
    }
}

/// Makes the name `path` last.
pub(crate) fn sync_parent(fsync: &Fsync, component: Components, path: &Path) -> Result<(), Error> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let io = |source| Error::Io { what: "sync", path: parent.to_owned(), source };
    fsync.directory(component, parent).map_err(io)
}

/// `path` with `suffix` put to its last component.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Where a symbolic link leads, five links at most, as Git has it. The last may lead nowhere.
fn follow(mut path: PathBuf) -> PathBuf {
    for _ in 0..5 {
        match by_path::read_link(&path) {
            // An absolute target replaces the whole path.
            Ok(Some(target)) => path = path.parent().map(|dir| dir.join(&target)).unwrap_or(target),
            _ => break,
        }
    }
    path
}

fn holder_of(path: &Path) -> Holder {
    let recorded = by_path::read(&with_suffix(path, "~pid.lock")).ok().flatten();
    let pid = recorded
        .and_then(|content| String::from_utf8(content).ok())
        .and_then(|text| text.trim_end().strip_prefix("pid ")?.parse().ok());
    match pid.and_then(|pid| Some((pid, sys::is_running(pid)?))) {
        None => Holder::Unknown,
        Some((pid, true)) => Holder::Running(pid),
        Some((pid, false)) => Holder::Gone(pid),
    }
}

/// Repeats `attempt` while it answers that the file exists: after 1, 4, 9, ... milliseconds, a
/// second at most, each a quarter more or less so that two who wait for each other do not meet again.
fn wait_for<T>(wait: Wait, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut remaining = match wait {
        Wait::No => Some(0),
        Wait::Millis(millis) => Some(i64::from(millis)),
        Wait::Forever => None,
    };
    let mut random = u64::from(std::process::id()) | 1;
    let mut step = 1u64;
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if remaining.is_some_and(|millis| millis <= 0) {
                    return Err(error);
                }
            }
            answer => return answer,
        }
        // xorshift64: any spread will do.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let millis = (750 + random % 500) * (step * step).min(1000) / 1000;
        std::thread::sleep(Duration::from_millis(millis));
        remaining = remaining.map(|left| left - millis as i64);
        step += 1;
    }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
