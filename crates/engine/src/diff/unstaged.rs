//! The index against the worktree: Git's `diff-files`.

use bstr::ByteSlice as _;
use format::{
    ObjectId,
    index::{Index, Stage},
};
use repo::Repository;

use sys::Dir;

use super::{Counts, Dirt, Intended, Pair, Side, Status, tree::of_submodule};
use crate::{
    checkout::{PlanError, submodules::Submodules},
    stat::StatRules,
};

/// What [`crate::status::examine`] found, as the plumbing has it: the file of an unmerged path is compared with the entry of `stage` besides
/// (`None`: with none), and a submodule whose commit is the entry's has its name on both sides. What is only intended to be added is a new
/// file, or [`Intended::Shown`] an empty one that was changed. Of unmerged submodules `counts` says what counts.
pub fn unstaged(
    repo: &Repository,
    (root, index): (&Dir, &Index),
    changes: Vec<Pair>,
    stage: Option<Stage>,
    intended: Intended,
    counts: Counts,
) -> Result<Vec<Pair>, PlanError> {
    let rules = StatRules::of(repo)?;
    let submodules = Submodules::for_plumbing(repo, root);
    let mut pairs = Vec::with_capacity(changes.len());
    for mut change in changes {
        if change.status == Status::Added && intended == Intended::Shown {
            let entry = index.entries()[index.range_of(change.path.as_bstr())].first();
            let old = entry.map(|entry| Side { mode: entry.mode, oid: Some(entry.oid) });
            change = Pair::new(change.path, old, change.new);
        }
        if change.status != Status::Unmerged {
            if let Some(oid) = change.old.and_then(|old| old.oid) {
                change.new = named(&change, oid);
            }
            pairs.push(change);
            continue;
        }
        let entries = &index.entries()[index.range_of(change.path.as_bstr())];
        let entry = entries.iter().find(|entry| Some(entry.stage) == stage);
        let file = change.new;
        let path = change.path.clone();
        pairs.push(change);
        let Some(entry) = entry else { continue };
        let old = Some(Side { mode: entry.mode, oid: Some(entry.oid) });
        if entry.mode.is_gitlink() && file.is_some_and(|file| file.mode.is_gitlink()) {
            let (new, dirt) = of_submodule(index, entry, &submodules, counts)?;
            if old != Some(new) || dirt != Dirt::default() {
                pairs.push(Pair { dirt, ..Pair::new(path, old, Some(new)) });
            }
            continue;
        }
        let new = file.map(|file| match file.mode {
            // What the file system cannot say is as it was recorded.
            mode if mode.is_file() && entry.mode.is_file() && !rules.file_mode => {
                Side { mode: entry.mode, oid: None }
            }
            _ => file,
        });
        pairs.push(Pair::new(path, old, new));
    }
    Ok(pairs)
}

/// The worktree's side of a change of an entry: a submodule that has the entry's commit, and was changed within, has its name.
pub(super) fn named(change: &Pair, oid: ObjectId) -> Option<Side> {
    change.new.map(|side| match side.oid {
        None if side.mode.is_gitlink() && change.dirt.is_within() && !change.dirt.commit => {
            Side { oid: Some(oid), ..side }
        }
        _ => side,
    })
}
