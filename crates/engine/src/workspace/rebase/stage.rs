//! The part of a rebase before its journal: all results are staged.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Index, Stage, Stat};
use repo::Repository;
use store::{Fsync, index::WriteOptions};
use sys::{Dir, FileType, by_path};

use super::{
    Error, Layout,
    journal::{self, Head, Journal, create_parents, make_directory},
    walk::{Below, Node, Upper, XattrNamespace, join, place},
};
use crate::workspace::{
    base::{Base, Monitor},
    record::{BaseRef, Workspace},
};

/// The worktree and its upper layer, before a switch is planned.
pub struct View {
    /// The upper layer.
    pub upper: Upper,
    /// Files of the base that are visible below renamed directories, sorted.
    pub renamed: Vec<BString>,
    /// Empty directories, sorted.
    pub empty: Vec<BString>,
}

/// The maximum granularity of file times. A file that changes twice within this time may keep its
/// change time.
const TICK: Duration = Duration::from_millis(20);

impl View {
    /// Reads the upper layer of a mounted workspace. `worktree` is the root of the mount.
    pub fn read(workspace: &Workspace, worktree: &Dir, namespace: XattrNamespace) -> Result<View, Error> {
        let mut upper = Upper::read(&workspace.upper(), namespace)?;
        if upper.newest().is_some_and(is_recent) {
            std::thread::sleep(TICK);
            upper = Upper::read(&workspace.upper(), namespace)?;
        }
        let (mut renamed, mut empty) = (Vec::new(), Vec::new());
        for (path, node) in upper.nodes() {
            let Node::Directory(below) = node else { continue };
            if below == Below::Redirected {
                walk_renamed(worktree, &upper, path, &mut renamed)?;
            }
            let list = worktree.open_dir(path).and_then(|dir| dir.is_empty());
            if list.map_err(|source| Error::io("read", &worktree_path(workspace, path), source))? {
                empty.push(path.to_owned());
            }
        }
        renamed.sort();
        renamed.dedup();
        Ok(View { upper, renamed, empty })
    }
}

fn worktree_path(workspace: &Workspace, path: &BStr) -> PathBuf {
    place(&workspace.record.dir, path)
}

fn is_recent(time: (i64, u32)) -> bool {
    let time = Duration::new(u64::try_from(time.0).unwrap_or(0), time.1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.is_ok_and(|now| time + TICK > now)
}

/// Adds the files below a renamed directory that are not in the upper layer.
fn walk_renamed(worktree: &Dir, upper: &Upper, dir: &BStr, found: &mut Vec<BString>) -> Result<(), Error> {
    let failed = |source| Error::io("read", Path::new(sys::os_str(dir)), source);
    for (name, kind) in worktree.open_dir(dir).and_then(|dir| dir.list()).map_err(failed)? {
        let path = join(dir, name.as_bstr());
        match kind {
            FileType::Directory => walk_renamed(worktree, upper, path.as_bstr(), found)?,
            _ if upper.get(path.as_bstr()).is_none() => found.push(path),
            _ => {}
        }
    }
    Ok(())
}

/// A rebase that is complete except for the moves of files.
pub struct Staged<'a> {
    workspace: &'a Workspace,
    view: View,
    layout: Layout,
    base: BaseRef,
}

impl<'a> Staged<'a> {
    /// Stages the new upper layer and the new index. `after` is the index after the switch. After a
    /// failure nothing is left behind.
    pub fn prepare(
        repo: &Repository,
        workspace: &'a Workspace,
        worktree: &Dir,
        (view, layout): (View, Layout),
        base: &Base,
        after: &Index,
        (options, fsync): (&WriteOptions, &Fsync),
    ) -> Result<Staged<'a>, Error> {
        journal::forget(workspace)?;
        let rest = journal::old_upper(workspace);
        if by_path::stat(&rest).map_err(|source| Error::io("look at", &rest, source))?.is_some() {
            return Err(Error::io("replace", &rest, std::io::ErrorKind::AlreadyExists.into()));
        }
        let dir = base.dir.parent().unwrap_or(&base.dir).to_owned();
        let base_ref = BaseRef { dir, name: base.name.clone() };
        let prepared = write_upper(workspace, worktree, &layout)
            .and_then(|()| write_newer(workspace, &layout, base))
            .and_then(|stats| write_index(repo, workspace, &layout, base, (after, stats), (options, fsync)));
        if let Err(error) = prepared {
            let _ = journal::forget(workspace);
            return Err(error);
        }
        Ok(Staged { workspace, view, layout, base: base_ref })
    }

    /// Returns true if the upper layer has not changed since the switch was planned. The workspace
    /// must not be mounted.
    pub fn is_current(&self, namespace: XattrNamespace) -> Result<bool, Error> {
        Ok(Upper::read(&self.workspace.upper(), namespace)? == self.view.upper)
    }

    /// Removes everything that was staged.
    pub fn abandon(self) -> Result<(), Error> {
        journal::forget(self.workspace)
    }

    /// Writes the journal. From here on, the rebase can only be completed.
    pub fn commit(self, head: Head, message: BString, fsync: &Fsync) -> Result<Journal, Error> {
        // The copies and the index were not synced one by one.
        let (upper, index) = (journal::new_upper(self.workspace), journal::directory(self.workspace));
        let sync =
            |dir: &Path| sys::mount::sync_file_system(dir).map_err(|source| Error::io("sync", dir, source));
        sync(&upper)?;
        let device = |dir: &Path| by_path::stat(dir).ok().flatten().map(|stat| stat.dev);
        if device(&upper) != device(&index) {
            sync(&index)?;
        }
        let journal = Journal { base: self.base, head, message, moves: self.layout.moves };
        journal.write(self.workspace, fsync)?;
        Ok(journal)
    }
}

