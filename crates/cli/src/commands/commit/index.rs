//! The index to commit: the current index, or with all changes of tracked files, or with only some
//! paths. Git's `prepare_index`.
//!
//! Current index: it is refreshed and written at once. All changes: the new index is written into
//! the lock file, where hooks find it, and replaces the index after the commit. Some paths: as with
//! all changes, but the commit is created from another index, `next-index-<pid>.lock`, which is
//! HEAD with these paths.

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
    Mode,
    index::{Entry, Flags, Index, Stage as Of},
};
use repo::submodule::Ignore;
use sys::Dir;

use super::plan::Plan;
use crate::{
    commands::{paths, scan_messages},
    session::{
        Session,
        apply::{Recorded, Start, Transaction},
        monitor::{self, WriteIndex},
        sparse_index::{self, Expansion, ExpansionHint, Read},
        stage::{self, Stage},
    },
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

/// The index to commit.
pub(super) struct Prepared<'a> {
    session: Session<'a>,
    pub(super) index: Index,
    /// The sparse index it was read from, as long as Git's would still be sparse.
    pub(super) before: Option<Index>,
    /// The trees of the index, unless they could not be made.
    pub(super) trees: Option<Trees>,
    /// The file that contains the index, under the name that programs get.
    pub(super) file: PathBuf,
    /// The locked index that replaces the index after the commit.
    next: Option<Transaction<'a>>,
    /// The lock of the other index, for a commit of some paths.
    _other: Option<store::Lock>,
}

/// The purpose for which an index is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreparedFor {
    Commit,
    /// A dry run, which shows conflicts instead of failing.
    Status,
}

/// Prepares the index according to the options.
pub(super) fn prepare<'a>(
    session: Session<'a>,
    worktree: &'a Dir,
    plan: &Plan,
    purpose: PreparedFor,
) -> Result<Prepared<'a>, Failure> {
    let Session { invocation: run, repository: repo, .. } = session;
    let given = paths::parse(run, repo, &plan.paths)?;
    let apart = plan.request.all.then_some("-a");
    let pathspecs = plan.request.pathspec_file.or(given, apart, run, repo)?;
    let request = &plan.request;
    let rewords = plan.fixup.as_ref().is_none_or(|fixup| fixup.kind == super::plan::FixupKind::Fixup);
    let fixes = plan.fixup.is_some() && rewords;
    let needs_paths = request.include || request.only && !request.allow_empty && (!request.amend || fixes);
    if pathspecs.is_empty() && needs_paths {
        return Err(Failure::fatal("No paths with --include/--only does not make sense."));
    }
    let preparing = Preparing { session, worktree, plan, purpose, pathspecs };
    if request.all || request.include && !preparing.pathspecs.is_empty() {
        preparing.with_changes()
    } else if !request.only && preparing.pathspecs.is_empty() {
        preparing.as_it_is()
    } else {
        preparing.some_paths()
    }
}

struct Preparing<'a, 'p> {
    session: Session<'a>,
    worktree: &'a Dir,
    plan: &'p Plan,
    purpose: PreparedFor,
    pathspecs: Pathspecs,
}

