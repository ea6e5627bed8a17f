//! `sapwood update-index`: entries of the index, one by one.
//!
//! Order: the lock, if it is free; the index; the acts of the command line from left to right (`line`), each seeing what those
//! before it did; paths from the standard input; what the index is to be like as a whole (`whole`); and if anything was
//! changed, the index. What Git dies of leaves the index as it was, but not objects that were written by then.

mod again;
mod info;
mod line;
mod path;
mod probe;
mod whole;

use std::io::{BufRead as _, BufReader, StdinLock};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, Allow, FileHasher, Finding, PathProbe, RefreshOptions, Staging},
    monitor::WriteIndex,
    pathspec,
    stat::StatRules,
};
use format::{
    index::{Flags, Index},
    path::Protect,
};
use repo::Repository;

use crate::{
    commands::{
        obstacles::{GENERAL, WRITING, attributes_of_pathspecs},
        record::{Command, Group},
    },
    session::{
        apply::Work,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{self, Tell},
    },
    term::{
        args::Stop,
        console::{self, text},
        failure::{self, Failure},
    },
};
use line::Act;
use whole::Whole;

/// The record of `update-index`.
pub(super) const COMMAND: Command = Command {
    name: "update-index",
    summary: "Register file contents in the working tree to the index",
    group: Group::Changes,
    syntax: &line::Line,
    settings: &[GENERAL],
    line: &[attributes_of_pathspecs],
    checks: &[WRITING],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let acts = line::acts(args);
    if let [Act::Mistake(stop @ Stop::Help(_))] = &acts[..] {
        return Err(stop.clone().into());
    }
    let repo = run.open()?;
    let settings = Settings::read(run, &repo)?;
    // Mostly there is nothing to be changed.
    let refreshes = |act: &Act| matches!(act, Act::Refresh { .. });
    let is_all = acts.iter().all(|act| refreshes(act) || matches!(act, Act::Set { .. }));
    let settings = if is_all && acts.iter().any(refreshes) { settings.for_answers() } else { settings };
    let mut work = Work::start_index_perhaps(run, &repo, &settings)?;
    if work.before.is_none() {
        sparse_index::fill(&repo, &mut work.index)?;
    }
    let worktree = work.worktree().try_clone();
    let worktree = worktree.map_err(|error| Failure::fatal(sys::reason(&error)))?;
    let mut update = Update::new(run, &repo, &settings, &worktree, work)?;
    for act in acts {
        run.interrupt.check()?;
        update.act(act)?;
    }
    update.version()?;
    if update.reads_stdin {
        update.paths_from_stdin()?;
    }
    update.finish()
}

/// What becomes of a mark on the paths that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Set,
    Cleared,
}

/// The run so far.
struct Update<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    worktree: &'a sys::Dir,
    probe: PathProbe<'a>,
    work: Work<'a>,
    staging: Staging,
    hasher: FileHasher<'a>,
    rules: StatRules,
    protect: Protect,
    allow: Allow,
    remove: bool,
    force_remove: bool,
    info_only: bool,
    verbose: bool,
    quiet: bool,
    ignore_skipped: bool,
    nul: bool,
    reads_stdin: bool,
    assume_valid: Option<Mark>,
    skip_worktree: Option<Mark>,
    fsmonitor_valid: Option<Mark>,
    chmod: Option<bool>,
    refresh: RefreshOptions,
    /// What new entries are marked with.
    flags: Flags,
    whole: Whole,
    has_errors: bool,
}

