//! `sapwood mv`: moves files and directories with their entries.
//!
//! Order: the lock; the index; the check of each move; the moves, each in the worktree and then in
//! the index; the index file. A refusal precedes the first move.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{Dir, FileType, mv};

use crate::{
    commands::{
        obstacles::{GENERAL, WRITING},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group},
    },
    session::{Session, index::Start, invocation::Invocation, settings::Settings},
    term::{
        args::{Both, Grammar, On, Opt, Set, Table},
        console,
        failure::Failure,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood mv [-v] [-f] [-n] [-k] <source> <destination>",
        "sapwood mv [-v] [-f] [-n] [-k] <source>... <destination-directory>",
    ],
    options: &[
        Opt::flag("-v, --verbose", "be verbose", field!(verbose)).native(Both),
        Opt::flag("-n, --dry-run", "dry run", field!(dry_run)).native(Both),
        Opt::flag("-f, --force", "force move/rename even if target exists", field!(force)).native(Both),
        Opt::flag("-k", "skip move/rename errors", field!(skip_errors)).native(On),
        Opt::flag("--sparse", "allow updating entries outside of the sparse-checkout cone", field!(sparse))
            .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    verbose: bool,
    dry_run: bool,
    force: bool,
    skip_errors: bool,
    sparse: bool,
}

/// The record of `mv`.
pub(super) const COMMAND: Command = Command {
    name: "mv",
    summary: "Move or rename a file, a directory, or a symlink",
    about: "Moves files and directories, and their entries in the index with them. Submodules, and what is \
            outside of a sparse checkout, are left to Git.",
    group: Group::Changes,
    syntax: &TABLE,
    settings: &[GENERAL],
    checks: &[WRITING, FOLDING],
    late: &[
        "directories with conflicts or submodules",
        "files outside of the sparse checkout",
        "files that are not in the worktree",
        "submodules",
    ],
    run,
    ..Command::BASE
};

/// Names that differ only in case are left to Git.
const FOLDING: &[Check] = &[Check::new("`core.ignoreCase`", folds_case)];

fn folds_case(candidate: &Candidate<'_>) -> Vec<Reason> {
    let folds = candidate.repo().config(&keys::core::IGNORE_CASE).unwrap_or(false);
    folds.then(|| Reason::repository("core.ignoreCase is set")).into_iter().collect()
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    if rest.len() < 2 {
        console::eprint_raw(TABLE.help().as_bytes());
        return Err(Failure::Reported(129));
    }
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let settings = Settings::read(&repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let transaction = session.start(Start::Full { dry_run: false })?;
    let moves = mv::Request {
        force: request.force,
        skip_errors: request.skip_errors,
        verbose: request.verbose,
        dry_run: request.dry_run,
        ..words(&repo, &worktree, &rest)?
    };
    mv::examine(session.context(run), transaction, moves)?.carry_out()?;
    Ok(0)
}

/// Returns the paths of the command line, relative to the root of the worktree.
fn words(repo: &Repository, worktree: &Dir, args: &[BString]) -> Result<mv::Request, Failure> {
    let (last, sources) = args.split_last().expect("there are two words");
    let trimmed: Vec<&BStr> =
        sources.iter().map(|source| source.trim_end_with(|letter| letter == '/').as_bstr()).collect();
    let from_top = |path: &BStr| paths::from_top(repo, path).map_err(Failure::Fatal);
    // The new name of a single directory may end in a slash.
    let is_directory = |path: &BStr| {
        let found = from_top(path).ok().and_then(|path| {
            let path = path.trim_end_with(|letter| letter == '/');
            if path.is_empty() { worktree.stat_self().ok() } else { worktree.stat(path).ok().flatten() }
        });
        found.is_some_and(|stat| stat.file_type == FileType::Directory)
    };
    let drops_slash = trimmed.len() == 1 && is_directory(trimmed[0]) && !is_directory(last.as_bstr());
    let destination = if drops_slash {
        from_top(last.trim_end_with(|letter| letter == '/').as_bstr())?
    } else {
        from_top(last.as_bstr())?
    };
    let name = |source: &&BStr| -> BString {
        match source.rfind_byte(b'/') {
            Some(slash) => source[slash + 1..].into(),
            None if source.is_empty() => "/".into(),
            None => (*source).to_owned(),
        }
    };
    Ok(mv::Request {
        names: trimmed.iter().map(name).collect(),
        sources: trimmed.iter().map(|source| from_top(source)).collect::<Result<_, _>>()?,
        destination,
        ..mv::Request::default()
    })
}
