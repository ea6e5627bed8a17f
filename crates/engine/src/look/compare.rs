//! Compares index entries with their files, by stat data and, where these are inconclusive, by
//! content.

use std::sync::atomic::AtomicBool;

use bstr::BStr;
use format::index::Index;
use sys::Dir;

use super::{
    content::{self, LazyConverter},
    facts::{self, QueryKind, Seen},
    scan::{self, Note, PathState, Scan, ScanTarget},
    stat::{Match, StatRules},
};
use crate::{crew::Tuning, look::LookError};

/// A selection of entries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Positions<'a> {
    All,
    /// The entries at these positions, in ascending order.
    These(&'a [usize]),
}

/// An entry whose file does not match its stat data.
pub(crate) struct Compared {
    /// The position of the entry.
    pub(crate) at: usize,
    /// The state of its path.
    pub(crate) seen: Seen,
    /// [`Match::Same`] if the file has the entry's content, otherwise [`Match::Different`].
    pub(crate) verdict: Match,
    /// True if the stat data in the entry equal those of the file.
    pub(crate) as_it_was: bool,
}

/// Compares the entries at the positions `asked` with their files, in parallel, by stat data and,
/// where these are inconclusive, by content. Entries that match are not in the result. Submodules
/// always are, because only the existence of their directory is checked.
pub(crate) fn compare(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    asked: Positions<'_>,
    kind: QueryKind,
) -> Result<Vec<Compared>, LookError> {
    let rules = StatRules::of(repo)?;
    let tuning = Tuning::reading(worktree);
    let never = AtomicBool::new(false);
    let target = ScanTarget { root: worktree, index, rules, tuning: &tuning, interrupt: &never, meter: None };
    let mut scan = match asked {
        Positions::All => Scan::all(target),
        Positions::These(asked) => Scan::at(target, asked),
    };
    scan.run(scan::workers(repo)?);
    let notes = scan.into_notes();
    // For a missing path, find the component that blocks it.
    let is_there = |note: &Note| matches!(note.state, PathState::There(_));
    let absent: Vec<(&BStr, QueryKind)> =
        notes.iter().filter(|note| !is_there(note)).map(|note| (index.path_at(note.at), kind)).collect();
    let mut absent = facts::probe(worktree, index, &absent)?.into_iter();
    let mut looked: Vec<Compared> = Vec::with_capacity(notes.len());
    let mut unsure = Vec::new();
    for Note { at, state, verdict } in notes {
        let (seen, verdict) = match state {
            PathState::There(stat) => (Seen::There(stat), verdict),
            _ => match absent.next().expect("each was asked about") {
                Seen::There(stat) => {
                    let verdict = rules.compare(&index.entry(at), &stat, index.timestamp);
                    (Seen::There(stat), verdict)
                }
                seen => (seen, Match::Different),
            },
        };
        if matches!(verdict, Match::Racy | Match::Touched) {
            unsure.push(looked.len());
        }
        let as_it_was = matches!(verdict, Match::Same | Match::Racy);
        looked.push(Compared { at, seen, verdict, as_it_was });
    }
    let entries: Vec<usize> = unsure.iter().map(|&number| looked[number].at).collect();
    let same = content::same_content(worktree, index, &entries, &LazyConverter::new(repo, index), None)?;
    for (&number, same) in unsure.iter().zip(same) {
        looked[number].verdict = if same { Match::Same } else { Match::Different };
    }
    Ok(looked)
}
