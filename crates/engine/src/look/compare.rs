//! Compares index entries with their files, by stat data and, where these do not settle it, by content.

use std::sync::atomic::AtomicBool;

use bstr::BStr;
use format::index::Index;
use sys::Dir;

use super::{
    content::{self, Lazy},
    facts::{self, Seen, Want},
    scan::{self, Note, Scan, Sight},
    stat::{Match, StatRules},
};
use crate::{crew::Tuning, look::LookError};

/// Which entries are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Positions<'a> {
    All,
    /// In order.
    These(&'a [usize]),
}

/// An entry whose file does not simply look as it was recorded.
pub(crate) struct Looked {
    /// Its position.
    pub(crate) at: usize,
    /// What is at its path.
    pub(crate) seen: Seen,
    /// Whether that is the entry's ([`Match::Same`]) or not ([`Match::Different`]).
    pub(crate) verdict: Match,
    /// The entry's stat data is right.
    pub(crate) as_it_was: bool,
}

/// Compares the entries at the positions `asked` with their files, in parallel; where stat data do not settle it by content. Of
/// submodules, which are all told of, only whether there is a directory is looked at. All that is not told of is as recorded.
pub(crate) fn compare(
    repo: &repo::Repository,
    worktree: &Dir,
    index: &Index,
    asked: Positions<'_>,
    want: Want,
) -> Result<Vec<Looked>, LookError> {
    let rules = StatRules::of(repo)?;
    let tuning = Tuning::reading(worktree);
    let never = AtomicBool::new(false);
    let mut scan = match asked {
        Positions::All => Scan::all(worktree, index, (rules, &tuning), &never),
        Positions::These(asked) => Scan::at(worktree, index, (rules, &tuning), asked, &never),
    };
    scan.run(scan::workers(repo)?);
    let notes = scan.into_notes();
    // Of what is not there, it counts what is in its way.
    let is_there = |note: &Note| matches!(note.sight, Sight::There(_));
    let absent: Vec<(&BStr, Want)> =
        notes.iter().filter(|note| !is_there(note)).map(|note| (index.path_at(note.at), want)).collect();
    let mut absent = facts::probe(worktree, index, &absent)?.into_iter();
    let mut looked: Vec<Looked> = Vec::with_capacity(notes.len());
    let mut unsure = Vec::new();
    for Note { at, sight, verdict } in notes {
        let (seen, verdict) = match sight {
            Sight::There(stat) => (Seen::There(stat), verdict),
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
        looked.push(Looked { at, seen, verdict, as_it_was });
    }
    let entries: Vec<usize> = unsure.iter().map(|&number| looked[number].at).collect();
    let same = content::same_content(worktree, index, &entries, &Lazy::new(repo, index))?;
    for (&number, same) in unsure.iter().zip(same) {
        looked[number].verdict = if same { Match::Same } else { Match::Different };
    }
    Ok(looked)
}
