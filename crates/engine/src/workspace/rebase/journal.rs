//! The journal of a rebase, and the steps after it is written. Each step can be repeated.
//!
//! The journal is a list of fields, each ended by a NUL: a version; the base directory and the name
//! of the base; the kind and the name of the new HEAD; the message for its reflog; and the paths to
//! move.

use std::{
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use store::{Components, Fsync, Lock, LockOptions};
use sys::{by_path, xattr};

use super::{
    Error,
    walk::{XattrNamespace, parent, place},
};
use crate::workspace::record::{BaseRef, Workspace};

const VERSION: &str = "sapwood rebase 1";

/// The new HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch by its full name.
    Branch(BString),
    /// A commit, in hexadecimal digits.
    Detached(BString),
}

/// A rebase that can no longer be abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// The new base.
    pub base: BaseRef,
    /// The new HEAD.
    pub head: Head,
    /// The message for the reflog of HEAD.
    pub message: BString,
    /// The paths of the old upper layer that move to the new one.
    pub moves: Vec<BString>,
}

/// Returns the directory of a rebase in the state of its workspace.
pub(super) fn directory(workspace: &Workspace) -> PathBuf {
    workspace.state.join("rebase")
}

fn path(workspace: &Workspace) -> PathBuf {
    directory(workspace).join("journal")
}

/// Returns the path of the new upper layer, until it replaces the old one.
pub(super) fn new_upper(workspace: &Workspace) -> PathBuf {
    workspace.upper().with_file_name("upper.new")
}

pub(super) fn old_upper(workspace: &Workspace) -> PathBuf {
    workspace.upper().with_file_name("upper.old")
}

/// Returns the path of the new newer layer, until it replaces the old one.
pub(super) fn new_newer(workspace: &Workspace) -> PathBuf {
    workspace.newer().with_file_name("newer.new")
}

fn old_newer(workspace: &Workspace) -> PathBuf {
    workspace.newer().with_file_name("newer.old")
}

impl Journal {
    /// Reads the journal of a workspace. Returns `None` if there is no journal.
    pub fn read(workspace: &Workspace) -> Result<Option<Journal>, Error> {
        let path = path(workspace);
        let content = by_path::read(&path).map_err(|source| Error::io("read", &path, source))?;
        let parsed = content.map(|content| Journal::parse(&content).ok_or(Error::Damaged { path }));
        parsed.transpose()
    }

    fn parse(content: &[u8]) -> Option<Journal> {
        let mut fields = content.strip_suffix(b"\0")?.split(|byte| *byte == 0).map(BString::from);
        fields.next().filter(|version| version == VERSION)?;
        let dir = sys::os_str(&fields.next()?).into();
        let base = BaseRef { dir, name: fields.next()?.to_string() };
        let head = match fields.next()?.as_slice() {
            b"branch" => Head::Branch(fields.next()?),
            b"detached" => Head::Detached(fields.next()?),
            _ => return None,
        };
        Some(Journal { base, head, message: fields.next()?, moves: fields.collect() })
    }

    pub(super) fn write(&self, workspace: &Workspace, fsync: &Fsync) -> Result<(), Error> {
        let (kind, name) = match &self.head {
            Head::Branch(name) => ("branch", name),
            Head::Detached(name) => ("detached", name),
        };
        let head: [&BStr; 6] = [
            VERSION.into(),
            self.base.dir.as_os_str().as_bytes().into(),
            self.base.name.as_str().into(),
            kind.into(),
            name.as_bstr(),
            self.message.as_bstr(),
        ];
        let mut content = Vec::new();
        for field in head.into_iter().chain(self.moves.iter().map(|path| path.as_bstr())) {
            content.extend_from_slice(field);
            content.push(0);
        }
        // The journal must be durable before files are moved, regardless of the configured sync
        // policy.
        let fsync = Fsync { components: Components::all(), ..*fsync };
        let mut lock = Lock::take(&path(workspace), &LockOptions::default())?;
        lock.write(&content)?;
        Ok(lock.commit_synced(&fsync, Components::all())?)
    }
}