/// Writes the parts of the new upper layer that do not come from the old one.
fn write_upper(workspace: &Workspace, worktree: &Dir, layout: &Layout) -> Result<(), Error> {
    let (old, new) = (workspace.upper(), journal::new_upper(workspace));
    by_path::create_dir(&new).map_err(|source| Error::io("create", &new, source))?;
    if let Some(stat) = by_path::stat(&old).map_err(|source| Error::io("look at", &old, source))? {
        by_path::set_mode(&new, stat.mode & 0o7777).map_err(|source| Error::io("change", &new, source))?;
    }
    for path in &layout.moves {
        create_parents(worktree, &new, path.as_bstr())?;
    }
    for path in &layout.directories {
        make_directory(worktree, &new, path.as_bstr())?;
    }
    for path in &layout.copies {
        create_parents(worktree, &new, path.as_bstr())?;
        let to = place(&new, path.as_bstr());
        copy(worktree, path.as_bstr(), &to).map_err(|source| Error::io("copy a file to", &to, source))?;
    }
    for path in &layout.whiteouts {
        create_parents(worktree, &new, path.as_bstr())?;
        let at = place(&new, path.as_bstr());
        by_path::create_whiteout(&at).map_err(|source| Error::io("create", &at, source))?;
    }
    Ok(())
}

/// Writes the new newer layer, if there is one or the workspace has one. Returns the stat data of
/// its files.
fn write_newer(workspace: &Workspace, layout: &Layout, base: &Base) -> Result<Vec<(BString, Stat)>, Error> {
    if layout.newer.is_empty() && !workspace.record.layers.contains(&workspace.newer()) {
        return Ok(Vec::new());
    }
    Ok(layout.newer.write(base, &workspace.record.door, &journal::new_newer(workspace))?)
}

/// Copies a file or a link of the worktree, with its permissions and modification time.
fn copy(worktree: &Dir, path: &BStr, to: &Path) -> std::io::Result<()> {
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let stat = worktree.stat(path)?.ok_or_else(missing)?;
    if stat.file_type == FileType::Symlink {
        return by_path::symlink(Path::new(sys::os_str(&worktree.read_link(path)?)), to);
    }
    let (from, to) = (worktree.open_file(path)?, by_path::create_new(to, 0o600)?);
    sys::copy(&from, &to)?;
    sys::set_mode(&to, stat.mode & 0o7777)?;
    let since = Duration::new(u64::try_from(stat.mtime.0).unwrap_or(0), stat.mtime.1);
    to.set_modified(UNIX_EPOCH + since)
}

/// Waits until the clock shows a later second than that of the base's files. Git compares whole
/// seconds, and hashes each file that is not older than the index.
fn wait_until_older(base: &Base) {
    let Some((seconds, _)) = base.time() else { return };
    let later = Duration::from_secs(seconds + 1) + TICK;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // If the clock was set back, Git hashes the files once.
    std::thread::sleep(later.saturating_sub(now).min(Duration::from_secs(1) + TICK));
}

/// Writes the index of the workspace on its new base: the base's index with the layout's edits.
fn write_index(
    repo: &Repository,
    workspace: &Workspace,
    layout: &Layout,
    base: &Base,
    (after, stats): (&Index, Vec<(BString, Stat)>),
    (options, fsync): (&WriteOptions, &Fsync),
) -> Result<(), Error> {
    wait_until_older(base);
    let dir = journal::directory(workspace);
    by_path::create_dir(&dir).map_err(|source| Error::io("create", &dir, source))?;
    base.install_index(repo, &dir, &workspace.record.dir, Monitor::UpperLayer, fsync)?;
    let path = dir.join("index");
    let lock = store::index::lock(&path, &store::LockOptions::default())?;
    let mut index = store::index::load(&path, after.hash, &store::index::ReadOptions::default())?;
    let edits = layout.edits(&index, after);
    index.apply(edits);
    for (path, stat) in stats {
        if let Ok(at) = index.position(path.as_bstr(), Stage::Normal) {
            index.update(at, |entry| entry.stat = stat);
        }
    }
    index.resolve_undo = after.resolve_undo.clone();
    store::index::commit(lock, &mut index, options, fsync, &|_, _| false)?;
    Ok(())
}
