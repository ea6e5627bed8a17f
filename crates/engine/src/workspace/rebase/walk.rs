//! Reads all entries of an upper layer of overlayfs, directly from disk.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType, by_path, xattr};

use super::Error;

/// The way in which an overlay marks the entries of its upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrNamespace {
    /// `trusted.overlay.*`, which only root can set.
    Trusted,
    /// `user.overlay.*` (mount option `userxattr`).
    User,
    /// fuse-overlayfs: attributes of its own, and names that begin with `.wh.`.
    Fuse,
}

impl XattrNamespace {
    fn opaque(self) -> &'static [&'static CStr] {
        match self {
            XattrNamespace::Trusted => &[c"trusted.overlay.opaque"],
            XattrNamespace::User => &[c"user.overlay.opaque"],
            XattrNamespace::Fuse => {
                &[c"user.fuseoverlayfs.opaque", c"user.overlay.opaque", c"trusted.overlay.opaque"]
            }
        }
    }

    fn redirect(self) -> Option<&'static CStr> {
        match self {
            XattrNamespace::Trusted => Some(c"trusted.overlay.redirect"),
            XattrNamespace::User => Some(c"user.overlay.redirect"),
            XattrNamespace::Fuse => None,
        }
    }

    /// Returns the attributes that link a copied-up file to the file of the base.
    pub(super) fn origins(self) -> &'static [&'static CStr] {
        match self {
            XattrNamespace::Trusted => &[c"trusted.overlay.origin"],
            XattrNamespace::User => &[c"user.overlay.origin"],
            XattrNamespace::Fuse if xattr::sees_trusted() => {
                &[c"user.fuseoverlayfs.origin", c"trusted.overlay.origin"]
            }
            XattrNamespace::Fuse => &[c"user.fuseoverlayfs.origin"],
        }
    }
}

/// The relation of a directory of the upper layer to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// The contents of the base's directory with the same path are visible.
    Merged,
    /// Nothing of the base is visible.
    Opaque,
    /// The contents of another directory of the base are visible, because this one was renamed.
    Redirected,
}

/// The stat data of a file that reveal a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    ino: u64,
    ctime: (i64, u32),
    size: u64,
    /// The permission bits. 0 for anything that is not a regular file.
    pub(super) permissions: u32,
}

impl Stamp {
    fn of(stat: &sys::Stat) -> Stamp {
        let permissions = if stat.file_type == FileType::File { stat.mode & 0o7777 } else { 0 };
        Stamp { ino: stat.ino, ctime: stat.ctime, size: stat.size, permissions }
    }
}

#[cfg(test)]
impl Stamp {
    pub(super) const ZERO: Stamp = Stamp { ino: 0, ctime: (0, 0), size: 0, permissions: 0 };
}

/// An entry of the upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Node {
    /// Any entry that is neither a directory nor a whiteout, such as a file or a symbolic link.
    Leaf(Stamp),
    /// Hides the path of the base.
    Whiteout,
    Directory(Below),
}

/// The nodes of an upper layer by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upper {
    nodes: BTreeMap<BString, Node>,
}

impl Upper {
    /// Reads the upper layer in the directory `upper`.
    pub fn read(upper: &Path, namespace: XattrNamespace) -> Result<Upper, Error> {
        let root = Dir::open(upper).map_err(|source| Error::io("open", upper, source))?;
        let mut found = Upper::default();
        found.add_directory(&root, upper, BStr::new(""), namespace)?;
        Ok(found)
    }

