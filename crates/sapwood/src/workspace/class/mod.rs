//! The classes of workspaces: landed, pushed, unsaved, live, and idle since when.
//!
//! One pass each over history, the stash, the mounts and the processes serves all workspaces. For
//! each one the administrative directory is read, and the upper layer is compared with HEAD's tree:
//! nothing that grows with the number of files of the commit, and no process starts. A state that
//! this does not decide counts as unsaved.
//!
//! Design: docs/design/workspace-budget.md.

mod landed;
mod live;
mod patch;
mod unsaved;

use std::{collections::BTreeSet, path::Path};

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    record::Workspace,
    upper::{self, Layer, Line, List},
};
use format::ObjectId;
use repo::{WorktreeHead, WorktreeHeadKind};
use sys::{MountTable, by_path};

use self::landed::History;
pub use self::live::Users;
pub(super) use self::unsaved::OPERATIONS;
use super::mounts;
use crate::{
    Error,
    worktree::records::{Worktrees, lock_reason},
};

/// The classes of a workspace. It may belong to several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The branch that has its commits, or equal ones: the default branch, or the upstream.
    pub landed: Option<BString>,
    /// A remote-tracking branch contains HEAD.
    pub pushed: bool,
    /// A commit was made in the workspace.
    pub has_moved: bool,
    /// The reason why its removal would lose something, or might.
    pub unsaved: Option<Unsaved>,
    /// A process that uses it.
    pub live: Option<u32>,
    /// The time of the last change that left a trace, in seconds since 1970.
    pub idle_since: i64,
    /// It is locked by `worktree lock`, or by a command that creates it.
    pub is_locked: bool,
}

/// Why the removal of a workspace would lose something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsaved {
    /// This path differs from HEAD, or is untracked and not ignored.
    Changed(BString),
    /// The index differs from HEAD, or may.
    Staged,
    /// An operation of Git is not concluded.
    Operation(&'static str),
    /// The stash has an entry that was made on its branch.
    Stash,
    /// HEAD is detached at a commit that no ref contains.
    Commits,
    /// It has refs of its own.
    Refs,
    /// The upper layer does not decide it. A status would.
    Unexamined(String),
    /// It is unknown, and why.
    Unknown(String),
}

impl std::fmt::Display for Unsaved {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unsaved::Changed(path) => write!(formatter, "'{path}' is not committed"),
            Unsaved::Staged => formatter.write_str("its index may differ from its commit"),
            Unsaved::Operation(name) => write!(formatter, "{name} is not concluded"),
            Unsaved::Stash => formatter.write_str("the stash has an entry of its branch"),
            Unsaved::Commits => formatter.write_str("no branch or tag contains its commit"),
            Unsaved::Refs => formatter.write_str("it has refs of its own"),
            Unsaved::Unexamined(reason) | Unsaved::Unknown(reason) => {
                write!(formatter, "it cannot be told: {reason}")
            }
        }
    }
}

/// The facts about a workspace from which it is classed.
pub struct Look<'w> {
    pub(super) workspace: &'w Workspace,
    pub(super) head: Option<WorktreeHead>,
    pub(super) layer: Option<Layer>,
    /// The content of the upper layer.
    pub(super) list: Option<Result<List, upper::Error>>,
}

impl<'w> Look<'w> {
    /// Reads HEAD and the list of the upper layer.
    pub fn at(worktrees: &Worktrees<'_>, workspace: &'w Workspace) -> Look<'w> {
        let worktree = workspace.linked_worktree(worktrees.repo);
        let head = worktree.map(|worktree| worktrees.repo.head_of(&worktree));
        let layer = Layer::of(workspace);
        let list = layer.as_ref().map(upper::changed_paths);
        Look { workspace, head, layer, list }
    }

    /// Returns the commit of HEAD.
    fn commit(&self) -> Option<ObjectId> {
        self.head.as_ref().map(|head| head.oid).filter(|oid| !oid.is_null())
    }

    /// Returns the branch by its full name.
    fn branch(&self) -> Option<&BString> {
        match &self.head.as_ref()?.kind {
            WorktreeHeadKind::Branch(name) => Some(name),
            _ => None,
        }
    }
}

/// Classes workspaces. The result has their order.
pub fn classify(worktrees: &Worktrees<'_>, looks: &[Look<'_>]) -> Result<Vec<Class>, Error> {
    let table = MountTable::default();
    let users = Users::read();
    let history = History::read(worktrees, looks)?;
    let unsaved = unsaved::Examiner::new(worktrees, looks)?;
    let mut classes = Vec::new();
    for look in looks {
        worktrees.check_interrupt()?;
        let worktree = look.workspace.linked_worktree(worktrees.repo);
        // The Git directory of a sealed workspace is foreign, and that of its name another
        // worktree's.
        let admin = look.workspace.record.sealed.is_none().then(|| look.workspace.git_dir());
        let is_locked = worktree.is_none_or(|worktree| !matches!(lock_reason(&worktree), Ok(None)));
        let mounted = mounts::state_in(look.workspace, &table);
        let live = match (&users, mounted) {
            (Ok(users), Ok(mounted)) => users.of(look.workspace, mounted),
            // An unknown state counts as in use.
            _ => Some(0),
        };
        let commit = look.commit();
        classes.push(Class {
            landed: commit.and_then(|commit| history.landed(look, commit)),
            pushed: commit.is_some_and(|commit| history.is_pushed(commit)),
            has_moved: admin.as_ref().is_some_and(|admin| has_moved(worktrees, admin)),
            unsaved: unsaved.of(look, admin.as_deref()),
            live,
            idle_since: idle_since(look, admin.as_deref()),
            is_locked,
        });
    }
    Ok(classes)
}

/// Returns true if the reflog of HEAD has a commit that was made in the workspace. A pull or a
/// reset makes none. Without a reflog it is unknown.
fn has_moved(worktrees: &Worktrees<'_>, admin: &Path) -> bool {
    let log = by_path::read(&admin.join("logs/HEAD")).ok().flatten().unwrap_or_default();
    let is_own = |message: &[u8]| {
        let starts: [&[u8]; 4] = [b"commit", b"cherry-pick", b"revert", b"am:"];
        starts.iter().any(|start| message.starts_with(start)) || message.contains_str("(pick)")
    };
    format::reflog::entries(worktrees.repo.hash(), &log).any(|entry| is_own(entry.message))
}

/// Returns the newest of the times that work in a workspace changes: those of HEAD, its reflog, the
/// index, the entries of the upper layer, and their directories, which a deletion changes.
fn idle_since(look: &Look<'_>, admin: Option<&Path>) -> i64 {
    let workspace = look.workspace;
    let names = ["HEAD", "logs/HEAD", "index"];
    let files = admin.into_iter().flat_map(|admin| names.map(|name| admin.join(name)));
    let top = if look.layer.is_some() { workspace.upper() } else { workspace.record.dir.clone() };
    let lines = || look.list.iter().flatten().flat_map(List::lines);
    let above = |line: &Line| Some(line.path[..line.path.rfind_byte(b'/')?].as_bstr().to_owned());
    let directories: BTreeSet<BString> = lines().filter_map(above).collect();
    let directories = directories.into_iter().map(|dir| top.join(sys::os_str(&dir)));
    let paths = files.chain([workspace.state.join("record"), top.clone()]).chain(directories);
    let modified = |path: std::path::PathBuf| Some(by_path::stat(&path).ok()??.mtime.0);
    paths.filter_map(modified).chain(lines().map(|line| line.ctime.0)).max().unwrap_or(i64::MAX)
}
