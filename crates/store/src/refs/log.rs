//! Reflogs: lines `<old> SP <new> SP <committer> [TAB <message>] LF`, appended. Source:
//! gitrepository-layout(5), Git's `refs/files-backend.c`.

use std::io::{self, Write};

use bstr::{BStr, BString};
use format::ObjectId;
use sys::{File, FileType, by_path};

use crate::{Components, Fsync};

use super::{Error, LogPolicy, Options, paths};

/// Returns true if reflogs are synced: with refs, unless the user chose what is synced. In Git's
/// terms a reflog belongs to no component.
pub(super) fn is_synced(fsync: &Fsync) -> bool {
    !fsync.explicit && fsync.hardens(Components::REFERENCE)
}

/// Creates an empty reflog, whatever the policy. Keeps an existing one.
pub fn begin(options: &Options, name: &BStr) -> Result<(), Error> {
    open(options, name, true).map(drop)
}

/// Appends a line to the reflog of `name`, if it exists or the policy creates it.
pub(super) fn append(
    options: &Options,
    name: &BStr,
    old: ObjectId,
    new: ObjectId,
    message: &BStr,
) -> Result<(), Error> {
    let Some(mut file) = open(options, name, begins(options.log, name))? else { return Ok(()) };
    let line = line(options, old, new, message)?;
    let written = file.write_all(&line).and_then(|()| sys::close(file));
    written.map_err(|source| Error::CannotLog {
        name: name.to_owned(),
        path: paths::display_path(options, paths::log(options, name)),
        source,
    })
}

/// Returns an error if a change of `name` is logged and the committer is unknown.
pub(super) fn check_committer(options: &Options, name: &BStr) -> Result<(), Error> {
    let Err(why) = &options.committer else { return Ok(()) };
    let path = paths::log(options, name);
    let is_there = || match by_path::stat_followed(&path) {
        Ok(stat) => Ok(stat.is_some_and(|stat| stat.file_type == FileType::File)),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(source) => Err(Error::Io { what: "read", path: path.clone(), source }),
    };
    match begins(options.log, name) || is_there()? {
        true => Err(Error::NoCommitter(why.clone())),
        false => Ok(()),
    }
}

/// Returns an error if the path of the reflog of `name` is a directory that holds other reflogs.
pub(super) fn check_place(options: &Options, name: &BStr) -> Result<(), Error> {
    let path = paths::log(options, name);
    match begins(options.log, name) && paths::holds_files(&path) {
        true => Err(Error::LogsBelow { name: name.to_owned(), path: paths::display_path(options, path) }),
        false => Ok(()),
    }
}

/// Opens a reflog for appending. Returns `None` if it does not exist, unless `begin` is set, which
/// creates it.
fn open(options: &Options, name: &BStr, begin: bool) -> Result<Option<File>, Error> {
    let path = paths::log(options, name);
    let shown = || paths::display_path(options, path.clone());
    let failed = |source| Error::CannotLog { name: name.to_owned(), path: shown(), source };
    let opened = match by_path::append(&path, begin, 0o666) {
        Err(error) if begin && error.kind() == io::ErrorKind::NotFound => {
            paths::create_parents(options, &path).and_then(|()| by_path::append(&path, true, 0o666))
        }
        Err(error) if begin && error.kind() == io::ErrorKind::IsADirectory => {
            // Removed refs may have left empty directories behind.
            if paths::remove_empty_tree(&path).is_err() {
                return Err(Error::LogsBelow { name: name.to_owned(), path: shown() });
            }
            by_path::append(&path, true, 0o666)
        }
        opened => opened,
    };
    let file = match opened {
        Err(error)
            if !begin && matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) =>
        {
            return Ok(None);
        }
        opened => opened.map_err(failed)?,
    };
    // Like Git, goes on if the log is writable but owned by another user.
    let _ = options.locks.shared.adjust_file(&file);
    Ok(Some(file))
}

/// Removes the reflog of `name`, and directories that are now empty.
pub(super) fn remove(options: &Options, name: &BStr) -> Result<(), Error> {
    let path = paths::log(options, name);
    match by_path::remove_file(&path) {
        Err(source) if !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(Error::Io { what: "remove", path, source })
        }
        _ => {
            paths::remove_empty_parents(options, name, paths::log);
            Ok(())
        }
    }
}

fn begins(policy: LogPolicy, name: &BStr) -> bool {
    let prefixes: [&[u8]; 3] = [b"refs/heads/", b"refs/remotes/", b"refs/notes/"];
    match policy {
        LogPolicy::Never => false,
        LogPolicy::Standard => name == "HEAD" || prefixes.iter().any(|prefix| name.starts_with(prefix)),
        LogPolicy::Always => true,
    }
}

fn line(options: &Options, old: ObjectId, new: ObjectId, message: &BStr) -> Result<Vec<u8>, Error> {
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
    // As in C, vertical tab counts as white space.
    let words = message.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
    bstr::join(" ", words.filter(|word| !word.is_empty())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        for (message, squeezed) in
            [("", ""), (" \n", ""), ("a", "a"), ("\ta  b\n\nc \x0b\r\n", "a b c"), ("ä ö", "ä ö")]
        {
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
