//! `sapwood update-index`: changes single entries of the index. See [`sapwood::update_index`].
//!
//! Order: the lock, if it is free; the index; the actions of the command line from left to right
//! (`line`), each on the result of those before it; paths from standard input; the index as a
//! whole; and if anything was changed, the index file. An error that is fatal in Git leaves the
//! index unchanged, and publishes no object.

mod info;
mod line;

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use engine::stat::StatRules;
use repo::Repository;
use sapwood::update_index::{self, Finding, Rules, Update, probe};

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, WRITING},
        paths,
        record::{Command, Group},
    },
    session::{Session, index::Start, input::Input, invocation::Invocation, settings::Settings},
    term::{
        args::Stop,
        console::{self, text},
        failure::Failure,
        text::unquote,
    },
};
use line::Action;

/// The record of `update-index`.
pub(super) const COMMAND: Command = Command {
    name: "update-index",
    summary: "Register file contents in the working tree to the index",
    about: "Changes single entries of the index. It is for scripts. `--refresh` and the paths of `--stdin` \
            are compared in parallel.",
    group: Group::Scripts,
    syntax: &line::Line,
    settings: &[GENERAL],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    checks: &[WRITING],
    run,
    ..Command::BASE
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let actions = line::actions(args);
    if let [Action::Mistake(stop @ Stop::Help(_))] = &actions[..] {
        return Err(stop.clone().into());
    }
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    // Usually nothing changes, and stat data can be determined again.
    let refreshes = |action: &Action| matches!(action, Action::Refresh { .. });
    let is_all = actions.iter().all(|action| refreshes(action) || matches!(action, Action::Set { .. }));
    let settings = if is_all && actions.iter().any(refreshes) {
        settings.for_lookups()
    } else {
        settings.for_recording()
    };
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let mut transaction = session.start(Start::IndexIfFree)?;
    let worktree = update_index::prepare(&mut transaction)?;
    let objects = update_index::new_objects(&repo, &settings);
    let update = Update::new(&worktree, transaction, &objects)?;
    let mut state = Run {
        run,
        repo: &repo,
        update,
        nul: false,
        reads_stdin: false,
        version: 0,
        split: None,
        untracked: None,
        fsmonitor: None,
        force_write: false,
    };
    for action in actions {
        run.interrupt.check()?;
        state.apply(action)?;
    }
    state.version()?;
    if state.reads_stdin {
        state.paths_from_stdin()?;
    }
    if let Some(code) = state.whole()? {
        return Ok(code);
    }
    let Run { update, force_write, .. } = state;
    let (code, quiet) = (u8::from(update.has_errors), update.rules.quiet);
    let changed = update.finish().with_context(session.context(run));
    if changed.is_changed() || force_write {
        if changed.is_locked_out() && quiet {
            return Err(Failure::Reported(128));
        }
        changed.write(objects)?;
    }
    Ok(code)
}

/// The change of the untracked cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cache {
    On,
    Off,
    /// Only test if the file system supports it.
    Tested,
}

/// The state of the run.
struct Run<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    update: Update<'a>,
    nul: bool,
    reads_stdin: bool,
    /// The version to write, negative to print the version, 0 for neither.
    version: i64,
    split: Option<bool>,
    untracked: Option<Cache>,
    fsmonitor: Option<bool>,
    force_write: bool,
}

