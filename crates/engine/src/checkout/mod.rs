//! Checkout: `target + index + facts -> plan -> execute -> record`.
//!
//! - [`plan`] decides everything before anything is touched, by the numbered cases of [`cases`];
//! - [`execute`] is the only code that touches the worktree;
//! - [`record`] is the only code that writes the index.

mod execute;
mod plan;
mod record;

pub use execute::{Action, ExecuteOptions, Outcome, Report, StepError, Workers, execute};
pub use plan::{
    Force, Merge, Plan, PlanError, PlanOptions, Premise, Refusal, RefusalKind, Removal, Write, plan,
};
pub use record::record;
