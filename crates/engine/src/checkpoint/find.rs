//! The paths whose files differ from the index.
//!
//! Nothing is read here but the files whose stat data do not tell if they changed.

use std::{collections::HashSet, sync::atomic::Ordering};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{Index, Stage},
    path,
};
use repo::{Repository, submodule::Ignore};
use sys::{Dir, FileType};

use super::{
    Error,
    snapshot::{LeftOut, Reason, Scope},
};
use crate::{
    add::{self, Found, PathProbe},
    diff::SubmoduleIgnore,
    look::{
        pathspec::{Defaults, Pathspecs},
        protect,
        untracked::{self, Directories, Excludes, Ignored, Nested, Others, cache},
    },
    status,
};

/// Above this number of untracked directories, one walk through the worktree replaces the walks
/// through them: each path is compared with all of their names.
const MANY_DIRECTORIES: usize = 64;

/// The paths whose files differ from the index.
#[derive(Default)]
pub(super) struct Changes {
    /// Paths of the index, with their mode there; `None` for an unmerged path.
    pub(super) tracked: Vec<(BString, Option<Mode>)>,
    pub(super) untracked: Vec<BString>,
    /// Those of the untracked ones that are ignored.
    pub(super) ignored: HashSet<BString>,
    /// Paths whose files are missing.
    pub(super) missing: Vec<BString>,
    /// Submodules, with the commit that is checked out.
    pub(super) submodules: Vec<(BString, ObjectId)>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Finds the changes, and refreshes stat data in `index`.
pub(super) fn changes(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    scope: &Scope<'_>,
) -> Result<Changes, Error> {
    Finder { repo, root, scope, left_out: Vec::new() }.find(index)
}

struct Finder<'a> {
    repo: &'a Repository,
    root: &'a Dir,
    scope: &'a Scope<'a>,
    left_out: Vec<LeftOut>,
}

