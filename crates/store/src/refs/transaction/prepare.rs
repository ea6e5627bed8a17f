//! The first half of a transaction: everything is locked, checked and staged.

use std::collections::BTreeSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, refname};

use super::{Failures, Follow, Held, Logged, New, Old, RefTransaction, Role, Stage, Update, lock::Checked};
use crate::refs::{
    Error, Reason, log,
    packed::PackedLock,
    paths,
    read::{End, Raw},
};

impl<'a> RefTransaction<'a> {
    /// Locks and checks all refs, and writes the new values into the lock files.
    pub fn prepare(&mut self) -> Result<(), Error> {
        crate::check_mapped_files()?;
        self.collect_names()?;
        self.ask(Stage::Preparing)?;
        if !self.updates.is_empty() {
            self.stage()?;
        }
        self.is_prepared = true;
        self.ask(Stage::Prepared)
    }

    /// Notifies the observer. Returns an error if the observer aborts.
    fn ask(&mut self, stage: Stage) -> Result<(), Error> {
        if self.tell(stage) {
            return Ok(());
        }
        self.release();
        self.tell(Stage::Aborted);
        Err(Error::Vetoed { stage })
    }

    fn collect_names(&mut self) -> Result<(), Error> {
        let mut names: Vec<&BString> = self.updates.iter().map(|update| &update.name).collect();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Duplicate { name: pair[0].clone() });
        }
        self.finder.names = names.into_iter().cloned().collect();
        Ok(())
    }

    fn stage(&mut self) -> Result<(), Error> {
        self.branch = match self.finder.reader.raw("HEAD".into()) {
            Ok(Raw::Symbolic(branch)) => Some(branch),
            // If HEAD cannot be read, its log would miss a line.
            Err(error) if !is_endless_link(&error) => return Err(error),
            _ => None,
        };
        // The loop appends implied updates.
        let mut at = 0;
        while at < self.updates.len() {
            if let Err(error) = self.stage_one(at) {
                self.reject(at, error)?;
            }
            at += 1;
        }
        let mut checked = Checked::default();
        for at in std::mem::take(&mut self.missing) {
            let update = &self.updates[at];
            if update.rejected.is_none()
                && let Err(error) = self.finder.check_available(update.name.as_bstr(), &mut checked)
            {
                self.reject(at, error)?;
            }
        }
        self.check_committer()?;
        self.prepare_packed()
    }

    /// Rejects the update `at`, if the error concerns only this update.
    fn reject(&mut self, at: usize, error: Error) -> Result<(), Error> {
        match error.rejection() {
            Some(kind) if self.failures == Failures::RejectOne => {
                self.finder.names.remove(&self.updates[at].name);
                self.updates[at].rejected = Some((kind, error.to_string()));
                self.rejected.push(at);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Locks and checks one ref, and stages its new value.
    fn stage_one(&mut self, at: usize) -> Result<(), Error> {
        self.split_head(at)?;
        let held = self.hold(at)?;
        self.updates[at].lock = Some(held);
        let raw = self.held[held].raw.clone();
        match raw {
            Raw::Symbolic(target) if self.updates[at].role == Role::HeadLog => {
                self.match_head(at, held, &target)?;
            }
            _ if self.updates[at].role == Role::HeadLog => return Err(Error::HeadMoved),
            Raw::Symbolic(target) if self.updates[at].follow == Follow::No => {
                self.check_symbolic(at, held, &target)?;
            }
            Raw::Symbolic(target) => self.split_symbolic(at, target)?,
            _ => self.check_direct(at, held)?,
        }
        self.write(at, held)
    }

    /// Adds an update of HEAD's reflog if HEAD points to the updated branch.
    fn split_head(&mut self, at: usize) -> Result<(), Error> {
        let update = &self.updates[at];
        if update.role != Role::Ref || update.via_head || Some(&update.name) != self.branch.as_ref() {
            return Ok(());
        }
        if self.finder.names.contains(BStr::new("HEAD")) {
            if self.allows_head {
                return Ok(());
            }
            return Err(Error::DuplicateHead { via: update.name.clone() });
        }
        let null = ObjectId::null(self.finder.options.hash);
        let line = Update {
            name: "HEAD".into(),
            new: match &update.new {
                New::Symbolic(_) => New::Id(null),
                new => new.clone(),
            },
            old: match &update.old {
                Old::Symbolic(_) => Old::Id(null),
                old => old.clone(),
            },
            follow: Follow::No,
            log: update.log,
            message: update.message.clone(),
            logged: Logged::default(),
            role: Role::HeadLog,
            parent: Some(at),
            via_head: false,
            lock: None,
            is_written: false,
            rejected: None,
        };
        self.updates.push(line);
        Ok(())
    }

    /// Returns the lock of the ref. Takes the lock unless another update has taken it.
    fn hold(&mut self, at: usize) -> Result<usize, Error> {
        let name = self.updates[at].name.clone();
        if let Some(held) = self.locks.get(&name) {
            // As in Git: HEAD was also edited, and that edit was rejected.
            return if self.updates[at].role == Role::HeadLog { Err(Error::HeadMoved) } else { Ok(*held) };
        }
        let must_exist = match &self.updates[at].old {
            Old::Any => false,
            Old::Id(oid) => !oid.is_null(),
            Old::Symbolic(_) => true,
        };
        let taken = self.take(at, &name, must_exist).map_err(|error| match error {
            Error::CannotLock { reason, .. } => Error::CannotLock { name: self.original(at), reason },
            error => error,
        })?;
        self.held.push(taken);
        self.locks.insert(name, self.held.len() - 1);
        Ok(self.held.len() - 1)
    }

    fn take(&mut self, at: usize, name: &BString, must_exist: bool) -> Result<Held<'a>, Error> {
        let cannot = |reason| Error::CannotLock { name: name.clone(), reason };
        let lock = self.finder.lock(name.as_bstr(), must_exist, &mut self.new_dirs)?;
        let raw = self.finder.reader.raw(name.as_bstr()).map_err(|error| match error {
            Error::Io { path, source, .. } if path == paths::loose(self.finder.options, name.as_bstr()) => {
                cannot(Reason::Unreadable { name: name.clone(), source })
            }
            error => error,
        })?;
        let mut old = ObjectId::null(self.finder.options.hash);
        match &raw {
            Raw::Direct(oid) => old = *oid,
            Raw::Symbolic(_) => {}
            Raw::Broken => return Err(cannot(Reason::Broken { name: name.clone() })),
            Raw::Missing | Raw::Directory if must_exist => {
                return Err(cannot(Reason::Unresolved { name: name.clone() }));
            }
            Raw::Missing => self.missing.push(at),
            Raw::Directory => {
                self.finder.clear_directory(name.as_bstr())?;
                self.missing.push(at);
            }
        }
        Ok(Held { lock, raw, old })
    }

    /// Checks that HEAD still points to the branch whose update added the line, and finds the
    /// line's old value.
    fn match_head(&mut self, at: usize, held: usize, target: &BString) -> Result<(), Error> {
        let update = &self.updates[at];
        let parent = &self.updates[update.parent.expect("a line for HEAD comes from its branch")];
        if parent.name != *target {
            return Err(Error::HeadMoved);
        }
        self.held[held].old = match update.old {
            Old::Id(oid) => oid,
            // If the branch is symbolic, Git has not resolved it yet, and logs the null name.
            _ => parent.lock.map_or(self.held[held].old, |lock| self.held[lock].old),
        };
        Ok(())
    }

    /// Checks the old value of a symbolic ref that is not followed.
    fn check_symbolic(&mut self, at: usize, held: usize, target: &BString) -> Result<(), Error> {
        let end = self.finder.reader.end(target.as_bstr())?;
        let old = match end {
            End::Id(oid) => oid,
            End::Dangling | End::Broken => ObjectId::null(self.finder.options.hash),
        };
        let cannot = |reason| Error::CannotLock { name: self.original(at), reason };
        match &self.updates[at].old {
            Old::Any => {}
            _ if end == End::Broken => return Err(cannot(Reason::ErrorReading)),
            Old::Symbolic(expected) if expected == target => {}
            Old::Symbolic(expected) => {
                let (name, expected) = (self.original(at), expected.clone());
                return Err(if target.is_empty() {
                    Error::TargetMissing { name, expected }
                } else {
                    Error::TargetMismatch { name, is: target.clone(), expected }
                });
            }
            Old::Id(expected) if expected.is_null() && old.is_null() => {
                return Err(cannot(Reason::DanglingSymref));
            }
            Old::Id(expected) => self.check_old(at, *expected, old)?,
        }
        self.held[held].old = old;
        Ok(())
    }

    /// Moves the update of a symbolic ref to its target. The symbolic ref itself only gets a log
    /// line.
    fn split_symbolic(&mut self, at: usize, target: BString) -> Result<(), Error> {
        let update = &mut self.updates[at];
        if !refname::is_safe(target.as_bstr()) && !paths::is_valid(target.as_bstr()) {
            return Err(Error::BadName { name: target });
        }
        if !self.finder.names.insert(target.clone()) {
            return Err(Error::DuplicateVia { name: target, via: update.name.clone() });
        }
        let through = Update {
            name: target,
            new: update.new.clone(),
            old: update.old.clone(),
            follow: Follow::Yes,
            log: update.log,
            message: update.message.clone(),
            logged: Logged::default(),
            role: Role::Ref,
            parent: Some(at),
            via_head: update.via_head || update.name == "HEAD",
            lock: None,
            is_written: false,
            rejected: None,
        };
        update.role = Role::LogOnly;
        self.updates.push(through);
        Ok(())
    }

    /// Checks the old value of a ref that is not symbolic, or does not exist. Symbolic refs that
    /// led to it expected the same value.
    fn check_direct(&mut self, at: usize, held: usize) -> Result<(), Error> {
        let old = self.held[held].old;
        match &self.updates[at].old {
            Old::Any => {}
            Old::Id(expected) => self.check_old(at, *expected, old)?,
            Old::Symbolic(expected) => {
                let reason = Reason::NotSymbolic { expected: expected.clone() };
                return Err(Error::CannotLock { name: self.original(at), reason });
            }
        }
        let mut parent = self.updates[at].parent;
        while let Some(above) = parent {
            if let Some(lock) = self.updates[above].lock {
                self.held[lock].old = old;
            }
            parent = self.updates[above].parent;
        }
        Ok(())
    }

    fn check_old(&self, at: usize, expected: ObjectId, is: ObjectId) -> Result<(), Error> {
        let reason = match () {
            () if expected == is => return Ok(()),
            () if expected.is_null() => Reason::AlreadyExists,
            () if is.is_null() => Reason::Missing { expected },
            () => Reason::Mismatch { is, expected },
        };
        Err(Error::CannotLock { name: self.original(at), reason })
    }

    /// Writes the new value into the lock file, if there is one.
    fn write(&mut self, at: usize, held: usize) -> Result<(), Error> {
        let update = &mut self.updates[at];
        let Held { lock, raw, old } = &mut self.held[held];
        let content = match &update.new {
            _ if update.role != Role::Ref => None,
            New::Symbolic(target) => Some([b"ref: ", target.as_slice(), b"\n"].concat()),
            New::Id(new) if !new.is_null() && (matches!(raw, Raw::Symbolic(_)) || new != old) => {
                Some(format!("{new}\n").into_bytes())
            }
            New::Id(_) | New::Keep => None,
        };
        if let Some(content) = content {
            lock.held().write(&content)?;
            update.is_written = true;
        }
        Ok(lock.held().close()?)
    }

    /// Returns an error if the committer is required and missing, before anything changes.
    fn check_committer(&mut self) -> Result<(), Error> {
        if self.finder.options.committer.is_ok() {
            return Ok(());
        }
        for update in self.updates.iter().filter(|update| update.rejected.is_none()) {
            let is_logged = match &update.new {
                _ if update.role != Role::Ref => true,
                New::Symbolic(target) if update.logged.new.is_none() => {
                    self.finder.reader.resolve(target.as_bstr())?.is_some()
                }
                _ => update.is_written,
            };
            if is_logged {
                log::check_committer(self.finder.options, update.name.as_bstr(), update.log)?;
            }
        }
        Ok(())
    }

    /// Locks packed-refs if refs are removed, and stages a new file if some of them are packed.
    fn prepare_packed(&mut self) -> Result<(), Error> {
        let removed = |update: &&Update| update.rejected.is_none() && update.deletes();
        let in_order: Vec<BString> =
            self.updates.iter().filter(removed).map(|update| update.name.clone()).collect();
        if in_order.is_empty() {
            return Ok(());
        }
        let removed: BTreeSet<&BStr> = in_order.iter().map(|name| name.as_bstr()).collect();
        let removed: Vec<&BStr> = removed.into_iter().collect();
        self.packed_lock = Some(PackedLock::take(self.finder.options)?);
        // The content is stable only under the lock.
        self.finder.reader.forget_packed();
        let packed = self.finder.reader.packed()?;
        let mut found = false;
        for name in &removed {
            found |= packed.find(name)?.is_some();
        }
        if self.observer.is_some() {
            let null = ObjectId::null(self.finder.options.hash);
            let line = |name: &BString| format!("{null} {null} {name}\n");
            self.packed_lines = in_order.iter().map(line).collect::<String>().into_bytes();
        }
        if !found {
            self.tell_packed(Stage::Aborted);
            self.packed_lines.clear();
            return Ok(());
        }
        self.ask_packed(Stage::Preparing)?;
        let packed = self.finder.reader.packed()?;
        self.packed_lock.as_mut().expect("it was just taken").stage(packed, &removed, &[])?;
        self.ask_packed(Stage::Prepared)
    }

    fn ask_packed(&mut self, stage: Stage) -> Result<(), Error> {
        if self.tell_packed(stage) {
            return Ok(());
        }
        self.tell_packed(Stage::Aborted);
        Err(Error::Vetoed { stage })
    }
}

/// Returns true if a symbolic link leads to itself, so that the path is not a ref.
fn is_endless_link(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if sys::is_symlink_refused(source))
}
