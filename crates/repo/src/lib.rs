//! Reads repositories: finds them, and reads configuration, refs, revisions and attributes.
//!
//! [`Repository::open`] finds a repository, checks that it may be used, and reads its
//! configuration. All other data is read on demand. This crate does not write, does not print and
//! does not read the environment of the process. Objects are read by [`objects`], servers are
//! reached by [`wire`].

pub mod attributes;
mod branch;
mod commit;
mod commits;
mod config;
pub mod convert;
mod database;
mod date;
mod disk;
mod env;
mod error;
mod fetch_rules;
mod filter_process;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod history;
mod identity;
pub mod message;
mod message_sink;
mod open;
mod options;
mod promisor;
mod reach;
mod ref_lookup;
mod reflog;
mod refs;
mod repository;
mod revision;
mod shortener;
mod standalone;
pub mod submodule;
mod tag;
mod wire_settings;
mod worktrees;

pub use branch::{Guess, Tracking};
pub use commit::{CommitHeader, CommitText, is_same_encoding};
pub use config::{
    Config, Configured, OneSource, Origin, Scope, config_parameters, parse_bool, parse_number, parse_size,
    parse_unsigned, path as config_path,
};
pub use env::Env;
pub use error::{
    Attempt, ConfigError, ConvertError, DiscoveryError, Error, Foreign, FormatError, ObjectError, PathOrigin,
    RefError, RevisionError, UpstreamError,
};
pub use format::keys;
pub use history::{LeftBehind, ReadCommits};
pub use identity::{Given as GivenIdentity, IdentityError, Person, Who, check_committer_date, parse_moment};
pub use message_sink::MessageSink;
pub use objects::{self, Commits, Links, fsck, pack_indexing, tag_target};
pub use open::{Extensions, TemplateFormat, Trust, check_worktree_owner, template_format};
pub use options::{LazyFetch, OpenOptions, Place, Promised};
pub use promisor::CONTENTS_REMOTE;
pub use reflog::{DetachedFrom, LogLine};
pub use refs::{Head, ListScope, ListedRef, Soundness, branch_name};
pub use repository::{Repository, Settings};
pub use shortener::Shortener;
pub use standalone::{StandaloneConfig, config_file};
pub use tag::TagTarget;
pub use wire;
pub use worktrees::{
    GitfileError, Setting, Worktree, WorktreeHead, WorktreeHeadKind, setting_of, settings_in,
};
