//! Requests of a user who means harm. Each is refused, nothing is mounted, and the service lives.

use std::{
    fs,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use mountd::{
    client::Error,
    wire::{Code, Request},
};
use rustix::fs::OFlags;
use testkit::disk::ORDINARY;

use crate::{
    scene::{
        OTHER, Scene, Stage, Stop, code as code_of, is_user, named, opened, play, play_with, readable, split,
    },
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
    let fifo = || opened(scene.at("mine/fifo"), OFlags::RDONLY | OFlags::NONBLOCK);
    let row = |what, at: PathBuf, files: Vec<OwnedFd>, code| {
        let (dir, name) = split(&at);
        (what, Request::Image { name }, std::iter::once(dir).chain(files).collect(), code)
    };
    let file = |what, files: Vec<OwnedFd>, code| row(what, scene.at("mine/files"), files, code);
    let place = |what, at: PathBuf, code| row(what, at, vec![image(), blob()], code);
    let proc = format!("/proc/{}/task", std::process::id());
    vec![
        ("nothing", Request::Image { name: b"files".to_vec() }, vec![], Code::Descriptor),
        file("no image", vec![], Code::Descriptor),
        file("no devices", vec![image()], Code::Image),
        file("too many devices", vec![image(), blob(), blob()], Code::Image),
        file(
            "an image without a right to read",
            vec![named(scene.at("mine/image")), blob()],
            Code::Descriptor,
        ),
        file(
            "an image to write",
            vec![opened(scene.at("mine/image"), OFlags::WRONLY), blob()],
            Code::Descriptor,
        ),
        file("a directory as image", vec![readable(scene.at("mine/dir")), blob()], Code::Descriptor),
        file("a pipe as image", vec![fifo(), blob()], Code::Descriptor),
        file("a device as image", vec![readable("/dev/zero"), blob()], Code::Descriptor),
        file("a file of the kernel as image", vec![readable("/proc/self/maps"), blob()], Code::FileSystem),
        file("a file that is no image", vec![readable(scene.at("mine/dir/file")), blob()], Code::Image),
        file("an image of root", vec![readable(scene.at("roots/image")), blob()], Code::Image),
        file("an image of another user", vec![readable(scene.at("theirs/image")), blob()], Code::Image),
        file("a blob without a right to read", vec![image(), named(scene.at("mine/blob"))], Code::Descriptor),
        file("a secret as blob", vec![image(), named("/etc/shadow")], Code::Descriptor),
        file("a pipe as blob", vec![image(), fifo()], Code::Descriptor),
        file("a device as blob", vec![image(), readable("/dev/zero")], Code::Descriptor),
        file("a blob in memory", vec![image(), readable("/proc/self/maps")], Code::FileSystem),
        file("a good image", vec![image(), blob()], Code::Done),
        place("a mount point of root", scene.at("roots/files"), Code::Owner),
        place("a mount point of another user", scene.at("theirs/files"), Code::Owner),
        place("a directory below the root directory", "/proc".into(), Code::Owner),
        place("a mount point with files", scene.at("mine/dir"), Code::MountPoint),
        place("a file as mount point", scene.at("mine/dir/file"), Code::Kernel),
        place("a link as mount point", scene.at("mine/link"), Code::Kernel),
        place("no mount point", scene.at("mine/absent"), Code::Kernel),
        place("a directory of the kernel", proc.into(), Code::FileSystem),
        place("a good place", scene.at("mine/top"), Code::Done),
    ]
}

fn overlays(scene: &Scene) -> Vec<Row> {
    let row = |what, at: &str, layers: &str, lower: &[&str], code| {
        let (dir, name) = split(&scene.at(at));
        let layers = [dir, named(scene.at(layers))];
        let lower = lower.iter().map(|path| named(scene.at(path)));
        let request = Request::Overlay { name, is_volatile: false };
        (what, request, layers.into_iter().chain(lower).collect(), code)
    };
    let place = |what, at, code| row(what, at, "mine", &["mine/dir"], code);
    let layers = |what, layers, code| row(what, "mine/top", layers, &["mine/dir"], code);
    let lower = |what, lower: &[&str], code| row(what, "mine/top", "mine", lower, code);
    let nothing = Request::Overlay { name: b"top".to_vec(), is_volatile: false };
    vec![
        ("nothing", nothing, vec![], Code::Descriptor),
        place("a mount point of root", "roots/top", Code::Owner),
        place("a mount point with files", "mine/dir", Code::MountPoint),
        layers("layers of root", "roots", Code::Owner),
        layers("layers of another user", "theirs", Code::Owner),
        layers("an upper layer of root", "mine/odd/upper", Code::Owner),
        layers("a work directory of root", "mine/odd/work", Code::Owner),
        layers("files of root in the work directory", "mine/odd/trap", Code::Kernel),
        layers("a directory without layers", "mine/dir", Code::Kernel),
        layers("links as layers", "mine/links", Code::Kernel),
        layers("a file with layers", "mine/blob", Code::Descriptor),
        layers("layers of the kernel", "/proc/self", Code::FileSystem),
        lower("no layers", &[], Code::Kernel),
        lower("the root directory below", &["/"], Code::Owner),
        lower("a directory of root below", &["roots/dir"], Code::Owner),
        lower("a directory of another user below", &["mine/dir", "theirs/dir"], Code::Owner),
        lower("the kernel below", &["/proc/self"], Code::FileSystem),
        lower("the upper layer below itself", &["mine/upper"], Code::Kernel),
        lower("good layers", &["mine/dir"], Code::Done),
    ]
}

fn others(scene: &Scene) -> Vec<Row> {
    let mine = |name: &str| named(scene.at("mine").join(name));
    vec![
        ("a Git directory of nothing", Request::Git, vec![], Code::Descriptor),
        (
            "a Git directory of root",
            Request::Git,
            vec![mine("top"), named(scene.at("roots/dir"))],
            Code::Owner,
        ),
        ("the root directory as Git directory", Request::Git, vec![mine("top"), named("/")], Code::Owner),
        ("a file as Git directory", Request::Git, vec![mine("top"), mine("blob")], Code::Descriptor),
        (
            "a Git directory of the kernel",
            Request::Git,
            vec![mine("top"), named("/proc/self")],
            Code::FileSystem,
        ),
        ("a Git directory in no overlay", Request::Git, vec![mine("top"), mine("dir")], Code::NoMount),
        ("unmount of nothing", unmount("files"), vec![], Code::Descriptor),
        ("unmount of a file system of the machine", unmount("proc"), vec![named("/")], Code::NoMount),
        ("unmount of no mount", unmount("files"), vec![mine("")], Code::NoMount),
        ("unmount of a name that is not there", unmount("nothing"), vec![mine("")], Code::Kernel),
        ("unmount in a file", unmount("x"), vec![mine("blob")], Code::Kernel),
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
        std::os::unix::fs::symlink(scene.at("roots/files"), scene.at("mine/link")).expect("a link");
        fs::create_dir(scene.at("mine/links")).expect("made");
        for name in ["upper", "work"] {
            std::os::unix::fs::symlink(scene.at("mine").join(name), scene.at("mine/links").join(name))
                .expect("a link");
        }
        let rows = [images(scene), overlays(scene), others(scene)];
        for (what, request, given, code) in rows.into_iter().flatten() {
            assert_eq!(scene.ask(&request, given), code, "{what}");
            let mounts = scene.mounts();
            assert_eq!(mounts.len(), usize::from(code == Code::Done), "{what}");
            for mount in mounts {
                assert_eq!(code_of(scene.service().unmount(&mount.point, false)), Code::Done, "{what}");
            }
        }
        // The service is as before.
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.unmount("mine/files"), Code::Done);
    }) else {
        return;
    };
    nothing_is_mounted(&mut stage);
    assert_eq!(stage.service.table(), Vec::<String>::new());
    let kept = fs::read_to_string(stage.scene.at("mine/odd/trap/work/work/sub/precious"));
    assert_eq!(kept.expect("the kernel did not empty it"), "root's\n");
}

