//! A run of `add`: scan, record, write.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore::check::{Checker, Sources},
    pathspec::{Matched, Pathspecs, Seen},
    sparse::Patterns,
    status::Worktree,
};
use format::{Mode, index::Index};
use store::objects;
use sys::Dir;

use super::{
    check::{self, OutsideMatches, is_outside},
    options::{Executable, Plan, Request, Task},
    scan::ScanScope,
};
use crate::{
    commands::scan_messages,
    session::{
        Session,
        advice::{self, is_inside},
        apply::{Recorded, Transaction},
        monitor::{self, WriteIndex},
        stage::{Put, Stage},
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// A run of `add`.
pub(super) struct Adding<'a> {
    pub(super) session: Session<'a>,
    pub(super) worktree: &'a Dir,
    pub(super) request: &'a Request,
    pub(super) plan: Plan,
    pub(super) pathspecs: Pathspecs,
    /// The sparse patterns, if the worktree is sparse.
    pub(super) patterns: Option<Arc<Patterns>>,
    /// The exit code so far.
    pub(super) code: u8,
}

impl<'a> Adding<'a> {
    /// Performs the task. Returns the exit code.
    pub(super) fn run(mut self, transaction: &mut Transaction<'a>) -> Result<u8, Failure> {
        let Session { invocation, repository: repo, settings } = self.session;
        let worth = monitor::refresh(invocation, repo, settings, &mut transaction.index)?;
        let mut found = match self.plan.task {
            Task::Refresh => return self.refresh(transaction, worth),
            Task::Add => self.scan(&transaction.index, ScanScope::All)?,
            Task::Update => self.scan(&transaction.index, ScanScope::Tracked)?,
            Task::Renormalize => Worktree::default(),
        };
        let ignored = self.unmatched(transaction, &mut found)?;
        let mut changed = transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
        if let Some(cache) = found.found.cache.take() {
            transaction.index.untracked = Some(cache);
        }
        for &at in &found.proven_clean {
            changed |= transaction.index.set_fsmonitor_valid(at);
        }
        let tracked = match self.plan.task {
            Task::Renormalize => self.tracked_files(transaction),
            _ => Vec::new(),
        };
        scan_messages::print(&transaction.index, &self.pathspecs, &found);
        if self.plan.must_be_tracked {
            self.must_be_tracked(&transaction.index)?;
        }
        let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let before = transaction.state.before.take();
        let (patterns, options) = (self.patterns.clone(), self.plan.options);
        let mut stage = Stage::new(self.session, self.worktree, index, before, patterns, options)?;
        let put = match self.plan.task {
            Task::Renormalize => stage.renormalize(&tracked)?,
            _ => stage.update(&found.changes, &self.pathspecs)?,
        };
        self.note(put);
        self.new_files(&mut stage, &found.found.untracked, &ignored)?;
        if let Some(executable) = self.plan.chmod {
            self.chmod(&mut stage, executable);
        }
        changed |= stage.staging.is_changed();
        transaction.state.before = stage.before;
        transaction.index = stage.staging.into_index();
        let code = self.code;
        self.write(transaction, changed, Some(stage.objects))?;
        Ok(code)
    }

    fn note(&mut self, put: Put) {
        self.code |= u8::from(put == Put::Some);
    }

    /// Publishes the objects, and then writes the index if it has changed.
    pub(super) fn write(
        &self,
        transaction: &mut Transaction<'_>,
        changed: bool,
        objects: Option<objects::Transaction<'_>>,
    ) -> Result<(), Failure> {
        self.session.invocation.interrupt.check()?;
        if let Some(objects) = objects {
            objects.publish()?;
        }
        transaction.finish(if changed { Recorded::Yes } else { Recorded::No })
    }

    /// Returns an error for a pathspec that matches nothing, and prints advice for those that match
    /// only entries outside the sparse checkout. Returns the ignored paths that a pathspec names.
    fn unmatched(
        &mut self,
        transaction: &Transaction<'_>,
        found: &mut Worktree,
    ) -> Result<Vec<BString>, Failure> {
        let mut ignored = std::mem::take(&mut found.found.ignored);
        if self.pathspecs.is_empty() {
            return Ok(ignored);
        }
        let mut seen = Seen::default();
        found.found.untracked.retain(|path| match path.strip_suffix(b"/") {
            Some(path) => self.pathspecs.matches_in_turn(path.as_bstr(), Mode::GITLINK, &mut seen),
            None => self.pathspecs.matches_in_turn(path.as_bstr(), Mode::FILE, &mut seen),
        });
        // Git matches against its sparse index, unless it was expanded.
        let index = transaction.state.before.as_ref().unwrap_or(&transaction.index);
        let patterns = self.patterns.as_deref();
        check::match_entries(index, &self.pathspecs, patterns, &mut seen);
        let mut outside = OutsideMatches { index, pathspecs: &self.pathspecs, patterns, seen: None };
        let mut outside_specs = Vec::new();
        for one in self.pathspecs.uses(&seen) {
            if one.excludes || one.matched != Matched::Nothing {
                continue;
            }
            if !self.request.sparse && outside.has(one.number) {
                outside_specs.push(one.original);
                continue;
            }
            if one.pattern.is_empty() || !one.is_pattern && self.is_there(one.pattern) {
                continue;
            }
            if !self.plan.ignore_missing {
                let message = text!("pathspec '", one.original, "' did not match any files");
                return Err(Failure::Fatal(message));
            }
            if self.is_ignored(&transaction.index, one.pattern)? {
                ignored.push(one.pattern.to_owned());
            }
        }
        if !outside_specs.is_empty() {
            advice::about_outside(self.session, &outside_specs)?;
            self.code = 1;
        }
        Ok(ignored)
    }

    fn is_there(&self, path: &BStr) -> bool {
        let is_directory = path.ends_with(b"/");
        let found = self.worktree.stat(path.strip_suffix(b"/").unwrap_or(path)).ok().flatten();
        found.is_some_and(|stat| !is_directory || stat.file_type == sys::FileType::Directory)
    }

    fn is_ignored(&self, index: &Index, path: &BStr) -> Result<bool, Failure> {
        let repo = self.session.repository;
        let mut sources = Sources::default();
        if !self.plan.options.force {
            sources.add_standard(repo, "info/exclude".into())?;
        }
        let mut checker = Checker::new(repo, Some(self.worktree), Some(index), sources)?;
        Ok(checker.find(path, None).is_some_and(|found| !found.negative))
    }

    /// `-u`: returns an error unless each pathspec matches a tracked file.
    fn must_be_tracked(&self, index: &Index) -> Result<(), Failure> {
        let mut seen = Seen::default();
        for at in self.pathspecs.bounds(index) {
            self.pathspecs.matches_in_turn(index.path_at(at), index.mode_at(at), &mut seen);
        }
        let mut is_wrong = false;
        for one in self.pathspecs.uses(&seen).filter(|one| one.matched == Matched::Nothing) {
            console::error(text!("pathspec '", one.original, "' did not match any file(s) known to git"));
            is_wrong = true;
        }
        if is_wrong { Err(Failure::Reported(128)) } else { Ok(()) }
    }

    /// Lists the ignored paths, and adds the new files.
    fn new_files(
        &mut self,
        stage: &mut Stage<'_>,
        untracked: &[BString],
        ignored: &[BString],
    ) -> Result<(), Failure> {
        if !ignored.is_empty() {
            console::eprint_line("The following paths are ignored by one of your .gitignore files:");
            ignored.iter().for_each(console::eprint_line);
            let message = "Use -f if you really want to add them.";
            advice::advise(self.session, "addIgnoredFile", message)?;
            self.code = 1;
        }
        let is_meant =
            |path: &&BString| self.request.sparse || is_inside(self.patterns.as_deref(), path.as_bstr());
        let (inside, outside): (Vec<&BString>, Vec<&BString>) = untracked.iter().partition(is_meant);
        let inside: Vec<BString> = inside.into_iter().cloned().collect();
        let (session, warns) = (self.session, self.plan.warns_of_embedded);
        let mut is_first = true;
        let put = stage.add(&inside, |path| match path.strip_suffix(b"/").filter(|_| warns) {
            Some(path) => embedded(session, path.as_bstr(), std::mem::take(&mut is_first)),
            None => Ok(()),
        })?;
        self.note(put);
        if !outside.is_empty() {
            advice::about_outside(self.session, &outside)?;
            self.code = 1;
        }
        Ok(())
    }

    /// Sets or clears the executable bit of the selected entries.
    fn chmod(&mut self, stage: &mut Stage<'_>, executable: Executable) {
        if self.pathspecs.is_empty() {
            return;
        }
        let (flip, mode) = match executable {
            Executable::Set => ("+x", Mode::EXECUTABLE),
            Executable::Cleared => ("-x", Mode::FILE),
        };
        let index = stage.staging.index();
        let mut selected = Vec::new();
        for entry in index.entries_in(self.pathspecs.bounds(index)) {
            let path = index.path(&entry);
            let is_meant = self.request.sparse || !is_outside(index, &entry, self.patterns.as_deref());
            if is_meant && self.pathspecs.matches_entry(path, entry.mode, &mut Seen::default()) {
                selected.push((path.to_owned(), entry.mode.is_file(), entry.stage));
            }
        }
        for (path, is_file, of) in selected {
            if !is_file {
                console::error(text!("cannot chmod ", flip, " '", path, "'"));
                // Git's exit code is the -1 of its last error.
                self.code = u8::MAX;
            } else if !self.plan.options.dry_run {
                stage.staging.alter_stage(path.as_bstr(), of, |entry| entry.mode = mode);
            }
        }
    }
}

/// Warns of a repository that was added as a submodule without a URL.
fn embedded(session: Session<'_>, path: &BStr, is_first: bool) -> Result<(), Failure> {
    console::warning(text!("adding embedded git repository: ", path));
    if !is_first {
        return Ok(());
    }
    let message = text!(
        "You've added another git repository inside your current repository.\n\
         Clones of the outer repository will not contain the contents of\n\
         the embedded repository and will not know how to obtain it.\n\
         If you meant to add a submodule, use:\n\
         \n\
         \tgit submodule add <url> ",
        path,
        "\n\
         \n\
         If you added this path by mistake, you can remove it from the\n\
         index with:\n\
         \n\
         \tgit rm --cached ",
        path,
        "\n\
         \n\
         See \"git help submodule\" for more information."
    );
    advice::advise(session, "addEmbeddedRepo", message)
}
