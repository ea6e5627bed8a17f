//! Stash: local changes recorded as commits, and brought back.
//!
//! - [`push`] records the changes as the newest entry, and resets the worktree to HEAD.
//! - [`list`] returns the entries, [`show`] the changes in one.
//! - [`apply`] brings an entry back, and drops it on request (`pop`).
//! - [`branch`] brings it back on a new branch where it began.
//! - [`mod@drop`] removes an entry, or all of them.
//!
//! Order of a push: the changes, found in one scan of the files; their objects, made durable; the
//! ref and reflog of the stash; then the worktree is reset to HEAD, and the index is written. Order
//! of an apply: the worktree, the index, the files made durable; then the entry may be dropped.
//!
//! If Git would merge contents, or fail in a way of its own, planning ends with
//! [`PlanError::Unsupported`].
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use sapwood::{Repository, Silent, stash};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = stash::push::Request { message: Some("for later".into()), ..Default::default() };
//! stash::push::plan(&repository, request)?.run(&Silent)?;
//! for entry in stash::list::plan(&repository, stash::list::Request)?.run(&Silent)?.entries {
//!     println!("{}: {}", entry.name, entry.message);
//! }
//! let request = stash::apply::Request { drop: true, ..Default::default() };
//! stash::apply::plan(&repository, request)?.run(&Silent)?;
//! # Ok(())
//! # }
//! ```

pub mod apply;
pub mod branch;
pub mod commits;
pub mod drop;
pub mod entry;
pub mod list;
mod prepare;
pub mod push;
pub mod show;
mod steps;

use bstr::BStr;
use engine::{look::LookError, stash};
use format::ObjectId;
use repo::Repository;

pub use crate::error::StashError;
use crate::{
    Context, Error, PlanError,
    settings::refused::{self, Reader},
};

/// The ref of the stash. Its reflog has the entries.
pub const STASH: &str = "refs/stash";

/// Checks the repository and the settings for an operation of the stash. Git requires a worktree
/// for all of them.
pub fn check(repo: &Repository) -> Result<(), Error> {
    if repo.work_tree().is_none() {
        return Err(Error::NoWorktree);
    }
    let readers = [Reader::Plumbing, Reader::Refs, Reader::Hooks];
    Ok(refused::check(repo, &readers)?)
}

/// Returns the commit of the newest entry, if any.
pub fn newest(repo: &Repository) -> Result<Option<ObjectId>, Error> {
    Ok(repo.find_ref(BStr::new(STASH))?)
}

/// Returns the error of a step before anything was changed. A caller that can start the real Git
/// lets it print the error, or do what sapwood does not support.
fn before_changes(context: Context<'_>) -> impl Fn(stash::Error) -> PlanError {
    move |error| match error {
        stash::Error::Unsupported(what) | stash::Error::Look(LookError::Unsupported(what)) => {
            PlanError::Unsupported(what)
        }
        _ if context.hands_over => PlanError::Unsupported("changes that cannot be read"),
        error => Error::from(StashError::from(error)).into(),
    }
}
