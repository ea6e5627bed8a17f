//! A commit of a tree, which no ref names.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, commit_tree::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let (parent, tree) = (repository.resolve("HEAD")?, repository.resolve("HEAD~1^{tree}")?);
//! let request = Request { parents: vec![parent], message: "undo\n".into(), ..Request::of(tree) };
//! println!("{}", commit_tree::plan(&repository, request)?.run(&Silent)?.commit);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
pub use format::loose::Kind;
use repo::{GivenIdentity, Repository as Inner, Who};
use store::objects::ObjectTransaction;

use crate::{Context, Error, Events, PlanError, Repository, RunError, new_commit::NewCommit};

/// The parts of the commit. Author and committer are those of the environment and the
/// configuration.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tree.
    pub tree: ObjectId,
    /// The parents. One that is given again is left out.
    pub parents: Vec<ObjectId>,
    /// The message.
    pub message: BString,
    /// The key to sign the commit with; empty for the configured one; `None` for no signature.
    pub key: Option<BString>,
}

impl Request {
    /// Returns the request for a commit of `tree` without parents and message.
    pub fn of(tree: ObjectId) -> Request {
        Request { tree, parents: Vec::new(), message: BString::default(), key: None }
    }
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the commit.
    pub commit: ObjectId,
}

/// A commit to write.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
}

/// Checks that the tree and the parents exist. Changes nothing.
pub fn plan(repository: &Repository, mut request: Request) -> Result<Plan<'_>, PlanError> {
    check(&repository.inner, request.tree, Kind::Tree)?;
    let mut parents: Vec<ObjectId> = Vec::with_capacity(request.parents.len());
    for parent in request.parents {
        check(&repository.inner, parent, Kind::Commit)?;
        if !parents.contains(&parent) {
            parents.push(parent);
        }
    }
    request.parents = parents;
    Ok(Plan { repository, request })
}

impl Plan<'_> {
    /// Writes the commit, and publishes it.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let commit = write(self.repository.recording_context(events), self.request)?;
        Ok(Report { commit })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { tree, parents, .. } = &self.request;
        write!(formatter, "write a commit of tree {tree} with {} parents", parents.len())
    }
}

/// Returns an error if the repository has no object of this name and kind. It always has the empty
/// tree.
pub fn check(repo: &Inner, oid: ObjectId, kind: Kind) -> Result<(), Error> {
    if kind == Kind::Tree && oid == ObjectId::empty_tree(repo.hash()) {
        return Ok(());
    }
    if !repo.objects().has(&oid)? {
        return Err(Error::failed(format!("{oid} is not a valid object")));
    }
    if repo.objects().header(&oid)?.0 == kind {
        Ok(())
    } else {
        Err(Error::failed(format!("{oid} is not a valid '{kind}' object")))
    }
}

/// Writes a commit whose objects were checked. Returns its name.
pub fn write(context: Context<'_>, request: Request) -> Result<ObjectId, Error> {
    let Request { tree, parents, message, key } = request;
    let person = |who| context.repo.person(who, GivenIdentity::default());
    let commit = NewCommit {
        tree,
        parents,
        author: person(Who::Author)?.line(),
        committer: person(Who::Committer)?.line(),
        extra: Vec::new(),
        message: message.as_bstr(),
        key: key.as_ref().map(|key| key.as_bstr()),
    };
    let objects = ObjectTransaction::new(context.settings.objects(context.repo));
    let oid = commit.write(context, &objects)?;
    objects.publish()?;
    Ok(oid)
}
