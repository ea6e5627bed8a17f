//! `sapwood sparse-checkout`: selects the directories or files that are in the worktree.
//! See [`sapwood::sparse_checkout`].

mod clean;
mod modify;
mod options;
mod rules;

use bstr::BString;
use engine::guard::Guard;
use sapwood::{Dir, sparse_checkout::Selection};

use self::options::{Action, Request};
use crate::{
    commands::{
        obstacles::{GENERAL, NO_ATTRIBUTES_IN_PATHSPECS, WRITING},
        record::{Command, Group},
    },
    session::{Session, invocation::Invocation, settings::Settings},
    term::failure::Failure,
};

/// The record of `sparse-checkout`.
pub(super) const COMMAND: Command = Command {
    name: "sparse-checkout",
    summary: "Reduce your working tree to a subset of tracked files",
    about: "Keeps only some of the tracked files in the worktree: the directories of a cone, or the paths \
            that match patterns. Files are written and removed in parallel. Sparse indexes are read and \
            written.",
    group: Group::Worktrees,
    syntax: &options::USAGE,
    subcommands: SUBCOMMANDS,
    ..Command::BASE
};

/// The values that the records of all subcommands share.
const SUBCOMMAND: Command = Command {
    group: Group::Worktrees,
    settings: &[GENERAL],
    line: &[NO_ATTRIBUTES_IN_PATHSPECS],
    checks: &[WRITING],
    ..Command::BASE
};

/// Returns the record of a subcommand.
macro_rules! subcommand {
    ($name:literal, $summary:literal, $table:ident, $action:ident) => {
        SUBCOMMAND.named($name, $summary, &options::$table, |run, args| perform(run, Action::$action, args))
    };
}

const SUBCOMMANDS: &[Command] = &[
    subcommand!("sparse-checkout list", "List the patterns of the sparse checkout", LIST, List),
    subcommand!("sparse-checkout init", "Start a sparse checkout with the files at the root", INIT, Init),
    subcommand!("sparse-checkout set", "Replace the patterns of the sparse checkout", SET, Set),
    subcommand!("sparse-checkout add", "Add patterns to the sparse checkout", ADD, Add),
    subcommand!("sparse-checkout reapply", "Apply the patterns again", REAPPLY, Reapply),
    subcommand!("sparse-checkout clean", "Remove directories outside of the sparse checkout", CLEAN, Clean),
    subcommand!("sparse-checkout disable", "Fill the working tree again", DISABLE, Disable),
    subcommand!(
        "sparse-checkout check-rules",
        "Check which paths match the patterns",
        CHECK_RULES,
        CheckRules
    ),
];

/// Runs a subcommand. Returns its exit code.
fn perform(run: &Invocation, action: Action, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let patterns = action.table().parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    // Check this before anything is written.
    let is_there = |top: &std::path::Path| Dir::open(top).is_ok();
    if action != Action::CheckRules && !repo.work_tree().is_some_and(is_there) {
        return Err(Failure::no_worktree());
    }
    if !matches!(action, Action::CheckRules | Action::List)
        && let Some(top) = repo.work_tree()
    {
        Guard::of(&repo, top)?;
    }
    let settings = Settings::read(&repo)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let mut selection = Selection::of(session.context(run))?;
    selection.original_cwd = run.original_cwd(&repo);
    let quotes = settings.quote_path;
    match action {
        Action::List => rules::list(&selection, quotes),
        Action::CheckRules => rules::check(run, &repo, selection, &request, quotes),
        Action::Init => modify::init(selection, &request),
        Action::Set => modify::set(run, selection, &request, &patterns),
        Action::Add => modify::add(run, selection, &request, &patterns),
        Action::Reapply => modify::reapply(selection, &request),
        Action::Disable => modify::disable(selection),
        Action::Clean => clean::run(&repo, &selection, &request),
    }
}
