//! `sapwood read-tree`: trees into the index, as they are or merged with it, and on request into
//! the worktree.
//!
//! Order, which is also that of Git's errors: options; the lock; the index; the trees; the rules
//! for options; then plan, execute and record. A refusal leaves everything unchanged.

use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    ObjectId, UserPath,
    read_tree::{self, MOST_TREES, ReadTree, Request},
};

use crate::{
    commands::{
        obstacles::{GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, RECURSING, RECURSION_IS_BOOLEAN, WRITING, partial},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Revisions},
    },
    session::{Session, invocation::Invocation, revisions::warn_ambiguous, settings::Settings, submodules},
    term::{
        args::{Both, Grammar, Off, On, Opt, Set, Survey, Table, Value},
        console::{self, text},
        failure::{Failure, unserved_if},
        notice,
        text::os_str,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood read-tree [(-m [--trivial] [--aggressive] | --reset | --prefix=<prefix>)\n                     \
              [-u | -i]] [--index-output=<file>] [--no-sparse-checkout]\n                     \
              (--empty | <tree-ish1> [<tree-ish2> [<tree-ish3>]])",
    ],
    options: &[
        Opt::new(
            "--index-output <file>",
            "write resulting index to <file>",
            |request: &mut Request, value| {
                request.output = value.text.map(|file| PathBuf::from(os_str(&file)));
                Ok(())
            },
        )
        .only()
        .native(On),
        Opt::flag("--empty", "only empty the index", field!(empty)).native(Both),
        Opt::flag("-v, --verbose", "be verbose", field!(verbose)).native(Both),
        Opt::flag("-m", "perform a merge in addition to a read", field!(merge)).only().native(On),
        Opt::flag("--trivial", "3-way merge if no file level merging required", field!(trivial)).native(Both),
        Opt::flag("--aggressive", "3-way merge in presence of adds and removes", field!(aggressive))
            .native(Both),
        Opt::flag("--reset", "same as -m, but discard unmerged entries", field!(reset)).native(Both),
        Opt::text(
            "--prefix <subdirectory>/",
            "read the tree into the index under <subdirectory>/",
            field!(prefix),
        )
        .only()
        .native(On),
        Opt::flag("-u", "update working tree with merge result", field!(update)).only().native(On),
        Opt::new(
            "--exclude-per-directory <gitignore>",
            "allow explicitly ignored files to be overwritten",
            exclude_per_directory,
        )
        .only()
        .native(On),
        Opt::flag("-i", "don't check the working tree after merging", field!(index_only)).only().native(On),
        Opt::flag("-n, --dry-run", "don't update the index or the work tree", field!(dry_run)).native(Both),
        Opt::flag("--no-sparse-checkout", "skip applying sparse checkout filter", field!(no_sparse_checkout))
            .native(Both),
        Opt::new("--debug-unpack", "debug unpack-trees", |_: &mut Request, value| {
            unserved_if(value.on, "option '--debug-unpack'")
        })
        .native(Off),
        Opt::new(
            "--recurse-submodules[=<checkout>]",
            "control recursive updating of submodules",
            |request: &mut Request, value| {
                request.recurse = Some(submodules::parse(value.on, value.text)?);
                Ok(())
            },
        )
        .native(Both),
        Opt::flag("-q, --quiet", "suppress feedback messages", field!(quiet)).native(Both),
    ],
    grammar: Grammar::Mixed,
};

/// The record of `read-tree`.
pub(super) const COMMAND: Command = Command {
    name: "read-tree",
    summary: "Read trees into the index",
    about: "Reads trees into the index, merges them if `-m` or `--reset` is given, and with `-u` \
            updates the worktree. It is for scripts: `sapwood switch` and `sapwood reset` are for people. \
            `--dry-run`, as in Git, only tells if it would fail.",
    group: Group::Scripts,
    syntax: &TABLE,
    revisions: Revisions::Leading,
    settings: &[GENERAL],
    line: &[
        RECURSION_IS_BOOLEAN,
        LineCheck::new("`--prefix` with several trees", prefix_of_several),
        NO_ATTRIBUTES_IN_PATHSPECS,
    ],
    checks: &[
        WRITING,
        &[Check::new("without `-m`, `--reset` and `--prefix`, a partial clone", overlay)],
        RECURSING,
    ],
    run,
    ..Command::BASE
};

