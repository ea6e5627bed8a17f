//! Files at any path, with symbolic links followed as the kernel does. For the Git directory and
//! for paths from the user. Paths from a tree must not be used here: [`crate::Dir`] handles them.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _},
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, PermissionsExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT},
    io::retry_on_intr,
};

use crate::{
    File, FileType, Listing, Stat, changes,
    file::Closing,
    interrupt,
    profile::{Phase, call, retried},
    stat::stat_at,
};

/// Opens a file for reading. A signal ends the wait for the writer of a FIFO.
pub fn open(path: &Path) -> io::Result<File> {
    open_waiting(path, OFlags::RDONLY, 0)
}

/// Runs `open`. A signal ends a wait.
fn open_waiting(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    if flags != OFlags::RDONLY && flags != OFlags::RDONLY.union(OFlags::NOFOLLOW) {
        interrupt::install();
        changes::before_change();
    }
    let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode));
    let opened = interrupt::waiting(|| {
        // After a signal nothing waits. Regular files are opened as before.
        let waits = if interrupt::is_raised() { OFlags::NONBLOCK } else { OFlags::empty() };
        call(Phase::Open, || rustix::fs::open(path, flags | waits, mode))
    })?;
    Ok(File::from_fd(Closing::new(opened)))
}

/// Creates a file for writing (`O_EXCL`), with the permission bits of `mode` minus the umask.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    open_waiting(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
}

/// Like [`create_new`], but the file can also be read.
pub fn create_new_readable(path: &Path, mode: u32) -> io::Result<File> {
    open_waiting(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)
}

/// Opens an existing file for writing and truncates it.
pub fn open_to_rewrite(path: &Path) -> io::Result<File> {
    open_waiting(path, OFlags::WRONLY | OFlags::TRUNC, 0)
}

/// Returns the disk space that a file occupies, in bytes; 0 if it is missing.
pub fn room(path: &Path) -> io::Result<u64> {
    let stat = absent_is_none(call(Phase::Stat, || std::fs::metadata(path)))?;
    Ok(stat.map_or(0, |stat| std::os::unix::fs::MetadataExt::blocks(&stat) * 512))
}

/// Opens an existing file for writing at any offset.
pub fn open_to_change(path: &Path) -> io::Result<File> {
    open_waiting(path, OFlags::WRONLY, 0)
}

/// Opens an existing file for reading, and for writing at any offset.
pub fn open_to_edit(path: &Path) -> io::Result<File> {
    open_waiting(path, OFlags::RDWR, 0)
}

/// Opens a file for appending. If `create` is set, creates a missing file with the permission bits
/// of `mode` minus the umask.
pub fn append(path: &Path, create: bool, mode: u32) -> io::Result<File> {
    let create = if create { OFlags::CREATE } else { OFlags::empty() };
    open_waiting(path, OFlags::WRONLY | OFlags::APPEND | create, mode)
}

/// Opens a lock file for appending, and creates it if it is missing. Does not follow a symbolic
/// link (`ELOOP`), and does not wait for a FIFO. It is no change for [`changes`]: Git does not know
/// these files.
pub fn lock_file(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    changes::aside(|| open_waiting(path, flags, mode))
}

/// Reads a whole file. Returns `None` if it does not exist (`ENOENT`, `ENOTDIR`).
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let whole = || {
        let mut content = Vec::new();
        open(path)?.read_to_end(&mut content)?;
        Ok(content)
    };
    absent_is_none(uninterrupted(whole))
}

/// The result of [`read_or_link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No file (`ENOENT`).
    Absent,
    /// A directory.
    Directory,
    /// A symbolic link whose target was accepted as the result.
    Link(PathBuf),
    /// A symbolic link to a missing file.
    Dangling,
    /// A symbolic link to a directory.
    LinkedDirectory,
    /// The content of a file, links followed.
    Bytes(Vec<u8>),
}

/// Reads the file at a path without a stat: opens it with `O_NOFOLLOW` and reads it, which fails
/// for a link and for a directory. Then follows a link, unless `is_answer` accepts its target.
/// Returns `ELOOP` if the link leads to itself. A file of `expected` bytes takes one read.
pub fn read_or_link(path: &Path, expected: u64, is_answer: impl Fn(&Path) -> bool) -> io::Result<Content> {
    const TRIES: usize = 3;
    let mut last = io::ErrorKind::NotFound.into();
    // Another process may replace a link by a file in between, so this retries.
    for _ in 0..TRIES {
        match open_waiting(path, OFlags::RDONLY | OFlags::NOFOLLOW, 0) {
            Ok(file) => {
                let mut bytes = Vec::new();
                return match crate::read_to_end(&file, expected, &mut bytes) {
                    Ok(()) => Ok(Content::Bytes(bytes)),
                    Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(Content::Directory),
                    Err(error) => Err(error),
                };
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::Absent),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                match read_link(path)? {
                    Some(target) if is_answer(&target) => return Ok(Content::Link(target)),
                    Some(_) => return behind_link(path),
                    None => last = error,
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn behind_link(path: &Path) -> io::Result<Content> {
    match read(path) {
        Ok(content) => Ok(content.map_or(Content::Dangling, Content::Bytes)),
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(Content::LinkedDirectory),
        Err(error) => Err(error),
    }
}

/// Runs `lstat`. Returns `None` if the path does not exist.
pub fn stat(path: &Path) -> io::Result<Option<Stat>> {
    stat_at(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Runs `stat`, which follows links. Returns `None` if the path does not exist or the link is
/// dangling.
pub fn stat_followed(path: &Path) -> io::Result<Option<Stat>> {
    stat_at(CWD, path, AtFlags::empty())
}

/// Returns an error if this user may not run the program at `path` (`access`, `X_OK`).
pub fn may_be_run(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Stat, || rustix::fs::access(path, Access::EXEC_OK).map_err(io::Error::from)))
}

/// Returns an error if this user may not create names in the directory `path` (`access`, `W_OK`).
pub fn may_be_written(path: &Path) -> io::Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    uninterrupted(|| call(Phase::Stat, || rustix::fs::access(path, access).map_err(io::Error::from)))
}

/// Runs `unlink`.
pub fn remove_file(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Remove, || fs::remove_file(path)))
}

/// Runs `rename`.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Link, || fs::rename(from, to)))
}

