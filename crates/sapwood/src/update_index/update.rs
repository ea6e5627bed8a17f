//! The index while it is changed, and the changes of single entries.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, FileHasher, Finding, PathProbe, RefreshOptions, Staging},
    monitor::WriteIndex,
    pathspec::{Pathspecs, Seen},
    stat::StatRules,
    workspace::{backend::Backend, record},
};
use format::{
    Mode, ObjectId,
    index::{Flags, Index},
    path::{self, Protect},
};
use repo::keys;
use store::objects::ObjectTransaction;
use sys::Dir;

use super::{Change, NewEntry, Rules, whole::State};
use crate::{
    Context, Error, Notice,
    events::Staged,
    index::must_have_been_readable,
    monitor,
    sparse_index::{self, ExpansionHint},
    text,
    transaction::IndexTransaction,
};

/// An index that is changed in memory.
pub struct Update<'a> {
    pub(super) context: Context<'a>,
    worktree: &'a Dir,
    pub(super) probe: PathProbe<'a>,
    pub(super) transaction: IndexTransaction<'a>,
    pub(super) staging: Staging,
    pub(super) hasher: FileHasher<'a>,
    pub(super) objects: &'a ObjectTransaction<'a>,
    pub(super) stat_rules: StatRules,
    pub(super) protect: Protect,
    /// The rules for the next change.
    pub rules: Rules,
    /// The flags of new entries.
    pub(super) flags: Flags,
    pub(super) state: State,
    /// A change had no effect, for a reason that was reported or returned.
    pub has_errors: bool,
}

/// Prepares an index for changes of single entries. Returns the worktree.
pub fn prepare(transaction: &mut IndexTransaction<'_>) -> Result<Dir, Error> {
    if transaction.state.before.is_none() {
        sparse_index::expand(transaction.context().repo, &mut transaction.index)?;
    }
    transaction.worktree().try_clone().map_err(|error| Error::failed(sys::reason(&error)))
}

