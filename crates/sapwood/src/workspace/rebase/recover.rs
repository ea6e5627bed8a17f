//! Completing a rebase that was killed, and removing its old layers.

use std::path::Path;

use bstr::ByteSlice as _;
use engine::{
    switch::{self, Target},
    trash::Trash,
    workspace::{
        backend::{Backend, Door},
        rebase::{self, Head, Journal, XattrNamespace},
        record::{self, Workspace},
        remove::discard as discard_own,
    },
};
use format::ObjectId;
use repo::Worktree;

use crate::{
    Context, Error, Notice, refs, settings::Settings, text, trash, workspace::durable,
    worktree::records::Worktrees,
};

/// Returns the extended attributes in which the backend of a workspace marks deletions.
pub(super) fn namespace(workspace: &Workspace) -> XattrNamespace {
    match (workspace.record.backend, &workspace.record.door) {
        (Backend::OverlayUser, _) | (_, Door::Service(_)) => XattrNamespace::User,
        (Backend::Fuse, _) => XattrNamespace::Fuse,
        _ => XattrNamespace::Trusted,
    }
}

/// Returns the worktree of a workspace.
pub(super) fn worktree_of(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<Worktree, Error> {
    workspace.linked_worktree(worktrees.repo).ok_or_else(|| {
        let name = workspace.name.as_encoded_bytes();
        Error::Failed(text!("'", name, "' has lost its administrative directory"))
    })
}

/// Removes the journal and the old layers. Also removes an old upper layer that a killed process
/// has left.
pub fn discard_old(worktrees: &Worktrees<'_>, workspace: &Workspace) -> Result<(), Error> {
    let old = rebase::conclude(workspace)?;
    if old.is_empty() {
        return Ok(());
    }
    old.iter().for_each(|layer| move_to_trash(worktrees, layer));
    if workspace.record.backend == Backend::OverlayUser {
        // A process in the background would stay in the namespace of the workspace, and keep it in
        // use.
        let _ = engine::trash::empty(&worktrees.common, sys::cores(), worktrees.interrupt);
    } else {
        trash::empty(&worktrees.common, worktrees.events.program().as_deref());
    }
    Ok(())
}

/// Removes a directory that belongs to sapwood, through the trash.
pub fn discard(worktrees: &Worktrees<'_>, old: &Path) {
    move_to_trash(worktrees, old);
    trash::empty(&worktrees.common, worktrees.events.program().as_deref());
}

fn move_to_trash(worktrees: &Worktrees<'_>, old: &Path) {
    let shared = worktrees.shared_or_default();
    let mut discarded = Trash::new(&worktrees.common, shared, sys::cores(), worktrees.interrupt);
    // The next `workspace gc` removes the rest.
    let _ = discard_own(&mut discarded, old);
}

/// Reads the record again, and completes a rebase that was killed. The caller holds the workspace's
/// lock. Returns the updated workspace.
pub fn recover(
    worktrees: &Worktrees<'_>,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<Workspace, Error> {
    // Another command may have changed the record before the caller got the lock.
    let workspace = &record::find(&worktrees.common, &workspace.name)?;
    let Some(journal) = Journal::read(workspace)? else {
        rebase::forget(workspace)?;
        discard_old(worktrees, workspace)?;
        return Ok(workspace.clone());
    };
    worktree_of(worktrees, workspace)?;
    let admin = worktrees.common.join("worktrees").join(&workspace.name);
    let fsync = &settings.fsync;
    let moved = rebase::carry_out(workspace, &journal, &admin, namespace(workspace), fsync)?;
    ["index", "HEAD"].iter().for_each(|name| record::clear_stale_lock(&admin.join(name)));
    let repo = durable::open_unmounted(worktrees.repo, &worktrees.common, &moved)?;
    let settings = Settings::read(&repo, worktrees.events)?.for_recording();
    move_head(worktrees.context(&repo, &settings), &journal)?;
    discard_old(worktrees, &moved)?;
    worktrees.events.notice(Notice::RebaseCompleted(workspace.name.clone()));
    Ok(moved)
}

fn move_head(context: Context<'_>, journal: &Journal) -> Result<(), Error> {
    let head = context.repo.head()?;
    let detached;
    let target = match &journal.head {
        Head::Branch(name) if head.branch() == Some(name.as_bstr()) => return Ok(()),
        Head::Branch(name) => Target::Branch(name.as_bstr()),
        Head::Detached(name) => {
            let oid = ObjectId::from_hex(context.repo.hash(), name);
            detached = oid.ok_or_else(|| Error::failed("damaged journal"))?;
            if head.branch().is_none() && head.oid() == Some(detached) {
                return Ok(());
            }
            Target::Commit(detached)
        }
    };
    Ok(switch::move_head(&refs::options(context)?, target, journal.message.as_bstr())?)
}
