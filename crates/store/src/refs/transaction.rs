//! A transaction over several refs, as in Git's files backend.
//!
//! Order: each ref is locked, read under its lock and checked, and its new value is written into
//! the lock file. Then names are checked against packed refs and against each other. Then
//! packed-refs is locked if refs are removed. Nothing has changed so far, and any failure drops all
//! locks. Then, ref by ref, the reflog line is appended and the lock file is renamed. Removals come
//! last: reflogs, packed-refs, loose files, and directories that are now empty.
//!
//! If a rename fails (on a full disk, for example), earlier refs have changed and later ones have
//! not. The files backend has no journal to prevent this.

use std::{collections::BTreeSet, io, path::Path};

use bstr::{BStr, BString, ByteSlice};
use format::ObjectId;
use sys::by_path;

use super::{
    Change, Error, Expected, Options, Reason, log,
    packed::PackedLock,
    paths,
    read::{Raw, Reader},
};
use crate::{Components, Lock, LockOptions, lock::sync_parent};

/// The lock of a loose ref. Dropping it removes directories that are empty without it.
pub(super) struct RefLock<'a> {
    options: &'a Options,
    name: BString,
    lock: Option<Lock>,
}

impl RefLock<'_> {
    pub(super) fn held(&mut self) -> &mut Lock {
        self.lock.as_mut().expect("it is held until it is committed")
    }
}

impl Drop for RefLock<'_> {
    fn drop(&mut self) {
        drop(self.lock.take());
        paths::remove_empty_parents(self.options, self.name.as_bstr(), paths::loose);
    }
}

/// The action for one ref after it was locked and checked.
struct Step<'a> {
    lock: RefLock<'a>,
    /// Its value before. For a symbolic ref, the value of its target.
    old: ObjectId,
    action: Action,
}

enum Action {
    /// Rename the lock file, which holds the new value, and log the change.
    Publish {
        new: New,
        message: BString,
    },
    /// Log only. For HEAD, if the branch that it points to changes; for a symbolic ref, if its
    /// target changes.
    LogOnly {
        new: ObjectId,
        message: BString,
    },
    /// The ref already has the value.
    Keep,
    Delete,
}

/// The new value for the reflog.
enum New {
    Direct(ObjectId),
    /// Looked up when it is logged, because the same transaction may change the target.
    Symbolic {
        target: BString,
        value: Option<ObjectId>,
    },
}

struct Transaction<'a> {
    options: &'a Options,
    reader: Reader<'a>,
    names: BTreeSet<BString>,
    /// Missing refs, to be checked against packed ones.
    missing: Vec<BString>,
    steps: Vec<Step<'a>>,
    /// The branch that HEAD points to, unless HEAD itself is changed.
    branch: Option<BString>,
    /// The line for HEAD's reflog: old value, new value, message.
    head_log: Option<(ObjectId, ObjectId, BString)>,
    packed_lock: Option<PackedLock<'a>>,
}

/// Applies all changes, or none. [`Error`] lists Git's reasons to refuse.
///
/// To move the branch that HEAD points to, change the branch. HEAD's reflog gets the line too,
/// unless the same transaction changes HEAD.
pub fn apply(options: &Options, changes: Vec<Change>) -> Result<(), Error> {
    crate::check_mapped_files()?;
    let mut names = BTreeSet::new();
    for change in &changes {
        let name = change.name();
        check_name(change)?;
        if !names.insert(name.to_owned()) {
            return Err(Error::Duplicate { name: name.to_owned() });
        }
    }
    let mut transaction = Transaction::new(options, names);
    transaction.prepare(changes)?;
    transaction.finish()
}

/// Returns an error if Git would not write a ref of this name.
pub(super) fn check_name(change: &Change) -> Result<(), Error> {
    let name = change.name();
    let allowed = match change {
        Change::Update { .. } => paths::may_write(name),
        Change::Symbolic { target, .. } => paths::may_write(name) && paths::may_write(target.as_bstr()),
        Change::Delete { .. } => paths::may_delete(name),
    };
    if allowed { Ok(()) } else { Err(Error::BadName { name: name.to_owned() }) }
}

