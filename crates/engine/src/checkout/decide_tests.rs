//! Decisions for every state of a path, without a disk.

use format::{
    HashKind,
    index::{Fsmonitor, MonitorAnswer},
};

use super::{super::cases, *};
use crate::{
    checkout::cases::Source,
    look::{LookError, facts::QueryKind, trees::OneSided},
};

/// Query results of a worktree without untracked files, unless `untracked` is set.
struct FakeQueries {
    untracked: bool,
    ignored: bool,
}

impl Queries for FakeQueries {
    fn is_ignored(&mut self, _: &BStr, _: bool) -> Result<bool, LookError> {
        Ok(self.ignored)
    }
    fn untracked_below(&mut self, _: &BStr, _: bool) -> Result<bool, LookError> {
        Ok(self.untracked)
    }
    fn examine(&mut self, _: usize) -> Result<Fact, LookError> {
        Ok(Fact { seen: Seen::There(stat(FileType::File)), clean: true })
    }
    fn is_other_case(&mut self, _: &BStr, _: &sys::Stat) -> Result<bool, LookError> {
        Ok(false)
    }
    fn is_dangling(&mut self, _: &BStr) -> bool {
        false
    }
    fn follows(&mut self, _: &BStr) -> Result<bool, LookError> {
        Ok(false)
    }
    fn can_move(&mut self, _: &BStr, _: Start, _: Option<ObjectId>, _: Force) -> Result<bool, LookError> {
        Ok(true)
    }
    fn sparse_facts(&mut self, leaving: &[usize], entering: &[usize]) -> Result<[Vec<Fact>; 2], LookError> {
        let clean = Fact { seen: Seen::There(stat(FileType::File)), clean: true };
        let absent = Fact { seen: Seen::Absent, clean: false };
        Ok([vec![clean; leaving.len()], vec![absent; entering.len()]])
    }
}

fn stat(file_type: FileType) -> sys::Stat {
    sys::Stat { file_type, mode: 0, ctime: (1, 1), mtime: (1, 1), dev: 1, ino: 1, uid: 0, gid: 0, size: 1 }
}

fn oid(content: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[content; 20]).expect("20 bytes")
}

fn side(content: u8) -> Side {
    if content == 0 { Side::Missing } else { Side::Entry(Mode::FILE, oid(content)) }
}

fn index_of(entries: &[(&str, u8, Flags)]) -> Index {
    let mut index = Index::empty(HashKind::Sha1);
    for &(path, content, flags) in entries {
        let stage = Stage::Normal;
        index.push(
            path.into(),
            NewEntry { stat: Stat::default(), oid: oid(content), mode: Mode::FILE, flags, stage },
        );
    }
    index
}

fn policy(kind: Kind) -> Policy<'static> {
    Policy {
        kind,
        force: Force::No,
        files: Files::Update,
        protect: Protect::default(),
        overwrite_ignored: true,
        sparse: None,
        cwd: None,
        report_all: true,
        recurse_submodules: false,
        vouched: Vouched::Examined,
    }
}

const TWO_WAY: Kind = Kind::TwoWay { initial: false };

fn run(
    index: &Index,
    policy: Policy<'_>,
    rows: &[Row],
    facts: &[Fact],
    queries: &mut FakeQueries,
) -> Decided {
    Decider::new(index, policy, queries)
        .run(rows.to_vec(), facts.to_vec())
        .expect("nothing is asked of a disk")
}

fn no_untracked() -> FakeQueries {
    FakeQueries { untracked: false, ignored: false }
}

