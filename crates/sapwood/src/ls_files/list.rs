//! The lists, one after the other.

use std::{io, mem, ops::Range};

use bstr::{BStr, ByteSlice as _};
use engine::{
    checkout::Workers,
    ignore::check::{Checker, Sources},
    pathspec::{Pathspecs, Seen},
    status::files::{self, State as FileState},
    untracked::{self, Excludes, Found, Ignored, Nested, Warning},
};
use format::{
    Mode,
    index::{Index, Stage},
};
use sys::Dir;

use super::{
    Kind, Listed, ListedEntry, Lists, Options, Report, State, Visit,
    prepare::{Prepared, expand},
    prune,
    recurse::Recursion,
};
use crate::{Context, Error, Events, Notice, trace};

/// Lists the paths that `specs` select, and gives each to `visit`.
pub fn list(
    context: Context<'_>,
    options: &Options,
    prepared: Prepared,
    specs: &Pathspecs,
    visit: &mut Visit<'_>,
) -> Result<Report, Error> {
    let Prepared { root, index, mut sources } = prepared;
    let warnings = mem::take(&mut sources.warnings);
    warnings.into_iter().for_each(|warning| context.events.notice(Notice::Untracked(warning)));
    let mut list = List { context, options, root: &root, index, specs, seen: Seen::default() };
    let done = if options.recurse { list.with_submodules(sources, visit) } else { list.all(sources, visit) };
    match done {
        // A duplicate counts as matched with the other.
        Ok(()) if options.finds_unmatched => {
            Ok(Report { unmatched: specs.unseen(&list.seen).map(BStr::to_owned).collect() })
        }
        Ok(()) | Err(Ended::Unwanted) => Ok(Report::default()),
        Err(Ended::Failed(error)) => Err(error),
    }
}

/// Why a list ended early.
pub(super) enum Ended {
    /// The visitor wants no more paths.
    Unwanted,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Failed(error)
    }
}

/// Gives a path to the visitor.
pub(super) fn give(visit: &mut Visit<'_>, listed: Listed<'_>) -> Result<(), Ended> {
    if visit(listed).is_break() { Err(Ended::Unwanted) } else { Ok(()) }
}

struct List<'a> {
    context: Context<'a>,
    options: &'a Options,
    root: &'a Dir,
    index: Index,
    specs: &'a Pathspecs,
    /// The pathspecs that matched.
    seen: Seen,
}

