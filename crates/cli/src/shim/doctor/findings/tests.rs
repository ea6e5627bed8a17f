use super::*;
use crate::shim::doctor::{facts::Worktrees, programs::RealGit};

fn index(entries: usize, directories: usize, size: u64) -> Facts {
    let index = IndexFacts { entries, directories, size, version: 2, ..IndexFacts::default() };
    let sample = Sample { files: 64, stat: Duration::from_micros(12), read: None, touched: 0 };
    Facts { index: IndexState::Read(index), sample: Some(sample), ..Facts::default() }
}

fn ids(facts: &Facts, programs: &Programs) -> Vec<&'static str> {
    find(facts, programs).iter().map(|finding| finding.id).collect()
}

#[test]
fn a_small_repository_gets_no_advice() {
    assert!(find(&Facts::default(), &Programs::default()).is_empty());
    let facts = Facts {
        objects: ObjectFacts { packs: 3, packed: 5_000, loose: 600, ..ObjectFacts::default() },
        worktrees: Worktrees { linked: 3, stale: 1 },
        ..index(900, 100, 90_000)
    };
    assert!(find(&facts, &Programs::default()).is_empty());
}

#[test]
fn a_monitor_is_named_where_git_has_one_and_the_pass_is_long() {
    let git = |has_daemon| RealGit { path: "git".into(), version: None, has_daemon };
    let programs = |has_daemon| Programs { real: Some(git(has_daemon)), ..Programs::default() };
    let facts = index(86_691, 100, 0);
    let found = find(&facts, &programs(true));
    assert_eq!(found[0].message, "no file system monitor: each status examines 86,691 files, about 1.0 s");
    assert_eq!(found[0].mend.as_deref(), Some("git config core.fsmonitor true"));
    assert!(ids(&facts, &programs(false)).is_empty());
    assert!(ids(&index(1_000, 100, 0), &programs(true)).is_empty());
    let facts = Facts { monitor: MonitorState::Daemon { is_running: false }, ..index(86_691, 100, 0) };
    assert!(ids(&facts, &programs(true)).is_empty());
    let disk = sys::FileSystem { name: Some("nfs4".to_owned()), is_local: false };
    let facts = Facts { disk: Some(disk), ..index(86_691, 100, 0) };
    assert_eq!(ids(&facts, &programs(true)), ["untracked-cache-off"]);
}

#[test]
fn objects() {
    let objects = |packs, indexed_packs, loose, packed| Facts {
        objects: ObjectFacts { packs, indexed_packs, loose, packed, ..ObjectFacts::default() },
        ..Facts::default()
    };
    let found = |facts| ids(&facts, &Programs::default());
    assert_eq!(
        found(objects(60, None, 9_000, 30_000)),
        ["multi-pack-index", "loose-objects", "commit-graph"]
    );
    assert_eq!(found(objects(60, Some(55), 0, 0)), [""; 0]);
    assert_eq!(found(objects(60, Some(50), 0, 0)), ["multi-pack-index"]);
    assert_eq!(found(objects(60, Some(usize::MAX), 0, 0)), [""; 0]);
}

#[test]
fn paths_are_words_of_a_shell() {
    assert_eq!(quoted(Path::new("/a/b-c.lock")), "/a/b-c.lock");
    assert_eq!(quoted(Path::new("/my repo/it's")), "'/my repo/it'\\''s'");
}
