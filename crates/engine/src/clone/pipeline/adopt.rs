//! The files that were written ahead, and their way into the worktree and the index.

use std::{collections::HashSet, sync::Arc};

use format::index::{Edit, Index};
use sys::{Dir, FileType};

use super::write::{Writer, Written};
use crate::files::{Allowed, Premise};

/// Files in the staging directory. It is removed with the value.
pub struct Staged {
    pub(super) writer: Arc<Writer>,
    pub(super) written: Vec<Written>,
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Staged({})", self.written.len())
    }
}

impl Staged {
    /// Moves the files into the worktree, each name at its top only if its place is free, and
    /// enters them in `index`, which must be empty. Returns their number.
    ///
    /// A file that cannot be moved is left to the checkout.
    pub fn adopt(mut self, worktree: &Dir, index: &mut Index) -> usize {
        if !index.is_empty() {
            return 0;
        }
        let mut moved = HashSet::new();
        let top = Allowed::in_new_directory().within(worktree);
        for (name, _) in self.writer.root().list().unwrap_or_default() {
            let from = [super::STAGING.as_bytes(), b"/", &name].concat();
            let from = [b".git/", from.as_slice()].concat();
            if top.rename(&from, &name, &Premise::Absent).is_ok() {
                moved.insert(name);
            }
        }
        let mut written = std::mem::take(&mut self.written);
        written.retain_mut(|written| {
            let path: &[u8] = &written.file.path;
            let top = path.split(|&byte| byte == b'/').next().unwrap_or_default();
            moved.contains(top) && (top.len() < path.len() || look_again(worktree, written))
        });
        written.sort_unstable_by(|one, other| one.file.path.cmp(&other.file.path));
        let adopted = written.len();
        let edits = written.into_iter().map(|written| {
            let entry = written.entry();
            Edit { path: written.file.path, entries: vec![entry] }
        });
        index.apply(edits.collect());
        adopted
    }
}

/// The rename of a file changes its ctime. Returns false if another file is there by now.
fn look_again(worktree: &Dir, written: &mut Written) -> bool {
    match worktree.stat(&written.file.path) {
        Ok(Some(stat)) if stat.file_type == FileType::File && stat.ino == written.stat.ino => {
            let is_same = (stat.mtime, stat.size) == (written.stat.mtime, written.stat.size);
            written.stat = stat;
            is_same
        }
        _ => false,
    }
}
