//! The scan of the worktree: tracked files that may have changed, and untracked files.
//!
//! It is the scan of `status`. An untracked cache, which records an untracked directory by its name
//! only, serves a run without pathspecs; such directories are then walked.

use bstr::{BString, ByteSlice as _};
use engine::{
    checkout::Workers,
    diff::{Missing, SubmoduleIgnore},
    pathspec::{Defaults, Pathspecs},
    status::{self, Touched, Untracked, Worktree},
    untracked::{self, Directories, Excludes, Found, Ignored, Nested, Options},
};
use format::index::Index;
use repo::submodule::Ignore;

use super::Adding;
use crate::{Error, notice::Notice, trace};

/// The number of directory walks that `add` traces.
const WALK: usize = 1;

/// From this number of untracked directories on, the whole worktree is walked again.
const MANY: usize = 32;

/// The files to scan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanScope {
    /// Tracked files whose stat data do not prove that they are unchanged.
    Tracked,
    /// These, and untracked files.
    All,
}

impl Adding<'_> {
    /// Scans the worktree.
    pub(super) fn scan(&self, index: &Index, scope: ScanScope) -> Result<Worktree, Error> {
        let repo = self.context.repo;
        let excludes = match (scope, self.request.options.force) {
            (ScanScope::All, false) => Excludes::standard(repo, &[])?,
            _ => Excludes::default(),
        };
        let is_cached = self.uses_cache(index);
        let (options, excludes) = if is_cached {
            (Self::walk(Directories::WholeUnlessEmpty, Ignored::Left), excludes)
        } else {
            (self.walk_of_files(), excludes.without_cache())
        };
        let everything = Pathspecs::default();
        let pathspecs =
            if self.request.pathspecs.are_everything() { &everything } else { &self.request.pathspecs };
        let options = status::Options {
            pathspecs,
            untracked: (scope == ScanScope::All).then_some(Untracked { options, excludes: &excludes }),
            touched: Touched::Suspected,
            unmerged: None,
            submodules: SubmoduleIgnore::Given(Ignore::Dirty),
            missing: Missing::Deleted,
            ignore_untracked_in_submodules: false,
            when_cold: &|| (),
            interrupt: self.context.interrupt,
            meter: None,
        };
        let mut found = status::examine(repo, &self.worktree, index, &options)?;
        if scope == ScanScope::All {
            trace::walk(WALK, self.request.pathspecs.common_directory(), &found.found);
        }
        if is_cached {
            self.fill_directories(index, excludes, &mut found.found)?;
        }
        self.context.check_interrupt()?;
        for warning in &found.found.warnings {
            self.context.events.notice(Notice::Untracked(warning.message()));
        }
        Ok(found)
    }

    fn uses_cache(&self, index: &Index) -> bool {
        let disabled = self.context.repo.env().bytes("GIT_DISABLE_UNTRACKED_CACHE");
        let is_off = disabled.and_then(|value| repo::parse_bool(Some(value))) == Some(true);
        !is_off
            && !self.request.options.force
            && self.request.pathspecs.are_everything()
            && index.untracked.is_some()
    }

    fn walk_of_files(&self) -> Options {
        let ignored = if self.request.options.force { Ignored::Left } else { Ignored::Named };
        Self::walk(Directories::Files, ignored)
    }

    fn walk(directories: Directories, ignored: Ignored) -> Options {
        Options { directories, ignored, nested: Nested::AsOne, workers: Workers::Auto }
    }

    /// Replaces untracked directories by the files in them.
    fn fill_directories(&self, index: &Index, excludes: Excludes, found: &mut Found) -> Result<(), Error> {
        let (directories, mut files): (Vec<BString>, Vec<BString>) =
            std::mem::take(&mut found.untracked).into_iter().partition(|path| path.ends_with(b"/"));
        let (options, excludes) = (self.walk_of_files(), excludes.without_cache());
        let literal = Defaults { literal: true, ..Defaults::default() };
        let pathspecs = match directories.len() {
            0 => None,
            1..MANY => Some(
                Pathspecs::parse(&directories, "".into(), "".into(), literal)
                    .map_err(|error| Error::Failed(error.message))?,
            ),
            _ => Some(Pathspecs::default()),
        };
        if let Some(pathspecs) = pathspecs {
            if pathspecs.is_empty() {
                files.clear();
            }
            let (repo, interrupt) = (self.context.repo, self.context.interrupt);
            let more = untracked::walk(
                repo,
                &self.worktree,
                index,
                &pathspecs,
                &excludes,
                &options,
                interrupt,
                None,
            )?;
            files.extend(more.untracked);
            found.warnings.extend(more.warnings);
        }
        files.sort_unstable_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
        found.untracked = files;
        Ok(())
    }
}
