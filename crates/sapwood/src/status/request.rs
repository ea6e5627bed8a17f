//! The options of a status.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    diff::renames::{self, Detect},
    pathspec::Pathspecs,
};
use repo::{
    Repository,
    keys::{self, Key},
    submodule::Ignore,
};

use crate::{Error, tracking::AheadBehind};

/// The untracked paths to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Untracked {
    /// None.
    No,
    /// Directories without tracked files as one path each.
    #[default]
    Normal,
    /// Each file.
    All,
}

impl Untracked {
    /// Parses a mode: `no`, `normal`, `all` or a boolean.
    pub fn parse(value: &BStr) -> Result<Untracked, Error> {
        match value.as_bytes() {
            b"no" => Ok(Untracked::No),
            b"normal" => Ok(Untracked::Normal),
            b"all" => Ok(Untracked::All),
            _ => match repo::parse_bool(Some(value)) {
                Some(false) => Ok(Untracked::No),
                Some(true) => Ok(Untracked::Normal),
                None => Err(Error::failed(format!("Invalid untracked files mode '{value}'"))),
            },
        }
    }

    /// Returns the configured mode: `status.showUntrackedFiles`.
    pub fn configured(repo: &Repository) -> Result<Untracked, Error> {
        const KEY: Key<Option<BString>> = keys::status::SHOW_UNTRACKED_FILES;
        match repo.config_str(&KEY) {
            None => Ok(Untracked::Normal),
            // A key without a value means true.
            Some(value) if value.is_empty() && repo.config_as(&KEY)? == Some(true) => Ok(Untracked::Normal),
            Some(value) => Untracked::parse(value.as_bstr()),
        }
    }
}

/// The ignored paths to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ignored {
    /// None.
    #[default]
    No,
    /// Those that `Untracked` would list if they were not ignored.
    Traditional,
    /// Those that match a rule themselves.
    Matching,
}

/// How renames are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renames {
    /// `None` for no detection.
    pub detect: Option<Detect>,
    /// See [`renames::Options`].
    pub minimum: u32,
    /// See [`renames::Options`].
    pub limit: usize,
}

impl Default for Renames {
    fn default() -> Renames {
        Renames { detect: Some(Detect::Renames), minimum: 0, limit: renames::DEFAULT_LIMIT }
    }
}

impl Renames {
    /// Returns the configured detection, of `status.*` or else of `diff.*`.
    pub fn configured(repo: &Repository) -> Result<Renames, Error> {
        // The last value of `status.*` counts, or the first of `diff.*`.
        let first = || repo.config_all(&keys::diff::RENAMES).into_iter().next();
        let configured = repo.config_str(&keys::status::RENAMES).or_else(first);
        let is_copies =
            |value: &BString| value.eq_ignore_ascii_case(b"copies") || value.eq_ignore_ascii_case(b"copy");
        for key in [keys::status::RENAMES, keys::diff::RENAMES] {
            if !repo.config_str(&key).is_some_and(|value| is_copies(&value)) {
                repo.config(&key)?;
            }
        }
        let detect = match configured {
            Some(value) if is_copies(&value) => Some(Detect::Copies),
            Some(value) if repo::parse_bool(Some(value.as_bstr())) == Some(false) => None,
            _ => Some(Detect::Renames),
        };
        let limit = match repo.config_str(&keys::status::RENAME_LIMIT) {
            Some(_) => repo.config(&keys::status::RENAME_LIMIT)?,
            None => repo.config(&keys::diff::RENAME_LIMIT)?,
        };
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(renames::DEFAULT_LIMIT);
        Ok(Renames { detect, minimum: 0, limit })
    }
}

/// The branches that HEAD's branch is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compared {
    /// None.
    #[default]
    Nothing,
    /// Its upstream.
    Upstream,
    /// All that `status.compareBranches` names.
    Followed,
}

/// The tree that the index is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// That of HEAD.
    #[default]
    Head,
    /// That of HEAD's first parent, which a commit that amends HEAD will follow.
    Parent,
}

/// The options of a status.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The paths to examine; all of them if empty.
    pub pathspecs: Pathspecs,
    /// The untracked paths to list.
    pub untracked: Untracked,
    /// The ignored paths to list.
    pub ignored: Ignored,
    /// The changes in submodules that do not count; `None` for the configured ones.
    pub submodules: Option<Ignore>,
    /// How renames are found.
    pub renames: Renames,
    /// The branches to compare with.
    pub compared: Compared,
    /// How exactly.
    pub ahead_behind: Option<AheadBehind>,
    /// Finds the commit at which HEAD was detached.
    pub finds_detached: bool,
    /// The tree to compare the index with.
    pub base: Base,
}

impl Request {
    /// Returns the options that the configuration gives: untracked paths and renames.
    pub fn configured(repository: &crate::Repository) -> Result<Request, Error> {
        let repo = &repository.inner;
        let (untracked, renames) = (Untracked::configured(repo)?, Renames::configured(repo)?);
        Ok(Request { untracked, renames, ..Request::default() })
    }

    /// Returns how exactly branches are compared.
    pub(super) fn exactness(&self) -> AheadBehind {
        self.ahead_behind.unwrap_or(AheadBehind::Full)
    }

    /// Returns the options of the search for untracked paths; `None` for no search.
    pub(super) fn search(
        &self,
        repo: &Repository,
    ) -> Result<Option<engine::untracked::Options>, repo::Error> {
        use engine::untracked::{Directories, Ignored as Listed, Nested, Options};
        let directories = match self.untracked {
            Untracked::No => return Ok(None),
            Untracked::Normal => Directories::WholeUnlessEmpty,
            Untracked::All => Directories::Files,
        };
        let ignored = match self.ignored {
            Ignored::No => Listed::Left,
            Ignored::Traditional => Listed::Too,
            Ignored::Matching => Listed::Matching,
        };
        let workers = engine::status::workers(repo)?;
        Ok(Some(Options { directories, ignored, nested: Nested::AsOne, workers }))
    }
}
