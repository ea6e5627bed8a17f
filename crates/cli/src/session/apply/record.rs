//! Writing the resulting index, sparse where Git's would be.

use std::sync::Arc;

use engine::checkout;
use format::index::{Entry, Index};

use super::{Collapse, Recorded, Transaction};
use crate::{
    session::{
        hooks,
        sparse_index::{self, ExpansionHint},
    },
    term::failure::Failure,
};

impl Transaction<'_> {
    /// Commits the index if `recorded` is [`Recorded::Yes`]. Then returns the error that stopped
    /// the steps, if any.
    pub(crate) fn finish(&mut self, recorded: Recorded) -> Result<(), Failure> {
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
            let racy = checkout::RacyCheck::new(self.session.repository, &self.target.worktree, &self.index)?;
            let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
            let options = self.session.settings.index_to_write(&self.index, self.state.split);
            let fsync = &self.session.settings.fsync;
            let committed = store::index::commit(lock, &mut self.index, &options, fsync, &is_modified);
            committed.map_err(|error| match in_place {
                true => error.into(),
                false => Failure::fatal("unable to write new index file"),
            })?;
            if let Some(full) = full {
                let timestamp = self.index.timestamp;
                self.index = full;
                self.index.timestamp = timestamp;
            }
            hooks::post_index_change(self.session.repository, self.session.settings, self.policy.changed)?;
        }
        self.session.invocation.interrupt.check()?;
        self.report.fatal.take().map_or(Ok(()), |message| Err(Failure::fatal(message)))
    }

    /// Writes the index into its lock file, where other programs may read and change it until
    /// [`Transaction::publish`]. The index in memory is unchanged.
    pub(crate) fn write_aside(&mut self) -> Result<(), Failure> {
        let Some(mut lock) = self.state.lock.take() else { return Ok(()) };
        let full = self.make_sparse()?;
        let racy = checkout::RacyCheck::new(self.session.repository, &self.target.worktree, &self.index)?;
        let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
        let options = self.session.settings.index_to_write(&self.index, self.state.split);
        let fsync = &self.session.settings.fsync;
        store::index::stage(&mut lock, &mut self.index, &options, fsync, &is_modified)?;
        self.state.lock = Some(lock);
        if let Some(full) = full {
            let timestamp = self.index.timestamp;
            self.index = full;
            self.index.timestamp = timestamp;
        }
        hooks::post_index_change(self.session.repository, self.session.settings, self.policy.changed)
    }

    /// Returns the path of the file that [`Transaction::write_aside`] writes.
    pub(crate) fn lock_file(&self) -> Option<&std::path::Path> {
        self.state.lock.as_ref().map(store::Lock::lock_path)
    }

    /// Replaces the index by the file of [`Transaction::write_aside`].
    pub(crate) fn publish(mut self) -> Result<(), store::Error> {
        match self.state.lock.take() {
            Some(lock) => store::index::publish(lock, &self.session.settings.fsync),
            None => Ok(()),
        }
    }

    /// Makes the index sparse where Git's would be. Returns the full index.
    fn make_sparse(&mut self) -> Result<Option<Index>, Failure> {
        if self.state.split == Some(true) {
            sparse_index::expand(self.session.repository, &mut self.index)?;
            return Ok(None);
        }
        let patterns = match &self.state.collapse {
            Collapse::Kept => return Ok(None),
            Collapse::Configured => sparse_index::wanted(self.session.repository)?.map(Arc::new),
            Collapse::By(patterns) => patterns.clone(),
        };
        let patterns = patterns.as_deref();
        sparse_index::prepare_for_write(
            self.session.repository,
            self.session.settings,
            &mut self.index,
            self.state.before.as_ref(),
            patterns,
        )
    }

    /// Records that Git expands the index here, and prints the hint unless it was expanded before.
    pub(crate) fn needs_full(&mut self) -> Result<(), Failure> {
        match self.state.before.take() {
            Some(_) => sparse_index::report_expansion(
                self.session.repository,
                self.session.settings,
                &self.index,
                ExpansionHint::Print,
            ),
            None => Ok(()),
        }
    }

    /// Records that Git expands the index to find `path`, if a collapsed directory contains it.
    pub(crate) fn looks_for(&mut self, path: &bstr::BStr) -> Result<(), Failure> {
        match sparse_index::is_collapsed(self.state.before.as_ref(), path) {
            true => self.needs_full(),
            false => Ok(()),
        }
    }

    /// Records that Git expands the index to change entries in a collapsed directory, if `after`,
    /// the index after the change, has such changes.
    pub(crate) fn changes_collapsed(&mut self, after: &Index) -> Result<(), Failure> {
        match self.state.before.as_ref().is_some_and(|before| sparse_index::changes(before, after)) {
            true => self.needs_full(),
            false => Ok(()),
        }
    }
}
