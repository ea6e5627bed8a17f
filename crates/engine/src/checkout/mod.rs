//! Checkout: `target + index + facts -> plan -> execute -> record`.
//!
//! - [`plan()`] decides everything before anything is changed, by the numbered cases of `cases`.
//! - [`execute()`] changes the worktree, through [`crate::files`].
//! - [`record()`] updates the index according to the outcomes.

pub mod cases;
mod cleared;
mod decide;
mod entries;
mod execute;
mod follow;
mod paths;
pub(crate) mod plan;
mod queries;
mod record;
mod refresh;
mod refusal;
mod show;
mod sparsity;
mod temporary;

pub use crate::crew::Workers;
pub use crate::files::Premise;
pub use crate::look::submodules::{is_anything_staged, read_modules};
pub use crate::look::trees::OneSided;
pub use cleared::Cleared;
pub use entries::{EntryOptions, EntryPlan, Verdict, plan_entries};
pub use execute::{
    Action, Attributes, ExecuteOptions, Links, Outcome, Report, StepError, execute, unusable_filter,
};
pub use follow::{Follow, Start};
pub use paths::{ConflictSide, IndexOptions, PathOptions, PathPlan, plan_index, plan_paths};
pub use plan::{
    Conflicts, Files, Force, Merge, Plan, PlanError, PlanOptions, Removal, Sparse, Vouched, Write, plan,
    plan_with_submodules,
};
pub use record::{record, record_interrupted};
pub use refresh::{ChangeKind, ChangedEntry, RacyCheck, local_changes, refresh, refresh_selected};
pub use refusal::{
    Operation, Refusal, RefusalKind, SparseLeftover, SparseLeftoverKind, text as refusal_text,
};
pub use sparsity::{has_untracked, plan_sparsity, remove_directory};
pub use temporary::Temporaries;

#[cfg(test)]
mod oracle_tests;
