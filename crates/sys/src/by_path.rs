//! Files by any path, symbolic links followed as the kernel does: for the Git directory and for what
//! the user named. Never for what a tree names; that is [`crate::Dir`]'s business.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD},
    io::retry_on_intr,
};

use crate::{
    File, FileType, Listing, Stat,
    profile::{Phase, call},
    stat::stat_at,
};

/// Opens for reading.
pub fn open(path: &Path) -> io::Result<File> {
    call(Phase::Open, || fs::File::open(path)).map(File::from)
}

/// Creates for writing, `O_EXCL`, with these permission bits less the umask.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    call(Phase::Open, || OpenOptions::new().write(true).create_new(true).mode(mode).open(path))
        .map(File::from)
}

/// Opens a file that is there for writing, emptied.
pub fn open_to_rewrite(path: &Path) -> io::Result<File> {
    call(Phase::Open, || OpenOptions::new().write(true).truncate(true).open(path)).map(File::from)
}

/// Opens for appending; creates with these permission bits less the umask if `create`.
pub fn append(path: &Path, create: bool, mode: u32) -> io::Result<File> {
    call(Phase::Open, || OpenOptions::new().append(true).create(create).mode(mode).open(path)).map(File::from)
}

/// The whole content; `None` if there is no such file (`ENOENT`, `ENOTDIR`).
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let whole = || {
        let mut content = Vec::new();
        open(path)?.read_to_end(&mut content)?;
        Ok(content)
    };
    absent_is_none(uninterrupted(whole))
}

/// What is at a path, as [`read_or_link`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing (`ENOENT`).
    Absent,
    /// A directory.
    Directory,
    /// A symbolic link to this, which says something itself.
    Link(PathBuf),
    /// One that leads to nothing,
    Dangling,
    /// or to a directory.
    LinkedDirectory,
    /// A file that holds this, links followed.
    Bytes(Vec<u8>),
}

/// What is at a path, without a stat: opened and read, which a link or a directory refuses. Only then a link is followed, unless
/// its target `is_answer` something; `ELOOP` if it leads to itself. A file of `expected` bytes takes one read.
pub fn read_or_link(path: &Path, expected: u64, is_answer: impl Fn(&Path) -> bool) -> io::Result<Content> {
    const TRIES: usize = 3;
    let mut last = io::ErrorKind::NotFound.into();
    // Somebody may turn a link into a file while we look.
    for _ in 0..TRIES {
        let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let opened = call(Phase::Open, || OpenOptions::new().read(true).custom_flags(no_follow).open(path));
        match opened.map(File::from) {
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

/// `lstat`; `None` if there is nothing.
pub fn stat(path: &Path) -> io::Result<Option<Stat>> {
    stat_at(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// `stat`, links followed; `None` if there is nothing or the link leads nowhere.
pub fn stat_followed(path: &Path) -> io::Result<Option<Stat>> {
    stat_at(CWD, path, AtFlags::empty())
}

/// An error if this user may not run the program at `path` (`access`, `X_OK`).
pub fn may_be_run(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Stat, || rustix::fs::access(path, Access::EXEC_OK).map_err(io::Error::from)))
}

/// `unlink`.
pub fn remove_file(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Remove, || fs::remove_file(path)))
}

/// `rename`.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Link, || fs::rename(from, to)))
}

/// `renameat2` with `RENAME_NOREPLACE`: `EEXIST` if there is anything at `to`, an empty directory included.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    Ok(retry_on_intr(|| call(Phase::Link, || rustix::fs::renameat_with(CWD, from, CWD, to, flags)))?)
}

/// `link`: a second name for `from`, which is not followed if it is a symbolic link.
pub fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Link, || fs::hard_link(from, to)))
}

/// `symlink`.
pub fn symlink(target: &Path, path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Link, || std::os::unix::fs::symlink(target, path)))
}

/// `readlink`; `None` if there is nothing or it is no link.
pub fn read_link(path: &Path) -> io::Result<Option<PathBuf>> {
    match uninterrupted(|| call(Phase::Read, || fs::read_link(path))) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        answer => absent_is_none(answer),
    }
}

/// `mkdir` with mode 0777 and umask.
pub fn create_dir(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::MakeDir, || fs::DirBuilder::new().mode(0o777).create(path)))
}

/// `mkdir` of the path and of whatever is missing above it.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    let there_or = |error: io::Error| match stat_followed(path) {
        Ok(Some(stat)) if stat.file_type == FileType::Directory => Ok(()),
        // Something is there, and what it is the disk does not tell: that is why.
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

/// `chmod`: sets the permission bits, umask ignored. Links are followed.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    uninterrupted(|| call(Phase::Write, || fs::set_permissions(path, fs::Permissions::from_mode(mode))))
}

/// `rmdir`.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Remove, || fs::remove_dir(path)))
}

/// Removes a directory with all it holds. Links are removed, not followed. Counts as one call, whatever it takes.
pub fn remove_dir_all(path: &Path) -> io::Result<()> {
    uninterrupted(|| call(Phase::Remove, || fs::remove_dir_all(path)))
}

/// Names and types of a directory's entries, `.` and `..` left out, in the directory's order.
pub fn list(path: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    let mut names = Vec::new();
    Listing::default().read_path(path, |entry| {
        names.push((OsString::from_vec(entry.name.to_vec()), entry.file_type));
        Ok::<_, io::Error>(())
    })?;
    Ok(names)
}

/// The path without links, `.` and `..`, absolute. It must exist. Counts as one call, whatever it takes.
pub fn canonical(path: &Path) -> io::Result<PathBuf> {
    uninterrupted(|| call(Phase::Read, || fs::canonicalize(path)))
}

/// As [`canonical`], of a path whose last component need not exist; so need that of a link in its place.
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

/// Returns true if this process may enter the directory, or run the file: `access` with `X_OK`.
pub fn is_executable(path: &Path) -> bool {
    retry_on_intr(|| call(Phase::Stat, || rustix::fs::access(path, rustix::fs::Access::EXEC_OK))).is_ok()
}

/// As [`canonical`], of a path that need not exist: from the first component that is missing on, it is taken by
/// its letters. Absolute if `path` is.
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

/// Whether what is at `path` is on a file system of another machine, or of a program (FUSE): one that may change
/// without the kernel knowing. Source: `statfs(2)`.
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
    // The number has 32 bits, whatever type it comes in.
    matches!(found.f_type as u32, AFS | CIFS | CODA | FUSE | NFS | SMB | SMB2)
}

/// `fsync` of a directory: the names in it survive a crash from here on.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    crate::sync_file(open(path)?)
}

/// Repeats a call that a signal, or a network mount that heeds them, has interrupted, where the standard library does not.
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
    fn content_of_whatever_is_there() {
        let place = tempfile::tempdir().expect("a directory for tests");
        let at = |name: &str| place.path().join(name);
        fs::write(at("f"), "four").expect("written");
        for (link, target) in
            [("l", "f"), ("says", "f"), ("up", "."), ("dead", "f/x"), ("gone", "none"), ("loop", "loop")]
        {
            symlink(target.as_ref(), &at(link)).expect("made");
        }
        for expected in [0, 4, 9] {
            let found = |name: &str| read_or_link(&at(name), expected, |_| name == "says").expect("readable");
            assert_eq!(found("f"), Content::Bytes(b"four".to_vec()));
            assert_eq!(found("says"), Content::Link("f".into()));
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
    fn what_is_missing_is_taken_by_its_letters() {
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
