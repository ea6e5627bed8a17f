//! Removal of the files, and of the directories that become empty.

use std::io;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{guard::Guard, unlinked::Unlinked};
use sys::FileType;

use super::{Removal, check::Checked};
use crate::term::{
    console::{self, text},
    failure::Failure,
};

impl Removal<'_> {
    /// Removes the files at `paths`, which are sorted. The first file that cannot be removed ends
    /// the command. If it is not the first path, the index still loses all of them, as in Git.
    /// Returns the exit code.
    pub(super) fn remove_files(&self, paths: &[BString], checked: &Checked) -> Result<u8, Failure> {
        let (invocation, repo) = (self.session.invocation, self.session.repository);
        let root = repo.work_tree().expect("it was opened");
        let guard = Guard::of(repo, root)?;
        let cwd = invocation.original_cwd(repo);
        let unlinked = Unlinked::of(checked.values());
        let (mut is_any_gone, mut code) = (false, 0);
        for (number, path) in paths.iter().enumerate() {
            invocation.interrupt.check()?;
            let path = path.as_bstr();
            guard.check(path)?;
            match self.remove_file(path, checked, &unlinked) {
                Ok(Removed::Gone) => is_any_gone = true,
                Ok(Removed::Changed) => {
                    console::warning(text!("'", path, "' was changed meanwhile, and stays in the worktree"));
                    code = 1;
                    continue;
                }
                Err(error) if !is_any_gone => {
                    return Err(Failure::Fatal(text!("git rm: '", path, "': ", sys::reason(&error))));
                }
                Err(_) => continue,
            }
            let next = paths.get(number + 1).map(|next| next.as_bstr());
            self.remove_directories(path, next, cwd.as_ref().map(|cwd| cwd.as_bstr()));
        }
        Ok(code)
    }

    fn remove_file(&self, path: &BStr, checked: &Checked, unlinked: &Unlinked) -> io::Result<Removed> {
        // A path through a symlink leads out of the worktree, and counts as missing.
        let Some(now) = self.worktree.stat(path)? else { return Ok(Removed::Gone) };
        if now.file_type == FileType::Directory {
            // The directory stays: `unlink` fails and returns the error to report.
            return self.worktree.remove_file(path).map(|()| Removed::Gone);
        }
        if !self.request.force && checked.get(path).is_none_or(|then| !unlinked.is_unchanged(then, &now)) {
            return Ok(Removed::Changed);
        }
        unlinked.mark(&now);
        match self.worktree.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Removed::Gone),
        }
    }

    /// Removes the parent directories of `path` that are empty now, except `cwd`, where the command
    /// was started, and its parents. A directory that also contains the path `next` is not empty
    /// yet.
    fn remove_directories(&self, path: &BStr, next: Option<&BStr>, cwd: Option<&BStr>) {
        for slash in path.rfind_iter("/") {
            let dir = path[..slash].as_bstr();
            let is_below = |next: &BStr| next.len() > slash && next[slash] == b'/' && next.starts_with(dir);
            if cwd == Some(dir) || next.is_some_and(is_below) || self.worktree.remove_dir(dir).is_err() {
                return;
            }
        }
    }
}

/// The result of a removal.
enum Removed {
    /// The file was removed, or did not exist.
    Gone,
    /// The file changed after the check.
    Changed,
}
