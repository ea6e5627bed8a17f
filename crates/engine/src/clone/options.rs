//! What is asked for, what is told on the way, and what is left to others.

use std::path::PathBuf;

use bstr::{BStr, BString};
use format::ObjectId;

use super::Filter;

/// `--reference` and `--reference-if-able`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reference {
    pub repository: BString,
    /// Whether it is an error if it cannot be used.
    pub required: bool,
}

/// See [`repo::fetch::Tracer`].
#[derive(Clone)]
pub struct Tracer(pub std::sync::Arc<repo::fetch::Tracer>);

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tracer")
    }
}

/// What the user asked for. Defaults are Git's.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Options {
    /// A path, a `file://` URL or a bundle, as the user wrote it.
    pub source: BString,
    /// Where to; guessed from the source if not given.
    pub directory: Option<BString>,
    pub branch: Option<BString>,
    pub bare: bool,
    pub mirror: bool,
    pub no_checkout: bool,
    pub single_branch: bool,
    /// `--no-tags`
    pub no_tags: bool,
    /// `--origin`
    pub origin: Option<BString>,
    /// `--local`, `--no-local`
    pub local: Option<bool>,
    pub no_hardlinks: bool,
    pub shared: bool,
    pub references: Vec<Reference>,
    /// Copy what is borrowed, and borrow no more.
    pub dissociate: bool,
    pub reject_shallow: Option<bool>,
    /// `--depth`
    pub depth: Option<BString>,
    /// `--shallow-since`
    pub shallow_since: Option<BString>,
    /// `--shallow-exclude`
    pub shallow_exclude: Vec<BString>,
    /// `--filter`
    pub filter: Option<Filter>,
    /// `--recurse-submodules`: which are active.
    pub submodules: Vec<BString>,
    /// `--sparse`
    pub sparse: bool,
    /// Sees what is said to the other side, and its answers.
    pub tracer: Option<Tracer>,
    /// `--ref-format=files`
    pub ref_files: bool,
    /// `--config`, in order.
    pub config: Vec<BString>,
    /// `--template`; empty for none.
    pub template: Option<BString>,
    /// Where Git's own templates are, if `--template`, `GIT_TEMPLATE_DIR` and `init.templateDir` say
    /// nothing.
    pub default_template: Option<PathBuf>,
    pub separate_git_dir: Option<BString>,
    /// `--upload-pack`
    pub upload_pack: Option<BString>,
    /// Ask the other side for progress texts.
    pub remote_progress: bool,
    /// How many threads take over objects.
    pub workers: usize,
    /// The current directory, the environment and `-c` settings.
    pub open: repo::OpenOptions,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// `Cloning into ...`
    Begin { directory: &'a BStr, bare: bool },
    /// `warning: ...`
    Warning(&'a str),
    /// `error: ...`, without being the end.
    Error(&'a str),
    /// `info: ...`
    Info(&'a str),
    /// The hint on `init.defaultBranch`, for the name used.
    DefaultBranch(&'a BStr),
    /// Progress texts of the other side, raw.
    Remote(&'a [u8]),
    /// A pack is being received.
    Pack(repo::pack::Progress),
    /// `done.`: local objects are there.
    Done,
}

/// What Git leaves to another of its commands, in the new repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand<'a> {
    /// `git rev-list --objects`: whether all that these reach is there, but for what was promised if `partial`.
    #[allow(missing_docs)]
    Connected { tips: &'a [ObjectId], partial: bool },
    /// `git repack -a -d`: copies what is borrowed.
    Repack,
    /// `git sparse-checkout set`: only the files at the root.
    Sparse,
}
