//! Directory and environment of child processes.

use std::{ffi::OsString, path::Path};

use super::Repository;
use crate::{config::config_parameters, env::Env, open, options::OpenOptions};

impl Repository {
    /// Replaces the environment, for hooks, filters and monitors.
    pub fn set_env(&mut self, env: Env) {
        self.options.env = env;
    }

    /// Returns the environment.
    pub fn env(&self) -> &Env {
        &self.options.env
    }

    /// Returns the options by which another worktree of the repository is opened from the directory
    /// `cwd`: those of this one, without its place.
    pub fn options_at(&self, cwd: &Path) -> OpenOptions {
        OpenOptions { cwd: cwd.to_owned(), git_dir: None, work_tree: None, ..self.options.clone() }
    }

    /// Returns the environment for a child process (filter, hook) that runs in
    /// [`Repository::child_dir`]. Command-line options and Git's own variables about the repository
    /// override given variables. Paths are relative to that directory.
    pub fn child_env(&self) -> Vec<(OsString, OsString)> {
        child_env(&self.options, &self.layout)
    }

    /// Returns the Git directory in the form that Git uses: absolute, or relative to
    /// [`Repository::child_dir`]. `None` for a `.git` that discovery found in that directory.
    pub fn exported_git_dir(&self) -> Option<&Path> {
        self.layout.exported.as_deref()
    }

    /// Returns the directory in which Git runs and starts programs: the top of the worktree, or the
    /// current directory if there is no worktree.
    pub fn child_dir(&self) -> &Path {
        child_dir(&self.options, &self.layout)
    }
}

/// See [`Repository::child_env`].
fn child_env(options: &OpenOptions, layout: &open::Layout) -> Vec<(OsString, OsString)> {
    let env = &options.env;
    let mut variables: Vec<_> = env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut set = |name: &str, value: OsString| {
        variables.retain(|(known, _)| known != name);
        variables.push((name.into(), value));
    };
    if let Some(git_dir) = &layout.exported {
        set("GIT_DIR", git_dir.into());
    }
    if layout.is_bare_directory {
        set("GIT_IMPLICIT_WORK_TREE", "0".into());
    }
    let names_worktree =
        env.is_set("GIT_WORK_TREE") || (options.work_tree.is_some() && !options.is_created_by_command);
    if names_worktree && layout.work_tree.is_some() {
        set("GIT_WORK_TREE", ".".into());
    }
    if !options.is_created_by_command {
        set("GIT_PREFIX", sys::os_str(&layout.prefix).to_owned());
    }
    if let Some(parameters) = config_parameters(env.bytes("GIT_CONFIG_PARAMETERS"), &options.config) {
        set("GIT_CONFIG_PARAMETERS", parameters);
    }
    variables
}

/// See [`Repository::child_dir`].
fn child_dir<'a>(options: &'a OpenOptions, layout: &'a open::Layout) -> &'a Path {
    layout.work_tree.as_deref().unwrap_or(&options.cwd)
}