impl<'a> Update<'a> {
    fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        worktree: &'a sys::Dir,
        mut work: Work<'a>,
    ) -> Result<Self, Failure> {
        let mut index = std::mem::replace(&mut work.index, Index::empty(repo.hash()));
        let whole = Whole::of(repo, &index)?;
        let worth = monitor::refresh(run, repo, settings, &mut index)?;
        let protect = add::protect(repo)?;
        let mut staging = Staging::new(index, protect);
        staging.set_changed(work.differs_on_disk || whole.is_changed() || worth == WriteIndex::Worthwhile);
        let assume_unchanged = repo.config_bool("core.ignoreStat")?.unwrap_or(false);
        Ok(Update {
            run,
            repo,
            settings,
            worktree,
            probe: PathProbe::new(worktree),
            work,
            staging,
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

    fn act(&mut self, act: Act) -> Result<(), Failure> {
        match act {
            Act::Set { switch, on, .. } => switch(self, on),
            Act::Chmod { executable } => self.chmod = Some(executable),
            Act::IndexVersion(number) => self.whole.version = number,
            Act::Refresh { really } => self.refresh(really)?,
            Act::CacheInfo(info) => self.cache_info(&info)?,
            Act::IndexInfo => self.index_info()?,
            Act::Stdin => self.reads_stdin = true,
            Act::Unresolve(paths) => self.unresolve(&paths)?,
            Act::Again(specs) => self.again(&specs)?,
            Act::ClearResolveUndo => {
                if self.staging.index().resolve_undo.take().is_some() {
                    self.staging.set_changed(true);
                }
            }
            Act::Path(path) => {
                self.needs_worktree()?;
                let path = self.below_top(path.as_bstr())?;
                self.named(path.as_bstr(), None)?;
            }
            Act::Mistake(stop) => return Err(stop.into()),
        }
        Ok(())
    }

    fn refresh(&mut self, really: bool) -> Result<(), Failure> {
        self.needs_worktree()?;
        let options = RefreshOptions { really, ..self.refresh };
        let index = self.staging.index();
        let refreshed = add::refresh(self.repo, self.worktree, index, &options)?;
        failure::must_have_been_readable()?;
        // Writing it again makes it younger than the files, which then need not be read each time. As in Git it is then written whole.
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

    fn paths_from_stdin(&mut self) -> Result<(), Failure> {
        self.needs_worktree()?;
        let mut lines = Lines::of(if self.nul { 0 } else { b'\n' });
        loop {
            let mut together = Vec::new();
            let ended = loop {
                match lines.next().map(|line| self.path_of(line)) {
                    None => break Some(Ok(())),
                    Some(Err(failure)) => break Some(Err(failure)),
                    Some(Ok(path)) => together.push(path),
                }
                // Who waits for what becomes of these names no others.
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

    /// The path that a line of the standard input names.
    fn path_of(&self, line: &[u8]) -> Result<BString, Failure> {
        match line.first() {
            Some(b'"') if !self.nul => {
                let path = whole_quote(line).ok_or_else(|| Failure::fatal("line is badly quoted"))?;
                self.below_top(path.as_bstr())
            }
            _ => self.below_top(line.as_bstr()),
        }
    }

    /// A path of the command line or the standard input, from the top of the worktree.
    fn below_top(&self, path: &BStr) -> Result<BString, Failure> {
        use std::os::unix::ffi::OsStrExt as _;
        let top = self.repo.work_tree().map_or(&b""[..], |top| top.as_os_str().as_bytes());
        let normal = pathspec::normalize(path, self.repo.prefix(), top.as_bstr());
        normal.ok_or_else(|| Failure::Fatal(text!("'", path, "' is outside repository at '", top, "'")))
    }

    fn needs_worktree(&self) -> Result<(), Failure> {
        match self.repo.work_tree() {
            Some(_) => Ok(()),
            None => Err(Failure::no_worktree()),
        }
    }

    /// Says what was done, if that is wanted.
    fn report(&self, parts: &[&[u8]]) {
        if self.verbose {
            console::out(parts.concat());
        }
    }

    /// Git makes a sparse index full to look for `path`, if it is in a directory that stands as one entry.
    fn looks_for(&mut self, path: &BStr) -> Result<(), Failure> {
        if sparse_index::is_collapsed(self.work.before.as_ref(), path) {
            self.work.before = None;
            self.staging.set_changed(true);
            let index = self.staging.index();
            sparse_index::expanded(self.repo, self.settings, index, Tell::Hint)?;
            sparse_index::fill(self.repo, index)?;
        }
        Ok(())
    }
}

/// What is read at a time.
const INPUT: usize = 256 * 1024;

/// The lines of the standard input, as they come.
struct Lines {
    stdin: BufReader<StdinLock<'static>>,
    end: u8,
    line: Vec<u8>,
}

impl Lines {
    /// Each ends with `end`.
    fn of(end: u8) -> Lines {
        Lines { stdin: BufReader::with_capacity(INPUT, std::io::stdin().lock()), end, line: Vec::new() }
    }

    /// As for C, what is behind a NUL is not there.
    fn next(&mut self) -> Option<&[u8]> {
        self.line.clear();
        // As in Git, what cannot be read is the end.
        if !matches!(self.stdin.read_until(self.end, &mut self.line), Ok(1..)) {
            return None;
        }
        let whole = self.line.strip_suffix(&[self.end]).unwrap_or(&self.line);
        Some(&whole[..whole.find_byte(0).unwrap_or(whole.len())])
    }

    /// Whether the next line came with the last.
    fn is_at_hand(&self) -> bool {
        self.stdin.buffer().find_byte(self.end).is_some()
    }
}

/// What a line says that is in quotes from its beginning to its end.
fn whole_quote(line: &[u8]) -> Option<BString> {
    format::unquote(line).filter(|(_, rest)| rest.is_empty()).map(|(path, _)| path)
}
