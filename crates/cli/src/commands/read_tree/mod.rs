//! `sapwood read-tree`: trees into the index, as they are or merged with it, and on request into
//! the worktree.
//!
//! Order, which is also that of Git's errors: options; the lock; the index; the trees; the rules
//! for options; then plan, execute and record. A refusal leaves everything unchanged.

use bstr::BString;

use crate::{
    commands::{
        obstacles::{GENERAL, RECURSING, WRITING, no_attributes_in_pathspecs, partial, recursion_is_boolean},
        reason::Reason,
        record::{Candidate, Command, Group, Revisions, Traits},
    },
    session::{
        invocation::Invocation,
        submodules::{
            self,
            read_tree::{Request, carry_out},
        },
    },
    term::{
        args::{
            Grammar,
            Native::{Both, Off, On},
            Opt, Set, Survey, Table, Value,
        },
        failure::{Failure, unserved_if},
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood read-tree [(-m [--trivial] [--aggressive] | --reset | --prefix=<prefix>)\n                     \
              [-u | -i]] [--index-output=<file>] [--no-sparse-checkout]\n                     \
              (--empty | <tree-ish1> [<tree-ish2> [<tree-ish3>]])",
    ],
    options: &[
        Opt::text("--index-output <file>", "write resulting index to <file>", |request: &mut Request| {
            &mut request.output
        })
        .only()
        .native(On),
        Opt::flag("--empty", "only empty the index", |request: &mut Request| &mut request.empty).native(Both),
        Opt::flag("-v, --verbose", "be verbose", |request: &mut Request| &mut request.verbose).native(Both),
        Opt::flag("-m", "perform a merge in addition to a read", |request: &mut Request| &mut request.merge)
            .only()
            .native(On),
        Opt::flag("--trivial", "3-way merge if no file level merging required", |request: &mut Request| {
            &mut request.trivial
        })
        .native(Both),
        Opt::flag("--aggressive", "3-way merge in presence of adds and removes", |request: &mut Request| {
            &mut request.aggressive
        })
        .native(Both),
        Opt::flag("--reset", "same as -m, but discard unmerged entries", |request: &mut Request| {
            &mut request.reset
        })
        .native(Both),
        Opt::text(
            "--prefix <subdirectory>/",
            "read the tree into the index under <subdirectory>/",
            |request: &mut Request| &mut request.prefix,
        )
        .only()
        .native(On),
        Opt::flag("-u", "update working tree with merge result", |request: &mut Request| &mut request.update)
            .only()
            .native(On),
        Opt::new(
            "--exclude-per-directory <gitignore>",
            "allow explicitly ignored files to be overwritten",
            exclude_per_directory,
        )
        .only()
        .native(On),
        Opt::flag("-i", "don't check the working tree after merging", |request: &mut Request| {
            &mut request.index_only
        })
        .only()
        .native(On),
        Opt::flag("-n, --dry-run", "don't update the index or the work tree", |request: &mut Request| {
            &mut request.dry_run
        })
        .native(Both),
        Opt::flag("--no-sparse-checkout", "skip applying sparse checkout filter", |request: &mut Request| {
            &mut request.no_sparse_checkout
        })
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
        Opt::flag("-q, --quiet", "suppress feedback messages", |request: &mut Request| &mut request.quiet)
            .native(Both),
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
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL],
    line: &[recursion_is_boolean, prefix_of_several, no_attributes_in_pathspecs],
    checks: &[WRITING, &[overlay], RECURSING],
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
    match candidate.survey.is_some() && !candidate.args.iter().any(merges) {
        true => partial(candidate.repo()),
        false => Vec::new(),
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let trees = TABLE.parse(args)?.store(&mut request)?;
    validate(&request)?;
    carry_out(run, &request, &trees)
}

/// `--exclude-per-directory`: accepted only with the value that `-u` implies.
fn exclude_per_directory(request: &mut Request, value: Value) -> Result<(), Failure> {
    if !request.update {
        return Err(Failure::fatal("--exclude-per-directory is meaningless unless -u"));
    }
    match value.text.is_some_and(|file| file != ".gitignore") {
        true => Err(Failure::fatal("--exclude-per-directory argument must be .gitignore")),
        false => Ok(()),
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