/// Installs the new upper layer, base and index of a workspace, which must not be mounted. `admin`
/// is its administrative directory. The caller holds the workspace's lock. Returns the changed
/// workspace.
pub fn carry_out(
    workspace: &Workspace,
    journal: &Journal,
    admin: &Path,
    namespace: XattrNamespace,
    fsync: &Fsync,
) -> Result<Workspace, Error> {
    let (old, new) = (workspace.upper(), new_upper(workspace));
    if is_there(&new)? {
        if is_there(&old)? {
            for path in &journal.moves {
                move_path(&old, &new, path.as_bstr(), namespace)?;
            }
            let aside = old_upper(workspace);
            by_path::rename(&old, &aside).map_err(|source| Error::io("rename", &old, source))?;
        }
        by_path::rename(&new, &old).map_err(|source| Error::io("rename", &new, source))?;
    }
    let mut moved = workspace.clone();
    moved.record.base = Some(journal.base.clone());
    replace_newer(&mut moved)?;
    moved.store(fsync)?;
    install_index(workspace, admin)?;
    // The snapshots of old tokens describe the old upper layer.
    remove(&workspace.state.join("snapshots"))?;
    Ok(moved)
}

/// Puts the new newer layer in the place of the old one.
fn replace_newer(workspace: &mut Workspace) -> Result<(), Error> {
    let (new, place) = (new_newer(workspace), workspace.newer());
    if is_there(&new)? {
        if is_there(&place)? {
            let aside = old_newer(workspace);
            remove(&aside)?;
            by_path::rename(&place, &aside).map_err(|source| Error::io("rename", &place, source))?;
        }
        by_path::rename(&new, &place).map_err(|source| Error::io("rename", &new, source))?;
    }
    if is_there(&place)? && !workspace.record.layers.contains(&place) {
        workspace.record.layers.insert(0, place);
    }
    Ok(())
}

/// Moves one path, unless it is already moved.
fn move_path(old: &Path, new: &Path, path: &BStr, namespace: XattrNamespace) -> Result<(), Error> {
    let (from, to) = (place(old, path), place(new, path));
    match by_path::rename_new(&from, &to) {
        // A path that is already moved is missing in the old upper layer.
        Err(error) if error.kind() == ErrorKind::NotFound && is_there(&to)? => {}
        moved => moved.map_err(|source| Error::io("move", &from, source))?,
    }
    remove_origins(&to, namespace)
}

/// Removes the origin attributes of copied-up files, which refer to files of the old base.
/// overlayfs treats files with the same origin as one file, and the new base may show that file
/// again.
fn remove_origins(path: &Path, namespace: XattrNamespace) -> Result<(), Error> {
    let failed = |source| Error::io("change", path, source);
    let Some(stat) = by_path::stat(path).map_err(failed)? else { return Ok(()) };
    let holds_attributes = match namespace {
        XattrNamespace::Trusted => true,
        // The kernel keeps `user.*` from links and devices.
        XattrNamespace::User | XattrNamespace::Fuse => {
            matches!(stat.file_type, sys::FileType::File | sys::FileType::Directory)
        }
    };
    if holds_attributes {
        namespace.origins().iter().try_for_each(|origin| xattr::remove(path, origin)).map_err(failed)?;
    }
    if stat.file_type == sys::FileType::Directory {
        for (name, _) in by_path::list(path).map_err(failed)? {
            remove_origins(&path.join(name), namespace)?;
        }
    }
    Ok(())
}

/// Moves the staged index and its shared half into the administrative directory.
fn install_index(workspace: &Workspace, admin: &Path) -> Result<(), Error> {
    let dir = directory(workspace);
    let mut names: Vec<_> = match by_path::list(&dir) {
        Ok(names) => names.into_iter().map(|(name, _)| name).collect(),
        Err(source) => return Err(Error::io("read", &dir, source)),
    };
    // The shared half comes first, because the index refers to it.
    names.retain(|name| name == "index" || name.as_bytes().starts_with(b"sharedindex."));
    names.sort_by_key(|name| name == "index");
    for name in names {
        let (from, to) = (dir.join(&name), admin.join(&name));
        by_path::rename(&from, &to).map_err(|source| Error::io("rename", &from, source))?;
    }
    Ok(())
}