impl Finder<'_> {
    fn find(mut self, index: &mut Index) -> Result<Changes, Error> {
        let Finder { repo, root, .. } = self;
        let excludes = Excludes::standard(repo, &[])?;
        let directories = Directories::WholeUnlessEmpty;
        let excludes = if cache::fit(repo, index, directories) { excludes } else { excludes.without_cache() };
        let everything = Pathspecs::default();
        let search = self.search(directories)?;
        let options = status::Options {
            untracked: Some(status::Untracked { options: search, excludes: &excludes }),
            submodules: SubmoduleIgnore::Given(Ignore::Dirty),
            ..status::Options::tracked(&everything, self.scope.interrupt)
        };
        let worktree = status::examine(repo, root, index, &options)?;
        self.check_interrupt()?;
        for (at, stat) in worktree.refreshed {
            index.update(at, |entry| entry.stat = stat);
        }
        let mut changes = Changes::default();
        for (path, source) in worktree.unreadable {
            // A link in the place of a directory may lead in a circle.
            if is_replaced_above(root, path.as_bstr()) {
                changes.missing.push(path);
            } else {
                self.unreadable(path, &source);
            }
        }
        self.warned(worktree.found.warnings)?;
        for pair in worktree.changes {
            let of_index = index.entries_in(index.range_of(pair.path.as_bstr())).next();
            let Some(entry) = of_index.filter(|entry| entry.stage == Stage::Normal) else { continue };
            match pair.new.map(|side| side.mode) {
                _ if entry.mode.is_gitlink() => match add::commit_at(repo, pair.path.as_bstr()) {
                    Some(commit) if commit.kind() == repo.hash() => {
                        changes.submodules.push((pair.path, commit));
                    }
                    // No tree of this repository can name the commit.
                    Some(_) => {
                        self.left_out.push(LeftOut { path: pair.path, reason: Reason::OtherHash });
                    }
                    None => {}
                },
                None => changes.missing.push(pair.path),
                Some(_) => changes.tracked.push((pair.path, Some(entry.mode))),
            }
        }
        self.unmerged(index, &mut changes);
        changes.untracked = self.untracked(index, &excludes, worktree.found.untracked)?;
        for path in self.scope.also {
            let is_found = changes.untracked.binary_search(path).is_ok();
            if !is_found && untracked::is_other(index, path.as_bstr()) {
                changes.ignored.insert(path.clone());
            }
        }
        changes.untracked.extend(changes.ignored.iter().cloned());
        changes.left_out = self.left_out;
        Ok(changes)
    }

    fn search(&self, directories: Directories) -> Result<untracked::Options, Error> {
        let workers = status::workers(self.repo)?;
        Ok(untracked::Options { directories, ignored: Ignored::Left, nested: Nested::AsOne, workers })
    }

    fn check_interrupt(&self) -> Result<(), Error> {
        if self.scope.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn unreadable(&mut self, path: BString, source: &std::io::Error) {
        let reason = Reason::Unreadable(sys::reason(source).to_string());
        self.left_out.push(LeftOut { path, reason });
    }

    /// Notes the directories that a walk could not read.
    fn warned(&mut self, warnings: Vec<untracked::Warning>) -> Result<(), Error> {
        for warning in warnings {
            match warning {
                untracked::Warning::Directory { path, source } => self.unreadable(path, &source),
                untracked::Warning::IgnoreFile { path, source } => {
                    let reason = sys::reason(&source).to_string();
                    return Err(Error::UnreadableRules { path, reason });
                }
                // Git ignores it, too.
                untracked::Warning::LargeIgnoreFile { .. } => {}
            }
        }
        Ok(())
    }

    /// An unmerged path has the content of its file, whatever its stages are.
    fn unmerged(&mut self, index: &Index, changes: &mut Changes) {
        let mut probe = PathProbe::new(self.root);
        let mut last = None;
        let unmerged = index.entries_in(0..if index.is_unmerged() { index.len() } else { 0 });
        for entry in unmerged.filter(|entry| entry.stage != Stage::Normal) {
            let path = index.path(&entry);
            if last.replace(path) == Some(path) {
                continue;
            }
            match probe.probe(path) {
                _ if entry.mode.is_gitlink() => changes.missing.push(path.to_owned()),
                Found::Present(stat) if stat.file_type != FileType::Directory => {
                    changes.tracked.push((path.to_owned(), None));
                }
                Found::Unreadable(source) if !is_replaced_above(self.root, path) => {
                    self.unreadable(path.to_owned(), &source);
                    changes.missing.push(path.to_owned());
                }
                _ => changes.missing.push(path.to_owned()),
            }
        }
    }

    /// Returns the untracked files. A directory that was found is replaced by its files.
    fn untracked(
        &mut self,
        index: &Index,
        excludes: &Excludes,
        found: Vec<BString>,
    ) -> Result<Vec<BString>, Error> {
        let (mut whole, mut files): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|path| path.ends_with(b"/"));
        whole.sort();
        if !whole.is_empty() {
            let literal = |path: &BString| BString::from([b":(top,literal)", path.as_slice()].concat());
            let specs: Vec<BString> = whole.iter().map(literal).collect();
            let specs = if specs.len() > MANY_DIRECTORIES { &[] } else { specs.as_slice() };
            let specs = Pathspecs::parse(specs, "".into(), "".into(), Defaults::default());
            let specs = specs.expect("literal paths of the worktree are valid pathspecs");
            let search = self.search(Directories::Files)?;
            let excludes = excludes.clone().without_cache();
            let interrupt = self.scope.interrupt;
            let walked =
                untracked::walk(self.repo, self.root, index, &specs, &excludes, &search, interrupt, None)?;
            self.check_interrupt()?;
            self.warned(walked.warnings)?;
            let below = walked.untracked.into_iter();
            files.extend(below.filter(|path| is_below_any(&whole, path.as_bstr())));
        }
        let protect = protect(self.repo)?;
        let mut others = Others::of(index);
        files.sort();
        files.dedup();
        files.retain(|path| {
            let reason = if path.ends_with(b"/") {
                Reason::Repository
            } else if path::verify(path.as_bstr(), Mode::FILE, protect).is_err() {
                Reason::Name
            } else {
                return others.is_other(path.as_bstr());
            };
            self.left_out.push(LeftOut { path: path.clone(), reason });
            false
        });
        Ok(files)
    }
}

/// Returns true if one of the directories holds the path. They are sorted, end in a slash, and none
/// holds another one.
fn is_below_any(directories: &[BString], path: &BStr) -> bool {
    let after = directories.partition_point(|dir| dir.as_bstr() <= path);
    directories[..after].last().is_some_and(|dir| path.starts_with(dir))
}

/// Returns true if a directory of the path is a file or a link now.
fn is_replaced_above(root: &Dir, path: &BStr) -> bool {
    let mut above = path.find_iter("/").map(|slash| root.stat(path[..slash].as_bstr()));
    above.any(|stat| matches!(stat, Ok(Some(stat)) if stat.file_type != FileType::Directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_directory_before_them() {
        let directories = ["a-/", "a/", "b/c/", "n/r/"].map(BString::from);
        for (path, is_below) in [
            ("a", false),
            ("a-", false),
            ("a-/x", true),
            ("a.x", false),
            ("a/", true),
            ("a/b/c", true),
            ("a0", false),
            ("b/c", false),
            ("b/c/d", true),
            ("b/d", false),
            ("n/r/", true),
            ("z", false),
        ] {
            assert_eq!(is_below_any(&directories, path.into()), is_below, "{path}");
        }
        assert!(!is_below_any(&[], "a".into()));
    }
}
