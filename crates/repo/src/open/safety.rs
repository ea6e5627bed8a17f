//! Checks whether a repository may be used: its owner (`safe.directory`), and bare repositories
//! (`safe.bareRepository`).

use std::{os::unix::ffi::OsStrExt, path::Path};

use bstr::ByteSlice;
use format::keys;
use sys::{UserPath, by_path};

use super::Finder;
use crate::{
    Attempt, DiscoveryError, Env, Error,
    config::{self, Config, Sources},
};

impl Finder<'_> {
    fn protected_config(&self) -> Result<Config, Error> {
        let sources = Sources {
            place: Some(&self.cwd),
            command: &self.options.config,
            message_sink: self.options.message_sink,
            ..Sources::default()
        };
        config::load(self.env, sources)
    }

    pub(super) fn check_bare_allowed(&self, dir: &Path) -> Result<(), Error> {
        let config = self.protected_config()?;
        let mut explicit_only = false;
        for configured in config.protected(&keys::safe::BARE_REPOSITORY) {
            explicit_only = match configured.value {
                Some(value) if value == "explicit" => true,
                Some(value) if value == "all" => false,
                _ => return Err(configured.refused()),
            };
        }
        let text = dir.as_os_str().as_bytes();
        let implied = dir.ends_with(".git")
            || text.contains_str("/.git/worktrees/")
            || text.contains_str("/.git/modules/");
        if explicit_only && !implied {
            return Err(DiscoveryError::BareForbidden(dir.to_owned()).into());
        }
        Ok(())
    }

    /// Refuses a repository of another user, unless `safe.directory` names it.
    pub(super) fn check_owner(
        &self,
        dir: &Path,
        gitfile: Option<&Path>,
        work_tree: Option<&Path>,
        git_dir: &Path,
    ) -> Result<(), Error> {
        let assume_other = self.env.boolean("GIT_TEST_ASSUME_DIFFERENT_OWNER")?.unwrap_or(false);
        let parts = [gitfile, work_tree, Some(git_dir)].into_iter().flatten();
        let mut owned = !assume_other;
        for part in parts {
            owned = owned && self.is_owned(part)?;
        }
        if owned {
            return Ok(());
        }
        let named = work_tree.unwrap_or(git_dir);
        if let Ok(path) = by_path::canonical(named)
            && self.is_declared_safe(&path)?
        {
            return Ok(());
        }
        Err(DiscoveryError::DubiousOwner(dir.to_owned()).into())
    }

    /// Returns true if the user owns the path. An I/O error is returned as an error, not as false.
    fn is_owned(&self, path: &Path) -> Result<bool, Error> {
        let Some(stat) = by_path::stat(path).map_err(Attempt::Stat.on(path))? else { return Ok(false) };
        let user = sys::user::effective_uid();
        if user != 0 || stat.uid == 0 {
            return Ok(stat.uid == user);
        }
        // Root may use a repository of the user who called sudo.
        Ok(stat.uid == sudo_id(self.env, "SUDO_UID").unwrap_or(user))
    }

    pub(super) fn is_declared_safe(&self, path: &Path) -> Result<bool, Error> {
        let config = self.protected_config()?;
        let mut safe = false;
        for configured in config.protected(&keys::safe::DIRECTORY) {
            let value = configured.value.unwrap_or_default();
            if value.is_empty() {
                safe = false;
            } else if value == "*" {
                safe = true;
            } else {
                let Some(allowed) = config::path(value, self.env)? else { continue };
                let bytes = allowed.as_bytes();
                if !allowed.is_absolute() && bytes != b"." {
                    let warning = [b"safe.directory '", bytes, b"' not absolute"].concat();
                    self.warnings.borrow_mut().push(warning.into());
                    continue;
                }
                if let Some(parent) = bytes.strip_suffix(b"/*") {
                    let parent = UserPath::new(parent).resolve_or_base(Path::new("/"));
                    let Ok(parent) = parent else { continue };
                    let parent = by_path::canonical(&parent).unwrap_or(parent);
                    safe |= path != parent && path.starts_with(&parent);
                } else {
                    let allowed = allowed.resolve(&self.cwd).map_err(Into::into);
                    let allowed = allowed.and_then(|allowed| by_path::canonical(&allowed));
                    safe |= allowed.is_ok_and(|allowed| allowed == path);
                }
            }
        }
        Ok(safe)
    }
}

/// Returns the id in a variable that `sudo` sets.
pub(super) fn sudo_id(env: &Env, variable: &str) -> Option<u32> {
    env.bytes(variable)?.trim_start().to_str().ok()?.parse().ok()
}
