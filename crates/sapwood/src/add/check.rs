//! Checks of pathspecs: symlinks and submodules in them, and pathspecs that match nothing.

use bstr::{BStr, ByteSlice as _};
use engine::pathspec::{Matched, Pathspecs, Seen};
use format::index::{Entry, Flags, Index};
use repo::Repository;
use sys::{Dir, FileType};

use crate::{Error, advice::is_inside, text};

/// Returns an error for a pathspec that passes through a symlink.
pub fn must_not_be_behind_links(worktree: &Dir, pathspecs: &Pathspecs) -> Result<(), Error> {
    for (path, original) in pathspecs.patterns() {
        for slash in path.find_iter("/") {
            let found = worktree.stat(&path[..slash]).ok().flatten();
            match found.map(|stat| stat.file_type) {
                Some(FileType::Symlink) => {
                    let message = text!("pathspec '", original, "' is beyond a symbolic link");
                    return Err(Error::Failed(message));
                }
                Some(FileType::Directory) => {}
                _ => break,
            }
        }
    }
    Ok(())
}

/// Returns an error if the current directory is in an unpopulated submodule, or a pathspec leads
/// into a submodule.
pub fn submodules(repo: &Repository, index: &Index, pathspecs: &Pathspecs) -> Result<(), Error> {
    let is_below = |path: &BStr, dir: &BStr| {
        path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.len() > 1 && rest[0] == b'/')
    };
    let submodules: Vec<&BStr> = index.gitlinks().map(|at| index.path_at(at)).collect();
    for submodule in &submodules {
        let prefix = repo.prefix();
        if prefix == submodule.as_bytes()
            || prefix.strip_suffix(b"/") == Some(submodule.as_bytes())
            || is_below(prefix, submodule)
        {
            return Err(Error::Failed(text!("in unpopulated submodule '", submodule, "'")));
        }
    }
    for submodule in &submodules {
        for (path, original) in pathspecs.patterns() {
            if is_below(path, submodule) {
                let message = text!("Pathspec '", original, "' is in submodule '", submodule, "'");
                return Err(Error::Failed(message));
            }
        }
    }
    Ok(())
}

/// Records which pathspecs match an entry that the sparse patterns include. Stops early if all have
/// matched.
pub(super) fn match_entries(
    index: &Index,
    pathspecs: &Pathspecs,
    patterns: Option<&engine::sparse::Patterns>,
    seen: &mut Seen,
) {
    let is_done = |seen: &Seen| pathspecs.uses(seen).all(|one| one.matched != Matched::Nothing);
    if is_done(seen) {
        return;
    }
    for at in pathspecs.positions(index) {
        let entry = index.entry(at);
        if !is_outside(index, &entry, patterns) {
            pathspecs.matches_in_turn(index.path(&entry), entry.mode, seen);
        }
    }
}

/// Returns true if the entry is outside the sparse worktree.
pub(super) fn is_outside(index: &Index, entry: &Entry, patterns: Option<&engine::sparse::Patterns>) -> bool {
    entry.flags.contains(Flags::SKIP_WORKTREE) || !is_inside(patterns, index.path(entry))
}

/// The pathspecs that match entries outside the sparse checkout, determined on first use.
pub(super) struct OutsideMatches<'a> {
    pub(super) index: &'a Index,
    pub(super) pathspecs: &'a Pathspecs,
    pub(super) patterns: Option<&'a engine::sparse::Patterns>,
    pub(super) seen: Option<Seen>,
}

impl OutsideMatches<'_> {
    /// Returns true if the pathspec with this index matches such an entry.
    pub(super) fn has(&mut self, number: usize) -> bool {
        let seen = self.seen.get_or_insert_with(|| {
            let mut seen = Seen::default();
            for entry in self.index.entries_in(0..self.index.len()) {
                if is_outside(self.index, &entry, self.patterns) {
                    let path = self.index.path(&entry);
                    self.pathspecs.matches_in_turn(path, entry.mode, &mut seen);
                }
            }
            seen
        });
        self.pathspecs.uses(seen).nth(number).is_some_and(|one| one.matched != Matched::Nothing)
    }
}
