//! Plans for single entries: `checkout-index`, with entries of any stage, into the worktree or
//! another directory.
//!
//! No tree is read, and nothing is refused as a whole: each entry gets its own verdict, in the
//! order of the request. Symbolic links in leading directories are never followed. As in Git, a
//! file at the path of a leading directory ends the plan, unless it may be removed.

use std::collections::HashMap;

use bstr::BStr;
use format::index::Index;
use sys::{
    Dir, FileType,
    profile::{self, Phase},
};

use super::{Force, Plan, Premise, Write};
use crate::look::{
    LookError,
    content::{self, LazyConverter},
    facts::{self, QueryKind, Seen},
    stat::{Match, StatRules},
};

/// Options for checking out entries.
#[derive(Clone, Copy, Debug)]
pub struct EntryOptions<'a> {
    /// The target directory, if it is not the worktree.
    pub elsewhere: Option<&'a Dir>,
    /// The prefix of the files' names in the target directory.
    pub lead: &'a [u8],
    /// With [`Force::OverwriteUntracked`], files in the way are removed.
    pub force: Force,
    /// True if missing files are created.
    pub create: bool,
    /// True if the stat data of written files are recorded at once, so that an entry requested
    /// twice is found up to date.
    pub records_stat: bool,
}

/// The decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is written.
    Written,
    /// It is up to date, or must not be created.
    Kept,
    /// Another file is at its path.
    Exists,
    /// The leading part of this length (including [`EntryOptions::lead`]) is not a directory. Later
    /// entries are not examined.
    Blocked(usize),
}

/// A plan with the decisions that led to it.
#[derive(Debug)]
pub struct EntryPlan {
    /// The planned steps.
    pub plan: Plan,
    /// One for each entry, up to the first blocked one.
    pub verdicts: Vec<Verdict>,
}

/// Plans the checkout of the `chosen` entries of `index`.
pub fn plan_entries(
    repo: &repo::Repository,
    worktree: &Dir,
    index: Index,
    chosen: &[usize],
    options: &EntryOptions<'_>,
) -> Result<EntryPlan, LookError> {
    let _phase = profile::span(Phase::Plan);
    let rules = StatRules::of(repo)?;
    let forced = options.force == Force::OverwriteUntracked;
    let prefixed: Vec<Vec<u8>> = match options.lead {
        b"" => Vec::new(),
        lead => chosen.iter().map(|&at| [lead, index.path_at(at)].concat()).collect(),
    };
    let name = |(number, &at): (usize, &usize)| match prefixed.get(number) {
        Some(name) => (BStr::new(name), QueryKind::Stat),
        None => (index.path_at(at), QueryKind::Stat),
    };
    let queries: Vec<(&BStr, QueryKind)> = chosen.iter().enumerate().map(name).collect();
    let seen = facts::probe(options.elsewhere.unwrap_or(worktree), &index, &queries)?;
    let compared: Vec<Match> = chosen
        .iter()
        .zip(&seen)
        .map(|(&at, seen)| match seen {
            Seen::There(stat) => rules.compare(&index.entry(at), stat, index.timestamp),
            _ => Match::Different,
        })
        .collect();
    let is_racy = |(_, verdict): &(&usize, &Match)| **verdict == Match::Racy;
    let racy: Vec<usize> = chosen.iter().zip(&compared).filter(is_racy).map(|(&at, _)| at).collect();
    // Compares the worktree's file even if the entry goes elsewhere, as Git does.
    let same = content::same_content(worktree, &index, &racy, &LazyConverter::new(repo, &index), None)?;
    let same: HashMap<usize, bool> = racy.into_iter().zip(same).collect();
    let mut written: HashMap<usize, Premise> = HashMap::new();
    let mut verdicts = Vec::with_capacity(chosen.len());
    for ((&at, seen), compared) in chosen.iter().zip(&seen).zip(compared) {
        let unchanged = match compared {
            Match::Same => true,
            Match::Racy => same[&at],
            Match::Touched | Match::Different => false,
        };
        let gitlink = index.entry(at).mode.is_gitlink();
        let verdict = match seen {
            _ if written.contains_key(&at) => {
                if options.records_stat || forced {
                    Verdict::Kept
                } else {
                    Verdict::Exists
                }
            }
            Seen::There(_) if unchanged => Verdict::Kept,
            Seen::There(_) if !forced => Verdict::Exists,
            // A directory of a submodule stays.
            Seen::There(stat) if gitlink && stat.file_type == FileType::Directory => Verdict::Kept,
            Seen::There(_) => Verdict::Written,
            _ if !options.create => Verdict::Kept,
            Seen::Blocked(len, _) if !forced => Verdict::Blocked(*len),
            _ => Verdict::Written,
        };
        if verdict == Verdict::Written {
            written.insert(at, if forced { Premise::Anything } else { Premise::Absent });
        }
        verdicts.push(verdict);
        if matches!(verdict, Verdict::Blocked(_)) {
            break;
        }
    }
    let mut writes: Vec<Write> =
        written.into_iter().map(|(entry, premise)| Write { entry, premise }).collect();
    writes.sort_unstable_by_key(|write| write.entry);
    let plan = Plan { index, writes, removals: Vec::new(), warnings: Vec::new() };
    Ok(EntryPlan { plan, verdicts })
}
