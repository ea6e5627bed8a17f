//! The trees of an index: Git's `cache_tree_update`.
//!
//! A directory whose cache-tree node is valid keeps its tree; the other trees are built from the
//! leaves up, and written unless they exist. The cache-tree then contains all of them. The trees
//! can be read once the caller has published the transaction.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    hash::Hasher,
    index::{CacheTree, Flags, Index},
    loose::Kind,
};
use repo::Repository;
use store::objects::ObjectTransaction;

use super::promised;
use crate::look::cache_tree::{self, Rules};

/// The treatment of entries whose objects do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They are allowed, and written into trees (`--missing-ok`).
    Allowed,
    /// They are an error.
    Refused,
}

/// The reason why an index has no trees.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum WriteTreeError {
    /// The first unmerged entries, at most eleven.
    #[error("the index is unmerged")]
    Unmerged(Vec<(BString, ObjectId)>),
    /// The first paths that are both a file and a directory, at most eleven.
    #[error("a path is both a file and a directory")]
    Both(Vec<(BString, BString)>),
    #[error("invalid object {:06o} {oid} for '{path}'", .mode.bits())]
    Missing { mode: Mode, oid: ObjectId, path: BString },
    /// The directories are nested more deeply than Git supports.
    #[error("exceeded maximum allowed tree depth")]
    Depth,
    #[error(transparent)]
    Read(#[from] repo::objects::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The reason why an object was not recorded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RecordError {
    #[error("its content is a collision of SHA-1")]
    Collision,
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The trees of an index.
#[derive(Debug)]
pub struct Trees {
    /// The tree of the whole index.
    pub root: ObjectId,
    /// Trees of directories that are in the cache-tree without a valid node, because some of their
    /// entries are intent-to-add entries.
    unnamed: Vec<(BString, ObjectId)>,
}

impl Trees {
    /// Returns the tree of a directory. Consecutive slashes count as one. Returns `None` if
    /// `directory` begins with a slash. `index` is the index of these trees.
    pub fn of_directory(&self, index: &Index, directory: &BStr) -> Option<ObjectId> {
        if directory.starts_with(b"/") {
            return None;
        }
        let names: Vec<&[u8]> = directory.split_str("/").filter(|name| !name.is_empty()).collect();
        let directory = BString::from(names.join(&b'/'));
        if directory.is_empty() {
            return Some(self.root);
        }
        let node = index.cache_tree.as_ref()?.find(directory.as_bstr())?;
        let unnamed = || self.unnamed.iter().find(|(name, _)| *name == directory).map(|(_, oid)| *oid);
        node.valid.map(|(oid, _)| oid).or_else(unnamed)
    }
}

/// One more than the number of faults in an index that Git prints.
const SHOWN: usize = 11;

/// Writes the missing trees of `index` and updates its cache-tree. Objects staged in `transaction`
/// count as existing. The index may be sparse.
pub fn write_tree(
    index: &mut Index,
    repo: &Repository,
    transaction: &ObjectTransaction<'_>,
    missing: Missing,
) -> Result<Trees, WriteTreeError> {
    verify(index)?;
    let objects = repo.objects();
    let blobs = if missing == Missing::Refused && objects.is_partial() {
        promised::blobs(index, repo)
    } else {
        promised::Blobs::default()
    };
    // A remote cannot have objects that are only staged here.
    let needed = blobs.needed.iter().copied();
    objects.fetch_missing(&mut needed.filter(|oid| !transaction.contains(oid)))?;
    let writer = Writer {
        repo,
        transaction,
        missing,
        promised: blobs.promised,
        written: RefCell::default(),
        unnamed: RefCell::default(),
    };
    let old = index.cache_tree.take();
    let built = cache_tree::build(index, old, &writer)?;
    let root = built.tree.ok_or(WriteTreeError::Depth)?;
    let mut unnamed = writer.unnamed.into_inner();
    unnamed.retain(|(directory, _)| is_invalid(&built.node, directory.as_bstr()));
    index.cache_tree = Some(built.node);
    Ok(Trees { root, unnamed })
}

fn is_invalid(root: &CacheTree, directory: &BStr) -> bool {
    root.find(directory).is_some_and(|node| node.valid.is_none())
}

/// Returns an error if the index has unmerged entries, or a path that is both a file and a
/// directory.
fn verify(index: &Index) -> Result<(), WriteTreeError> {
    if index.is_unmerged() {
        let unmerged = index.unmerged().take(SHOWN);
        let unmerged = unmerged.map(|at| (index.path_at(at).to_owned(), index.entry(at).oid));
        return Err(WriteTreeError::Unmerged(unmerged.collect()));
    }
    let firsts = (1..index.len()).filter(|&at| !index.follows_sibling(at));
    let pairs = firsts.map(|at| (index.path_at(at - 1), index.path_at(at)));
    let both = pairs.filter(|(one, next)| next.get(one.len()) == Some(&b'/') && next.starts_with(one));
    let both: Vec<_> = both.take(SHOWN).map(|(one, next)| (one.to_owned(), next.to_owned())).collect();
    if both.is_empty() { Ok(()) } else { Err(WriteTreeError::Both(both)) }
}

struct Writer<'a> {
    repo: &'a Repository,
    transaction: &'a ObjectTransaction<'a>,
    missing: Missing,
    /// Blobs of a partial clone that may be missing.
    promised: HashSet<ObjectId>,
    /// The trees that this run has written.
    written: RefCell<BTreeSet<ObjectId>>,
    unnamed: RefCell<Vec<(BString, ObjectId)>>,
}