impl List<'_> {
    /// Expands a sparse index if `range` has a collapsed directory that must not be listed as one
    /// entry.
    fn fill_to_list(&mut self, range: Range<usize>) -> Result<(), Error> {
        let is_collapsed = |index: &Index| range.clone().any(|at| index.mode_at(at).is_tree());
        if !self.options.collapsed && self.index.sparse && is_collapsed(&self.index) {
            expand(self.context, &mut self.index)
        } else {
            Ok(())
        }
    }

    fn all(&mut self, sources: Sources, visit: &mut Visit<'_>) -> Result<(), Ended> {
        let lists = self.options.lists;
        if prune::needs_full_index(&self.index, self.specs) {
            expand(self.context, &mut self.index)?;
        }
        if lists.others || lists.killed {
            self.outside(&sources, visit)?;
        }
        if lists.cached || lists.unmerged || lists.deleted || lists.modified {
            self.entries(sources, visit)?;
        }
        if lists.resolved {
            self.resolved(visit)?;
        }
        Ok(())
    }

    fn with_submodules(&mut self, sources: Sources, visit: &mut Visit<'_>) -> Result<(), Ended> {
        self.fill_to_list(0..self.index.len())?;
        let checker = self.checker(sources)?;
        let List { context, options, specs, ref index, .. } = *self;
        let mut recursion = Recursion { top: context, options, specs, index, checker };
        recursion.list(context, index, BStr::new(""), visit)
    }

    /// Returns the checker of ignore rules, if only ignored entries are listed.
    fn checker(&self, sources: Sources) -> Result<Option<Checker<'_>>, Error> {
        let repo = self.context.repo;
        let worktree = repo.work_tree().map(|_| self.root);
        let checker = || Checker::new(repo, worktree, Some(&self.index), sources);
        Ok(self.options.ignored.then(checker).transpose()?)
    }

    /// Lists paths that are not in the index.
    fn outside(&mut self, sources: &Sources, visit: &mut Visit<'_>) -> Result<(), Ended> {
        let Lists { others, killed, .. } = self.options.lists;
        let found = self.walk(sources)?;
        let within = self.range();
        let goes = |warning: &&Warning| {
            let path = warning.path();
            // Git examines the common directory of all pathspecs first.
            let path =
                path.strip_suffix(b"/").filter(|_| path == self.specs.common_directory()).unwrap_or(path);
            others || leads_to_killed(&self.index, &within, path.as_bstr())
        };
        let warnings = found.warnings.iter().filter(goes);
        warnings.for_each(|warning| self.context.events.notice(Notice::Untracked(warning.message())));
        let paths = if self.options.ignored { found.ignored } else { found.untracked };
        if others {
            for path in &paths {
                let path = path.as_bstr();
                if !prune::is_above(self.specs, path) && !untracked::is_other(&self.index, path) {
                    continue;
                }
                self.matched(path)?;
                give(visit, Listed { path, kind: Kind::Other, top: &self.index })?;
            }
        }
        if killed {
            for path in &paths {
                let path = path.as_bstr();
                let comes = others || leads_to_killed(&self.index, &within, path);
                if !comes || !is_killed(&self.index, &within, path) {
                    continue;
                }
                self.matched(path)?;
                give(visit, Listed { path, kind: Kind::Killed, top: &self.index })?;
            }
        }
        Ok(())
    }

    /// Searches the worktree for paths that are not in the index.
    fn walk(&self, sources: &Sources) -> Result<Found, Error> {
        let Context { repo, interrupt, .. } = self.context;
        let options = untracked::Options {
            directories: self.options.directories(),
            ignored: if self.options.ignored { Ignored::Only } else { Ignored::Left },
            nested: Nested::AsOne,
            workers: Workers::Auto,
        };
        let excludes = Excludes::of(sources);
        let rules = sources.per_directory.as_ref().map(|name| name.as_bstr());
        let pruned = prune::for_the_worktree(&self.index, self.specs, rules);
        let index = pruned.as_ref().unwrap_or(&self.index);
        let found =
            untracked::walk(repo, self.root, index, self.specs, &excludes, &options, interrupt, None)?;
        trace::walk(1, self.specs.common_directory(), &found);
        self.context.check_interrupt()?;
        Ok(found)
    }

    /// Records a path that is about to be listed. Git fails if it is a directory above the common
    /// directory of the pathspecs.
    fn matched(&mut self, path: &BStr) -> Result<(), Error> {
        if prune::is_above(self.specs, path) {
            let words = "git ls-files: internal error - directory entry not superset of prefix";
            return Err(Error::failed(words));
        }
        if self.options.finds_unmatched {
            // The path is listed in any case; only the match is recorded.
            let (path, mode) = match path.strip_suffix(b"/") {
                Some(dir) => (dir.as_bstr(), Mode::TREE),
                None => (path, Mode::FILE),
            };
            self.specs.matches_in_turn(path, mode, &mut self.seen);
        }
        Ok(())
    }

    fn entries(&mut self, sources: Sources, visit: &mut Visit<'_>) -> Result<(), Ended> {
        self.fill_to_list(self.range())?;
        let (Context { repo, events, .. }, options, specs) = (self.context, self.options, self.specs);
        let lists = options.lists;
        // A pathspec matched if it selects a path that would be listed without the exclusions.
        let asked = if options.finds_unmatched { &specs.without_exclusions() } else { specs };
        let (changed, beside) = self.examined(asked)?;
        let mut changed = changed.into_iter().peekable();
        let mut beside = beside.into_iter().peekable();
        let mut seen = mem::take(&mut self.seen);
        let mut checker = self.checker(sources)?;
        let index = &self.index;
        let mut done: Option<&BStr> = None;
        let mut compared = Seen::default();
        // Errors of files that cannot be examined are reported even outside the pathspecs.
        let all = 0..index.len();
        let meant = if lists.deleted || lists.modified { vec![all] } else { asked.ranges(index) };
        let left = prune::range(index, specs);
        let positions =
            meant.into_iter().flat_map(|range| range.start.max(left.start)..range.end.min(left.end));
        for at in positions {
            let path = index.path_at(at);
            while changed.next_if(|(other, _)| *other < at).is_some() {}
            let state = changed.next_if(|(other, _)| *other == at).map(|(_, state)| state);
            while beside.next_if(|(other, _)| *other < at).is_some() {}
            let unreadable = beside.next_if(|(other, _)| *other == at).map(|(_, error)| error);
            let is_asked = asked.is_empty() || asked.matches_entry(path, index.mode_at(at), &mut compared);
            let is_beside = !is_asked && unreadable.is_none();
            let is_repeated = options.deduplicate && index.stage_at(at) != Stage::Normal;
            if done == Some(path) || is_beside && !is_repeated {
                continue;
            }
            let entry = &index.entry(at);
            let is_shown = lists.cached || lists.unmerged && entry.stage != Stage::Normal;
            if let Some(checker) = &mut checker
                && !is_ignored(checker, path, events)
            {
                continue;
            }
            let missing = matches!(state, Some(FileState::Missing | FileState::Unreadable(_)));
            if is_beside {
                // A stage that no pathspec selects hides the path's other stages, as if it were
                // listed.
                let differs = missing && lists.deleted || state.is_some() && lists.modified;
                if is_shown || differs && !specs.is_single() {
                    done = Some(path);
                }
                continue;
            }
            if let Some(error) = unreadable {
                if !(is_shown && options.deduplicate) {
                    give(visit, Listed { path, kind: Kind::Unreadable(&error), top: index })?;
                }
                if options.deduplicate {
                    done = Some(path);
                }
                continue;
            }
            let mut is_meant = || {
                !options.finds_unmatched
                    || specs.is_empty()
                    || specs.matches_in_turn(path, entry.mode, &mut seen)
            };
            let of = |state| Listed {
                path,
                kind: Kind::Entry(ListedEntry { entry, state, repo, index }),
                top: index,
            };
            if is_shown && is_meant() {
                give(visit, of(State::Cached))?;
            }
            let mut is_reported = is_shown;
            if !(is_reported && options.deduplicate) {
                if let Some(FileState::Unreadable(error)) = &state {
                    give(visit, Listed { path, kind: Kind::Unreadable(error), top: index })?;
                }
                if missing && lists.deleted {
                    if is_meant() {
                        give(visit, of(State::Deleted))?;
                    }
                    is_reported = true;
                }
                if state.is_some() && lists.modified && !(is_reported && options.deduplicate) {
                    if is_meant() {
                        give(visit, of(State::Modified))?;
                    }
                    is_reported = true;
                }
            }
            if is_reported && options.deduplicate {
                done = Some(path);
            }
        }
        self.seen = seen;
        Ok(())
    }

    /// Returns the files that differ from their entries, and those outside of the pathspecs that
    /// cannot be examined. Only the lists of deleted and modified files need them.
    fn examined(&self, asked: &Pathspecs) -> Result<(Changed, Unreadable), Error> {
        let Lists { deleted, modified, .. } = self.options.lists;
        if !deleted && !modified {
            return Ok((Vec::new(), Vec::new()));
        }
        let Context { repo, interrupt, .. } = self.context;
        let changed = files::changed(repo, self.root, &self.index, asked, modified, interrupt)?;
        // With a single pathspec, Git checks first whether it selects the entry.
        let beside = if self.specs.is_single() {
            Vec::new()
        } else {
            files::unreadable_unselected(self.root, &self.index, self.range(), asked)
        };
        self.context.check_interrupt()?;
        Ok((changed, beside))
    }

    /// Lists the stages of resolved conflicts.
    fn resolved(&mut self, visit: &mut Visit<'_>) -> Result<(), Ended> {
        let Some(undo) = &self.index.resolve_undo else { return Ok(()) };
        for (path, stages) in &undo.paths {
            let path = path.as_bstr();
            let is_meant = if self.options.finds_unmatched {
                self.specs.matches_in_turn(path, Mode::FILE, &mut self.seen)
            } else {
                self.specs.matches(path, &mut self.seen)
            };
            if !self.specs.is_empty() && !is_meant {
                continue;
            }
            for (stage, content) in [Stage::Base, Stage::Ours, Stage::Theirs].into_iter().zip(stages) {
                if let Some((mode, oid)) = *content {
                    let kind = Kind::Resolved { stage, mode, oid };
                    give(visit, Listed { path, kind, top: &self.index })?;
                }
            }
        }
        Ok(())
    }

    fn range(&self) -> Range<usize> {
        prune::range(&self.index, self.specs)
    }
}

