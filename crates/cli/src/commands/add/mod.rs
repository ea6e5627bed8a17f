//! `sapwood add`: worktree files into the index.
//!
//! Order: the lock; the index; one scan of the worktree, for tracked and untracked files; the
//! pathspecs that match nothing; the content, recorded in parallel; publishing the objects; the
//! index. A failure before that changes nothing, and publishes no objects except those of new
//! attribute files, which the conversion of later files may need.

mod options;

use std::os::unix::ffi::OsStrExt as _;

use bstr::BString;
use repo::attributes::{Attributes, Source};
use repo::keys;
use sapwood::{
    Dir,
    add::{self, ChangeKind, ChangedEntry, check::must_not_be_behind_links},
    index::Index,
};

use self::options::{Request, TABLE};
use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, WRITING},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group},
        rules::{Variable, When},
    },
    session::{Session, advice, index::Start, invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `add`.
pub(super) const COMMAND: Command = Command {
    name: "add",
    summary: "Add file contents to the index",
    about: "Records the content of files in the index, for the next commit. Files are read, converted and \
            compressed in parallel; their objects become visible together, and reach the disk before the index \
            does. `-p`, `-i` and `-e` are left to Git.",
    group: Group::Changes,
    syntax: &TABLE,
    settings: &[GENERAL],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    variables: &[TRACES],
    checks: &[WRITING, FOLDING],
    run,
    ..Command::BASE
};

/// Names that differ only in case, and warnings about attribute files, are left to Git.
const FOLDING: &[Check] = &[
    Check::new("`core.ignoreCase`", folds_case),
    Check::new("an attribute file at the top of the worktree with malformed lines", malformed_attributes),
];

/// Git traces how it checks a text encoding.
const TRACES: &[Variable] = &[("GIT_TRACE", When::True)];

fn folds_case(candidate: &Candidate<'_>) -> Vec<Reason> {
    let folds = candidate.repo().config(&keys::core::IGNORE_CASE).unwrap_or(false);
    folds.then(|| Reason::repository("core.ignoreCase is set")).into_iter().collect()
}

/// Git warns of malformed lines in the attribute files that it reads; sapwood reads such files more
/// often. Only the files at the root of the worktree are checked here.
fn malformed_attributes(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    if repo.work_tree().is_none() {
        return Vec::new();
    }
    let (index, info) = (Index::empty(repo.hash()), repo.display_common_file("info/attributes"));
    let attributes = Attributes::new(repo, &index, Source::Worktree, &[], info.as_os_str().as_bytes().into());
    let Ok(mut attributes) = attributes else { return Vec::new() };
    attributes.look_up("file".into());
    if attributes.take_messages().is_empty() {
        Vec::new()
    } else {
        vec![Reason::repository("an attribute file has malformed lines")]
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let plan = request.plan(&repo)?;
    let settings = Settings::read(&repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let worktree = Dir::open(root).map_err(Failure::cannot_open(root))?;
    let transaction = session.start(Start::Full { dry_run: false })?;
    let pathspecs = paths::parse(run, &repo, &rest)?;
    must_not_be_behind_links(&worktree, &pathspecs)?;
    let pathspecs = request.pathspec_file.or(pathspecs, None, run, &repo)?;
    if plan.needs_pathspecs && pathspecs.is_empty() {
        console::eprint_line("Nothing specified, nothing added.");
        advice::advise(session, keys::advice::ADD_EMPTY_PATHSPEC, "Maybe you wanted to say 'git add .'?")?;
        return Ok(0);
    }
    let request = add::Request { pathspecs, ..plan.request };
    let verbose = request.options.verbose;
    let examined = add::examine(session.context(run), transaction, request)
        .map_err(|error| Failure::from(error).with_code(128))?;
    list(&examined.differing, verbose);
    let report = examined.stage()?;
    Ok(if report.has_wrong_modes {
        // Git's exit code is the -1 of its last error.
        u8::MAX
    } else {
        u8::from(!report.is_complete())
    })
}

/// Prints the entries that differ from their files, for `--refresh`.
fn list(differing: &[ChangedEntry], verbose: bool) {
    if verbose && !differing.is_empty() {
        console::out("Unstaged changes after refreshing the index:");
    }
    for ChangedEntry { kind, path } in differing {
        if verbose {
            console::out(text!([kind.letter()], "\t", path));
        } else if *kind == ChangeKind::Unmerged {
            console::out(text!(path, ": needs merge"));
        }
    }
}
