//! Reflogs: lines `<old> SP <new> SP <committer> [TAB <message>] LF`, appended. Source:
//! gitrepository-layout(5), Git's `refs/files-backend.c`.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::{Path, PathBuf},
};

use bstr::{BStr, BString};
use format::ObjectId;
use sys::{File, FileType, by_path};

use crate::{Components, Fsync};

use super::{Error, LogPolicy, NewLog, Options, paths, side_by_side};

/// Returns true if reflogs are synced: together with refs, unless the user chose components. In
/// Git, reflogs belong to no component.
pub(super) fn is_synced(fsync: &Fsync) -> bool {
    !fsync.explicit && fsync.hardens(Components::REFERENCE)
}

/// Creates an empty reflog, whatever the policy. Keeps an existing one.
pub fn begin(options: &Options, name: &BStr) -> Result<(), Error> {
    let mut dirs = BTreeSet::new();
    open(options, name, true, &mut dirs)?;
    if is_synced(&options.fsync) {
        side_by_side::sync(&options.fsync, &[], &dirs.into_iter().collect::<Vec<_>>())
    } else {
        Ok(())
    }
}

/// The variable parts of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) old: ObjectId,
    pub(super) new: ObjectId,
    pub(super) message: &'a BStr,
}

/// An appended line, which can be synced or removed again.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) path: PathBuf,
    /// The size of the log before, in bytes. `None` if there was no log.
    before: Option<u64>,
}

impl Appended {
    /// Removes the line again. The lock of the ref is still held.
    pub(super) fn undo(&self) {
        // An error is ignored: the caller reports the error that made it undo the line.
        let _ = match self.before {
            None => by_path::remove_file(&self.path),
            Some(size) => by_path::open_to_change(&self.path).and_then(|file| file.set_len(size)),
        };
    }
}

/// Appends a line to the reflog of `name`, if the reflog exists or has to be started. A failure
/// leaves the log unchanged. Directories with new names are added to `dirs`.
pub(super) fn append(
    options: &Options,
    name: &BStr,
    line: Line<'_>,
    new_log: NewLog,
    dirs: &mut BTreeSet<PathBuf>,
) -> Result<Option<Appended>, Error> {
    let Some(Opened { file, path, before }) = open(options, name, is_started(options, name, new_log), dirs)?
    else {
        return Ok(None);
    };
    let text = text(options, line)?;
    let appended = Appended { path, before };
    let size = before.unwrap_or(0);
    // If a crash cut off the last line, this line must not be joined to it.
    let joined = if size > 0 && lacks_end(&appended.path, size) { [b"\n", &text[..]].concat() } else { text };
    let written = (&file).write_all(&joined).and_then(|()| sys::close(file));
    match written {
        Ok(()) => Ok(Some(appended)),
        Err(source) => {
            appended.undo();
            let path = paths::display_path(options, appended.path);
            Err(Error::CannotLog { name: name.to_owned(), path, source })
        }
    }
}

/// Returns true if the last byte of the file is not a line feed.
fn lacks_end(path: &Path, size: u64) -> bool {
    let mut last = [b'\n'];
    let read = by_path::open(path).and_then(|file| file.read_exact_at(&mut last, size - 1));
    read.is_ok() && last != *b"\n"
}

fn is_started(options: &Options, name: &BStr, new_log: NewLog) -> bool {
    new_log == NewLog::Always || begins(options.log, name)
}

/// Returns an error if a change of `name` will be logged and the committer is unknown.
pub(super) fn check_committer(options: &Options, name: &BStr, new_log: NewLog) -> Result<(), Error> {
    let Err(why) = &options.committer else { return Ok(()) };
    let path = paths::log(options, name);
    let is_there = || match by_path::stat_followed(&path) {
        Ok(stat) => Ok(stat.is_some_and(|stat| stat.file_type == FileType::File)),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(source) => Err(Error::Io { what: "read", path: path.clone(), source }),
    };
    if is_started(options, name, new_log) || is_there()? {
        Err(Error::NoCommitter(why.clone()))
    } else {
        Ok(())
    }
}

/// Returns an error if the path of the reflog of `name` is a directory that contains other reflogs.
pub(super) fn check_place(options: &Options, name: &BStr) -> Result<(), Error> {
    let path = paths::log(options, name);
    if begins(options.log, name) && paths::holds_files(&path) {
        Err(Error::LogsBelow { name: name.to_owned(), path: paths::display_path(options, path) })
    } else {
        Ok(())
    }
}

