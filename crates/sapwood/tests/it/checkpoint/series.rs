//! The series of worktrees: no worktree sees the entries of another one.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::PathBuf};

use sapwood::{Silent, checkpoint::list};
use testkit::{Repo, Sandbox};

use super::{checkpoint, committed, undo};
use crate::open;

fn count(repo: &Repo<'_>) -> usize {
    let plan = list::plan(&open(repo), list::Request::default()).expect("a plan");
    plan.run(&Silent).expect("a list").entries.len()
}

fn add<'s>(sandbox: &'s Sandbox, repo: &Repo<'_>, name: &str) -> Repo<'s> {
    repo.git(&["worktree", "add", "-q", "--detach", &format!("../{name}")]);
    sandbox.repo(name)
}

/// The name of the first entry, without its number.
fn series_of(repo: &Repo<'_>) -> String {
    let name = checkpoint(repo, "").name.to_string();
    let name = name.strip_prefix("refs/sapwood/checkpoints/").expect("a prefix");
    name.rsplit_once('/').expect("a number").0.to_owned()
}

/// Three generations of a name, one with a name like that of the second generation, and one whose
/// entries are gone.
#[test]
fn names_that_are_used_again_are_not_mixed() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let linked = add(&sandbox, &repo, "linked");
    assert_eq!(series_of(&linked), "worktrees/linked");
    repo.git(&["worktree", "remove", "-f", "../linked"]);
    let linked = add(&sandbox, &repo, "linked");
    assert_eq!(series_of(&linked), "worktrees/linked-2");
    // The worktree goes on to have this series without an entry.
    repo.git(&["update-ref", "-d", "refs/sapwood/checkpoints/worktrees/linked-2/1"]);
    let other = add(&sandbox, &repo, "linked-2");
    assert_eq!(series_of(&other), "worktrees/linked-2-2");
    assert_eq!(series_of(&linked), "worktrees/linked-2");
    assert_eq!((count(&linked), count(&other)), (1, 1));
    repo.git(&["worktree", "remove", "-f", "../linked"]);
    let linked = add(&sandbox, &repo, "linked");
    assert_eq!(count(&linked), 0);
    assert_eq!(series_of(&linked), "worktrees/linked-3");
}

#[test]
fn a_moved_worktree_keeps_its_entries() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let linked = add(&sandbox, &repo, "linked");
    linked.write("a", "then\n");
    assert_eq!(series_of(&linked), "worktrees/linked");
    linked.write("a", "now\n");
    repo.git(&["worktree", "move", "../linked", "../moved"]);
    // Another one takes its place.
    let other = add(&sandbox, &repo, "linked");
    assert_eq!(count(&other), 0);
    assert_eq!(series_of(&other), "worktrees/linked1");
    let moved = sandbox.repo("moved");
    undo(&moved);
    assert_eq!(moved.read("a"), "then\n");
    // The whole repository moves.
    checkpoint(&repo, "");
    fs::rename(repo.join(""), repo.join("../elsewhere")).expect("moved");
    let repo = sandbox.repo("elsewhere");
    repo.git(&["worktree", "repair", "../moved", "../linked"]);
    assert_eq!((count(&repo), count(&moved), count(&other)), (1, 3, 1));
}

/// Spaces, bytes that are no UTF-8, names of refs and locks.
#[test]
fn odd_names_have_series_of_their_own() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let names: [&[u8]; 9] =
        [b"a b", b"a-b", b"b\xff", b"b\xfe", b"main", b"x.lock", b"..d", b"\xc3\xa4", b"q\"'$(x)"];
    let mut places = Vec::new();
    for name in names {
        let dir = PathBuf::from(OsStr::from_bytes(&[b"../".as_slice(), name].concat()));
        let mut command = repo.git_command();
        command.args(["worktree", "add", "-q", "--detach"]).arg(&dir);
        assert!(command.status().expect("Git runs").success(), "{dir:?}");
        let mut place = sandbox.repo("");
        place.path = place.path.join(OsStr::from_bytes(name));
        places.push(place);
    }
    checkpoint(&repo, "");
    for (number, place) in places.iter().enumerate() {
        assert_eq!(count(place), 0, "{:?}", place.path);
        place.write("a", format!("{number}\n"));
        for entry in 1..=2 {
            assert_eq!(checkpoint(place, "").number, entry, "{:?}", place.path);
        }
        place.write("a", "later\n");
    }
    for (number, place) in places.iter().enumerate() {
        assert_eq!(count(place), 2, "{:?}", place.path);
        undo(place);
        assert_eq!(place.read("a"), format!("{number}\n"));
    }
    assert_eq!(count(&repo), 1);
}

/// The linked worktrees of a bare repository, and one that the command line gives it.
#[test]
fn worktrees_of_a_bare_repository() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.git(&["clone", "-q", "--bare", ".", "../bare"]);
    let bare = sandbox.repo("bare");
    let (one, main) = (add(&sandbox, &bare, "one"), add(&sandbox, &bare, "main"));
    one.write("a", "one\n");
    main.write("a", "main\n");
    assert_eq!((series_of(&one), series_of(&main)), ("worktrees/one".into(), "worktrees/main".into()));
    let refused = super::checkpoint::plan(&open(&bare), Default::default()).map(drop);
    assert_eq!(refused.expect_err("no worktree").to_string(), "this operation must be run in a work tree");
    for place in [&one, &main] {
        place.write("a", "later\n");
        undo(place);
    }
    assert_eq!((one.read("a"), main.read("a")), ("one\n".into(), "main\n".into()));
    assert_eq!(bare.git(&["for-each-ref", "refs/sapwood/checkpoints/main"]).stdout, "");
}

/// A Git directory that was copied with the file that names its series.
#[test]
fn a_copied_worktree_begins_its_own_series() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let one = add(&sandbox, &repo, "one");
    assert_eq!(series_of(&one), "worktrees/one");
    let two = add(&sandbox, &repo, "two");
    fs::copy(
        repo.join(".git/worktrees/one/sapwood-checkpoints"),
        repo.join(".git/worktrees/two/sapwood-checkpoints"),
    )
    .expect("copied");
    assert_eq!(count(&two), 0);
    assert_eq!(series_of(&two), "worktrees/two");
    assert_eq!(count(&one), 1);
}

/// Worktrees whose names lead to one series, at once.
#[test]
fn first_entries_at_once_are_not_mixed() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let names = ["w", "w-2", "w-3", "w-2-2"];
    for name in names {
        add(&sandbox, &repo, name);
        series_of(&sandbox.repo(name));
        repo.git(&["worktree", "remove", "-f", &format!("../{name}")]);
        add(&sandbox, &repo, name);
    }
    let places: Vec<Repo<'_>> = names.iter().map(|name| sandbox.repo(name)).collect();
    let found: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = places.iter().map(|place| scope.spawn(|| series_of(place))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let different: std::collections::BTreeSet<&String> = found.iter().collect();
    assert_eq!(different.len(), names.len(), "{found:?}");
    assert!(places.iter().all(|place| count(place) == 1));
    // A killed process has left its lock.
    let late = add(&sandbox, &repo, "late");
    repo.write(".git/worktrees/late/sapwood-checkpoints.lock", "");
    assert_eq!(series_of(&late), "worktrees/late");
}
