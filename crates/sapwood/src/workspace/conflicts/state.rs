//! The present state of a workspace: its commit, its uncommitted paths, and both as one commit.

use std::{collections::BTreeMap, os::unix::ffi::OsStrExt as _};

use bstr::{BString, ByteSlice as _};
use engine::{
    add::{self, Edits, FileHasher, Store},
    tree_cache::TreeCache,
    workspace::{
        backend::Mounted,
        base::Bases,
        record::Workspace,
        uncommitted::{self, Change, Changes, Extent, Scene},
        upper::{self, Layer},
    },
};
use format::{Kind, Mode, ObjectId, hash::Hasher, index::Index};
use repo::{Repository, Worktree, keys, submodule::Ignore};
use store::objects::ObjectTransaction;
use sys::{Dir, FileType};

use super::{
    super::{durable, inner, mounts},
    Skipped,
};
use crate::{
    Error, Events, Silent,
    settings::Settings,
    status::{self, Untracked},
    text,
    worktree::records::{Worktrees, open_worktree},
};

/// The place of the files.
pub(super) enum Source {
    /// A workspace with an upper layer.
    Layers(Box<Workspace>, Worktree),
    /// A worktree whose files are visible here.
    Worktree(Worktree),
}

impl Source {
    /// Returns the source of a workspace.
    pub(super) fn of(worktrees: &Worktrees<'_>, workspace: Workspace) -> Result<Source, Skipped> {
        let name = BString::from(workspace.name.as_bytes());
        let skipped = |reason: &str| Err(Skipped::new(name.clone(), &Error::failed(reason)));
        if let Err(error) = workspace.refuse_begun() {
            return Err(Skipped::new(name, &error.into()));
        }
        if workspace.record.sealed.is_some() {
            return skipped("it is sealed");
        }
        match workspace.linked_worktree(worktrees.repo) {
            None => skipped("it has no administrative directory"),
            Some(worktree) if workspace.record.backend.has_upper() => {
                Ok(Source::Layers(Box::new(workspace), worktree))
            }
            Some(worktree) => Ok(Source::Worktree(worktree)),
        }
    }

    fn worktree(&self) -> &Worktree {
        match self {
            Source::Layers(_, worktree) | Source::Worktree(worktree) => worktree,
        }
    }
}

/// A workspace that is compared with others.
pub(super) struct Participant {
    pub(super) name: BString,
    /// The commit of HEAD.
    pub(super) head: ObjectId,
    /// The uncommitted paths.
    pub(super) changes: Changes,
    source: Source,
}

impl Participant {
    /// Finds the uncommitted paths.
    pub(super) fn of(
        worktrees: &Worktrees<'_>,
        trees: &TreeCache<'_>,
        source: Source,
    ) -> Result<Participant, Skipped> {
        let worktree = source.worktree();
        let id = worktree.id.clone().unwrap_or_default();
        let name = BString::from(id.as_bytes());
        let head = worktrees.repo.head_of(worktree).oid;
        if head.is_null() {
            return Err(Skipped::new(name, &Error::failed("it has no commit yet")));
        }
        match changes(worktrees, trees, &source, head, Store::HashOnly) {
            Ok(changes) => Ok(Participant { name, head, changes, source }),
            Err(error) => Err(Skipped::new(name, &error)),
        }
    }

    /// Returns a commit of the present state, which is HEAD if nothing is uncommitted. Its objects
    /// are staged.
    pub(super) fn commit(
        &self,
        worktrees: &Worktrees<'_>,
        trees: &TreeCache<'_>,
        transaction: &ObjectTransaction<'_>,
    ) -> Result<ObjectId, Error> {
        if self.changes.is_empty() {
            return Ok(self.head);
        }
        let changes = changes(worktrees, trees, &self.source, self.head, Store::Write(transaction))?;
        let edits: Edits = changes.into_iter().map(|(path, change)| (path, change.new)).collect();
        let root = worktrees.repo.tree_of(self.head)?;
        let tree = add::edit_tree(trees, transaction, Some(root), &edits)
            .map_err(|error| Error::failed(error.to_string()))?;
        let who = "sapwood <> 0 +0000";
        let head = self.head;
        let content = format!("tree {tree}\nparent {head}\nauthor {who}\ncommitter {who}\n\n");
        let mut hasher = Hasher::object(worktrees.repo.hash(), "commit", content.len() as u64);
        hasher.update(content.as_bytes());
        let oid = hasher.finish().map_err(|_| Error::failed("a commit collides in SHA-1"))?;
        transaction.write(&oid, Kind::Commit, content.as_bytes())?;
        Ok(oid)
    }
}

