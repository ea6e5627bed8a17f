//! The run of `update-index`: the index that it changes, and the rules that options set for later
//! words.

use super::line::Action;
use super::whole::WholeIndex;
use crate::{
    session::{
        index::IndexTransaction,
        input::Input,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{self, ExpansionHint},
    },
    term::{
        console::{self, text},
        failure::{self, Failure},
        text::unquote,
    },
};
use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, Allow, FileHasher, Finding, PathProbe, RefreshOptions, Staging},
    monitor::WriteIndex,
    pathspec,
    stat::StatRules,
    workspace::{backend::Backend, record},
};
use format::path::Protect;
use repo::{Repository, keys};
use sapwood::{
    Dir,
    index::{Flags, Index},
};

/// A change of a flag of the named paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Set,
    Cleared,
}

/// The state of the run.
pub(super) struct Update<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: &'a Repository,
    pub(super) settings: &'a Settings,
    pub(super) worktree: &'a Dir,
    pub(super) probe: PathProbe<'a>,
    pub(super) transaction: IndexTransaction<'a>,
    pub(super) staging: Staging,
    pub(super) hasher: FileHasher<'a>,
    /// The new objects.
    pub(super) objects: store::objects::ObjectTransaction<'a>,
    pub(super) rules: StatRules,
    pub(super) protect: Protect,
    pub(super) allow: Allow,
    pub(super) remove: bool,
    pub(super) force_remove: bool,
    pub(super) info_only: bool,
    pub(super) verbose: bool,
    pub(super) quiet: bool,
    pub(super) ignore_skipped: bool,
    pub(super) nul: bool,
    pub(super) reads_stdin: bool,
    pub(super) assume_valid: Option<Mark>,
    pub(super) skip_worktree: Option<Mark>,
    pub(super) fsmonitor_valid: Option<Mark>,
    pub(super) chmod: Option<bool>,
    pub(super) refresh: RefreshOptions,
    /// The flags of new entries.
    pub(super) flags: Flags,
    pub(super) whole: WholeIndex,
    pub(super) has_errors: bool,
}

