//! The options of a status.

use engine::{
    diff::renames::{self, Detect},
    pathspec::Pathspecs,
};
use repo::{Repository, submodule::Ignore};

use crate::tracking::AheadBehind;

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
