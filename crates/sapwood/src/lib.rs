//! Git working-tree operations, each as two calls: [`status`], [`switch`], [`restore`], [`reset`],
//! [`clean`], [`add`], [`rm`], [`mv`], [`commit`], [`stash`], [`fetch`], [`pull`],
//! [`fast_forward`], [`mod@clone`], [`worktree`], [`workspace`], [`base`], [`submodule`],
//! [`checkpoint`], [`ci`], [`compare`].
//!
//! Those of scripts: [`for_each_ref`], [`show_ref`], [`update_ref`], [`symbolic_ref`],
//! [`rev_parse`], [`ls_files`], [`diff`], [`check_attr`], [`check_ignore`], [`update_index`],
//! [`checkout_index`], [`sparse_checkout`], [`hash_object`], [`make_tree`], [`commit_tree`],
//! [`write_tree`], [`object_files`], [`commit_graph`], [`multi_pack_index`], [`index_pack`],
//! [`config`], [`init`], [`ls_remote`].
//!
//! `plan(&repository, request)` examines everything, may refuse, and changes nothing. In a partial
//! clone it fetches objects that it must read. [`PlanError::Unsupported`] exists only there.
//! `Plan::run(&events)` does the work; its [`RunError`] has no such variant.
//!
//! An operation that failed while it ran cannot turn out to be unsupported:
//!
//! ```compile_fail,E0599
//! fn hand_over(error: sapwood::RunError) -> bool {
//!     matches!(error, sapwood::RunError::Unsupported(_))
//! }
//! ```
//!
//! A plan that has run is gone, so nobody can hand it over:
//!
//! ```compile_fail,E0382
//! fn run_and_keep(plan: sapwood::status::Plan<'_>) -> sapwood::status::Plan<'_> {
//!     let _ = plan.run(&sapwood::Silent);
//!     plan
//! }
//! ```
//!
//! Planning has no receiver of reports, so it cannot show anything:
//!
//! ```compile_fail,E0061
//! fn plan_aloud(repository: &sapwood::Repository, events: &impl sapwood::Events) {
//!     let _ = sapwood::status::plan(repository, sapwood::status::Request::default(), events);
//! }
//! ```
//!
//! The crate prints nothing, reads no environment and decides no exit code. The caller gives the
//! environment to [`Repository::open`], and receives reports through [`Events`].
//!
//! Design: docs/design/library.md.

pub mod add;
pub mod advice;
pub mod base;
pub mod check_attr;
pub mod check_ignore;
pub mod checkout_index;
pub mod checkpoint;
pub mod ci;
pub mod clean;
pub mod clone;
pub mod color;
pub mod commit;
pub mod commit_graph;
pub mod commit_tree;
pub mod compare;
pub mod config;
pub mod context;
pub mod date;
pub mod diff;
mod error;
pub mod events;
pub mod fast_forward;
pub mod fetch;
pub mod for_each_ref;
pub mod hash_object;
pub mod hooks;
pub mod index;
pub mod index_pack;
pub mod init;
pub mod lazy;
pub mod locks;
pub mod ls_files;
pub mod ls_remote;
pub mod maintenance;
pub mod make_tree;
pub mod monitor;
pub mod multi_pack_index;
pub mod mv;
pub mod new_commit;
pub mod notice;
pub mod object_files;
pub mod pull;
pub mod read_tree;
pub mod refs;
mod refused;
pub mod relative;
mod repository;
pub mod reset;
pub mod restore;
pub mod rev_parse;
pub mod rm;
mod said;
pub mod settings;
pub mod show_ref;
pub mod sign;
pub mod sparse_checkout;
pub mod sparse_index;
pub mod stage;
pub mod stash;
pub mod status;
pub mod submodule;
pub mod submodules;
pub mod switch;
pub mod symbolic_ref;
pub mod trace;
pub mod tracking;
pub mod transaction;
pub mod trash;
pub mod update_index;
pub mod update_ref;
pub mod upstream;
pub mod workspace;
pub mod worktree;
pub mod worktree_config;
pub mod write_tree;

pub use bstr;
pub use engine::pathspec::Pathspecs;
pub use format::{HashKind, Mode, ObjectId};
pub use sys::{Dir, FileType, UserPath};

pub use context::Context;
pub use error::{BaseError, ConfigError, Error, HeadChange, PlanError, RunError, StashError, TreeError};
pub use events::{Events, Silent};
pub use notice::Notice;
pub use repository::{Environment, Repository};

/// Joins texts and names into one [`bstr::BString`].
#[macro_export]
macro_rules! text {
    ($($part:expr),* $(,)?) => {{
        let mut joined = Vec::new();
        $(joined.extend_from_slice(AsRef::<[u8]>::as_ref(&$part));)*
        $crate::bstr::BString::from(joined)
    }};
}