impl<'a> Update<'a> {
    pub(super) fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        worktree: &'a Dir,
        mut transaction: IndexTransaction<'a>,
    ) -> Result<Self, Failure> {
        let mut index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let whole = WholeIndex::of(repo, &index)?;
        let worth = monitor::refresh(run, repo, settings, &mut index)?;
        let protect = add::protect(repo)?;
        let mut staging = Staging::new(index, protect);
        staging.set_changed(
            transaction.state.differs_on_disk || whole.is_changed() || worth == WriteIndex::Worthwhile,
        );
        let assume_unchanged = repo.config(&keys::core::IGNORE_STAT)?;
        Ok(Update {
            run,
            repo,
            settings,
            worktree,
            probe: PathProbe::new(worktree),
            transaction,
            staging,
            objects: store::objects::ObjectTransaction::new(settings.objects(repo)),
            hasher: FileHasher::new(repo, worktree, settings.big_file_threshold),
            rules: StatRules::of(repo)?,
            protect,
            allow: Allow::default(),
            remove: false,
            force_remove: false,
            info_only: false,
            verbose: false,
            quiet: false,
            ignore_skipped: false,
            nul: false,
            reads_stdin: false,
            assume_valid: None,
            skip_worktree: None,
            fsmonitor_valid: None,
            chmod: None,
            refresh: RefreshOptions { assume_unchanged, ..RefreshOptions::default() },
            flags: if assume_unchanged { Flags::ASSUME_VALID } else { Flags::empty() },
            whole,
            has_errors: false,
        })
    }

    pub(super) fn apply(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Set { switch, on, .. } => switch(self, on),
            Action::Chmod { executable } => self.chmod = Some(executable),
            Action::IndexVersion(number) => self.whole.version = number,
            Action::Refresh { really } => self.refresh(really)?,
            Action::CacheInfo(info) => self.cache_info(&info)?,
            Action::IndexInfo => self.index_info()?,
            Action::Stdin => self.reads_stdin = true,
            Action::Unresolve(paths) => self.unresolve(&paths)?,
            Action::Again(specs) => self.again(&specs)?,
            Action::ClearResolveUndo => {
                if self.staging.index().resolve_undo.take().is_some() {
                    self.staging.set_changed(true);
                }
            }
            Action::Path(path) => {
                self.needs_worktree()?;
                let path = self.below_top(path.as_bstr())?;
                self.named(path.as_bstr(), None)?;
            }
            Action::Mistake(stop) => return Err(stop.into()),
        }
        Ok(())
    }

    pub(super) fn refresh(&mut self, really: bool) -> Result<(), Failure> {
        self.needs_worktree()?;
        let options = RefreshOptions { really, ..self.refresh };
        let has_directory = really && self.has_base_directory()?;
        let index = self.staging.index();
        if has_directory {
            // The upper layer does not show a write into a file of the base.
            index.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(Flags::FSMONITOR_VALID));
        }
        let refreshed = add::refresh(self.repo, self.worktree, index, &options)?;
        failure::must_have_been_readable()?;
        // Writing the index makes it newer than the files, so that they need not be read each time.
        // As in Git, a split index is then written whole.
        let is_racy = index.has_racy();
        self.whole.something_changed |= is_racy;
        if refreshed.changed || is_racy {
            self.staging.set_changed(true);
        }
        for finding in refreshed.findings {
            match finding {
                Finding::NeedsMerge(path) => console::out(text!(path, ": needs merge")),
                Finding::NeedsUpdate(_) if self.quiet => continue,
                Finding::NeedsUpdate(path) => console::out(text!(path, ": needs update")),
            }
            self.has_errors = true;
        }
        Ok(())
    }

    /// Returns true in a workspace whose base is a directory, so that somebody could write to it.
    fn has_base_directory(&self) -> Result<bool, Failure> {
        let found = record::of_git_dir(&self.repo.real_common_dir(), self.repo.git_dir())?;
        let backend = found.map(|workspace| workspace.record.backend);
        Ok(backend.is_some_and(|backend| backend.has_upper() && backend != Backend::Image))
    }

    pub(super) fn paths_from_stdin(&mut self) -> Result<(), Failure> {
        self.needs_worktree()?;
        let mut lines = Lines::of(self.run, if self.nul { 0 } else { b'\n' })?;
        loop {
            let mut together = Vec::new();
            let ended = loop {
                match lines.next()?.map(|line| self.path_of(line)) {
                    None => break Some(Ok(())),
                    Some(Err(failure)) => break Some(Err(failure)),
                    Some(Ok(path)) => together.push(path),
                }
                // The caller may wait for the result of these names before it sends more.
                if !lines.is_at_hand() {
                    break None;
                }
            };
            self.named_together(&together)?;
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Returns the path on a line of standard input.
    pub(super) fn path_of(&self, line: &[u8]) -> Result<BString, Failure> {
        match line.first() {
            Some(b'"') if !self.nul => {
                let path = whole_quote(line).ok_or_else(|| Failure::fatal("line is badly quoted"))?;
                self.below_top(path.as_bstr())
            }
            _ => self.below_top(line.as_bstr()),
        }
    }

    /// Returns a path of the command line or standard input, relative to the worktree's root.
    pub(super) fn below_top(&self, path: &BStr) -> Result<BString, Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let top = self.repo.work_tree().map_or(&b""[..], |top| top.as_os_str().as_bytes());
        let normal = pathspec::normalize(path, self.repo.prefix(), top.as_bstr());
        normal.ok_or_else(|| Failure::Fatal(text!("'", path, "' is outside repository at '", top, "'")))
    }

    pub(super) fn needs_worktree(&self) -> Result<(), Failure> {
        match self.repo.work_tree() {
            Some(_) => Ok(()),
            None => Err(Failure::no_worktree()),
        }
    }

    /// Reports a change, with `--verbose`.
    pub(super) fn report(&self, parts: &[&[u8]]) {
        if self.verbose {
            console::out(parts.concat());
        }
    }

    /// Expands a sparse index if `path` lies in a collapsed directory, as Git does to look it up.
    pub(super) fn looks_for(&mut self, path: &BStr) -> Result<(), Failure> {
        if sparse_index::is_collapsed(self.transaction.state.before.as_ref(), path) {
            self.transaction.state.before = None;
            self.staging.set_changed(true);
            let index = self.staging.index();
            sparse_index::report_expansion(self.repo, self.settings, index, ExpansionHint::Print)?;
            sparse_index::expand(self.repo, index)?;
        }
        Ok(())
    }
}

/// Reads lines of standard input as they arrive.
pub(super) struct Lines {
    input: Input,
    end: u8,
    line: Vec<u8>,
}

impl Lines {
    /// Creates a reader of lines that end with `end`.
    pub(super) fn of(run: &Invocation, end: u8) -> Result<Lines, Failure> {
        Ok(Lines { input: Input::new(run)?, end, line: Vec::new() })
    }

    /// Returns the next line. Like a C string, it ends at the first NUL.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        if !self.input.line(self.end, &mut self.line)? {
            return Ok(None);
        }
        Ok(Some(&self.line[..self.line.find_byte(0).unwrap_or(self.line.len())]))
    }

    /// Returns true if the next line is already in the buffer.
    pub(super) fn is_at_hand(&self) -> bool {
        self.input.is_at_hand(self.end)
    }
}

/// Returns the content of a line that is one quoted string.
pub(super) fn whole_quote(line: &[u8]) -> Option<BString> {
    unquote(line).filter(|(_, rest)| rest.is_empty()).map(|(path, _)| path)
}
