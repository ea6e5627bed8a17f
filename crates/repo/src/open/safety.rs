//! Whether a repository may be used: who owns it (`safe.directory`), and bare ones (`safe.bareRepository`).

use std::{
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

use bstr::ByteSlice;

use super::Finder;
use crate::{
    Error,
    config::{self, Config, Sources},
    quote,
};

impl Finder<'_> {
    fn protected_config(&self) -> Result<Config, Error> {
        config::load(self.env, Sources { command: &self.options.config, ..Sources::default() })
    }

    pub(super) fn check_bare_allowed(&self, dir: &Path) -> Result<(), Error> {
        let config = self.protected_config()?;
        let explicit_only =
            config.all_protected("safe.bareRepository").last().is_some_and(|v| v == "explicit");
        let text = dir.as_os_str().as_bytes();
        let implied = dir.ends_with(".git")
            || text.contains_str("/.git/worktrees/")
            || text.contains_str("/.git/modules/");
        if explicit_only && !implied {
            return Err(Error::new(format!(
                "cannot use bare repository '{}' (safe.bareRepository is 'explicit')",
                dir.display()
            )));
        }
        Ok(())
    }

    /// Refuses what belongs to somebody else, unless `safe.directory` names it.
    pub(super) fn check_owner(
        &self,
        dir: &Path,
        gitfile: Option<&Path>,
        work_tree: Option<&Path>,
        git_dir: &Path,
    ) -> Result<(), Error> {
        let assume_other = self.env.boolean("GIT_TEST_ASSUME_DIFFERENT_OWNER")?.unwrap_or(false);
        let mut parts = [gitfile, work_tree, Some(git_dir)].into_iter().flatten();
        if !assume_other && parts.all(|part| self.is_owned(part)) {
            return Ok(());
        }
        let named = work_tree.unwrap_or(git_dir);
        if let Ok(path) = named.canonicalize()
            && self.is_declared_safe(&path)?
        {
            return Ok(());
        }
        Err(Error::new(format!(
            "detected dubious ownership in repository at '{}'\n\
             To add an exception for this directory, call:\n\n\
             \tgit config --global --add safe.directory {}",
            dir.display(),
            quote::shell_pretty(dir.as_os_str().as_bytes().as_bstr())
        )))
    }

    fn is_owned(&self, path: &Path) -> bool {
        let Ok(stat) = path.symlink_metadata() else { return false };
        let user = sys::user::effective_uid();
        if user != 0 || stat.uid() == 0 {
            return stat.uid() == user;
        }
        // Root by way of sudo may use what belongs to the user who called it.
        let sudo =
            self.env.bytes("SUDO_UID").and_then(|uid| uid.to_str().ok()).and_then(|uid| uid.parse().ok());
        stat.uid() == sudo.unwrap_or(user)
    }

    fn is_declared_safe(&self, path: &Path) -> Result<bool, Error> {
        let config = self.protected_config()?;
        let mut safe = false;
        for value in config.all_protected("safe.directory") {
            if value.is_empty() {
                safe = false;
            } else if value == "*" {
                safe = true;
            } else {
                let allowed = config::interpolate(value, self.env)
                    .ok_or_else(|| Error::new(format!("failed to expand user dir in: '{value}'")))?;
                if !allowed.is_absolute() && allowed != Path::new(".") {
                    continue;
                }
                let bytes = allowed.as_os_str().as_bytes();
                if let Some(parent) = bytes.strip_suffix(b"/*") {
                    let parent = Path::new(std::ffi::OsStr::from_bytes(parent));
                    let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
                    safe |= path != parent && path.starts_with(&parent);
                } else {
                    let allowed = self.cwd.join(allowed).canonicalize();
                    safe |= allowed.is_ok_and(|allowed| allowed == path);
                }
            }
        }
        Ok(safe)
    }
}
