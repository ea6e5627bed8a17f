//! Notes of pulls, in a repository's `sapwood/pulled/`. They are empty files.
//!
//! - `<digest>`: the pack with this digest came. Without the note it is fetched once more.
//! - `commit-<id>`: the commit was not here when its base came. So it is no work of this
//!   repository's user that a removed workspace could lose. The note is written before the commit
//!   arrives.
//!
//! A pull removes notes that were not used for a long time, except for commits that are the HEAD of
//! a worktree. A note is not bound to a pack here: `git gc` makes one pack of many.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::SystemTime,
};

use format::{HashKind, ObjectId, base_files::Digest};
use sys::by_path;

use super::{Context, Error, stock};

/// The beginning of the name of a commit's note.
const COMMIT: &str = "commit-";

fn dir(common: &Path) -> PathBuf {
    common.join("sapwood").join("pulled")
}

/// Returns true if a pack came, and renews the note.
pub(super) fn has_pack(context: &Context<'_>, digest: &Digest) -> bool {
    let note = by_path::open(&dir(context.repo.common_dir()).join(digest.to_string()));
    note.is_ok_and(|note| {
        let _ = note.set_modified(SystemTime::now());
        true
    })
}

/// Notes a pack. A note that cannot be written costs a transfer.
pub(super) fn note_pack(context: &Context<'_>, digest: &Digest) {
    let _ = note(context, &digest.to_string());
}

/// Notes a commit that is not here yet.
pub(super) fn note_commit(context: &Context<'_>, commit: &ObjectId) -> Result<(), Error> {
    let name = format!("{COMMIT}{commit}");
    let failed =
        |source| Error::Io { action: "write", path: dir(context.repo.common_dir()).join(&name), source };
    note(context, &name).map_err(failed)
}

fn note(context: &Context<'_>, name: &str) -> std::io::Result<()> {
    let dir = dir(context.repo.common_dir());
    context.locks.shared.create_dir_all(&dir)?;
    by_path::append(&dir.join(name), true, 0o666).map(drop)
}

/// Returns true if the commit came with a base. `common` is the common directory of the repository.
/// Its ancestors may be commits of the user that nobody else has.
pub fn has_commit(common: &Path, commit: &ObjectId) -> bool {
    matches!(by_path::stat(&dir(common).join(format!("{COMMIT}{commit}"))), Ok(Some(_)))
}

fn commit_of(hash: HashKind, name: &OsStr) -> Option<ObjectId> {
    ObjectId::from_hex(hash, name.to_str()?.strip_prefix(COMMIT)?.as_bytes())
}

/// Removes the notes that nobody needs.
pub(super) fn forget_unused(context: &Context<'_>) {
    let repo = context.repo;
    // Without a list of worktrees, any may need a note.
    let Ok(worktrees) = repo.worktrees() else { return };
    let heads: Vec<ObjectId> = worktrees.iter().map(|worktree| repo.head_of(worktree).oid).collect();
    let is_needed = |name: &OsStr| commit_of(repo.hash(), name).is_some_and(|oid| heads.contains(&oid));
    stock::remove_unused(&dir(repo.common_dir()), &is_needed);
}
