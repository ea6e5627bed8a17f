//! The tree of HEAD as it becomes known: which blobs are wanted, and the files they become.
//!
//! Promise: a file is given out once, when its blob comes, and only if its path may be in a
//! worktree. Memory is bounded whatever the trees say. Anything odd is an error, after which the
//! plan is of no use.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BStr, BString};
use format::{
    HashKind, Mode, ObjectId,
    path::{self, Protect},
    tree::{TreeEntries, TreeEntry},
};

/// The content of a tree that nobody wants yet is kept until so many bytes of later ones came.
/// Threads name batches of trees in any order.
const RECENT: usize = 4 << 20;

/// The most bytes of wanted trees.
const TREES: usize = 64 << 20;

/// The most files and directories of a plan. A small pack can name any number.
const FILES: usize = 1 << 20;

/// The most bytes of a path. The kernel takes no longer one.
const PATH: usize = 4000;

/// The tree is not one to be written ahead: the checkout decides.
#[derive(Debug)]
pub(super) struct Odd;

/// A directory of the worktree.
pub(super) struct Directory {
    /// The path, without a slash at the end; empty for the top.
    pub(super) path: BString,
    pub(super) parent: Option<Arc<Directory>>,
    /// Set when its creation was tried: true if it is there.
    pub(super) made: OnceLock<bool>,
    /// It has an attribute file, which has not come yet.
    awaits: AtomicBool,
}

impl Directory {
    /// The directory, this one or one above it, whose attribute file is awaited.
    pub(super) fn blocker(self: &Arc<Directory>) -> Option<&Arc<Directory>> {
        let mut at = Some(self);
        while let Some(directory) = at {
            if directory.awaits.load(Ordering::Acquire) {
                return Some(directory);
            }
            at = directory.parent.as_ref();
        }
        None
    }

    /// The attribute file of the directory is known from now on.
    pub(super) fn admit(&self) {
        self.awaits.store(false, Ordering::Release);
    }
}

/// A regular file.
#[derive(Clone)]
pub(super) struct File {
    pub(super) dir: Arc<Directory>,
    pub(super) path: BString,
    pub(super) mode: Mode,
    pub(super) oid: ObjectId,
    /// The position of the name in the path.
    pub(super) name: usize,
}

impl File {
    pub(super) fn name(&self) -> &[u8] {
        &self.path[self.name..]
    }
}

struct Content {
    bytes: Arc<[u8]>,
    is_wanted: bool,
}

/// The files to be written, and what is still unknown.
pub(super) struct Plan {
    hash: HashKind,
    protect: Protect,
    /// The files of each wanted blob that has not come.
    blobs: HashMap<ObjectId, Vec<File>>,
    /// The directories of each wanted tree that has not come.
    trees: HashMap<ObjectId, Vec<Arc<Directory>>>,
    /// The directories whose attribute file is this blob.
    attributes: HashMap<ObjectId, Vec<Arc<Directory>>>,
    contents: HashMap<ObjectId, Content>,
    /// The bytes of wanted trees in `contents`.
    wanted: usize,
    /// The trees in `contents` that were not wanted when they came, the oldest first.
    recent: VecDeque<ObjectId>,
    recent_bytes: usize,
    count: usize,
    /// False while the attribute file at the top is unknown.
    pub(super) knows_top: bool,
}

impl Plan {
    /// A plan of nothing.
    pub(super) fn new(hash: HashKind, protect: Protect) -> Plan {
        Plan {
            hash,
            protect,
            blobs: HashMap::new(),
            trees: HashMap::new(),
            attributes: HashMap::new(),
            contents: HashMap::new(),
            wanted: 0,
            recent: VecDeque::new(),
            recent_bytes: 0,
            count: 0,
            knows_top: false,
        }
    }

    /// Wants the tree at the top.
    pub(super) fn begin(&mut self, oid: ObjectId) -> Result<(), Odd> {
        let top = Directory {
            path: BString::default(),
            parent: None,
            made: OnceLock::from(true),
            awaits: AtomicBool::new(true),
        };
        self.trees.insert(oid, vec![Arc::new(top)]);
        match self.contents.get(&oid).map(|content| Arc::clone(&content.bytes)) {
            Some(content) => self.take_tree(&oid, &content),
            None => Ok(()),
        }
    }

    /// A tree that is wanted and has not come.
    pub(super) fn missing_tree(&self) -> Option<ObjectId> {
        self.trees.keys().next().copied()
    }

    /// Returns true if a tree that comes may be of use.
    pub(super) fn is_open(&self) -> bool {
        self.wanted == 0 || !self.trees.is_empty()
    }

    /// Returns true if a tree or a blob is wanted that has not come.
    pub(super) fn is_waiting(&self) -> bool {
        !self.trees.is_empty() || !self.blobs.is_empty() || !self.attributes.is_empty()
    }

