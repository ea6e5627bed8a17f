//! The configuration of individual worktrees: `extensions.worktreeConfig` and `config.worktree`.

use bstr::{BString, ByteSlice as _};
use format::config::Edit;
use repo::Repository;

use crate::{session::settings::Settings, term::failure::Failure};

/// Gives each worktree its own configuration file, unless that is enabled already. Settings that
/// apply to the main worktree alone move into its file.
pub(crate) fn begin(repo: &Repository, settings: &Settings) -> Result<(), Failure> {
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
    let mut edits = vec![Edit::Set { key: "extensions.worktreeConfig".into(), value: "true".into() }];
    for key in ["core.bare", "core.worktree"] {
        let value = repo.shared_config(key)?;
        let is_bare = |value: BString| repo::parse_bool(Some(value.as_bstr())) == Some(true);
        // A false `core.bare` stays: it may override a setting of the user for all repositories.
        let moved = match key {
            "core.bare" => value.is_some_and(is_bare).then(|| "true".into()),
            _ => value,
        };
        let Some(value) = moved else { continue };
        let main = repo.common_dir().join("config.worktree");
        let key = BString::from(key);
        edit(&main, &[Edit::Set { key: key.clone(), value }])?;
        edits.push(Edit::Unset { key });
    }
    edit(&common, &edits)?;
    Ok(())
}
