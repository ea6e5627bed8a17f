//! `sapwood write-tree`: writes the index as trees.
//!
//! Order: the lock of the index, the index, the missing trees, the index with its cache-tree. As in
//! Git, it is not an error if the index cannot be written: only its cache-tree would change.

use bstr::{BString, ByteSlice as _};
use engine::add::{self, Missing};

use crate::{
    commands::{
        obstacles::{GENERAL, WRITING},
        record::{Command, Group},
    },
    session::{
        Session,
        index::{Recorded, Start},
        invocation::Invocation,
        new_commit,
        settings::Settings,
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Table,
        },
        console::{self, text},
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
        Opt::flag("--missing-ok", "allow missing objects", |request: &mut Request| &mut request.missing_ok)
            .native(Both),
        Opt::text(
            "--prefix <prefix>/",
            "write tree object for a subdirectory <prefix>",
            |request: &mut Request| &mut request.prefix,
        )
        .native(Both),
        Opt::flag("--ignore-cache-tree", "only useful for debugging", |request: &mut Request| {
            &mut request.ignores_cache
        })
        .hidden()
        .only()
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    missing_ok: bool,
    prefix: Option<BString>,
    ignores_cache: bool,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    TABLE.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_recording();
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let mut transaction = session.start(Start::IndexOnly { dry_run: false })?;
    let index = &mut transaction.index;
    if request.ignores_cache {
        index.cache_tree = None;
    }
    let before = index.cache_tree.clone();
    let missing = if request.missing_ok { Missing::Allowed } else { Missing::Refused };
    let objects = store::objects::ObjectTransaction::new(settings.objects(&repo));
    let trees = add::write_tree(index, &repo, &objects, missing).map_err(|error| {
        new_commit::report_tree_error(&error);
        Failure::fatal("git-write-tree: error building trees")
    })?;
    let named = match &request.prefix {
        None => trees.root,
        Some(prefix) => trees
            .of_directory(index, prefix.as_bstr())
            .ok_or_else(|| Failure::Fatal(text!("git-write-tree: prefix ", prefix, " not found")))?,
    };
    let is_new = index.cache_tree != before;
    objects.publish()?;
    if is_new && let Err(Failure::Signal(signal)) = transaction.finish(Recorded::Yes).map_err(Failure::from) {
        return Err(Failure::Signal(signal));
    }
    console::out(named.to_string());
    Ok(0)
}
