//! The machine stops while a workspace is mounted without durability. The copies that a crash
//! leaves are made by hand in the upper layer of a real mount.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    process::Command,
    time::Duration,
};

use engine::workspace::{
    backend::Backend,
    crash::{Damage, Notice},
    record::Durability,
};

use crate::{
    Check,
    place::{NOBODY, Place, content},
};

pub(crate) const CHECKS: &[Check] = &[
    ("a_crash_damages_nothing_on_an_overlay", || damage(Backend::Overlay)),
    ("a_crash_damages_nothing_on_an_image", || damage(Backend::Image)),
    ("a_crash_damages_nothing_in_a_user_namespace", || damage(Backend::OverlayUser)),
    ("a_workspace_of_an_older_version_survives_a_crash", a_workspace_of_an_older_version_survives_a_crash),
    ("the_newer_layer_is_whole_after_a_crash", the_newer_layer_is_whole_after_a_crash),
    ("a_clean_restart_changes_nothing", a_clean_restart_changes_nothing),
];

/// The files of the base that the workspace changes.
const FILES: [&str; 11] = [
    "appended",
    "prefix",
    "hole",
    "mode",
    "moved",
    "changed",
    "touched",
    "shortened",
    "replaced",
    "whole",
    "protected",
];

/// The user's edits.
const EDITS: &str = "echo more >> appended; echo more >> prefix; echo more >> hole; chmod 755 mode; \
    mv moved there; printf X | dd of=changed conv=notrunc status=none; touch -r file touched; \
    truncate -s 100 shortened; echo new > new; mv new replaced; chmod 755 whole; chmod 400 protected";

fn place(backend: Backend) -> Place {
    let mut place = FILES.iter().fold(Place::new(), |place, name| place.with_file(name));
    place.layers.durability = Durability::Volatile;
    fs::write(place.root().join("volatile"), "").expect("written");
    match backend {
        Backend::Image => place.with_image(),
        Backend::OverlayUser => place.of_nobody(),
        _ => place,
    }
}

