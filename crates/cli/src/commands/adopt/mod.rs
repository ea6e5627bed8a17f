//! `sapwood adopt`: accepts a worktree from another source (a cache, a copy, a reflink) as the one
//! that the index describes, so that the next status reads no file.
//!
//! Order: the lock; the index, or a new one from a tree if it is missing; the verification of every
//! file; the index with the new stat data. Nothing in the worktree is changed. Exit code: 0 if the
//! worktree matches the index, 1 if something differs or is missing.

use bstr::{BString, ByteSlice as _};
use engine::{
    checkout::{self, IndexOptions},
    status::adopt::{self, RacyPolicy, Report},
};
use repo::Repository;
use sapwood::index::{Flags, Index};

use crate::{
    commands::record::{Command, Group},
    session::{
        Session,
        hooks::Changed,
        index::{IndexTransaction, Recorded, Start},
        invocation::Invocation,
        settings::Settings,
    },
    term::{
        args::{Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
        files,
        progress::{self, Progress, Watch},
        text::{quote, relative::relative},
    },
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood adopt [-q | -v] [-n] [--from <tree-ish>]"],
    options: &[
        Opt::flag("-q, --quiet", "say nothing", field!(quiet)),
        Opt::flag("-v, --verbose", "name what differs or is missing", field!(verbose)),
        Opt::flag("-n, --dry-run", "verify, and leave the index as it is", field!(dry_run)),
        Opt::text("--from <tree-ish>", "make the index from a tree, where there is none", field!(from)),
    ],
    grammar: Grammar::Mixed,
};

/// The record of `adopt`.
pub(super) const COMMAND: Command = Command {
    name: "adopt",
    summary: "Record the stat data of a copied or restored worktree",
    about: "Compares a worktree that was copied, unpacked, or restored from a cache with the index, and records \
            the times and inodes of its files there, so that the next `status` reads no file. With `--from` it makes \
            the index first, if there is none. Nothing in the worktree changes.\n\n\
            The exit code is 1 if a file differs or is missing; `-v` names those files.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Command::BASE
};

#[derive(Default)]
struct Request {
    quiet: bool,
    verbose: bool,
    dry_run: bool,
    from: Option<BString>,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    if let Some(extra) = rest.first() {
        return Err(Failure::Fatal(text!("adopt takes no paths, and so not '", extra, "'")));
    }
    let repo = run.open()?;
    if repo.work_tree().is_none() {
        return Err(Failure::no_worktree());
    }
    let settings = Settings::read(&repo)?;
    let is_there = files::stat_followed(&repo.index_path()).is_ok_and(|found| found.is_some());
    match (&request.from, is_there) {
        (Some(_), true) => {
            return Err(Failure::fatal(
                "there is an index already: what is staged in it would be lost by --from",
            ));
        }
        (None, false) => {
            return Err(Failure::fatal("there is no index: name a tree to make it from, as in --from HEAD"));
        }
        _ => {}
    }
    let mut transaction = Session { invocation: run, repository: &repo, settings: &settings }
        .start(Start::Full { dry_run: request.dry_run })?;
    transaction.policy.changed = Changed::IndexAlone;
    if let Some(tree) = &request.from {
        make(&repo, &mut transaction, tree)?;
    }
    // The monitor's data describe another worktree.
    transaction.index.fsmonitor = None;
    transaction.index.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(Flags::FSMONITOR_VALID));
    let racy_policy = if request.dry_run { RacyPolicy::DoNotWait } else { RacyPolicy::Wait };
    let mut index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
    let shows = progress::has_terminal() && !request.quiet;
    let watch = Watch::start(Progress::new("Verifying files", shows, settings.progress_delay), index.len());
    let interrupt = run.interrupt.flag();
    let meter = watch.meter();
    let report = adopt::adopt(&repo, transaction.worktree(), &mut index, racy_policy, interrupt, meter)?;
    transaction.index = index;
    run.interrupt.check()?;
    watch.finish();
    // A file was read because its entry was racy or comes from the tree. Once the index is newer
    // than the files, they need not be read again.
    if !request.dry_run && (report.read > 0 || request.from.is_some()) {
        transaction.finish(Recorded::Yes)?;
    }
    print_report(&request, &repo, &settings, &report);
    Ok(u8::from(!report.differ.is_empty() || !report.missing.is_empty()))
}

/// Creates an index from `tree`, with the skip-worktree flags of a sparse worktree.
fn make(repo: &Repository, transaction: &mut IndexTransaction<'_>, tree: &BString) -> Result<(), Failure> {
    let named = repo.rev_parse(tree.as_bstr()).and_then(|oid| repo.tree_of(oid));
    let tree = named.map_err(|_| Failure::Fatal(text!("Not a valid object name ", tree)))?;
    let patterns = transaction.patterns()?;
    let options = IndexOptions { tree, pathspecs: None, intent_to_add: false, sparse: patterns.as_deref() };
    let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
    transaction.index = checkout::plan_index(repo, index, &options)?.index;
    Ok(())
}

fn print_report(request: &Request, repo: &Repository, settings: &Settings, report: &Report) {
    if request.quiet {
        return;
    }
    if request.verbose {
        let name =
            |path: &BString| quote(relative(path.as_bstr(), repo.prefix()).as_bstr(), settings.quote_path);
        report.differ.iter().for_each(|path| console::out(text!("differs: ", name(path))));
        report.missing.iter().for_each(|path| console::out(text!("missing: ", name(path))));
    }
    let Report { verified, adopted, .. } = report;
    let (differ, missing) = (report.differ.len(), report.missing.len());
    console::out(format!("verified: {verified}, adopted: {adopted}, differ: {differ}, missing: {missing}"));
}