#[test]
fn a_mount_of_root_and_of_another_user_stays() {
    let test = "hostile::a_mount_of_root_and_of_another_user_stays";
    let Some(stage) = play(test, &[], |scene| {
        if sys::user::effective_uid() == OTHER {
            // The other user has a mount, and knows the first one's directories.
            let (dir, name) = split(&scene.at("theirs/files"));
            let given = vec![dir, readable(scene.at("theirs/image")), readable(scene.at("theirs/blob"))];
            assert_eq!(scene.ask(&Request::Image { name }, given), Code::Done);
            assert_eq!(scene.unmount("mine/files"), Code::NoMount);
            return;
        }
        if scene.mounts().is_empty() {
            assert_eq!(scene.mount_image(), Code::Done);
            return;
        }
        assert_eq!(scene.unmount("theirs/files"), Code::NoMount);
        // Their files are no layer of the user's.
        let over = |lower: &str| {
            let (dir, name) = split(&scene.at("mine/top"));
            let given = vec![dir, named(scene.at("mine")), named(scene.at(lower))];
            scene.ask(&Request::Overlay { name, is_volatile: false }, given)
        };
        assert_eq!(over("theirs/files"), Code::Owner);
        assert_eq!(over("mine/files"), Code::Done);
        assert_eq!(scene.unmount("mine/top"), Code::Done);
        // Both see the same contents.
        for whose in ["mine", "theirs"] {
            let path = scene.at(whose).join("files/file");
            assert_eq!(fs::read_to_string(path).expect("read"), "content\n");
        }
    }) else {
        return;
    };
    stage.run(OTHER, test, &[]);
    stage.run(ORDINARY, test, &[]);
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

/// A mount of root's is not covered, also if the user owns what it shows. The user passes the
/// directory above, or the directory that it hides.
#[test]
fn a_mount_of_root_is_not_covered() {
    let test = "hostile::a_mount_of_root_is_not_covered";
    let Some(mut stage) = play(test, &[], |scene| {
        if scene.mounts().is_empty() {
            assert_eq!(scene.mount_image(), Code::Done);
            assert_eq!(scene.unmount("mine/files"), Code::Done);
            return;
        }
        let ask = |dir: OwnedFd, name: &str| {
            let given = vec![dir, readable(scene.at("mine/image")), readable(scene.at("mine/blob"))];
            scene.ask(&Request::Image { name: name.into() }, given)
        };
        assert_eq!(ask(named(scene.at("mine")), "files"), Code::MountPoint);
        assert_eq!(scene.unmount("mine/files"), Code::NoMount);
        // Below root's mount, a place is like any other.
        let below = std::io::stdin().as_fd().try_clone_to_owned().expect("open");
        assert_eq!(ask(below.try_clone().expect("open"), "in"), Code::Done);
        let ended = scene.ask(&unmount("in"), vec![below]);
        assert_eq!(ended, Code::Done);
    }) else {
        return;
    };
    let point = stage.scene.at("mine/files");
    fs::create_dir(point.join("in")).expect("made");
    std::os::unix::fs::chown(point.join("in"), Some(ORDINARY), Some(ORDINARY)).expect("root may");
    let below = fs::File::open(&point).expect("opened before it is covered");
    let options = format!("uid={ORDINARY},mode=755");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&point).status();
    assert!(mounted.expect("mount runs").success());
    stage.run_on(below.into(), ORDINARY, test, &[]);
    assert_eq!(stage.mounts().len(), 1, "{:?}", stage.mounts());
    nothing_is_mounted(&mut stage);
}

