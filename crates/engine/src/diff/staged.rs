//! A tree against the index: Git's `diff-index --cached`.
//!
//! Directories whose cache-tree is the tree's are not opened, so the cost is that of what differs.

use std::collections::BTreeMap;

use bstr::{BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Flags, Index},
};
use repo::{Repository, submodule::Ignore};
use sys::{
    Dir,
    profile::{self, Phase},
};

use super::{Pair, Side as PairSide};
use crate::{
    checkout::{
        PlanError,
        diff::{self, Kind, Side, Slot},
        submodules::Submodules,
    },
    pathspec::{Pathspecs, Seen},
};

/// What differs between `tree` (`None` is the empty one) and `index`, sorted by path. What is only intended to be added is not in the
/// index, as Git has it. `ignore` decides for submodules that do not say otherwise; `None` is what the configuration says.
pub fn staged(
    repo: &Repository,
    root: &Dir,
    index: &Index,
    tree: Option<ObjectId>,
    pathspecs: &Pathspecs,
    ignore: Option<Ignore>,
) -> Result<Vec<Pair>, PlanError> {
    let _phase = profile::span(Phase::Plan);
    let submodules = Submodules::new(repo, root, Ignore::None)?;
    let found = diff::walk(repo.objects(), index, Kind::OneWay, vec![tree])?;
    let mut pairs: BTreeMap<BString, Pair> = BTreeMap::new();
    for row in found.rows {
        let old = match row.sides[0] {
            Side::Entry(mode, oid) => Some(PairSide { mode, oid: Some(oid) }),
            Side::Missing | Side::Conflict => None,
        };
        let new = match row.slot {
            Slot::Merged(at) => {
                let entry = &index.entries()[at];
                let intended = entry.flags.contains(Flags::INTENT_TO_ADD);
                (!intended).then_some(PairSide { mode: entry.mode, oid: Some(entry.oid) })
            }
            Slot::Unmerged(_) | Slot::Nothing => None,
        };
        let is_unmerged = matches!(row.slot, Slot::Unmerged(_));
        if !is_unmerged && old == new {
            continue;
        }
        let path = row.path.as_bstr();
        let is_meant = match new.or(old) {
            _ if pathspecs.is_empty() => true,
            Some(side) => pathspecs.matches_entry(path, side.mode, &mut Seen::default()),
            None => pathspecs.matches(path, &mut Seen::default()),
        };
        if !is_meant {
            continue;
        }
        let is_gitlink = |side: Option<PairSide>| side.is_some_and(|side| side.mode.is_gitlink());
        if is_gitlink(old) || is_gitlink(new) {
            let ignore = match ignore {
                Some(ignore) => ignore,
                None => submodules.ignore(index, path)?,
            };
            if ignore == Ignore::All {
                continue;
            }
        }
        let pair = match is_unmerged {
            true => Pair::unmerged(row.path.clone(), None),
            false => Pair::new(row.path.clone(), old, new),
        };
        pairs.insert(row.path, pair);
    }
    Ok(pairs.into_values().collect())
}
