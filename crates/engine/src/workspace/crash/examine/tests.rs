#![allow(clippy::disallowed_methods, clippy::print_stderr)]

use std::{fs, os::unix::fs::PermissionsExt as _};

use format::{HashKind, ObjectId};
use sys::xattr;

use super::*;
use crate::workspace::{
    base::{Base, Kind as BaseKind},
    record::Durability,
    upper::{Form, Time, current_token},
};

/// The layers of a workspace, made by hand.
struct Place {
    root: tempfile::TempDir,
    layers: Layers,
    layer: Layer,
}

impl Place {
    /// Returns `None` on a file system without the attributes of a user.
    fn new() -> Option<Place> {
        let root = tempfile::tempdir().expect("a directory for tests");
        let at = |name: &str| root.path().join(name);
        for dir in ["base/files", "upper", "work", "top", "state"] {
            fs::create_dir_all(at(dir)).expect("made");
        }
        let base = Base {
            dir: at("base"),
            name: "base".to_owned(),
            kind: BaseKind::Directory,
            tree: ObjectId::null(HashKind::Sha1),
            shared_index: ObjectId::null(HashKind::Sha1),
            devices: Vec::new(),
            contents: None,
            owner: None,
            view: None,
            pending: None,
            parent: None,
        };
        let site = Site {
            upper: at("upper"),
            work: at("work"),
            top: at("top"),
            state: at("state"),
            git: None,
            door: Default::default(),
        };
        let layers = Layers { base, frozen: Vec::new(), site, durability: Durability::Volatile };
        let layer = super::super::layer(&layers, Form::User);
        let place = Place { root, layers, layer };
        place.upper("probe", b"");
        if xattr::set(&place.layers.site.upper.join("probe"), ORIGIN, b"").is_err() {
            eprintln!("no user attributes on {}", place.root.path().display());
            return None;
        }
        fs::remove_file(place.layers.site.upper.join("probe")).expect("removed");
        Some(place)
    }

    fn write(dir: &Path, path: &str, content: &[u8]) -> PathBuf {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }

    fn base(&self, path: &str, content: &[u8]) {
        Place::write(&self.layers.base.files(), path, content);
    }

    fn upper(&self, path: &str, content: &[u8]) -> PathBuf {
        Place::write(&self.layers.site.upper, path, content)
    }

    /// Writes a file of the upper layer that was copied up from `origin`.
    fn copied(&self, path: &str, origin: &str, content: &[u8]) {
        let dir = sys::Dir::open(&self.layers.base.files()).expect("opened");
        let mut value = Vec::new();
        if let Some(handle) = dir.handle(origin.as_bytes()).expect("asked") {
            let length = u8::try_from(21 + handle.bytes.len()).expect("short");
            let kind = u8::try_from(handle.kind).expect("a byte");
            value = [&[0, 0xfb, length, 0, kind][..], &[0; 16], &handle.bytes].concat();
        }
        xattr::set(&self.upper(path, content), ORIGIN, &value).expect("set");
    }

    fn examined(&self, since: Option<Moment>) -> Vec<(String, Damage)> {
        let plan = plan(&self.layers, &self.layer, since).expect("examined");
        plan.carry_out().expect("repaired");
        plan.findings().iter().map(|found| (found.path.to_string(), found.damage)).collect()
    }

    /// Returns the content that the workspace shows: that of the upper layer, else that of the
    /// base.
    fn shown(&self, path: &str) -> Vec<u8> {
        let dirs = [self.layers.site.upper.clone(), self.layers.base.files()];
        dirs.iter().find_map(|dir| fs::read(dir.join(path)).ok()).expect("in a layer")
    }
}

const ORIGIN: &std::ffi::CStr = c"user.overlay.origin";
const CONTENT: [u8; 8192] = [b'c'; 8192];

#[test]
fn a_file_that_was_not_copied_up_is_the_users() {
    let Some(place) = Place::new() else { return };
    place.base("replaced", &CONTENT);
    place.upper("replaced", b"");
    place.upper("new", b"");
    assert_eq!(place.examined(None), []);
    place.copied("replaced", "replaced", b"");
    assert_eq!(place.examined(None), [("replaced".to_owned(), Damage::Restored)]);
    assert_eq!(place.examined(None), []);
}

#[test]
fn what_changed_before_the_last_sync_is_the_users() {
    let Some(place) = Place::new() else { return };
    place.base("file", &CONTENT);
    place.copied("file", "file", b"");
    let changed =
        by_path::stat(&place.layers.site.upper.join("file")).expect("examined").expect("there").ctime;
    assert_eq!(place.examined(Some((changed.0 + 1, 0))), []);
    assert_eq!(place.shown("file"), b"");
    assert_eq!(place.examined(Some(changed)), [("file".to_owned(), Damage::Restored)]);
    assert_eq!(place.shown("file"), CONTENT);
}

#[test]
fn a_list_of_the_monitor_shows_that_the_user_shortened_a_file() {
    let Some(place) = Place::new() else { return };
    for name in ["emptied", "cut", "torn"] {
        place.base(name, &CONTENT);
    }
    place.copied("emptied", "emptied", b"");
    place.copied("cut", "cut", &CONTENT[..4096]);
    // A change within a tick of the clock may keep the time.
    std::thread::sleep(Duration::from_millis(60));
    current_token(&place.layer, &mut Everything).expect("stored");
    place.copied("torn", "torn", b"");
    assert_eq!(place.examined(None), [("torn".to_owned(), Damage::Restored)]);
    assert_eq!((place.shown("emptied").len(), place.shown("cut").len()), (0, 4096));
}

