//! Update of the stat data of all entries: Git's `refresh_index`, for `update-index --refresh`.
//!
//! Entries are compared in parallel (see [`checkout::refresh()`](crate::checkout::refresh)).
//! Findings are returned in the order of the entries.

use bstr::{BString, ByteSlice as _};
use format::index::{Entry, Flags, Index, MonitorAnswer, Stage};
use sys::{Dir, FileType};

use crate::look::{
    LookError,
    compare::{self, Compared, Positions},
    facts::{QueryKind, Seen},
    stat::{Match, index_stat},
    submodules,
};

/// Options of a refresh.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefreshOptions {
    /// Compare entries that are assumed unchanged too, and clear that flag on those that have
    /// changed (`--really-refresh`).
    pub really: bool,
    /// Skip unmerged paths (`--unmerged`).
    pub unmerged: bool,
    /// Skip missing files (`--ignore-missing`).
    pub ignore_missing: bool,
    /// Skip submodules (`--ignore-submodules`).
    pub ignore_submodules: bool,
    /// Mark each compared, unchanged entry as assumed unchanged (`core.ignoreStat`).
    pub assume_unchanged: bool,
}

/// A path that the refresh reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The path is unmerged.
    NeedsUpdate(BString),
    /// The path is unmerged.
    NeedsMerge(BString),
}

/// The result of a refresh.
#[derive(Debug, Default)]
pub struct Refreshed {
    /// The reported paths, in index order.
    pub findings: Vec<Finding>,
    /// True if the index was changed in a way that is worth writing.
    pub changed: bool,
}

/// Compares the entries of `index` with the files in `worktree`.
pub fn refresh(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &mut Index,
    options: &RefreshOptions,
) -> Result<Refreshed, LookError> {
    // In a plain index, `compare` returns the few entries that differ. The other entries are not
    // read here.
    let compares_all = index.is_plain()
        && index.monitor_answer() == MonitorAnswer::NotAsked
        && index.gitlinks().next().is_none()
        && !(options.really && options.assume_unchanged);
    let selected: Vec<usize> = if compares_all {
        Vec::new()
    } else {
        let may_differ = (0..index.len()).filter(|&at| !index.is_fsmonitor_valid_at(at));
        may_differ.filter(|&at| needs_compare(index, &index.entry(at), options)).collect()
    };
    let asked = if compares_all { Positions::All } else { Positions::These(&selected) };
    let looked = compare::compare(repo, worktree, index, asked, QueryKind::StatIfAny)?;
    let visited: Vec<usize> = if compares_all {
        looked.iter().map(|looked| looked.at).collect()
    } else {
        (0..index.len()).collect()
    };
    let (mut selected, mut looked) = (selected.into_iter().peekable(), looked.into_iter().peekable());
    let are_plain = index.is_plain();
    let mut recorder = Recorder { index, options, refreshed: Refreshed::default() };
    for &at in &visited {
        if are_plain && recorder.index.is_fsmonitor_valid_at(at) {
            recorder.index.set_uptodate(at);
            continue;
        }
        let entry = &recorder.index.entry(at);
        if options.skips(entry) {
            continue;
        }
        if entry.stage != Stage::Normal {
            recorder.unmerged(at);
            continue;
        }
        if !compares_all && selected.next_if_eq(&at).is_none() {
            recorder.index.set_uptodate(at);
            continue;
        }
        let sets_assume_valid =
            options.really && options.assume_unchanged && !entry.flags.contains(Flags::ASSUME_VALID);
        let (seen, verdict, as_it_was) = match looked.next_if(|looked| looked.at == at) {
            Some(Compared { seen, verdict, as_it_was, .. }) => (seen, verdict, as_it_was),
            None if !sets_assume_valid => {
                recorder.index.set_uptodate(at);
                recorder.refreshed.changed |= recorder.index.set_fsmonitor_valid(at);
                continue;
            }
            // The entry gets a new flag, so it is written again with all of its stat data.
            None => match worktree.stat(recorder.index.path(entry)) {
                Ok(Some(stat)) => (Seen::There(stat), Match::Same, true),
                _ => (Seen::Absent, Match::Different, false),
            },
        };
        let Seen::There(stat) = seen else {
            recorder.missing(at, seen);
            continue;
        };
        let moved = entry.mode.is_gitlink() && {
            let head = submodules::head(repo, recorder.index.path(entry));
            head.is_some_and(|head| head != entry.oid)
        };
        if verdict != Match::Same || moved {
            recorder.differs(at);
        } else if as_it_was && !sets_assume_valid {
            recorder.matches(at, entry.mode.is_gitlink());
        } else {
            recorder.update(at, &stat, sets_assume_valid);
        }
    }
    let Recorder { index, refreshed, .. } = recorder;
    if compares_all && (refreshed.changed || index.has_racy()) {
        let mut visited = visited.into_iter().peekable();
        for at in 0..index.len() {
            if visited.next_if_eq(&at).is_none() {
                index.set_uptodate(at);
            }
        }
    }
    Ok(refreshed)
}

