//! Limits of each user.

use std::fs;

use mountd::wire::{Code, Request};

use crate::scene::{Scene, named, play, split};

/// Tries to mount the image at many places. Returns how often it was mounted, and the other
/// outcomes.
fn mount_at_many(scene: &Scene, places: usize) -> (usize, Vec<Code>) {
    let (mut mounted, mut refused) = (0, Vec::new());
    for number in 0..places {
        let place = scene.at("mine/dir").join(number.to_string());
        fs::create_dir(&place).expect("a new directory");
        match scene.ask_image(&place) {
            Code::Done => mounted += 1,
            code => refused.push(code),
        }
    }
    (mounted, refused)
}

#[test]
fn ten_thousand_mounts_are_as_many_as_allowed() {
    let test = "limits::ten_thousand_mounts_are_as_many_as_allowed";
    let Some(mut stage) = play(test, &["--mounts", "20"], |scene| {
        let (mounted, refused) = mount_at_many(scene, 300);
        assert_eq!((mounted, refused.len()), (20, 280));
        assert!(refused.iter().all(|code| *code == Code::Limit), "{refused:?}");
        for number in 0..20 {
            assert_eq!(scene.unmount(&format!("mine/dir/{number}")), Code::Done);
        }
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.unmount("mine/files"), Code::Done);
    }) else {
        return;
    };
    assert_eq!(stage.service.table(), Vec::<String>::new());
    assert!(stage.service.is_alive());
}

#[test]
fn bytes_of_images_are_limited() {
    let length = crate::scene::image(1, 0o644).len() as u64;
    let options = ["--user-bytes", &(3 * length).to_string(), "--image-bytes", &length.to_string()];
    let Some(stage) = play("limits::bytes_of_images_are_limited", &options, |scene| {
        let (mounted, refused) = mount_at_many(scene, 5);
        assert_eq!((mounted, refused), (3, vec![Code::Limit; 2]));
        for number in 0..3 {
            assert_eq!(scene.unmount(&format!("mine/dir/{number}")), Code::Done);
        }
        // The size of a file costs nothing: no memory is taken for it.
        let file = fs::File::options().write(true).open(scene.at("mine/image")).expect("the user's own");
        file.set_len(1 << 40).expect("a sparse file");
        assert_eq!(scene.mount_image(), Code::Limit);
    }) else {
        return;
    };
    assert_eq!(stage.service.table(), Vec::<String>::new());
}

/// The table forgets mounts that ended without the service.
#[test]
fn mounts_that_root_ended_do_not_count() {
    let test = "limits::mounts_that_root_ended_do_not_count";
    let Some(stage) = play(test, &["--mounts", "2"], |scene| {
        for name in ["files", "dir2"] {
            let place = scene.at("mine").join(name);
            let _ = fs::create_dir(&place);
            assert_eq!(scene.ask_image(&place), Code::Done);
        }
        assert_eq!(scene.mounts().len(), 2);
    }) else {
        return;
    };
    testkit::disk::unmount_below(&stage.scene.dir);
    assert_eq!(stage.service.table().len(), 2);
    stage.run(testkit::disk::ORDINARY, test, &[]);
    testkit::disk::unmount_below(&stage.scene.dir);
}

/// A second mount of an upper layer damages it.
#[test]
fn an_upper_layer_is_mounted_once() {
    let Some(stage) = play("limits::an_upper_layer_is_mounted_once", &[], |scene| {
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.mount_overlay(), Code::Done);
        let place = scene.at("mine/again");
        fs::create_dir(&place).expect("made");
        fs::create_dir(scene.at("mine/more")).expect("made");
        let ask = |layers: &str| {
            let (dir, name) = split(&place);
            let given = vec![dir, named(scene.at(layers)), named(scene.at("mine/files"))];
            scene.ask(&Request::Overlay { name, is_volatile: false }, given)
        };
        // The kernel's mark of a volatile mount would refuse it too.
        open_up(&scene.at("mine/work"));
        assert_eq!(ask("mine"), Code::InUse);
        for name in ["upper", "work"] {
            fs::create_dir(scene.at("mine/more").join(name)).expect("made");
        }
        assert_eq!(ask("mine/more"), Code::Done);
        assert_eq!(scene.unmount("mine/again"), Code::Done);
        assert_eq!(scene.mounts().len(), 2);
        for name in ["mine/top", "mine/files"] {
            assert_eq!(scene.unmount(name), Code::Done);
        }
    }) else {
        return;
    };
    assert_eq!(stage.service.table(), Vec::<String>::new());
}

/// Removes the kernel's mark of a volatile mount.
fn open_up(work: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mut dir = work.to_owned();
    for name in ["work", "incompat", "volatile"] {
        dir.push(name);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).expect("it is the user's");
    }
    fs::remove_dir_all(work.join("work/incompat")).expect("removed");
}

/// Mounts end with their namespace, whose identity the kernel uses again. They do not count then.
#[test]
fn mounts_of_an_ended_namespace_do_not_count() {
    testkit::need_program("setpriv");
    let test = "limits::mounts_of_an_ended_namespace_do_not_count";
    let Some(stage) = play(test, &["--mounts", "2"], |scene| {
        if !scene.at("mine/dir2").exists() {
            fs::create_dir(scene.at("mine/dir2")).expect("a new directory");
            return;
        }
        for name in ["files", "dir2"] {
            assert_eq!(scene.ask_image(&scene.at("mine").join(name)), Code::Done);
        }
        assert_eq!(scene.ask_image(&scene.at("mine/top")), Code::Limit);
    }) else {
        return;
    };
    let user = testkit::disk::ORDINARY.to_string();
    let mut command = std::process::Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "--",
        "setpriv",
        "--reuid",
        &user,
        "--regid",
        &user,
    ]);
    stage.run_as_root(command.arg("--clear-groups").arg("--"), test);
    assert!(stage.mounts().is_empty(), "{:?}", stage.mounts());
    assert_eq!(stage.service.table().len(), 2, "nobody has looked");
    stage.run(testkit::disk::ORDINARY, test, &[]);
    testkit::disk::unmount_below(&stage.scene.dir);
}
