//! The actions that change the patterns, or reapply them: `init`, `set`, `add`, `reapply` and
//! `disable`.

use std::sync::{Arc, atomic::Ordering};

use bstr::{BString, ByteSlice as _};
use engine::{
    checkout, pathspec,
    sparse::{self, Cone, Patterns},
};
use sapwood::{
    FileType,
    index::{Index, Stage},
};

use super::{Mode, Request, State};
use crate::{
    session::{
        Session,
        index::{Collapse, Done, IndexTransaction, Recorded, Start},
        input::Input,
        invocation::Invocation,
        sparse_index::{self, Expansion, ExpansionHint, Read},
    },
    term::{
        console::{self, text},
        failure::Failure,
        progress,
        text::{os_error, unquote},
    },
};

/// The patterns for the files of the root directory.
const TOP: &[u8] = b"/*\n!/*/\n";

/// Git's exit code if files could not be written.
const NOT_UPDATED: u8 = 254;

pub(super) fn init(mut state: State<'_>, request: &Request) -> Result<u8, Failure> {
    state.take_mode(request)?;
    let file = state.file();
    if Patterns::read(&file, false, state.icase)?.is_some() {
        return state.reapply();
    }
    let head = state.repo.rev_parse("HEAD".into());
    if let Err(error) = head {
        if error.is_unreadable() {
            return Err(error.into());
        }
        // In a repository without a commit there is nothing to update.
        state.make_directory()?;
        let mut lock = store::Lock::take(&file, &state.settings.locks)?;
        lock.write(TOP)?;
        lock.commit()?;
        return Ok(0);
    }
    state.write_and_update(Patterns::parse(TOP, state.cone, state.icase).patterns)
}

pub(super) fn set(mut state: State<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let read = state.read()?;
    state.take_mode(request)?;
    let patterns = if !state.cone && !request.stdin && args.is_empty() {
        Patterns::parse(TOP, false, state.icase).patterns
    } else {
        let args = state.sanitized(&read, args, request)?;
        let lines = if request.stdin { stdin_lines(state.run)? } else { args };
        if state.cone {
            Patterns::of_cone(state.cone_of(&lines, Quoted::of(request))?)
        } else {
            Patterns::of_lines(lines.iter().map(|line| &line[..]), false, state.icase).patterns
        }
    };
    drop(read);
    state.write_and_update(patterns)
}

pub(super) fn add(state: &State<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    if !state.on {
        return Err(Failure::fatal("no sparse-checkout to add to"));
    }
    let read = state.read()?;
    let args = state.sanitized(&read, args, request)?;
    drop(read);
    let existing = || {
        let loaded = Patterns::read(&state.file(), state.cone, state.icase)?;
        let loaded =
            loaded.ok_or_else(|| Failure::fatal("unable to load existing sparse-checkout patterns"))?;
        loaded.warnings.iter().for_each(console::warning);
        Ok::<Patterns, Failure>(loaded.patterns)
    };
    let patterns = if state.cone {
        let lines = if request.stdin { stdin_lines(state.run)? } else { args };
        let mut cone = state.cone_of(&lines, Quoted::of(request))?;
        match existing()?.cone() {
            Some(before) => cone.join(before),
            None => return Err(Failure::fatal("existing sparse-checkout patterns do not use cone mode")),
        }
        Patterns::of_cone(cone)
    } else {
        let before = existing()?;
        let lines = if request.stdin { stdin_lines(state.run)? } else { args };
        let all = before.lines().iter().chain(&lines).map(|line| &line[..]);
        Patterns::of_lines(all, false, state.icase).patterns
    };
    state.write_and_update(patterns)
}

pub(super) fn reapply(mut state: State<'_>, request: &Request) -> Result<u8, Failure> {
    if !state.on {
        return Err(Failure::fatal("must be in a sparse-checkout to reapply sparsity patterns"));
    }
    state.take_mode(request)?;
    state.reapply()
}

pub(super) fn disable(mut state: State<'_>) -> Result<u8, Failure> {
    // Entries may have the skip-worktree flag even if the configuration disables sparse checkouts.
    state.on = true;
    state.sparse_index = false;
    state.settings.reported_expansion.store(true, Ordering::Relaxed);
    let all = Patterns::parse(b"/*\n", false, state.icase).patterns;
    if state.update(all)? == Done::Incomplete {
        return Err(Failure::fatal("error while refreshing working directory"));
    }
    state.record(Mode::Off)?;
    Ok(0)
}

