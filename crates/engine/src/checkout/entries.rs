//! Planning for single entries: `checkout-index`, whatever their stage, into the worktree or anywhere else.
//!
//! No tree is looked at, and nothing is refused as a whole: each entry has its own verdict, in the order in which it was
//! asked about. Symbolic links that lead to a file are never followed; what stands where a directory has to be
//! ends the plan, as Git ends there, unless it may go.

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
    content::{self, Lazy},
    facts::{self, Seen, Want},
    stat::{Match, StatRules},
};

/// How entries are checked out.
#[derive(Clone, Copy, Debug)]
pub struct EntryOptions<'a> {
    /// Where they go, if not to the worktree.
    pub elsewhere: Option<&'a Dir>,
    /// What the names of files begin with there, before the entries' paths.
    pub lead: &'a [u8],
    /// [`Force::OverwriteUntracked`]: what is in the way goes.
    pub force: Force,
    /// Files that are not there are created.
    pub create: bool,
    /// The stat data of what is written are noted at once, so that an entry that is asked for twice is found to be there.
    pub noted: bool,
}

/// What is done about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is written.
    Written,
    /// It is as it should be, or not to be created.
    Left,
    /// Something else is there.
    Exists,
    /// The leading part of this length (counting [`EntryOptions::lead`]) is no directory. Nothing after this entry is looked at.
    Blocked(usize),
}

/// A plan, and how it came about.
#[derive(Debug)]
pub struct EntryPlan {
    /// What would be done.
    pub plan: Plan,
    /// One for each entry, to the first that is blocked.
    pub verdicts: Vec<Verdict>,
}

/// Decides what to do about the `chosen` entries of `index`.
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
    let led: Vec<Vec<u8>> = match options.lead {
        b"" => Vec::new(),
        lead => chosen.iter().map(|&at| [lead, index.path_at(at)].concat()).collect(),
    };
    let name = |(number, &at): (usize, &usize)| match led.get(number) {
        Some(name) => (BStr::new(name), Want::Stat),
        None => (index.path_at(at), Want::Stat),
    };
    let questions: Vec<(&BStr, Want)> = chosen.iter().enumerate().map(name).collect();
    let seen = facts::probe(options.elsewhere.unwrap_or(worktree), &index, &questions)?;
    let compared: Vec<Match> = chosen
        .iter()
        .zip(&seen)
        .map(|(&at, seen)| match seen {
            Seen::There(stat) => rules.compare(&index.entries()[at], stat, index.timestamp),
            _ => Match::Different,
        })
        .collect();
    let is_racy = |(_, verdict): &(&usize, &Match)| **verdict == Match::Racy;
    let racy: Vec<usize> = chosen.iter().zip(&compared).filter(is_racy).map(|(&at, _)| at).collect();
    // Of the worktree's file, wherever the entry goes: as Git has it.
    let same = content::same_content(worktree, &index, &racy, &Lazy::new(repo, &index))?;
    let same: HashMap<usize, bool> = racy.into_iter().zip(same).collect();
    let mut written: HashMap<usize, Premise> = HashMap::new();
    let mut verdicts = Vec::with_capacity(chosen.len());
    for ((&at, seen), compared) in chosen.iter().zip(&seen).zip(compared) {
        let unchanged = match compared {
            Match::Same => true,
            Match::Racy => same[&at],
            Match::Touched | Match::Different => false,
        };
        let gitlink = index.entries()[at].mode.is_gitlink();
        let verdict = match seen {
            _ if written.contains_key(&at) => match options.noted || forced {
                true => Verdict::Left,
                false => Verdict::Exists,
            },
            Seen::There(_) if unchanged => Verdict::Left,
            Seen::There(_) if !forced => Verdict::Exists,
            // A directory that is a submodule's is left alone.
            Seen::There(stat) if gitlink && stat.file_type == FileType::Directory => Verdict::Left,
            Seen::There(_) => Verdict::Written,
            _ if !options.create => Verdict::Left,
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
