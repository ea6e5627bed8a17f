//! Records of branches: the newest commits of a branch that have manifests.
//!
//! JSON: `{"sapwood": "branch", "version": 1, "hash": "sha1", "commits": ["…"]}`, newest first. The
//! record is a hint. Two writers may lose each other's commit, and a commit may have no manifest.

use std::collections::HashSet;

use crate::{HashKind, ObjectId};

use super::{
    json::{self, Malformed, Object},
    manifest::joined,
};

/// The number of commits that a record keeps.
pub const MAX: usize = 32;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The kind of hash of the repository.
    pub hash: HashKind,
    /// The commits, newest first.
    pub commits: Vec<ObjectId>,
}

impl Branch {
    /// Reads a record. More than [`MAX`] commits are ignored.
    pub fn parse(bytes: &[u8]) -> Result<Branch, Malformed> {
        let value = json::read(bytes)?;
        let object = Object::record(&value, "branch")?;
        let hash = object.hash()?;
        let mut commits = object.oids(hash, "commits")?;
        let mut seen = HashSet::new();
        commits.retain(|commit| seen.insert(*commit));
        commits.truncate(MAX);
        Ok(Branch { hash, commits })
    }

    /// Puts a commit in front, once.
    pub fn add(&mut self, commit: ObjectId) {
        self.commits.retain(|other| *other != commit);
        self.commits.insert(0, commit);
        self.commits.truncate(MAX);
    }

    /// Returns the record as JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let commits = joined(self.commits.iter().map(|oid| format!("\"{oid}\"")), ",\n    ");
        let hash = self.hash.name();
        format!(
            "{{\n  \"sapwood\": \"branch\", \"version\": 1, \"hash\": \"{hash}\",\n  \"commits\": [\n    \
             {commits}]\n}}\n"
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_commits_once() {
        let oid = |number: u8| ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes");
        let mut branch = Branch { hash: HashKind::Sha1, commits: Vec::new() };
        assert_eq!(Branch::parse(&branch.to_bytes()).expect("sound"), branch);
        (0..40).chain([20, 39]).for_each(|number| branch.add(oid(number)));
        assert_eq!(branch.commits.len(), MAX);
        assert_eq!(branch.commits[..3], [oid(39), oid(20), oid(38)]);
        assert_eq!(Branch::parse(&branch.to_bytes()).expect("sound"), branch);
        let long = Branch { commits: (0..100).chain(0..100).map(oid).collect(), ..branch };
        let commits = Branch::parse(&long.to_bytes()).expect("sound").commits;
        assert_eq!(commits, (0..MAX as u8).map(oid).collect::<Vec<_>>());
        assert_eq!(Branch::parse(b"{}"), Err(Malformed::Kind("branch")));
    }
}