/// Runs `renameat2` with `RENAME_NOREPLACE`. Returns `EEXIST` if `to` exists, even as an empty
/// directory.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    Ok(retry_on_intr(|| call(Phase::Link, || rustix::fs::renameat_with(CWD, from, CWD, to, flags)))?)
}

/// Runs `link`: adds the name `to` for `from`. Does not follow `from` if it is a symbolic link.
pub fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Link, || fs::hard_link(from, to)))
}

/// Adds the name `to` for an open file, whatever its own name leads to by now.
pub fn hard_link_open(file: &File, to: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let flags = AtFlags::SYMLINK_FOLLOW;
    Ok(retried(Phase::Link, || rustix::fs::linkat(CWD, from.as_str(), CWD, to, flags))?)
}

/// Runs `symlink`.
pub fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Link, || std::os::unix::fs::symlink(target, path)))
}

/// Creates a whiteout of an overlay file system: a character device with the number 0, which needs
/// no privileges.
pub fn create_whiteout(path: &Path) -> io::Result<()> {
    let kind = rustix::fs::FileType::CharacterDevice;
    changes::before_change();
    Ok(retried(Phase::Write, || rustix::fs::mknodat(CWD, path, kind, rustix::fs::Mode::empty(), 0))?)
}

/// Runs `readlink`. Returns `None` if the path does not exist or is not a link.
pub fn read_link(path: &Path) -> io::Result<Option<PathBuf>> {
    match uninterrupted(|| call(Phase::Read, || fs::read_link(path))) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        answer => absent_is_none(answer),
    }
}

/// Runs `mkdir` with mode 0777; the umask applies.
pub fn create_dir(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::MakeDir, || fs::DirBuilder::new().mode(0o777).create(path)))
}

/// Creates a directory that only this user may enter.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::MakeDir, || fs::DirBuilder::new().mode(0o700).create(path)))
}

/// Creates the directory and all missing parents.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    let there_or = |error: io::Error| match stat_followed(path) {
        Ok(Some(stat)) if stat.file_type == FileType::Directory => Ok(()),
        // The path exists, but its stat failed: return that failure, which is the cause.
        Err(failed) if error.kind() == io::ErrorKind::AlreadyExists => Err(failed),
        _ => Err(error),
    };
    match create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(parent) => {
                create_dir_all(parent)?;
                create_dir(path).or_else(there_or)
            }
            None => Err(error),
        },
        made => made.or_else(there_or),
    }
}

/// Sets access and modification time to now. Follows links. Write access suffices, as for Git's
/// `utime`.
pub fn touch(path: &Path) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    changes::before_change();
    uninterrupted(|| {
        call(Phase::Write, || {
            rustix::fs::utimensat(CWD, path, &times, AtFlags::empty()).map_err(io::Error::from)
        })
    })
}

/// Sets the modification time of a file, a directory, or a symbolic link itself: seconds and
/// nanoseconds. The access time stays.
pub fn set_modified(path: &Path, time: (i64, u32)) -> io::Result<()> {
    let times = only_modified(time);
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    changes::before_change();
    Ok(retried(Phase::Write, || rustix::fs::utimensat(CWD, path, &times, flags))?)
}

pub(crate) fn only_modified(time: (i64, u32)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: time.0, tv_nsec: time.1.into() },
    }
}

/// Runs `chmod`: sets the permission bits, without the umask. Follows links.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    changes::before_change();
    uninterrupted(|| call(Phase::Write, || fs::set_permissions(path, fs::Permissions::from_mode(mode))))
}

/// Runs `rmdir`.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Remove, || fs::remove_dir(path)))
}

/// Removes a directory with its content. Removes links and does not follow them. The profile counts
/// one call, however many it takes.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Remove, || fs::remove_dir_all(path)))
}