/// Detects `--prefix` with several trees.
fn prefix_of_several(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let binds = survey.options.iter().any(|given| given.name == "--prefix");
    (binds && survey.rest.len() > 1).then(|| Reason::command_line("'--prefix' with several trees"))
}

/// Detects trees that are laid over each other in a partial clone: Git fetches their objects, to
/// check that their union is a valid tree.
fn overlay(candidate: &Candidate<'_>) -> Vec<Reason> {
    let merges = |arg: &BString| arg == "-m" || arg.starts_with(b"--reset") || arg.starts_with(b"--prefix");
    if candidate.survey.is_some() && !candidate.args.iter().any(merges) {
        partial(candidate.repo())
    } else {
        Vec::new()
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let names = TABLE.parse(args)?.store(&mut request)?;
    validate(&request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let started = ReadTree::start(session.context(run), request.clone())?;
    let trees = trees(session, &names)?;
    check(&request, &repo, &trees)?;
    let output = request.output.as_ref().map(|file| output(run, &repo, file.as_os_str().as_bytes().into()));
    let output = output.transpose()?;
    let started = started.with_output(output).started_in(run.original_cwd(&repo));
    Ok(if started.run(trees)? { 0 } else { 128 })
}

/// `--exclude-per-directory`: accepted only with the value that `-u` implies.
fn exclude_per_directory(request: &mut Request, value: Value) -> Result<(), Failure> {
    if !request.update {
        return Err(Failure::fatal("--exclude-per-directory is meaningless unless -u"));
    }
    if value.text.is_some_and(|file| file != ".gitignore") {
        Err(Failure::fatal("--exclude-per-directory argument must be .gitignore"))
    } else {
        Ok(())
    }
}

/// Returns an error for options that cannot be used together.
fn validate(request: &Request) -> Result<(), Failure> {
    if [request.merge, request.reset, request.prefix.is_some()].iter().filter(|&&on| on).count() > 1 {
        return Err(Failure::fatal("Which one? -m, --reset, or --prefix?"));
    }
    if request.prefix.as_ref().is_some_and(|prefix| prefix.starts_with(b"/")) {
        return Err(Failure::fatal("Invalid prefix, prefix cannot start with '/'"));
    }
    Ok(())
}

/// Returns an error for options that do not fit the trees.
fn check(request: &Request, repo: &Repository, trees: &[ObjectId]) -> Result<(), Failure> {
    let merges = request.merges();
    if trees.is_empty() && !request.empty && !merges {
        console::warning("read-tree: emptying the index with no arguments is deprecated; use --empty");
    } else if !trees.is_empty() && request.empty {
        return Err(Failure::fatal("passing trees as arguments contradicts --empty"));
    }
    if request.index_only && request.update {
        return Err(Failure::fatal("-u and -i at the same time makes no sense"));
    }
    if (request.update || request.index_only) && !merges {
        let option = if request.update { "-u" } else { "-i" };
        return Err(Failure::fatal(format!("{option} is meaningless without -m, --reset, or --prefix")));
    }
    if merges && !request.index_only && repo.work_tree().is_none() {
        return Err(Failure::no_worktree());
    }
    if merges && trees.is_empty() {
        return Err(Failure::fatal("you must specify at least one tree to merge"));
    }
    Ok(())
}

/// Returns the trees that the arguments name.
fn trees(session: Session<'_>, args: &[BString]) -> Result<Vec<ObjectId>, Failure> {
    let Session { repository: repo, settings, .. } = session;
    let mut trees = Vec::new();
    for arg in args {
        let invalid = || Failure::Fatal(text!("Not a valid object name ", arg));
        let named = repo.rev_parse(arg.as_bstr());
        let oid = named.map_err(|error| Failure::of_name(error, invalid()))?;
        warn_ambiguous(repo, settings, arg.as_bstr(), 1)?;
        if trees.len() == MOST_TREES {
            return Err(Failure::fatal(format!("I cannot read more than {MOST_TREES} trees")));
        }
        trees.push(read_tree::tree_of(repo, oid, arg)?);
    }
    notice::print_object_store_errors(repo);
    Ok(trees)
}

/// Returns the file of `--index-output`, relative to the worktree's root, where Git is by then.
fn output(run: &Invocation, repo: &Repository, file: &BStr) -> Result<PathBuf, Failure> {
    let file = UserPath::new(file);
    file.resolve(repo.work_tree().unwrap_or(&run.cwd)).map_err(|refused| Failure::refused(&file, refused))
}