impl Rules for Writer<'_> {
    type Error = WriteTreeError;

    fn has(&self, tree: &ObjectId) -> bool {
        self.repo.objects().contains(tree)
    }

    fn check(&self, mode: Mode, oid: &ObjectId, path: &BStr, flags: Flags) -> Result<(), WriteTreeError> {
        let objects = self.repo.objects();
        let may_be_missing = mode.is_gitlink()
            || self.missing == Missing::Allowed
            || self.promised.contains(oid)
            || objects.is_partial() && flags.contains(Flags::SKIP_WORKTREE);
        if !oid.is_null() && (may_be_missing || self.transaction.contains(oid) || objects.has(oid)?) {
            return Ok(());
        }
        Err(WriteTreeError::Missing { mode, oid: *oid, path: path.to_owned() })
    }

    fn make(&self, directory: &BStr, oid: &ObjectId, content: &[u8]) -> Result<bool, WriteTreeError> {
        if self.written.borrow_mut().insert(*oid) {
            write_unless_there(self.repo, self.transaction, oid, Kind::Tree, content)?;
        }
        self.unnamed.borrow_mut().push((directory.to_owned(), *oid));
        Ok(true)
    }
}

/// Writes an object unless [`repo::objects::Objects::freshen`] finds a copy.
fn write_unless_there(
    repo: &Repository,
    transaction: &ObjectTransaction<'_>,
    oid: &ObjectId,
    kind: Kind,
    content: &[u8],
) -> Result<(), store::Error> {
    if repo.objects().freshen(oid) {
        return Ok(());
    }
    transaction.write(oid, kind, content)
}

/// Hashes an object and writes it unless it exists. The object can be read once the transaction is
/// published.
pub fn record(
    repo: &Repository,
    transaction: &ObjectTransaction<'_>,
    kind: Kind,
    content: &[u8],
) -> Result<ObjectId, RecordError> {
    let mut hasher = Hasher::object(repo.hash(), &kind.to_string(), content.len() as u64);
    hasher.update(content);
    let oid = hasher.finish().map_err(|_| RecordError::Collision)?;
    write_unless_there(repo, transaction, &oid, kind, content)?;
    Ok(oid)
}
