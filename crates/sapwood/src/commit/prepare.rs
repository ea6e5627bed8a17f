//! The index to commit: the current index, or with all changes of tracked files, or with only some
//! paths. Git's `prepare_index`.
//!
//! Current index: it is refreshed and written at once. All changes: the new index is written into
//! the lock file, where hooks find it, and replaces the index after the commit. Some paths: as with
//! all changes, but the commit is created from another index, `next-index-<pid>.lock`, which is
//! HEAD with these paths.
//!
//! Objects and index are written before a program can read them: a hook, the editor. Where none
//! runs ([`Programs::None`]), they wait for the commit, so that one round of flushes makes them and
//! the commit durable.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, Finding, Missing, RefreshOptions, Trees},
    checkout::{IndexOptions, RacyCheck, plan_index},
    diff::{self, Missing as MissingModule, Pair, Side, Status, SubmoduleIgnore},
    pathspec::{Pathspecs, Seen},
    status::{self, Touched},
};
use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage as Of},
};
use repo::{CommitText, keys, submodule::Ignore};
use store::objects::ObjectTransaction;
use sys::Dir;

use super::Whence;
use crate::{
    Error,
    context::Context,
    monitor::{self, WriteIndex},
    sparse_index::{self, Expansion, ExpansionHint, Read},
    stage::{self, Stage},
    status::messages,
    text,
    transaction::{IndexTransaction, Recorded, Start},
};

/// The part of the worktree to commit.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Paths to commit. None of them: the index as it is, or with `all`.
    pub pathspecs: Pathspecs,
    /// All changes of tracked files, in addition to the index (`-a`).
    pub all: bool,
    /// The changes of the paths, in addition to the index (`-i`).
    pub include: bool,
    /// Nothing but the paths (`-o`), which is the default if there are paths.
    pub only: bool,
}

/// The index to commit.
pub struct Prepared<'a> {
    pub(super) context: Context<'a>,
    /// The index.
    pub index: Index,
    /// The sparse index it was read from, as long as Git's would still be sparse.
    pub before: Option<Index>,
    /// The trees of the index, unless they could not be made.
    pub trees: Option<Trees>,
    /// The file that contains the index, under the name that programs get.
    pub file: PathBuf,
    /// The locked index that replaces the index after the commit, or before that if `waiting` says
    /// so.
    next: Option<IndexTransaction<'a>>,
    /// The part that is not written yet.
    waiting: Option<Waiting<'a>>,
    /// The lock of the other index, for a commit of some paths.
    _other: Option<store::Lock>,
}

/// Objects and an index that are not written yet.
struct Waiting<'a> {
    objects: ObjectTransaction<'a>,
    index: Write,
}

/// The way in which an index is written.
#[derive(Clone, Copy)]
pub(super) enum Write {
    /// Into the lock file.
    Aside,
    /// In place, and then it is unlocked.
    InPlace(Recorded),
}

/// The programs that run before the commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// Some may run.
    Some,
    /// None.
    None,
}

/// The purpose for which an index is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreparedFor {
    /// A commit.
    Commit,
    /// A dry run, which shows conflicts instead of failing.
    Status,
}

/// The inputs of [`prepare`].
#[derive(Clone, Copy)]
pub struct Inputs<'a, 'p> {
    /// The repository.
    pub context: Context<'a>,
    /// The directory in which the program was started: see [`crate::transaction::Policy`].
    pub original_cwd: Option<&'p BStr>,
    /// The root of the worktree.
    pub worktree: &'a Dir,
    /// The commit that HEAD points to.
    pub head: Option<&'p CommitText>,
    /// The operation that the commit concludes.
    pub whence: Whence,
    /// The part of the worktree to commit.
    pub selection: &'p Selection,
    /// The purpose.
    pub purpose: PreparedFor,
    /// The programs that run before the commit is made.
    pub programs: Programs,
}

