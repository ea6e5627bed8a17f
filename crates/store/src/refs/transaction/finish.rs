//! The second half of a transaction: reflogs, refs, removals.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use sys::by_path;

use super::{Held, New, RefTransaction, Rejected, Role, Stage, Update, lock::Finder};
use crate::{
    Components, Lock,
    refs::{
        Error, Options,
        log::{self, Appended, Line},
        paths,
        read::{MAX_DEPTH, Raw, Reader},
        side_by_side,
    },
};

/// The appended lines, and the directories of new logs.
#[derive(Default)]
struct Logs {
    appended: Vec<Appended>,
    dirs: BTreeSet<PathBuf>,
}

impl Logs {
    /// Removes the lines again.
    fn undo(&self) {
        self.appended.iter().rev().for_each(Appended::undo);
    }
}

impl RefTransaction<'_> {
    /// Makes all edits that were not rejected. Returns the rejected edits.
    pub fn commit(mut self) -> Result<Vec<Rejected>, Error> {
        if !self.is_prepared {
            self.prepare()?;
        }
        let mut logs = Logs::default();
        let staged = self.append_logs(&mut logs).and_then(|()| self.sync_staged(&logs));
        if let Err(error) = staged {
            logs.undo();
            return Err(error);
        }
        self.publish(&logs)?;
        self.delete()?;
        self.release();
        self.tell(Stage::Committed);
        Ok(self.rejections())
    }

    /// Appends a line for each change to the reflogs that exist or have to be started.
    fn append_logs(&self, logs: &mut Logs) -> Result<(), Error> {
        let options = self.finder.options;
        let null = ObjectId::null(options.hash);
        // The new values of refs that change before a symbolic ref to them is logged.
        let mut changed: HashMap<&BStr, &New> = HashMap::new();
        for update in self.updates.iter().filter(|update| update.rejected.is_none()) {
            if update.role == Role::Ref && !update.is_written {
                continue;
            }
            let held = &self.held[update.lock.expect("every update was locked")];
            let new = match &update.new {
                New::Keep => Some(null),
                New::Id(oid) => Some(*oid),
                New::Symbolic(_) if update.logged.new.is_some() => update.logged.new,
                New::Symbolic(target) => self.resolve(target.as_bstr(), &changed)?,
            };
            if let Some(new) = new {
                let old = update.logged.old.unwrap_or(held.old);
                let line = Line { old, new, message: update.message.as_bstr() };
                let name = update.name.as_bstr();
                logs.appended.extend(log::append(options, name, line, update.log, &mut logs.dirs)?);
            }
            if update.is_written {
                changed.insert(update.name.as_bstr(), &update.new);
            }
        }
        Ok(())
    }

    /// Returns the object that a ref leads to after the changes in `changed`.
    fn resolve(&self, name: &BStr, changed: &HashMap<&BStr, &New>) -> Result<Option<ObjectId>, Error> {
        let mut reader = crate::refs::read::Reader::new(self.finder.options);
        let mut name = name.to_owned();
        for _ in 0..MAX_DEPTH {
            match changed.get(name.as_bstr()) {
                Some(New::Id(oid)) => return Ok(Some(*oid)),
                Some(New::Symbolic(target)) => name = target.clone(),
                Some(New::Keep) | None if changed.is_empty() => return reader.resolve(name.as_bstr()),
                Some(New::Keep) | None => match reader.target(name.as_bstr())? {
                    Some(target) => name = target,
                    None => return reader.resolve(name.as_bstr()),
                },
            }
        }
        Ok(None)
    }

    /// Syncs the appended lines, the directories of new logs and the lock files in parallel.
    fn sync_staged(&self, logs: &Logs) -> Result<(), Error> {
        let fsync = &self.finder.options.fsync;
        if !fsync.hardens(Components::REFERENCE) {
            return Ok(());
        }
        let written = |update: &&Update| update.is_written && update.rejected.is_none();
        let mut files: Vec<PathBuf> = Vec::new();
        for update in self.updates.iter().filter(written) {
            let held: &Held<'_> = &self.held[update.lock.expect("every update was locked")];
            files.push(held.lock.lock_path().to_owned());
        }
        let mut dirs = Vec::new();
        if log::is_synced(fsync) {
            let mut paths: Vec<&PathBuf> = logs.appended.iter().map(|appended| &appended.path).collect();
            paths.dedup();
            files.extend(paths.into_iter().cloned());
            dirs.extend(logs.dirs.iter().cloned());
        }
        side_by_side::sync(fsync, &files, &dirs)
    }

    /// Renames the lock files, and syncs their directories. If the first rename fails, removes the
    /// appended lines again.
    fn publish(&mut self, logs: &Logs) -> Result<(), Error> {
        let mut dirs = std::mem::take(&mut self.new_dirs);
        let mut result = Ok(());
        let mut is_first = true;
        for update in self.updates.iter().filter(|update| update.is_written && update.rejected.is_none()) {
            let held = &mut self.held[update.lock.expect("every update was locked")];
            let lock = held.lock.held();
            dirs.extend(lock.path().parent().map(Path::to_owned));
            result = publish(&update.name, lock);
            if result.is_err() {
                // The locks are still held.
                if is_first {
                    logs.undo();
                }
                break;
            }
            is_first = false;
        }
        let dirs: Vec<PathBuf> = dirs.into_iter().collect();
        result.and(side_by_side::sync(&self.finder.options.fsync, &[], &dirs))
    }

    /// Removes refs and their logs.
    fn delete(&mut self) -> Result<(), Error> {
        let options = self.finder.options;
        let deleted = |update: &&Update| update.rejected.is_none() && update.deletes();
        let deleted: Vec<(BString, usize)> = self
            .updates
            .iter()
            .filter(deleted)
            .map(|update| (update.name.clone(), update.lock.expect("every update was locked")))
            .collect();
        if deleted.is_empty() {
            return Ok(());
        }
        // Logs are removed first: a ref without its log is better than a log without its ref.
        let mut dirs = BTreeSet::new();
        for (name, _) in &deleted {
            log::remove(options, name.as_bstr(), &mut dirs)?;
        }
        if log::is_synced(&options.fsync) {
            side_by_side::sync(&options.fsync, &[], &dirs.into_iter().collect::<Vec<_>>())?;
        }
        // The lock stays held: no process may pack the loose refs again before they are removed.
        if let Some(lock) = &mut self.packed_lock {
            lock.publish()?;
        }
        self.tell_packed(Stage::Committed);
        let mut dirs = BTreeSet::new();
        for (_, lock) in &deleted {
            let path = self.held[*lock].lock.held().path().to_owned();
            if remove_loose(&path)? {
                dirs.extend(path.parent().map(Path::to_owned));
            }
        }
        side_by_side::sync(&options.fsync, &[], &dirs.into_iter().collect::<Vec<_>>())
    }
}