/// Returns the uncommitted paths: from the upper layer if it decides them, else by a status.
fn changes(
    worktrees: &Worktrees<'_>,
    trees: &TreeCache<'_>,
    source: &Source,
    head: ObjectId,
    store: Store<'_>,
) -> Result<Changes, Error> {
    let (workspace, worktree) = match source {
        Source::Worktree(worktree) => return by_status(worktrees, worktree, store),
        Source::Layers(workspace, worktree) => (workspace, worktree),
    };
    match of_upper(worktrees, trees, workspace, head, store) {
        Err(Error::Uncommitted(error)) => match *error {
            uncommitted::Error::Unsure(_) if mounts::state(workspace)? == Mounted::Here => {
                by_status(worktrees, worktree, store)
            }
            error => Err(error.into()),
        },
        found => found,
    }
}

fn of_upper(
    worktrees: &Worktrees<'_>,
    trees: &TreeCache<'_>,
    workspace: &Workspace,
    head: ObjectId,
    store: Store<'_>,
) -> Result<Changes, Error> {
    let (Some(layer), Some(base)) = (Layer::of(workspace), &workspace.record.base) else {
        return Err(Error::failed("it has no upper layer"));
    };
    if inner::exist(workspace)? {
        return Err(uncommitted::Error::Unsure("submodules").into());
    }
    let list = upper::changed_paths(&layer).map_err(|error| Error::failed(error.to_string()))?;
    let base = Bases::at(&base.dir).get(&base.name)?.tree;
    let repo = durable::open_unmounted(worktrees.repo, &worktrees.common, workspace)?;
    let head = Some(worktrees.repo.tree_of(head)?);
    let big_file_threshold = Settings::read(&repo, &Silent)?.big_file_threshold;
    let scene = Scene { repo: &repo, layer: &layer, list: &list, base, head, big_file_threshold };
    Ok(uncommitted::changes(&scene, trees, Extent::All, store)?)
}

/// Returns the uncommitted paths of a worktree whose files are visible here.
fn by_status(worktrees: &Worktrees<'_>, worktree: &Worktree, store: Store<'_>) -> Result<Changes, Error> {
    let repo = open_worktree(worktrees.repo, worktree)?;
    let settings = Settings::read(&repo, &Silent)?;
    let root = Dir::open(&worktree.path)
        .map_err(|source| Error::CannotOpen { path: worktree.path.clone(), source })?;
    let request = status::Request {
        untracked: Untracked::All,
        submodules: Some(Ignore::Dirty),
        renames: status::Renames { detect: None, ..status::Renames::default() },
        ..status::Request::default()
    };
    let silent: &dyn Events = &Silent;
    let context = crate::Context { events: silent, ..worktrees.context(&repo, &settings) };
    let status = status::examine(context, &root, &request, status::Source::File)?.status;
    let index = Index::empty(repo.hash());
    let mut hasher = FileHasher::new(&repo, &root, settings.big_file_threshold);
    let mut found = BTreeMap::new();
    let untracked = status.untracked.iter().map(|path| (path, None));
    for (path, change) in status.changes.iter().map(|(path, change)| (path, Some(change))).chain(untracked) {
        let sides = change.into_iter().flat_map(|change| [change.head_side, change.index_side]).flatten();
        if sides.into_iter().any(|(mode, _)| mode.is_gitlink()) {
            return Err(uncommitted::Error::Unsure("a changed submodule").into());
        }
        let old = change.and_then(|change| change.head_side);
        let new = match change {
            Some(change) if change.worktree.is_none() => change.index_side,
            _ => file(&repo, &root, &mut hasher, &index, path, store)?,
        };
        found.insert(path.clone(), Change { old, new });
    }
    Ok(found)
}

/// Returns the entry that a file would have.
fn file(
    repo: &Repository,
    root: &Dir,
    hasher: &mut FileHasher<'_>,
    index: &Index,
    path: &BString,
    store: Store<'_>,
) -> Result<Option<(Mode, ObjectId)>, Error> {
    let failed = |reason: String| Error::Failed(text!("cannot read '", path, "': ", reason));
    let stat = root.stat(path).map_err(|error| failed(sys::reason(&error)))?;
    let has_file_mode = repo.config(&keys::core::FILE_MODE)?;
    let Some(stat) = stat else { return Ok(None) };
    let mode = match stat.file_type {
        FileType::Symlink => Mode::SYMLINK,
        FileType::File if has_file_mode && stat.mode & 0o100 != 0 => Mode::EXECUTABLE,
        FileType::File => Mode::FILE,
        // A directory in place of a file has paths of its own.
        FileType::Directory | FileType::Other => return Ok(None),
    };
    let oid = hasher.hash(path.as_bstr(), &stat, index, store);
    Ok(Some((mode, oid.map_err(|error| failed(error.to_string()))?)))
}