    /// Adds the entries of a directory. Returns true if a file in it marks it as opaque.
    fn add_directory(
        &mut self,
        root: &Dir,
        upper: &Path,
        dir: &BStr,
        namespace: XattrNamespace,
    ) -> Result<bool, Error> {
        let at = place(upper, dir);
        let mut is_opaque = false;
        for (name, kind) in by_path::list(&at).map_err(|source| Error::io("read", &at, source))? {
            let name = name.as_bytes().as_bstr();
            if namespace == XattrNamespace::Fuse
                && let Some(hidden) = name.strip_prefix(b".wh.")
            {
                match hidden {
                    b".opq" | b".wh..opq" => is_opaque = true,
                    _ => drop(self.nodes.insert(join(dir, hidden.as_bstr()), Node::Whiteout)),
                }
                continue;
            }
            let path = join(dir, name);
            let failed = |source| Error::io("read", &place(upper, path.as_bstr()), source);
            let node = match kind {
                FileType::Directory => {
                    let value = |name: &CStr| xattr::get_in(root, &path, name).map_err(failed);
                    let redirect = namespace.redirect().map(value).transpose()?.flatten();
                    let mut is_marked = false;
                    for name in namespace.opaque() {
                        // The value "x" only means that the directory may contain whiteouts stored
                        // as extended attributes.
                        is_marked |= value(name)?.is_some_and(|value| value == b"y");
                    }
                    is_marked |= self.add_directory(root, upper, path.as_bstr(), namespace)?;
                    let below = match (redirect, is_marked) {
                        (Some(_), _) => Below::Redirected,
                        (None, true) => Below::Opaque,
                        (None, false) => Below::Merged,
                    };
                    Node::Directory(below)
                }
                FileType::Other if xattr::is_whiteout(root, &path).map_err(failed)? => Node::Whiteout,
                _ => {
                    let stat = root.stat(&path).map_err(failed)?;
                    Node::Leaf(stat.map(|stat| Stamp::of(&stat)).unwrap_or_default())
                }
            };
            self.nodes.insert(path, node);
        }
        Ok(is_opaque)
    }

    /// Returns the latest change time of a file: seconds and nanoseconds.
    pub fn newest(&self) -> Option<(i64, u32)> {
        let time = |node: &Node| if let Node::Leaf(stamp) = node { Some(stamp.ctime) } else { None };
        self.nodes.values().filter_map(time).max()
    }

    /// Creates an upper layer from its nodes.
    #[cfg(test)]
    pub(super) fn of(nodes: &[(&str, Node)]) -> Upper {
        Upper { nodes: nodes.iter().map(|(path, node)| ((*path).into(), *node)).collect() }
    }

    /// Returns the node at `path`.
    pub fn get(&self, path: &BStr) -> Option<Node> {
        self.nodes.get(path).copied()
    }

    /// Iterates over all nodes, sorted by path.
    pub fn nodes(&self) -> impl Iterator<Item = (&BStr, Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_bstr(), *node))
    }

    /// Iterates over the nodes below directory `dir`.
    pub fn below(&self, dir: &BStr) -> impl Iterator<Item = (&BStr, Node)> {
        let start = join(dir, BStr::new(""));
        let end = start.clone();
        let nodes = self.nodes.range(start..).take_while(move |(path, _)| path.starts_with(&end));
        nodes.map(|(path, node)| (path.as_bstr(), *node))
    }

    /// Returns true if the base cannot be visible at `path`, because of an entry of the upper layer
    /// at this path or at a parent directory.
    pub fn hides(&self, path: &BStr) -> bool {
        match self.get(path) {
            Some(Node::Leaf(_) | Node::Whiteout) => true,
            Some(Node::Directory(_)) | None => self.hides_children(parent(path)),
        }
    }

    /// Returns true if nothing of the base's directory `dir` is visible.
    pub fn hides_children(&self, dir: Option<&BStr>) -> bool {
        let Some(dir) = dir else { return false };
        match self.get(dir) {
            Some(Node::Leaf(_) | Node::Whiteout | Node::Directory(Below::Opaque | Below::Redirected)) => true,
            Some(Node::Directory(Below::Merged)) | None => self.hides_children(parent(dir)),
        }
    }
}

/// Returns the parent directory of `path`; `None` for a path in the root.
pub(super) fn parent(path: &BStr) -> Option<&BStr> {
    path.rfind_byte(b'/').map(|at| path[..at].as_bstr())
}

/// Iterates over `path` and the directories above it, from the top.
pub(super) fn ancestors_from_root(path: &BStr) -> impl Iterator<Item = &BStr> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    ends.chain([path.len()]).map(|end| path[..end].as_bstr())
}

pub(super) fn join(dir: &BStr, name: &BStr) -> BString {
    if dir.is_empty() {
        name.to_owned()
    } else {
        bstr::concat([dir.as_bytes(), b"/", name.as_bytes()]).into()
    }
}

/// Returns the path on disk of a path below a directory.
pub(super) fn place(root: &Path, path: &BStr) -> PathBuf {
    if path.is_empty() { root.to_owned() } else { root.join(sys::os_str(path)) }
}