#[test]
fn two_way_cases_clean_and_dirty() {
    for (i, h, m) in (0..64u8).map(|bits| (bits & 3, bits >> 2 & 3, bits >> 4)) {
        if (i, h, m) == (0, 0, 0) {
            continue;
        }
        for clean in [true, false] {
            let index = if i == 0 { index_of(&[]) } else { index_of(&[("p", i, Flags::empty())]) };
            let slot = if i == 0 { Slot::Nothing } else { Slot::Merged(0) };
            let row = Row { path: "p".into(), slot, sides: vec![side(h), side(m)] };
            let seen = match (i, clean) {
                (0, true) => Seen::Absent,
                _ => Seen::There(stat(FileType::File)),
            };
            let rows = [row.clone()];
            let decided = run(&index, policy(TWO_WAY), &rows, &[Fact { seen, clean }], &mut no_untracked());
            let kinds: Vec<RefusalKind> = decided.refusals.iter().map(|refusal| refusal.kind).collect();
            let context = format!("I {i} H {h} M {m} clean {clean}: {decided:?}");
            match action(&row, TWO_WAY, Force::No, &index) {
                Action::Keep => {
                    assert!(decided.edits.is_empty() && decided.writes.is_empty(), "{context}");
                    assert!(decided.removals.is_empty() && kinds.is_empty(), "{context}");
                }
                Action::Refuse => assert_eq!(kinds, [RefusalKind::WouldOverwrite], "{context}"),
                Action::Take(_) | Action::Remove if !clean => {
                    let kind = match (i, m) {
                        (0, 0) => RefusalKind::UntrackedRemoved,
                        (0, _) => RefusalKind::UntrackedOverwritten,
                        _ => RefusalKind::NotUptodateFile,
                    };
                    assert_eq!(kinds, [kind], "{context}");
                }
                Action::Take(_) => {
                    assert_eq!(decided.edits[0].entries[0].oid, oid(m), "{context}");
                    assert_eq!(decided.writes[0].0, "p", "{context}");
                }
                Action::Remove => {
                    assert_eq!(decided.removals.len(), usize::from(i != 0), "{context}");
                    assert_eq!(decided.edits.len(), usize::from(i != 0), "{context}");
                }
                Action::Unmerged => unreachable!("two trees leave nothing unmerged"),
            }
        }
    }
}

#[test]
fn takes_the_premise_from_facts_and_force() {
    let index = index_of(&[("p", 1, Flags::empty())]);
    let rows = [Row { path: "p".into(), slot: Slot::Merged(0), sides: vec![side(1), side(2)] }];
    let premise = |seen, clean, force| {
        let policy = Policy { force, ..policy(TWO_WAY) };
        let decided = run(&index, policy, &rows, &[Fact { seen, clean }], &mut no_untracked());
        decided.writes.first().map(|(_, premise)| premise.clone())
    };
    let there = stat(FileType::File);
    assert_eq!(premise(Seen::There(there), true, Force::No), Some(Premise::Unchanged(Box::new(there))));
    assert_eq!(premise(Seen::Absent, false, Force::No), Some(Premise::Absent));
    assert_eq!(premise(Seen::There(there), false, Force::No), None);
    assert_eq!(premise(Seen::Unknown, false, Force::OverwriteUntracked), Some(Premise::Anything));
}

#[test]
fn overwrites_ignored_files_and_protects_untracked_ones() {
    let index = index_of(&[]);
    let rows = [Row { path: "p".into(), slot: Slot::Nothing, sides: vec![side(0), side(1)] }];
    let facts = [Fact { seen: Seen::There(stat(FileType::File)), clean: false }];
    let mut ignoring = FakeQueries { untracked: false, ignored: true };
    let decided = run(&index, policy(TWO_WAY), &rows, &facts, &mut ignoring);
    assert_eq!(decided.writes[0].1, Premise::Anything);
    let careful = Policy { overwrite_ignored: false, ..policy(TWO_WAY) };
    let decided = run(&index, careful, &rows, &facts, &mut ignoring);
    assert_eq!(decided.refusals[0].kind, RefusalKind::UntrackedOverwritten);
}

