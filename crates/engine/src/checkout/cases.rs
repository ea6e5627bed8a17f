//! The action for a path, as tables: those of `git-read-tree(1)` and of Git's `trivial-merge`
//! notes. They are read by the planner and by its tests.
//!
//! A table is searched from the top. The first row whose columns all match decides.
//! [`Condition::Any`] matches both values. The last rows cover all remaining cases, so a search
//! always succeeds.
//!
//! "Same" compares mode and object name. A path that is a directory in a tree, but a file in
//! another tree or the index, counts as absent from that tree. Three-way merges also check that
//! conflict.

use Condition::{Any, No, Yes};

/// The condition in one column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The value must be true.
    Yes,
    /// The value must be false.
    No,
    /// The value does not matter.
    Any,
}

impl Condition {
    fn matches(self, value: bool) -> bool {
        match self {
            Yes => value,
            No => !value,
            Any => true,
        }
    }
}

/// The state of a path in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InIndex {
    /// No entry.
    Nothing,
    /// A merged entry.
    Merged,
    /// Unmerged entries.
    Unmerged,
}

/// The action for a path. `Take` and `Remove` check the worktree first, as Git's `merged_entry` and
/// `deleted_entry` do, and may still refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The path stays unchanged in the index and the worktree, or stays absent from both.
    Keep,
    /// The entry of this tree is taken.
    Take(Source),
    /// The path is removed.
    Remove,
    /// The stages of all trees are kept, unmerged.
    Unmerged,
    /// Local changes in the index: the operation is refused.
    Refuse,
}

/// A tree, by its role in the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The last tree: `target` or `theirs`.
    Target,
    /// `ours`.
    Ours,
    /// The last tree that has the path.
    Topmost,
}

/// The inputs of a one-way merge.
#[derive(Clone, Copy, Debug)]
pub struct OneWay {
    /// True if the tree contains the path.
    pub target: bool,
    /// True if the index has the tree's entry, merged.
    pub same: bool,
}

/// Columns: the case's name in Git's notes, target, same, action.
#[rustfmt::skip]
pub static ONE_WAY: &[(&str, Condition, Condition, Action)] = &[
    ("(empty)", No,  Any, Action::Remove),
    ("index+",  Yes, Yes, Action::Keep),
    ("tree",    Yes, No,  Action::Take(Source::Target)),
];

/// The inputs of a two-way merge: index (I), old tree (H), new tree (M).
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TwoWay {
    pub index: InIndex,
    pub head: bool,
    pub target: bool,
    /// True if both exist and are equal.
    pub index_is_head: bool,
    pub index_is_target: bool,
    /// True if both are equal. Two absent entries count as equal.
    pub head_is_target: bool,
    /// True if the index was empty or missing. Then no user has removed the paths that are missing
    /// from it.
    pub initial: bool,
    /// True if changes may be lost (`--reset`).
    pub force: bool,
}

/// One row of [`TWO_WAY`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TwoWayCase {
    /// The number in `git-read-tree(1)`. The two numbers of a pair differ only in whether the file
    /// is clean. The cases from 22 on, with unmerged entries, are not in that table.
    pub number: &'static str,
    pub index: InIndex,
    pub head: Condition,
    pub target: Condition,
    pub index_is_head: Condition,
    pub index_is_target: Condition,
    pub head_is_target: Condition,
    pub initial: Condition,
    pub force: Condition,
    pub action: Action,
}

#[allow(clippy::too_many_arguments)]
const fn two(
    number: &'static str,
    index: InIndex,
    head: Condition,
    target: Condition,
    index_is_head: Condition,
    index_is_target: Condition,
    head_is_target: Condition,
    initial: Condition,
    force: Condition,
    action: Action,
) -> TwoWayCase {
    TwoWayCase {
        number,
        index,
        head,
        target,
        index_is_head,
        index_is_target,
        head_is_target,
        initial,
        force,
        action,
    }
}

