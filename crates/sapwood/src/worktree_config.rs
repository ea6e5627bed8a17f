//! The configuration of individual worktrees: `extensions.worktreeConfig` and `config.worktree`.

use bstr::{BString, ByteSlice as _};
use format::config::Edit;
use repo::{Repository, keys};

use crate::{Error, settings::Settings};

/// Gives each worktree its own configuration file, unless that is enabled already. Settings that
/// apply to the main worktree alone move into its file.
pub fn begin(repo: &Repository, settings: &Settings) -> Result<(), Error> {
    if repo.extensions().worktree_config {
        return Ok(());
    }
    let common = repo.common_dir().join("config");
    let edit = |path: &std::path::Path, edits: &[Edit]| {
        // A power cut must not leave a repository that no program can open.
        store::config::edit_durably(path, edits, &settings.config_locks, &settings.fsync)
    };
    // Git reads the file of the main worktree only once the extension is on. One replacement of the
    // common file turns it on and drops what moved, so a kill leaves no state in between.
    let enabled = keys::extensions::WORKTREE_CONFIG.name().into();
    let mut edits = vec![Edit::Set { key: enabled, value: "true".into() }];
    let is_bare = |value: &BString| repo::parse_bool(Some(value.as_bstr())) == Some(true);
    // A false `core.bare` stays: it may override a setting of the user for all repositories.
    let bare = repo.shared_config(&keys::core::BARE)?.filter(is_bare).map(|_| "true".into());
    let work_tree = repo.shared_config(&keys::core::WORKTREE)?;
    for (key, value) in [(keys::core::BARE.name(), bare), (keys::core::WORKTREE.name(), work_tree)] {
        let Some(value) = value else { continue };
        let main = repo.common_dir().join("config.worktree");
        let key = BString::from(key);
        edit(&main, &[Edit::Set { key: key.clone(), value }])?;
        edits.push(Edit::Unset { key });
    }
    edit(&common, &edits)?;
    Ok(())
}
