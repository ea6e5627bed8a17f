//! Fetches from one remote: objects, then refs and FETCH_HEAD.
//!
//! Promise: a ref changes only after every object that it needs is here, checked and durable. A
//! fetch that fails before that leaves all refs as they were; objects that arrived stay.
//!
//! Order: the server's refs are listed and mapped to local refs (`map.rs`); stale refs are removed;
//! missing objects arrive (`transfer.rs`); each ref is judged (`update.rs`); all edits are one
//! transaction; FETCH_HEAD is written. Design: docs/design/fetch.md.
//!
//! [`promised()`] fetches single objects of a partial clone. [`negotiate_only()`] asks the server
//! which commits it has.

mod bundle;
pub(crate) mod bundle_file;
pub mod connected;
pub mod fetch_head;
mod local_links;
pub mod map;
pub mod negotiate;
mod negotiate_only;
mod promised;
pub mod refspec;
pub mod remote;
mod run;
pub mod shallow;
pub mod submodules;
mod transfer;
pub mod update;

use std::sync::atomic::AtomicBool;

use bstr::{BStr, BString};
use format::ObjectId;
use repo::{
    Repository,
    indexing::Meter,
    wire::{ConnectOptions, Limits},
};
use store::refs::Stage;

pub use negotiate_only::negotiate_only;
pub use promised::promised;
pub use run::run;
pub use transfer::shown_url;

use self::{map::Mapping, refspec::Refspec, update::Update};

/// A hook: gets the stage and the lines of its standard input.
pub type Hook<'a> = dyn Fn(Stage, &[u8]) -> bool + 'a;

/// The parts that a fetch works with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// How refs are written.
    pub refs: &'a store::refs::Options,
    /// The sync policy.
    pub fsync: &'a store::Fsync,
    /// How other files are locked.
    pub locks: &'a store::LockOptions,
    /// Set to stop.
    pub interrupt: &'a AtomicBool,
    /// Counts arriving objects.
    pub meter: &'a Meter,
    /// The hook `reference-transaction`. Returns false to end the transaction.
    pub hook: Option<&'a Hook<'a>>,
    /// The number of threads that check what arrived.
    pub workers: crate::crew::Workers,
    /// Receives messages, from any thread.
    pub events: &'a (dyn Fn(Event<'_>) + Sync),
}