/// Two trees with the index. For the cases in which `git-read-tree(1)` fails because the file is
/// not clean (11, 21), [`Action::Take`] and [`Action::Remove`] detect that.
#[rustfmt::skip]
pub static TWO_WAY: &[TwoWayCase] = &[
    //  number   index              H    M    I==H I==M H==M init force
    two("0",     InIndex::Nothing,  No,  No,  Any, Any, Any, Any, Any, Action::Keep),
    two("1",     InIndex::Nothing,  No,  Yes, Any, Any, Any, Any, Any, Action::Take(Source::Target)),
    two("2",     InIndex::Nothing,  Yes, No,  Any, Any, Any, Any, Any, Action::Remove),
    two("3",     InIndex::Nothing,  Yes, Yes, Any, Any, Any, Yes, Any, Action::Take(Source::Target)),
    two("3",     InIndex::Nothing,  Yes, Yes, Any, Any, Yes, No,  Any, Action::Keep),
    two("3",     InIndex::Nothing,  Yes, Yes, Any, Any, No,  No,  Any, Action::Refuse),
    two("4/5",   InIndex::Merged,   No,  No,  Any, Any, Any, Any, Any, Action::Keep),
    two("6/7",   InIndex::Merged,   No,  Yes, Any, Yes, Any, Any, Any, Action::Keep),
    two("8/9",   InIndex::Merged,   No,  Yes, Any, No,  Any, Any, Any, Action::Refuse),
    two("10/11", InIndex::Merged,   Yes, No,  Yes, Any, Any, Any, Any, Action::Remove),
    two("12/13", InIndex::Merged,   Yes, No,  No,  Any, Any, Any, Any, Action::Refuse),
    two("14/15", InIndex::Merged,   Yes, Yes, Any, Any, Yes, Any, Any, Action::Keep),
    two("16/17", InIndex::Merged,   Yes, Yes, No,  No,  No,  Any, Any, Action::Refuse),
    two("18/19", InIndex::Merged,   Yes, Yes, Any, Yes, No,  Any, Any, Action::Keep),
    two("20/21", InIndex::Merged,   Yes, Yes, Yes, No,  No,  Any, Any, Action::Take(Source::Target)),
    two("22",    InIndex::Unmerged, Any, Yes, Any, Any, Yes, Any, Any, Action::Take(Source::Target)),
    two("22",    InIndex::Unmerged, Any, Yes, Any, Any, No,  Any, Yes, Action::Take(Source::Target)),
    two("23",    InIndex::Unmerged, Any, No,  Any, Any, Yes, Any, Any, Action::Remove),
    two("23",    InIndex::Unmerged, Any, No,  Any, Any, No,  Any, Yes, Action::Remove),
    two("24",    InIndex::Unmerged, Any, Any, Any, Any, No,  Any, No,  Action::Refuse),
];

/// The inputs of a three-way merge.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ThreeWay {
    /// True if the index has an entry. An unmerged entry counts, and equals no side.
    pub index: bool,
    pub index_is_ours: bool,
    pub index_is_theirs: bool,
    pub ours: bool,
    pub theirs: bool,
    /// True if a directory blocks a file of another tree or of the index.
    pub ours_conflicts: bool,
    pub theirs_conflicts: bool,
    /// True if `ours` equals `theirs`. Two absent entries count as equal.
    pub ours_is_theirs: bool,
    /// True if some base is equal, absence included. Not computed if `ours_is_theirs`.
    pub base_is_ours: bool,
    pub base_is_theirs: bool,
    pub some_base_missing: bool,
    /// `--aggressive`
    pub aggressive: bool,
}

/// One row of [`THREE_WAY`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct ThreeWayCase {
    /// The name in Git's `trivial-merge` notes, or "index" if the index alone decides.
    pub name: &'static str,
    pub index: Condition,
    pub index_is_ours: Condition,
    pub index_is_theirs: Condition,
    pub ours: Condition,
    pub theirs: Condition,
    pub ours_conflicts: Condition,
    pub theirs_conflicts: Condition,
    pub ours_is_theirs: Condition,
    pub base_is_ours: Condition,
    pub base_is_theirs: Condition,
    pub some_base_missing: Condition,
    pub aggressive: Condition,
    pub action: Action,
}

