//! The links of commits: tree, parents and date, from the commit-graph or from the commit.

use std::collections::HashSet;

use bstr::ByteSlice as _;
use format::{HashKind, ObjectId};

use crate::{
    database::{Kind, Objects, Reader},
    graph::CommitGraph,
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
    graph: Option<&'a CommitGraph>,
    hash: HashKind,
    /// The commits at the boundary of a shallow clone.
    shallow: &'a HashSet<ObjectId>,
}

impl<'a> Commits<'a> {
    /// Looks up commits in `objects`. `shallow` are the commits at the boundary of a shallow clone;
    /// then there must be no `graph`, which does not know the boundary.
    pub fn new(
        objects: &'a Objects,
        graph: Option<&'a CommitGraph>,
        shallow: &'a HashSet<ObjectId>,
    ) -> Commits<'a> {
        Commits { reader: objects.reader(), graph, hash: objects.hash(), shallow }
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
            if self.graph.is_some_and(|graph| graph.commit(&oid).is_some()) {
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
        let commit = self.graph?.commit(oid)?;
        // A damaged graph is not an error: the commit itself has the same data.
        Some(Links { tree: commit.tree()?, parents: commit.parents()?, date: commit.date()? })
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

/// Returns the seconds since the epoch at the end of `Name <mail> seconds zone`; 0 if there are
/// none.
pub fn signature_date(line: &[u8]) -> i64 {
    let after = line.rfind_byte(b'>').map_or(&b""[..], |end| &line[end + 1..]);
    let digits = after.trim_start().split(|c| !c.is_ascii_digit() && *c != b'-').next();
    digits.and_then(|digits| digits.to_str().ok()).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
