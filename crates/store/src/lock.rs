//! Locks: `<path>.lock` is created with `O_EXCL`, filled, and renamed over `<path>`.
//!
//! Promise: a reader of `<path>` sees either the old content or the new content, complete. While
//! the lock file exists, no other Git process and no other sapwood process changes `<path>`.
//!
//! On failure, and whenever a [`Lock`] is dropped before [`Lock::commit`], the lock file is removed
//! and `<path>` is unchanged. There is no registry of locks and no signal handler: an interrupted
//! command stops by returning, which drops its locks. A killed process leaves the lock file behind,
//! as Git does. [`Error::Locked`] then reports the file to the next process. Commands of worktrees
//! also write [`claims`], by which the next one removes such a file.

use std::{
    ffi::OsString,
    fmt,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use sys::{File, by_path};

use crate::{
    Components, Error, Fsync, SharedRepository, aside,
    claims::{self, Claim},
};

/// Options for taking a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// The time to wait for another process's lock.
    pub wait: Wait,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// `core.lockfilePid`: write the process id into `<path>~pid.lock`.
    pub record_pid: bool,
}

/// The time to wait for a lock that another process holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Try once.
    #[default]
    No,
    /// At least this long, with growing intervals between attempts.
    Millis(u32),
    /// Until the lock is free.
    Forever,
}

impl Wait {
    /// Converts the value of `core.filesRefLockTimeout` or `core.packedRefsTimeout`: milliseconds.
    /// 0 means one attempt, and a negative value means no limit.
    pub fn from_config(millis: i64) -> Wait {
        match millis {
            0 => Wait::No,
            1.. => Wait::Millis(u32::try_from(millis).unwrap_or(u32::MAX)),
            _ => Wait::Forever,
        }
    }
}

/// The holder of a lock, if it is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No process id is recorded (`core.lockfilePid`).
    Unknown,
    /// The process with this id, which exists.
    Running(u64),
    /// The process with this id, which no longer exists.
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

/// A lock that this process holds; see the module.
#[derive(Debug)]
pub struct Lock {
    /// The locked path, with symbolic links resolved.
    path: PathBuf,
    lock_path: PathBuf,
    pid_path: Option<PathBuf>,
    file: Option<File>,
    held: bool,
    claim: Option<Claim>,
}

impl Lock {
    /// Locks `path`. If it is a symbolic link, locks and later replaces the file that it points to.
    pub fn take(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
        Lock::acquire(path, follow(path.to_owned()), options)
    }

    /// Locks `path` itself, even if it is a symbolic link. For refs.
    pub fn take_no_follow(path: &Path, options: &LockOptions) -> Result<Lock, Error> {
        Lock::acquire(path, path.to_owned(), options)
    }

