//! The environment of processes that run for another repository.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
};

/// Returns true if an environment variable describes the caller's repository: the list of `git
/// rev-parse --local-env-vars`.
pub(super) fn is_repository_variable(name: &OsStr) -> bool {
    const NAMES: [&str; 16] = [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS",
        "GIT_CONFIG_COUNT",
        "GIT_OBJECT_DIRECTORY",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_REPLACE_REF_BASE",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_COMMON_DIR",
        "GIT_INTERNAL_SUPER_PREFIX",
    ];
    NAMES.iter().any(|known| name == *known)
}

/// Returns the environment without the variables that describe one repository.
pub fn without_repository(env: &HashMap<OsString, OsString>) -> HashMap<OsString, OsString> {
    let kept = env.iter().filter(|(name, _)| !is_repository_variable(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