/// Runs a script in the workspace, which it mounts.
fn run(place: &Place, backend: Backend, script: &str) {
    if backend == Backend::OverlayUser {
        for words in [&["mount", backend.name()][..], &["inside", backend.name(), script]] {
            let done = place.run_as(NOBODY, words);
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        return;
    }
    place.mount(backend).expect("mounted");
    let done = Command::new("sh").args(["-ec", script]).current_dir(&place.layers.site.top).status();
    assert!(done.expect("sh can be run").success(), "{script}");
}

/// Ends the mount as a crash does: nothing is synced, and the boot is another one.
fn crash(place: &Place, backend: Backend) {
    let state = &place.layers.site.state;
    let marker = fs::read_to_string(state.join("mounted")).expect("a mount");
    if backend == Backend::OverlayUser {
        let holder = marker.lines().find_map(|line| line.strip_prefix("holder ")).expect("a holder");
        let pid: u32 = holder.split(' ').next().expect("two words").parse().expect("a number");
        let process = sys::namespace::Process::of(pid).expect("known").expect("it runs");
        process.terminate().expect("it is ours");
        assert!(process.await_end(Duration::from_secs(20)).expect("awaited"));
    } else {
        let done = Command::new("umount").arg(&place.layers.site.top).status();
        assert!(done.expect("umount can be run").success());
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    for path in [state.join("mounted"), place.layers.site.upper.with_file_name("unsynced")] {
        if let Ok(text) = fs::read_to_string(&path) {
            fs::write(&path, text.replace(boot.trim_end(), "another")).expect("written");
        }
    }
}

/// Changes a file of the upper layer, and keeps its modification time.
fn tear(place: &Place, name: &str, tear: impl FnOnce(&fs::File)) {
    let path = place.layers.site.upper.join(name);
    let mode = fs::metadata(&path).expect("in the upper layer").permissions();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("root may");
    let file = fs::File::options().read(true).write(true).open(&path).expect("opened");
    let modified = file.metadata().expect("known").modified().expect("known");
    tear(&file);
    file.set_modified(modified).expect("set");
    fs::set_permissions(&path, mode).expect("root may");
}

fn cut(size: u64) -> impl FnOnce(&fs::File) {
    move |file| file.set_len(size).expect("cut")
}

/// Returns the paths that were named, with the damage.
fn named(place: &Place) -> BTreeMap<String, Damage> {
    let notice = Notice::read(&place.layers.site.state).expect("read");
    notice.findings.into_iter().map(|finding| (finding.path.to_string(), finding.damage)).collect()
}

fn damage(backend: Backend) {
    need_root!();
    let place = place(backend);
    run(&place, backend, EDITS);
    crash(&place, backend);
    for name in ["appended", "mode", "there", "replaced", "protected"] {
        tear(&place, name, cut(0));
    }
    tear(&place, "prefix", cut(4096));
    tear(&place, "changed", cut(8192));
    tear(&place, "touched", cut(4096));
    tear(&place, "hole", |file| {
        let file = sys::File::from(file.try_clone().expect("a second handle"));
        sys::punch_hole(&file, 4096..8192).expect("the file system has holes");
    });
    // The kernel removes what it has not finished.
    let rest = place.layers.site.work.join("work/#1");
    fs::write(&rest, "half").expect("written");
    let snapshots = place.layers.site.state.join("snapshots");
    fs::create_dir(&snapshots).expect("made");
    run(&place, backend, "true");
    assert!(!rest.exists(), "{backend:?}");
    assert!(!snapshots.exists(), "a snapshot could hide a repaired file");

    let is_named = backend != Backend::OverlayUser;
    let mut expected = BTreeMap::from([
        ("appended".to_owned(), Damage::Restored),
        ("prefix".to_owned(), Damage::Restored),
        ("mode".to_owned(), Damage::Restored),
        ("protected".to_owned(), Damage::Restored),
        ("touched".to_owned(), Damage::Restored),
        ("there".to_owned(), if is_named { Damage::Restored } else { Damage::Incomplete }),
        ("hole".to_owned(), Damage::Completed),
        ("changed".to_owned(), Damage::Incomplete),
    ]);
    assert_eq!(named(&place), expected, "{backend:?}");
    let (whole, copy) = (content(), place.root().join("seen"));
    fs::create_dir(&copy).expect("made");
    std::os::unix::fs::chown(&copy, Some(NOBODY), Some(NOBODY)).expect("root may");
    run(&place, backend, &format!("cp -a . '{}'", copy.display()));
    let read = |name: &str| fs::read(copy.join(name)).expect(name);
    for name in ["appended", "prefix", "mode", "touched", "whole", "protected"] {
        assert!(read(name) == whole, "{backend:?}: {name}");
    }
    let mode = |name: &str| fs::metadata(copy.join(name)).expect(name).mode() & 0o777;
    assert_eq!((mode("mode"), mode("whole"), mode("protected")), (0o755, 0o755, 0o400), "{backend:?}");
    assert!(read("there") == if is_named { whole.clone() } else { Vec::new() }, "{backend:?}");
    assert!(!copy.join("moved").exists(), "{backend:?}");
    assert!(read("hole") == [&whole[..], b"more\n"].concat(), "{backend:?}");
    assert!(read("changed") == [b"X", &whole[1..8192]].concat(), "{backend:?}: it is as it was found");
    assert!(read("shortened") == whole[..100], "{backend:?}");
    assert_eq!(read("replaced"), b"", "{backend:?}: a plain worktree would have lost it, too");
    // The base shows where nothing of the user's is left.
    let upper = &place.layers.site.upper;
    assert!(!upper.join("appended").exists() && upper.join("mode").exists(), "{backend:?}");

    // The next crash finds nothing new.
    crash(&place, backend);
    run(&place, backend, "true");
    assert_eq!(named(&place), expected, "{backend:?}");
    crash(&place, backend);
    fs::remove_file(Notice::place(&place.layers.site.state)).expect("acknowledged");
    run(&place, backend, "true");
    expected.clear();
    assert_eq!(named(&place), expected, "{backend:?}");
}

/// Only the kernel's mark shows that the workspace was mounted.
fn a_workspace_of_an_older_version_survives_a_crash() {
    need_root!();
    let place = place(Backend::Overlay);
    run(&place, Backend::Overlay, "echo more >> appended");
    crash(&place, Backend::Overlay);
    fs::remove_file(place.layers.site.upper.with_file_name("unsynced")).expect("removed");
    tear(&place, "appended", cut(0));
    run(&place, Backend::Overlay, "true");
    assert_eq!(named(&place), BTreeMap::from([("appended".to_owned(), Damage::Restored)]));
    assert!(fs::read(place.top("appended")).expect("read") == content());
    // The file `mounted` may be lost as well.
    crash(&place, Backend::Overlay);
    fs::remove_file(place.layers.site.state.join("mounted")).expect("removed");
    fs::write(place.layers.site.upper.with_file_name("unsynced"), "").expect("torn");
    run(&place, Backend::Overlay, "true");
}

/// The layer holds files of the base that nobody wrote in the workspace. Their times say that they
/// are newer than a build.
fn the_newer_layer_is_whole_after_a_crash() {
    need_root!();
    let mut place = place(Backend::Overlay);
    let newer = place.layers.site.upper.with_file_name("newer");
    fs::create_dir(&newer).expect("made");
    for name in ["whole", "replaced"] {
        fs::write(newer.join(name), content()).expect("written");
    }
    let times = ["whole", "replaced"].map(|name| fs::metadata(newer.join(name)).expect(name).modified().ok());
    fs::write(newer.join("appended"), content()).expect("written");
    place.layers.frozen.insert(0, newer.clone());
    run(&place, Backend::Overlay, "echo more >> appended");
    crash(&place, Backend::Overlay);
    // Both the file and its copy lose their bytes.
    fs::File::options().write(true).open(newer.join("appended")).expect("opened").set_len(0).expect("cut");
    tear(&place, "appended", cut(0));
    let torn = fs::File::options().write(true).open(newer.join("whole")).expect("opened");
    torn.set_len(0).and_then(|()| torn.set_modified(times[0].expect("known"))).expect("torn");
    run(&place, Backend::Overlay, "true");
    for (name, time) in ["whole", "replaced"].into_iter().zip(times) {
        assert!(fs::read(place.top(name)).expect(name) == content(), "{name}");
        assert_eq!(fs::metadata(place.top(name)).expect(name).modified().ok(), time, "{name}");
    }
    assert!(fs::read(place.top("appended")).expect("read") == content());
    assert_eq!(named(&place), BTreeMap::from([("appended".to_owned(), Damage::Restored)]));
}

/// Nothing is lost, and the user has shortened files in each way.
fn a_clean_restart_changes_nothing() {
    need_root!();
    let place = place(Backend::Overlay);
    let script = "truncate -s 100 shortened; truncate -s 4096 prefix; : > appended; truncate -s 0 hole; \
                  printf X | dd of=changed conv=notrunc status=none; truncate -s 8192 changed";
    run(&place, Backend::Overlay, script);
    let upper = &place.layers.site.upper;
    // A change within the tick of the next mount counts as one after it.
    std::thread::sleep(Duration::from_millis(50));
    place.unmount(Backend::Overlay).expect("unused");
    run(&place, Backend::Overlay, "echo later > file");
    crash(&place, Backend::Overlay);
    run(&place, Backend::Overlay, "true");
    assert_eq!(named(&place), BTreeMap::new(), "the unmount synced them");
    assert_eq!(fs::read(upper.join("appended")).expect("it stays"), b"");
    assert_eq!(fs::read(upper.join("prefix")).expect("it stays").len(), 4096);
}