/// Removes a loose ref whose file names neither an object nor a ref, and its reflog. No transaction
/// accepts such a ref. A ref that has a value by the time of the lock stays.
pub fn remove_broken(options: &Options, name: &BStr) -> Result<(), Error> {
    if !paths::may_delete(name) {
        return Err(Error::BadName { name: name.to_owned() });
    }
    let mut finder = Finder { options, reader: Reader::new(options), names: BTreeSet::new() };
    let mut lock = finder.lock(name, true, &mut BTreeSet::new())?;
    if finder.reader.raw(name)? != Raw::Broken {
        return Ok(());
    }
    let mut dirs = BTreeSet::new();
    log::remove(options, name, &mut dirs)?;
    if !log::is_synced(&options.fsync) {
        dirs.clear();
    }
    let path = lock.held().path().to_owned();
    if remove_loose(&path)? {
        dirs.extend(path.parent().map(Path::to_owned));
    }
    side_by_side::sync(&options.fsync, &[], &dirs.into_iter().collect::<Vec<_>>())
}

fn publish(name: &BString, lock: &mut Lock) -> Result<(), Error> {
    let path = lock.path().to_owned();
    // Another process may have created an empty directory there since the check.
    if by_path::stat(&path)
        .is_ok_and(|stat| stat.is_some_and(|stat| stat.file_type == sys::FileType::Directory))
    {
        let _ = paths::remove_empty_tree(&path);
    }
    lock.publish().map_err(|source| Error::CannotSet { name: name.clone(), source })
}

/// Removes a loose ref. Returns false if there was none.
fn remove_loose(path: &Path) -> Result<bool, Error> {
    use std::io::ErrorKind::{IsADirectory, NotFound};
    match by_path::remove_file(path) {
        // The ref was only packed, or the path is a directory that contains other refs.
        Err(error) if matches!(error.kind(), NotFound | IsADirectory) => Ok(false),
        Err(source) => Err(Error::Io { what: "remove", path: path.to_owned(), source }),
        Ok(()) => Ok(true),
    }
}
