use std::fs;

use super::*;
use crate::clone::marker::{mark, unmark};

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("it is in a directory")).expect("made");
    fs::write(path, content).expect("written");
}

fn repository(git_dir: &Path, head: &str, url: &str) {
    fs::create_dir_all(git_dir.join("refs/heads")).expect("made");
    write(&git_dir.join("HEAD"), head);
    write(&git_dir.join(MARKER), &format!("{}\n{url}\n", std::process::id()));
}

const OBJECTS: Point = Point::Objects { assemblies: Vec::new() };

fn found(place: &Path) -> Option<Point> {
    let since = std::time::Instant::now();
    loop {
        match Point::find(place, &place.join(".git"), "/source".into(), LastRef::Branch) {
            // Another test may fork meanwhile, and its child holds the released lock until it
            // runs another program.
            Err(Error::Running { .. }) if since.elapsed().as_secs() < 60 => std::thread::yield_now(),
            answer => return answer.expect("nothing runs"),
        }
    }
}

#[test]
fn resumes_only_unfinished_clones_of_the_same_source() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let place = root.path();
    let git_dir = place.join(".git");
    repository(&git_dir, &format!("ref: {UNFINISHED}\n"), "/source");
    assert_eq!(found(place), Some(OBJECTS));
    fs::write(place.join("file"), "the user's").expect("written");
    assert_eq!(found(place), None, "a stranger's file");

    fs::write(git_dir.join("HEAD"), "ref: refs/heads/main\n").expect("written");
    assert_eq!(found(place), None, "the branch is not there yet");
    fs::write(git_dir.join("refs/heads/main"), "x").expect("written");
    assert_eq!(found(place), Some(Point::Worktree));

    repository(&git_dir, "ref: refs/heads/main\n", "/other");
    assert_eq!(found(place), None, "of another source");
    unmark(&git_dir).expect("removed");
    assert_eq!(found(place), None, "a finished repository");

    let elsewhere = place.join("elsewhere");
    fs::rename(&git_dir, &elsewhere).expect("moved");
    repository(&elsewhere, "ref: refs/heads/main\n", "/source");
    std::os::unix::fs::symlink("elsewhere", &git_dir).expect("linked");
    assert_eq!(found(place), None, "a link to one");
}

#[test]
fn recognises_a_running_clone_by_its_lock() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let place = root.path();
    let git_dir = place.join(".git");
    fs::create_dir(&git_dir).expect("made");
    let claim = mark(&git_dir, "/source".into(), Extent::default()).expect("marked");
    write(&git_dir.join("HEAD"), "0123\n");
    let running = || Point::find(place, &git_dir, "/source".into(), LastRef::Branch);
    let id = std::process::id().to_string();
    assert!(matches!(running(), Err(Error::Running { process, .. }) if process == id));
    drop(claim);
    assert_eq!(found(place), Some(Point::Worktree), "this process lives, but does not clone");
    let claim = Point::Worktree.enter(&git_dir, Keeping::Large, Extent::default()).expect("entered");
    assert!(matches!(running(), Err(Error::Running { .. })), "two cannot go on with it");
    drop(claim);

    let assembly = place.join(".clone-1");
    fs::rename(&git_dir, &assembly).expect("moved");
    assert_eq!(found(place), Some(Point::Skeleton { assemblies: vec![assembly] }), "process 1 lives");
}

#[test]
fn recognises_and_removes_abandoned_assemblies() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let place = root.path();
    let assembly = place.join(".clone-1");
    let point = Point::Skeleton { assemblies: vec![assembly.clone()] };
    fs::create_dir(&assembly).expect("made");
    assert_eq!(found(place), Some(point.clone()), "not marked yet");
    write(&assembly.join(MARKER), "");
    assert_eq!(found(place), Some(point.clone()), "the marker is not written yet");
    write(&assembly.join("notes"), "the user's");
    assert_eq!(found(place), None, "somebody else's");
    fs::remove_file(assembly.join(MARKER)).expect("removed");
    assert_eq!(found(place), None, "somebody else's, without a marker");
    fs::remove_file(assembly.join("notes")).expect("removed");
    point.enter(&place.join(".git"), Keeping::Large, Extent::default()).expect("removed");
    assert_eq!(fs::read_dir(place).expect("listed").count(), 0);
}

