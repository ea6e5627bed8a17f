//! `--recurse-submodules`: in the place of a submodule that is active stands what its index has.
//!
//! Pathspecs are about whole paths, so every such submodule is looked into. One that is not checked out is listed if its repository is kept in that of its
//! superproject; one without a repository is not listed at all, as by Git.

use std::path::PathBuf;

use ::format::index::{Flags, Index, Stage};
use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{Pathspecs, Seen};
use repo::Repository;

use super::{request::Request, show::Show};
use crate::{
    console::text,
    failure::Failure,
    global::Invocation,
    recursion::{self, Submodules},
    settings::Settings,
    sparse_index::{Fill, Tell},
    work,
};

pub(super) struct Recursion<'a> {
    pub(super) run: &'a Invocation,
    pub(super) request: &'a Request,
    pub(super) specs: &'a Pathspecs,
}

impl Recursion<'_> {
    /// Lists `index`, that of `repo`; `lead` is where it is (with a slash at its end).
    pub(super) fn list(
        &self,
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
            if entry.mode.is_gitlink() {
                let submodules = match &mut submodules {
                    Some(submodules) => submodules,
                    none => none.insert(Submodules::new(self.run, repo, settings, index, lead)?),
                };
                if submodules.is_active(path)? {
                    let kept = recursion::kept(repo, submodules.name(path).as_ref());
                    if let Some(submodule) = opened(repo, path, kept)? {
                        self.enter(&submodule, text!(lead, path, "/").as_bstr(), show)?;
                    }
                    done = self.request.deduplicates().then_some(path);
                    continue;
                }
            }
            let whole: BString = text!(lead, path);
            if self.specs.is_empty()
                || self.specs.matches_entry(whole.as_bstr(), entry.mode, &mut Seen::default())
            {
                let tag = match entry.stage {
                    Stage::Normal if entry.flags.contains(Flags::SKIP_WORKTREE) => "S ",
                    Stage::Normal => "H ",
                    _ => "M ",
                };
                show.entry_at(tag, entry, whole.as_bstr())?;
            }
            done = self.request.deduplicates().then_some(path);
        }
        Ok(())
    }

    fn enter(&self, submodule: &Repository, lead: &BStr, show: &mut Show<'_>) -> Result<(), Failure> {
        // Git reads it with the index, whatever it holds.
        submodule.config_bool("index.sparse")?;
        let settings = Settings::read(self.run, submodule)?;
        let top = submodule.work_tree().unwrap_or(submodule.git_dir());
        let root = sys::Dir::open(top).map_err(Failure::cannot_open(top))?;
        let index = work::read_index(submodule, &settings, &root, Tell::Hint, Fill::AtOnce)?.index;
        self.list((submodule, &settings), &index, lead, show)
    }
}

/// The repository of the submodule at `path`: that of its directory, else the one that is kept at `kept`.
fn opened(repo: &Repository, path: &BStr, kept: Option<PathBuf>) -> Result<Option<Repository>, Failure> {
    if let Ok(Some(submodule)) = repo.submodule(path) {
        return Ok(Some(submodule));
    }
    Ok(kept.map(|place| repo.opened_at(&place)).transpose()?)
}
