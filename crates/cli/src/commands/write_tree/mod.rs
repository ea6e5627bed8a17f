//! `sapwood write-tree`: writes the index as trees. See [`sapwood::write_tree`].

use bstr::BString;
use sapwood::{
    TreeError,
    write_tree::{self, Request},
};

use crate::{
    commands::{
        obstacles::{GENERAL, WRITING},
        record::{Command, Group},
    },
    session::{Session, index::Start, invocation::Invocation, new_commit, settings::Settings},
    term::{
        args::{Both, Grammar, On, Opt, Set, Table},
        console,
        failure::Failure,
    },
};

/// The record of `write-tree`.
pub(super) const COMMAND: Command = Command {
    name: "write-tree",
    summary: "Create a tree object from the current index",
    about: "Writes the trees of the index and prints the name of the topmost one. Only trees of directories \
            that changed since the last time are built.",
    group: Group::Scripts,
    syntax: &TABLE,
    settings: &[GENERAL],
    checks: &[WRITING],
    run,
    ..Command::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood write-tree [--missing-ok] [--prefix=<prefix>/]"],
    options: &[
        Opt::flag("--missing-ok", "allow missing objects", field!(allow_missing)).native(Both),
        Opt::text("--prefix <prefix>/", "write tree object for a subdirectory <prefix>", field!(prefix))
            .native(Both),
        Opt::flag("--ignore-cache-tree", "only useful for debugging", field!(ignore_cached))
            .hidden()
            .only()
            .native(On),
    ],
    grammar: Grammar::Mixed,
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let transaction = session.start(Start::IndexOnly { dry_run: false })?;
    let tree = write_tree::write(session.context(run), &request, transaction);
    let tree = tree.map_err(|error| match error {
        sapwood::Error::Trees(TreeError::Write(error)) => {
            new_commit::report_tree_error(&error);
            Failure::fatal("git-write-tree: error building trees")
        }
        error => error.into(),
    })?;
    console::out(tree.to_string());
    Ok(0)
}
