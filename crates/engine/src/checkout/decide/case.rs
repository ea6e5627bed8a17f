//! The case of a row, and the facts about the worktree that its decision needs.

use bstr::ByteSlice;
use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage, Stat},
};

use super::{Policy, SparseState};
use crate::{
    checkout::{
        Force,
        cases::{Action, InIndex, OneWay, Source, ThreeWay, TwoWay},
        plan::Files,
    },
    look::{
        facts::QueryKind,
        trees::{Kind, OneSided, Row, Side, Slot},
    },
};

/// Returns the action for a row.
pub(in crate::checkout) fn action(row: &Row, kind: Kind, force: Force, index: &Index) -> Action {
    let indexed = match row.slot {
        Slot::Merged(at) => {
            let entry = &index.entry(at);
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
            OneWay { target: target.is_some(), same: indexed.is_some() && indexed == target }.decide().1
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
                index_is_head: indexed.is_some() && indexed == head,
                index_is_target: indexed.is_some() && indexed == target,
                head_is_target: head == target,
                initial,
                force: force != Force::No,
            };
            state.decide().action
        }
        Kind::Overlay => {
            if row.sides.iter().any(|&side| entry(side).is_some()) {
                Action::Take(Source::Topmost)
            } else {
                Action::Keep
            }
        }
        Kind::Bind if row.slot != Slot::Nothing => Action::Refuse,
        Kind::Bind => Action::Take(Source::Target),
        Kind::ThreeWay { one_sided } => {
            let (bases, sides) = row.sides.split_at(row.sides.len() - 2);
            let (ours, theirs) = (entry(sides[0]), target);
            // A base in conflict equals neither side, not even an absent one.
            let any_base = |wanted: Option<(Mode, ObjectId)>| {
                bases.iter().any(|&base| base != Side::Conflict && entry(base) == wanted)
            };
            let state = ThreeWay {
                index: row.slot != Slot::Nothing,
                index_is_ours: indexed.is_some() && indexed == ours,
                index_is_theirs: indexed.is_some() && indexed == theirs,
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

/// Returns the fact to gather before `row` can be decided. The conditions are those of
/// [`Decider::verify_uptodate`](super::Decider::verify_uptodate) and
/// [`Decider::verify_absent`](super::Decider::verify_absent).
pub(in crate::checkout) fn needed_query(
    row: &Row,
    action: Action,
    policy: &Policy<'_>,
    index: &Index,
) -> Option<QueryKind> {
    if policy.force == Force::Remnants || policy.files == Files::Ignore {
        return None;
    }
    let forced = policy.force != Force::No;
    let overwrites = policy.force == Force::OverwriteUntracked;
    let needs_fact = match (action, row.slot) {
        (Action::Keep, Slot::Merged(at)) => {
            // A forced one-way merge writes changed files again.
            let entry = &index.entry(at);
            policy.kind == Kind::OneWay && forced && policy.updates() && !is_trusted(index, entry)
        }
        (Action::Keep | Action::Refuse, _) | (Action::Unmerged, Slot::Nothing) => return None,
        // The index already contains the result, so nothing is overwritten.
        (Action::Take(source), Slot::Merged(at)) if is_indexed(row, source, index, at) => return None,
        (Action::Take(_), Slot::Nothing) if policy.excludes(row.path.as_bstr()) => return None,
        (_, Slot::Nothing | Slot::Unmerged(_)) => policy.updates() && !overwrites,
        (_, Slot::Merged(at)) => {
            let flags = index.entry(at).flags;
            let sparse_state = policy.sparse_state(at, flags);
            if sparse_state == SparseState::Outside {
                return None;
            }
            let is_unreliable = flags.intersects(Flags::ASSUME_VALID | Flags::SKIP_WORKTREE);
            let is_removed_dir = action == Action::Remove && policy.updates() && !overwrites;
            is_unreliable || !forced || is_removed_dir || sparse_state == SparseState::Leaving
        }
    };
    let kind = if row.slot == Slot::Nothing { QueryKind::Absence } else { QueryKind::Stat };
    needs_fact.then_some(kind)
}

/// Returns the side that a case takes.
pub(super) fn source_side(row: &Row, source: Source) -> Side {
    match source {
        Source::Target => row.sides[row.sides.len() - 1],
        Source::Ours => row.sides[row.sides.len() - 2],
        Source::Topmost => {
            let entries = row.sides.iter().rev().filter(|side| matches!(side, Side::Entry(..)));
            entries.copied().next().unwrap_or(Side::Missing)
        }
    }
}

fn is_indexed(row: &Row, source: Source, index: &Index, at: usize) -> bool {
    let entry = &index.entry(at);
    source_side(row, source) == Side::Entry(entry.mode, entry.oid)
}

/// Returns true for an entry whose file is not checked if the entry does not change: the file is
/// known to match, is absent on purpose, or is unchanged according to the file system monitor.
pub(in crate::checkout) fn is_trusted(index: &Index, entry: &Entry) -> bool {
    entry.flags.intersects(Flags::UPTODATE | Flags::SKIP_WORKTREE) || index.is_fsmonitor_valid(entry)
}

/// Returns true for an entry that belongs in the worktree and whose file was never seen up to date.
pub(in crate::checkout) fn is_unfinished(entry: &Entry) -> bool {
    let elsewhere = Flags::SKIP_WORKTREE | Flags::ASSUME_VALID | Flags::INTENT_TO_ADD;
    entry.stage == Stage::Normal && entry.stat == Stat::default() && !entry.flags.intersects(elsewhere)
}