#[rustfmt::skip]
const fn three(name: &'static str, index: [Condition; 3], sides: [Condition; 2], conflicts: [Condition; 2], same: [Condition; 3], [some_base_missing, aggressive]: [Condition; 2], action: Action) -> ThreeWayCase {
    ThreeWayCase {
        name,
        index: index[0], index_is_ours: index[1], index_is_theirs: index[2],
        ours: sides[0], theirs: sides[1],
        ours_conflicts: conflicts[0], theirs_conflicts: conflicts[1],
        ours_is_theirs: same[0], base_is_ours: same[1], base_is_theirs: same[2],
        some_base_missing, aggressive,
        action,
    }
}

/// Three or more trees with the index: bases, ours, theirs.
#[rustfmt::skip]
pub static THREE_WAY: &[ThreeWayCase] = &[
    // The last pair: some base is missing, aggressive.
    //             index ==ours ==theirs  ours theirs  conflicts   o==t b==o b==t   last pair
    three("2ALT/14", [No,  Any, Any],     [Any, Yes],  [No, Any],  [No, Yes, No],   [Any, Any], Action::Take(Source::Target)),
    three("2ALT/14", [Yes, Yes, Any],     [Any, Yes],  [No, Any],  [No, Yes, No],   [Any, Any], Action::Take(Source::Target)),
    three("2ALT/14", [Yes, Any, Yes],     [Any, Yes],  [No, Any],  [No, Yes, No],   [Any, Any], Action::Take(Source::Target)),
    three("index",   [Yes, No,  Any],     [Any, Any],  [Any, Any], [Any, Any, Any], [Any, Any], Action::Refuse),
    three("5ALT/15", [Any, Any, Any],     [Yes, Any],  [Any, Any], [Yes, Any, Any], [Any, Any], Action::Take(Source::Ours)),
    three("3ALT/13", [Any, Any, Any],     [Yes, Any],  [Any, No],  [No, No, Yes],   [Any, Any], Action::Take(Source::Ours)),
    three("1",       [Any, Any, Any],     [No, No],    [Any, Any], [Any, Any, Any], [Yes, Any], Action::Keep),
    // "Aggressive": removed on both sides (6), or removed on one side and equal to a base on the
    // other (8, 10).
    three("6",       [Any, Any, Any],     [No, No],    [Any, Any], [Any, Any, Any], [Any, Yes], Action::Keep),
    three("8",       [Any, Any, Any],     [No, Yes],   [Any, Any], [No, Any, Yes],  [Any, Yes], Action::Keep),
    three("10",      [Any, Any, Any],     [Yes, No],   [Any, Any], [No, Yes, Any],  [Any, Yes], Action::Remove),
    three("2-11,16", [Any, Any, Any],     [Any, Any],  [Any, Any], [Any, Any, Any], [Any, Any], Action::Unmerged),
];

impl OneWay {
    /// Returns the name of the case, and the action.
    pub fn decide(self) -> (&'static str, Action) {
        let (name, _, _, action) = ONE_WAY
            .iter()
            .find(|(_, target, same, _)| target.matches(self.target) && same.matches(self.same))
            .expect("the table is complete");
        (name, *action)
    }
}

impl TwoWay {
    /// Returns the case.
    pub fn decide(self) -> &'static TwoWayCase {
        TWO_WAY.iter().find(|case| self.matches(case)).expect("the table is complete")
    }

    fn matches(&self, case: &TwoWayCase) -> bool {
        case.index == self.index
            && case.head.matches(self.head)
            && case.target.matches(self.target)
            && case.index_is_head.matches(self.index_is_head)
            && case.index_is_target.matches(self.index_is_target)
            && case.head_is_target.matches(self.head_is_target)
            && case.initial.matches(self.initial)
            && case.force.matches(self.force)
    }
}