/// Opens a reflog for appending. Returns `None` if it does not exist, unless `begin` is set, which
/// creates it.
fn open(
    options: &Options,
    name: &BStr,
    begin: bool,
    dirs: &mut BTreeSet<PathBuf>,
) -> Result<Option<Opened>, Error> {
    let path = paths::log(options, name);
    let shown = || paths::display_path(options, path.clone());
    let failed = |source| Error::CannotLog { name: name.to_owned(), path: shown(), source };
    // Most logs exist, so open without creating first. If another process creates the log at the
    // same time, its size is known.
    let opened = match by_path::append(&path, false, 0o666) {
        Err(error) if begin && error.kind() == io::ErrorKind::NotFound => create(options, &path, dirs),
        Err(error) if begin && error.kind() == io::ErrorKind::IsADirectory => {
            // Removed refs may have left empty directories behind.
            if paths::remove_empty_tree(&path).is_err() {
                return Err(Error::LogsBelow { name: name.to_owned(), path: shown() });
            }
            create(options, &path, dirs)
        }
        opened => opened.and_then(|file| Ok((Some(sys::stat_of(&file)?.size), file))),
    };
    let (before, file) = match opened {
        Err(error)
            if !begin && matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) =>
        {
            return Ok(None);
        }
        opened => opened.map_err(failed)?,
    };
    // As in Git, this is not an error if the log is writable but owned by another user.
    let _ = options.locks.shared.adjust_file(&file);
    Ok(Some(Opened { file, path, before }))
}

/// A reflog opened for appending.
struct Opened {
    file: File,
    path: PathBuf,
    /// Its size; `None` if it is new.
    before: Option<u64>,
}

fn create(options: &Options, path: &Path, dirs: &mut BTreeSet<PathBuf>) -> io::Result<(Option<u64>, File)> {
    let file = match by_path::append(path, true, 0o666) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            paths::create_parents(options, path, dirs).and_then(|()| by_path::append(path, true, 0o666))
        }
        created => created,
    };
    dirs.extend(path.parent().map(Path::to_owned));
    Ok((None, file?))
}

/// Removes the reflog of `name`, and directories that become empty. Its directory is added to
/// `dirs`.
pub(super) fn remove(options: &Options, name: &BStr, dirs: &mut BTreeSet<PathBuf>) -> Result<(), Error> {
    let path = paths::log(options, name);
    match by_path::remove_file(&path) {
        Ok(()) => dirs.extend(path.parent().map(Path::to_owned)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        Err(source) => return Err(Error::Io { what: "remove", path, source }),
    }
    paths::remove_empty_parents(options, name, paths::log);
    Ok(())
}

fn begins(policy: LogPolicy, name: &BStr) -> bool {
    let prefixes: [&[u8]; 3] = [b"refs/heads/", b"refs/remotes/", b"refs/notes/"];
    match policy {
        LogPolicy::Never => false,
        LogPolicy::Standard => name == "HEAD" || prefixes.iter().any(|prefix| name.starts_with(prefix)),
        LogPolicy::Always => true,
    }
}

fn text(options: &Options, line: Line<'_>) -> Result<Vec<u8>, Error> {
    let Line { old, new, message } = line;
    let mut line = format!("{old} {new} ").into_bytes();
    line.extend_from_slice(options.committer.as_ref().map_err(|why| Error::NoCommitter(why.clone()))?);
    let message = squeeze(message);
    if !message.is_empty() {
        line.push(b'\t');
        line.extend_from_slice(&message);
    }
    line.push(b'\n');
    Ok(line)
}

/// Collapses runs of white space to one space and trims the ends, so that a message is one line.
fn squeeze(message: &BStr) -> BString {
    let words = message.split(|byte| format::blank::is_blank(*byte));
    bstr::join(" ", words.filter(|word| !word.is_empty())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        for (message, squeezed) in [
            ("", ""),
            (" \n", ""),
            ("a", "a"),
            ("\ta  b\n\nc \r\n", "a b c"),
            ("a \x0b\x0c \n", "a \x0b\x0c"),
            ("ä ö", "ä ö"),
        ] {
            assert_eq!(squeeze(message.into()), squeezed, "{message:?}");
        }
    }

    #[test]
    fn the_policy_selects_refs_to_log() {
        for (name, standard) in [
            ("HEAD", true),
            ("refs/heads/a", true),
            ("refs/remotes/o/HEAD", true),
            ("refs/notes/commits", true),
            ("refs/tags/v1", false),
            ("refs/stash", false),
            ("ORIG_HEAD", false),
        ] {
            assert!(begins(LogPolicy::Always, name.into()));
            assert!(!begins(LogPolicy::Never, name.into()));
            assert_eq!(begins(LogPolicy::Standard, name.into()), standard, "{name}");
        }
    }
}
