//! The check that no content is lost: Git's `check_local_mod`.

use std::collections::{BTreeSet, HashMap};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add,
    checkout::ChangeKind,
    stat::{Match, StatRules},
};
use format::index::{Flags, Index, Stage};
use sys::{FileType, Stat};

use super::Removal;
use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// The stat data of the files when they were checked.
pub(super) type Checked = HashMap<BString, Stat>;

/// The paths for each message.
#[derive(Default)]
struct Lists<'a> {
    both: Vec<&'a BStr>,
    staged: Vec<&'a BStr>,
    local: Vec<&'a BStr>,
}

impl Removal<'_> {
    /// Returns an error for files whose content is nowhere else, else the stat data of the existing
    /// files.
    pub(super) fn check(&self, index: &Index, paths: &[BString]) -> Result<Checked, Failure> {
        let mut checked = Checked::new();
        if self.request.force {
            return Ok(checked);
        }
        let repo = self.session.repository;
        let tree = repo.head()?.oid().map(|commit| repo.tree_of(commit)).transpose()?;
        let staged: Option<BTreeSet<BString>> = match tree {
            Some(_) => Some(add::differing(repo, index, tree)?.into_iter().map(|(path, _)| path).collect()),
            None => None,
        };
        let changed = self.changed.iter().filter(|changed| changed.kind != ChangeKind::Unmerged);
        let changed: BTreeSet<&BStr> = changed.map(|changed| changed.path.as_bstr()).collect();
        let rules = StatRules::of(repo)?;
        let mut lists = Lists::default();
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
                    console::warning(text!("failed to stat '", path, "': ", sys::reason(&error)));
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
                (true, true) => lists.both.push(path),
                _ if self.request.cached => {}
                (false, true) => lists.staged.push(path),
                (true, false) => lists.local.push(path),
                (false, false) => {}
            }
        }
        self.refuse(&lists)?;
        Ok(checked)
    }

    fn refuse(&self, lists: &Lists<'_>) -> Result<(), Failure> {
        let advises = self.session.settings.advises(self.session.repository, "rmHints")?;
        let mut refused = false;
        let mut report = |paths: &[&BStr], one: &str, several: &str, hint: &str| {
            if paths.is_empty() {
                return;
            }
            let mut message = text!(if paths.len() == 1 { one } else { several });
            for path in paths {
                message.extend_from_slice(b"\n    ");
                message.extend_from_slice(path);
            }
            if advises {
                message.extend_from_slice(hint.as_bytes());
            }
            console::error(message);
            refused = true;
        };
        report(
            &lists.both,
            "the following file has staged content different from both the\nfile and the HEAD:",
            "the following files have staged content different from both the\nfile and the HEAD:",
            "\n(use -f to force removal)",
        );
        report(
            &lists.staged,
            "the following file has changes staged in the index:",
            "the following files have changes staged in the index:",
            "\n(use --cached to keep the file, or -f to force removal)",
        );
        report(
            &lists.local,
            "the following file has local modifications:",
            "the following files have local modifications:",
            "\n(use --cached to keep the file, or -f to force removal)",
        );
        if refused { Err(Failure::Reported(1)) } else { Ok(()) }
    }
}
