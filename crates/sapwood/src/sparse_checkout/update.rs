//! Worktree, index and file of a new selection.

use std::sync::{Arc, atomic::Ordering};

use bstr::{BStr, ByteSlice as _};
use engine::{
    checkout,
    sparse::{self, Patterns},
};
use format::index::Index;
use sys::{Dir, FileType};

use super::selection::{Mode, Selection, TOP};
use crate::{
    Context, Error, Notice,
    index::{load_raw, read_index},
    sparse_index::{Expansion, ExpansionHint, Read},
    text,
    transaction::{Collapse, Done, IndexTransaction, Recorded, Start},
};

impl Selection<'_> {
    /// Begins a selection, in a mode that was taken.
    pub fn begin(&self) -> Result<Done, Error> {
        let Context { repo, settings, .. } = self.context;
        let file = self.file();
        if Patterns::read(&file, false, self.icase)?.is_some() {
            return self.reapply();
        }
        if let Err(error) = repo.rev_parse("HEAD".into()) {
            if error.is_unreadable() {
                return Err(error.into());
            }
            // In a repository without a commit there is nothing to update.
            self.make_directory()?;
            let mut lock = store::Lock::take(&file, &settings.locks)?;
            lock.write(TOP)?;
            lock.commit()?;
            return Ok(Done::Complete);
        }
        self.write_and_update(self.selecting_top())
    }

    /// Selects all files, and records that.
    pub fn disable(mut self) -> Result<(), Error> {
        // Entries may have the skip-worktree flag even if the configuration disables sparse
        // checkouts.
        self.on = true;
        self.sparse_index = false;
        self.context.settings.reported_expansion.store(true, Ordering::Relaxed);
        let all = Patterns::parse(b"/*\n", false, self.icase).patterns;
        if self.update(all)? == Done::Incomplete {
            return Err(Error::failed("error while refreshing working directory"));
        }
        self.record(Mode::Off)
    }

    fn make_directory(&self) -> Result<(), Error> {
        let file = self.file();
        let parent = file.parent().expect("the file is in the Git directory");
        let made = self.context.settings.locks.shared.create_dir_all(parent);
        made.map_err(|error| {
            let (place, reason) = (parent.display(), sys::reason(&error));
            Error::failed(format!("failed to create directory for sparse-checkout file: {place}: {reason}"))
        })
    }

    /// Applies `patterns`, and then writes them to the file. If files cannot be written, applies
    /// those of the file again.
    pub fn write_and_update(&self, patterns: Patterns) -> Result<Done, Error> {
        self.make_directory()?;
        let mut lock = store::Lock::take(&self.file(), &self.context.settings.locks)?;
        let content = if self.cone {
            patterns.to_file()
        } else {
            patterns.lines().iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
        };
        if self.update(patterns)? == Done::Incomplete {
            drop(lock);
            self.reapply()?;
            return Ok(Done::Incomplete);
        }
        lock.write(&content)?;
        lock.commit()?;
        Ok(Done::Complete)
    }

    /// Reapplies the patterns of the file.
    pub fn reapply(&self) -> Result<Done, Error> {
        let Some(loaded) = Patterns::read(&self.file(), self.cone, self.icase)? else {
            return Ok(Done::Complete);
        };
        self.warn(&loaded.warnings);
        let done = self.update(loaded.patterns)?;
        // Git reads the file once more, to find remaining directories, and repeats its warnings.
        self.warn(&loaded.warnings);
        Ok(done)
    }

    /// Updates worktree and index to `patterns`.
    fn update(&self, patterns: Patterns) -> Result<Done, Error> {
        let Context { repo, settings, events, .. } = self.context;
        let before = load_raw(repo, settings)?;
        if before.is_empty() && before.timestamp.0 == 0 {
            // Nothing has been checked out.
            return Ok(Done::Complete);
        }
        drop(before);
        let patterns = Arc::new(patterns);
        let mut transaction = IndexTransaction::start(self.context, Start::Full { dry_run: false })?;
        transaction.policy.original_cwd.clone_from(&self.original_cwd);
        self.expand(&mut transaction, &patterns)?;
        let collapses = self.sparse_index && self.cone;
        transaction.state.collapse = Collapse::By(collapses.then(|| patterns.clone()));
        transaction.policy.progress = self.progress;
        let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let (worktree, cwd) = (transaction.worktree(), self.original_cwd.clone());
        let plan = checkout::plan_sparsity(repo, worktree, index, patterns.clone(), cwd)?;
        let warnings = plan.warnings.clone();
        let done = transaction.carry_out(checkout::Plan { warnings: Vec::new(), ..plan })?;
        warnings.into_iter().for_each(|text| events.notice(Notice::Plan(text)));
        transaction.finish(Recorded::Yes)?;
        self.remove_emptied(&transaction, &patterns)?;
        Ok(done)
    }

    /// Reports the expansion of a sparse index if Git expands the whole index for new patterns: if
    /// the index will not be sparse, or has conflicts. Otherwise Git expands only some directories.
    fn expand(&self, transaction: &mut IndexTransaction<'_>, patterns: &Patterns) -> Result<(), Error> {
        if self.sparse_index && patterns.cone().is_some() && !transaction.index.is_unmerged() {
            transaction.state.before = None;
        }
        transaction.needs_full()
    }

    /// Removes directories that are outside the cone and contain at most ignored files.
    fn remove_emptied(&self, transaction: &IndexTransaction<'_>, patterns: &Patterns) -> Result<(), Error> {
        let Context { repo, events, .. } = self.context;
        if transaction.index.is_unmerged() {
            return Ok(());
        }
        let worktree = transaction.worktree();
        for (dir, _) in sparse::directories(&transaction.index, patterns, None) {
            let dir = dir.as_bstr();
            if !is_directory(worktree, dir) {
                continue;
            }
            if checkout::has_untracked(repo, worktree, &transaction.index, dir)? {
                events.notice(Notice::NotRemoved(text!(
                    "directory '",
                    dir,
                    "/' contains untracked files, but is not in the sparse-checkout cone"
                )));
            } else if checkout::remove_directory(repo, worktree, dir).is_err() {
                events.notice(Notice::NotRemoved(text!("failed to remove directory '", dir, "/'")));
            }
        }
        Ok(())
    }

    /// Removes directories outside the cone, with all their files. Calls `found` for each of them
    /// before; with `dry_run`, removes nothing.
    pub fn clean(&self, dry_run: bool, found: &mut dyn FnMut(&Dir, &BStr)) -> Result<(), Error> {
        let Context { repo, events, .. } = self.context;
        let root = repo.work_tree().ok_or(Error::NoWorktree)?;
        let worktree = Dir::open(root).map_err(Error::cannot_open(root))?;
        let Read { index, before, .. } =
            read_index(self.context, &worktree, ExpansionHint::Print, Expansion::AtOnce)?;
        let patterns = Patterns::read(&self.file(), true, self.icase)?;
        if let Some(loaded) = &patterns {
            self.warn(&loaded.warnings);
        }
        let patterns = patterns.map(|loaded| loaded.patterns).filter(|patterns| patterns.cone().is_some());
        let is_full = before.is_none() && (index.is_unmerged() || index.is_empty());
        let (Some(patterns), false) = (patterns, is_full) else {
            return Err(Error::failed(
                "failed to convert index to a sparse index; resolve merge conflicts and try again",
            ));
        };
        for (dir, _) in sparse::directories(&index, &patterns, before.as_ref()) {
            let dir = dir.as_bstr();
            if !is_directory(&worktree, dir) {
                continue;
            }
            found(&worktree, dir);
            if dry_run {
                continue;
            }
            if let Err(error) = checkout::remove_directory(repo, &worktree, dir) {
                let reason = sys::reason(&error);
                events.notice(Notice::NotRemoved(text!("failed to remove '", dir, "/': ", reason)));
            }
        }
        Ok(())
    }
}

fn is_directory(worktree: &Dir, dir: &BStr) -> bool {
    let found = worktree.stat(dir).ok().flatten();
    found.is_some_and(|stat| stat.file_type == FileType::Directory)
}