#[test]
fn replaces_a_directory_by_a_file_only_if_it_is_clean() {
    let index = index_of(&[("d/x", 1, Flags::empty())]);
    let rows = [
        Row { path: "d".into(), slot: Slot::Nothing, sides: vec![Side::Conflict, side(2)] },
        Row { path: "d/x".into(), slot: Slot::Merged(0), sides: vec![side(1), Side::Conflict] },
    ];
    let facts = [
        Fact { seen: Seen::There(stat(FileType::Directory)), clean: false },
        Fact { seen: Seen::There(stat(FileType::File)), clean: true },
    ];
    let decided = run(&index, policy(TWO_WAY), &rows, &facts, &mut no_untracked());
    assert!(decided.refusals.is_empty());
    assert_eq!(decided.removals.len(), 1);
    assert_eq!(decided.edits.len(), 2);
    let mut untracked = FakeQueries { untracked: true, ignored: false };
    let decided = run(&index, policy(TWO_WAY), &rows, &facts, &mut untracked);
    assert_eq!(decided.refusals[0].kind, RefusalKind::NotUptodateDir);
    let inside = Policy { cwd: Some("d".into()), ..policy(TWO_WAY) };
    let decided = run(&index, inside, &rows, &facts, &mut no_untracked());
    assert_eq!(decided.refusals[0].kind, RefusalKind::CwdInTheWay);
}

#[test]
fn changes_skip_worktree_entries_in_the_index_alone() {
    let index = index_of(&[("p", 1, Flags::SKIP_WORKTREE)]);
    let rows = [Row { path: "p".into(), slot: Slot::Merged(0), sides: vec![side(1), side(2)] }];
    let facts = [Fact { seen: Seen::Absent, clean: false }];
    let patterns = Patterns::parse(b"/other\n", false, false).patterns;
    let sparsity = Sparsity { outside: vec![true], ..Sparsity::new(&patterns, &index) };
    let sparse = Policy { sparse: Some(&sparsity), ..policy(TWO_WAY) };
    let decided = run(&index, sparse, &rows, &facts, &mut no_untracked());
    assert_eq!(decided.edits[0].entries[0].flags, Flags::SKIP_WORKTREE);
    assert!(decided.writes.is_empty());
    let gone = [Row { sides: vec![side(1), side(0)], ..rows[0].clone() }];
    let decided = run(&index, sparse, &gone, &facts, &mut no_untracked());
    // Only the directory may go.
    assert_eq!(decided.removals[0].premise, Premise::Absent);
    assert!(decided.removals.len() == 1 && decided.edits[0].entries.is_empty());
    let (one_way, gone) =
        (Policy { kind: Kind::OneWay, ..sparse }, [Row { sides: vec![side(0)], ..gone[0].clone() }]);
    let decided = run(&index, one_way, &gone, &facts, &mut no_untracked());
    assert!(decided.removals.is_empty() && decided.edits[0].entries.is_empty());
}

#[test]
fn removes_and_writes_files_by_the_sparse_patterns() {
    let index = index_of(&[("come", 1, Flags::SKIP_WORKTREE), ("go", 1, Flags::empty())]);
    let patterns = Patterns::parse(b"/come\n", false, false).patterns;
    let sparsity = Sparsity::new(&patterns, &index);
    let sparse = Policy { sparse: Some(&sparsity), ..policy(TWO_WAY) };
    let decided = run(&index, sparse, &[], &[], &mut no_untracked());
    assert_eq!(decided.sparse_marks, [(1, true), (0, false)]);
    assert_eq!(decided.writes.len(), 1);
    assert_eq!(decided.removals[0].path, "go");
    // A changed entry that leaves the sparse worktree is not written. A new entry outside of it is
    // never written.
    let rows = [
        Row { path: "go".into(), slot: Slot::Merged(1), sides: vec![side(1), side(2)] },
        Row { path: "new".into(), slot: Slot::Nothing, sides: vec![side(0), side(2)] },
    ];
    let clean = Fact { seen: Seen::There(stat(FileType::File)), clean: true };
    let decided = run(&index, sparse, &rows, &[clean, clean], &mut no_untracked());
    assert!(decided.edits.iter().all(|edit| edit.entries[0].flags == Flags::SKIP_WORKTREE));
    assert_eq!(decided.removals[0].path, "go");
    assert_eq!(decided.writes[0].0, "come");
}

