//! Checks whether [`apply`](super::apply) would refuse changes, without writing anything.
//!
//! A command that changes a worktree calls this first, and changes refs last. The changes are
//! checked again when they are applied. So this module checks only locks, the committer, and
//! conflicts of names.

use std::io;

use bstr::{BStr, BString};

use super::{
    Change, Error, Expected, NewLog, Options, Reason, log, paths,
    read::{End, Raw, Reader},
    transaction::{above, check_name},
};
use crate::Lock;

/// Returns an error if one of the changes would be refused now. Waits for other processes' locks
/// like [`apply`](super::apply). A [`Change::Symbolic`] with a new value counts as logged.
pub fn preflight(options: &Options, changes: &[Change]) -> Result<(), Error> {
    let mut reader = Reader::new(options);
    changes.iter().try_for_each(|change| one(options, &mut reader, change))
}

fn one(options: &Options, reader: &mut Reader<'_>, change: &Change) -> Result<(), Error> {
    check_name(change)?;
    let name = change.name();
    let cannot = |reason| Error::CannotLock { name: name.to_owned(), reason };
    match Lock::wait_until_free(&paths::loose(options, name), options.locks.loose) {
        // Another ref has the name of the lock's directory.
        Err(crate::Error::CannotLock { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {}
        free => free.map_err(|error| cannot(Reason::Lock(error)))?,
    }
    if change.expected() == Expected::Missing {
        match reader.raw(name)? {
            Raw::Missing | Raw::Directory => check_free(options, reader, name)?,
            Raw::Broken => return Err(cannot(Reason::Broken { name: name.to_owned() })),
            Raw::Symbolic(_) if reader.end(name)? == End::Dangling => {}
            Raw::Direct(_) | Raw::Symbolic(_) => return Err(cannot(Reason::AlreadyExists)),
        }
    }
    match change {
        Change::Update { new, expected, .. } if *expected != Expected::Is(*new) => {
            log::check_committer(options, name, NewLog::ByPolicy)
        }
        Change::Symbolic { new: Some(_), .. } => log::check_committer(options, name, NewLog::ByPolicy),
        _ => Ok(()),
    }
}

/// Returns an error if another ref, or its reflog, prevents a ref of this name.
fn check_free(options: &Options, reader: &mut Reader<'_>, name: &BStr) -> Result<(), Error> {
    let path = paths::loose(options, name);
    let cannot = |reason| Error::CannotLock { name: name.to_owned(), reason };
    if let Some(existing) = conflict(reader, name)? {
        let name = name.to_owned();
        return Err(if is_loose(options, &existing) {
            cannot(Reason::Conflict { existing, name })
        } else {
            Error::Conflict { existing, name }
        });
    }
    if paths::holds_files(&path) {
        let path = paths::display_path(options, path);
        return Err(cannot(Reason::NonEmptyDirectory { path, name: name.to_owned() }));
    }
    log::check_place(options, name)
}

fn is_loose(options: &Options, name: &BString) -> bool {
    let stat = sys::by_path::stat(&paths::loose(options, name.as_ref()));
    stat.is_ok_and(|stat| stat.is_some_and(|stat| stat.file_type != sys::FileType::Directory))
}

/// Returns a ref whose name conflicts with `name`.
fn conflict(reader: &mut Reader<'_>, name: &BStr) -> Result<Option<BString>, Error> {
    for above in above(name) {
        if matches!(reader.raw(above)?, Raw::Direct(_) | Raw::Symbolic(_)) {
            return Ok(Some(above.to_owned()));
        }
    }
    reader.any_below(name)
}
