//! `sapwood add`: worktree files into the index.
//!
//! Order: the lock; the index; one look at the worktree, for tracked and untracked files; the
//! pathspecs that match nothing; the content, recorded in parallel; the objects, published; the
//! index. A failure before that changes nothing, and publishes no object.

mod check;
mod look;
mod options;
mod refresh;
mod run;

use bstr::BString;

use self::{
    options::{Request, TABLE},
    run::Adding,
};
use crate::{
    commands::{
        obstacles::{GENERAL, WRITING, attributes_of_pathspecs},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group},
    },
    session::{
        Session, advice,
        apply::{Start, Transaction},
        invocation::Invocation,
        settings::Settings,
    },
    term::{console, failure::Failure},
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
    line: &[attributes_of_pathspecs],
    checks: &[WRITING, FOLDING],
    run,
    ..Command::BASE
};

/// Names that differ only in case are Git's matter.
const FOLDING: &[Check] = &[folds_case];

fn folds_case(candidate: &Candidate<'_>) -> Vec<Reason> {
    let folds = candidate.repo().config_bool("core.ignoreCase").is_ok_and(|folds| folds == Some(true));
    folds.then(|| Reason::repository("core.ignoreCase is set")).into_iter().collect()
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let plan = request.plan(&repo)?;
    let settings = Settings::read(run, &repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let worktree = sys::Dir::open(root).map_err(Failure::cannot_open(root))?;
    let mut transaction = Transaction::start(session, Start::Full { dry_run: false })?;
    let pathspecs = paths::parse(run, &repo, &rest)?;
    check::must_not_be_behind_links(&worktree, &pathspecs)?;
    let pathspecs = request.pathspec_file.or(pathspecs, None, run, &repo)?;
    check::must_not_be_behind_links(&worktree, &pathspecs)?;
    if plan.needs_pathspecs && pathspecs.is_empty() {
        console::note("Nothing specified, nothing added.");
        advice::advise(session, "addEmptyPathspec", "Maybe you wanted to say 'git add .'?")?;
        return Ok(0);
    }
    check::submodules(&repo, &transaction.index, &pathspecs)?;
    let patterns = transaction.patterns()?;
    let adding =
        Adding { session, worktree: &worktree, request: &request, plan, pathspecs, patterns, code: 0 };
    adding.run(&mut transaction)
}
