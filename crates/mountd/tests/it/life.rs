//! Requests of a user who means well.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use mountd::wire::{Code, Request};
use testkit::disk::ORDINARY;

use crate::scene::{code, named, play};

/// Returns true if the mount at `point` ignores setuid bits and devices.
fn is_safe(point: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("the kernel's table");
    let fields = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut found = fields.filter(|fields| Path::new(fields[4]) == point);
    let options = found.next().expect("it is mounted")[5];
    ["nosuid", "nodev"].iter().all(|flag| options.split(',').any(|option| option == *flag))
}

#[test]
fn an_image_and_an_overlay() {
    let Some(stage) = play("life::an_image_and_an_overlay", &[], |scene| {
        assert_eq!(scene.ask(&Request::Hello, vec![]), Code::Done);
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(fs::read_to_string(scene.at("mine/files/dir/deep")).expect("read"), "content\n");
        assert_eq!(scene.mount_overlay(), Code::Done);
        let top = scene.at("mine/top");
        assert_eq!(fs::read_to_string(top.join("file")).expect("read"), "content\n");
        fs::write(top.join("file"), "changed\n").expect("copied up");
        fs::write(top.join("new"), "new\n").expect("written");
        fs::create_dir(top.join("new dir")).expect("made");
        fs::rename(top.join("new dir"), top.join("renamed")).expect("renamed");
        fs::remove_file(top.join("dir/gone")).expect("removed");
        fs::remove_dir_all(top.join("dir")).expect("removed");
        fs::create_dir(top.join("dir")).expect("made again");
        assert_eq!(fs::read_dir(top.join("dir")).expect("listed").count(), 0, "it is opaque");
        for name in ["file", "new", "dir"] {
            let found = fs::metadata(scene.at("mine/upper").join(name)).expect("in the upper layer");
            assert_eq!((found.uid(), found.gid()), (ORDINARY, ORDINARY), "{name}");
        }
        for name in ["mine/files", "mine/top"] {
            assert!(is_safe(&scene.at(name)), "{name}");
        }
        // A Git directory is as safe.
        let git = top.join(".git");
        fs::create_dir(&git).expect("made");
        assert_eq!(scene.ask(&Request::Git, vec![named(&top), named(scene.at("mine/dir"))]), Code::Done);
        assert!(is_safe(&git) && git.join("file").exists());
        fs::write(git.join("HEAD"), "new\n").expect("written");
        assert!(scene.at("mine/dir/HEAD").exists());
        assert_eq!(scene.unmount("mine/top"), Code::Kernel, "something is mounted in it");
        assert_eq!(scene.unmount("mine/top/.git"), Code::Done);
        // The image is in use.
        assert_eq!(scene.unmount("mine/top"), Code::Done);
        assert_eq!(scene.mount_overlay(), Code::Kernel, "the kernel's mark of a volatile mount");
        let mut dir = scene.at("mine/work");
        for name in ["work", "incompat", "volatile"] {
            dir.push(name);
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("it is the user's");
        }
        fs::remove_dir_all(scene.at("mine/work/work/incompat")).expect("removed");
        assert_eq!(scene.mount_overlay(), Code::Done);
        assert!(!top.join("dir/deep").exists() && !top.join("dir/gone").exists());
        assert_eq!(scene.unmount("mine/top"), Code::Done);
        assert_eq!(scene.unmount("mine/files"), Code::Done);
        assert_eq!(scene.unmount("mine/files"), Code::NoMount);
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
    assert_eq!(stage.service.table(), Vec::<String>::new());
}

#[test]
fn a_mount_in_use_is_busy_unless_it_is_detached() {
    let Some(stage) = play("life::a_mount_in_use_is_busy_unless_it_is_detached", &[], |scene| {
        assert_eq!(scene.mount_image(), Code::Done);
        let busy = |path: &str, is_lazy| code(scene.service().unmount(&scene.at(path), is_lazy));
        let held = fs::File::open(scene.at("mine/files/file")).expect("opened");
        assert_eq!(busy("mine/files", false), Code::Kernel);
        assert_eq!(busy("mine/files", true), Code::Kernel, "its bytes count as long as it is used");
        drop(held);
        assert_eq!(scene.mount_overlay(), Code::Done);
        let held = fs::File::open(scene.at("mine/top/file")).expect("opened");
        assert_eq!(busy("mine/top", false), Code::Kernel);
        assert_eq!(busy("mine/top", true), Code::Done);
        assert!(!scene.at("mine/top/file").exists());
        drop(held);
        assert_eq!(busy("mine/files", true), Code::Done);
    }) else {
        return;
    };
    assert_eq!(stage.service.table(), Vec::<String>::new());
}

/// The kernel lists both mounts to a user in another mount namespace too, but they are not there.
#[test]
fn a_mount_appears_in_the_namespace_of_the_user() {
    let test = "life::a_mount_appears_in_the_namespace_of_the_user";
    let Some(stage) = play(test, &[], |scene| {
        assert_eq!(scene.mount_image(), Code::Done);
        assert!(scene.at("mine/files/file").exists());
    }) else {
        return;
    };
    assert_eq!(stage.mounts().len(), 1);
    testkit::disk::unmount_below(&stage.scene.dir);
    // The entry of the table has no mount any more, which a new mount of the same user may find.
    assert_eq!(stage.service.table().len(), 1);
}

/// The process of a connection that stays open does not stay in the user's directories.
#[test]
fn an_open_connection_keeps_no_directory() {
    let Some(stage) = play("life::an_open_connection_keeps_no_directory", &[], |scene| {
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.mount_overlay(), Code::Done);
        let inside = scene.at("mine/top/inside");
        fs::create_dir(&inside).expect("made");
        let service = scene.service();
        let (image, blob) = (scene.at("mine/image"), [scene.at("mine/blob")]);
        assert_eq!(code(service.mount_image(&image, &blob, &inside)), Code::Done);
        assert_eq!(code(service.unmount(&inside, false)), Code::Done);
        assert_eq!(scene.unmount("mine/top"), Code::Done, "nobody is in it");
        assert_eq!(scene.unmount("mine/files"), Code::Done);
        assert_eq!(code(service.call(&Request::Hello, &[])), Code::Done);
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty());
}

/// Files of root in the upper layer keep their owner, and nobody else's rights come along.
#[test]
fn files_of_others_in_a_workspace_stay_theirs() {
    let test = "life::files_of_others_in_a_workspace_stay_theirs";
    let Some(stage) = play(test, &[], |scene| {
        if !scene.at("mine/upper/roots").exists() {
            return;
        }
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.mount_overlay(), Code::Done);
        let top = scene.at("mine/top");
        assert!(fs::read(top.join("roots")).is_err() && fs::write(top.join("roots"), "mine").is_err());
        fs::write(top.join("own"), "mine\n").expect("written");
        assert_eq!(fs::metadata(scene.at("mine/upper/own")).expect("there").uid(), ORDINARY);
        for name in ["mine/top", "mine/files"] {
            assert_eq!(scene.unmount(name), Code::Done);
        }
    }) else {
        return;
    };
    let file = stage.scene.at("mine/upper/roots");
    fs::write(&file, "root's\n").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is root's");
    stage.run(ORDINARY, test, &[]);
    assert_eq!(fs::read_to_string(&file).expect("root may"), "root's\n");
}

/// The table outlives the service.
#[test]
fn a_service_that_was_killed_knows_its_mounts() {
    let test = "life::a_service_that_was_killed_knows_its_mounts";
    let Some(mut stage) = play(test, &[], |scene| match scene.mounts().len() {
        0 => assert_eq!(scene.mount_image(), Code::Done),
        1 => assert_eq!(scene.mount_overlay(), Code::Done),
        _ => {
            assert_eq!(fs::read_to_string(scene.at("mine/top/file")).expect("read"), "content\n");
            for name in ["mine/top", "mine/files"] {
                assert_eq!(scene.unmount(name), Code::Done, "{name}");
            }
        }
    }) else {
        return;
    };
    for mounts in [1, 2] {
        stage.service.restart();
        assert_eq!((stage.mounts().len(), stage.service.table().len()), (mounts, mounts));
        stage.run(ORDINARY, test, &[]);
    }
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
    assert_eq!(stage.service.table(), Vec::<String>::new());
}