/// Locks the existing ref `name`. Returns its lock and its value.
pub(super) fn lock_existing<'a>(options: &'a Options, name: &BStr) -> Result<(RefLock<'a>, ObjectId), Error> {
    let mut transaction = Transaction::new(options, BTreeSet::new());
    let lock = transaction.lock(name, true)?;
    match transaction.reader.raw(name)? {
        Raw::Direct(oid) => Ok((lock, oid)),
        _ => {
            let reason = Reason::Unresolved { name: name.to_owned() };
            Err(Error::CannotLock { name: name.to_owned(), reason })
        }
    }
}

impl<'a> Transaction<'a> {
    fn new(options: &'a Options, names: BTreeSet<BString>) -> Self {
        Transaction {
            options,
            reader: Reader::new(options),
            names,
            missing: Vec::new(),
            steps: Vec::new(),
            branch: None,
            head_log: None,
            packed_lock: None,
        }
    }

    fn prepare(&mut self, changes: Vec<Change>) -> Result<(), Error> {
        let head = BStr::new("HEAD");
        let branch = match self.reader.raw(head) {
            Ok(Raw::Symbolic(branch)) if !self.names.contains(head) => Some(branch),
            _ => None,
        };
        self.branch = branch;
        for change in changes {
            let step = self.prepare_one(change)?;
            self.steps.push(step);
        }
        if let Some((old, new, message)) = self.head_log.take() {
            let mut lock = self.lock(head, false)?;
            lock.held().close()?;
            let branch = self.branch.take().expect("a line for HEAD comes from its branch");
            if self.reader.raw(head)? != Raw::Symbolic(branch) {
                return Err(Error::HeadMoved);
            }
            let action = Action::LogOnly { new, message };
            self.steps.push(Step { lock, old, action });
        }
        self.check_available()?;
        self.check_committer()?;
        self.prepare_packed()
    }

    /// Checks the committer where a missing one is an error, before anything changes.
    fn check_committer(&mut self) -> Result<(), Error> {
        if self.options.committer.is_ok() {
            return Ok(());
        }
        for step in &self.steps {
            let is_logged = match &step.action {
                Action::Publish { new: New::Symbolic { target, value: None }, .. } => {
                    self.reader.resolve(target.as_bstr())?.is_some()
                }
                Action::Publish { .. } | Action::LogOnly { .. } => true,
                Action::Keep | Action::Delete => false,
            };
            if is_logged {
                log::check_committer(self.options, step.lock.name.as_bstr())?;
            }
        }
        Ok(())
    }

