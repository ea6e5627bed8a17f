//! The state of a worktree, as a copy of everything in it.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use testkit::Repo;

/// The kind and the content of a file.
pub(super) type File = (&'static str, Vec<u8>);

/// A copy of a worktree, of its index, and of what Git says about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) files: BTreeMap<String, File>,
    pub(super) index: String,
    pub(super) head: String,
    pub(super) status: String,
}

impl Model {
    /// Copies the tracked and untracked files, without the ignored ones.
    pub(super) fn of(repo: &Repo<'_>) -> Model {
        let text = |args: &[&str]| repo.git(args).stdout.to_string();
        let listed = text(&["ls-files", "-z", "-c", "-o", "--exclude-standard"]);
        let names = listed.split('\0').filter(|name| !name.is_empty());
        let files = names.filter_map(|name| Some((name.to_owned(), file(repo, name)?))).collect();
        Model {
            files,
            index: text(&["ls-files", "--stage"]),
            head: text(&["rev-parse", "HEAD"]) + &text(&["rev-parse", "--symbolic-full-name", "HEAD"]),
            status: text(&["status", "--porcelain", "-uall"]),
        }
    }
}

/// Returns every file in the worktree.
pub(super) fn everything(repo: &Repo<'_>) -> BTreeMap<String, File> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(repo.join(&dir)).expect("a directory") {
            let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
            let path = format!("{dir}{name}");
            if name == ".git" {
                continue;
            }
            match file(repo, &path) {
                Some(file) => {
                    found.insert(path, file);
                }
                None => dirs.push(format!("{path}/")),
            }
        }
    }
    found
}

/// Returns a file or link; `None` if there is none.
fn file(repo: &Repo<'_>, path: &str) -> Option<File> {
    let place = repo.join(path);
    let found = fs::symlink_metadata(&place).ok()?;
    if found.is_symlink() {
        let target = fs::read_link(&place).expect("a link");
        return Some(("link", target.to_str().expect("a plain target").as_bytes().to_vec()));
    }
    let kind = if found.permissions().mode() & 0o100 == 0 { "file" } else { "executable" };
    found.is_file().then(|| (kind, fs::read(&place).expect("a readable file")))
}
