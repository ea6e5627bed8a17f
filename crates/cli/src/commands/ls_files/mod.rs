//! `sapwood ls-files`: the paths in the index, and other paths of the worktree.
//!
//! Order: arguments; the index; untracked paths, killed paths, then entry by entry, then resolved
//! conflicts. Nothing is changed. A sparse index is expanded where Git's would be: when a collapsed
//! directory would be listed.

mod format;
mod prune;
mod recurse;
mod request;
mod show;

use std::{io, ops::Range};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    checkout::Workers,
    ignore::check::{Checker, Sources},
    pathspec::{Pathspecs, Seen},
    status::files::{self, State},
    untracked::{self, Excludes, Ignored, Nested, Warning},
};
use repo::{Repository, keys};
use sapwood::{
    Dir, Mode,
    index::{Entry, Flags, Index, Stage},
};

use self::{recurse::Recursion, request::Request, show::Show};
use crate::{
    commands::{
        obstacles::{ANSWERING, ATTRIBUTES_OF_PATHSPECS, LOOKING, partial, submodules::listed},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group},
        rules::When,
    },
    session::{
        index,
        invocation::Invocation,
        monitor,
        settings::Settings,
        sparse_index::{self, Expansion, ExpansionHint, Read},
        submodules, trace,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `ls-files`.
pub(super) const COMMAND: Command = Command {
    name: "ls-files",
    summary: "Show information about files in the index and the working tree",
    about: "Lists paths of the index, and of the worktree: modified, deleted, untracked, ignored. The \
            worktree is scanned in parallel.",
    group: Group::Scripts,
    syntax: &request::TABLE,
    settings: &[LOOKING, &[(keys::attr::TREE.name(), When::Set)]],
    line: &[request::WRONG_TOGETHER, ATTRIBUTES_OF_PATHSPECS],
    checks: &[
        ANSWERING,
        &[
            Check::new("no worktree", worktree),
            Check::new(
                "with `--recurse-submodules`, obstacles in any submodule; with `--with-tree`, a partial clone",
                other_sources,
            ),
        ],
    ],
    run,
    ..Command::BASE
};

/// Detects a repository without a worktree.
fn worktree(candidate: &Candidate<'_>) -> Vec<Reason> {
    let missing = candidate.repo().work_tree().is_none();
    missing.then(|| Reason::repository("there is no worktree")).into_iter().collect()
}

/// Detects submodules and trees that the command lists in addition to the index.
fn other_sources(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let asked = candidate.survey.and_then(|survey| submodules::asked(survey).ok().flatten());
    let mut found = if asked == Some(true) { listed(repo) } else { Vec::new() };
    if candidate.has("--with-tree") {
        found.extend(partial(repo));
    }
    found
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let request = Request::parse(args)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_lookups();
    if request.needs_worktree() && repo.work_tree().is_none() {
        return Err(Failure::no_worktree());
    }
    request.validate_recursion()?;
    let top = repo.work_tree().unwrap_or(repo.git_dir());
    let root = Dir::open(top).map_err(Failure::cannot_open(top))?;
    let Read { mut index, .. } =
        index::read_index(&repo, &settings, &root, ExpansionHint::Print, Expansion::IndexOnly)?;
    // Without monitor data in the index, a query has no use.
    if request.asks_monitor() && index.fsmonitor.is_some() {
        monitor::refresh(run, &repo, &settings, &mut index)?;
    }
    let sources = request.sources(&repo, top)?;
    let mut specs = paths::parse_or_here(run, &repo, &request.paths)?;
    if specs.ask_attributes() {
        let mut index = index::load_index(&repo, &settings)?;
        if !request.recurse {
            index = prune::for_attributes(index, &specs);
        }
        specs = paths::parse_or_here_by(run, &repo, &request.paths, index)?;
    }
    request.validate()?;
    let mut list = List {
        run,
        repo: &repo,
        settings: &settings,
        root: &root,
        request: &request,
        index,
        specs: &specs,
        seen: Seen::default(),
    };
    if let Some(tree) = &request.with_tree {
        list.overlay_tree(tree)?;
    }
    let mut show = Show::new(&repo, &settings, &request);
    let done =
        if request.recurse { list.with_submodules(sources, &mut show) } else { list.all(sources, &mut show) };
    let written = show.finish();
    done?;
    written?;
    run.interrupt.check()?;
    if !request.error_unmatch {
        return Ok(0);
    }
    let unmatched = list.unmatched();
    for spec in &unmatched {
        console::error(text!("pathspec '", spec, "' did not match any file(s) known to git"));
    }
    if unmatched.is_empty() {
        return Ok(0);
    }
    console::eprint_line("Did you forget to 'git add'?");
    Ok(1)
}

struct List<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    root: &'a Dir,
    request: &'a Request,
    index: Index,
    specs: &'a Pathspecs,
    /// The pathspecs that matched.
    seen: Seen,
}

