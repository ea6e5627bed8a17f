//! Compares the two worktrees.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

use super::sides::{Pair, Side};
use crate::SAPWOOD;
use bstr::BString;

pub(super) struct Verifier<'a> {
    pair: &'a Pair<'a>,
    name: String,
}

/// Type and permissions, and the content of a file or the target of a link.
pub(super) type Files = BTreeMap<BString, (u32, BString)>;

/// Reads all files, links and directories except `.git`.
pub(super) fn files(side: &Side<'_>) -> Files {
    let mut found = Files::new();
    let place = side.place();
    read_directory(&place, &place, &mut found);
    found
}

fn read_directory(root: &Path, dir: &Path, found: &mut Files) {
    for entry in fs::read_dir(dir).expect("a readable directory") {
        let path = entry.expect("a readable directory").path();
        let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes().into();
        if name == ".git" {
            continue;
        }
        let meta = path.symlink_metadata().expect("nobody else is here");
        let content = match meta.file_type() {
            kind if kind.is_dir() => {
                read_directory(root, &path, found);
                BString::default()
            }
            kind if kind.is_symlink() => fs::read_link(&path).expect("a link").as_os_str().as_bytes().into(),
            _ => fs::read(&path).expect("a readable file").into(),
        };
        found.insert(name, (meta.permissions().mode(), content));
    }
}

/// The commands whose output is compared. The first one runs twice, because it writes the index.
const COMPARED: [&[&str]; 9] = [
    &["status", "--porcelain=v2", "-uall"],
    &["status", "--porcelain", "-uall"],
    &["status", "--porcelain", "--ignored"],
    &["diff"],
    &["diff", "--cached", "--raw", "--abbrev=40"],
    &["ls-files", "--stage", "-t"],
    &["log", "-5", "--format=%H %D"],
    &["stash", "list", "--format=%H"],
    &["status", "--porcelain=v2", "-uall"],
];

impl<'a> Verifier<'a> {
    pub(super) fn new(pair: &'a Pair<'a>, name: String) -> Self {
        Verifier { pair, name }
    }

    fn failed(&self, log: &[String], what: &str) -> ! {
        let last = &log[log.len().saturating_sub(24)..];
        panic!("{}: {what}\nthe last steps:\n{}", self.name, last.join("\n"))
    }

    /// Compares everything. sapwood also runs the first command, before Git has written the index.
    pub(super) fn check(&self, log: &[String]) {
        let (plain, tested) = (&self.pair.plain, &self.pair.tested);
        let expected = plain.git(COMPARED[0]).stdout;
        let ours = tested.run(SAPWOOD, &["--no-optional-locks", "status", "--porcelain=v2", "-uall"]);
        if ours.stdout != expected || ours.code != 0 {
            self.failed(log, &format!("sapwood's status: Git's:\n{expected}\nsapwood's:\n{ours:?}"));
        }
        for question in COMPARED {
            let (one, other) = (plain.try_git(question), tested.try_git(question));
            if (one.code, &one.stdout) != (other.code, &other.stdout) {
                self.failed(
                    log,
                    &format!("{question:?}: plain worktree:\n{one:?}\nworktree under test:\n{other:?}"),
                );
            }
        }
        self.same_files(log);
        self.nothing_unsaved_is_hidden(log);
    }

    /// Checks that `workspace list` calls a workspace unsaved if its status shows something.
    fn nothing_unsaved_is_hidden(&self, log: &[String]) {
        let tested = &self.pair.tested;
        if !tested.is_workspace() || tested.git(COMPARED[1]).stdout.is_empty() {
            return;
        }
        let listed = tested.workspace_from_outside(&["list", "--json"]);
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        if listed[0]["unsaved"].is_null() {
            self.failed(log, &format!("it is not unsaved: {listed:#}"));
        }
    }

    fn same_files(&self, log: &[String]) {
        let (one, other) = (files(&self.pair.plain), files(&self.pair.tested));
        for (name, there) in &one {
            match other.get(name) {
                Some(here) if here == there => {}
                here => {
                    self.failed(log, &format!("'{name}': plain worktree: {there:?}, under test: {here:?}"))
                }
            }
        }
        if let Some((name, here)) = other.iter().find(|(name, _)| !one.contains_key(*name)) {
            self.failed(log, &format!("'{name}': only in the worktree under test: {here:?}"));
        }
    }

    /// Checks that Git's `fsck` finds no fault in the repository.
    pub(super) fn is_sound(&self, log: &[String]) {
        let run = self.pair.tested.try_git(&["fsck", "--no-dangling"]);
        if run.code != 0 {
            self.failed(log, &format!("fsck: {run:?}"));
        }
    }
}