    /// Locks and checks one ref, and records the line for HEAD's reflog.
    fn prepare_one(&mut self, change: Change) -> Result<Step<'a>, Error> {
        let null = ObjectId::null(self.options.hash);
        let is_branch = self.branch.as_ref().is_some_and(|branch| branch == change.name());
        let logged = match &change {
            Change::Update { new, message, .. } if is_branch => Some((*new, message.clone())),
            Change::Delete { .. } if is_branch => Some((null, BString::default())),
            _ => None,
        };
        let expected = change.expected();
        let step = self.prepare_ref(change)?;
        if let Some((new, message)) = logged {
            let old = match (&step.action, expected) {
                // Git does not know the old value at this point, and logs the null name.
                (Action::LogOnly { .. }, Expected::Any) => null,
                _ => step.old,
            };
            self.head_log = Some((old, new, message));
        }
        Ok(step)
    }

    /// Locks and checks one ref, and its target if it is followed.
    fn prepare_ref(&mut self, change: Change) -> Result<Step<'a>, Error> {
        let name = change.name().to_owned();
        let cannot = |reason| Error::CannotLock { name: name.clone(), reason };
        let expected = change.expected();
        let null = ObjectId::null(self.options.hash);
        let must_exist = matches!(expected, Expected::Is(oid) if !oid.is_null());
        let mut lock = self.lock(name.as_bstr(), must_exist)?;
        let raw = self.reader.raw(name.as_bstr()).map_err(|error| match error {
            Error::Io { path, source, .. } if path == paths::loose(self.options, name.as_bstr()) => {
                cannot(Reason::Unreadable { name: name.clone(), source })
            }
            error => error,
        })?;
        let change = match (change, &raw) {
            (Change::Update { new, expected, message, .. }, Raw::Symbolic(target)) if name != "HEAD" => {
                lock.held().close()?;
                let through =
                    Change::Update { name: target.clone(), new, expected, message: message.clone() };
                let old = self.prepare_target(&name, through)?;
                return Ok(Step { lock, old, action: Action::LogOnly { new, message } });
            }
            (change, _) => change,
        };
        let old = match &raw {
            Raw::Direct(oid) => *oid,
            Raw::Symbolic(target) => self.reader.resolve(target.as_bstr())?.unwrap_or(null),
            Raw::Broken => return Err(cannot(Reason::Broken { name: name.clone() })),
            Raw::Missing | Raw::Directory if must_exist => {
                return Err(cannot(Reason::Unresolved { name: name.clone() }));
            }
            Raw::Missing => null,
            Raw::Directory => {
                self.clear_directory(name.as_bstr())?;
                null
            }
        };
        let is_symbolic = matches!(raw, Raw::Symbolic(_));
        match expected {
            Expected::Any => {}
            Expected::Missing if is_symbolic && old.is_null() => return Err(cannot(Reason::DanglingSymref)),
            Expected::Missing if old.is_null() => {}
            Expected::Missing => return Err(cannot(Reason::AlreadyExists)),
            Expected::Is(expected) if expected == old => {}
            Expected::Is(expected) if old.is_null() => return Err(cannot(Reason::Missing { expected })),
            Expected::Is(expected) => return Err(cannot(Reason::Mismatch { is: old, expected })),
        }
        if matches!(raw, Raw::Missing | Raw::Directory) {
            self.missing.push(name.clone());
        }

        let mut step = Step { lock, old, action: Action::Keep };
        match change {
            Change::Update { new, .. } if !is_symbolic && new == old => {}
            Change::Update { new, message, .. } => {
                self.fill(step.lock.held(), format!("{new}\n").as_bytes())?;
                step.action = Action::Publish { new: New::Direct(new), message };
            }
            Change::Symbolic { target, message, old, new, .. } => {
                self.fill(step.lock.held(), &[b"ref: ", target.as_slice(), b"\n"].concat())?;
                step.old = old.unwrap_or(step.old);
                let new = New::Symbolic { target, value: new };
                step.action = Action::Publish { new, message: message.unwrap_or_default() };
            }
            Change::Delete { .. } => step.action = Action::Delete,
        }
        step.lock.held().close()?;
        Ok(step)
    }

    /// Prepares the change of the target of the symbolic ref `via`. Returns the target's current
    /// value.
    fn prepare_target(&mut self, via: &BString, change: Change) -> Result<ObjectId, Error> {
        let target = change.name().to_owned();
        if !paths::may_write(target.as_bstr()) {
            return Err(Error::BadName { name: target });
        }
        if !self.names.insert(target.clone()) {
            return Err(Error::DuplicateVia { name: target, via: via.clone() });
        }
        let step = self.prepare_one(change).map_err(|error| match error {
            Error::CannotLock { reason, .. } => Error::CannotLock { name: via.clone(), reason },
            error => error,
        })?;
        let old = step.old;
        self.steps.push(step);
        Ok(old)
    }

    fn fill(&self, lock: &mut Lock, content: &[u8]) -> Result<(), Error> {
        lock.write(content)?;
        Ok(lock.sync(&self.options.fsync, Components::REFERENCE)?)
    }

    /// Locks a loose ref, and creates its missing directories.
    fn lock(&mut self, name: &BStr, must_exist: bool) -> Result<RefLock<'a>, Error> {
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
                match paths::create_parents(self.options, &path) {
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

    /// Returns a conflict with `name`: an existing ref, or one of this transaction.
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

    /// Removes empty directories, left over from removed refs, from the path of the ref's file.
    fn clear_directory(&mut self, name: &BStr) -> Result<(), Error> {
        let path = paths::loose(self.options, name);
        if paths::remove_empty_tree(&path).is_ok() {
            return Ok(());
        }
        let conflict = self.conflict(name)?;
        let path = paths::display_path(self.options, path);
        let reason = conflict.unwrap_or(Reason::NonEmptyDirectory { path, name: name.to_owned() });
        Err(Error::CannotLock { name: name.to_owned(), reason })
    }

    /// Checks new names against packed refs, which no directory protects, and against the names of
    /// this transaction.
    fn check_available(&mut self) -> Result<(), Error> {
        for name in std::mem::take(&mut self.missing) {
            for above in above(name.as_bstr()) {
                if self.reader.packed()?.find(above)?.is_some() {
                    return Err(Error::Conflict { existing: above.to_owned(), name: name.clone() });
                }
                if self.names.contains(above) {
                    return Err(Error::Together { other: above.to_owned(), name: name.clone() });
                }
            }
            if let Some(existing) = self.reader.packed()?.first_below(name.as_bstr())? {
                return Err(Error::Conflict { existing, name });
            }
            if let Some(other) = self.own_below(name.as_bstr()) {
                return Err(Error::Together { other, name });
            }
        }
        Ok(())
    }

    /// Locks packed-refs if refs are removed, and stages a new file if some of them are packed.
    fn prepare_packed(&mut self) -> Result<(), Error> {
        let mut removed: Vec<&BStr> = self
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::Delete))
            .map(|step| step.lock.name.as_bstr())
            .collect();
        if removed.is_empty() {
            return Ok(());
        }
        removed.sort();
        let mut lock = PackedLock::take(self.options)?;
        // Only under the lock is the content stable.
        self.reader.forget_packed();
        let packed = self.reader.packed()?;
        let mut found = false;
        for name in &removed {
            found |= packed.find(name)?.is_some();
        }
        if found {
            lock.stage(packed, &removed, &[])?;
        }
        self.packed_lock = Some(lock);
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        let options = self.options;
        let mut deletions = Vec::new();
        for step in std::mem::take(&mut self.steps) {
            let Step { mut lock, old, action } = step;
            let name = lock.name.clone();
            match action {
                Action::Publish { new, message } => {
                    let new = match new {
                        New::Direct(oid) => Some(oid),
                        New::Symbolic { value: Some(oid), .. } => Some(oid),
                        New::Symbolic { target, value: None } => self.reader.resolve(target.as_bstr())?,
                    };
                    if let Some(new) = new {
                        log::append(options, name.as_bstr(), old, new, message.as_bstr())?;
                    }
                    self.publish(&name, lock.lock.take().expect("nothing else commits it"))?;
                }
                Action::LogOnly { new, message } => {
                    log::append(options, name.as_bstr(), old, new, message.as_bstr())?;
                }
                Action::Keep => {}
                Action::Delete => deletions.push(lock),
            }
        }

        // Removes logs first: a ref without its log is better than a log without its ref.
        for lock in &deletions {
            log::remove(options, lock.name.as_bstr())?;
        }
        // The lock stays held: no process may pack the loose refs again before they are removed.
        if let Some(lock) = &mut self.packed_lock {
            lock.publish()?;
        }
        for mut lock in deletions {
            remove_loose(options, lock.held().path())?;
        }
        Ok(())
    }

    fn publish(&self, name: &BString, lock: Lock) -> Result<(), Error> {
        let path = lock.path().to_owned();
        // Another process may have created an empty directory there since the check.
        if by_path::stat(&path)
            .is_ok_and(|stat| stat.is_some_and(|stat| stat.file_type == sys::FileType::Directory))
        {
            let _ = paths::remove_empty_tree(&path);
        }
        lock.commit().map_err(|source| Error::CannotSet { name: name.clone(), source })?;
        Ok(sync_parent(&self.options.fsync, Components::REFERENCE, &path)?)
    }
}

/// Returns the names that `name` needs as directories: `refs` and `refs/heads` for
/// `refs/heads/main`.
pub(super) fn above(name: &BStr) -> impl Iterator<Item = &BStr> {
    name.find_iter("/").map(|slash| name[..slash].as_bstr())
}

fn with_kind(error: crate::Error) -> (io::ErrorKind, crate::Error) {
    let kind = match &error {
        crate::Error::CannotLock { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    (kind, error)
}

fn remove_loose(options: &Options, path: &Path) -> Result<(), Error> {
    match by_path::remove_file(path) {
        // The ref was only packed, or the directory of that name holds other refs.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => Ok(()),
        Err(source) => Err(Error::Io { what: "remove", path: path.to_owned(), source }),
        Ok(()) => Ok(sync_parent(&options.fsync, Components::REFERENCE, path)?),
    }
}
