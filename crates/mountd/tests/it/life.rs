//! Requests of a user who means well.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use mountd::wire::{Code, Request};
use testkit::disk::ORDINARY;

use crate::scene::{named, play};

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
        // Shown at another place, it is as safe.
        let place = scene.at("mine/dir");
        assert_eq!(scene.ask(&Request::Bind, vec![named(&place), named(&top)]), Code::Done);
        assert!(is_safe(&place) && place.join("new").exists());
        assert_eq!(scene.unmount("mine/dir"), Code::Done);
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
        let held = fs::File::open(scene.at("mine/files/file")).expect("opened");
        assert_eq!(scene.unmount("mine/files"), Code::Kernel);
        assert_eq!(scene.service().unmount(&scene.at("mine/files"), true).ok(), Some(()));
        assert!(!scene.at("mine/files/file").exists());
        drop(held);
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
