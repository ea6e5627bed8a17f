//! `sapwood rm`: removes files from the index and from the worktree.
//!
//! Order: the lock; the index; stat data of the selected files; the selected paths, and pathspecs
//! that match nothing; the check that no content is lost; the files; the index. Nothing is removed
//! before all checks have passed, and each file is checked once more before its removal.

mod check;
mod remove;

use std::sync::Arc;

use bstr::{BString, ByteSlice as _};
use engine::{
    add::Staging,
    checkout::{self, ChangedEntry},
    pathspec::{Matched, Pathspecs, Seen},
    sparse::Patterns,
};
use format::index::{Flags, Index};
use sys::Dir;

use crate::{
    commands::{
        obstacles::{GENERAL, WRITING, attributes_of_pathspecs},
        paths,
        pathspec_file::PathspecFile,
        record::{Command, Group, Traits},
    },
    session::{
        Session,
        advice::{self, is_inside},
        apply::{Recorded, Start, Transaction},
        invocation::Invocation,
        monitor::{self, WriteIndex},
        settings::Settings,
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Table,
        },
        console::{Listing, text},
        failure::Failure,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood rm [-f | --force] [-n] [-r] [--cached] [--ignore-unmatch]\n          \
         [--quiet] [--pathspec-from-file=<file> [--pathspec-file-nul]]\n          \
         [--] [<pathspec>...]"],
    options: &[
        Opt::flag("-n, --dry-run", "dry run", |request: &mut Request| &mut request.dry_run).native(Both),
        Opt::flag("-q, --quiet", "do not list removed files", |request: &mut Request| &mut request.quiet)
            .native(Both),
        Opt::flag("--cached", "only remove from the index", |request: &mut Request| &mut request.cached)
            .native(Both),
        Opt::flag("-f, --force", "override the up-to-date check", |request: &mut Request| &mut request.force)
            .native(Both),
        Opt::flag("-r", "allow recursive removal", |request: &mut Request| &mut request.recursive).native(On),
        Opt::flag(
            "--ignore-unmatch",
            "exit with a zero status even if nothing matched",
            |request: &mut Request| &mut request.ignore_unmatch,
        )
        .native(Both),
        Opt::flag(
            "--sparse",
            "allow updating entries outside of the sparse-checkout cone",
            |request: &mut Request| &mut request.sparse,
        )
        .native(Both),
        Opt::new("--pathspec-from-file <file>", "read pathspec from file", |request: &mut Request, value| {
            request.pathspec_file.files.extend(value.text);
            Ok(())
        })
        .native(Both),
        Opt::flag(
            "--pathspec-file-nul",
            "with --pathspec-from-file, pathspec elements are separated with NUL character",
            |request: &mut Request| &mut request.pathspec_file.nul,
        )
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    dry_run: bool,
    quiet: bool,
    cached: bool,
    force: bool,
    recursive: bool,
    ignore_unmatch: bool,
    sparse: bool,
    pathspec_file: PathspecFile,
}

/// The record of `rm`.
pub(super) const COMMAND: Command = Command {
    name: "rm",
    summary: "Remove files from the working tree and from the index",
    about: "Removes files from the index, and from the worktree unless `--cached` is given. A file with changes \
            that would be lost stays, unless `-f` is given. Each file is looked at again right before it is \
            removed. Submodules are left to Git.",
    group: Group::Changes,
    syntax: &TABLE,
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL],
    line: &[attributes_of_pathspecs],
    checks: &[WRITING],
    run,
    ..Command::BASE
};

/// A run of the command.
struct Removal<'a> {
    session: Session<'a>,
    worktree: &'a Dir,
    request: &'a Request,
    pathspecs: Pathspecs,
    patterns: Option<Arc<Patterns>>,
    /// The files that differ from their entries.
    changed: Vec<ChangedEntry>,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let pathspecs = paths::parse_or_here(run, &repo, &rest)?;
    let pathspecs = request.pathspec_file.or(pathspecs, None, run, &repo)?;
    if pathspecs.is_empty() {
        return Err(Failure::fatal("No pathspec was given. Which files should I remove?"));
    }
    let Some(root) = repo.work_tree() else {
        return Err(match request.cached {
            true => Failure::Unserved("an index without a worktree"),
            false => Failure::no_worktree(),
        });
    };
    let settings = Settings::read(run, &repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let mut transaction = Transaction::start(session, Start::Full { dry_run: false })?;
    let worth = monitor::refresh(run, &repo, &settings, &mut transaction.index)?;
    let refreshed = checkout::refresh_selected(&repo, &worktree, &mut transaction.index, &pathspecs)?;
    let patterns = transaction.patterns()?;
    let has_news = refreshed.has_news || transaction.state.differs_on_disk || worth == WriteIndex::Worthwhile;
    let changed = refreshed.changes;
    let removal = Removal { session, worktree: &worktree, request: &request, pathspecs, patterns, changed };
    removal.run(&mut transaction, has_news)
}