impl ThreeWay {
    /// Returns the case.
    pub fn decide(self) -> &'static ThreeWayCase {
        THREE_WAY.iter().find(|case| self.matches(case)).expect("the table is complete")
    }

    fn matches(&self, case: &ThreeWayCase) -> bool {
        case.index.matches(self.index)
            && case.index_is_ours.matches(self.index_is_ours)
            && case.index_is_theirs.matches(self.index_is_theirs)
            && case.ours.matches(self.ours)
            && case.theirs.matches(self.theirs)
            && case.ours_conflicts.matches(self.ours_conflicts)
            && case.theirs_conflicts.matches(self.theirs_conflicts)
            && case.ours_is_theirs.matches(self.ours_is_theirs)
            && case.base_is_ours.matches(self.base_is_ours)
            && case.base_is_theirs.matches(self.base_is_theirs)
            && case.some_base_missing.matches(self.some_base_missing)
            && case.aggressive.matches(self.aggressive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOL: [bool; 2] = [false, true];

    /// Returns every possible state of a path. Entries are 0 (absent) or a content from 1 to 3.
    fn two_way_states() -> impl Iterator<Item = TwoWay> {
        let contents = || 0..4u8;
        contents().flat_map(move |i| {
            contents().flat_map(move |h| {
                contents().flat_map(move |m| {
                    [InIndex::Merged, InIndex::Unmerged].into_iter().flat_map(move |kind| {
                        BOOL.into_iter().flat_map(move |initial| {
                            BOOL.into_iter().map(move |force| {
                                let merged = kind == InIndex::Merged;
                                TwoWay {
                                    index: if i == 0 { InIndex::Nothing } else { kind },
                                    head: h != 0,
                                    target: m != 0,
                                    index_is_head: merged && i != 0 && i == h,
                                    index_is_target: merged && i != 0 && i == m,
                                    head_is_target: h == m,
                                    initial,
                                    force,
                                }
                            })
                        })
                    })
                })
            })
        })
    }

    #[test]
    fn two_way_rows_are_complete_and_disjoint() {
        let mut used = vec![false; TWO_WAY.len()];
        for state in two_way_states() {
            let fitting: Vec<usize> = (0..TWO_WAY.len()).filter(|&at| state.matches(&TWO_WAY[at])).collect();
            assert_eq!(fitting.len(), 1, "{state:?} matches {fitting:?}");
            used[fitting[0]] = true;
        }
        assert!(used.iter().all(|&used| used), "a row nothing matches: {used:?}");
    }

    #[test]
    fn never_loses_staged_changes_without_force() {
        for state in two_way_states().filter(|state| state.index == InIndex::Merged) {
            let case = state.decide();
            if matches!(case.action, Action::Take(_) | Action::Remove) {
                assert!(state.index_is_head, "case {} drops what is only in the index", case.number);
            }
        }
    }

    #[test]
    fn three_way_rows_are_complete_and_reachable() {
        let mut used = vec![false; THREE_WAY.len()];
        for bits in 0..1u16 << 12 {
            let bit = |at: u16| bits >> at & 1 == 1;
            let state = ThreeWay {
                index: bit(0),
                index_is_ours: bit(1),
                index_is_theirs: bit(2),
                ours: bit(3),
                theirs: bit(4),
                ours_conflicts: bit(5),
                theirs_conflicts: bit(6),
                ours_is_theirs: bit(7),
                base_is_ours: bit(8),
                base_is_theirs: bit(9),
                some_base_missing: bit(10),
                aggressive: bit(11),
            };
            let case = state.decide();
            let at = THREE_WAY.iter().position(|row| std::ptr::eq(row, case)).expect("from the table");
            used[at] = true;
        }
        assert!(used.iter().all(|&used| used), "{used:?}");
    }

    #[test]
    fn one_way_rows_decide_each_case() {
        assert_eq!(OneWay { target: false, same: false }.decide().1, Action::Remove);
        assert_eq!(OneWay { target: true, same: true }.decide().1, Action::Keep);
        assert_eq!(OneWay { target: true, same: false }.decide().1, Action::Take(Source::Target));
    }
}
