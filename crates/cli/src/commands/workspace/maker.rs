//! The kinds of new workspaces: for `workspace create`, for a clone, and for `worktree add` with
//! `sapwood.worktree = workspace`. See [`sapwood::workspace::maker`].

use engine::workspace::backend::Visibility;
use repo::{Repository, keys};
pub(super) use sapwood::workspace::maker::{WorkspaceOptions, hidden_by};
use sapwood::{
    workspace::{
        maker::{self, Fallback},
        seal,
    },
    worktree::records::{Given, Worktrees},
};

use crate::{session::settings::Settings, term::failure::Failure};

/// Creates one workspace.
pub(crate) struct Maker {
    visibility: Visibility,
    fallback: Fallback,
    options: WorkspaceOptions,
}

impl Maker {
    /// Returns the maker for `workspace create`.
    pub(super) fn new(options: WorkspaceOptions) -> Maker {
        Maker { visibility: Visibility::Joined, fallback: Fallback::Copy, options }
    }

    /// Returns the maker for a clone, whose user works in the new directory next.
    pub(super) fn for_clone(options: WorkspaceOptions) -> Maker {
        Maker { visibility: Visibility::EverybodyWithoutCopy, fallback: Fallback::Copy, options }
    }

    /// Returns the maker for a fork, whose files this process writes.
    pub(super) fn for_everybody(options: WorkspaceOptions) -> Maker {
        Maker { visibility: Visibility::Everybody, fallback: Fallback::Copy, options }
    }

    /// Returns the maker for `worktree add`, if `sapwood.worktree` selects workspaces.
    pub(crate) fn configured(repo: &Repository) -> Result<Option<Maker>, Failure> {
        let value = repo.config_text(&keys::sapwood::WORKTREE);
        let wanted = match value.as_slice() {
            b"workspace" => true,
            b"checkout" => false,
            _ => {
                return Err(Failure::fatal(format!(
                    "bad value '{value}' for sapwood.worktree: it is 'workspace' or 'checkout'"
                )));
            }
        };
        let (visibility, options) = (Visibility::Everybody, WorkspaceOptions::default());
        Ok(wanted.then_some(Maker { visibility, fallback: Fallback::Worktree, options }))
    }

    /// Creates a sealed workspace, whose start is in the options.
    pub(super) fn seal(
        &self,
        worktrees: &Worktrees<'_>,
        at: &Given,
        sealing: seal::Options,
    ) -> Result<(), Failure> {
        let settings = Settings::read(worktrees.repo)?;
        let maker = self.source(worktrees, &settings);
        seal::create(worktrees, &settings, (&maker, &self.options), at, sealing)?;
        Ok(())
    }

    /// Returns the source of the files for [`sapwood::worktree::add`].
    pub(crate) fn source<'s>(
        &'s self,
        worktrees: &'s Worktrees<'s>,
        settings: &'s Settings,
    ) -> maker::Maker<'s> {
        maker::Maker::new(worktrees, settings, self.visibility, self.fallback, &self.options)
    }
}
