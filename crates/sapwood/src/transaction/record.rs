//! Writing the resulting index, sparse where Git's would be.

use std::sync::Arc;

use engine::{checkout, sparse::Patterns};
use format::index::{Entry, Index};
use store::{
    Lock,
    index::{CommitError, Survival},
    objects::ObjectTransaction,
};

use super::{Collapse, IndexTransaction, Recorded};
use crate::{
    Error,
    context::Context,
    hooks,
    sparse_index::{self, ExpansionHint},
};

impl IndexTransaction<'_> {
    /// Commits the index unless `recorded` is [`Recorded::No`]. Then returns the error that stopped
    /// the steps, if any.
    pub fn finish(&mut self, recorded: Recorded) -> Result<(), Error> {
        self.finish_with(recorded, None)
    }

    /// Like [`IndexTransaction::finish`], but publishes `objects` before the index is replaced,
    /// also if it is not written.
    pub fn finish_with(
        &mut self,
        recorded: Recorded,
        mut objects: Option<ObjectTransaction<'_>>,
    ) -> Result<(), Error> {
        let survival = match recorded {
            Recorded::Yes => Some(Survival::New),
            Recorded::Refreshed => Some(Survival::Either),
            Recorded::No => None,
        };
        if let (Some(error), true) = (self.state.unlocked.take(), survival.is_some()) {
            return Err(error.into());
        }
        match (self.state.lock.take(), survival) {
            (Some(lock), Some(survival)) => self.commit(lock, survival, objects)?,
            _ => objects.take().map_or(Ok(()), ObjectTransaction::publish)?,
        }
        self.context.check_interrupt()?;
        self.report.fatal.take().map_or(Ok(()), |message| Err(Error::Failed(message.into())))
    }

    fn commit(
        &mut self,
        mut lock: Lock,
        survival: Survival,
        mut objects: Option<ObjectTransaction<'_>>,
    ) -> Result<(), Error> {
        let output = self.state.output.take();
        let in_place = output.is_none();
        if let Some(output) = output {
            lock.deliver_to(output);
        }
        let patterns = self.sparse_patterns()?;
        if patterns.is_some() {
            // The trees of collapsed directories are written from them.
            objects.take().map_or(Ok(()), ObjectTransaction::publish)?;
        }
        let full = self.make_sparse(patterns)?;
        let Context { repo, settings, events, .. } = self.context;
        let racy = checkout::RacyCheck::new(repo, &self.target.worktree, &self.index)?;
        let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
        let options = settings.index_to_write(repo, &self.index, self.state.split, events);
        let (index, fsync) = (&mut self.index, &settings.fsync);
        let committed =
            store::index::commit_with(lock, index, &options, fsync, &is_modified, survival, objects);
        committed.map_err(|error| match error {
            CommitError::Objects(_) => error.into(),
            _ if in_place => error.into(),
            _ => Error::NewIndex,
        })?;
        if let Some(full) = full {
            let timestamp = self.index.timestamp;
            self.index = full;
            self.index.timestamp = timestamp;
        }
        hooks::post_index_change(self.context, self.policy.changed)
    }

    /// Writes the index into its lock file, where other programs may read and change it until
    /// [`IndexTransaction::publish`]. Publishes `objects`. The index in memory is unchanged.
    pub fn write_aside(&mut self, objects: ObjectTransaction<'_>) -> Result<(), Error> {
        let Some(mut lock) = self.state.lock.take() else { return Ok(objects.publish()?) };
        let patterns = self.sparse_patterns()?;
        let mut objects = Some(objects);
        if patterns.is_some() {
            objects.take().map_or(Ok(()), ObjectTransaction::publish)?;
        }
        let full = self.make_sparse(patterns)?;
        let racy = checkout::RacyCheck::new(self.context.repo, &self.target.worktree, &self.index)?;
        let is_modified = |path: &bstr::BStr, entry: &Entry| racy.is_modified(path, entry);
        let Context { repo, settings, events, .. } = self.context;
        let options = settings.index_to_write(repo, &self.index, self.state.split, events);
        let fsync = &settings.fsync;
        store::index::stage(&mut lock, &mut self.index, &options, fsync, &is_modified, objects)?;
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

    /// Returns the patterns by which the index is collapsed, unless it stays full.
    fn sparse_patterns(&self) -> Result<Option<Arc<Patterns>>, Error> {
        match &self.state.collapse {
            _ if self.state.split == Some(true) => Ok(None),
            Collapse::Kept => Ok(None),
            Collapse::Configured => Ok(sparse_index::wanted(self.context.repo)?.map(Arc::new)),
            Collapse::By(patterns) => Ok(patterns.clone()),
        }
    }

    /// Makes the index sparse where Git's would be. Returns the full index.
    fn make_sparse(&mut self, patterns: Option<Arc<Patterns>>) -> Result<Option<Index>, Error> {
        if self.state.split == Some(true) {
            sparse_index::expand(self.context.repo, &mut self.index)?;
            return Ok(None);
        }
        if matches!(self.state.collapse, Collapse::Kept) {
            return Ok(None);
        }
        sparse_index::prepare_for_write(
            self.context.repo,
            self.context.settings,
            &mut self.index,
            self.state.before.as_ref(),
            patterns.as_deref(),
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
