//! Which case a row is, and what has to be asked of the worktree before it can be decided.

use bstr::ByteSlice;
use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage, Stat},
};

use super::{Border, Policy};
use crate::{
    checkout::{
        Force,
        cases::{Action, InIndex, OneWay, Source, ThreeWay, TwoWay},
        plan::Files,
    },
    look::{
        facts::Want,
        trees::{Kind, OneSided, Row, Side, Slot},
    },
};

/// The case of a row.
pub(in crate::checkout) fn action(row: &Row, kind: Kind, force: Force, index: &Index) -> Action {
    let held = match row.slot {
        Slot::Merged(at) => {
            let entry = &index.entries()[at];
            Some((entry.mode, entry.oid))
        }
        _ => None,
    };
    let entry = |side: Side| match side {
        Side::Entry(mode, oid) => Some((mode, oid)),
        Side::Missing | Side::Conflict => None,
    };
    let target = row.sides.last().copied().and_then(entry);
    if force == Force::Remnants && row.slot != Slot::Nothing {
        return Action::Keep;
    }
    match kind {
        Kind::OneWay => {
            OneWay { target: target.is_some(), same: held.is_some() && held == target }.decide().1
        }
        Kind::TwoWay { initial } => {
            let head = entry(row.sides[0]);
            let state = TwoWay {
                index: match row.slot {
                    Slot::Nothing => InIndex::Nothing,
                    Slot::Merged(_) => InIndex::Merged,
                    Slot::Unmerged(_) => InIndex::Unmerged,
                },
                head: head.is_some(),
                target: target.is_some(),
                index_is_head: held.is_some() && held == head,
                index_is_target: held.is_some() && held == target,
                head_is_target: head == target,
                initial,
                force: force != Force::No,
            };
            state.decide().action
        }
        Kind::Overlay => match row.sides.iter().any(|&side| entry(side).is_some()) {
            true => Action::Take(Source::Topmost),
            false => Action::Keep,
        },
        Kind::Bind if row.slot != Slot::Nothing => Action::Refuse,
        Kind::Bind => Action::Take(Source::Target),
        Kind::ThreeWay { one_sided } => {
            let (bases, sides) = row.sides.split_at(row.sides.len() - 2);
            let (ours, theirs) = (entry(sides[0]), target);
            // A base in conflict is like neither side, not even like an absent one.
            let any_base = |wanted: Option<(Mode, ObjectId)>| {
                bases.iter().any(|&base| base != Side::Conflict && entry(base) == wanted)
            };
            let state = ThreeWay {
                index: row.slot != Slot::Nothing,
                index_is_ours: held.is_some() && held == ours,
                index_is_theirs: held.is_some() && held == theirs,
                ours: ours.is_some(),
                theirs: theirs.is_some(),
                ours_conflicts: sides[0] == Side::Conflict,
                theirs_conflicts: sides[1] == Side::Conflict,
                ours_is_theirs: ours == theirs,
                base_is_ours: ours != theirs && any_base(ours),
                base_is_theirs: ours != theirs && any_base(theirs),
                some_base_missing: bases.iter().any(|&base| entry(base).is_none()),
                aggressive: one_sided == OneSided::Settle,
            };
            state.decide().action
        }
    }
}

/// What has to be asked of the worktree before `row` can be decided; the same conditions as in
/// [`Decider::uptodate`](super::Decider::uptodate) and [`Decider::absent`](super::Decider::absent).
pub(in crate::checkout) fn question(
    row: &Row,
    action: Action,
    policy: &Policy<'_>,
    index: &Index,
) -> Option<Want> {
    if policy.force == Force::Remnants || policy.files == Files::Ignore {
        return None;
    }
    let forced = policy.force != Force::No;
    let overwrites = policy.force == Force::OverwriteUntracked;
    let asks = match (action, row.slot) {
        (Action::Keep, Slot::Merged(at)) => {
            // A forced one-way merge rewrites what is not as it should be.
            let entry = &index.entries()[at];
            policy.kind == Kind::OneWay && forced && policy.updates() && !is_trusted(index, entry)
        }
        (Action::Keep | Action::Refuse, _) | (Action::Unmerged, Slot::Nothing) => return None,
        // The result is in the index already: nothing is overwritten.
        (Action::Take(source), Slot::Merged(at)) if is_held(row, source, index, at) => return None,
        (Action::Take(_), Slot::Nothing) if policy.excludes(row.path.as_bstr()) => return None,
        (_, Slot::Nothing | Slot::Unmerged(_)) => policy.updates() && !overwrites,
        (_, Slot::Merged(at)) => {
            let flags = index.entries()[at].flags;
            let border = policy.border(at, flags);
            if border == Border::Outside {
                return None;
            }
            let doubted = flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
            let is_removed_dir = action == Action::Remove && policy.updates() && !overwrites;
            doubted || !forced || is_removed_dir || border == Border::Leaving
        }
    };
    let want = if row.slot == Slot::Nothing { Want::Absence } else { Want::Stat };
    asks.then_some(want)
}

/// The side a case takes.
pub(super) fn taken(row: &Row, source: Source) -> Side {
    match source {
        Source::Target => row.sides[row.sides.len() - 1],
        Source::Ours => row.sides[row.sides.len() - 2],
        Source::Topmost => {
            let entries = row.sides.iter().rev().filter(|side| matches!(side, Side::Entry(..)));
            entries.copied().next().unwrap_or(Side::Missing)
        }
    }
}

fn is_held(row: &Row, source: Source, index: &Index, at: usize) -> bool {
    let entry = &index.entries()[at];
    taken(row, source) == Side::Entry(entry.mode, entry.oid)
}

/// Entries whose files are not looked at when nothing changes: known to match, not there on purpose, or as they were by the
/// word of the file system monitor, if it was asked; they are left as they are.
pub(in crate::checkout) fn is_trusted(index: &Index, entry: &Entry) -> bool {
    entry.flags.intersects(Flags::UPTODATE | Flags::SKIP_WORKTREE) || index.is_vouched_for(entry)
}

/// Entries whose files were never seen as they should be, and belong in the worktree.
pub(in crate::checkout) fn is_unfinished(entry: &Entry) -> bool {
    let elsewhere = Flags::SKIP_WORKTREE | Flags::ASSUME_VALID | Flags::INTENT_TO_ADD;
    entry.stage == Stage::Normal && entry.stat == Stat::default() && !entry.flags.intersects(elsewhere)
}
