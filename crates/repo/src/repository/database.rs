//! Opens the object database of a repository.

use std::sync::Arc;

use bstr::BStr;
use format::keys;
use objects::{Objects, Options, Promisors, Replacements};

use super::Repository;
use crate::{
    config::Config,
    env::Env,
    error::Error,
    open::Layout,
    promisor::Remotes,
    refs::{self, Replaced},
};

impl Repository {
    /// Returns the objects as they are stored: nothing is replaced, and nothing missing is fetched.
    pub fn stored_objects(&self) -> Objects {
        open(self.env(), &self.layout, None, None, None)
    }
}

/// Returns the replacements, unless they are turned off.
pub(super) fn replaced(
    env: &Env,
    layout: &Layout,
    config: &Config,
    refs: &refs::Store,
) -> Result<Option<Arc<Replaced>>, Error> {
    if env.is_set("GIT_NO_REPLACE_OBJECTS") || !config.get(&keys::core::USE_REPLACE_REFS)? {
        return Ok(None);
    }
    let base = env.bytes("GIT_REPLACE_REF_BASE").unwrap_or(BStr::new("refs/replace/"));
    Ok(Some(Arc::new(Replaced::new(refs.for_worktree(&layout.git_dir), base.to_owned()))))
}

/// Opens the object database of a repository.
pub(super) fn open(
    env: &Env,
    layout: &Layout,
    replaced: Option<&Arc<Replaced>>,
    promisors: Option<Remotes>,
    max_tree_depth: Option<i32>,
) -> Objects {
    let replacements = replaced.map(|replaced| Arc::clone(replaced) as Arc<dyn Replacements>);
    let promisors = promisors.map(|remotes| Arc::new(remotes) as Arc<dyn Promisors>);
    let mut options = Options { replacements, promisors, ..Options::default() };
    options.max_tree_depth = max_tree_depth.unwrap_or(options.max_tree_depth);
    if let Some(alternates) = env.bytes("GIT_ALTERNATE_OBJECT_DIRECTORIES") {
        options.alternates = alternates.to_owned();
        // Git has changed to the top of the worktree when it reads this variable.
        options.alternates_base = layout.work_tree.clone().unwrap_or_default();
    }
    Objects::with(&layout.objects_dir, layout.hash, options)
}
