//! The links of commits: tree, parents and date, from the commit-graph or from the commit.

use std::collections::HashSet;

use bstr::ByteSlice as _;
use format::{HashKind, ObjectId};
use gix_commitgraph::Graph;

use crate::{
    Error, Repository,
    database::signature_date,
    gitoxide,
    objects::{Kind, Objects, Reader},
    refs,
};

/// The links of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The tree.
    pub tree: ObjectId,
    /// The parents; none at the boundary of a shallow history.
    pub parents: Vec<ObjectId>,
    /// The committer date in seconds since the epoch.
    pub date: i64,
}

/// Looks up the links of commits, for one thread.
pub struct Commits<'a> {
    reader: Reader<'a>,
    graph: Option<&'a Graph>,
    hash: HashKind,
    shallow: &'a HashSet<ObjectId>,
}

impl Repository {
    /// Returns the links of the commits in `objects`.
    pub fn commits<'a>(&'a self, objects: &'a Objects) -> Result<Commits<'a>, Error> {
        let (hash, shallow) = (self.hash(), self.shallow()?);
        Ok(Commits { reader: objects.reader(), graph: self.commit_graph(), hash, shallow })
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

impl Commits<'_> {
    /// Returns the links of a commit, from the commit-graph if the graph has it. Returns `None` if
    /// the object cannot be read, or is not a commit.
    pub fn get(&mut self, oid: &ObjectId) -> Option<Links> {
        self.in_graph(oid).or_else(|| self.read(oid))
    }

    /// Like [`Commits::get`], always from the commit itself.
    pub fn read(&mut self, oid: &ObjectId) -> Option<Links> {
        let Ok((Kind::Commit, data)) = self.reader.read(oid) else { return None };
        let mut links = Links::parse(self.hash, data)?;
        if self.shallow.contains(oid) {
            links.parents.clear();
        }
        Some(links)
    }

    /// Returns the commit that an object leads to. Each tag on the way is passed to `tags`.
    pub fn peel(&mut self, oid: &ObjectId, tags: &mut dyn FnMut(ObjectId)) -> Option<ObjectId> {
        let mut oid = *oid;
        loop {
            if self.graph.is_some_and(|graph| graph.lookup(gitoxide::object_id(&oid)).is_some()) {
                return Some(oid);
            }
            match self.reader.header(&oid).ok()?.0 {
                Kind::Commit => return Some(oid),
                Kind::Tag => {
                    let (_, data) = self.reader.read(&oid).ok()?;
                    let target = tag_target(self.hash, data)?;
                    tags(oid);
                    oid = target;
                }
                Kind::Tree | Kind::Blob => return None,
            }
        }
    }

    fn in_graph(&self, oid: &ObjectId) -> Option<Links> {
        let graph = self.graph?;
        let commit = graph.commit_by_id(gitoxide::object_id(oid))?;
        let own = |id: &gix_hash::oid| ObjectId::from_bytes(self.hash, id.as_bytes());
        // A damaged graph is not an error: the commit itself has the same data.
        let parents: Option<Vec<ObjectId>> =
            commit.iter_parents().map(|parent| own(graph.id_at(parent.ok()?))).collect();
        let date = i64::try_from(commit.committer_timestamp()).ok()?;
        Some(Links { tree: own(commit.root_tree_id())?, parents: parents?, date })
    }
}

impl Links {
    /// Reads the headers of a commit.
    pub fn parse(hash: HashKind, data: &[u8]) -> Option<Links> {
        let mut lines = data.split_str("\n").take_while(|line| !line.is_empty());
        let tree = ObjectId::from_hex(hash, lines.next()?.strip_prefix(b"tree ")?)?;
        let (mut parents, mut date) = (Vec::new(), 0);
        for line in lines {
            if let Some(hex) = line.strip_prefix(b"parent ") {
                parents.push(ObjectId::from_hex(hash, hex)?);
            } else if let Some(who) = line.strip_prefix(b"committer ") {
                date = signature_date(who);
                break;
            }
        }
        Some(Links { tree, parents, date })
    }
}

/// Returns the object that a tag refers to.
pub fn tag_target(hash: HashKind, data: &[u8]) -> Option<ObjectId> {
    let line = data.split_str("\n").next()?;
    ObjectId::from_hex(hash, line.strip_prefix(b"object ")?)
}