impl RefreshOptions {
    fn skips(&self, entry: &Entry) -> bool {
        entry.mode.is_tree() || (self.ignore_submodules && entry.mode.is_gitlink())
    }
}

/// Returns true if the entry has to be compared with its file.
fn needs_compare(index: &Index, entry: &Entry, options: &RefreshOptions) -> bool {
    let trusting_flags = if options.really { Flags::empty() } else { Flags::ASSUME_VALID };
    entry.stage == Stage::Normal
        && !options.skips(entry)
        && !entry.flags.intersects(trusting_flags | Flags::SKIP_WORKTREE | Flags::UPTODATE)
        && !index.is_fsmonitor_valid(entry)
}

/// Records the result of each comparison in the index and in the findings.
struct Recorder<'a> {
    index: &'a mut Index,
    options: &'a RefreshOptions,
    refreshed: Refreshed,
}

impl Recorder<'_> {
    fn unmerged(&mut self, at: usize) {
        let path = self.index.path_at(at);
        let findings = &mut self.refreshed.findings;
        let is_repeated = matches!(findings.last(), Some(Finding::NeedsMerge(last)) if last == path);
        if !self.options.unmerged && !is_repeated {
            findings.push(Finding::NeedsMerge(path.to_owned()));
        }
    }

    fn missing(&mut self, at: usize, seen: Seen) {
        // `ENOENT` covers a path below a link, but not one below a file.
        let missing = match seen {
            Seen::Blocked(_, stat) => stat.file_type == FileType::Symlink,
            Seen::Unknown => false,
            Seen::Absent | Seen::There(_) => true,
        };
        if !(missing && self.options.ignore_missing) {
            self.refreshed.findings.push(Finding::NeedsUpdate(self.index.path_at(at).to_owned()));
        }
    }

    fn differs(&mut self, at: usize) {
        let path = self.index.path_at(at).to_owned();
        if self.options.really {
            self.index.update(at, |entry| entry.flags.remove(Flags::ASSUME_VALID));
            if self.index.monitor_answer() != MonitorAnswer::NotAsked {
                self.index.clear_fsmonitor_valid(at);
                if let Some(untracked) = &mut self.index.untracked {
                    untracked.invalidate(path.as_bstr());
                }
            }
            self.refreshed.changed = true;
        }
        self.refreshed.findings.push(Finding::NeedsUpdate(path));
    }

    /// Records that the entry and its stat data are up to date.
    fn matches(&mut self, at: usize, is_gitlink: bool) {
        if !is_gitlink {
            self.index.set_uptodate(at);
            self.refreshed.changed |= self.index.set_fsmonitor_valid(at);
        }
    }

    /// Copies the file's stat data to the entry, whose content is up to date.
    fn update(&mut self, at: usize, stat: &sys::Stat, sets_assume_valid: bool) {
        self.index.update(at, |entry| {
            entry.stat = index_stat(stat);
            entry
                .flags
                .set(Flags::ASSUME_VALID, entry.flags.contains(Flags::ASSUME_VALID) || sets_assume_valid);
        });
        if stat.file_type == FileType::File {
            self.index.set_uptodate(at);
            self.index.set_fsmonitor_valid(at);
        }
        self.refreshed.changed = true;
    }
}
