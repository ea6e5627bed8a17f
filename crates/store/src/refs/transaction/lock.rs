//! The locks of a transaction, and conflicts of ref names.

use std::{collections::BTreeSet, io, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;

use super::{RefTransaction, above};
use crate::{
    Lock, LockOptions, aside,
    refs::{
        Error, Options, Reason, paths,
        read::{Raw, Reader},
    },
};

/// The lock of a loose ref. Dropping it removes directories that become empty.
pub(in crate::refs) struct RefLock<'a> {
    options: &'a Options,
    name: BString,
    lock: Option<Lock>,
}

impl RefLock<'_> {
    pub(in crate::refs) fn held(&mut self) -> &mut Lock {
        self.lock.as_mut().expect("it is held until it is committed")
    }

    /// The path of the lock file.
    pub(super) fn lock_path(&self) -> &std::path::Path {
        self.lock.as_ref().expect("it is held until it is committed").lock_path()
    }
}

impl Drop for RefLock<'_> {
    fn drop(&mut self) {
        drop(self.lock.take());
        aside(|| paths::remove_empty_parents(self.options, self.name.as_bstr(), paths::loose));
    }
}

/// The names that a transaction has checked, so that shared directories are checked once.
#[derive(Default)]
pub(super) struct Checked(BTreeSet<BString>);

/// Locks the existing ref `name`. Returns its lock and its value.
pub(in crate::refs) fn lock_existing<'a>(
    options: &'a Options,
    name: &BStr,
) -> Result<(RefLock<'a>, ObjectId), Error> {
    let mut finder = Finder { options, reader: Reader::new(options), names: BTreeSet::new() };
    let lock = finder.lock(name, true, &mut BTreeSet::new())?;
    match finder.reader.raw(name)? {
        Raw::Direct(oid) => Ok((lock, oid)),
        _ => {
            let reason = Reason::Unresolved { name: name.to_owned() };
            Err(Error::CannotLock { name: name.to_owned(), reason })
        }
    }
}

/// The refs on disk, and the names of a transaction.
pub(super) struct Finder<'a> {
    pub(super) options: &'a Options,
    pub(super) reader: Reader<'a>,
    /// The names of the edits, without those that were rejected.
    pub(super) names: BTreeSet<BString>,
}

impl<'a> Finder<'a> {
    /// Locks a loose ref, and creates its missing directories. Their parents are added to `dirs`.
    pub(super) fn lock(
        &mut self,
        name: &BStr,
        must_exist: bool,
        dirs: &mut BTreeSet<PathBuf>,
    ) -> Result<RefLock<'a>, Error> {
        let locks = self.options.locks;
        let path = paths::loose(self.options, name);
        let options = LockOptions { wait: locks.loose, shared: locks.shared, record_pid: false };
        let cannot = |reason| Error::CannotLock { name: name.to_owned(), reason };
        // Another process may be removing directories that have become empty.
        let mut attempts = 3;
        loop {
            let missing = match Lock::take_no_follow(&path, &options).map_err(with_kind) {
                Ok(lock) => {
                    return Ok(RefLock { options: self.options, name: name.to_owned(), lock: Some(lock) });
                }
                Err((io::ErrorKind::NotADirectory, _)) => false,
                Err((io::ErrorKind::NotFound, _)) if attempts > 0 => true,
                Err((_, error)) => return Err(cannot(Reason::Lock(error))),
            };
            if missing {
                attempts -= 1;
                match aside(|| paths::create_parents(self.options, &path, dirs)) {
                    Ok(()) => continue,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists
                        ) => {}
                    Err(source) => {
                        let path = paths::display_path(self.options, path);
                        return Err(cannot(Reason::CannotCreateDirectory { path, source }));
                    }
                }
            }
            return Err(cannot(match self.conflict(name)? {
                Some(_) if must_exist => Reason::Unresolved { name: name.to_owned() },
                Some(conflict) => conflict,
                None => Reason::NonDirectoryInTheWay { path: paths::display_path(self.options, path) },
            }));
        }
    }

    /// Returns a ref whose name conflicts with `name`: an existing ref, or one of this transaction.
    fn conflict(&mut self, name: &BStr) -> Result<Option<Reason>, Error> {
        let exists = |existing: BString| Some(Reason::Conflict { existing, name: name.to_owned() });
        let together = |other: BString| Some(Reason::Together { name: name.to_owned(), other });
        for above in above(name) {
            if matches!(self.reader.raw(above)?, Raw::Direct(_) | Raw::Symbolic(_)) {
                return Ok(exists(above.to_owned()));
            }
            if self.names.contains(above) {
                return Ok(together(above.to_owned()));
            }
        }
        if let Some(existing) = self.reader.any_below(name)? {
            return Ok(exists(existing));
        }
        Ok(self.own_below(name).and_then(together))
    }

    /// Returns a ref of this transaction with a name below `name/`.
    fn own_below(&self, name: &BStr) -> Option<BString> {
        let prefix: BString = [name.as_bytes(), b"/"].concat().into();
        self.names.range(prefix.clone()..).next().filter(|other| other.starts_with(&prefix)).cloned()
    }

    /// Removes empty directories at the path of the ref's file, which removed refs left behind.
    pub(super) fn clear_directory(&mut self, name: &BStr) -> Result<(), Error> {
        let path = paths::loose(self.options, name);
        if aside(|| paths::remove_empty_tree(&path)).is_ok() {
            return Ok(());
        }
        let conflict = self.conflict(name)?;
        let path = paths::display_path(self.options, path);
        let reason = conflict.unwrap_or(Reason::NonEmptyDirectory { path, name: name.to_owned() });
        Err(Error::CannotLock { name: name.to_owned(), reason })
    }

    /// Checks a new name against packed refs, for which no directory prevents a conflict, and
    /// against the names of this transaction.
    pub(super) fn check_available(&mut self, name: &BStr, checked: &mut Checked) -> Result<(), Error> {
        for above in above(name) {
            if checked.0.contains(above) {
                continue;
            }
            if self.reader.packed()?.find(above)?.is_some() {
                return Err(Error::Conflict { existing: above.to_owned(), name: name.to_owned() });
            }
            if self.names.contains(above) {
                return Err(Error::Together { other: above.to_owned(), name: name.to_owned() });
            }
            checked.0.insert(above.to_owned());
        }
        if let Some(existing) = self.reader.packed()?.first_below(name)? {
            return Err(Error::Conflict { existing, name: name.to_owned() });
        }
        match self.own_below(name) {
            Some(other) => Err(Error::Together { other, name: name.to_owned() }),
            None => Ok(()),
        }
    }
}

impl RefTransaction<'_> {
    /// Returns the name of the edit that caused an update, for messages.
    pub(super) fn original(&self, mut at: usize) -> BString {
        while let Some(parent) = self.updates[at].parent {
            at = parent;
        }
        self.updates[at].name.clone()
    }
}

fn with_kind(error: crate::Error) -> (io::ErrorKind, crate::Error) {
    let kind = match &error {
        crate::Error::CannotLock { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    (kind, error)
}