/// Reads the lines of standard input, without their terminators.
pub(super) fn stdin_lines(run: &Invocation) -> Result<Vec<BString>, Failure> {
    let content = Input::new(run)?.all()?;
    let content =
        content.map_err(|error| Failure::fatal(format!("cannot read the standard input: {error}")))?;
    Ok(content.lines().map(BString::from).collect())
}

/// Selects if quoted names are unquoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoted {
    Maybe,
    No,
}

impl Quoted {
    fn of(request: &Request) -> Quoted {
        if request.stdin { Quoted::Maybe } else { Quoted::No }
    }
}

/// Returns a line without its quotes.
pub(super) fn unquoted(line: &BString) -> Result<BString, Failure> {
    if line.first() != Some(&b'"') {
        return Ok(line.clone());
    }
    match unquote(line) {
        Some((name, [])) => Ok(name),
        _ => Err(Failure::Fatal(text!("unable to unquote C-style string '", line, "'"))),
    }
}

impl State<'_> {
    /// Returns the cone of these directories.
    pub(super) fn cone_of(&self, lines: &[BString], quoted: Quoted) -> Result<Cone, Failure> {
        let mut cone = Cone::new(self.icase);
        for line in lines {
            let name = if quoted == Quoted::Maybe { unquoted(line)? } else { line.clone() };
            let name = name.trim().trim_end_with(|letter| letter == '/');
            let below = name.trim_start_with(|letter| letter == '/').as_bstr();
            let Some(path) = pathspec::normalize(below, "".into(), "".into()) else {
                return Err(Failure::Fatal(text!("could not normalize path ", name)));
            };
            if !path.is_empty() {
                cone.add(text!("/", path.trim_end_with(|letter| letter == '/')).as_bstr());
            }
        }
        Ok(cone)
    }

    /// Returns the arguments relative to the worktree's root. Refuses arguments that look like a
    /// mistake, or warns of them.
    fn sanitized(&self, read: &Read, args: &[BString], request: &Request) -> Result<Vec<BString>, Failure> {
        let prefix = self.repo.prefix();
        let mut args = args.to_vec();
        if args.is_empty() {
            return Ok(args);
        }
        if !prefix.is_empty() && self.cone {
            use std::os::unix::ffi::OsStrExt as _;
            let root = self.repo.work_tree().map_or(&b""[..], |root| root.as_os_str().as_bytes()).as_bstr();
            for arg in &mut args {
                *arg = pathspec::normalize(arg.as_bstr(), prefix, root).ok_or_else(|| {
                    Failure::Fatal(text!("'", arg, "' is outside repository at '", root, "'"))
                })?;
            }
        }
        if request.skip_checks {
            return Ok(args);
        }
        if !prefix.is_empty() && !self.cone {
            return Err(Failure::fatal("please run from the toplevel directory in non-cone mode"));
        }
        const RATHER: &str = "specify directories rather than patterns";
        for arg in args.iter().filter(|_| self.cone) {
            if arg.starts_with(b"/") {
                return Err(Failure::fatal(format!("{RATHER} (no leading slash)")));
            }
            if arg.starts_with(b"!") {
                return Err(Failure::fatal(format!(
                    "{RATHER}.  If your directory starts with a '!', pass --skip-checks"
                )));
            }
            if arg.iter().any(|byte| b"*?[]".contains(byte)) {
                return Err(Failure::fatal(format!(
                    "{RATHER}.  If your directory really has any of '*?[]\\' in it, pass --skip-checks"
                )));
            }
        }
        let Read { index, before, .. } = read;
        if args.iter().any(|arg| sparse_index::is_collapsed(before.as_ref(), arg.as_bstr())) {
            sparse_index::report_expansion(self.repo, self.settings, index, ExpansionHint::Print)?;
        }
        let is_file = |arg: &BString| {
            let found = index.position(arg.as_bstr(), Stage::Normal);
            found.is_ok_and(|at| !index.entries()[at].mode.is_tree())
        };
        for arg in args.iter().filter(|arg| is_file(arg)) {
            if self.cone {
                return Err(Failure::Fatal(text!(
                    "'",
                    arg,
                    "' is not a directory; to treat it as a directory anyway, rerun with --skip-checks"
                )));
            }
            console::warning(text!(
                "pass a leading slash before paths such as '",
                arg,
                "' if you want a single file (see NON-CONE PROBLEMS in the git-sparse-checkout manual)."
            ));
        }
        Ok(args)
    }

    /// Reads the index for lookups.
    fn read(&self) -> Result<Read, Failure> {
        let index = crate::session::index::load_raw(self.repo, self.settings)?;
        sparse_index::read(self.repo, self.settings, index, None, ExpansionHint::Print, Expansion::AtOnce)
    }

    fn make_directory(&self) -> Result<(), Failure> {
        let file = self.file();
        let parent = file.parent().expect("the file is in the Git directory");
        let made = self.settings.locks.shared.create_dir_all(parent);
        made.map_err(|error| {
            let reason = os_error(&error);
            let place = parent.display();
            Failure::fatal(format!("failed to create directory for sparse-checkout file: {place}: {reason}"))
        })
    }

    /// Applies `patterns`, and then writes them to the file.
    fn write_and_update(&self, patterns: Patterns) -> Result<u8, Failure> {
        self.make_directory()?;
        let mut lock = store::Lock::take(&self.file(), &self.settings.locks)?;
        let content = if self.cone {
            patterns.to_file()
        } else {
            patterns.lines().iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
        };
        if self.update(patterns)? == Done::Incomplete {
            drop(lock);
            self.reapply()?;
            return Ok(NOT_UPDATED);
        }
        lock.write(&content)?;
        lock.commit()?;
        Ok(0)
    }

    /// Reapplies the patterns of the file.
    fn reapply(&self) -> Result<u8, Failure> {
        let Some(loaded) = Patterns::read(&self.file(), self.cone, self.icase)? else { return Ok(0) };
        loaded.warnings.iter().for_each(console::warning);
        let done = self.update(loaded.patterns)?;
        // Git reads the file once more, to find remaining directories, and repeats its warnings.
        loaded.warnings.iter().for_each(console::warning);
        Ok(match done {
            Done::Incomplete | Done::Unfinished => NOT_UPDATED,
            Done::Complete => 0,
        })
    }

    /// Updates worktree and index to `patterns`.
    fn update(&self, patterns: Patterns) -> Result<Done, Failure> {
        let before = crate::session::index::load_raw(self.repo, self.settings)?;
        if before.entries().is_empty() && before.timestamp.0 == 0 {
            // Nothing has been checked out.
            return Ok(Done::Complete);
        }
        drop(before);
        let patterns = Arc::new(patterns);
        let mut transaction =
            Session { invocation: self.run, repository: self.repo, settings: self.settings }
                .start(Start::Full { dry_run: false })?;
        self.expand(&mut transaction, &patterns)?;
        let collapses = self.sparse_index && self.cone;
        transaction.state.collapse = Collapse::By(collapses.then(|| patterns.clone()));
        transaction.policy.progress = progress::has_terminal();
        let index = std::mem::replace(&mut transaction.index, Index::empty(self.repo.hash()));
        let cwd = self.run.original_cwd(self.repo);
        let plan = checkout::plan_sparsity(self.repo, transaction.worktree(), index, patterns.clone(), cwd)?;
        let warnings = plan.warnings.clone();
        let done = transaction.carry_out(checkout::Plan { warnings: Vec::new(), ..plan })?;
        warnings.iter().for_each(|text| console::eprint_raw(text));
        transaction.finish(Recorded::Yes)?;
        self.remove_emptied(&transaction, &patterns)?;
        Ok(done)
    }

    /// Reports the expansion of a sparse index if Git expands the whole index for new patterns: if
    /// the index will not be sparse, or has conflicts. Otherwise Git expands only some directories.
    fn expand(&self, transaction: &mut IndexTransaction<'_>, patterns: &Patterns) -> Result<(), Failure> {
        if self.sparse_index && patterns.cone().is_some() && !transaction.index.is_unmerged() {
            transaction.state.before = None;
        }
        Ok(transaction.needs_full()?)
    }

    /// Removes directories that are outside the cone and contain at most ignored files.
    fn remove_emptied(&self, transaction: &IndexTransaction<'_>, patterns: &Patterns) -> Result<(), Failure> {
        if transaction.index.is_unmerged() {
            return Ok(());
        }
        for (dir, _) in sparse::directories(&transaction.index, patterns, None) {
            let dir = dir.as_bstr();
            let found = transaction.worktree().stat(dir).ok().flatten();
            if found.is_none_or(|stat| stat.file_type != FileType::Directory) {
                continue;
            }
            if checkout::has_untracked(self.repo, transaction.worktree(), &transaction.index, dir)? {
                console::warning(text!(
                    "directory '",
                    dir,
                    "/' contains untracked files, but is not in the sparse-checkout cone"
                ));
            } else if checkout::remove_directory(self.repo, transaction.worktree(), dir).is_err() {
                console::warning(text!("failed to remove directory '", dir, "/'"));
            }
        }
        Ok(())
    }
}