impl List<'_> {
    /// Adds the entries of a tree that the index lacks.
    fn overlay_tree(&mut self, name: &BString) -> Result<(), Failure> {
        let missing = || Failure::Fatal(text!("tree-ish ", name, " not found."));
        let oid = self.repo.rev_parse(name.as_bstr()).map_err(|error| Failure::of_name(error, missing()))?;
        let bad = || Failure::Fatal(text!("bad tree-ish ", name));
        let tree = self.repo.tree_of(oid).map_err(|error| Failure::of_name(error, bad()))?;
        self.fill()?;
        Ok(engine::diff::overlay(self.repo, &mut self.index, tree)?)
    }

    /// Expands a sparse index, where Git's is expanded.
    fn fill(&mut self) -> Result<(), Failure> {
        if self.index.sparse {
            sparse_index::report_expansion(self.repo, self.settings, &self.index, ExpansionHint::Print)?;
            sparse_index::expand(self.repo, &mut self.index)?;
        }
        Ok(())
    }

    /// Expands a sparse index if `range` has a collapsed directory that must not be listed as one
    /// entry.
    fn fill_to_list(&mut self, range: Range<usize>) -> Result<(), Failure> {
        let is_collapsed = |index: &Index| range.clone().any(|at| index.mode_at(at).is_tree());
        if !self.request.sparse && self.index.sparse && is_collapsed(&self.index) {
            self.fill()
        } else {
            Ok(())
        }
    }

    fn all(&mut self, mut sources: Sources, show: &mut Show<'_>) -> Result<(), Failure> {
        let request = self.request;
        std::mem::take(&mut sources.warnings).iter().for_each(console::warning);
        if prune::needs_full_index(&self.index, self.specs) {
            self.fill()?;
        }
        if request.others || request.killed {
            self.outside(&sources, show)?;
        }
        if request.lists_entries() {
            self.entries(sources, show)?;
        }
        if request.resolve_undo {
            self.resolved(show)?;
        }
        Ok(())
    }

    fn with_submodules(&mut self, mut sources: Sources, show: &mut Show<'_>) -> Result<(), Failure> {
        std::mem::take(&mut sources.warnings).iter().for_each(console::warning);
        self.fill_to_list(0..self.index.len())?;
        let List { run, repo, settings, request, ref index, specs, .. } = *self;
        let checker = self.checker(sources)?;
        let top = (repo, settings, index);
        let mut recursion = Recursion { run, request, specs, top, checker };
        recursion.list((repo, settings), index, BStr::new(""), show)
    }

    /// Returns the checker of ignore rules, if only ignored entries are listed.
    fn checker(&self, sources: Sources) -> Result<Option<Checker<'_>>, Failure> {
        let worktree = self.repo.work_tree().map(|_| self.root);
        let checker = || Checker::new(self.repo, worktree, Some(&self.index), sources);
        Ok(self.request.ignored.then(checker).transpose()?)
    }

    /// Lists paths that are not in the index.
    fn outside(&mut self, sources: &Sources, show: &mut Show<'_>) -> Result<(), Failure> {
        let options = untracked::Options {
            directories: self.request.directories(),
            ignored: if self.request.ignored { Ignored::Only } else { Ignored::Left },
            nested: Nested::AsOne,
            workers: Workers::Auto,
        };
        let (excludes, interrupt) = (Excludes::of(sources), self.run.interrupt.flag());
        let rules = sources.per_directory.as_ref().map(|name| name.as_bstr());
        let pruned = prune::for_the_worktree(&self.index, self.specs, rules);
        let index = pruned.as_ref().unwrap_or(&self.index);
        let found =
            untracked::walk(self.repo, self.root, index, self.specs, &excludes, &options, interrupt, None)?;
        trace::walk(1, self.specs.common_directory(), &found);
        self.run.interrupt.check()?;
        let goes = |warning: &&Warning| {
            let path = warning.path();
            // Git examines the common directory of all pathspecs first.
            let path =
                path.strip_suffix(b"/").filter(|_| path == self.specs.common_directory()).unwrap_or(path);
            self.request.others || leads_to_killed(&self.index, &self.range(), path.as_bstr())
        };
        found.warnings.iter().filter(goes).for_each(|warning| console::warning(warning.message()));
        let paths = if self.request.ignored { found.ignored } else { found.untracked };
        if self.request.others {
            for path in &paths {
                if !prune::is_above(self.specs, path.as_bstr())
                    && !untracked::is_other(&self.index, path.as_bstr())
                {
                    continue;
                }
                self.matched(path.as_bstr())?;
                show.other("? ", &self.index, path.as_bstr())?;
            }
        }
        if self.request.killed {
            let within = self.range();
            for path in &paths {
                let comes = self.request.others || leads_to_killed(&self.index, &within, path.as_bstr());
                if !comes || !is_killed(&self.index, &within, path.as_bstr()) {
                    continue;
                }
                self.matched(path.as_bstr())?;
                show.other("K ", &self.index, path.as_bstr())?;
            }
        }
        Ok(())
    }

    /// Records a path that is about to be listed. Git fails if it is a directory above the common
    /// directory of the pathspecs.
    fn matched(&mut self, path: &BStr) -> Result<(), Failure> {
        if prune::is_above(self.specs, path) {
            let words = "git ls-files: internal error - directory entry not superset of prefix";
            return Err(Failure::fatal(words));
        }
        if self.request.error_unmatch {
            // The path is listed in any case; only the match is recorded.
            let (path, mode) = match path.strip_suffix(b"/") {
                Some(dir) => (dir.as_bstr(), Mode::TREE),
                None => (path, Mode::FILE),
            };
            self.specs.matches_in_turn(path, mode, &mut self.seen);
        }
        Ok(())
    }

    fn entries(&mut self, sources: Sources, show: &mut Show<'_>) -> Result<(), Failure> {
        let request = self.request;
        self.fill_to_list(self.range())?;
        // A pathspec matched if it selects a path that would be listed without the exclusions.
        let asked = if request.error_unmatch { &self.specs.without_exclusions() } else { self.specs };
        let (changed, beside) = self.examined(asked)?;
        let mut changed = changed.into_iter().peekable();
        let mut beside = beside.into_iter().peekable();
        let List { repo, root, index, specs, seen, .. } = self;
        let worktree = repo.work_tree().map(|_| *root);
        let mut checker =
            if request.ignored { Some(Checker::new(repo, worktree, Some(index), sources)?) } else { None };
        let mut done: Option<&BStr> = None;
        let mut compared = Seen::default();
        // Errors of files that cannot be examined are reported even outside the pathspecs.
        let meant = if request.deleted || request.modified { 0..index.len() } else { asked.bounds(index) };
        let left = prune::range(index, specs);
        for at in left.start.max(meant.start)..left.end.min(meant.end) {
            let path = index.path_at(at);
            while changed.next_if(|(other, _)| *other < at).is_some() {}
            let state = changed.next_if(|(other, _)| *other == at).map(|(_, state)| state);
            while beside.next_if(|(other, _)| *other < at).is_some() {}
            let unreadable = beside.next_if(|(other, _)| *other == at).map(|(_, error)| error);
            let is_asked = asked.is_empty() || asked.matches_entry(path, index.mode_at(at), &mut compared);
            let is_beside = !is_asked && unreadable.is_none();
            let is_repeated = request.deduplicates() && index.stage_at(at) != Stage::Normal;
            if done == Some(path) || is_beside && !is_repeated {
                continue;
            }
            let entry = &index.entry(at);
            let is_shown = request.shows_cached() && (!request.unmerged || entry.stage != Stage::Normal);
            if let Some(checker) = &mut checker {
                // The worktree, not the entry, determines if the path is a directory.
                let ignored = checker.find(path, None).is_some_and(|found| !found.negative);
                checker.take_warnings().iter().for_each(console::warning);
                if !ignored {
                    continue;
                }
            }
            let missing = matches!(state, Some(State::Missing | State::Unreadable(_)));
            if is_beside {
                // A stage that no pathspec selects hides the path's other stages, as if it were
                // listed.
                let differs = missing && request.deleted || state.is_some() && request.modified;
                if is_shown || differs && !specs.is_single() {
                    done = Some(path);
                }
                continue;
            }
            let mut is_reported = false;
            if let Some(error) = unreadable {
                if !(is_shown && request.deduplicates()) {
                    cannot_lstat(path, &error);
                }
                if request.deduplicates() {
                    done = Some(path);
                }
                continue;
            }
            if is_shown {
                if selects_in_turn(request, specs, path, entry.mode, seen) {
                    show.entry(tag_of(entry), index, entry)?;
                }
                is_reported = true;
            }
            if !(is_reported && request.deduplicates()) {
                if let Some(State::Unreadable(error)) = &state {
                    cannot_lstat(path, error);
                }
                if missing && request.deleted {
                    if selects_in_turn(request, specs, path, entry.mode, seen) {
                        show.entry("R ", index, entry)?;
                    }
                    is_reported = true;
                }
                if state.is_some() && request.modified && !(is_reported && request.deduplicates()) {
                    if selects_in_turn(request, specs, path, entry.mode, seen) {
                        show.entry("C ", index, entry)?;
                    }
                    is_reported = true;
                }
            }
            if is_reported && request.deduplicates() {
                done = Some(path);
            }
        }
        Ok(())
    }

    /// Returns the files that differ from their entries, and those outside of the pathspecs that
    /// cannot be examined. Without `--deleted` and `--modified`, no file is examined.
    fn examined(&self, asked: &Pathspecs) -> Result<(Changed, Unreadable), Failure> {
        let request = self.request;
        if !request.deleted && !request.modified {
            return Ok((Vec::new(), Vec::new()));
        }
        let interrupt = self.run.interrupt.flag();
        let changed = files::changed(self.repo, self.root, &self.index, asked, request.modified, interrupt)?;
        // With a single pathspec, Git checks first whether it selects the entry.
        let beside = if self.specs.is_single() {
            Vec::new()
        } else {
            files::unreadable_unselected(self.root, &self.index, self.range(), asked)
        };
        self.run.interrupt.check()?;
        Ok((changed, beside))
    }

    /// Lists the stages of resolved conflicts.
    fn resolved(&mut self, show: &mut Show<'_>) -> Result<(), Failure> {
        let Some(undo) = &self.index.resolve_undo else { return Ok(()) };
        for (path, stages) in &undo.paths {
            let path = path.as_bstr();
            let is_meant = if self.request.error_unmatch {
                self.specs.matches_in_turn(path, Mode::FILE, &mut self.seen)
            } else {
                self.specs.matches(path, &mut self.seen)
            };
            if !self.specs.is_empty() && !is_meant {
                continue;
            }
            for (number, stage) in stages.iter().enumerate() {
                if let Some((mode, oid)) = stage {
                    show.resolved(path, *mode, *oid, number + 1)?;
                }
            }
        }
        Ok(())
    }

    fn range(&self) -> Range<usize> {
        prune::range(&self.index, self.specs)
    }

    /// Returns the pathspecs that matched nothing. A duplicate counts as matched with the other.
    fn unmatched(&self) -> Vec<BString> {
        self.specs.unseen(&self.seen).map(BStr::to_owned).collect()
    }
}

/// The positions of entries whose files differ.
type Changed = Vec<(usize, State)>;
/// The positions of entries whose files cannot be examined.
type Unreadable = Vec<(usize, io::Error)>;

/// Returns the mark of `-t` for a cached entry.
fn tag_of(entry: &Entry) -> &'static str {
    match entry.stage {
        Stage::Normal if entry.flags.contains(Flags::SKIP_WORKTREE) => "S ",
        Stage::Normal => "H ",
        _ => "M ",
    }
}

/// Returns true if a pathspec selects an entry of another list. If unmatched pathspecs are an
/// error, each pathspec is tried only until it has matched a whole path.
fn selects_in_turn(request: &Request, specs: &Pathspecs, path: &BStr, mode: Mode, seen: &mut Seen) -> bool {
    !request.error_unmatch || specs.is_empty() || specs.matches_in_turn(path, mode, seen)
}

fn cannot_lstat(path: &BStr, error: &std::io::Error) {
    console::error(text!("cannot lstat '", path, "': ", crate::term::text::os_error(error)));
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
