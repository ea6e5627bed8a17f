//! The differences between two trees. Equal subtrees are not read.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice as _};
use format::{Mode, ObjectId, tree::TreeEntries};
use repo::{
    Repository,
    objects::{Kind, Reader},
};

use super::{Pair, Side};
use crate::look::{
    LookError,
    tree_limits::{self, TreeLimits},
};

/// Compares two trees, and returns the pairs in the order of their paths. `None` is the empty tree.
pub fn trees(
    repo: &Repository,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
) -> Result<Vec<Pair>, LookError> {
    let mut comparison = Comparison {
        repo,
        reader: repo.objects().reader(),
        pairs: Vec::new(),
        limits: TreeLimits::default(),
    };
    if old != new {
        comparison.directory(b"".as_bstr(), old, new)?;
    }
    let mut pairs = comparison.pairs;
    pairs.sort_by(|one, two| one.path.cmp(&two.path));
    Ok(pairs)
}

struct Comparison<'a> {
    repo: &'a Repository,
    reader: Reader<'a>,
    pairs: Vec<Pair>,
    limits: TreeLimits,
}

type Entries = BTreeMap<BString, (Mode, ObjectId)>;

impl Comparison<'_> {
    /// Compares two directories that differ. `lead` ends in a slash unless it is empty.
    fn directory(
        &mut self,
        lead: &BStr,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
    ) -> Result<(), LookError> {
        tree_limits::check_depth(lead.find_iter("/").count(), self.repo.objects().max_tree_depth())?;
        let old = self.read(old)?;
        let mut new = self.read(new)?;
        self.limits.add(old.len() + new.len())?;
        for (name, old) in old {
            let new = new.remove(&name);
            if new != Some(old) {
                self.entry(lead, &name, Some(old), new)?;
            }
        }
        for (name, new) in new {
            self.entry(lead, &name, None, Some(new))?;
        }
        Ok(())
    }

    fn read(&mut self, tree: Option<ObjectId>) -> Result<Entries, LookError> {
        let Some(oid) = tree else { return Ok(Entries::new()) };
        let (kind, data) = self.reader.read(&oid)?;
        if kind != Kind::Tree {
            return Err(LookError::NoTree(oid));
        }
        let entries = TreeEntries::new(self.repo.hash(), data);
        let entry = |entry: Result<format::tree::TreeEntry<'_>, _>| {
            let entry = entry.map_err(|_| LookError::MalformedTree(oid))?;
            Ok((entry.name.to_owned(), (entry.mode, entry.oid)))
        };
        entries.map(entry).collect()
    }

    fn entry(
        &mut self,
        lead: &BStr,
        name: &BString,
        old: Option<(Mode, ObjectId)>,
        new: Option<(Mode, ObjectId)>,
    ) -> Result<(), LookError> {
        let path: BString = [lead.as_bytes(), name.as_bytes()].concat().into();
        let tree =
            |side: Option<(Mode, ObjectId)>| side.filter(|(mode, _)| mode.is_tree()).map(|(_, oid)| oid);
        let file = |side: Option<(Mode, ObjectId)>| {
            let file = side.filter(|(mode, _)| !mode.is_tree());
            file.map(|(mode, oid)| Side { mode, oid: Some(oid) })
        };
        if tree(old).is_some() || tree(new).is_some() {
            let mut below = path.clone();
            below.push(b'/');
            self.directory(below.as_bstr(), tree(old), tree(new))?;
        }
        if file(old).is_some() || file(new).is_some() {
            self.pairs.push(Pair::new(path, file(old), file(new)));
        }
        Ok(())
    }
}
