//! Guarantees of the kernel for files in an overlay, and their limits. Each check corresponds to a
//! sentence in the section "Promises of the kernel" of docs/design/workspace-mounts.md.
//!
//! A check runs in a workspace of each kind of mount, in the root of the workspace. If a new kernel
//! invalidates a sentence, the check fails.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use engine::workspace::{backend::Backend, record::Durability};

use crate::{
    Check,
    place::{NOBODY, Place, is_root},
};

pub(crate) const CHECKS: &[Check] = &[
    ("the_kernel_keeps_its_promises_on_an_image", || on(Backend::Image, Durability::Synced)),
    ("the_kernel_keeps_its_promises_on_a_directory", || on(Backend::Overlay, Durability::Synced)),
    ("the_kernel_keeps_its_promises_without_durability", || on(Backend::Overlay, Durability::Volatile)),
    ("the_kernel_keeps_its_promises_in_a_namespace", || on(Backend::OverlayUser, Durability::Synced)),
    ("the_kernel_keeps_its_promises_to_ordinary_users", ordinary_user),
    ("inode_numbers_after_a_remount", inode_numbers_after_a_remount),
];

/// A promise with its name. The argument is the backend's name.
type Promise = (&'static str, fn(&str));

const PROMISES: &[Promise] = &[
    ("hard_links", hard_links),
    ("inode_numbers", inode_numbers),
    ("maps", maps),
    ("locks", locks),
    ("notifications", notifications),
    ("directory_renames", directory_renames),
    ("whiteouts", whiteouts),
    ("opaque_directories", opaque_directories),
    ("syncs", syncs),
    ("modes_and_times", modes_and_times),
    ("copies", copies),
];

fn on(backend: Backend, durability: Durability) {
    if backend != Backend::OverlayUser {
        need_root!();
    }
    let mut broken = Vec::new();
    for (name, _) in PROMISES {
        let mut place = Place::new();
        if backend == Backend::Image {
            place = place.with_image();
        }
        place.layers.durability = durability;
        place.mount(backend).expect("mounted");
        let mut helper = match backend {
            Backend::OverlayUser => place.helper(&["promise", backend.name(), name]),
            // A base of kind image is not at the path that the helpers use.
            _ => {
                let mut helper = Command::new(std::env::current_exe().expect("this program has a path"));
                helper.args(["helper", "promise-here", name, backend.name()]);
                helper.current_dir(&place.layers.site.top);
                helper
            }
        };
        let output = helper.output().expect("started");
        if !output.status.success() {
            let words = [output.stdout, output.stderr].concat();
            broken.push(format!("{name}: {}", String::from_utf8_lossy(&words)));
        }
        place.unmount(backend).expect("nobody uses it");
    }
    assert!(broken.is_empty(), "{backend:?}\n{}", broken.concat());
}

fn ordinary_user() {
    if !is_root() {
        return;
    }
    for (name, _) in PROMISES {
        let place = Place::new().of_nobody();
        for words in
            [&["mount", "overlay-user"][..], &["promise", "overlay-user", name], &["unmount", "overlay-user"]]
        {
            assert!(place.run_as(NOBODY, words).status.success(), "{name}: {words:?}");
        }
    }
}

/// Inode numbers of base files survive a remount. Inode numbers of copied-up files survive it only
/// with root.
fn inode_numbers_after_a_remount() {
    for backend in [Backend::Overlay, Backend::OverlayUser] {
        if backend == Backend::Overlay && !is_root() {
            continue;
        }
        let place = Place::new();
        let numbers = |script: &str| {
            place.mount(backend).expect("mounted");
            let script = format!("{script}; stat -c %i file dir dir/one");
            let output = place.helper(&["inside", backend.name(), &script]).output().expect("started");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            place.unmount(backend).expect("nobody uses it");
            let text = String::from_utf8(output.stdout).expect("text");
            text.lines().map(|line| line.parse::<u64>().expect("a number")).collect::<Vec<_>>()
        };
        let first = numbers("echo more >>file; chmod 700 dir");
        let second = numbers(":");
        assert_eq!(first[2], second[2], "a file of the base");
        assert_eq!(
            (first[0] == second[0], first[1] == second[1]),
            REMOUNTED[usize::from(backend == Backend::Overlay)]
        );
    }
}

/// The expected results for a copied-up file and a copied-up directory: in a user namespace, and
/// with root.
const REMOUNTED: [(bool, bool); 2] = [(false, true), (true, true)];

/// Runs one check in the workspace, which is the current directory.
pub(crate) fn run(name: &str, backend: &str) {
    let (_, check) = PROMISES.iter().find(|(known, _)| *known == name).expect("a promise");
    check(backend);
}

fn text(path: &str) -> String {
    fs::read_to_string(path).expect("read")
}

fn inode(path: &str) -> u64 {
    fs::symlink_metadata(path).expect("there").ino()
}

fn append(path: &str) -> File {
    OpenOptions::new().append(true).open(path).expect("opened")
}

/// Two hard links of a file in the base become separate files when one of them is written.
fn hard_links(backend: &str) {
    assert_eq!(inode("two"), inode("second name of two"));
    append("two").write_all(b"more\n").expect("written");
    assert_eq!(text("two"), "content of two\nmore\n");
    assert_eq!(text("second name of two"), "content of two\n");
    // Hard links that are created in the workspace stay links.
    fs::hard_link("dir/one", "link of one").expect("made");
    append("link of one").write_all(b"more\n").expect("written");
    assert_eq!(text("dir/one"), "content of dir/one\nmore\n");
    // In a user namespace the kernel does not follow the origin attribute of a copied-up file.
    assert_eq!(inode("dir/one") == inode("link of one"), backend != "overlay-user");
    fs::write("new", "new").expect("written");
    fs::hard_link("new", "link of new").expect("made");
    assert_eq!(inode("new"), inode("link of new"));
}

/// A copied-up file keeps its inode number as long as the overlay is mounted.
fn inode_numbers(_: &str) {
    let before = (inode("file"), inode("dir"), inode("link"));
    append("file").write_all(b"more\n").expect("written");
    fs::write("dir/new", "new").expect("written");
    assert_eq!((inode("file"), inode("dir"), inode("link")), before);
    // Only the device number distinguishes the file from one in another mount.
    let device = fs::metadata("file").expect("there").dev();
    assert_eq!(fs::metadata("other/three").expect("there").dev(), device);
    // A file that replaces another one has its own inode number.
    fs::write("staged", "replaced").expect("written");
    let staged = inode("staged");
    fs::rename("staged", "file").expect("renamed");
    assert_eq!(inode("file"), staged);
    assert_ne!(staged, before.0);
}

/// A memory map of a file keeps showing the old bytes after a copy-up. Descriptors show the new
/// bytes.
fn maps(_: &str) {
    let mut reader = File::open("file").expect("opened");
    let map = sys::Map::of(&sys::by_path::open(Path::new("file")).expect("opened")).expect("mapped");
    let mut writer = OpenOptions::new().write(true).open("file").expect("opened");
    writer.write_all(b"CONTENT").expect("written");
    assert_eq!(&map[..7], b"content");
    let mut read = String::new();
    reader.read_to_string(&mut read).expect("read");
    assert_eq!(read, "CONTENT of file\n");
    // A map that is created after the copy-up shows the new bytes.
    let map = sys::Map::of(&sys::by_path::open(Path::new("file")).expect("opened")).expect("mapped");
    writer.seek(SeekFrom::Start(0)).expect("sought");
    writer.write_all(b"changed").expect("written");
    assert_eq!(&map[..7], b"changed");
}

/// Locks apply to the file of the overlay, not to a layer, so a copy-up keeps them.
fn locks(_: &str) {
    let is_free = || {
        let lock = ["--nonblock", "--exclusive", "file", "true"];
        Command::new("flock").args(lock).status().expect("can be run").success()
    };
    let reader = sys::by_path::open(Path::new("file")).expect("opened");
    assert!(is_free());
    assert!(sys::try_lock(&reader).expect("locked"));
    assert!(!is_free());
    append("file").write_all(b"more\n").expect("written");
    assert!(!is_free(), "the lock outlives the copy-up");
    drop(reader);
    assert!(is_free());
}

/// A watch on a file reports changes made through the workspace, including those after a copy-up.
fn notifications(_: &str) {
    let mut watch = sys::Watch::new(Path::new("dir")).expect("watched");
    let mut is_told = |change: &dyn Fn()| {
        change();
        let before = std::time::Instant::now();
        watch.wait(Duration::from_secs(240)).expect("waited");
        before.elapsed() < Duration::from_secs(120)
    };
    assert!(is_told(&|| fs::write("dir/new", "new").expect("written")));
    assert!(is_told(&|| fs::remove_file("dir/one").expect("removed")));
    assert!(is_told(&|| fs::rename("dir/new", "dir/newer").expect("renamed")));
}

/// A directory of the base can be renamed only if redirects are enabled.
fn directory_renames(backend: &str) {
    fs::create_dir("made here").expect("made");
    fs::rename("made here", "renamed here").expect("it has no lower layer");
    let renamed = fs::rename("deep", "moved");
    if backend == "overlay-user" {
        assert_eq!(renamed.expect_err("no redirect").kind(), std::io::ErrorKind::CrossesDevices);
        // `mv` copies the directory instead, as does every program that handles `EXDEV`.
        assert!(Command::new("mv").args(["deep", "moved"]).status().expect("can be run").success());
    } else {
        renamed.expect("redirected");
    }
    assert_eq!(text("moved/a/b/c/four"), "content of deep/a/b/c/four\n");
    assert!(!Path::new("deep").exists());
    // The old name can be reused.
    fs::create_dir("deep").expect("made");
    assert!(fs::read_dir("deep").expect("listed").next().is_none());
}

/// A deleted name can be reused, regardless of the old and new file types.
fn whiteouts(_: &str) {
    fs::remove_file("file").expect("removed");
    fs::rename("two", "file").expect("renamed over a whiteout");
    assert_eq!(text("file"), "content of two\n");
    assert!(!Path::new("two").exists());
    fs::create_dir("two").expect("a directory over a whiteout");
    fs::remove_dir("two").expect("removed");
    fs::rename("link", "two").expect("a link over a whiteout");
    assert_eq!(fs::read_link("two").expect("a link"), Path::new("file"));
    let names = fs::read_dir(".").expect("listed").map(|entry| entry.expect("read").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
    names.sort();
    assert_eq!(names, ["deep", "dir", "file", "other", "second name of two", "two"]);
}

/// A directory that replaces a directory of the base does not show the old entries.
fn opaque_directories(_: &str) {
    fs::remove_dir_all("dir").expect("removed");
    fs::create_dir("dir").expect("made");
    assert!(fs::read_dir("dir").expect("listed").next().is_none());
    fs::write("dir/new", "new").expect("written");
    assert!(!Path::new("dir/one").exists());
    // A file can replace a directory, and vice versa.
    fs::remove_dir_all("other").expect("removed");
    fs::write("other", "a file").expect("written");
    fs::remove_file("other").expect("removed");
    fs::create_dir("other").expect("made");
    assert!(!Path::new("other/three").exists());
}

/// All kinds of sync succeed, also with `volatile`.
fn syncs(_: &str) {
    let mut file = append("file");
    file.write_all(b"more\n").expect("written");
    file.sync_all().expect("synced");
    file.sync_data().expect("synced");
    File::open("dir").expect("opened").sync_all().expect("synced");
    File::open("other/three").expect("opened").sync_all().expect("a file of the base");
}

/// A copy-up due to a metadata change keeps content and modification time.
/// The kernel copies no unchanged file of an image by itself. Programs then copy the bytes.
fn copies(_: &str) {
    for from in ["file", "dir/one"] {
        let status = Command::new("cp").args([from, "copy"]).status();
        assert!(status.expect("can be run").success());
        assert_eq!(text("copy"), text(from));
        fs::remove_file("copy").expect("removed");
        fs::copy(from, "copy").expect("copied");
        assert_eq!(text("copy"), text(from));
    }
}

fn modes_and_times(_: &str) {
    let before = fs::metadata("dir/one").expect("there");
    fs::set_permissions("dir/one", fs::Permissions::from_mode(0o755)).expect("set");
    let after = fs::metadata("dir/one").expect("there");
    assert_eq!((after.mtime(), after.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
    assert_eq!(after.mode() & 0o777, 0o755);
    assert_eq!(text("dir/one"), "content of dir/one\n");
    let touched =
        Command::new("touch").args(["-d", "2001-02-03 04:05:06", "file"]).stdin(Stdio::null()).status();
    assert!(touched.expect("can be run").success());
    assert_eq!(text("file"), "content of file\n");
}