/// A program in a sandbox could leave it by a mount.
#[test]
fn a_sandbox_is_refused() {
    testkit::need_program("setpriv");
    let test = "hostile::a_sandbox_is_refused";
    let Some(stage) = play(test, &[], |scene| {
        let has_mark = fs::read_to_string("/proc/self/status").expect("read").contains("NoNewPrivs:\t1");
        let expected = if has_mark { Code::Sandbox } else { Code::Done };
        assert_eq!(scene.ask(&Request::Hello, vec![]), expected);
        assert_eq!(scene.mount_image(), expected);
        assert_eq!(scene.mounts().len(), usize::from(!has_mark));
        if !has_mark {
            assert_eq!(scene.unmount("mine/files"), Code::Done);
        }
    }) else {
        return;
    };
    stage.run(ORDINARY, test, &["setpriv", "--no-new-privs", "--"]);
}

/// An answer does not depend on a name that the user cannot look up.
#[test]
fn an_unmount_tells_nothing_about_directories_of_root() {
    let test = "hostile::an_unmount_tells_nothing_about_directories_of_root";
    let Some(stage) = play(test, &[], |scene| {
        if !scene.at("roots/closed").exists() {
            return;
        }
        let answer =
            |dir: &str, name: &str| match scene.service().call(&unmount(name), &[named(scene.at(dir))]) {
                Err(Error::Refused(answer)) => (answer.code, answer.errno),
                other => panic!("{other:?}"),
            };
        assert_eq!(answer("roots/closed", "there"), answer("roots/closed", "absent"));
        // Where the user may look, the answers differ.
        assert_ne!(answer("mine", "files"), answer("mine", "absent"));
    }) else {
        return;
    };
    let closed = stage.scene.at("roots/closed");
    fs::create_dir_all(closed.join("there")).expect("made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("it is root's");
    stage.run(ORDINARY, test, &[]);
}

/// A Git directory that contains its own overlay, on a mount whose mounts appear elsewhere, is
/// shown once, and a mount in it appears once.
#[test]
fn a_git_directory_multiplies_no_mounts() {
    let test = "hostile::a_git_directory_multiplies_no_mounts";
    let Some(stage) = play(test, &[], |scene| {
        if scene.mounts().is_empty() {
            return;
        }
        fs::create_dir(scene.at("mine/upper/.git")).expect("made");
        assert_eq!(scene.mount_image(), Code::Done);
        assert_eq!(scene.mount_overlay(), Code::Done);
        let (top, mine) = (scene.at("mine/top"), scene.at("mine"));
        let git = || scene.ask(&Request::Git, vec![named(&top), named(&mine)]);
        assert_eq!(git(), Code::Done);
        // One mount of root's, and three of the service.
        assert_eq!(scene.mounts().len(), 4, "{:?}", scene.mounts());
        assert!(top.join(".git/image").exists());
        for _ in 0..20 {
            assert_eq!(git(), Code::MountPoint);
        }
        let (other, place) = (scene.at("mine/other"), top.join(".git/other"));
        fs::create_dir(&other).expect("made");
        assert_eq!(scene.ask_image(&other), Code::Done);
        assert!(other.join("file").exists() && !place.join("file").exists());
        assert_eq!(scene.mounts().len(), 5, "{:?}", scene.mounts());
        for name in ["mine/other", "mine/top/.git", "mine/top", "mine/files"] {
            assert_eq!(scene.unmount(name), Code::Done, "{name}");
        }
    }) else {
        return;
    };
    let dir = &stage.scene.dir;
    for args in [vec!["--bind".as_ref(), dir.as_os_str()], vec!["--make-shared".as_ref()]] {
        assert!(Command::new("mount").args(args).arg(dir).status().expect("mount runs").success());
    }
    stage.run(ORDINARY, test, &[]);
    assert_eq!(stage.mounts().len(), 1, "{:?}", stage.mounts());
}

#[test]
fn root_is_refused() {
    let Some(mut stage) = play("hostile::root_is_refused", &[], |_| {}) else { return };
    assert_eq!(stage.scene.ask(&Request::Hello, vec![]), Code::Root);
    nothing_is_mounted(&mut stage);
}
