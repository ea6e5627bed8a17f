//! Symbolic refs such as HEAD, which are read, written and deleted.
//!
//! A change is a transaction with one edit: see [`crate::update_ref`]. A name that Git writes
//! although it is not valid is Unsupported.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, symbolic_ref::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let target = symbolic_ref::read(&repository, "HEAD".into(), true)?;
//! if target.is_some() {
//!     let request = Request { name: "refs/heads/alias".into(), target, ..Request::default() };
//!     symbolic_ref::plan(&repository, request)?.run(&Silent)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, refname};

use crate::{
    Error, Events, PlanError, Repository, RunError, refs, text,
    update_ref::{self, Edit, Follow, New},
};

/// A change of a symbolic ref.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its full name.
    pub name: BString,
    /// The full name of its target, which need not exist; `None` to delete the symbolic ref.
    pub target: Option<BString>,
    /// The message for reflogs.
    pub message: BString,
}

/// A change that is checked.
pub struct Plan<'r>(update_ref::Plan<'r>);

/// Checks the change. No ref is locked.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let edits = vec![edit(&repository.inner, request)?];
    Ok(Plan(update_ref::plan(repository, update_ref::Request { edits, ..Default::default() })?))
}

impl Plan<'_> {
    /// Makes the change.
    pub fn run(self, events: &impl Events) -> Result<(), RunError> {
        self.0.run(events).map(drop)
    }
}

/// Returns the target of a symbolic ref, or with `recurse` the last ref of its chain. Returns
/// `None` for a ref that is not symbolic, or does not exist.
pub fn read(repository: &Repository, name: &BStr, recurse: bool) -> Result<Option<BString>, Error> {
    target(&repository.inner, name, recurse)
}

/// See [`read`].
pub fn target(repo: &repo::Repository, name: &BStr, recurse: bool) -> Result<Option<BString>, Error> {
    let missing = || Error::Failed(text!("No such ref: ", name));
    let (end, is_symbolic) = repo.end_of_chain(name, recurse)?.ok_or_else(missing)?;
    Ok(is_symbolic.then_some(end))
}

/// Returns the edit that makes the change, or Git's reason to refuse it.
pub fn edit(repo: &repo::Repository, request: Request) -> Result<Edit, PlanError> {
    refs::check_state(repo)?;
    let Request { name, target, message } = request;
    match &target {
        Some(target) => check_target(name.as_bstr(), target.as_bstr())?,
        None => check_deletion(repo, name.as_bstr())?,
    }
    let null = ObjectId::null(repo.hash());
    let new = target.map_or(New::Id(null), New::Symbolic);
    Ok(Edit { new, follow: Follow::No, ..Edit::set(name.as_bstr(), null, message.as_bstr()) })
}

fn check_target(name: &BStr, target: &BStr) -> Result<(), PlanError> {
    if name == "HEAD" && !target.starts_with(b"refs/") {
        return Err(Error::failed("Refusing to point HEAD outside of refs/").into());
    }
    if !refs::is_valid(target) {
        let refused = text!("Refusing to set '", name, "' to invalid ref '", target, "'");
        return Err(Error::Failed(refused).into());
    }
    // A name that is not safe is refused with the edit.
    if refname::is_safe(name) && !refs::is_valid(name) {
        return Err(PlanError::Unsupported("refs with unusual names"));
    }
    if !refname::is_safe(target) || target == "FETCH_HEAD" || target == "MERGE_HEAD" {
        return Err(PlanError::Unsupported("targets with unusual names"));
    }
    Ok(())
}

fn check_deletion(repo: &repo::Repository, name: &BStr) -> Result<(), Error> {
    if target(repo, name, false)?.is_none() {
        return Err(Error::Failed(text!("Cannot delete ", name, ", not a symbolic ref")));
    }
    if name == "HEAD" {
        return Err(Error::failed("deleting 'HEAD' is not allowed"));
    }
    Ok(())
}
