//! Submodules as part of their superproject: the commit that is checked out, and changes within.
//!
//! A submodule's status is computed from its index and worktree with the same code as for the
//! superproject, so nested submodules only deepen the recursion. Nothing is written, not even the
//! submodule's index.

use std::cell::OnceCell;

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Entry, Flags, Index, Stage},
};
use repo::{
    Repository, keys,
    submodule::{Ignore, Modules},
};
use sys::by_path;

use super::{
    LookError,
    trees::{self, Kind, Side, Slot},
};

const GITMODULES: &str = ".gitmodules";

/// Returns the commit that is checked out in the submodule at `path`. Like Git, returns `None` if
/// it cannot be opened.
pub(crate) fn head(repo: &Repository, path: &BStr) -> Option<ObjectId> {
    repo.submodule(path).ok().flatten()?.head().ok()?.oid()
}

/// The kinds of changes in a submodule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmoduleChanges {
    /// A commit other than the recorded one is checked out.
    pub commit: bool,
    /// Tracked files within are modified.
    pub modified: bool,
    /// Untracked files exist within.
    pub untracked: bool,
}

impl SubmoduleChanges {
    /// Returns true if files within are modified or untracked.
    pub fn is_within(self) -> bool {
        self.modified || self.untracked
    }
}

/// Finds the changes within a submodule, given its repository. If the second argument is true,
/// untracked files are ignored. [`crate::status`] implements it, because this module cannot import
/// it.
pub type ChangesWithin = fn(&Repository, bool) -> Result<SubmoduleChanges, LookError>;

/// The submodules of one index and its worktree.
pub(crate) struct Submodules<'a> {
    repo: &'a Repository,
    /// The default policy for submodules without a setting of their own.
    ignore: Ignore,
    modules: OnceCell<Modules>,
}

impl<'a> Submodules<'a> {
    /// Reads `diff.ignoreSubmodules`; without it, `default` applies.
    pub(crate) fn new(repo: &'a Repository, default: Ignore) -> Result<Self, LookError> {
        let ignore = match repo.config_str(&keys::diff::IGNORE_SUBMODULES) {
            Some(value) => parse_ignore(value.as_bstr())?,
            None => default,
        };
        Ok(Submodules { repo, ignore, modules: OnceCell::new() })
    }

    /// Ignores untracked files in submodules without a setting of their own.
    pub(crate) fn without_untracked(self) -> Self {
        match self.ignore {
            Ignore::None => Submodules { ignore: Ignore::Untracked, ..self },
            _ => self,
        }
    }

    /// Returns the policy of Git's plumbing: `diff.ignoreSubmodules` does not apply, and untracked
    /// files are ignored.
    pub(crate) fn for_plumbing(repo: &'a Repository) -> Self {
        Submodules { repo, ignore: Ignore::Untracked, modules: OnceCell::new() }
    }

    /// Returns the kinds of changes that are ignored for the submodule at `path`.
    pub(crate) fn ignore(&self, index: &Index, path: &BStr) -> Result<Ignore, LookError> {
        if self.modules.get().is_none() {
            let modules = read_modules(self.repo, index)?;
            let _ = self.modules.set(modules);
        }
        let Some(module) = self.modules.get().and_then(|modules| modules.at(path)) else {
            return Ok(self.ignore);
        };
        let name = module.name.to_str_lossy();
        match self.repo.config_str(&keys::submodule::ONE_IGNORE.of(name)) {
            Some(value) => parse_ignore(value.as_bstr()),
            None => Ok(module.ignore.unwrap_or(self.ignore)),
        }
    }

    /// Returns Git's warnings about `.gitmodules`, if the file was read.
    pub(crate) fn warnings(&self) -> &[BString] {
        self.modules.get().map_or(&[], Modules::warnings)
    }

    /// Finds the changes of the submodule of `entry`, whose directory exists, except those that
    /// `ignore` excludes.
    pub(crate) fn changes(
        &self,
        index: &Index,
        entry: &Entry,
        ignore: Ignore,
        changes_within: ChangesWithin,
    ) -> Result<SubmoduleChanges, LookError> {
        if ignore == Ignore::All {
            return Ok(SubmoduleChanges::default());
        }
        let path = index.path(entry);
        let trusted = entry.flags.contains(Flags::ASSUME_VALID);
        let commit = !trusted && head(self.repo, path).is_some_and(|head| head != entry.oid);
        if ignore == Ignore::Dirty {
            return Ok(SubmoduleChanges { commit, ..SubmoduleChanges::default() });
        }
        if !self.repo.has_submodule(path)? {
            return Ok(SubmoduleChanges { commit, ..SubmoduleChanges::default() });
        }
        let within = |source| LookError::Submodule { path: path.to_owned(), source: Box::new(source) };
        let submodule = self.repo.submodule(path).map_err(|error| within(error.into()))?;
        let within = match submodule {
            Some(submodule) => changes_within(&submodule, ignore == Ignore::Untracked).map_err(within)?,
            None => SubmoduleChanges::default(),
        };
        Ok(SubmoduleChanges { commit, ..within })
    }
}

fn parse_ignore(value: &BStr) -> Result<Ignore, LookError> {
    let bad = || repo::Error::new(format!("bad --ignore-submodules argument: {value}"));
    Ok(Ignore::parse(value).ok_or_else(bad)?)
}

/// Reads `.gitmodules` from the worktree, also through a link, otherwise from the index or HEAD. It
/// counts as empty while it is unmerged. An unreadable file causes a warning.
pub fn read_modules(repo: &Repository, index: &Index) -> Result<Modules, LookError> {
    let path = BStr::new(GITMODULES);
    let mut entries = index.range_of(path);
    if entries.clone().any(|at| index.stage_at(at) != Stage::Normal) {
        return Ok(Modules::default());
    }
    let examine = |source| LookError::Examine { path: path.to_owned(), source };
    let Some(file) = repo.work_tree().map(|top| top.join(GITMODULES)) else { return Ok(Modules::default()) };
    if by_path::stat(&file).map_err(examine)?.is_some() {
        return match by_path::read(&file) {
            Ok(content) => Ok(Modules::parse(&content.unwrap_or_default(), &file.display().to_string())?),
            Err(error) => Ok(Modules::unreadable(&file, &sys::reason(&error))),
        };
    }
    let recorded = entries.next().map(|at| index.entry(at).oid);
    let Some(oid) = recorded.or_else(|| repo.rev_parse("HEAD:.gitmodules".into()).ok()) else {
        return Ok(Modules::default());
    };
    let mut reader = repo.objects().reader();
    let (_, content) = reader.read(&oid)?;
    Ok(Modules::parse(content, &oid.to_string())?)
}

/// Returns true if the index differs from the tree of HEAD.
pub fn is_anything_staged(repo: &Repository, index: &Index) -> Result<bool, LookError> {
    let tree = match repo.head()?.oid() {
        Some(commit) => repo.tree_of(commit)?,
        None => ObjectId::empty_tree(repo.hash()),
    };
    let found = trees::walk(repo.objects(), index, Kind::OneWay, vec![Some(tree)])?;
    Ok(found.rows.iter().any(|row| match (row.slot, row.sides[0]) {
        (Slot::Merged(at), Side::Entry(mode, oid)) => {
            let entry = &index.entry(at);
            (entry.mode, entry.oid) != (mode, oid)
        }
        (Slot::Nothing, Side::Missing | Side::Conflict) => false,
        _ => true,
    }))
}
