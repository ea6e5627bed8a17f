//! Work that a removal would lose. Cheap for any number of workspaces; a state that is not decided
//! is unknown.

use std::{collections::HashSet, path::Path};

use bstr::{BString, ByteSlice as _};
use engine::{
    add::Store,
    tree_cache::TreeCache,
    workspace::{
        base::Bases,
        record::MOVING,
        uncommitted::{self, Extent, Scene},
        upper::Kind,
    },
};
use format::ObjectId;
use repo::WorktreeHeadKind;
use sys::{FileType, by_path};

use super::{
    super::{durable, inner},
    Look, Unsaved,
    landed::contained,
};
use crate::{Error, Silent, settings::Settings, worktree::records::Worktrees};

/// The files of an operation that is not concluded.
pub(in crate::workspace) const OPERATIONS: [(&str, &str); 8] = [
    ("MERGE_HEAD", "a merge"),
    ("MERGE_AUTOSTASH", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or am"),
    ("sequencer", "a sequence of picks"),
    ("BISECT_LOG", "a bisection"),
];

/// Examines workspaces.
pub(super) struct Examiner<'a> {
    worktrees: &'a Worktrees<'a>,
    trees: TreeCache<'a>,
    /// The branches, without `refs/heads/`, on which entries of the stash were made.
    stashed: HashSet<BString>,
    /// The commits of detached HEADs that no ref contains.
    unreachable: HashSet<ObjectId>,
}

impl<'a> Examiner<'a> {
    pub(super) fn new(worktrees: &'a Worktrees<'a>, looks: &[Look<'_>]) -> Result<Examiner<'a>, Error> {
        let repo = worktrees.repo;
        let detached = looks.iter().filter(|look| look.branch().is_none());
        let detached: HashSet<ObjectId> = detached.filter_map(Look::commit).collect();
        let unreachable = if detached.is_empty() {
            HashSet::new()
        } else {
            let tips: Vec<ObjectId> = repo.refs("refs/")?.into_iter().map(|(_, tip)| tip).collect();
            &detached - &contained(repo, &detached, &tips)
        };
        let log = repo.reflog("refs/stash".into())?.unwrap_or_default();
        let stashed = log.iter().filter_map(|line| {
            let message = line.message.as_bstr();
            let rest = message.strip_prefix(b"WIP on ").or_else(|| message.strip_prefix(b"On "))?;
            Some(rest.split_once_str(":")?.0.into())
        });
        Ok(Examiner { worktrees, trees: TreeCache::new(repo), stashed: stashed.collect(), unreachable })
    }

    /// Returns what a removal would lose.
    pub(super) fn of(&self, look: &Look<'_>, admin: Option<&Path>) -> Option<Unsaved> {
        let Some(admin) = admin else { return Some(Unsaved::Unknown("it is sealed".to_owned())) };
        self.of_repository(look, admin).or_else(|| match self.of_files(look, admin) {
            Ok(found) => found,
            Err(error) => Some(Unsaved::Unexamined(error.to_string())),
        })
    }

    /// Examines what Git and sapwood have recorded.
    fn of_repository(&self, look: &Look<'_>, admin: &Path) -> Option<Unsaved> {
        let Some(head) = &look.head else {
            return Some(Unsaved::Unknown("it has no administrative directory".to_owned()));
        };
        if head.kind == WorktreeHeadKind::Unreadable {
            return Some(Unsaved::Unknown("its HEAD cannot be read".to_owned()));
        }
        let Ok(names) = by_path::list(admin) else {
            return Some(Unsaved::Unknown("its administrative directory cannot be read".to_owned()));
        };
        let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted);
        if let Some((_, what)) = OPERATIONS.iter().find(|(name, _)| has(name)) {
            return Some(Unsaved::Operation(what));
        }
        let is_there = |name: &str| !matches!(by_path::stat(&look.workspace.state.join(name)), Ok(None));
        if ["rebase", MOVING, "removing", "crash"].into_iter().any(is_there) {
            return Some(Unsaved::Unknown("a command was killed in it, or the machine stopped".to_owned()));
        }
        if has_files(&admin.join("refs")) {
            return Some(Unsaved::Refs);
        }
        if inner::refuse_own_objects(admin, look.workspace).is_err() {
            return Some(Unsaved::Unknown("a submodule has objects of its own".to_owned()));
        }
        let branch = look.branch().map(|name| name.strip_prefix(b"refs/heads/").unwrap_or(name));
        if branch.is_some_and(|branch| self.stashed.contains(branch.as_bstr())) {
            return Some(Unsaved::Stash);
        }
        let is_lost =
            branch.is_none() && look.commit().is_some_and(|commit| self.unreachable.contains(&commit));
        is_lost.then_some(Unsaved::Commits)
    }

    /// Examines the index and the upper layer.
    fn of_files(&self, look: &Look<'_>, admin: &Path) -> Result<Option<Unsaved>, Error> {
        let undecided = |reason: &str| Ok(Some(Unsaved::Unexamined(reason.to_owned())));
        let (workspace, repo) = (look.workspace, self.worktrees.repo);
        let (Some(layer), Some(base)) = (&look.layer, &workspace.record.base) else {
            return undecided("it has no upper layer");
        };
        let list = match &look.list {
            Some(Ok(list)) => list,
            Some(Err(error)) => return undecided(&error.to_string()),
            None => return undecided("it has no upper layer"),
        };
        // A status does not see one that is ignored.
        if list.lines().iter().any(|line| line.kind == Kind::Repository) {
            return Ok(Some(Unsaved::Unknown("it has a repository inside".to_owned())));
        }
        if inner::exist(workspace)? {
            return undecided("it has submodules");
        }
        let head = look.commit().map(|commit| repo.tree_of(commit)).transpose()?;
        let index = by_path::open(&admin.join("index")).and_then(|file| sys::Map::of(&file));
        let indexed = index.ok().and_then(|index| format::index::cached_tree(&index, repo.hash()));
        let of_index = (indexed.is_none() || indexed != head).then_some(Unsaved::Staged);
        let base = Bases::at(&base.dir).get(&base.name)?.tree;
        if list.lines().is_empty() && head == Some(base) {
            return Ok(of_index);
        }
        let repo = durable::open_unmounted(repo, &self.worktrees.common, workspace)?;
        let big_file_threshold = Settings::read(&repo, &Silent)?.big_file_threshold;
        let scene = Scene { repo: &repo, layer, list, base, head, big_file_threshold };
        let changes = uncommitted::changes(&scene, &self.trees, Extent::First, Store::HashOnly)?;
        // A status would not see a file that the index tells it to assume unchanged.
        Ok(changes.into_keys().next().map(Unsaved::Changed).or(of_index))
    }
}

/// Returns true if there is a file below a directory, or if that is unknown.
fn has_files(dir: &Path) -> bool {
    match by_path::list(dir) {
        Ok(names) => names.iter().any(|(name, kind)| match kind {
            FileType::Directory => has_files(&dir.join(name)),
            _ => true,
        }),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
