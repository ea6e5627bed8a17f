//! Files and states of a repository that leave a command to the real Git.

use std::path::Path;

use bstr::{BStr, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{FileType, index::has_submodules, refs::some_head_is_a_link};

use super::{Candidate, hooks, submodules};
use crate::{
    commands::reason::Reason,
    session::monitor::{self, Monitor},
    term::{files, text::os_str},
};

/// Detects files that block a command that writes.
pub(crate) fn files_of_writers(candidate: &Candidate<'_>) -> Vec<Reason> {
    files(candidate.repo())
}

/// Detects files that block a command that only reads, or writes at most the index, if it is not
/// locked. Lock files do not block it.
pub(crate) fn files_of_readers(candidate: &Candidate<'_>) -> Vec<Reason> {
    grafts_and_links(candidate.repo())
}

/// Like [`files_of_writers`], for another repository.
pub(crate) fn files(repo: &Repository) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut look = |path: &Path, what: &str| {
        if files::may_exist(path) {
            found.push(Reason::repository(what));
        }
    };
    look(&repo.git_dir().join("MERGE_AUTOSTASH"), "a merge has an autostash");
    let mut lock = repo.index_path().into_os_string();
    lock.push(".lock");
    look(Path::new(&lock), "the index is locked");
    look(&repo.git_dir().join("HEAD.lock"), "HEAD is locked");
    let branch = repo.head().ok().and_then(|head| head.branch().map(BStr::to_owned));
    if let Some(mut branch) = branch {
        branch.extend_from_slice(b".lock");
        look(&repo.refs_dir().join(os_str(&branch)), "the branch is locked");
    }
    found.extend(hooks::present(repo, hooks::UNSERVED));
    found.extend(grafts_and_links(repo));
    found
}

/// Detects the file that changes the parents of commits.
pub(crate) fn grafts(repo: &Repository) -> Option<Reason> {
    let found = files::may_exist(&repo.common_dir().join("info/grafts"));
    found.then(|| Reason::repository("info/grafts exists"))
}

fn grafts_and_links(repo: &Repository) -> Vec<Reason> {
    let mut found: Vec<Reason> = grafts(repo).into_iter().collect();
    let is_directory = |path| {
        let stat = files::stat_followed(path).ok().flatten();
        stat.is_some_and(|stat| stat.file_type == FileType::Directory)
    };
    if repo.work_tree().is_some_and(|top| !is_directory(top)) {
        found.push(Reason::repository("the work tree is not there"));
    }
    if some_head_is_a_link(repo) {
        found.push(Reason::repository("some HEAD is a symbolic link"));
    }
    found
}

/// Detects the settings of a partial clone, which lacks objects that a remote promised.
pub(crate) fn partial(repo: &Repository) -> Vec<Reason> {
    let promises = |name: &&BStr| {
        let of_remote = name.ends_with(b".promisor") || name.ends_with(b".partialclonefilter");
        name.starts_with(b"remote.") && of_remote
    };
    let remotes = repo.config_names().filter(promises).map(|name| name.to_string());
    let extension = repo.extensions().partial_clone.iter().map(|_| keys::extensions::PARTIAL_CLONE.lower());
    remotes.chain(extension).map(Reason::Setting).collect()
}

/// Detects an index that sapwood does not read, and obstacles in the submodules that it contains.
pub(crate) fn index(candidate: &Candidate<'_>) -> Vec<Reason> {
    index_of(candidate.repo())
}

/// Like [`index`], for a command that does not examine submodules.
pub(crate) fn index_alone(candidate: &Candidate<'_>) -> Vec<Reason> {
    monitored_index(candidate.repo()).err().into_iter().collect()
}

/// Like [`index`], for another repository.
pub(crate) fn index_of(repo: &Repository) -> Vec<Reason> {
    match monitored_index(repo) {
        Ok(true) => submodules::within(repo),
        Ok(false) => Vec::new(),
        Err(reason) => vec![reason],
    }
}

/// Examines the index of a repository. Returns true if it has submodules.
fn monitored_index(repo: &Repository) -> Result<bool, Reason> {
    if matches!(monitor::configured(repo), Ok(Monitor::Unfit(_)) | Err(_)) {
        // Git warns of such a monitor whenever it reads an index.
        return Err(Reason::repository("it is not one that the configured file system monitor can watch"));
    }
    examine_index(&repo.index_path(), repo)
}

/// Detects an index at `path` that sapwood does not read. Submodules do not matter.
pub(crate) fn index_at(path: &Path, repo: &Repository) -> Vec<Reason> {
    examine_index(path, repo).err().into_iter().collect()
}

fn examine_index(path: &Path, repo: &Repository) -> Result<bool, Reason> {
    has_submodules(path, repo.hash()).map_err(|_| Reason::repository("the index cannot be read"))
}

/// Detects the warnings that Git prints whenever it discovers the repository.
pub(crate) fn warnings(repo: &Repository) -> Vec<Reason> {
    repo.discovery_warnings().iter().map(|warning| Reason::repository(warning.to_str_lossy())).collect()
}
