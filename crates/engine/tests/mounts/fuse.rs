//! Workspaces that are mounted by a FUSE program.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use engine::workspace::backend::{Backend, Busy, Error, Mounted, fuse, fuse::Program};

use crate::{
    Check,
    place::{NOBODY, Place},
};

pub(crate) const CHECKS: &[Check] = &[
    ("each_program_joins_all_layers", each_program_joins_all_layers),
    ("a_dead_program_is_replaced", a_dead_program_is_replaced),
    ("a_busy_fuse_mount_names_the_processes", a_busy_fuse_mount_names_the_processes),
    ("a_missing_program_is_named", a_missing_program_is_named),
    ("a_user_without_privileges_uses_fuse", a_user_without_privileges_uses_fuse),
];

const FUSE: Backend = Backend::Fuse;

/// Creates a directory that contains only this program.
fn only(place: &Place, program: Program) -> Vec<PathBuf> {
    let dir = place.root().join(program.name());
    fs::create_dir_all(&dir).expect("made");
    let path = Path::new("/usr/bin").join(program.name());
    testkit::need_program(program.name());
    let _ = symlink(path, dir.join(program.name()));
    vec![dir]
}

fn each_program_joins_all_layers() {
    need_root!();
    let above = tempfile::tempdir().expect("made");
    let names = [(Program::FuseOverlayfs, "a b=c"), (Program::UnionfsFuse, "a:b,c\\d e=f")];
    for (program, name) in names {
        let strange = above.path().join(name).join("x".repeat(200));
        fs::create_dir_all(&strange).expect("made");
        let mut place = Place::below(&strange);
        place.search = Some(only(&place, program));
        let frozen = place.root().join("frozen");
        fs::create_dir_all(frozen.join("node_modules")).expect("made");
        fs::write(frozen.join("node_modules/x"), "frozen").expect("written");
        place.layers.frozen = vec![frozen];
        // As in a workspace that is not mounted.
        fs::write(place.top(".git"), "not mounted").expect("written");
        assert_eq!(place.state(FUSE), Mounted::No);
        assert_eq!(place.mount(FUSE).expect("mounted"), Mounted::Here);
        assert_eq!(place.mount(FUSE).expect("it is mounted"), Mounted::Here);
        assert_eq!(fuse::program_of(&place.layers.site.state), Some(program));
        assert_eq!(fs::read(place.top("node_modules/x")).expect("read"), b"frozen");
        let inode = |path: PathBuf| path.metadata().expect("there").ino();
        assert_eq!(inode(place.top("dir/one")), inode(place.layers.base.files().join("dir/one")));
        fs::write(place.top("file"), "changed").expect("written");
        fs::remove_file(place.top("dir/one")).expect("removed");
        fs::remove_dir_all(place.top("deep")).expect("removed");
        place.unmount(FUSE).expect("nobody uses it");
        place.unmount(FUSE).expect("nothing to do");
        assert_eq!(place.state(FUSE), Mounted::No);
        // A workspace keeps its program.
        place.search = None;
        place.mount(FUSE).expect("mounted again");
        assert_eq!(fuse::program_of(&place.layers.site.state), Some(program));
        assert_eq!(fs::read(place.top("file")).expect("read"), b"changed");
        assert!(!place.top("dir/one").exists() && !place.top("deep").exists());
        let names = fs::read_dir(&place.layers.site.top)
            .expect("listed")
            .map(|entry| entry.expect("read").file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().expect("text")).collect();
        names.sort();
        assert_eq!(names, ["dir", "file", "link", "node_modules", "other", "second name of two", "two"]);
        place.unmount(FUSE).expect("nobody uses it");
    }
}

fn a_dead_program_is_replaced() {
    need_root!();
    let place = Place::new();
    place.mount(FUSE).expect("mounted");
    testkit::need_program("pkill");
    let kill = || {
        let top = place.layers.site.top.as_os_str();
        let killed = Command::new("pkill").arg("-9").arg("-f").arg(top).status().expect("can be run");
        assert!(killed.success());
        while sys::by_path::is_remote(&place.layers.site.top).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    kill();
    assert_eq!(place.mount(FUSE).expect("mounted anew"), Mounted::Here);
    assert_eq!(fs::read(place.top("file")).expect("read"), b"content of file\n");
    kill();
    place.unmount(FUSE).expect("the dead mount is removed");
    assert!(fs::read_dir(&place.layers.site.top).expect("a directory").next().is_none());
    assert_eq!(place.state(FUSE), Mounted::No);
}

fn a_busy_fuse_mount_names_the_processes() {
    need_root!();
    let place = Place::new();
    place.mount(FUSE).expect("mounted");
    let mut inside = Command::new("sleep").arg("100").current_dir(place.top("dir")).spawn().expect("started");
    let refused = place.unmount(FUSE).expect_err("it is busy");
    let Error::Busy { processes, .. } = &refused else { panic!("{refused}") };
    assert!(processes.iter().any(|process| process.pid == inside.id()), "{refused}");
    place.release(FUSE, Busy::Detach).expect("detached");
    assert_eq!(place.state(FUSE), Mounted::No);
    inside.kill().expect("it is ours");
    inside.wait().expect("it ends");
}

fn a_missing_program_is_named() {
    let above = tempfile::Builder::new().prefix("a:b").tempdir().expect("made");
    let mut place = Place::below(above.path());
    place.search = Some(only(&place, Program::FuseOverlayfs));
    let refused = place.mount(FUSE).expect_err("it knows no colon");
    assert!(matches!(refused, Error::UnfitName { .. }), "{refused}");
    place.search = Some(Vec::new());
    let refused = place.mount(FUSE).expect_err("no program");
    assert!(matches!(refused, Error::NoProgram { name: "fuse-overlayfs" }), "{refused}");
    assert!(refused.advice().expect("there is a way out").contains("install"));
    assert!(!place.layers.site.state.join("mounted").exists());
}

fn a_user_without_privileges_uses_fuse() {
    need_root!();
    // The device, with access for all users as on most systems. The change is visible only in this
    // namespace.
    let device = tempfile::tempdir_in("/var/tmp").expect("made");
    let device = device.path().join("fuse");
    let run = |program: &str, args: &[&str]| {
        assert!(
            Command::new(program).args(args).status().expect("can be run").success(),
            "{program} {args:?}"
        );
    };
    let name = device.to_str().expect("text");
    run("mknod", &["-m", "666", name, "c", "10", "229"]);
    run("mount", &["--bind", name, "/dev/fuse"]);
    let place = Place::new().of_nobody();
    let mut outputs = Vec::new();
    for words in
        [&["mount", "fuse"][..], &["state", "fuse"], &["inside", "fuse", "echo x >file; cat dir/one"]]
    {
        outputs.push(place.run_as(NOBODY, words));
    }
    let unmounted = place.run_as(NOBODY, &["unmount", "fuse"]);
    run("umount", &["/dev/fuse"]);
    let outputs: Vec<_> = outputs.iter().map(|output| String::from_utf8_lossy(&output.stdout)).collect();
    assert_eq!(outputs, ["Here\n", "Here\n", "content of dir/one\n"]);
    assert!(unmounted.status.success());
    assert_eq!(fs::read(place.layers.site.upper.join("file")).expect("read"), b"x\n");
    assert_eq!(place.state(FUSE), Mounted::No);
}