/// Returns names and types of a directory's entries other than `.` and `..`, in the directory's
/// order.
pub fn list(path: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    Listing::default().read_path(path, |entry| {
        names.push((OsString::from_vec(entry.name.to_vec()), entry.file_type));
        Ok::<_, io::Error>(())
    })?;
    Ok(names)
}

/// Returns the absolute path without links, `.` and `..`. The path must exist. The profile counts
/// one call, however many it takes.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    uninterrupted(|| call(Phase::Read, || fs::canonicalize(path)))
}

/// Like [`canonical`], but the last component need not exist. If it is a link, the last component
/// of the target need not exist either. Like Git's `strbuf_realpath`.
pub fn realpath(path: &Path) -> io::Result<PathBuf> {
    canonical(path).or_else(|error| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let parent = canonical(parent)?;
            let place = parent.join(name);
            match read_link(&place)? {
                Some(target) => realpath(&parent.join(target)),
                None => Ok(place),
            }
        }
        _ => Err(error),
    })
}

/// Returns true if this process may enter the directory, or run the file (`access` with `X_OK`).
pub fn is_executable(path: &Path) -> bool {
    retry_on_intr(|| call(Phase::Stat, || rustix::fs::access(path, rustix::fs::Access::EXEC_OK))).is_ok()
}

/// Like [`canonical`] for a path that need not exist: from the first missing component on, the path
/// is resolved by its text alone. The result is absolute if `path` is. Like Git's
/// `strbuf_realpath_forgiving`.
pub fn realpath_forgiving(path: &Path) -> PathBuf {
    let components: Vec<_> = path.components().collect();
    let found = (1..=components.len()).rev().find_map(|there| {
        let real = canonical(&components[..there].iter().collect::<PathBuf>()).ok()?;
        Some((real, there))
    });
    let (mut real, there) = found.unwrap_or_default();
    for component in &components[there..] {
        match component {
            Component::ParentDir => {
                real.pop();
            }
            Component::CurDir => {}
            other => real.push(other),
        }
    }
    real
}

/// Returns true if `path` is on a network file system, or one that a program serves (FUSE). Such a
/// file system may change without the kernel's knowledge. Source: `statfs(2)`.
pub fn is_remote(path: &Path) -> io::Result<bool> {
    Ok(is_remote_type(&call(Phase::Stat, || rustix::fs::statfs(path))?))
}

pub(crate) fn is_remote_type(found: &rustix::fs::StatFs) -> bool {
    const AFS: u32 = 0x5346_414f;
    const CIFS: u32 = 0xff53_4d42;
    const CODA: u32 = 0x7375_7245;
    const FUSE: u32 = 0x6573_5546;
    const NFS: u32 = 0x6969;
    const SMB: u32 = 0x517b;
    const SMB2: u32 = 0xfe53_4d42;
    // The number has 32 bits, whatever the width of its type.
    matches!(found.f_type as u32, AFS | CIFS | CODA | FUSE | NFS | SMB | SMB2)
}

/// Runs `fsync` on a directory: the names in it survive a crash from then on.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    crate::sync_file(open(path)?)
}

/// Repeats a call that a signal interrupted. The standard library does not repeat all calls, and
/// calls on network mounts can be interrupted where local ones cannot.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

fn absent_is_none<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_files_links_and_directories() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let at = |name: &str| place.path().join(name);
        fs::write(at("f"), "four").expect("written");
        for (link, target) in
            [("l", "f"), ("answer", "f"), ("up", "."), ("dead", "f/x"), ("gone", "none"), ("loop", "loop")]
        {
            symlink(target.as_ref(), &at(link)).expect("made");
        }
        for expected in [0, 4, 9] {
            let found =
                |name: &str| read_or_link(&at(name), expected, |_| name == "answer").expect("readable");
            assert_eq!(found("f"), Content::Bytes(b"four".to_vec()));
            assert_eq!(found("answer"), Content::Link("f".into()));
            assert_eq!(found("l"), Content::Bytes(b"four".to_vec()));
            assert_eq!(found("up"), Content::LinkedDirectory);
            assert_eq!([found("dead"), found("gone")], [Content::Dangling, Content::Dangling]);
            assert_eq!(found(""), Content::Directory);
            assert_eq!(found("none"), Content::Absent);
        }
        let below_a_file = read_or_link(&at("f/x"), 0, |_| false).expect_err("no directory");
        assert_eq!(below_a_file.kind(), io::ErrorKind::NotADirectory);
        let in_a_circle = read_or_link(&at("loop"), 0, |_| false).expect_err("no file");
        assert!(crate::is_symlink_refused(&in_a_circle));
        assert_eq!(list(place.path()).expect("a directory").len(), 7);
    }

    #[test]
    fn missing_components_are_resolved_by_text() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let real = place.path().canonicalize().expect("there");
        fs::create_dir(real.join("a")).expect("made");
        symlink("a".as_ref(), &real.join("l")).expect("made");
        for (path, expected) in [("l", "a"), ("l/x/y", "a/x/y"), ("l/x/../y", "a/y"), ("l/./x/../../z", "z")]
        {
            assert_eq!(realpath_forgiving(&real.join(path)), real.join(expected), "{path}");
        }
    }
}