    /// Returns true if a tree is wanted and has not come.
    pub(super) fn wants_tree(&self, oid: &ObjectId) -> bool {
        self.trees.contains_key(oid)
    }

    /// Takes a tree, wanted or not.
    pub(super) fn take_tree(&mut self, oid: &ObjectId, content: &[u8]) -> Result<(), Odd> {
        if !self.trees.contains_key(oid) {
            self.remember(oid, content);
            return Ok(());
        }
        let mut ready = vec![*oid];
        let new = || Content { bytes: content.into(), is_wanted: true };
        self.contents.entry(*oid).or_insert_with(new);
        while let Some(oid) = ready.pop() {
            let Some(dirs) = self.trees.remove(&oid) else { continue };
            let Some(content) = self.contents.get_mut(&oid) else { continue };
            content.is_wanted = true;
            let content = Arc::clone(&content.bytes);
            self.wanted += content.len().max(1);
            if self.wanted > TREES {
                return Err(Odd);
            }
            for dir in dirs {
                self.expand(&dir, &content, &mut ready)?;
            }
        }
        Ok(())
    }

    fn remember(&mut self, oid: &ObjectId, content: &[u8]) {
        if content.len() > RECENT || self.contents.contains_key(oid) {
            return;
        }
        self.contents.insert(*oid, Content { bytes: content.into(), is_wanted: false });
        self.recent.push_back(*oid);
        self.recent_bytes += content.len();
        while self.recent_bytes > RECENT {
            let Some(oid) = self.recent.pop_front() else { break };
            let Some(content) = self.contents.get(&oid) else { continue };
            self.recent_bytes -= content.bytes.len();
            if !content.is_wanted {
                self.contents.remove(&oid);
            }
        }
    }

    /// Learns the content of a directory. Trees below it that came already are added to `ready`.
    fn expand(&mut self, dir: &Arc<Directory>, tree: &[u8], ready: &mut Vec<ObjectId>) -> Result<(), Odd> {
        const ATTRIBUTES: &[u8] = b".gitattributes";
        let mut names = std::collections::HashSet::new();
        let mut awaited = None;
        for entry in TreeEntries::new(self.hash, tree) {
            let TreeEntry { mode, name, oid } = entry.map_err(|_| Odd)?;
            self.count += 1;
            if self.count > FILES || !names.insert(name) || name.contains(&b'/') {
                return Err(Odd);
            }
            path::verify(name, mode, self.protect).map_err(|_| Odd)?;
            if name == ATTRIBUTES {
                awaited = Some(oid).filter(|_| mode.is_file());
                if awaited.is_none() {
                    return Err(Odd);
                }
            }
        }
        // The files below are looked at only under the plan's lock, so they find this set.
        dir.awaits.store(awaited.is_some(), Ordering::Release);
        match awaited {
            Some(oid) => self.attributes.entry(oid).or_default().push(Arc::clone(dir)),
            None if dir.parent.is_none() => self.knows_top = true,
            None => {}
        }
        for entry in TreeEntries::new(self.hash, tree) {
            let TreeEntry { mode, name, oid } = entry.map_err(|_| Odd)?;
            if mode.is_tree() {
                let path = below(dir, name)?;
                let child = Directory {
                    path,
                    parent: Some(Arc::clone(dir)),
                    made: OnceLock::new(),
                    awaits: AtomicBool::new(false),
                };
                self.trees.entry(oid).or_default().push(Arc::new(child));
                if self.contents.contains_key(&oid) {
                    ready.push(oid);
                }
            } else if mode.is_file() {
                let path = below(dir, name)?;
                let file = File { dir: Arc::clone(dir), name: path.len() - name.len(), path, mode, oid };
                self.blobs.entry(oid).or_default().push(file);
            }
        }
        Ok(())
    }

    /// Returns true if a blob is of use.
    pub(super) fn wants(&self, oid: &ObjectId) -> bool {
        self.blobs.contains_key(oid)
    }

    /// Returns true if a blob is an attribute file.
    pub(super) fn is_attribute_file(&self, oid: &ObjectId) -> bool {
        self.attributes.contains_key(oid)
    }

    /// Gives out the directories whose attribute file this blob is.
    pub(super) fn take_attributes(&mut self, oid: &ObjectId) -> Vec<Arc<Directory>> {
        self.attributes.remove(oid).unwrap_or_default()
    }

    /// Gives out the files that a blob becomes.
    pub(super) fn take_files(&mut self, oid: &ObjectId) -> Vec<File> {
        self.blobs.remove(oid).unwrap_or_default()
    }
}

fn below(dir: &Directory, name: &BStr) -> Result<BString, Odd> {
    let mut path = dir.path.clone();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    if path.len() > PATH { Err(Odd) } else { Ok(path) }
}