/// The positions of entries whose files differ.
type Changed = Vec<(usize, FileState)>;
/// The positions of entries whose files cannot be examined.
type Unreadable = Vec<(usize, io::Error)>;

/// Returns true if a rule ignores the path. The worktree, not the entry, determines if the path is
/// a directory.
pub(super) fn is_ignored(checker: &mut Checker<'_>, path: &BStr, events: &dyn Events) -> bool {
    let ignored = checker.find(path, None).is_some_and(|found| !found.negative);
    let warnings = checker.take_warnings();
    warnings.into_iter().for_each(|warning| events.notice(Notice::Untracked(warning)));
    ignored
}

/// Returns true if a checkout of the entries `within` would remove the file at `path`: one of its
/// parent directories is a file in the index, or `path` is a directory in the index.
fn is_killed(index: &Index, within: &Range<usize>, path: &BStr) -> bool {
    let is_file = |path: &BStr| index.position(path, Stage::Normal).is_ok_and(|at| within.contains(&at));
    let above = path.find_iter("/").any(|slash| is_file(path[..slash].as_bstr()));
    if above || path.ends_with(b"/") {
        return above;
    }
    // Git compares with the next merged entry only, even if that has another name.
    let next = (index.seek(0, path)..index.len()).find(|&at| index.stage_at(at) == Stage::Normal);
    let rest = next.and_then(|next| index.path_at(next).strip_prefix(path.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"/"))
}

/// Returns true if Git enters `path` when it searches for killed files only: a directory that is a
/// file among the entries `within`, or contains an entry.
fn leads_to_killed(index: &Index, within: &Range<usize>, path: &BStr) -> bool {
    let meets = |range: Range<usize>| range.start.max(within.start) < range.end.min(within.end);
    let mut dirs = path.find_iter("/").map(|slash| path[..slash].as_bstr());
    dirs.all(|dir| meets(index.range_of(dir)) || meets(index.range_below(dir)))
}
