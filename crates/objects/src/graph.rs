//! Reads the commit-graph.

use std::path::Path;

use format::{HashKind, ObjectId};
use gix_commitgraph::{Graph, file};

/// The commit-graph of one object directory: links of commits, without reading the commits.
pub struct CommitGraph {
    graph: Graph,
    hash: HashKind,
}

/// A commit in the graph.
pub struct Commit<'g> {
    graph: &'g CommitGraph,
    commit: file::Commit<'g>,
}

impl CommitGraph {
    /// Opens the graph in the directory `info` of an object directory. Returns `None` if there is
    /// none, or if it is damaged: the commits themselves have the same data.
    pub fn open(info: &Path, hash: HashKind) -> Option<CommitGraph> {
        let kind = match hash {
            HashKind::Sha1 => gix_hash::Kind::Sha1,
            HashKind::Sha256 => gix_hash::Kind::Sha256,
        };
        let graph = Graph::from_info_dir(info, kind).ok()?;
        Some(CommitGraph { graph, hash })
    }

    /// Returns a commit, if the graph has it.
    pub fn commit(&self, oid: &ObjectId) -> Option<Commit<'_>> {
        let commit = self.graph.commit_by_id(gix_hash::ObjectId::from_bytes_or_panic(oid.as_bytes()))?;
        Some(Commit { graph: self, commit })
    }

    fn own(&self, id: &gix_hash::oid) -> Option<ObjectId> {
        ObjectId::from_bytes(self.hash, id.as_bytes())
    }
}

impl Commit<'_> {
    /// Returns the tree.
    pub fn tree(&self) -> Option<ObjectId> {
        self.graph.own(self.commit.root_tree_id())
    }

    /// Returns the parents; `None` if the graph is damaged.
    pub fn parents(&self) -> Option<Vec<ObjectId>> {
        let own = |parent| self.graph.own(self.graph.graph.id_at(parent));
        self.commit.iter_parents().map(|parent| own(parent.ok()?)).collect()
    }

    /// Returns the committer date in seconds since the epoch; `None` if it is out of range.
    pub fn date(&self) -> Option<i64> {
        i64::try_from(self.commit.committer_timestamp()).ok()
    }

    /// Returns the generation number, which is higher than that of every ancestor.
    pub fn generation(&self) -> u32 {
        self.commit.generation()
    }
}
