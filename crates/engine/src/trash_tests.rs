#![allow(clippy::disallowed_methods)]

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;

static NOT_RAISED: AtomicBool = AtomicBool::new(false);

struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture(tempfile::tempdir().expect("a directory for tests"));
        fs::create_dir(fixture.path("git")).expect("made");
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn root(&self) -> DirMut {
        own::open(self.0.path()).expect("opens")
    }

    fn doomed(&self, name: &str) -> Doomed {
        Doomed::own(&self.path(name)).expect("opens")
    }

    /// Creates `files` files at `name/d<i>/e/f<j>`, and a link to `kept` in each directory.
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
        Trash::new(&self.path("git"), SharedRepository::Umask, 2, &NOT_RAISED)
    }

    fn kept_is_intact(&self) -> bool {
        fs::read(self.path("kept/file")).is_ok_and(|content| content == b"precious")
    }
}

#[test]
fn discards_a_large_tree_and_deletes_a_small_one() {
    let fixture = Fixture::new();
    fixture.tree("much", 600);
    fixture.tree("little", 20);
    let mut trash = fixture.trash();
    assert_eq!(trash.discard(&fixture.doomed("little")).expect("removed"), Removed::Deleted);
    assert!(!trash.is_used() && !fixture.path("git/sapwood").exists());
    assert_eq!(trash.discard(&fixture.doomed("absent")).expect("not there"), Removed::Deleted);
    let gone = trash.discard(&fixture.doomed("much")).expect("removed");
    assert!(!fixture.path("much").exists() && !fixture.path("little").exists());
    // A file system without information about mount points has no trash.
    let reports_mounts =
        fixture.root().removal_facts_of_self().expect("there").protection == Protection::Unprotected;
    assert_eq!(gone, if reports_mounts { Removed::Discarded } else { Removed::Deleted });
    assert_eq!((trash.is_used(), is_waiting(&fixture.path("git"))), (reports_mounts, reports_mounts));
    empty(&fixture.path("git"), 2, &NOT_RAISED).expect("emptied");
    assert!(!fixture.path("git/sapwood").exists() && !is_waiting(&fixture.path("git")));
    assert!(fixture.kept_is_intact());
    empty(&fixture.path("git"), 2, &NOT_RAISED).expect("there is nothing to do");
}

#[test]
fn a_running_emptier_also_deletes_later_discards() {
    let fixture = Fixture::new();
    fixture.tree("much", 600);
    let held = fixture.path("git/sapwood/trash");
    fs::create_dir_all(&held).expect("made");
    fs::write(fixture.path("git/sapwood/other"), "stays").expect("written");
    let lock = fs::File::open(&held).expect("opens");
    lock.try_lock().expect("locked");
    fixture.trash().discard(&fixture.doomed("much")).expect("removed");
    assert!(!is_waiting(&fixture.path("git")));
    empty(&fixture.path("git"), 1, &NOT_RAISED).expect("another process is emptying it");
    assert!(held.exists());
    // A process that another test starts meanwhile has a copy of the descriptor until it executes
    // its program. So closing the file here would not release the lock.
    lock.unlock().expect("released");
    empty(&fixture.path("git"), 1, &NOT_RAISED).expect("emptied");
    assert!(!held.exists() && fixture.path("git/sapwood/other").exists());
}

#[test]
fn deletes_at_once_if_no_trash_can_be_created() {
    let fixture = Fixture::new();
    fixture.tree("much", 600);
    fs::write(fixture.path("git/sapwood"), "in the way").expect("written");
    assert_eq!(fixture.trash().discard(&fixture.doomed("much")).expect("removed"), Removed::Deleted);
    assert!(!fixture.path("much").exists() && fixture.kept_is_intact());
}

#[test]
fn removes_a_link_and_not_its_target() {
    let fixture = Fixture::new();
    fixture.tree("unused", 1);
    std::os::unix::fs::symlink("kept", fixture.path("link")).expect("made");
    fs::write(fixture.path("file"), "x").expect("written");
    for name in ["link", "file"] {
        assert_eq!(fixture.trash().discard(&fixture.doomed(name)).expect("removed"), Removed::Deleted);
        assert!(!fixture.path(name).exists());
    }
    assert!(fixture.kept_is_intact());
}

#[test]
fn reports_undeletable_files_and_never_discards_them() {
    if sys::user::effective_uid() == 0 {
        // Permissions do not restrict root.
        return;
    }
    let fixture = Fixture::new();
    fixture.tree("much", 600);
    let protected = fixture.path("much/d3/e");
    fs::set_permissions(&protected, fs::Permissions::from_mode(0o555)).expect("set");
    let Err(Error::Unremovable(stuck)) = fixture.trash().discard(&fixture.doomed("much")) else {
        panic!("it cannot be removed");
    };
    assert_eq!(stuck.len(), 11, "ten files and a link");
    assert!(stuck.iter().all(|stuck| stuck.path.starts_with(b"much/d3/e/")));
    assert!(stuck.iter().all(|stuck| stuck.source.kind() == ErrorKind::PermissionDenied));
    assert_eq!(fs::read_dir(fixture.path("much")).expect("there").count(), 1, "the rest is gone");
    fs::set_permissions(&protected, fs::Permissions::from_mode(0o755)).expect("set");
    assert!(fixture.kept_is_intact());
}

#[test]
fn removes_an_unreadable_directory_if_it_is_empty() {
    if sys::user::effective_uid() == 0 {
        return;
    }
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("top/empty")).expect("made");
    fs::create_dir_all(fixture.path("top/full/x")).expect("made");
    for name in ["top/empty", "top/full"] {
        fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(0o000)).expect("set");
    }
    let Err(Error::Unremovable(stuck)) = remove(&fixture.doomed("top"), 1, &NOT_RAISED) else {
        panic!("it cannot be removed");
    };
    let paths: Vec<_> = stuck.iter().map(|stuck| stuck.path.to_string()).collect();
    assert_eq!(paths, ["top/full"]);
    assert_eq!(stuck[0].source.kind(), ErrorKind::DirectoryNotEmpty);
    fs::set_permissions(fixture.path("top/full"), fs::Permissions::from_mode(0o755)).expect("set");
}

#[test]
fn stops_at_an_interrupt() {
    let fixture = Fixture::new();
    fixture.tree("much", 600);
    let raised = AtomicBool::new(true);
    let ended = remove(&fixture.doomed("much"), 1, &raised);
    assert!(matches!(ended, Err(Error::Interrupted)) && fixture.path("much").exists());
}