impl Run<'_> {
    fn rules(&mut self) -> &mut Rules {
        &mut self.update.rules
    }

    fn apply(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Set { switch, on } => switch(self, on),
            Action::Chmod { executable } => self.rules().chmod = Some(executable),
            Action::IndexVersion(number) => self.version = number,
            Action::Refresh { really } => {
                for finding in self.update.refresh(really)? {
                    console::out(match finding {
                        Finding::NeedsMerge(path) => text!(path, ": needs merge"),
                        Finding::NeedsUpdate(path) => text!(path, ": needs update"),
                    });
                }
            }
            Action::CacheInfo(info) => self.cache_info(&info)?,
            Action::IndexInfo => self.index_info()?,
            Action::Stdin => self.reads_stdin = true,
            Action::Unresolve(words) => {
                let mut outside = None;
                let mut below =
                    |word: &BString| self.below_top(word.as_bstr()).map_err(|error| outside = Some(error));
                let named: Vec<BString> = words.iter().map_while(|word| below(word).ok()).collect();
                self.update.unresolve(&named)?;
                outside.map_or(Ok(()), Err)?;
            }
            Action::Again(words) => {
                self.update.needs_worktree()?;
                self.update.again(&paths::parse_or_here(self.run, self.repo, &words)?)?;
            }
            Action::ClearResolveUndo => self.update.forget_resolved(),
            Action::Path(word) => {
                self.update.needs_worktree()?;
                let path = self.below_top(word.as_bstr())?;
                self.update.paths(&[path])?;
            }
            Action::Mistake(stop) => return Err(stop.into()),
        }
        Ok(())
    }

    fn paths_from_stdin(&mut self) -> Result<(), Failure> {
        self.update.needs_worktree()?;
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
            self.update.paths(&together)?;
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Returns the path on a line of standard input.
    fn path_of(&self, line: &[u8]) -> Result<BString, Failure> {
        match line.first() {
            Some(b'"') if !self.nul => {
                let path = whole_quote(line).ok_or_else(|| Failure::fatal("line is badly quoted"))?;
                self.below_top(path.as_bstr())
            }
            _ => self.below_top(line.as_bstr()),
        }
    }

    fn below_top(&self, path: &BStr) -> Result<BString, Failure> {
        paths::from_top(self.repo, path).map_err(Failure::Fatal)
    }

    /// Prints a line about a change, with `--verbose`.
    fn report(&self, line: impl AsRef<[u8]>) {
        if self.update.rules.verbose {
            console::out(line);
        }
    }

    /// Sets or prints the version.
    fn version(&mut self) -> Result<(), Failure> {
        let (was, wanted) = (self.update.version(), self.version);
        match wanted {
            0 => {}
            ..0 => console::out(was.to_string()),
            _ => {
                self.update.set_version(wanted)?;
                self.report(format!("index-version: was {was}, set to {wanted}"));
            }
        }
        Ok(())
    }

    /// Changes the index as a whole. Returns the exit code if the command ends here.
    fn whole(&mut self) -> Result<Option<u8>, Failure> {
        if let Some(on) = self.split {
            self.update.split(on)?;
        }
        let top = self.repo.work_tree();
        match self.untracked {
            None => {}
            Some(Cache::Tested) => {
                let top = top.ok_or_else(Failure::no_worktree)?;
                let shown = [b"Testing mtime in '", top.as_os_str().as_bytes(), b"' "].concat();
                let mut stepped = |step| console::eprint_raw(if step == 0 { &shown } else { b"." });
                let wrong = probe::directories_tell(top, StatRules::of(self.repo)?, &mut stepped)?;
                console::eprint_line(wrong.map_or(" OK".to_owned(), |wrong| format!("\n{wrong}")));
                return Ok(Some(u8::from(wrong.is_some())));
            }
            Some(cache) => {
                self.update.untracked(cache == Cache::On)?;
                let top = top.map_or(&b"(null)"[..], |top| top.as_os_str().as_bytes());
                self.report(match cache {
                    Cache::On => text!("Untracked cache enabled for '", top, "'"),
                    _ => "Untracked cache disabled".into(),
                });
            }
        }
        if let Some(on) = self.fsmonitor {
            self.update.monitor(on)?;
            self.report(if on { "fsmonitor enabled" } else { "fsmonitor disabled" });
        }
        Ok(None)
    }
}

/// Reads lines of standard input as they arrive.
struct Lines {
    input: Input,
    end: u8,
    line: Vec<u8>,
}

impl Lines {
    /// Creates a reader of lines that end with `end`.
    fn of(run: &Invocation, end: u8) -> Result<Lines, Failure> {
        Ok(Lines { input: Input::new(run)?, end, line: Vec::new() })
    }

    /// Returns the next line. Like a C string, it ends at the first NUL.
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        if !self.input.line(self.end, &mut self.line)? {
            return Ok(None);
        }
        Ok(Some(&self.line[..self.line.find_byte(0).unwrap_or(self.line.len())]))
    }

    /// Returns true if the next line is already in the buffer.
    fn is_at_hand(&self) -> bool {
        self.input.is_at_hand(self.end)
    }
}

/// Returns the content of a line that is one quoted string.
fn whole_quote(line: &[u8]) -> Option<BString> {
    unquote(line).filter(|(_, rest)| rest.is_empty()).map(|(path, _)| path)
}
