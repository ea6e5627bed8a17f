//! What of submodules keeps a command from being native.

use std::path::Path;

use repo::Repository;
use sys::{FileType, by_path};

use super::{Reason, obstacles};
use crate::git::Env;
use crate::session::submodules;

/// Commands that can take submodules along (the others pay no heed to `submodule.recurse`).
const RECURSING: &[&str] = &["checkout", "read-tree", "reset", "restore", "switch"];

/// Whether some submodule may have to go along: whether they are to was `asked` for on the command line.
pub(super) fn go_along(command: &str, asked: Option<bool>, repo: &Repository) -> Result<bool, Reason> {
    if !RECURSING.contains(&command) || !submodules::may_be_active(repo) {
        return Ok(false);
    }
    submodules::wanted(asked, repo).map_err(|_| Reason::Setting("submodule.recurse".into()))
}

/// What keeps them from it: whatever would be against a command in one, be it checked out or not, and what only Git can do.
pub(super) fn recursion(repo: &Repository, env: &Env) -> Vec<Reason> {
    let mut found = Vec::new();
    if repo.extensions().submodule_paths {
        found.push(Reason::Setting("extensions.submodulepathconfig".into()));
    }
    let Ok(index) = store::index::load(&repo.index_path(), repo.hash(), &Default::default()) else {
        return vec![Reason::repository("the index cannot be read")];
    };
    for entry in index.entries().iter().filter(|entry| entry.mode.is_gitlink()) {
        let path = index.path(entry);
        let mut add = |what: &str| found.push(Reason::repository(format!("submodule '{path}': {what}")));
        let Ok(Some(submodule)) = repo.submodule(path) else { continue };
        let Some(top) = submodule.work_tree() else { continue };
        if by_path::stat(&top.join(".git"))
            .is_ok_and(|it| it.is_some_and(|it| it.file_type == FileType::Directory))
        {
            add("its .git is a directory");
        }
        if submodule.head().is_ok_and(|head| head.oid().is_none()) {
            add("its branch is yet to be born");
        }
        found.extend(recursion(&submodule, env));
    }
    found.extend(kept(repo, &repo.git_dir().join("modules"), env));
    found
}

/// The same of the repositories below `dir`, whose worktrees may be elsewhere or nowhere.
fn kept(repo: &Repository, dir: &Path, env: &Env) -> Vec<Reason> {
    let mut found = Vec::new();
    for (name, file_type) in by_path::list(dir).unwrap_or_default() {
        let place = dir.join(name);
        if file_type != FileType::Directory {
            continue;
        }
        if !repo.is_git_directory(&place) {
            found.extend(kept(repo, &place, env));
            continue;
        }
        let reasons = match repo.opened_at(&place) {
            Ok(kept) if kept.hash() != repo.hash() => vec![Reason::repository("another kind of hash")],
            Ok(kept) => {
                let mut reasons = obstacles::warnings(&kept);
                reasons.extend(obstacles::settings("read-tree", &kept, env));
                reasons.extend(obstacles::files(&kept));
                reasons.extend(obstacles::index_at(&kept.index_path(), &kept));
                reasons
            }
            Err(_) => vec![Reason::repository("it cannot be opened")],
        };
        let named = |reason| Reason::repository(format!("submodule at '{}': {reason}", place.display()));
        found.extend(reasons.into_iter().map(named));
        found.extend(self::kept(repo, &place.join("modules"), env));
    }
    found
}

/// The same where those that are not checked out are looked into, too.
pub(super) fn listed(repo: &Repository, env: &Env) -> Vec<Reason> {
    let mut found = within(repo, env);
    found.extend(kept(repo, &repo.git_dir().join("modules"), env));
    found
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
                let mut reasons = obstacles::warnings(&submodule);
                reasons.extend(obstacles::settings("checkout", &submodule, env));
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
