//! Texts made of values: the words are Git's, as scripts and people know them.

pub(crate) mod color;
pub(crate) mod columns;
pub(crate) mod relative;
pub(crate) mod sideband;
pub(crate) mod tracking;

use std::{io, path::PathBuf};

use repo::Repository;

/// A file of the common directory as Git names it in messages: from the top of the main worktree if that is where
/// it works.
pub(crate) fn git_path(repo: &Repository, name: &str) -> PathBuf {
    let path = repo.common_dir().join(name);
    match repo.work_tree().filter(|_| repo.git_dir() == repo.common_dir()) {
        Some(top) => path.strip_prefix(top).map(PathBuf::from).unwrap_or(path),
        None => path,
    }
}

/// What the C library says of an error, without Rust's `(os error n)`.
pub(crate) fn os_error(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// A JSON string.
pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