/// A message of a fetch.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The refs are mapped; lines of the table may follow.
    Mapped(&'a [Mapping]),
    /// Refs were removed, or would be.
    Pruned(&'a [Update]),
    /// Symbolic refs that lead nowhere after refs were removed: the symbolic ref and its target.
    Dangling(&'a [(BString, BString)]),
    /// Text of the server.
    Remote(&'a [u8]),
    /// The pack is here.
    Received,
    /// `warning: `
    Warning(&'a BStr),
    /// `error: `
    Error(&'a BStr),
    /// HEAD of the remote names another branch than here (`remote.<name>.followRemoteHEAD = warn`).
    #[allow(missing_docs)]
    OtherHead { remote: &'a BStr, theirs: &'a BStr, ours: OurHead<'a> },
}

/// The local record of a remote's HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OurHead<'a> {
    /// It names this branch.
    Branch(&'a BStr),
    /// It is no symbolic ref.
    Detached(ObjectId),
}

/// The treatment of FETCH_HEAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchHeadPolicy {
    /// It gets the refs of this fetch.
    #[default]
    Replace,
    /// `--append`
    Append,
    /// `--no-write-fetch-head`
    Leave,
}

/// The options of a fetch.
#[derive(Clone, Default)]
pub struct Options {
    /// The refspecs of the command line.
    pub refspecs: Vec<Refspec>,
    /// `--refmap`, if it was given.
    pub refmap: Option<Vec<Refspec>>,
    /// `--tags`, `--no-tags`; `None` for `remote.<name>.tagOpt`.
    pub tags: Option<map::Tags>,
    /// `--prune`
    pub prune: bool,
    /// `--prefetch`
    pub prefetch: bool,
    /// `--force`
    pub force: bool,
    /// `--atomic`
    pub atomic: bool,
    /// `--dry-run`
    pub dry_run: bool,
    /// `--keep`
    pub keep: bool,
    /// `--update-head-ok`
    pub update_head_ok: bool,
    /// `--update-shallow`
    pub update_shallow: bool,
    /// `--refetch`
    pub refetch: bool,
    /// `--no-show-forced-updates`
    pub skips_forced_check: bool,
    /// `advice.fetchShowForcedUpdates`
    pub advises_forced_check: bool,
    /// `--append`, `--no-write-fetch-head`
    pub fetch_head: FetchHeadPolicy,
    /// `--depth` and its kin, `--filter`.
    pub limits: Limits,
    /// `--negotiation-restrict`: the tips to negotiate with.
    pub negotiation_tips: Option<Vec<ObjectId>>,
    /// `--negotiation-include`: commits that are always offered.
    pub negotiation_include: Vec<ObjectId>,
    /// The message of reflogs, without the action.
    pub action: BString,
    /// How to connect.
    pub connect: ConnectOptions,
    /// Ask the server for progress.
    pub progress: bool,
    /// Say nothing about HEAD of the remote.
    pub quiet: bool,
}

/// The result of a fetch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The address as users see it.
    pub url: BString,
    /// The refs of the server, as they were mapped. With `--set-upstream` they tell the upstream.
    pub mapped: Vec<Mapping>,
    /// The lines of the table, in order.
    pub updates: Vec<Update>,
    /// Something failed that did not stop the fetch: exit code 1.
    pub has_failures: bool,
    /// Something failed before the transaction. Git then aligns no summaries, and records neither
    /// the upstream nor the remote's HEAD.
    pub failed_early: bool,
    /// The transaction of `--atomic` failed.
    pub failed_transaction: Option<FailedTransaction>,
    /// Objects arrived.
    pub has_new_objects: bool,
}

/// A transaction that changed nothing. It is reported after the table.
#[derive(Clone, Debug)]
pub struct FailedTransaction {
    /// Git's message.
    pub message: String,
    /// The exit code of Git.
    pub code: u8,
}

/// The reason why a fetch failed. Messages are Git's, where Git has them.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Wire(#[from] repo::wire::Error),
    #[error(transparent)]
    Map(#[from] map::Error),
    #[error(transparent)]
    Remote(#[from] remote::Error),
    #[error(transparent)]
    Connected(#[from] connected::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Objects(#[from] repo::objects::Error),
    #[error(transparent)]
    Arrival(#[from] crate::indexing::arrive::Error),
    #[error(transparent)]
    Shallow(#[from] shallow::Error),
    #[error(transparent)]
    FetchHead(#[from] fetch_head::Error),
    #[error(transparent)]
    Refs(#[from] store::refs::Error),
    #[error("refusing to fetch into branch '{branch}' checked out at '{}'", .worktree.display())]
    CheckedOut { branch: BString, worktree: std::path::PathBuf },
    #[error("object {0} not found")]
    NoObject(ObjectId),
    /// A local object cannot become promised.
    #[error("could not pack {0}: {1}")]
    Local(ObjectId, repo::indexing::Error),
    /// Each further object is in a message of its own.
    #[error("{}", unadvertised(.0))]
    Unadvertised(Vec<ObjectId>),
    #[error("could not read '{}': {}", .path.display(), sys::reason(.source))]
    Bundle { path: std::path::PathBuf, source: std::io::Error },
    /// A bundle needs commits that are not here. Each is in a message of its own.
    #[error("Repository lacks these prerequisite commits:{}", prerequisites(.0))]
    Prerequisites(Vec<ObjectId>),
    #[error(
        "some prerequisite commits exist in the object store, but are not connected to the repository's \
         history"
    )]
    Unconnected,
    #[error("--negotiate-only requires protocol v2")]
    NegotiationVersion,
    #[error("server does not support wait-for-done")]
    NoWaitForDone,
    #[error("mismatched algorithms: client {ours}; server {theirs}")]
    Hash { ours: &'static str, theirs: &'static str },
    /// The server reported an error in the middle of the pack. It has been printed.
    #[error("early EOF\nfatal: fetch-pack: invalid index-pack output")]
    Aborted,
    #[error("{0} did not send all necessary objects")]
    Incomplete(BString),
    #[error("interrupted")]
    Interrupted,
}

fn unadvertised(objects: &[ObjectId]) -> String {
    let line = |oid: &ObjectId| format!("Server does not allow request for unadvertised object {oid}");
    objects.iter().map(line).collect::<Vec<_>>().join("\nerror: ")
}

/// Git leaves room for a comment, and drops that of the bundle.
fn prerequisites(missing: &[ObjectId]) -> String {
    missing.iter().map(|oid| format!("\nerror: {oid} ")).collect()
}
