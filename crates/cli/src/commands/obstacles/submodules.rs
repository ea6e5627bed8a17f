//! States of submodules that leave a command to the real Git.

use std::path::Path;

use repo::{Repository, keys};
use sapwood::{
    FileType,
    index::{Access, load_as_is},
};

use super::{GENERAL, hooks, repository, settings_in};
use crate::{
    commands::{reason::Reason, record::Candidate},
    session::submodules,
    term::files,
};

/// Detects states of submodules that block a command with `--recurse-submodules`.
pub(crate) fn recursion(candidate: &Candidate<'_>) -> Vec<Reason> {
    match are_included(candidate) {
        Ok(true) => blocked(candidate.repo()),
        Ok(false) => Vec::new(),
        Err(reason) => vec![reason],
    }
}

/// Returns true if the command must change submodules too.
pub(crate) fn are_included(candidate: &Candidate<'_>) -> Result<bool, Reason> {
    let repo = candidate.repo();
    if !submodules::may_be_active(repo) {
        return Ok(false);
    }
    let asked = candidate.survey.and_then(|survey| submodules::asked(survey).ok().flatten());
    submodules::wanted(asked, repo).map_err(|_| Reason::Setting(keys::submodule::RECURSE.lower()))
}

/// Detects obstacles to a recursive change: obstacles in any submodule, checked out or not, and
/// states that only Git handles.
fn blocked(repo: &Repository) -> Vec<Reason> {
    let mut found = Vec::new();
    if repo.extensions().submodule_paths {
        found.push(Reason::Setting(keys::extensions::SUBMODULE_PATH_CONFIG.lower()));
    }
    let Ok(index) = load_as_is(repo, Access::Lookups) else {
        return vec![Reason::repository("the index cannot be read")];
    };
    for at in index.gitlinks() {
        let path = index.path_at(at);
        let mut add = |what: &str| found.push(Reason::repository(format!("submodule '{path}': {what}")));
        let Ok(Some(submodule)) = repo.submodule(path) else { continue };
        let Some(top) = submodule.work_tree() else { continue };
        if files::stat(&top.join(".git"))
            .is_ok_and(|it| it.is_some_and(|it| it.file_type == FileType::Directory))
        {
            add("its .git is a directory");
        }
        if submodule.head().is_ok_and(|head| head.oid().is_none()) {
            add("its branch is yet to be born");
        }
        found.extend(blocked(&submodule));
    }
    found.extend(kept(repo, &repo.git_dir().join("modules")));
    found
}

/// Detects obstacles in the repositories below `dir`. Their worktrees may be elsewhere or missing.
fn kept(repo: &Repository, dir: &Path) -> Vec<Reason> {
    let mut found = Vec::new();
    for (name, file_type) in files::list(dir).unwrap_or_default() {
        let place = dir.join(name);
        if file_type != FileType::Directory {
            continue;
        }
        if !repo.is_git_directory(&place) {
            found.extend(kept(repo, &place));
            continue;
        }
        let reasons = match repo.open_git_dir(&place) {
            Ok(kept) if kept.hash() != repo.hash() => vec![Reason::repository("another kind of hash")],
            Ok(kept) => {
                let mut reasons = general(&kept);
                reasons.extend(repository::files(&kept));
                reasons.extend(repository::index_at(&kept.index_path(), &kept));
                reasons
            }
            Err(_) => vec![Reason::repository("it cannot be opened")],
        };
        let named = |reason| Reason::repository(format!("submodule at '{}': {reason}", place.display()));
        found.extend(reasons.into_iter().map(named));
        found.extend(self::kept(repo, &place.join("modules")));
    }
    found
}

/// Detects obstacles in all submodules, including those that are not checked out.
pub(crate) fn listed(repo: &Repository) -> Vec<Reason> {
    let mut found = within(repo);
    found.extend(kept(repo, &repo.git_dir().join("modules")));
    found
}

/// Detects obstacles to examining the submodules that are checked out.
pub(crate) fn within(repo: &Repository) -> Vec<Reason> {
    let Ok(index) = load_as_is(repo, Access::Lookups) else {
        return vec![Reason::repository("the index cannot be read")];
    };
    let mut found = Vec::new();
    for at in index.gitlinks() {
        let path = index.path_at(at);
        let reasons = match repo.submodule(path) {
            Ok(None) => continue,
            Ok(Some(submodule)) if submodule.hash() != repo.hash() => {
                vec![Reason::repository("another kind of hash")]
            }
            Ok(Some(submodule)) => {
                let mut reasons = general(&submodule);
                reasons.extend(repository::index_of(&submodule));
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

/// Detects obstacles to any command that writes in `repo`, except files and the index.
fn general(repo: &Repository) -> Vec<Reason> {
    let mut found = repository::warnings(repo);
    found.extend(settings_in(repo, &[GENERAL], ""));
    found.extend(hooks::configured_in(repo));
    found
}
