//! `sapwood rm`: removes files from the index and from the worktree.
//!
//! Order: the lock; the index; stat data of the selected files; the selected paths, and pathspecs
//! that match nothing; the check that no content is lost; the files; the index. Nothing is removed
//! before all checks have passed, and each file is checked once more before its removal.

use bstr::BString;
use sapwood::rm;

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, WRITING},
        paths,
        pathspec_file::{PathspecFile, file_nul, from_file},
        record::{Command, Group},
    },
    session::{Session, index::Start, invocation::Invocation, settings::Settings},
    term::{
        args::{Both, Grammar, On, Opt, Set, Table},
        console::{Listing, text},
        failure::Failure,
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood rm [-f | --force] [-n] [-r] [--cached] [--ignore-unmatch]\n          \
         [--quiet] [--pathspec-from-file=<file> [--pathspec-file-nul]]\n          \
         [--] [<pathspec>...]"],
    options: &[
        Opt::flag("-n, --dry-run", "dry run", field!(dry_run)).native(Both),
        Opt::flag("-q, --quiet", "do not list removed files", field!(quiet)).native(Both),
        Opt::flag("--cached", "only remove from the index", field!(cached)).native(Both),
        Opt::flag("-f, --force", "override the up-to-date check", field!(force)).native(Both),
        Opt::flag("-r", "allow recursive removal", field!(recursive)).native(On),
        Opt::flag(
            "--ignore-unmatch",
            "exit with a zero status even if nothing matched",
            field!(ignore_unmatch),
        )
        .native(Both),
        Opt::flag("--sparse", "allow updating entries outside of the sparse-checkout cone", field!(sparse))
            .native(Both),
        from_file(field!(pathspec_file.files)).native(Both),
        file_nul(field!(pathspec_file.nul)),
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
    settings: &[GENERAL],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    checks: &[WRITING],
    late: &["an index without a worktree", "directories of a sparse index", "submodules"],
    run,
    ..Command::BASE
};

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
    if repo.work_tree().is_none() {
        return Err(if request.cached {
            Failure::Unserved("an index without a worktree")
        } else {
            Failure::no_worktree()
        });
    }
    let settings = Settings::read(&repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let transaction = session.start(Start::Full { dry_run: false })?;
    let library = rm::Request {
        pathspecs,
        cached: request.cached,
        force: request.force,
        recursive: request.recursive,
        ignore_unmatch: request.ignore_unmatch,
        sparse: request.sparse,
    };
    let examined = rm::examine(session.context(run), transaction, library)?;
    let mut listing = Listing::default();
    for path in examined.paths().iter().filter(|_| !request.quiet) {
        listing.buffer().extend_from_slice(&text!("rm '", path, "'\n"));
        listing.flush_if_full()?;
    }
    // If the reader has closed the pipe, the command ends here, before anything is removed.
    listing.write("standard output")?;
    if request.dry_run && !examined.paths().is_empty() {
        return Ok(0);
    }
    let report = examined.remove()?;
    Ok(u8::from(report.has_refusals || !report.kept.is_empty()))
}
