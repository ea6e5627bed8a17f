#![allow(clippy::disallowed_methods)]

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;

static GO_ON: AtomicBool = AtomicBool::new(false);

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a directory for tests"));
        fs::create_dir(place.path("git")).expect("made");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn root(&self) -> Dir {
        Dir::open(self.0.path()).expect("opens")
    }

    /// `name/d<i>/f<j>` of so many files in all, and a link to `kept` in each directory.
    fn tree(&self, name: &str, files: usize) {
        fs::create_dir_all(self.path("kept")).expect("made");
        fs::write(self.path("kept/file"), "precious").expect("written");
        for number in 0..files {
            let dir = self.path(name).join(format!("d{}/e", number / 10));
            fs::create_dir_all(&dir).expect("made");
            fs::write(dir.join(format!("f{number}")), "x").expect("written");
            let _ = std::os::unix::fs::symlink(self.path("kept"), dir.join("link"));
        }
    }

    fn trash(&self) -> Trash<'static> {
        Trash::new(&self.path("git"), SharedRepository::Umask, 2, &GO_ON)
    }

    fn kept(&self) -> bool {
        fs::read(self.path("kept/file")).is_ok_and(|content| content == b"precious")
    }
}

#[test]
fn much_goes_into_the_trash_and_little_goes_at_once() {
    let place = Place::new();
    place.tree("much", 600);
    place.tree("little", 20);
    let mut trash = place.trash();
    assert_eq!(trash.discard(&place.root(), "little".into()).expect("removed"), Gone::Deleted);
    assert!(!trash.is_used() && !place.path("git/sapwood").exists());
    assert_eq!(trash.discard(&place.root(), "absent".into()).expect("not there"), Gone::Deleted);
    let gone = trash.discard(&place.root(), "much".into()).expect("removed");
    assert!(!place.path("much").exists() && !place.path("little").exists());
    // A file system that does not tell what is mounted has no trash.
    let tells = place.root().tenure_self().expect("there").hold == Hold::Free;
    assert_eq!(gone, if tells { Gone::Discarded } else { Gone::Deleted });
    assert_eq!((trash.is_used(), is_waiting(&place.path("git"))), (tells, tells));
    empty(&place.path("git"), 2, &GO_ON).expect("emptied");
    assert!(!place.path("git/sapwood").exists() && !is_waiting(&place.path("git")));
    assert!(place.kept());
    empty(&place.path("git"), 2, &GO_ON).expect("there is nothing to do");
}

#[test]
fn what_is_discarded_while_the_trash_is_emptied_waits_for_nobody_else() {
    let place = Place::new();
    place.tree("much", 600);
    let held = place.path("git/sapwood/trash");
    fs::create_dir_all(&held).expect("made");
    fs::write(place.path("git/sapwood/other"), "stays").expect("written");
    let lock = by_path::open(&held).expect("opens");
    assert!(sys::try_lock(&lock).expect("locked"));
    place.trash().discard(&place.root(), "much".into()).expect("removed");
    assert!(!is_waiting(&place.path("git")));
    empty(&place.path("git"), 1, &GO_ON).expect("somebody else is at it");
    assert!(held.exists());
    drop(lock);
    empty(&place.path("git"), 1, &GO_ON).expect("emptied");
    assert!(!held.exists() && place.path("git/sapwood/other").exists());
}

#[test]
fn without_a_trash_it_is_deleted() {
    let place = Place::new();
    place.tree("much", 600);
    fs::write(place.path("git/sapwood"), "in the way").expect("written");
    assert_eq!(place.trash().discard(&place.root(), "much".into()).expect("removed"), Gone::Deleted);
    assert!(!place.path("much").exists() && place.kept());
}

#[test]
fn files_and_links_are_removed_themselves() {
    let place = Place::new();
    place.tree("unused", 1);
    std::os::unix::fs::symlink("kept", place.path("link")).expect("made");
    fs::write(place.path("file"), "x").expect("written");
    for name in ["link", "file"] {
        assert_eq!(place.trash().discard(&place.root(), name.into()).expect("removed"), Gone::Deleted);
        assert!(!place.path(name).exists());
    }
    assert!(place.kept());
}

#[test]
fn what_is_stuck_is_told_and_never_in_the_trash() {
    if sys::user::effective_uid() == 0 {
        // Root may write anywhere.
        return;
    }
    let place = Place::new();
    place.tree("much", 600);
    let protected = place.path("much/d3/e");
    fs::set_permissions(&protected, fs::Permissions::from_mode(0o555)).expect("set");
    let Err(Error::Stuck(stuck)) = place.trash().discard(&place.root(), "much".into()) else {
        panic!("it cannot be removed");
    };
    assert_eq!(stuck.len(), 11, "ten files and a link");
    assert!(stuck.iter().all(|stuck| stuck.path.starts_with(b"much/d3/e/")));
    assert!(stuck.iter().all(|stuck| stuck.source.kind() == ErrorKind::PermissionDenied));
    assert_eq!(fs::read_dir(place.path("much")).expect("there").count(), 1, "the rest is gone");
    fs::set_permissions(&protected, fs::Permissions::from_mode(0o755)).expect("set");
    assert!(place.kept());
}

#[test]
fn an_unreadable_directory_goes_if_it_is_empty() {
    if sys::user::effective_uid() == 0 {
        return;
    }
    let place = Place::new();
    fs::create_dir_all(place.path("top/empty")).expect("made");
    fs::create_dir_all(place.path("top/full/x")).expect("made");
    for name in ["top/empty", "top/full"] {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o000)).expect("set");
    }
    let Err(Error::Stuck(stuck)) = remove(&place.root(), "top".into(), 1, &GO_ON) else {
        panic!("it cannot be removed");
    };
    let paths: Vec<_> = stuck.iter().map(|stuck| stuck.path.to_string()).collect();
    assert_eq!(paths, ["top/full"]);
    assert_eq!(stuck[0].source.kind(), ErrorKind::DirectoryNotEmpty);
    fs::set_permissions(place.path("top/full"), fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn an_interrupt_stops() {
    let place = Place::new();
    place.tree("much", 600);
    let raised = AtomicBool::new(true);
    let ended = remove(&place.root(), "much".into(), 1, &raised);
    assert!(matches!(ended, Err(Error::Interrupted)) && place.path("much").exists());
}