impl<'a> Update<'a> {
    /// Begins with the index of `transaction`. `objects` receives new objects.
    pub fn new(
        worktree: &'a Dir,
        mut transaction: IndexTransaction<'a>,
        objects: &'a ObjectTransaction<'a>,
    ) -> Result<Update<'a>, Error> {
        let context = transaction.context();
        let Context { repo, settings, .. } = context;
        let mut index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let state = State::of(repo, &index);
        let worth = monitor::refresh(context, &mut index)?;
        let protect = add::protect(repo)?;
        let mut staging = Staging::new(index, protect);
        let is_worthwhile = worth == WriteIndex::Worthwhile;
        staging.set_changed(transaction.state.differs_on_disk || state.is_changed() || is_worthwhile);
        let assume_unchanged = repo.config(&keys::core::IGNORE_STAT)?;
        Ok(Update {
            context,
            worktree,
            probe: PathProbe::new(worktree),
            transaction,
            staging,
            hasher: FileHasher::new(repo, worktree, settings.big_file_threshold),
            objects,
            stat_rules: StatRules::of(repo)?,
            protect,
            rules: Rules::default(),
            flags: if assume_unchanged { Flags::ASSUME_VALID } else { Flags::empty() },
            state,
            has_errors: false,
        })
    }

    /// Makes one change. Returns the entries that a refresh could not update.
    pub fn apply(&mut self, change: Change) -> Result<Vec<Finding>, Error> {
        match change {
            Change::Rules(rules) => self.rules = rules,
            Change::Refresh { really } => return self.refresh(really),
            Change::Path(path) => {
                self.needs_worktree()?;
                self.paths(&[path])?;
            }
            Change::Again(specs) => self.again(&specs)?,
            Change::Entry(entry) => {
                let path = entry.path.clone();
                if !self.enter(entry)? {
                    return Err(Error::Failed(text!("Unable to process path ", path)));
                }
            }
            Change::Unresolve(paths) => self.unresolve(&paths)?,
            Change::ForgetResolved => self.forget_resolved(),
        }
        Ok(Vec::new())
    }

    /// Compares the entries with their files. Returns those that stay as they are.
    pub fn refresh(&mut self, really: bool) -> Result<Vec<Finding>, Error> {
        self.needs_worktree()?;
        let assume_unchanged = self.flags.contains(Flags::ASSUME_VALID);
        let options = RefreshOptions { really, assume_unchanged, ..self.rules.refresh };
        let has_directory = really && self.has_base_directory()?;
        let index = self.staging.index();
        if has_directory {
            // The upper layer does not show a write into a file of the base.
            index.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(Flags::FSMONITOR_VALID));
        }
        let mut refreshed = add::refresh(self.context.repo, self.worktree, index, &options)?;
        must_have_been_readable()?;
        // Writing the index makes it newer than the files, so that they need not be read each time.
        // As in Git, a split index is then written whole.
        let is_racy = index.has_racy();
        self.state.something_changed |= is_racy;
        if refreshed.changed || is_racy {
            self.staging.set_changed(true);
        }
        let quiet = self.rules.quiet;
        refreshed.findings.retain(|finding| !(quiet && matches!(finding, Finding::NeedsUpdate(_))));
        self.has_errors |= !refreshed.findings.is_empty();
        Ok(refreshed.findings)
    }

    /// Returns true in a workspace whose base is a directory, so that somebody could write to it.
    fn has_base_directory(&self) -> Result<bool, Error> {
        let repo = self.context.repo;
        let found = record::of_git_dir(&repo.real_common_dir(), repo.git_dir())?;
        let backend = found.map(|workspace| workspace.record.backend);
        Ok(backend.is_some_and(|backend| backend.has_upper() && backend != Backend::Image))
    }

    /// Updates the merged entries that differ from HEAD; all entries before the first commit.
    pub fn again(&mut self, specs: &Pathspecs) -> Result<(), Error> {
        self.needs_worktree()?;
        let tree = match self.context.repo.head()?.oid() {
            Some(commit) => Some(self.context.repo.tree_of(commit)?),
            None => None,
        };
        // Like Git, forgets errors of an earlier refresh.
        self.has_errors = false;
        // Like Git, starts again after an entry was removed or has replaced others. Messages may be
        // reported twice.
        while !self.once_again(specs, tree)? {}
        Ok(())
    }

    /// Makes one pass. Returns false, and stops, when the number of entries changes.
    fn once_again(&mut self, specs: &Pathspecs, tree: Option<ObjectId>) -> Result<bool, Error> {
        let repo = self.context.repo;
        let index = self.staging.index();
        let differing = if index.sparse {
            let mut full = index.clone();
            sparse_index::expand(repo, &mut full)?;
            add::differing(repo, &full, tree)?
        } else {
            add::differing(repo, index, tree)?
        };
        for (path, mode) in differing {
            self.context.check_interrupt()?;
            let path = path.as_bstr();
            if !specs.is_empty() && !specs.matches_entry(path, mode, &mut Seen::default()) {
                continue;
            }
            // Git expands the index at a collapsed directory that differs from HEAD.
            self.looks_for(path)?;
            let before = self.staging.index().len();
            self.update(path, None)?;
            if self.staging.index().len() != before {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Restores the stages of paths that were resolved. If one has none, it is reported, and the
    /// index is not written for the others.
    pub fn unresolve(&mut self, paths: &[BString]) -> Result<(), Error> {
        self.has_errors = false;
        for path in paths {
            self.looks_for(path.as_bstr())?;
            if self.staging.unresolve(path.as_bstr()).is_err() {
                self.report(text!("cannot unmerge '", path, "'"));
                self.has_errors = true;
            }
        }
        if self.has_errors {
            self.staging.set_changed(false);
        }
        Ok(())
    }

    /// Forgets the stages of all paths that were resolved.
    pub fn forget_resolved(&mut self) {
        if self.staging.index().resolve_undo.take().is_some() {
            self.staging.set_changed(true);
        }
    }

    /// Puts an entry into the index. Returns false if that failed, for a reason that was reported.
    pub fn enter(&mut self, entry: NewEntry) -> Result<bool, Error> {
        let NewEntry { path, mode, oid, stage } = entry;
        let path = path.as_bstr();
        if !self.is_valid(path, mode) {
            self.report(text!("Invalid path '", path, "'"));
            return Ok(false);
        }
        self.looks_for(path)?;
        if self.put(path, Staging::entry(oid, mode, stage, self.flags)).is_err() {
            return Ok(false);
        }
        self.tell(Staged::Added(path));
        Ok(true)
    }

    /// Like [`Update::enter`]; mode 0 removes all entries of the path. A path that no index may
    /// have is reported and left out.
    pub fn enter_or_remove(&mut self, entry: NewEntry) -> Result<bool, Error> {
        let path = entry.path.as_bstr();
        if !self.is_valid(path, entry.mode) {
            self.context.events.notice(Notice::IgnoredPath(path.to_owned()));
            return Ok(true);
        }
        if entry.mode != 0 {
            return self.enter(entry);
        }
        self.looks_for(path)?;
        self.staging.remove(path);
        Ok(true)
    }

    /// Returns true for a path that an entry of this mode may have. An entry has no slash at its
    /// end.
    fn is_valid(&self, path: &BStr, mode: u32) -> bool {
        let kind = match Mode::from_raw(mode) {
            mode if mode.is_symlink() => mode,
            _ => Mode::FILE,
        };
        path::verify(path, kind, self.protect).is_ok()
    }

    /// Returns an error in a repository without a worktree.
    pub fn needs_worktree(&self) -> Result<(), Error> {
        self.context.repo.work_tree().map(drop).ok_or(Error::NoWorktree)
    }

    pub(super) fn report(&self, message: impl Into<BString>) {
        self.context.events.notice(Notice::NotStaged(message.into()));
    }

    /// Reports a change, with [`Rules::verbose`].
    pub(super) fn tell(&self, staged: Staged<'_>) {
        if self.rules.verbose {
            self.context.events.staged(staged);
        }
    }

    /// Expands a sparse index if `path` lies in a collapsed directory, as Git does to look it up.
    pub(super) fn looks_for(&mut self, path: &BStr) -> Result<(), Error> {
        if sparse_index::is_collapsed(self.transaction.state.before.as_ref(), path) {
            self.transaction.state.before = None;
            self.staging.set_changed(true);
            let index = self.staging.index();
            sparse_index::report_expansion(self.context, index, ExpansionHint::Print)?;
            sparse_index::expand(self.context.repo, index)?;
        }
        Ok(())
    }
}