#[test]
fn trusts_a_queried_monitor_if_nothing_is_overwritten() {
    let mut index = index_of(&[("p", 1, Flags::FSMONITOR_VALID)]);
    let row = Row { path: "p".into(), slot: Slot::Merged(0), sides: vec![side(1)] };
    let forced = Policy { force: Force::OverwriteUntracked, ..policy(Kind::OneWay) };
    let asked_about = |index: &Index, action| needed_query(&row, action, &forced, index);
    assert_eq!(asked_about(&index, Action::Keep), Some(QueryKind::Stat));
    index.fsmonitor = Some(Fsmonitor { token: "now".into(), answer: MonitorAnswer::Changes });
    assert_eq!(asked_about(&index, Action::Keep), None);
    let change = Row { path: "p".into(), slot: Slot::Merged(0), sides: vec![side(2)] };
    let careful = policy(Kind::OneWay);
    assert_eq!(needed_query(&change, Action::Take(Source::Target), &careful, &index), Some(QueryKind::Stat));
}

#[test]
fn a_resumed_clone_writes_missing_and_unfinished_entries() {
    let names = [("changed", 1), ("finished", 1), ("none", 1), ("staged", 1), ("unfinished", 1)];
    let mut index = index_of(&names.map(|(path, content)| (path, content, Flags::empty())));
    for at in [0, 1, 3] {
        index.entries_mut()[at].stat.size = 7;
    }
    index.entries_mut()[2].flags = Flags::INTENT_TO_ADD;
    let row = |path: &str, slot, target| Row { path: path.into(), slot, sides: vec![side(target)] };
    let rows = [
        row("changed", Slot::Merged(0), 2),
        row("finished", Slot::Merged(1), 1),
        row("missing", Slot::Nothing, 1),
        row("none", Slot::Merged(2), 1),
        row("staged", Slot::Merged(3), 0),
        row("unfinished", Slot::Merged(4), 1),
    ];
    let policy = Policy { force: Force::Remnants, ..policy(Kind::OneWay) };
    for row in &rows {
        let action = action(row, policy.kind, policy.force, &index);
        assert_eq!(needed_query(row, action, &policy, &index), None, "{}", row.path);
    }
    let facts = [Fact { seen: Seen::Unknown, clean: false }; 6];
    let decided = run(&index, policy, &rows, &facts, &mut no_untracked());
    assert!(decided.removals.is_empty());
    assert_eq!(decided.edits.iter().map(|edit| edit.path.to_string()).collect::<Vec<_>>(), ["missing"]);
    let expected = ["missing", "unfinished"].map(|path| (path.into(), Premise::Remnant));
    assert_eq!(decided.writes, expected);
}

/// Checks the stages that each stage-keeping row of the three-way table keeps.
#[test]
fn keeps_the_stages_of_three_way_conflicts() {
    let index = index_of(&[]);
    let stages = |sides: Vec<Side>| -> Vec<Stage> {
        let rows = [Row { path: "p".into(), slot: Slot::Nothing, sides }];
        let facts = [Fact { seen: Seen::Absent, clean: false }];
        let decided = run(
            &index,
            policy(Kind::ThreeWay { one_sided: OneSided::Leave }),
            &rows,
            &facts,
            &mut no_untracked(),
        );
        decided.edits.iter().flat_map(|edit| &edit.entries).map(|entry| entry.stage).collect()
    };
    use Stage::{Base, Normal, Ours, Theirs};
    assert_eq!(stages(vec![side(1), side(2), side(3)]), [Base, Ours, Theirs], "11");
    assert_eq!(stages(vec![side(0), side(2), side(3)]), [Ours, Theirs], "4");
    assert_eq!(stages(vec![side(1), side(0), side(2)]), [Base, Theirs], "7");
    assert_eq!(stages(vec![side(1), side(0), side(0)]), [Base], "6");
    assert_eq!(stages(vec![side(1), side(2), side(1)]), [Normal], "13");
    assert_eq!(stages(vec![side(1), side(1), side(2)]), [Normal], "14");
    assert_eq!(stages(vec![side(0), side(0), side(2)]), [Normal], "2ALT");
    assert_eq!(stages(vec![side(1), side(2), side(1), side(2)]), [Ours, Theirs], "16");
    assert_eq!(stages(vec![side(1), side(3), side(2), side(4)]), [Base, Ours, Theirs], "11, two bases");
    assert!(cases::THREE_WAY.iter().any(|case| case.name == "1"));
}
