//! What of submodules keeps a command from being native.

use repo::Repository;

use super::{Env, Reason, obstacles};
use crate::recursion;

/// Commands that can take submodules along (the others pay no heed to `submodule.recurse`).
const RECURSING: &[&str] = &["checkout", "read-tree", "reset", "restore", "switch"];

/// What keeps submodules from going along, if they are to: whether they are was `asked` for on the command line.
pub(super) fn recursion(command: &str, asked: Option<bool>, repo: &Repository) -> Option<Reason> {
    if !RECURSING.contains(&command) || !recursion::may_be_active(repo) {
        return None;
    }
    match recursion::wanted(asked, repo) {
        Ok(false) => None,
        Ok(true) => Some(Reason::repository("submodules are to go along")),
        Err(_) => Some(Reason::Setting("submodule.recurse".into())),
    }
}

/// What is in submodules against looking into them: whatever would be against a command there.
pub(super) fn within(repo: &Repository, env: &Env) -> Vec<Reason> {
    let Ok(index) = store::index::load(&repo.index_path(), repo.hash(), &Default::default()) else {
        return vec![Reason::repository("the index cannot be read")];
    };
    let mut found = Vec::new();
    for entry in index.entries().iter().filter(|entry| entry.mode.is_gitlink()) {
        let path = index.path(entry);
        let reasons = match repo.submodule(path) {
            Ok(None) => continue,
            Ok(Some(submodule)) if submodule.hash() != repo.hash() => {
                vec![Reason::repository("another kind of hash")]
            }
            Ok(Some(submodule)) => {
                let mut reasons = obstacles::settings("checkout", &submodule, env);
                reasons.extend(obstacles::index("checkout", &submodule, env));
                reasons
            }
            Err(_) => vec![Reason::repository("it cannot be opened")],
        };
        found.extend(
            reasons.into_iter().map(|reason| Reason::repository(format!("submodule '{path}': {reason}"))),
        );
    }
    found
}
