//! Lookups of paths in trees. Each tree is read once, for any number of lookups.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{Mode, ObjectId, tree::TreeEntries};
use repo::{
    Repository,
    objects::{Kind, Reader},
};

use super::{LookError, tree_limits};

/// The entries of one tree, by name.
pub type Entries = BTreeMap<BString, (Mode, ObjectId)>;

/// An entry that is no tree, and its path.
pub type Leaf = (BString, (Mode, ObjectId));

/// Trees of a repository.
pub struct TreeCache<'r> {
    repo: &'r Repository,
    reader: RefCell<Reader<'r>>,
    known: RefCell<HashMap<ObjectId, Rc<Entries>>>,
}

impl<'r> TreeCache<'r> {
    /// Creates an empty cache.
    pub fn new(repo: &'r Repository) -> TreeCache<'r> {
        TreeCache { repo, reader: RefCell::new(repo.objects().reader()), known: RefCell::default() }
    }

    /// Returns the repository.
    pub fn repo(&self) -> &'r Repository {
        self.repo
    }

    /// Returns the entries of a tree; none for `None`, the empty tree.
    pub fn read(&self, tree: Option<ObjectId>) -> Result<Rc<Entries>, LookError> {
        let Some(oid) = tree else { return Ok(Rc::default()) };
        if let Some(known) = self.known.borrow().get(&oid) {
            return Ok(Rc::clone(known));
        }
        let mut reader = self.reader.borrow_mut();
        let (kind, data) = reader.read(&oid)?;
        if kind != Kind::Tree {
            return Err(LookError::NoTree(oid));
        }
        let entry = |entry: Result<format::tree::TreeEntry<'_>, _>| {
            let entry = entry.map_err(|_| LookError::MalformedTree(oid))?;
            Ok((entry.name.to_owned(), (entry.mode, entry.oid)))
        };
        let entries = TreeEntries::new(self.repo.hash(), data).map(entry);
        let entries = Rc::new(entries.collect::<Result<Entries, LookError>>()?);
        self.known.borrow_mut().insert(oid, Rc::clone(&entries));
        Ok(entries)
    }

    /// Returns the entry of a path.
    pub fn entry(&self, root: Option<ObjectId>, path: &BStr) -> Result<Option<(Mode, ObjectId)>, LookError> {
        let mut tree = root;
        let mut names = path.split_str("/").peekable();
        while let Some(name) = names.next() {
            let found = self.read(tree)?.get(name.as_bstr()).copied();
            match found {
                Some((mode, oid)) if names.peek().is_some() && mode.is_tree() => tree = Some(oid),
                Some(found) if names.peek().is_none() => return Ok(Some(found)),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns all entries below a tree that are no trees. `lead` is the path of the tree.
    pub fn below(&self, tree: ObjectId, lead: &BStr) -> Result<Vec<Leaf>, LookError> {
        let mut found = Vec::new();
        let mut left = vec![(lead.to_owned(), tree)];
        while let Some((lead, tree)) = left.pop() {
            tree_limits::check_depth(lead.find_iter("/").count(), self.repo.objects().max_tree_depth())?;
            for (name, (mode, oid)) in self.read(Some(tree))?.iter() {
                let slash: &[u8] = if lead.is_empty() { b"" } else { b"/" };
                let path = BString::from([lead.as_bytes(), slash, name.as_bytes()].concat());
                if mode.is_tree() {
                    left.push((path, *oid));
                } else {
                    found.push((path, (*mode, *oid)));
                }
            }
        }
        Ok(found)
    }
}