impl Removal<'_> {
    fn run(self, transaction: &mut Transaction<'_>, has_news: bool) -> Result<u8, Failure> {
        let (paths, code) = match self.select(transaction)? {
            Selected::Nothing(code) => return Ok(code),
            Selected::Paths(paths, code) => (paths, code),
        };
        let seen = self.check(&transaction.index, &paths)?;
        let interrupt = &self.session.invocation.interrupt;
        interrupt.check()?;
        let repo = self.session.repository;
        let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
        let mut staging = Staging::new(index, engine::add::protect(repo)?);
        let mut listing = Listing::default();
        for path in &paths {
            transaction.looks_for(path.as_bstr())?;
            if !self.request.quiet {
                listing.buffer().extend_from_slice(&text!("rm '", path, "'\n"));
                listing.flush_if_full()?;
            }
            staging.remove(path.as_bstr());
        }
        // If the reader has closed the pipe, the command ends here, before anything is removed.
        listing.write("standard output")?;
        if self.request.dry_run {
            return Ok(0);
        }
        let mut code = code;
        if !self.request.cached {
            code = code.max(self.remove_files(&paths, &seen)?);
        }
        let has_news = has_news || staging.is_changed();
        transaction.index = staging.into_index();
        interrupt.check()?;
        transaction.finish(if has_news { Recorded::Yes } else { Recorded::No })?;
        Ok(code)
    }

    /// Selects the paths, in index order. An unmerged path may occur several times, as in Git.
    fn select(&self, transaction: &mut Transaction<'_>) -> Result<Selected, Failure> {
        let patterns = self.patterns.as_deref();
        if let (Some(before), Some(by)) = (&transaction.state.before, patterns) {
            if self.request.sparse || self.has_wildcards() {
                return Err(Failure::Unserved("directories of a sparse index"));
            }
            if self.pathspecs.need_full_index(before, by) {
                transaction.needs_full()?;
            }
        }
        let index = &transaction.index;
        let (mut seen, mut paths) = (Seen::default(), Vec::new());
        for at in self.pathspecs.bounds(index) {
            let entry = index.entry(at);
            let path = index.path(&entry);
            let is_outside = entry.flags.contains(Flags::SKIP_WORKTREE) || !is_inside(patterns, path);
            if is_outside && !self.request.sparse
                || !self.pathspecs.matches_in_turn(path, entry.mode, &mut seen)
            {
                continue;
            }
            if entry.mode.is_gitlink() {
                return Err(Failure::Unserved("submodules"));
            }
            paths.push(path.to_owned());
        }
        let (mut outside_specs, mut is_any, mut outside) = (Vec::new(), false, None);
        for one in self.pathspecs.uses(&seen) {
            if one.matched != Matched::Nothing {
                is_any = true;
            } else if self.request.ignore_unmatch {
                continue;
            } else {
                let looked = transaction.state.before.as_ref().unwrap_or(index);
                let outside = outside.get_or_insert_with(|| self.matches_outside(looked));
                let hit = self.pathspecs.uses(outside).nth(one.number);
                if self.request.sparse || hit.is_none_or(|one| one.matched == Matched::Nothing) {
                    let message = text!("pathspec '", one.original, "' did not match any files");
                    return Err(Failure::Fatal(message));
                }
                outside_specs.push(one.original.to_owned());
            }
            if !self.request.recursive && one.matched == Matched::Below {
                let name = if one.original.is_empty() { ".".into() } else { one.original };
                return Err(Failure::Fatal(text!("not removing '", name, "' recursively without -r")));
            }
        }
        advice::about_outside(self.session, &outside_specs)?;
        let code = u8::from(!outside_specs.is_empty());
        Ok(if is_any { Selected::Paths(paths, code) } else { Selected::Nothing(code) })
    }

    /// Returns true if a pathspec may have wildcards: Git then expands a sparse index.
    fn has_wildcards(&self) -> bool {
        self.pathspecs.patterns().any(|(pattern, _)| pattern.find_byteset("*?[").is_some())
    }

    /// Returns the pathspecs that match entries outside the sparse checkout.
    fn matches_outside(&self, index: &Index) -> Seen {
        let mut seen = Seen::default();
        for entry in index.entries_in(0..index.len()) {
            let path = index.path(&entry);
            if entry.flags.contains(Flags::SKIP_WORKTREE) || !is_inside(self.patterns.as_deref(), path) {
                self.pathspecs.matches_in_turn(path, entry.mode, &mut seen);
            }
        }
        seen
    }
}

/// The paths that the pathspecs select, and the exit code so far.
enum Selected {
    Nothing(u8),
    Paths(Vec<BString>, u8),
}