    /// Waits like [`Lock::take_no_follow`], but takes no lock. Returns an error if another process
    /// still holds the lock after the wait.
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
        aside(|| Lock::create(named, path, options))
    }

    fn create(named: &Path, path: PathBuf, options: &LockOptions) -> Result<Lock, Error> {
        let lock_path = with_suffix(&path, ".lock");
        let created = wait_for(options.wait, || claims::create(&lock_path)).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                Error::Locked { path: with_suffix(named, ".lock"), holder: holder_of(named) }
            } else {
                Error::CannotLock { path: with_suffix(named, ".lock"), source }
            }
        });
        let (file, claim) = created?;
        let mut lock = Lock { path, lock_path, pid_path: None, file: Some(file), held: true, claim };
        let adjusted = options.shared.adjust_file(lock.file());
        adjusted.map_err(|source| lock.error("fix permission bits on", source))?;
        if options.record_pid {
            lock.record_pid();
        }
        Ok(lock)
    }

    /// Gives the lock file the permissions of the file that it will replace, if there is one.
    pub fn keep_mode(&self) -> Result<(), Error> {
        let mode = by_path::stat_followed(&self.path)
            .map_err(|source| Error::Io { what: "stat", path: self.path.clone(), source })?
            .map(|stat| stat.mode & 0o7777);
        match mode {
            Some(mode) => {
                let set = aside(|| sys::set_mode(self.file(), mode));
                set.map_err(|source| self.error("set the mode of", source))
            }
            None => Ok(()),
        }
    }

    /// Removes the write permission of the file, for files that are replaced but never changed.
    pub fn forbid_writing(&self) -> Result<(), Error> {
        let found = sys::stat_of(self.file()).map_err(|source| self.error("stat", source))?;
        let set = aside(|| sys::set_mode(self.file(), found.mode & 0o444));
        set.map_err(|source| self.error("set the mode of", source))
    }

    /// Writes the process id. A failure is ignored: the lock works without this record.
    fn record_pid(&mut self) {
        let path = with_suffix(&self.path, "~pid.lock");
        let Ok(mut file) = by_path::create_new(&path, 0o666) else { return };
        self.pid_path = Some(path);
        let _ = writeln!(file, "pid {}", std::process::id());
    }

    /// Returns the path that will be replaced.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes the path that the lock file replaces. The lock stays on the original path.
    pub fn deliver_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Returns the path of the lock file.
    pub fn lock_path(&self) -> &Path {
        &self.lock_path
    }

    /// Returns the lock file, open for writing. Panics after [`Lock::close`].
    pub fn file(&self) -> &File {
        self.file.as_ref().expect("the lock file is open until it is closed")
    }

    /// Appends to the lock file.
    pub fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        self.file().write_all(content).map_err(|source| self.error("write", source))
    }

    /// Syncs the lock file if `component` is hardened.
    pub fn sync(&self, fsync: &Fsync, component: Components) -> Result<(), Error> {
        fsync.file(component, self.file()).map_err(|source| self.error("sync", source))
    }

    /// Closes the lock file and keeps the lock. A transaction over many refs would otherwise run
    /// out of descriptors. An error of `close` may be the only sign that the data did not fit on
    /// the disk.
    pub fn close(&mut self) -> Result<(), Error> {
        match self.file.take() {
            Some(file) => sys::close(file).map_err(|source| self.error("close", source)),
            None => Ok(()),
        }
    }

    /// Returns true while the lock file exists, that is, until it is published.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Truncates the lock file, so that it can be written again.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        let file = aside(|| by_path::open_to_rewrite(&self.lock_path));
        self.file = Some(file.map_err(|source| self.error("open", source))?);
        Ok(())
    }

    /// Renames the lock file over the path.
    pub fn commit(mut self) -> Result<(), Error> {
        self.publish()
    }

    /// Like [`Lock::commit`], but keeps the lock after an error.
    pub(crate) fn publish(&mut self) -> Result<(), Error> {
        self.close()?;
        by_path::rename(&self.lock_path, &self.path).map_err(|source| self.error("rename", source))?;
        self.held = false;
        self.claim = None;
        Ok(())
    }

    /// Runs [`Lock::sync`] and [`Lock::commit`], then syncs the directory if `component` is
    /// hardened.
    pub fn commit_synced(self, fsync: &Fsync, component: Components) -> Result<(), Error> {
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
            && let Err(error) = aside(|| by_path::remove_file(&self.lock_path))
            && error.kind() != io::ErrorKind::NotFound
        {
            // A drop cannot return an error. Git prints the same message.
            let (path, reason) = (self.lock_path.display(), sys::reason(&error));
            let _ = writeln!(io::stderr(), "warning: unable to unlink '{path}': {reason}");
        }
        if let Some(path) = &self.pid_path {
            let _ = aside(|| by_path::remove_file(path));
        }
    }
}

/// Syncs the directory of `path`, so that the name of `path` survives a crash.
pub(crate) fn sync_parent(fsync: &Fsync, component: Components, path: &Path) -> Result<(), Error> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let io = |source| Error::Io { what: "sync", path: parent.to_owned(), source };
    fsync.directory(component, parent).map_err(io)
}

/// Appends `suffix` to the last component of `path`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Follows symbolic links, at most five as in Git. The last one may be dangling.
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
    // As in Git, a zombie counts as running.
    match pid.and_then(|pid| Some((pid, sys::process_exists(pid)?))) {
        None => Holder::Unknown,
        Some((pid, true)) => Holder::Running(pid),
        Some((pid, false)) => Holder::Gone(pid),
    }
}

/// Repeats `attempt` while it reports that the file exists. The delays are 1, 4, 9, ...
/// milliseconds, at most a second. Each varies by up to a quarter, so that two waiting processes do
/// not stay in step.
fn wait_for<T>(wait: Wait, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut remaining = match wait {
        Wait::No => Some(0),
        Wait::Millis(millis) => Some(i64::from(millis)),
        Wait::Forever => None,
    };
    let mut random = u64::from(std::process::id()) | 1;
    let mut step = 1u64;
    loop {
        sys::interrupt::check()?;
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if remaining.is_some_and(|millis| millis <= 0) {
                    return Err(error);
                }
            }
            answer => return answer,
        }
        // xorshift64; the quality of the random numbers does not matter.
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
