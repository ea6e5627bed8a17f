//! `sapwood read-tree`: trees into the index, as they are or merged with it, and on wish into the worktree.
//!
//! Order, which is that of Git's errors: options; the index's lock; the index; the trees; what of the options goes
//! together; then plan, act and record. A refusal leaves everything as it is.

use bstr::BString;

use crate::{
    commands::{
        obstacles::{
            Candidate, GENERAL, RECURSING, WRITING, no_attributes_in_pathspecs, partial, recursion_is_boolean,
        },
        reason::Reason,
        record::{Command, Group, Revisions, Traits},
    },
    session::{
        invocation::Invocation,
        submodules::{
            self,
            read_tree::{Request, carry_out},
        },
    },
    term::{
        args::{Event, Grammar, Native, Opt, Survey, Table},
        failure::Failure,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    IndexOutput,
    Empty,
    Verbose,
    Merge,
    Trivial,
    Aggressive,
    Reset,
    Prefix,
    Update,
    ExcludePerDirectory,
    IndexOnly,
    DryRun,
    NoSparseCheckout,
    DebugUnpack,
    RecurseSubmodules,
    Quiet,
}

const TABLE: Table<Key> = Table {
    usage: &[
        "sapwood read-tree [(-m [--trivial] [--aggressive] | --reset | --prefix=<prefix>)\n                     \
              [-u | -i]] [--index-output=<file>] [--no-sparse-checkout]\n                     \
              (--empty | <tree-ish1> [<tree-ish2> [<tree-ish3>]])",
    ],
    options: &[
        Opt::new(Key::IndexOutput, "--index-output <file>", "write resulting index to <file>")
            .only()
            .native(Native::On),
        Opt::new(Key::Empty, "--empty", "only empty the index").native(Native::Both),
        Opt::new(Key::Verbose, "-v, --verbose", "be verbose").native(Native::Both),
        Opt::new(Key::Merge, "-m", "perform a merge in addition to a read").only().native(Native::On),
        Opt::new(Key::Trivial, "--trivial", "3-way merge if no file level merging required")
            .native(Native::Both),
        Opt::new(Key::Aggressive, "--aggressive", "3-way merge in presence of adds and removes")
            .native(Native::Both),
        Opt::new(Key::Reset, "--reset", "same as -m, but discard unmerged entries").native(Native::Both),
        Opt::new(
            Key::Prefix,
            "--prefix <subdirectory>/",
            "read the tree into the index under <subdirectory>/",
        )
        .only()
        .native(Native::On),
        Opt::new(Key::Update, "-u", "update working tree with merge result").only().native(Native::On),
        Opt::new(
            Key::ExcludePerDirectory,
            "--exclude-per-directory <gitignore>",
            "allow explicitly ignored files to be overwritten",
        )
        .only()
        .native(Native::On),
        Opt::new(Key::IndexOnly, "-i", "don't check the working tree after merging")
            .only()
            .native(Native::On),
        Opt::new(Key::DryRun, "-n, --dry-run", "don't update the index or the work tree")
            .native(Native::Both),
        Opt::new(Key::NoSparseCheckout, "--no-sparse-checkout", "skip applying sparse checkout filter")
            .native(Native::Both),
        Opt::new(Key::DebugUnpack, "--debug-unpack", "debug unpack-trees").native(Native::Off),
        Opt::new(
            Key::RecurseSubmodules,
            "--recurse-submodules[=<checkout>]",
            "control recursive updating of submodules",
        )
        .native(Native::Both),
        Opt::new(Key::Quiet, "-q, --quiet", "suppress feedback messages").native(Native::Both),
    ],
    grammar: Grammar::Mixed,
};

/// The record of `read-tree`.
pub(super) const COMMAND: Command = Command {
    name: "read-tree",
    summary: "Read trees into the index",
    group: Group::Changes,
    syntax: &TABLE,
    revisions: Revisions::Leading,
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL],
    line: &[recursion_is_boolean, prefix_of_several, no_attributes_in_pathspecs],
    checks: &[WRITING, &[overlay], RECURSING],
    run,
    ..Command::BASE
};

/// `--prefix` with several trees.
fn prefix_of_several(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let binds = survey.options.iter().any(|given| given.name == "--prefix");
    (binds && survey.rest.len() > 1).then(|| Reason::command_line("'--prefix' with several trees"))
}

/// Git fetches the objects of trees that it lays over each other, to make sure that their union can be a tree.
fn overlay(candidate: &Candidate<'_>) -> Vec<Reason> {
    let merges = |arg: &BString| arg == "-m" || arg.starts_with(b"--reset") || arg.starts_with(b"--prefix");
    match candidate.survey.is_some() && !candidate.args.iter().any(merges) {
        true => partial(candidate.repo()),
        false => Vec::new(),
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = TABLE.parse(args)?;
    carry_out(run, &request(parsed.events)?, &parsed.rest)
}

fn request(events: Vec<Event<Key>>) -> Result<Request, Failure> {
    let mut request = Request::default();
    for event in events {
        match event.key {
            Key::IndexOutput => request.output = event.value,
            Key::Empty => request.empty = event.on,
            Key::Verbose => request.verbose = event.on,
            Key::Merge => request.merge = event.on,
            Key::Trivial => request.trivial = event.on,
            Key::Aggressive => request.aggressive = event.on,
            Key::Reset => request.reset = event.on,
            Key::Prefix => request.prefix = event.value,
            Key::RecurseSubmodules => {
                request.recurse = Some(submodules::parse(event.on, event.value)?);
            }
            Key::Update => request.update = event.on,
            Key::ExcludePerDirectory if !request.update => {
                return Err(Failure::fatal("--exclude-per-directory is meaningless unless -u"));
            }
            Key::ExcludePerDirectory if event.value.is_some_and(|file| file != ".gitignore") => {
                return Err(Failure::fatal("--exclude-per-directory argument must be .gitignore"));
            }
            Key::IndexOnly => request.index_only = event.on,
            Key::DryRun => request.dry_run = event.on,
            Key::Quiet => request.quiet = event.on,
            Key::DebugUnpack if event.on => return Err(Failure::unsupported("option '--debug-unpack'")),
            Key::NoSparseCheckout => request.no_sparse_checkout = event.on,
            Key::ExcludePerDirectory | Key::DebugUnpack => {}
        }
    }
    if [request.merge, request.reset, request.prefix.is_some()].iter().filter(|&&on| on).count() > 1 {
        return Err(Failure::fatal("Which one? -m, --reset, or --prefix?"));
    }
    if request.prefix.as_ref().is_some_and(|prefix| prefix.starts_with(b"/")) {
        return Err(Failure::fatal("Invalid prefix, prefix cannot start with '/'"));
    }
    Ok(request)
}
