//! `--recurse-submodules`: the entries of an active submodule's index replace the submodule.
//!
//! Pathspecs select whole paths, so every such submodule is opened. A submodule that is not checked
//! out is listed if its repository is kept in the superproject's. A submodule without a repository
//! is not listed, as in Git.
//!
//! Rules, attributes, files and the length of abbreviations come from the superproject, by whole
//! paths. Objects, and the uniqueness of their names, come from the submodule, except names in a
//! `--format` and line endings in the index.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore::check::Checker,
    pathspec::{Pathspecs, Seen},
};
use repo::{Repository, keys};
use sapwood::{
    Dir,
    index::{Flags, Index, Stage},
};

use super::{
    request::Request,
    show::{Place, Show},
};
use crate::{
    session::{
        Session, index,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{Expansion, ExpansionHint},
        submodules::{self, Submodules},
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

pub(super) struct Recursion<'a> {
    pub(super) run: &'a Invocation,
    pub(super) request: &'a Request,
    pub(super) specs: &'a Pathspecs,
    /// The superproject, its settings and its index.
    pub(super) top: (&'a Repository, &'a Settings, &'a Index),
    /// The ignore rules, if only ignored paths are listed.
    pub(super) checker: Option<Checker<'a>>,
}

impl Recursion<'_> {
    /// Lists `index` of the repository `repo`; `lead` is its path, with a slash at its end.
    pub(super) fn list(
        &mut self,
        (repo, settings): (&Repository, &Settings),
        index: &Index,
        lead: &BStr,
        show: &mut Show<'_>,
    ) -> Result<(), Failure> {
        let mut submodules = None;
        let mut done: Option<&BStr> = None;
        for entry in index.entries() {
            let path = index.path(entry);
            if done == Some(path) {
                continue;
            }
            self.run.interrupt.check()?;
            let whole: BString = text!(lead, path);
            if !self.passes_ignore_rules(whole.as_bstr()) {
                continue;
            }
            if entry.mode.is_gitlink() {
                let submodules = match &mut submodules {
                    Some(submodules) => submodules,
                    none => {
                        let session = Session { invocation: self.run, repository: repo, settings };
                        none.insert(Submodules::new(session.context(self.run), index, lead)?)
                    }
                };
                if submodules.is_active(path)? {
                    let kept = submodules::kept(repo, submodules.name(path).as_ref());
                    if let Some(submodule) = opened(repo, path, kept)? {
                        self.enter(&submodule, text!(whole, "/").as_bstr(), show)?;
                    }
                    done = self.request.deduplicates().then_some(path);
                    continue;
                }
            }
            if self.specs.is_empty()
                || self.specs.matches_entry(whole.as_bstr(), entry.mode, &mut Seen::default())
            {
                let tag = match entry.stage {
                    Stage::Normal if entry.flags.contains(Flags::SKIP_WORKTREE) => "S ",
                    Stage::Normal => "H ",
                    _ => "M ",
                };
                let place = Place { repo, index, top: self.top.2, path: whole.as_bstr() };
                show.entry_at(tag, &place, entry)?;
            }
            done = self.request.deduplicates().then_some(path);
        }
        Ok(())
    }

    /// Returns true if the path may be listed: a rule ignores it, or not only ignored paths are
    /// listed.
    fn passes_ignore_rules(&mut self, path: &BStr) -> bool {
        let Some(checker) = &mut self.checker else { return true };
        // The worktree, not the entry, determines if the path is a directory.
        let ignored = checker.find(path, None).is_some_and(|found| !found.negative);
        checker.take_warnings().iter().for_each(console::warning);
        ignored
    }

    fn enter(&mut self, submodule: &Repository, lead: &BStr, show: &mut Show<'_>) -> Result<(), Failure> {
        // Git reads this setting with every index, and fails if it is invalid.
        submodule.config(&keys::index::SPARSE)?;
        let settings = Settings::read(submodule)?;
        let top = submodule.work_tree().unwrap_or(submodule.git_dir());
        let root = Dir::open(top).map_err(Failure::cannot_open(top))?;
        let mut index =
            index::read_index(submodule, &settings, &root, ExpansionHint::Print, Expansion::AtOnce)?.index;
        if self.request.asks_monitor() && index.fsmonitor.is_some() {
            monitor::refresh_submodule(
                self.run,
                (self.top.0, self.top.1),
                (submodule, &settings),
                &mut index,
            )?;
        }
        self.list((submodule, &settings), &index, lead, show)
    }
}

/// Returns the repository of the submodule at `path`: that of its directory, else the one at
/// `kept`.
fn opened(repo: &Repository, path: &BStr, kept: Option<PathBuf>) -> Result<Option<Repository>, Failure> {
    if let Ok(Some(submodule)) = repo.submodule(path) {
        return Ok(Some(submodule));
    }
    Ok(kept.map(|place| repo.open_git_dir(&place)).transpose()?)
}
