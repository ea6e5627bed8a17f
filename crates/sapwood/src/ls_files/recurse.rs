//! [`Options::recurse`]: the entries of an active submodule's index replace the submodule.
//!
//! Pathspecs select whole paths, so every such submodule is opened. A submodule that is not checked
//! out is listed if its repository is kept in the superproject's. A submodule without a repository
//! is not listed, as in Git.
//!
//! Rules come from the superproject, by whole paths.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    ignore::check::Checker,
    pathspec::{Pathspecs, Seen},
};
use format::index::Index;
use repo::{Repository, keys};
use sys::Dir;

use super::{
    Kind, Listed, ListedEntry, Options, State, Visit,
    list::{Ended, give, is_ignored},
};
use crate::{
    Context, Error,
    index::read_index,
    monitor,
    settings::Settings,
    sparse_index::{Expansion, ExpansionHint},
    submodules::{self, Submodules},
    text,
};

pub(super) struct Recursion<'a> {
    /// The superproject.
    pub(super) top: Context<'a>,
    pub(super) options: &'a Options,
    pub(super) specs: &'a Pathspecs,
    /// The superproject's index.
    pub(super) index: &'a Index,
    /// The ignore rules, if only ignored paths are listed.
    pub(super) checker: Option<Checker<'a>>,
}

impl Recursion<'_> {
    /// Lists `index` of the repository of `context`; `lead` is its path, with a slash at its end.
    pub(super) fn list(
        &mut self,
        context: Context<'_>,
        index: &Index,
        lead: &BStr,
        visit: &mut Visit<'_>,
    ) -> Result<(), Ended> {
        let repo = context.repo;
        let mut submodules = None;
        let mut done: Option<&BStr> = None;
        for entry in index.entries() {
            let path = index.path(entry);
            if done == Some(path) {
                continue;
            }
            context.check_interrupt()?;
            let whole: BString = text!(lead, path);
            if let Some(checker) = &mut self.checker
                && !is_ignored(checker, whole.as_bstr(), context.events)
            {
                continue;
            }
            if entry.mode.is_gitlink() {
                let submodules = match &mut submodules {
                    Some(submodules) => submodules,
                    none => none.insert(Submodules::new(context, index, lead)?),
                };
                if submodules.is_active(path)? {
                    let kept = submodules::kept(repo, submodules.name(path).as_ref());
                    if let Some(submodule) = opened(repo, path, kept)? {
                        self.enter(&submodule, text!(whole, "/").as_bstr(), visit)?;
                    }
                    done = self.options.deduplicate.then_some(path);
                    continue;
                }
            }
            let path_in_top = whole.as_bstr();
            if self.specs.is_empty()
                || self.specs.matches_entry(path_in_top, entry.mode, &mut Seen::default())
            {
                let kind = Kind::Entry(ListedEntry { entry, state: State::Cached, repo, index });
                give(visit, Listed { path: path_in_top, kind, top: self.index })?;
            }
            done = self.options.deduplicate.then_some(path);
        }
        Ok(())
    }

    fn enter(&mut self, submodule: &Repository, lead: &BStr, visit: &mut Visit<'_>) -> Result<(), Ended> {
        let top = self.top;
        let settings = settings(submodule, top)?;
        let context = Context { repo: submodule, settings: &settings, ..top };
        let index = self.read(context)?;
        self.list(context, &index, lead, visit)
    }

    /// Reads the index of a submodule.
    fn read(&self, context: Context<'_>) -> Result<Index, Error> {
        let repo = context.repo;
        let top = repo.work_tree().unwrap_or(repo.git_dir());
        let root = Dir::open(top).map_err(Error::cannot_open(top))?;
        let mut index = read_index(context, &root, ExpansionHint::Print, Expansion::AtOnce)?.index;
        if self.options.asks_monitor() && index.fsmonitor.is_some() {
            monitor::refresh_submodule(self.top, context, &mut index)?;
        }
        Ok(index)
    }
}

/// Reads the settings of a submodule.
fn settings(submodule: &Repository, top: Context<'_>) -> Result<Settings, Error> {
    // Git reads this setting with every index, and fails if it is invalid.
    submodule.config(&keys::index::SPARSE)?;
    Ok(Settings::read(submodule, top.events)?)
}

/// Returns the repository of the submodule at `path`: that of its directory, else the one at
/// `kept`.
fn opened(repo: &Repository, path: &BStr, kept: Option<PathBuf>) -> Result<Option<Repository>, Error> {
    if let Ok(Some(submodule)) = repo.submodule(path) {
        return Ok(Some(submodule));
    }
    Ok(kept.map(|place| repo.open_git_dir(&place)).transpose()?)
}
