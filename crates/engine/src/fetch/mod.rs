//! Fetches from one remote: objects, then refs and FETCH_HEAD.
//!
//! Promise: a ref changes only after every object that it needs exists locally, is checked, and is
//! durable. A fetch that fails before that leaves all refs unchanged. Objects that have arrived
//! stay.
//!
//! Order: list the remote's refs and map them to local refs (`map.rs`); prune stale refs; transfer
//! missing objects (`transfer.rs`); decide each ref's update (`update.rs`); apply all edits in one
//! transaction; write FETCH_HEAD. Design: docs/design/fetch.md.
//!
//! [`promised()`] fetches single objects of a partial clone. [`negotiate_only()`] finds common
//! commits without fetching.

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
    pack_indexing::Meter,
    wire::{ConnectOptions, Limits},
};
use store::refs::Stage;

pub use negotiate_only::negotiate_only;
pub use promised::promised;
pub use run::run;
pub(crate) use transfer::promised_refs;
pub use transfer::shown_url;

use self::{map::Mapping, refspec::Refspec, update::Update};

/// A hook. Its arguments are the stage and the lines of its standard input. It returns false to
/// veto the stage.
pub type Hook<'a> = dyn Fn(Stage, &[u8]) -> bool + 'a;

/// The inputs that all steps of a fetch share.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// The options for writing refs.
    pub refs: &'a store::refs::Options,
    /// The sync policy.
    pub fsync: &'a store::Fsync,
    /// The options for locking other files.
    pub locks: &'a store::LockOptions,
    /// Raised to stop the fetch.
    pub interrupt: &'a AtomicBool,
    /// Counts the objects that arrive.
    pub meter: &'a Meter,
    /// The hook `reference-transaction`. It returns false to abort the transaction.
    pub hook: Option<&'a Hook<'a>>,
    /// The number of threads that check the received objects.
    pub workers: crate::crew::Workers,
    /// Receives messages, from any thread.
    pub events: &'a (dyn Fn(Event<'_>) + Sync),
}

/// An event during a fetch.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// The refs are mapped. Lines of the table may follow.
    Mapped(&'a [Mapping]),
    /// Stale refs were pruned, or would be in a dry run.
    Pruned(&'a [Update]),
    /// Symbolic refs that are dangling after the prune: the symbolic ref and its target.
    Dangling(&'a [(BString, BString)]),
    /// Text that the server sent for the user.
    Remote(&'a [u8]),
    /// The pack has been received.
    Received,
    /// `warning: `
    Warning(&'a BStr),
    /// `error: `
    Error(&'a BStr),
    /// The remote's HEAD refers to another branch than the local record does
    /// (`remote.<name>.followRemoteHEAD = warn`).
    #[allow(missing_docs)]
    OtherHead { remote: &'a BStr, theirs: &'a BStr, ours: OurHead<'a> },
}

/// The local record of a remote's HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OurHead<'a> {
    /// It refers to this branch.
    Branch(&'a BStr),
    /// It is not a symbolic ref, and has this value.
    Detached(ObjectId),
}

/// The treatment of FETCH_HEAD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchHeadPolicy {
    /// It is replaced by the refs of this fetch.
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
    /// `--depth` and similar options, `--filter`.
    pub limits: Limits,
    /// `--negotiation-restrict`: the tips to negotiate with.
    pub negotiation_tips: Option<Vec<ObjectId>>,
    /// `--negotiation-include`: commits that are always sent as haves.
    pub negotiation_include: Vec<ObjectId>,
    /// The reflog message, without the action.
    pub action: BString,
    /// The options for connections.
    pub connect: ConnectOptions,
    /// Request progress from the server.
    pub progress: bool,
    /// Suppress messages about the remote's HEAD.
    pub quiet: bool,
    /// Leave a partial pack in its temporary file.
    pub keeps_partial: bool,
}

/// The result of a fetch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The URL as shown to users.
    pub url: BString,
    /// The mapped refs of the remote. With `--set-upstream` they determine the upstream.
    pub mapped: Vec<Mapping>,
    /// The lines of the table, in order.
    pub updates: Vec<Update>,
    /// True if a step failed that did not stop the fetch: exit code 1.
    pub has_failures: bool,
    /// True if a step failed before the transaction. Git then does not align summaries, and records
    /// neither the upstream nor the remote's HEAD.
    pub failed_early: bool,
    /// The failed transaction of `--atomic`.
    pub failed_transaction: Option<FailedTransaction>,
    /// True if objects were received.
    pub has_new_objects: bool,
}

/// A failed transaction, which changed nothing. It is reported after the table.
#[derive(Clone, Debug)]
pub struct FailedTransaction {
    /// Git's message.
    pub message: String,
    /// Git's exit code.
    pub code: u8,
}

/// The reason why a fetch failed. Messages are those of Git, where Git has one.
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
    StorePack(#[from] crate::pack_indexing::incoming::Error),
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
    /// A local object could not be copied into a promisor pack.
    #[error("could not pack {0}: {1}")]
    Local(ObjectId, repo::pack_indexing::Error),
    /// The requested objects that the server does not advertise. The message has a line for each of
    /// them.
    #[error("{}", unadvertised(.0))]
    Unadvertised(Vec<ObjectId>),
    #[error("could not read '{}': {}", .path.display(), sys::reason(.source))]
    Bundle { path: std::path::PathBuf, source: std::io::Error },
    /// The prerequisites of a bundle that do not exist. The message has a line for each of them.
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
    /// The server reported an error within the pack. The error has been printed.
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

/// Git leaves room for a comment after each name, but does not print the bundle's comment.
fn prerequisites(missing: &[ObjectId]) -> String {
    missing.iter().map(|oid| format!("\nerror: {oid} ")).collect()
}