impl<'a> Preparing<'a, '_> {
    fn as_it_is(&self) -> Result<Prepared<'a>, Failure> {
        let Session { invocation: run, repository: repo, settings } = self.session;
        let mut transaction = Transaction::start(self.session, Start::Sparse { dry_run: false })?;
        let worth = monitor::refresh(run, repo, settings, &mut transaction.index)?;
        let mut changed = transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
        changed |= self.refresh(&mut transaction)?;
        let objects = store::objects::Transaction::new(settings.objects(repo));
        let known = transaction.index.cache_tree.clone();
        let trees = add::write_tree(&mut transaction.index, repo, &objects, Missing::Refused).ok();
        changed |= transaction.index.cache_tree != known;
        run.interrupt.check()?;
        objects.publish()?;
        transaction.finish(if changed { Recorded::Yes } else { Recorded::No })?;
        Ok(Prepared {
            session: self.session,
            before: transaction.state.before.take(),
            index: std::mem::replace(&mut transaction.index, Index::empty(repo.hash())),
            trees,
            file: index_name(self.session),
            next: None,
            _other: None,
        })
    }

    /// `-a`, and `-i` with paths.
    fn with_changes(&self) -> Result<Prepared<'a>, Failure> {
        let Session { invocation: run, repository: repo, settings } = self.session;
        let mut transaction = Transaction::start(self.session, Start::Sparse { dry_run: false })?;
        monitor::refresh(run, repo, settings, &mut transaction.index)?;
        let options = status::Options {
            pathspecs: &self.pathspecs,
            untracked: None,
            touched: Touched::Suspected,
            unmerged: None,
            submodules: SubmoduleIgnore::Given(Ignore::Dirty),
            missing: MissingModule::Deleted,
            ignore_untracked_in_submodules: false,
            when_cold: &|| (),
            interrupt: run.interrupt.flag(),
            meter: None,
        };
        let found = status::examine(repo, self.worktree, &transaction.index, &options)?;
        run.interrupt.check()?;
        scan_messages::print(&transaction.index, &self.pathspecs, &found);
        if !self.plan.request.all {
            self.must_match(&transaction.index, 128)?;
        }
        for &at in &found.proven_clean {
            transaction.index.set_fsmonitor_valid(at);
        }
        let objects = self.stage(&mut transaction, &found.changes, stage::Options::default())?;
        match self.pathspecs.is_empty() {
            // All files have just been examined.
            true => self.report_unmerged(&transaction.index)?,
            false => {
                self.refresh(&mut transaction)?;
            }
        }
        let trees = add::write_tree(&mut transaction.index, repo, &objects, Missing::Refused).ok();
        run.interrupt.check()?;
        objects.publish()?;
        transaction.write_aside()?;
        Ok(Prepared {
            session: self.session,
            before: transaction.state.before.take(),
            index: std::mem::replace(&mut transaction.index, Index::empty(repo.hash())),
            trees,
            file: lock_name(&transaction),
            next: Some(transaction),
            _other: None,
        })
    }

    /// Puts the changes into the index. Returns the new objects.
    fn stage(
        &self,
        transaction: &mut Transaction<'a>,
        changes: &[Pair],
        options: stage::Options,
    ) -> Result<store::objects::Transaction<'a>, Failure> {
        let repo = self.session.repository;
        let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let before = transaction.state.before.take();
        let patterns = transaction.patterns()?;
        let mut stage = Stage::new(self.session, self.worktree, index, before, patterns, options)?;
        stage.update(changes, &self.pathspecs)?;
        let Stage { staging, objects, before, .. } = stage;
        transaction.state.before = before;
        transaction.index = staging.into_index();
        Ok(objects)
    }

    /// Commits paths, with `-o` or without an option.
    fn some_paths(&self) -> Result<Prepared<'a>, Failure> {
        let Session { invocation: run, repository: repo, settings } = self.session;
        if let Some(word) = self.plan.whence.word() {
            return Err(Failure::fatal(format!("cannot do a partial commit during a {word}.")));
        }
        let mut transaction = Transaction::start(self.session, Start::Full { dry_run: false })?;
        monitor::refresh(run, repo, settings, &mut transaction.index)?;
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
        run.interrupt.check()?;
        objects.publish()?;
        transaction.write_aside()?;
        let path = repo.git_dir().join(format!("next-index-{}", std::process::id()));
        let mut lock = store::index::lock(&path, &settings.locks)?;
        let racy = RacyCheck::new(repo, self.worktree, &other)?;
        let is_modified = |path: &BStr, entry: &Entry| racy.is_modified(path, entry);
        let options = settings.index_to_write(&other, Some(false));
        store::index::stage(&mut lock, &mut other, &options, &settings.fsync, &is_modified)?;
        Ok(Prepared {
            session: self.session,
            before: None,
            index: other,
            trees,
            file: std::path::absolute(lock.lock_path()).unwrap_or_else(|_| lock.lock_path().to_owned()),
            next: Some(transaction),
            _other: Some(lock),
        })
    }

    /// Returns the selected paths of the index and of HEAD, except those with the skip-worktree
    /// flag.
    fn choose(&self, index: &Index) -> Result<Vec<BString>, Failure> {
        let repo = self.session.repository;
        let mut all = index.entries_only();
        if let Some(head) = &self.plan.head {
            diff::overlay(repo, &mut all, head.tree)?;
        }
        let mut seen = Seen::default();
        let mut chosen: Vec<BString> = Vec::new();
        for entry in all.entries() {
            let path = all.path(entry);
            if !self.pathspecs.is_empty()
                && self.pathspecs.matches_entry(path, entry.mode, &mut seen)
                && !entry.flags.contains(Flags::SKIP_WORKTREE)
                && chosen.last().is_none_or(|last| *last != path)
            {
                chosen.push(path.to_owned());
            }
        }
        self.unmatched(&seen, 1)?;
        Ok(chosen)
    }

    /// Returns the change of a path: recorded from the worktree, or removed if the file is missing.
    /// A file that only a link leads to is neither: its directory was replaced.
    fn change(&self, path: &BString) -> Result<Pair, Failure> {
        let found = self
            .worktree
            .stat(path.as_bstr())
            .map_err(|error| Failure::Fatal(text!("cannot examine '", path, "': ", os_error(&error))))?;
        if found.is_none() && self.worktree.is_present_through_links(path) {
            return Err(Failure::Fatal(text!("'", path, "' is beyond a symbolic link")));
        }
        let side = Side { mode: Mode::FILE, oid: None };
        let mut pair = Pair::new(path.clone(), None, found.is_some().then_some(side));
        pair.status = if found.is_some() { Status::Modified } else { Status::Deleted };
        Ok(pair)
    }

    /// Returns the index of HEAD, with the stat data of unchanged entries from `index`.
    fn base(&self, index: &Index) -> Result<Index, Failure> {
        let repo = self.session.repository;
        let Some(head) = &self.plan.head else { return Ok(Index::empty(repo.hash())) };
        let options = IndexOptions { tree: head.tree, sparse: None, pathspecs: None, intent_to_add: false };
        let mut base = index.clone();
        base.base = None;
        Ok(plan_index(repo, base, &options)?.index)
    }

    /// Compares all files with the index. Returns true if the index should be written.
    fn refresh(&self, transaction: &mut Transaction<'_>) -> Result<bool, Failure> {
        let repo = self.session.repository;
        let assume_unchanged = repo.config_bool("core.ignoreStat")?.unwrap_or(false);
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

    fn report_unmerged(&self, index: &Index) -> Result<(), Failure> {
        if self.purpose == PreparedFor::Status || !index.is_unmerged() {
            return Ok(());
        }
        let mut unmerged: Vec<&BStr> = Vec::new();
        for entry in index.entries().iter().filter(|entry| entry.stage != Of::Normal) {
            let path = index.path(entry);
            if unmerged.last() != Some(&path) {
                unmerged.push(path);
            }
        }
        self.refuse_unmerged(unmerged.into_iter())
    }

    fn refuse_unmerged<'p>(&self, paths: impl Iterator<Item = &'p BStr>) -> Result<(), Failure> {
        let mut paths = paths.peekable();
        if paths.peek().is_none() {
            return Ok(());
        }
        paths.for_each(|path| console::out(text!("U\t", path)));
        console::error("Committing is not possible because you have unmerged files.");
        let Session { repository: repo, settings, .. } = self.session;
        if settings.advises(repo, "resolveConflict")? {
            console::hint(
                "Fix them up in the work tree, and then use 'git add/rm <file>'\n\
                 as appropriate to mark resolution and make a commit.",
            );
        }
        Err(Failure::fatal("Exiting because of an unresolved conflict."))
    }

    /// Returns an error unless each pathspec matches a tracked file.
    fn must_match(&self, index: &Index, code: u8) -> Result<(), Failure> {
        let mut seen = Seen::default();
        for entry in index.entries() {
            self.pathspecs.matches_entry(index.path(entry), entry.mode, &mut seen);
        }
        self.unmatched(&seen, code)
    }

    fn unmatched(&self, seen: &Seen, code: u8) -> Result<(), Failure> {
        let mut unmatched = self.pathspecs.unseen(seen).peekable();
        if unmatched.peek().is_none() {
            return Ok(());
        }
        for spec in unmatched {
            console::error(text!("pathspec '", spec, "' did not match any file(s) known to git"));
        }
        Err(Failure::Reported(code))
    }
}

