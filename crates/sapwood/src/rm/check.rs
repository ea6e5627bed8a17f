//! The check that no content is lost: Git's `check_local_mod`.

use std::collections::{BTreeSet, HashMap};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add,
    checkout::ChangeKind,
    stat::{Match, StatRules},
};
use format::index::{Flags, Index, Stage};
use repo::keys;
use sys::{FileType, Stat};

use super::Removal;
use crate::{Error, notice::Notice, refused::Losses, text};

/// The stat data of the files when they were checked.
pub(super) type Checked = HashMap<BString, Stat>;

impl Removal<'_> {
    /// Returns an error for files whose content is nowhere else, else the stat data of the existing
    /// files.
    pub(super) fn check(&self, index: &Index, paths: &[BString]) -> Result<Checked, Error> {
        let mut checked = Checked::new();
        if self.request.force {
            return Ok(checked);
        }
        let repo = self.context.repo;
        let tree = repo.head()?.oid().map(|commit| repo.tree_of(commit)).transpose()?;
        let staged: Option<BTreeSet<BString>> = match tree {
            Some(_) => Some(add::differing(repo, index, tree)?.into_iter().map(|(path, _)| path).collect()),
            None => None,
        };
        let changed = self.changed.iter().filter(|changed| changed.kind != ChangeKind::Unmerged);
        let changed: BTreeSet<&BStr> = changed.map(|changed| changed.path.as_bstr()).collect();
        let rules = StatRules::of(repo)?;
        let mut losses = Losses::default();
        for path in paths.iter().map(|path| path.as_bstr()) {
            let Ok(at) = index.position(path, Stage::Normal) else {
                // An unmerged file has no entry to compare with.
                checked.extend(self.worktree.stat(path).ok().flatten().map(|stat| (path.to_owned(), stat)));
                continue;
            };
            let stat = match self.worktree.stat(path) {
                Ok(Some(stat)) if stat.file_type != FileType::Directory => stat,
                Ok(_) => continue,
                Err(error) => {
                    let unknown = text!("failed to stat '", path, "': ", sys::reason(&error));
                    self.context.events.notice(Notice::NotRemoved(unknown));
                    continue;
                }
            };
            checked.insert(path.to_owned(), stat);
            let entry = index.entry(at);
            // The refresh gave a clean entry the stat data of its file. Stat data that differ now
            // mean a later change.
            let is_new = entry.flags.contains(Flags::UPTODATE)
                && matches!(rules.compare(&entry, &stat, (0, 0)), Match::Touched | Match::Different);
            let is_local = is_new || changed.contains(path);
            let is_staged = staged.as_ref().is_none_or(|staged| staged.contains(path));
            let is_intended = entry.flags.contains(Flags::INTENT_TO_ADD);
            match (is_local, is_staged) {
                (true, true) if self.request.cached && is_intended => {}
                (true, true) => losses.both.push(path.to_owned()),
                _ if self.request.cached => {}
                (false, true) => losses.staged.push(path.to_owned()),
                (true, false) => losses.local.push(path.to_owned()),
                (false, false) => {}
            }
        }
        if losses.is_empty() {
            return Ok(checked);
        }
        losses.advises = self.context.advises(keys::advice::RM_HINTS)?;
        Err(Error::WouldLose(losses))
    }
}