#[test]
fn recognises_a_half_removed_clone() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let place = root.path();
    let git_dir = place.join(".git");
    repository(&git_dir, "ref: refs/heads/main\n", "/source");
    write(&git_dir.join("refs/heads/main"), "x");
    fs::remove_file(git_dir.join("HEAD")).expect("removed");
    assert_eq!(found(place), Some(OBJECTS), "HEAD is gone");
    fs::remove_dir_all(git_dir.join("refs")).expect("removed");
    assert_eq!(found(place), Some(OBJECTS), "only the marker is left");
    unmark(&git_dir).expect("removed");
    assert_eq!(found(place), Some(Point::NEW), "empty");
    write(&git_dir.join("config"), "");
    assert_eq!(found(place), None, "somebody's repository");
}

/// A bare clone into an existing directory is moved in entry by entry.
#[test]
fn recognises_a_half_moved_bare_clone() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let place = root.path();
    let bare = || Point::find(place, place, "/source".into(), LastRef::Head).expect("nothing runs");
    let assembly = place.join(".clone-1");
    repository(&assembly, &format!("ref: {UNFINISHED}\n"), "/source");
    assert_eq!(bare(), Some(Point::Skeleton { assemblies: vec![assembly.clone()] }));
    fs::rename(assembly.join(MARKER), place.join(MARKER)).expect("moved");
    assert_eq!(bare(), Some(OBJECTS));
    fs::rename(assembly.join("refs"), place.join("refs")).expect("moved");
    assert_eq!(bare(), Some(OBJECTS));
}

/// A bare repository for workspaces gets its branch after HEAD, unlike other bare ones.
#[test]
fn a_bare_clone_with_tracking_branches_ends_with_its_branch() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let place = root.path();
    repository(place, "ref: refs/heads/main\n", "/source");
    let look = |last| Point::find(place, place, "/source".into(), last).expect("nothing runs");
    assert_eq!(look(LastRef::Head), Some(Point::Worktree));
    assert_eq!(look(LastRef::Branch), Some(OBJECTS));
    write(&place.join("refs/heads/main"), "x");
    assert_eq!(look(LastRef::Branch), Some(Point::Worktree));
}

/// The packs of an unfinished clone stay if they are large, took long, or the user says so.
#[test]
fn sets_packs_aside_that_are_worth_it() {
    let seconds_ago = |seconds| std::time::SystemTime::now() - std::time::Duration::from_secs(seconds);
    for (size, took, keeping, stays) in [
        (1000, 0, Keeping::Large, false),
        (9 << 20, 0, Keeping::Large, true),
        (1000, 11, Keeping::Large, true),
        (1000, 0, Keeping::All, true),
        (12, 11, Keeping::All, false),
        (9 << 20, 11, Keeping::Nothing, false),
    ] {
        let root = tempfile::tempdir().expect("a directory for tests");
        let git_dir = root.path().join(".git");
        repository(&git_dir, &format!("ref: {UNFINISHED}\n"), "/source");
        let marker = fs::File::options().write(true).open(git_dir.join(MARKER)).expect("there");
        marker.set_modified(seconds_ago(took)).expect("ours");
        write(&git_dir.join("objects/pack/tmp_pack_1"), "");
        let pack = fs::File::options().write(true).open(git_dir.join("objects/pack/tmp_pack_1"));
        pack.and_then(|pack| pack.set_len(size)).expect("ours");
        let point = found(root.path()).expect("a killed clone");
        assert_eq!(point, OBJECTS);
        let entered = point.enter(&git_dir, keeping, Extent::default()).expect("entered");
        assert_eq!(matches!(entered, Entered::Objects(_)), stays, "{size} {took} {keeping:?}");
        drop(entered);
        if stays {
            let mut left: Vec<_> = fs::read_dir(&git_dir)
                .expect("it stays")
                .map(|entry| entry.expect("readable").file_name())
                .collect();
            left.sort();
            assert_eq!(left, [MARKER, TRANSFER]);
            assert!(git_dir.join(TRANSFER).join("pack/tmp_pack_1").exists());
            // The next run finds them however small they are.
            assert_eq!(found(root.path()), Some(OBJECTS));
            let entered = point.enter(&git_dir, Keeping::Large, Extent::default()).expect("entered");
            assert!(matches!(entered, Entered::Objects(_)));
            drop(entered);
            // Another part of the source was asked for.
            let point = found(root.path()).expect("a killed clone");
            let shallow = Extent { is_shallow: true, ..Extent::default() };
            let entered = point.enter(&git_dir, Keeping::All, shallow).expect("entered");
            assert!(matches!(entered, Entered::Skeleton) && !git_dir.exists());
        } else {
            assert!(!git_dir.exists());
        }
    }
}