impl Prepared<'_> {
    /// Returns a copy of the index for a reader.
    pub(super) fn read(&self) -> Read {
        Read { index: self.index.clone(), before: self.before.clone(), seen: None, differs_on_disk: false }
    }

    /// Reads the index again after a program may have changed it.
    pub(super) fn reload(&mut self) -> Result<(), Failure> {
        let Session { repository: repo, settings, .. } = self.session;
        let file = repo.child_dir().join(&self.file);
        let index = store::index::load(&file, repo.hash(), &settings.index_read)
            .map_err(|error| Failure::fatal(error.to_string()))?;
        let read = sparse_index::read(repo, settings, index, None, ExpansionHint::Omit, Expansion::Later)?;
        (self.index, self.before, self.trees) = (read.index, read.before, None);
        Ok(())
    }

    /// Replaces the index by the next one.
    pub(super) fn publish(self) -> Result<(), store::Error> {
        self.next.map_or(Ok(()), Transaction::publish)
    }
}

fn lock_name(transaction: &Transaction<'_>) -> PathBuf {
    let path = transaction.lock_file().unwrap_or(Path::new("index.lock"));
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the path of the repository's index in the form that Git passes to programs.
pub(super) fn index_name(session: Session<'_>) -> PathBuf {
    match session.invocation.variable("GIT_INDEX_FILE").filter(|file| !file.is_empty()) {
        Some(file) => sys::os_str(file).into(),
        None => git_path(session, "index"),
    }
}

/// Returns the path of a file in this worktree's Git directory, in Git's form.
pub(super) fn git_path(session: Session<'_>, name: &str) -> PathBuf {
    let repo = session.repository;
    match repo.git_dir() == repo.common_dir() {
        true => repo.display_common_file(name),
        false => repo.git_dir().join(name),
    }
}