/// Prepares the index of a commit.
pub fn prepare<'a>(inputs: Inputs<'a, '_>) -> Result<Prepared<'a>, Error> {
    let selection = inputs.selection;
    if selection.all || selection.include && !selection.pathspecs.is_empty() {
        inputs.with_changes()
    } else if !selection.only && selection.pathspecs.is_empty() {
        inputs.as_it_is()
    } else {
        inputs.some_paths()
    }
}

impl<'a> Inputs<'a, '_> {
    fn start(&self, start: Start) -> Result<IndexTransaction<'a>, Error> {
        let mut transaction = IndexTransaction::start(self.context, start)?;
        transaction.policy.original_cwd = self.original_cwd.map(BStr::to_owned);
        Ok(transaction)
    }

    fn as_it_is(&self) -> Result<Prepared<'a>, Error> {
        let Context { repo, settings, .. } = self.context;
        let mut transaction = self.start(Start::Sparse { dry_run: false })?;
        let worth = monitor::refresh(self.context, &mut transaction.index)?;
        let mut changed = transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
        changed |= self.refresh(&mut transaction)?;
        let objects = ObjectTransaction::new(settings.objects(repo));
        let known = transaction.index.cache_tree.clone();
        let trees = add::write_tree(&mut transaction.index, repo, &objects, Missing::Refused).ok();
        changed |= transaction.index.cache_tree != known;
        self.context.check_interrupt()?;
        let index = Write::InPlace(if changed { Recorded::Refreshed } else { Recorded::No });
        self.prepared(transaction, trees, index_name(self.context), Waiting { objects, index })
    }

    /// Writes objects and index now, unless they can wait for the commit.
    fn prepared(
        &self,
        mut transaction: IndexTransaction<'a>,
        trees: Option<Trees>,
        file: PathBuf,
        waiting: Waiting<'a>,
    ) -> Result<Prepared<'a>, Error> {
        let index = std::mem::replace(&mut transaction.index, Index::empty(self.context.repo.hash()));
        let mut prepared = Prepared {
            context: self.context,
            before: transaction.state.before.take(),
            index,
            trees,
            file,
            next: Some(transaction),
            waiting: Some(waiting),
            _other: None,
        };
        // Without trees, an error may be printed, and the index is read for it.
        if self.programs == Programs::Some || prepared.trees.is_none() {
            prepared.write()?;
        }
        Ok(prepared)
    }

    /// `-a`, and `-i` with paths.
    fn with_changes(&self) -> Result<Prepared<'a>, Error> {
        let repo = self.context.repo;
        let mut transaction = self.start(Start::Sparse { dry_run: false })?;
        monitor::refresh(self.context, &mut transaction.index)?;
        let options = status::Options {
            pathspecs: &self.selection.pathspecs,
            untracked: None,
            touched: Touched::Suspected,
            unmerged: None,
            submodules: SubmoduleIgnore::Given(Ignore::Dirty),
            missing: MissingModule::Deleted,
            ignore_untracked_in_submodules: false,
            when_cold: &|| (),
            interrupt: self.context.interrupt,
            meter: None,
        };
        let found = status::examine(repo, self.worktree, &transaction.index, &options)?;
        self.context.check_interrupt()?;
        messages::about_worktree(&transaction.index, &self.selection.pathspecs, &found, self.context.events);
        if !self.selection.all {
            self.must_match(&transaction.index)?;
        }
        for &at in &found.proven_clean {
            transaction.index.set_fsmonitor_valid(at);
        }
        let objects = self.stage(&mut transaction, &found.changes, stage::Options::default())?;
        if self.selection.pathspecs.is_empty() {
            // All files have just been examined.
            self.report_unmerged(&transaction.index)?
        } else {
            self.refresh(&mut transaction)?;
        }
        let trees = add::write_tree(&mut transaction.index, repo, &objects, Missing::Refused).ok();
        self.context.check_interrupt()?;
        let file = lock_name(&transaction);
        self.prepared(transaction, trees, file, Waiting { objects, index: Write::Aside })
    }

    /// Puts the changes into the index. Returns the new objects.
    fn stage(
        &self,
        transaction: &mut IndexTransaction<'a>,
        changes: &[Pair],
        options: stage::Options,
    ) -> Result<ObjectTransaction<'a>, Error> {
        let repo = self.context.repo;
        let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let before = transaction.state.before.take();
        let patterns = transaction.patterns()?;
        let mut stage = Stage::new(self.context, self.worktree, index, before, patterns, options)?;
        stage.update(changes, &self.selection.pathspecs)?;
        stage.publish_attributes()?;
        let Stage { staging, objects, before, .. } = stage;
        transaction.state.before = before;
        transaction.index = staging.into_index();
        Ok(objects)
    }

    /// Commits paths, with `-o` or without an option.
    fn some_paths(&self) -> Result<Prepared<'a>, Error> {
        let Context { repo, settings, .. } = self.context;
        if let Some(word) = self.whence.word() {
            return Err(Error::Failed(format!("cannot do a partial commit during a {word}.").into()));
        }
        let mut transaction = self.start(Start::Full { dry_run: false })?;
        monitor::refresh(self.context, &mut transaction.index)?;
        // Git compares each entry with the pathspecs, and expands the index for that.
        transaction.needs_full()?;
        let chosen = self.choose(&transaction.index)?;
        let changes = chosen.iter().map(|path| self.change(path)).collect::<Result<Vec<Pair>, _>>()?;
        let options = stage::Options { sparse: true, ..stage::Options::default() };
        let objects = self.stage(&mut transaction, &changes, options)?;
        let refresh = RefreshOptions::default();
        add::refresh(repo, self.worktree, &mut transaction.index, &refresh)?;
        // Conflicts in other paths do not matter.
        let _made = add::write_tree(&mut transaction.index, repo, &objects, Missing::Refused).ok();
        let mut other = self.base(&transaction.index)?;
        let mut staging = add::Staging::new(other, add::protect(repo)?);
        for path in &chosen {
            let path = path.as_bstr();
            match transaction.index.position(path, Of::Normal) {
                Ok(at) => {
                    let entry = transaction.index.entry(at).content();
                    let _added = staging.add(path, entry, add::Allow { new: true, replacing: true });
                }
                Err(_) => staging.remove(path),
            }
        }
        other = staging.into_index();
        let trees = match self.purpose {
            PreparedFor::Commit => add::write_tree(&mut other, repo, &objects, Missing::Refused).ok(),
            PreparedFor::Status => None,
        };
        self.context.check_interrupt()?;
        write_aside(&mut transaction, objects)?;
        let path = repo.git_dir().join(format!("next-index-{}", std::process::id()));
        let mut lock = store::index::lock(&path, &settings.locks)?;
        let racy = RacyCheck::new(repo, self.worktree, &other)?;
        let is_modified = |path: &BStr, entry: &Entry| racy.is_modified(path, entry);
        let options = settings.index_to_write(repo, &other, Some(false), self.context.events);
        store::index::stage(&mut lock, &mut other, &options, &settings.fsync, &is_modified, None)?;
        Ok(Prepared {
            context: self.context,
            before: None,
            index: other,
            trees,
            file: std::path::absolute(lock.lock_path()).unwrap_or_else(|_| lock.lock_path().to_owned()),
            next: Some(transaction),
            waiting: None,
            _other: Some(lock),
        })
    }

    /// Returns the selected paths of the index and of HEAD, except those with the skip-worktree
    /// flag.
    fn choose(&self, index: &Index) -> Result<Vec<BString>, Error> {
        let repo = self.context.repo;
        let mut all = index.entries_only();
        if let Some(head) = self.head {
            diff::overlay(repo, &mut all, head.tree)?;
        }
        let mut seen = Seen::default();
        let mut chosen: Vec<BString> = Vec::new();
        for entry in all.iter() {
            let path = all.path(&entry);
            if !self.selection.pathspecs.is_empty()
                && self.selection.pathspecs.matches_entry(path, entry.mode, &mut seen)
                && !entry.flags.contains(Flags::SKIP_WORKTREE)
                && chosen.last().is_none_or(|last| *last != path)
            {
                chosen.push(path.to_owned());
            }
        }
        self.unmatched(&seen)?;
        Ok(chosen)
    }

    /// Returns the change of a path: recorded from the worktree, or removed if the file is missing.
    /// A file that only a link leads to is neither: its directory was replaced.
    fn change(&self, path: &BString) -> Result<Pair, Error> {
        let found = self
            .worktree
            .stat(path.as_bstr())
            .map_err(|error| Error::Failed(text!("cannot examine '", path, "': ", sys::reason(&error))))?;
        if found.is_none() && self.worktree.is_present_through_links(path) {
            return Err(Error::Failed(text!("'", path, "' is beyond a symbolic link")));
        }
        let side = Side { mode: Mode::FILE, oid: None };
        let mut pair = Pair::new(path.clone(), None, found.is_some().then_some(side));
        pair.status = if found.is_some() { Status::Modified } else { Status::Deleted };
        Ok(pair)
    }

    /// Returns the index of HEAD, with the stat data of unchanged entries from `index`.
    fn base(&self, index: &Index) -> Result<Index, Error> {
        let repo = self.context.repo;
        let Some(head) = self.head else { return Ok(Index::empty(repo.hash())) };
        let options = IndexOptions { tree: head.tree, sparse: None, pathspecs: None, intent_to_add: false };
        let mut base = index.clone();
        base.base = None;
        Ok(plan_index(repo, base, &options)?.index)
    }

    /// Compares all files with the index. Returns true if the index should be written.
    fn refresh(&self, transaction: &mut IndexTransaction<'_>) -> Result<bool, Error> {
        let repo = self.context.repo;
        let assume_unchanged = repo.config(&keys::core::IGNORE_STAT)?;
        let options = RefreshOptions {
            unmerged: self.purpose == PreparedFor::Status,
            assume_unchanged,
            ..RefreshOptions::default()
        };
        let refreshed = add::refresh(repo, self.worktree, &mut transaction.index, &options)?;
        let unmerged = refreshed.findings.iter().filter_map(|finding| match finding {
            Finding::NeedsMerge(path) => Some(path.as_bstr()),
            Finding::NeedsUpdate(_) => None,
        });
        self.refuse_unmerged(unmerged)?;
        Ok(refreshed.changed)
    }

    fn report_unmerged(&self, index: &Index) -> Result<(), Error> {
        if self.purpose == PreparedFor::Status || !index.is_unmerged() {
            return Ok(());
        }
        let mut unmerged: Vec<&BStr> = Vec::new();
        for at in index.unmerged() {
            let path = index.path_at(at);
            if unmerged.last() != Some(&path) {
                unmerged.push(path);
            }
        }
        self.refuse_unmerged(unmerged.into_iter())
    }

    fn refuse_unmerged<'p>(&self, paths: impl Iterator<Item = &'p BStr>) -> Result<(), Error> {
        let paths: Vec<BString> = paths.map(BStr::to_owned).collect();
        if paths.is_empty() { Ok(()) } else { Err(Error::Conflicts(paths)) }
    }

    /// Returns an error unless each pathspec matches a tracked file.
    fn must_match(&self, index: &Index) -> Result<(), Error> {
        let mut seen = Seen::default();
        for at in 0..index.len() {
            self.selection.pathspecs.matches_entry(index.path_at(at), index.mode_at(at), &mut seen);
        }
        self.unmatched(&seen)
    }

    fn unmatched(&self, seen: &Seen) -> Result<(), Error> {
        let unmatched: Vec<BString> = self.selection.pathspecs.unseen(seen).map(|spec| spec.into()).collect();
        if unmatched.is_empty() { Ok(()) } else { Err(Error::Unmatched(unmatched)) }
    }
}

