//! The commit or tree that a name means.

use bstr::{BStr, BString};
use engine::switch::names;
use format::ObjectId;
use repo::{Repository, convert::Metadata};

use crate::{Error, text};

/// The object that a name means.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name as given, with `-` and `@{-N}` replaced by their branch.
    pub name: BString,
    /// Full name, if it is a local branch.
    pub branch: Option<BString>,
    /// The commit; `None` if it is a tree.
    pub commit: Option<ObjectId>,
    /// Its tree.
    pub tree: ObjectId,
    /// The source of the files, for long-running filters.
    pub metadata: Metadata,
}

impl Source {
    /// Finds a branch, a commit or a tree. `-` is the branch that was checked out before.
    pub fn find(repo: &Repository, name: &BStr) -> Result<Source, Error> {
        let name = if name == "-" { BStr::new("@{-1}") } else { name };
        let invalid = || Error::Failed(text!("invalid reference: ", name));
        let oid = repo.rev_parse_or_base(name).map_err(|error| Error::of_name(error, invalid()))?;
        Source::describe(repo, name, oid)
    }

    /// Describes `name`, which resolves to `oid`.
    pub fn describe(repo: &Repository, name: &BStr, oid: ObjectId) -> Result<Source, Error> {
        let given = if name == "@" { BStr::new("HEAD") } else { name };
        // A tag takes precedence over a branch of the same name here, although the branch is
        // checked out.
        let (reference, object) = match names::expand(repo, given)?.into_iter().next() {
            Some((full, target)) => (Some(full), target),
            None => (None, oid),
        };
        let name = names::local_branch(repo, given)?;
        let full = text!(names::BRANCHES, name);
        let branch = if names::is_ref_name(full.as_ref()) {
            repo.find_ref(full.as_ref())?.map(|tip| (full, tip))
        } else {
            None
        };
        let oid = branch.as_ref().map_or(oid, |(_, tip)| *tip);
        let no_tree =
            |error| Error::of_name(error, Error::Failed(format!("unable to read tree ({oid})").into()));
        let commit = repo.peel_to_commit(oid).map_err(no_tree)?;
        let tree = repo.tree_of(commit.unwrap_or(oid)).map_err(no_tree)?;
        let metadata = Metadata { reference, treeish: Some(commit.unwrap_or(object)) };
        Ok(Source { name, branch: branch.map(|(full, _)| full), commit, tree, metadata })
    }
}
