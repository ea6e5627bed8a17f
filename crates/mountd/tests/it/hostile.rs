//! Requests of a user who means harm. Each is refused, nothing is mounted, and the service lives.

use std::{
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use mountd::wire::{Code, Request};
use rustix::fs::OFlags;

use crate::{
    scene::{OTHER, Scene, Stage, Stop, is_user, named, opened, play, play_with, readable},
    silent::{answer, connected},
};

/// A request, the descriptors, and the refusal.
type Row = (&'static str, Request, Vec<OwnedFd>, Code);

fn unmount(name: &str) -> Request {
    Request::Unmount { name: name.into(), is_lazy: false }
}

/// Returns the requests for an image. The devices of a good one are one blob.
fn images(scene: &Scene) -> Vec<Row> {
    let image = || readable(scene.at("mine/image"));
    let blob = || readable(scene.at("mine/blob"));
    let files = || named(scene.at("mine/files"));
    let fifo = || opened(scene.at("mine/fifo"), OFlags::RDONLY | OFlags::NONBLOCK);
    let proc = format!("/proc/{}/task", std::process::id());
    let row = |what, given, code| (what, Request::Image, given, code);
    vec![
        row("nothing", vec![], Code::Descriptor),
        row("no mount point", vec![image()], Code::Descriptor),
        row("no devices", vec![image(), files()], Code::Image),
        row("too many devices", vec![image(), files(), blob(), blob()], Code::Image),
        row(
            "an image without a right to read",
            vec![named(scene.at("mine/image")), files(), blob()],
            Code::Descriptor,
        ),
        row(
            "an image to write",
            vec![opened(scene.at("mine/image"), OFlags::WRONLY), files(), blob()],
            Code::Descriptor,
        ),
        row("a directory as image", vec![readable(scene.at("mine/dir")), files(), blob()], Code::Descriptor),
        row("a pipe as image", vec![fifo(), files(), blob()], Code::Descriptor),
        row("a device as image", vec![readable("/dev/zero"), files(), blob()], Code::Descriptor),
        row(
            "a file of the kernel as image",
            vec![readable("/proc/self/maps"), files(), blob()],
            Code::FileSystem,
        ),
        row("no image", vec![readable(scene.at("mine/dir/file")), files(), blob()], Code::Image),
        row("an image of root", vec![readable(scene.at("roots/image")), files(), blob()], Code::Image),
        row(
            "an image of another user",
            vec![readable(scene.at("theirs/image")), files(), blob()],
            Code::Image,
        ),
        row(
            "a blob without a right to read",
            vec![image(), files(), named(scene.at("mine/blob"))],
            Code::Descriptor,
        ),
        row("a secret as blob", vec![image(), files(), named("/etc/shadow")], Code::Descriptor),
        row("a pipe as blob", vec![image(), files(), fifo()], Code::Descriptor),
        row("a device as blob", vec![image(), files(), readable("/dev/zero")], Code::Descriptor),
        row("a blob in memory", vec![image(), files(), readable("/proc/self/maps")], Code::FileSystem),
        row("a mount point of root", vec![image(), named(scene.at("roots/files")), blob()], Code::Owner),
        row(
            "a mount point of another user",
            vec![image(), named(scene.at("theirs/files")), blob()],
            Code::Owner,
        ),
        row("the root directory", vec![image(), named("/"), blob()], Code::Owner),
        row("a mount point with files", vec![image(), named(scene.at("mine/dir")), blob()], Code::MountPoint),
        row(
            "a file as mount point",
            vec![image(), named(scene.at("mine/dir/file")), blob()],
            Code::Descriptor,
        ),
        row("a directory of the kernel", vec![image(), named(proc), blob()], Code::FileSystem),
    ]
}

fn overlays(scene: &Scene) -> Vec<Row> {
    let mine = |name: &str| named(scene.at("mine").join(name));
    let row = |what, given, code| (what, Request::Overlay { is_volatile: false }, given, code);
    let with = |place: usize, path: &Path| {
        let mut given = vec![mine("top"), mine("upper"), mine("work"), mine("dir")];
        given[place] = named(path);
        given
    };
    vec![
        row("nothing", vec![], Code::Descriptor),
        row("no layers", vec![mine("top"), mine("upper"), mine("work")], Code::Kernel),
        row("a mount point of root", with(0, &scene.at("roots/top")), Code::Owner),
        row("a mount point with files", with(0, &scene.at("mine/dir")), Code::MountPoint),
        row("an upper layer of root", with(1, &scene.at("roots/upper")), Code::Owner),
        row("an upper layer of another user", with(1, &scene.at("theirs/upper")), Code::Owner),
        row("an upper layer that is a file", with(1, &scene.at("mine/blob")), Code::Descriptor),
        row("an upper layer of the kernel", with(1, Path::new("/proc/self")), Code::FileSystem),
        row("a work directory of root", with(2, &scene.at("roots/work")), Code::Owner),
        row("a work directory elsewhere", with(2, Path::new("/proc/self")), Code::FileSystem),
        row("the root directory below", with(3, Path::new("/")), Code::Owner),
        row("a directory of root below", with(3, &scene.at("roots/dir")), Code::Owner),
        row("a directory of another user below", with(3, &scene.at("theirs/dir")), Code::Owner),
        row("the kernel below", with(3, Path::new("/proc/self")), Code::FileSystem),
        row("the upper layer below itself", with(3, &scene.at("mine/upper")), Code::Kernel),
        row(
            "one directory as upper layer and work directory",
            with(2, &scene.at("mine/upper")),
            Code::Kernel,
        ),
    ]
}

fn others(scene: &Scene) -> Vec<Row> {
    let mine = |name: &str| named(scene.at("mine").join(name));
    let bind = |what, given, code| (what, Request::Bind, given, code);
    vec![
        bind("nothing", vec![], Code::Descriptor),
        bind("the root directory", vec![mine("top"), named("/")], Code::Owner),
        bind("a directory of root", vec![mine("top"), named(scene.at("roots/dir"))], Code::Owner),
        bind("over a directory of root", vec![named(scene.at("roots/dir")), mine("dir")], Code::Owner),
        bind(
            "over a directory of another user",
            vec![named(scene.at("theirs/dir")), mine("dir")],
            Code::Owner,
        ),
        bind("over a directory of the kernel", vec![named("/proc/self"), mine("dir")], Code::FileSystem),
        bind("a file", vec![mine("top"), mine("blob")], Code::Descriptor),
        ("unmount of nothing", unmount("files"), vec![], Code::Descriptor),
        ("unmount of a file system of the machine", unmount("proc"), vec![named("/")], Code::NoMount),
        ("unmount of no mount", unmount("files"), vec![mine("")], Code::NoMount),
        ("unmount of a name that is not there", unmount("nothing"), vec![mine("")], Code::Kernel),
        ("unmount in a file", unmount("x"), vec![mine("blob")], Code::Kernel),
        ("unmount of what root mounted", unmount("tmp"), vec![mine("")], Code::NoMount),
    ]
}

fn nothing_is_mounted(stage: &mut Stage) {
    let left: Vec<_> = stage.mounts().into_iter().filter(|mount| mount.file_system != "tmpfs").collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(stage.service.is_alive());
}

#[test]
fn each_hostile_request_is_refused() {
    let Some(mut stage) = play("hostile::each_hostile_request_is_refused", &[], |scene| {
        let made = Command::new("mkfifo").arg(scene.at("mine/fifo")).status();
        assert!(made.expect("mkfifo runs").success());
        // Open for reading and writing, so that nobody waits.
        let _writer = opened(scene.at("mine/fifo"), OFlags::RDWR);
        fs::create_dir(scene.at("mine/tmp")).expect("made");
        let rows = [images(scene), overlays(scene), others(scene)];
        for (what, request, given, code) in rows.into_iter().flatten() {
            assert_eq!(scene.ask(&request, given), code, "{what}");
            assert_eq!(scene.mounts().len(), 0, "{what}");
        }
        // The service is as before.
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.unmount("mine/files"), Code::Done);
    }) else {
        return;
    };
    nothing_is_mounted(&mut stage);
    assert_eq!(stage.service.table(), Vec::<String>::new());
}

#[test]
fn a_mount_of_root_and_of_another_user_stays() {
    let test = "hostile::a_mount_of_root_and_of_another_user_stays";
    let Some(stage) = play(test, &[], |scene| {
        if sys::user::effective_uid() == OTHER {
            // The other user has a mount, and knows the first one's directories.
            let image = vec![readable(scene.at("theirs/image")), named(scene.at("theirs/files"))];
            let given = image.into_iter().chain([readable(scene.at("theirs/blob"))]).collect();
            assert_eq!(scene.ask(&Request::Image, given), Code::Done);
            assert_eq!(scene.unmount("mine/files"), Code::NoMount);
            return;
        }
        if scene.mounts().is_empty() {
            assert_eq!(scene.mount_image(), Code::Done);
            return;
        }
        assert_eq!(scene.unmount("theirs/files"), Code::NoMount);
        // Their files are no layer of the user's.
        let [top, upper, work] = ["top", "upper", "work"].map(|name| named(scene.at("mine").join(name)));
        let given = vec![top, upper, work, named(scene.at("theirs/files"))];
        assert_eq!(scene.ask(&Request::Overlay { is_volatile: false }, given), Code::Owner);
        // Both see the same contents.
        for whose in ["mine", "theirs"] {
            let path = scene.at(whose).join("files/file");
            assert_eq!(fs::read_to_string(path).expect("read"), "content\n");
        }
    }) else {
        return;
    };
    stage.run(OTHER, test, &[]);
    stage.run(testkit::disk::ORDINARY, test, &[]);
    assert_eq!(stage.mounts().len(), 2);
}

/// A user may exchange every path at any moment. The descriptors decide.
#[test]
fn exchanged_paths_lead_nowhere() {
    let Some(mut stage) = play("hostile::exchanged_paths_lead_nowhere", &[], |scene| {
        static STOP: AtomicBool = AtomicBool::new(false);
        let (files, spare, link) = (scene.at("mine/files"), scene.at("mine/spare"), scene.at("mine/link"));
        std::os::unix::fs::symlink(scene.at("roots/files"), &link).expect("a link");
        thread::scope(|scope| {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    // The directory and a link to one of root's take turns.
                    let _ = fs::rename(&files, &spare).and_then(|()| fs::rename(&link, &files));
                    let _ = fs::rename(&files, &link).and_then(|()| fs::rename(&spare, &files));
                }
            });
            let _stop = Stop(&STOP);
            for _ in 0..200 {
                let service = scene.service();
                let given = [scene.at("mine/blob")];
                let _ = service.mount_image(&scene.at("mine/image"), &given, &files);
                for name in ["mine/files", "mine/spare"] {
                    let _ = scene.service().unmount(&scene.at(name), true);
                }
                assert!(!scene.at("roots/files/file").exists());
            }
        });
        for name in ["mine/files", "mine/spare", "mine/link"] {
            let _ = scene.service().unmount(&scene.at(name), true);
        }
    }) else {
        return;
    };
    nothing_is_mounted(&mut stage);
}