impl<'a> Prepared<'a> {
    /// Returns a copy of the index for a reader.
    pub fn read(&self) -> Read {
        Read { index: self.index.clone(), before: self.before.clone(), seen: None, differs_on_disk: false }
    }

    /// Returns true if the index differs from the tree `parent`; `None` for a first commit. Returns
    /// `None` if the trees of the index could not be made.
    pub fn differs_from(&self, parent: Option<ObjectId>) -> Option<bool> {
        match parent {
            Some(tree) => self.trees.as_ref().map(|trees| trees.root != tree),
            None => {
                let is_intended = |entry: &Entry| entry.flags.contains(Flags::INTENT_TO_ADD);
                Some(!self.index.iter().all(|entry| is_intended(&entry)))
            }
        }
    }

    /// Reads the index again after a program may have changed it.
    pub fn reload(&mut self) -> Result<(), Error> {
        let Context { repo, settings, .. } = self.context;
        let file = repo.child_dir().join(&self.file);
        let index = store::index::load(&file, repo.hash(), &settings.index_read)?;
        let read = sparse_index::read(self.context, index, None, ExpansionHint::Omit, Expansion::Later)?;
        (self.index, self.before, self.trees) = (read.index, read.before, None);
        Ok(())
    }

    /// Writes the objects and the index, if they still wait, so that programs can read them.
    /// Nothing refers to the objects, and the index gets new stat data, or stays in its lock file.
    #[expect(clippy::disallowed_methods, reason = "Git writes the same objects and stat data once more")]
    pub fn write(&mut self) -> Result<(), Error> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        sys::changes::aside(|| self.write_with(waiting.objects, Some(waiting.index)))
    }

    /// Returns the transaction for the commit, and the index to write after it.
    pub(super) fn take_waiting(&mut self) -> (ObjectTransaction<'a>, Option<Write>) {
        match self.waiting.take() {
            Some(waiting) => (waiting.objects, Some(waiting.index)),
            None => (ObjectTransaction::new(self.context.settings.objects(self.context.repo)), None),
        }
    }

    /// Publishes the objects, and then writes the index.
    pub(super) fn write_with(
        &mut self,
        objects: ObjectTransaction<'a>,
        index: Option<Write>,
    ) -> Result<(), Error> {
        let (Some(index), Some(transaction)) = (index, &mut self.next) else { return Ok(objects.publish()?) };
        std::mem::swap(&mut transaction.index, &mut self.index);
        transaction.state.before = self.before.take();
        let written = match index {
            Write::Aside => transaction.write_aside(objects),
            Write::InPlace(recorded) => transaction.finish_with(recorded, Some(objects)),
        };
        self.before = transaction.state.before.take();
        std::mem::swap(&mut transaction.index, &mut self.index);
        if matches!(index, Write::InPlace(_)) {
            self.next = None;
        }
        written
    }

    /// Replaces the index by the next one.
    pub(super) fn publish(&mut self) -> Result<(), store::Error> {
        self.next.take().map_or(Ok(()), IndexTransaction::publish)
    }
}

/// Publishes the objects, to which nothing refers, and writes the index into its lock file.
#[expect(clippy::disallowed_methods, reason = "Git writes the same objects once more")]
fn write_aside(transaction: &mut IndexTransaction<'_>, objects: ObjectTransaction<'_>) -> Result<(), Error> {
    sys::changes::aside(|| transaction.write_aside(objects))
}

fn lock_name(transaction: &IndexTransaction<'_>) -> PathBuf {
    let path = transaction.lock_file().unwrap_or(Path::new("index.lock"));
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the path of the repository's index in the form that Git passes to programs.
pub fn index_name(context: Context<'_>) -> PathBuf {
    match context.repo.env().bytes("GIT_INDEX_FILE").filter(|file| !file.is_empty()) {
        Some(file) => sys::os_str(file).into(),
        None => git_path(context, "index"),
    }
}

/// Returns the path of a file in this worktree's Git directory, in Git's form.
pub fn git_path(context: Context<'_>, name: &str) -> PathBuf {
    let repo = context.repo;
    if repo.git_dir() == repo.common_dir() {
        repo.display_common_file(name)
    } else {
        repo.git_dir().join(name)
    }
}
