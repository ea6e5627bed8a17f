//! Writing the resulting index, sparse where Git's would be.

use std::sync::Arc;

use engine::checkout;
use format::index::{Entry, Index};

use super::{Collapse, IndexTransaction, Recorded};
use crate::{
    Error, hooks,
    sparse_index::{self, ExpansionHint},
};

impl IndexTransaction<'_> {
    /// Commits the index if `recorded` is [`Recorded::Yes`]. Then returns the error that stopped
    /// the steps, if any.
    pub fn finish(&mut self, recorded: Recorded) -> Result<(), Error> {
        if let (Some(error), Recorded::Yes) = (self.state.unlocked.take(), recorded) {
            return Err(error.into());
        }
        if let (Some(mut lock), Recorded::Yes) = (self.state.lock.take(), recorded) {
            let output = self.state.output.take();
            let in_place = output.is_none();
            if let Some(output) = output {
                lock.deliver_to(output);
            }
            let full = self.make_sparse()?;
            let racy = checkout::RacyCheck::new(self.context.repo, &self.target.worktree, &self.index)?;
            let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
            let options =
                self.context.settings.index_to_write(&self.index, self.state.split, self.context.events);
            let fsync = &self.context.settings.fsync;
            let committed = store::index::commit(lock, &mut self.index, &options, fsync, &is_modified);
            committed.map_err(|error| if in_place { error.into() } else { Error::NewIndex })?;
            if let Some(full) = full {
                let timestamp = self.index.timestamp;
                self.index = full;
                self.index.timestamp = timestamp;
            }
            hooks::post_index_change(self.context, self.policy.changed)?;
        }
        self.context.check_interrupt()?;
        self.report.fatal.take().map_or(Ok(()), |message| Err(Error::Failed(message.into())))
    }

    /// Writes the index into its lock file, where other programs may read and change it until
    /// [`IndexTransaction::publish`]. The index in memory is unchanged.
    pub fn write_aside(&mut self) -> Result<(), Error> {
        let Some(mut lock) = self.state.lock.take() else { return Ok(()) };
        let full = self.make_sparse()?;
        let racy = checkout::RacyCheck::new(self.context.repo, &self.target.worktree, &self.index)?;
        let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
        let options =
            self.context.settings.index_to_write(&self.index, self.state.split, self.context.events);
        let fsync = &self.context.settings.fsync;
        store::index::stage(&mut lock, &mut self.index, &options, fsync, &is_modified)?;
        self.state.lock = Some(lock);
        if let Some(full) = full {
            let timestamp = self.index.timestamp;
            self.index = full;
            self.index.timestamp = timestamp;
        }
        hooks::post_index_change(self.context, self.policy.changed)
    }

    /// Returns the path of the file that [`IndexTransaction::write_aside`] writes.
    pub fn lock_file(&self) -> Option<&std::path::Path> {
        self.state.lock.as_ref().map(store::Lock::lock_path)
    }

    /// Replaces the index by the file of [`IndexTransaction::write_aside`].
    pub fn publish(mut self) -> Result<(), store::Error> {
        match self.state.lock.take() {
            Some(lock) => store::index::publish(lock, &self.context.settings.fsync),
            None => Ok(()),
        }
    }

    /// Makes the index sparse where Git's would be. Returns the full index.
    fn make_sparse(&mut self) -> Result<Option<Index>, Error> {
        if self.state.split == Some(true) {
            sparse_index::expand(self.context.repo, &mut self.index)?;
            return Ok(None);
        }
        let patterns = match &self.state.collapse {
            Collapse::Kept => return Ok(None),
            Collapse::Configured => sparse_index::wanted(self.context.repo)?.map(Arc::new),
            Collapse::By(patterns) => patterns.clone(),
        };
        let patterns = patterns.as_deref();
        sparse_index::prepare_for_write(
            self.context.repo,
            self.context.settings,
            &mut self.index,
            self.state.before.as_ref(),
            patterns,
        )
    }

    /// Records that Git expands the index here, and reports it unless it was expanded before.
    pub fn needs_full(&mut self) -> Result<(), Error> {
        match self.state.before.take() {
            Some(_) => sparse_index::report_expansion(self.context, &self.index, ExpansionHint::Print),
            None => Ok(()),
        }
    }

    /// Records that Git expands the index to find `path`, if a collapsed directory contains it.
    pub fn looks_for(&mut self, path: &bstr::BStr) -> Result<(), Error> {
        if sparse_index::is_collapsed(self.state.before.as_ref(), path) { self.needs_full() } else { Ok(()) }
    }

    /// Records that Git expands the index to change entries in a collapsed directory, if `after`,
    /// the index after the change, has such changes.
    pub fn changes_collapsed(&mut self, after: &Index) -> Result<(), Error> {
        if self.state.before.as_ref().is_some_and(|before| sparse_index::changes(before, after)) {
            self.needs_full()
        } else {
            Ok(())
        }
    }
}
