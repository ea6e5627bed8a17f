//! `sapwood read-tree`: trees into the index, as they are or merged with it, and on wish into the worktree.
//!
//! Order, which is that of Git's errors: options; the index's lock; the index; the trees; what of the options goes
//! together; then plan, act and record. A refusal leaves everything as it is.

use bstr::BString;

use crate::{
    session::{
        invocation::Invocation,
        submodules::{
            self,
            read_tree::{Request, carry_out},
        },
    },
    term::{
        args::{DashDash, Event, Opt, Stop, Survey, Table},
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
        Opt::new(Key::IndexOutput, "--index-output <file>", "write resulting index to <file>").only(),
        Opt::new(Key::Empty, "--empty", "only empty the index"),
        Opt::new(Key::Verbose, "-v, --verbose", "be verbose"),
        Opt::new(Key::Merge, "-m", "perform a merge in addition to a read").only(),
        Opt::new(Key::Trivial, "--trivial", "3-way merge if no file level merging required"),
        Opt::new(Key::Aggressive, "--aggressive", "3-way merge in presence of adds and removes"),
        Opt::new(Key::Reset, "--reset", "same as -m, but discard unmerged entries"),
        Opt::new(
            Key::Prefix,
            "--prefix <subdirectory>/",
            "read the tree into the index under <subdirectory>/",
        )
        .only(),
        Opt::new(Key::Update, "-u", "update working tree with merge result").only(),
        Opt::new(
            Key::ExcludePerDirectory,
            "--exclude-per-directory <gitignore>",
            "allow explicitly ignored files to be overwritten",
        )
        .only(),
        Opt::new(Key::IndexOnly, "-i", "don't check the working tree after merging").only(),
        Opt::new(Key::DryRun, "-n, --dry-run", "don't update the index or the work tree"),
        Opt::new(Key::NoSparseCheckout, "--no-sparse-checkout", "skip applying sparse checkout filter"),
        Opt::new(Key::DebugUnpack, "--debug-unpack", "debug unpack-trees"),
        Opt::new(
            Key::RecurseSubmodules,
            "--recurse-submodules[=<checkout>]",
            "control recursive updating of submodules",
        ),
        Opt::new(Key::Quiet, "-q, --quiet", "suppress feedback messages"),
    ],
};

/// The command line, without a repository.
pub(crate) fn survey(args: &[BString]) -> Result<Survey, Stop> {
    TABLE.survey(args, DashDash::Drop)
}

/// Runs the command. Returns its exit code.
pub(crate) fn run(run: &Invocation) -> Result<u8, Failure> {
    let parsed = TABLE.parse(&run.args, DashDash::Drop)?;
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