#[test]
fn an_old_change_is_on_the_disk() {
    let line = |seconds: i64| Line {
        path: "file".into(),
        kind: Kind::File,
        ino: 1,
        mode: 0o100_644,
        size: 0,
        ctime: (seconds, 0),
        time: Time::Settled,
    };
    let evidence = Evidence { newest: (10_000, 0), lists: Vec::new() };
    assert!(evidence.is_recent(&line(10_000)) && evidence.is_recent(&line(9_500)));
    assert!(!evidence.is_recent(&line(9_000)));
    assert!(!evidence.shows(&line(10_000)));
}

#[test]
fn a_renamed_file_gets_its_own_content_back() {
    let Some(place) = Place::new() else { return };
    place.base("dir/one", &CONTENT);
    place.base("two", &[b't'; 4096]);
    place.copied("two", "dir/one", b"");
    place.copied("sub/three", "two", b"");
    let handles = sys::Dir::open(&place.layers.base.files()).expect("opened").handle(b"two").expect("asked");
    if handles.is_none() {
        eprintln!("no handles on {}", place.root.path().display());
        return;
    }
    let mut found = place.examined(None);
    found.sort_by(|one, two| one.0.cmp(&two.0));
    let restored = |path: &str| (path.to_owned(), Damage::Restored);
    assert_eq!(found, [restored("sub/three"), restored("two")]);
    assert_eq!(place.shown("two"), CONTENT);
    assert_eq!(place.shown("sub/three"), [b't'; 4096]);
}

#[test]
fn a_file_keeps_its_mode_and_its_place_below_a_replaced_directory() {
    let Some(place) = Place::new() else { return };
    for path in ["mode", "new/file", "kept/file"] {
        place.base(path, &CONTENT);
        place.copied(path, path, b"");
    }
    let upper = &place.layers.site.upper;
    xattr::set(&upper.join("new"), c"user.overlay.opaque", b"y").expect("set");
    fs::set_permissions(upper.join("mode"), fs::Permissions::from_mode(0o400)).expect("changed");
    assert_eq!(place.examined(None).len(), 3);
    for path in ["mode", "new/file"] {
        assert_eq!(fs::read(upper.join(path)).expect("it stays in the upper layer"), CONTENT);
    }
    assert_eq!(fs::metadata(upper.join("mode")).expect("there").permissions().mode() & 0o777, 0o400);
    assert!(!upper.join("kept/file").exists());
    // The next status must not take it for the file that the index knows.
    let time = |path: PathBuf| fs::metadata(path).expect("there").modified().expect("known");
    assert_eq!(time(upper.join("mode")), time(place.layers.base.files().join("mode")));
}

#[test]
fn a_changed_file_is_left_and_named() {
    let Some(place) = Place::new() else { return };
    let changed = [&b"mine"[..], &CONTENT[4..4096]].concat();
    place.base("changed", &CONTENT);
    place.copied("changed", "changed", &changed);
    // This one ends in the middle of a block, as no torn file does.
    place.base("edited", &CONTENT);
    place.copied("edited", "edited", &CONTENT[..100]);
    place.base("empty", b"");
    place.copied("empty", "empty", b"");
    assert_eq!(place.examined(None), [("changed".to_owned(), Damage::Incomplete)]);
    assert_eq!(place.shown("changed"), changed);
    assert_eq!(place.shown("edited").len(), 100);
}

#[test]
fn a_renamed_directory_without_content_is_named() {
    let Some(place) = Place::new() else { return };
    place.base("dir/file", &CONTENT);
    let upper = &place.layers.site.upper;
    for (name, target) in [("moved", &b"dir"[..]), ("lost", b"/none"), ("also", b"/dir")] {
        fs::create_dir(upper.join(name)).expect("made");
        xattr::set(&upper.join(name), c"user.overlay.redirect", target).expect("set");
    }
    assert_eq!(place.examined(None), [("lost".to_owned(), Damage::Misplaced)]);
}

#[test]
fn the_link_to_the_repository_is_written_again() {
    let root = tempfile::tempdir().expect("a directory for tests");
    let state = root.path().join("sapwood/workspaces/one");
    let (upper, admin) = (state.join("upper"), root.path().join("worktrees/one"));
    fs::create_dir_all(&upper).expect("made");
    fs::write(upper.join(".git"), "").expect("torn");
    let record = state.join("record");
    let facts = "[workspace]\n\tdir = /top\n\tbackend = fuse\n";
    fs::write(&record, facts).expect("written");
    let site = Site {
        upper: upper.clone(),
        work: state.join("work"),
        top: root.path().join("top"),
        state,
        git: None,
        door: Default::default(),
    };
    restore_link(&site).expect("nothing to link to");
    fs::create_dir_all(&admin).expect("made");
    restore_link(&site).expect("written");
    let expected = format!("gitdir: {}\n", admin.display());
    assert_eq!(fs::read_to_string(upper.join(".git")).expect("read"), expected);
    fs::write(upper.join(".git"), [0; 40]).expect("torn");
    restore_link(&site).expect("written");
    assert_eq!(fs::read_to_string(upper.join(".git")).expect("read"), expected);
    fs::write(upper.join(".git"), "gitdir: ../elsewhere\n").expect("written");
    restore_link(&site).expect("nothing to do");
    assert_eq!(fs::read(upper.join(".git")).expect("read"), b"gitdir: ../elsewhere\n");
    // The administrative directory of a sealed workspace's name is another worktree's.
    let sealed = format!("{facts}\tsealed = {}\n\tbranch = refs/heads/one\n", "1".repeat(40));
    fs::write(&record, sealed).expect("written");
    fs::write(upper.join(".git"), "").expect("torn");
    restore_link(&site).expect("nothing to link to");
    assert_eq!(fs::read(upper.join(".git")).expect("read"), b"");
}