/// Removes the state of a completed rebase. Returns the old layers, which the caller deletes. Their
/// remaining files equal the new base's, or were removed by the switch.
pub fn conclude(workspace: &Workspace) -> Result<Vec<PathBuf>, Error> {
    remove(&directory(workspace))?;
    let mut old = Vec::new();
    for layer in [old_upper(workspace), old_newer(workspace)] {
        if is_there(&layer)? {
            old.push(layer);
        }
    }
    Ok(old)
}

/// Removes the leftovers of a rebase that has not changed anything yet. Does nothing if there is a
/// journal.
pub fn forget(workspace: &Workspace) -> Result<(), Error> {
    if is_there(&path(workspace))? {
        return Ok(());
    }
    remove(&directory(workspace))?;
    remove(&new_newer(workspace))?;
    remove(&new_upper(workspace))
}

fn remove(path: &Path) -> Result<(), Error> {
    match by_path::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| Error::io("remove", path, source)),
    }
}

fn is_there(path: &Path) -> Result<bool, Error> {
    let found = by_path::stat(path).map_err(|source| Error::io("look at", path, source))?;
    Ok(found.is_some())
}

/// Creates the parent directories of a path in the new upper layer, with the permissions that they
/// have in the worktree.
pub(super) fn create_parents(view: &sys::Dir, root: &Path, path: &BStr) -> Result<(), Error> {
    match parent(path) {
        Some(dir) => make_directory(view, root, dir),
        None => Ok(()),
    }
}

/// Creates a directory in the new upper layer, with its parents.
pub(super) fn make_directory(view: &sys::Dir, root: &Path, dir: &BStr) -> Result<(), Error> {
    let at = place(root, dir);
    if is_there(&at)? {
        return Ok(());
    }
    create_parents(view, root, dir)?;
    by_path::create_dir(&at).map_err(|source| Error::io("create", &at, source))?;
    let found = view.stat(dir).map_err(|source| Error::io("look at", &at, source))?;
    match found.filter(|stat| stat.file_type == sys::FileType::Directory) {
        Some(stat) => {
            let mode = stat.mode & 0o7777;
            by_path::set_mode(&at, mode).map_err(|source| Error::io("change", &at, source))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_hold_any_path() {
        let journal = Journal {
            base: BaseRef { dir: "/a\nb".into(), name: "12ab".into() },
            head: Head::Branch("refs/heads/x".into()),
            message: "".into(),
            moves: vec!["a".into(), "b\nc".into(), "\u{e9}".into()],
        };
        let dir = tempfile::tempdir().expect("a directory for tests");
        let record = crate::workspace::record::Record {
            dir: "/w".into(),
            backend: crate::workspace::backend::Backend::Image,
            base: None,
            layers: Vec::new(),
            place: None,
            durability: None,
            activity: crate::workspace::record::Activity::Active,
            sealed: None,
            door: Default::default(),
            project: None,
        };
        let workspace = Workspace { name: "w".into(), state: dir.path().to_owned(), record };
        assert_eq!(Journal::read(&workspace).expect("none yet"), None);
        by_path::create_dir(&directory(&workspace)).expect("created");
        journal.write(&workspace, &Fsync::default()).expect("written");
        assert_eq!(Journal::read(&workspace).expect("read"), Some(journal));
        assert_eq!(Journal::parse(b"sapwood rebase 1\0"), None);
        assert_eq!(Journal::parse(b"sapwood rebase 1\0/d\0"), None);
        assert_eq!(Journal::parse(b"sapwood rebase 2\0/d\0b\0branch\0n\0m\0"), None);
    }
}