#[test]
fn a_user_namespace_is_refused() {
    let wrapper = ["unshare", "--user", "--mount", "--map-root-user", "--"];
    let allowed = testkit::disk::as_ordinary_user(Command::new("unshare").args(["-U", "true"])).status();
    if !is_user() && !allowed.is_ok_and(|status| status.success()) {
        println!("skipped: an ordinary user has no user namespaces here");
        return;
    }
    let Some(mut stage) = play_with("hostile::a_user_namespace_is_refused", &[], &wrapper, |scene| {
        // Root has no name there, so the client of this crate trusts no service.
        assert_eq!(answer(&connected(scene)), Some(Code::Namespace as u32));
    }) else {
        return;
    };
    nothing_is_mounted(&mut stage);
}

/// The mount that lies over a user's directory may be one of root's. It is not covered.
#[test]
fn a_directory_below_a_mount_of_root_is_refused() {
    let test = "hostile::a_directory_below_a_mount_of_root_is_refused";
    let Some(mut stage) = play(test, &[], |scene| {
        if scene.mounts().is_empty() {
            return;
        }
        let below = std::io::stdin().as_fd().try_clone_to_owned().expect("open");
        let given = vec![readable(scene.at("mine/image")), below, readable(scene.at("mine/blob"))];
        assert_eq!(scene.ask(&Request::Image, given), Code::MountPoint);
    }) else {
        return;
    };
    let point = stage.scene.at("mine/files");
    let below = fs::File::open(&point).expect("opened before it is covered");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&point).status();
    assert!(mounted.expect("mount runs").success());
    stage.run_on(below.into(), testkit::disk::ORDINARY, test, &[]);
    assert_eq!(stage.mounts().len(), 1, "{:?}", stage.mounts());
    nothing_is_mounted(&mut stage);
}

#[test]
fn root_is_refused() {
    let Some(mut stage) = play("hostile::root_is_refused", &[], |_| {}) else { return };
    assert_eq!(stage.scene.ask(&Request::Hello, vec![]), Code::Root);
    nothing_is_mounted(&mut stage);
}
