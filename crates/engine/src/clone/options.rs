//! The options of a clone, its events, and the commands it leaves to Git.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, BString, ByteSlice};
use format::{ObjectId, config::Edit};
use repo::Repository;

use super::{Error, Filter, settings};
use crate::{checkout::Workers, crew::Meter};

/// `--reference` and `--reference-if-able`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reference {
    pub repository: BString,
    /// True if an unusable repository is an error.
    pub required: bool,
}

/// See [`repo::wire::Tracer`].
#[derive(Clone)]
pub struct Tracer(pub Arc<repo::wire::Tracer>);

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tracer")
    }
}

/// A remote for bases, from which a clone takes a commit with its trees and contents before it asks
/// the server for what is newer.
pub trait Seed {
    /// Returns the commit with whose base the clone begins. `tip` is the commit of the new HEAD and
    /// `branch` its full name, if it is on one. `None` means an ordinary clone; the reason was
    /// said.
    fn find(&self, branch: Option<&BStr>, tip: &ObjectId) -> Result<Option<ObjectId>, Unseeded>;

    /// Brings the base of `commit` into the new repository, which is a partial clone.
    fn bring(&self, repo: &Repository, commit: &ObjectId) -> Result<Brought, Unseeded>;
}

/// The outcome of [`Seed::bring`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// The base came.
    Base,
    /// It did not, and the clone goes on without it. The reason was said.
    Nothing,
}

/// A base that did not come. The [`Seed`] knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseeded;

/// The caller's part in a clone.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// Is told of everything that Git would print.
    pub events: &'a (dyn Fn(Event<'_>) + Sync),
    /// Runs another Git command in the new repository. Returns true if it succeeded.
    pub run_helper: &'a dyn Fn(HelperCommand) -> bool,
    /// May bring a base first.
    pub seed: Option<&'a dyn Seed>,
    /// Ends the clone when it becomes true.
    pub interrupt: &'a AtomicBool,
}

impl Caller<'_> {
    pub(super) fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// The user's options. Defaults are Git's.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Options {
    /// A path, a URL or a bundle, as the user wrote it.
    pub source: BString,
    /// The destination. Guessed from the source if not given.
    pub directory: Option<BString>,
    pub branch: Option<BString>,
    pub bare: bool,
    /// A bare repository has remote-tracking branches, because workspaces will be its worktrees.
    pub tracking: bool,
    pub mirror: bool,
    pub no_checkout: bool,
    pub single_branch: bool,
    pub no_tags: bool,
    pub origin: Option<BString>,
    pub local: Option<bool>,
    pub no_hardlinks: bool,
    pub shared: bool,
    pub references: Vec<Reference>,
    /// Copy the borrowed objects, then stop borrowing.
    pub dissociate: bool,
    pub reject_shallow: Option<bool>,
    pub depth: Option<BString>,
    /// `--shallow-since`, in seconds since the epoch.
    pub shallow_since: Option<i64>,
    pub shallow_exclude: Vec<BString>,
    pub filter: Option<Filter>,
    /// `--recurse-submodules`: the active submodules.
    pub submodules: Vec<BString>,
    /// `--also-filter-submodules`
    pub filter_submodules: Option<bool>,
    pub bundle_uri: Option<BString>,
    pub sparse: bool,
    /// Receives the protocol lines sent to the other side, and its answers.
    pub tracer: Option<Tracer>,
    /// `--ref-format=files`
    pub ref_files: bool,
    /// `--config`, in order.
    pub config: Vec<BString>,
    /// `--template`; an empty value means none.
    pub template: Option<BString>,
    /// Git's own template directory, used if `--template`, `GIT_TEMPLATE_DIR` and
    /// `init.templateDir` are not set.
    pub default_template: Option<PathBuf>,
    pub separate_git_dir: Option<BString>,
    pub upload_pack: Option<BString>,
    /// `--server-option`, in order.
    pub server_options: Vec<BString>,
    /// `--revision`: the only revision to take.
    pub revision: Option<BString>,
    /// `-4`, `-6`
    pub family: repo::wire::AddressFamily,
    /// A clone whose transfer broke off may be kept: a later run finds it.
    pub resumable: bool,
    /// Ends every wait for a server when it becomes true.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// How often `-v` was given, or, negative, `-q`.
    pub verbosity: i32,
    /// Prints a piece of a line about the progress of a connection. `None` prints nothing.
    pub voice: Option<fn(&str)>,
    /// Ask the other side for progress messages.
    pub remote_progress: bool,
    /// Number of threads that copy objects.
    pub workers: usize,
    /// Counts the object files that are linked or copied.
    pub meter: Option<Arc<Meter>>,
    /// Counts what is received from another process or a bundle.
    pub receiving: Arc<repo::pack_indexing::Meter>,
    /// The current directory, the environment and `-c` settings.
    pub open: repo::OpenOptions,
}

impl Options {
    /// Returns the last value of a setting in `--config`.
    pub(super) fn parameter(&self, name: &str) -> Option<BString> {
        self.config.iter().rev().find_map(|text| match settings::parameter(text.as_bstr()) {
            Ok(Edit::Add { key, value }) if key.eq_ignore_ascii_case(name.as_bytes()) => Some(value),
            _ => None,
        })
    }

    pub(super) fn workers(&self) -> Workers {
        Workers::Fixed(self.workers.max(1))
    }
}

/// An event during a clone.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// `Cloning into ...`
    Begin { directory: &'a BStr, bare: bool },
    /// `warning: ...`
    Warning(&'a str),
    /// `error: ...`, without an end of the clone.
    Error(&'a str),
    /// `info: ...`
    Info(&'a str),
    /// The hint on `init.defaultBranch`, with the branch name used.
    DefaultBranch(&'a BStr),
    /// A progress message of the other side, unchanged.
    Remote(&'a [u8]),
    /// The whole pack was received.
    Received,
    /// `done.`: all local objects are copied.
    Done,
}

/// A command that Git runs in the new repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperCommand {
    /// `git repack -a -d`: copies borrowed objects.
    Repack,
    /// `git sparse-checkout set`: selects only the files at the root.
    Sparse,
}
