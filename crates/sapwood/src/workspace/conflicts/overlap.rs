//! The pairs of workspaces whose paths overlap.
//!
//! The paths of a workspace are those of its commits since the merge base of the pair, and its
//! uncommitted ones. For each merge base there is one list from paths to workspaces, so the cost
//! follows the number of paths, and of overlaps, not the number of pairs times paths.
//!
//! Git may also find that a whole directory was renamed, and moves files that the other side adds
//! there. So a pair of which one removes files of a directory, and the other adds some, is merged
//! too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff;
use format::{Mode, ObjectId};
use repo::{ReadCommits, Repository};

use super::state::Participant;
use crate::Error;

/// The common paths of two workspaces.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    /// The paths that both touch.
    pub(super) paths: BTreeSet<BString>,
    /// Both have the same entry at each of these paths.
    is_same: bool,
}

impl Overlap {
    /// Returns false if both sides agree, so that a merge would show nothing.
    pub(super) fn needs_merge(&self) -> bool {
        !self.is_same
    }
}

/// The new entry of a path, and the kind of the change.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Touch {
    new: Option<(Mode, ObjectId)>,
    is_added: bool,
}

type Touched = BTreeMap<BString, Touch>;
type Pairs = BTreeMap<(usize, usize), Overlap>;

/// Finds the pairs whose paths overlap.
pub(super) fn find(repo: &Repository, participants: &[Participant]) -> Result<Pairs, Error> {
    let mut known = ReadCommits::default();
    // The key is the merge base; `None` for unrelated histories.
    let mut by_base: BTreeMap<Option<ObjectId>, HashSet<(usize, usize)>> = BTreeMap::new();
    let mut bases: HashMap<(ObjectId, ObjectId), Vec<ObjectId>> = HashMap::new();
    for other in 0..participants.len() {
        for one in 0..other {
            let heads = (participants[one].head, participants[other].head);
            let found = match bases.get(&heads) {
                Some(found) => found,
                None => {
                    let found = repo.merge_bases_with(&mut known, heads.0, heads.1)?;
                    bases.entry(heads).or_insert(found)
                }
            };
            if found.is_empty() {
                by_base.entry(None).or_default().insert((one, other));
            }
            for base in found {
                by_base.entry(Some(*base)).or_default().insert((one, other));
            }
        }
    }
    let mut overlaps = Pairs::new();
    for (base, pairs) in by_base {
        let base = base.map(|base| repo.tree_of(base)).transpose()?;
        let involved: BTreeSet<usize> = pairs.iter().flat_map(|(one, other)| [*one, *other]).collect();
        let mut touched = BTreeMap::new();
        for at in involved {
            touched.insert(at, touched_by(repo, base, &participants[at])?);
        }
        add_overlaps(&touched, &pairs, &mut overlaps);
    }
    Ok(overlaps)
}

/// Returns the paths that a workspace touches since `base`.
fn touched_by(
    repo: &Repository,
    base: Option<ObjectId>,
    participant: &Participant,
) -> Result<Touched, Error> {
    let head = repo.tree_of(participant.head)?;
    let pairs = diff::trees(repo, base, Some(head))?;
    let mut touched = Touched::new();
    for pair in pairs {
        let new = pair.new.and_then(|side| Some((side.mode, side.oid?)));
        touched.insert(pair.path, Touch { new, is_added: pair.old.is_none() });
    }
    for (path, change) in &participant.changes {
        let was_added = touched.get(path).map_or(change.old.is_none(), |touch| touch.is_added);
        touched.insert(path.clone(), Touch { new: change.new, is_added: was_added });
    }
    Ok(touched)
}

/// The directories above a path, without the root.
fn above(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.rfind_iter("/").map(move |slash| path[..slash].as_bstr())
}

/// Adds the overlaps of those of `pairs` whose paths overlap.
fn add_overlaps(touched: &BTreeMap<usize, Touched>, pairs: &HashSet<(usize, usize)>, overlaps: &mut Pairs) {
    let mut at_path: HashMap<&BStr, Vec<(usize, Touch)>> = HashMap::new();
    let mut emptied: HashMap<&BStr, BTreeSet<usize>> = HashMap::new();
    for (at, paths) in touched {
        for (path, touch) in paths {
            at_path.entry(path.as_bstr()).or_default().push((*at, *touch));
            if touch.new.is_none() {
                for directory in above(path.as_bstr()) {
                    emptied.entry(directory).or_default().insert(*at);
                }
            }
        }
    }
    let mut add = |one: usize, other: usize, path: Option<&BStr>, is_same: bool| {
        let pair = (one.min(other), one.max(other));
        if one != other && pairs.contains(&pair) {
            let found = overlaps.entry(pair).or_insert(Overlap { paths: BTreeSet::new(), is_same: true });
            found.paths.extend(path.map(BStr::to_owned));
            found.is_same &= is_same;
        }
    };
    for (path, all) in &at_path {
        for (position, (one, touch)) in all.iter().enumerate() {
            for (other, others) in &all[..position] {
                // A path that both sides lack may have two new names.
                add(*one, *other, Some(*path), touch.new == others.new && touch.new.is_some());
            }
            for directory in above(path) {
                // One has a file where the other has a directory.
                for (other, _) in at_path.get(directory).into_iter().flatten() {
                    add(*one, *other, Some(*path), false);
                }
                for other in emptied.get(directory).into_iter().flatten().filter(|_| touch.is_added) {
                    add(*one, *other, None, false);
                }
            }
        }
    }
}
