//! The commits of this repository, for walks, and the commits that its alternates have.

use format::ObjectId;
use objects::{Commits, Objects};

use crate::{Error, Repository, refs};

impl Repository {
    /// Returns the links of the commits in `objects`.
    pub fn commits<'a>(&'a self, objects: &'a Objects) -> Result<Commits<'a>, Error> {
        Ok(Commits::new(objects, self.commit_graph(), self.shallow()?))
    }

    /// Returns the objects of all refs in the repositories that are alternates of `objects`.
    /// Unreadable refs are left out.
    pub fn alternate_tips(&self, objects: &Objects) -> Vec<ObjectId> {
        let mut tips = Vec::new();
        for dir in objects.directories().skip(1) {
            let Some(git_dir) = dir.parent().filter(|_| dir.ends_with("objects")) else { continue };
            let store = refs::Store::new(git_dir, git_dir, self.hash(), git_dir);
            let listed = store.list("refs/".into()).unwrap_or_default();
            tips.extend(listed.into_iter().map(|(_, oid)| oid).filter(|oid| !oid.is_null()));
        }
        tips
    }
}
