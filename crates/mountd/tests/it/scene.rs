//! A service, directories of users and of root, and a process of an ordinary user.

use std::{
    env, fs,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt as _,
            fs::{PermissionsExt as _, chown},
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use format::erofs::{
    Place,
    write::{Image, Options},
};
use mountd::{
    client::{Error, Overlay, Service},
    wire::{Code, Request},
};
use rustix::fs::{Mode, OFlags, open};
use testkit::{
    disk::{NoMountsBelow, ORDINARY, ordinary_user_reaches},
    mount_service::MountService,
};

pub(crate) const OTHER: u32 = ORDINARY + 1;

/// The variable that tells a process that it is the user of a scene, and where that is.
const SCENE: &str = "SAPWOOD_TEST_SCENE";

/// The directories, as root and the user see them:
///
/// - `socket`: a link to the socket of the service;
/// - `mine/`: the user's; `image`, `blob`, `files/`, `upper/`, `work/`, `top/`, `dir/`;
/// - `mine/odd/`: layers that are not all the user's, see [`make_odd`];
/// - `theirs/`: the same of another user; `roots/`: the same of root, open to everybody.
pub(crate) struct Scene {
    pub(crate) dir: PathBuf,
}

/// Returns true in the process of a user.
pub(crate) fn is_user() -> bool {
    env::var_os(SCENE).is_some()
}

/// The part of the user's process.
pub(crate) type Act = fn(&Scene);

/// Plays a scene. `test` is the name of the calling test. Returns the service when the user's
/// process has ended, with its directories; `None` in the user's process, and if the test cannot
/// run here.
pub(crate) fn play(test: &str, options: &[&str], act: Act) -> Option<Stage> {
    play_with(test, options, &[], act)
}

/// Like [`play`]. `wrapper` is a program with arguments that runs the user's process.
pub(crate) fn play_with(test: &str, options: &[&str], wrapper: &[&str], act: Act) -> Option<Stage> {
    if let Some(dir) = env::var_os(SCENE) {
        act(&Scene { dir: dir.into() });
        return None;
    }
    let stage = Stage::new(options)?;
    stage.run(ORDINARY, test, wrapper);
    Some(stage)
}

/// A scene as root sees it.
pub(crate) struct Stage {
    pub(crate) service: MountService,
    pub(crate) scene: Scene,
    _mounts: NoMountsBelow,
    _dir: tempfile::TempDir,
}

impl Stage {
    fn new(options: &[&str]) -> Option<Stage> {
        if sys::user::effective_uid() != 0 {
            println!("skipped: only root can start the service");
            return None;
        }
        let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::Builder::new().prefix("scene-").tempdir_in(disk).expect("a directory on a disk");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let program = env::current_exe().expect("it runs");
        if ![dir.path(), &program].into_iter().all(ordinary_user_reaches) {
            println!("skipped: an ordinary user cannot reach the directories of tests");
            return None;
        }
        let scene = Scene { dir: dir.path().to_owned() };
        for (name, uid) in [("mine", ORDINARY), ("theirs", OTHER), ("roots", 0)] {
            furnish(&scene.dir.join(name), uid);
        }
        make_odd(&scene.dir.join("mine/odd"));
        let service = MountService::start(Path::new(env!("CARGO_BIN_EXE_sapwood-mountd")), disk, options);
        std::os::unix::fs::symlink(service.socket(), scene.dir.join("socket")).expect("a link");
        Some(Stage { service, _mounts: NoMountsBelow::new(&scene.dir), scene, _dir: dir })
    }

    /// Runs the act of a test in a process of this user.
    pub(crate) fn run(&self, uid: u32, test: &str, wrapper: &[&str]) {
        self.run_on(Stdio::null(), uid, test, wrapper);
    }

    /// Like [`Stage::run`]. The process has `input` open.
    pub(crate) fn run_on(&self, input: Stdio, uid: u32, test: &str, wrapper: &[&str]) {
        let program = env::current_exe().expect("it runs");
        let mut words = wrapper.iter().map(|word| (*word).into()).chain([program.into_os_string()]);
        let mut command = Command::new(words.next().expect("the program at least"));
        command.args(words).args(["--exact", test, "--nocapture"]).env(SCENE, &self.scene.dir);
        command.uid(uid).gid(uid).stdin(input);
        self.finish(&mut command);
    }

    /// Runs the act of a test by a program of root with arguments, which becomes the user.
    pub(crate) fn run_as_root(&self, wrapper: &mut Command, test: &str) {
        let program = env::current_exe().expect("it runs");
        wrapper.arg(program).args(["--exact", test, "--nocapture"]).env(SCENE, &self.scene.dir);
        self.finish(wrapper);
    }

    fn finish(&self, command: &mut Command) {
        let output = command.current_dir("/").output();
        let output = output.expect("it can be run");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{}\n{}\nservice: {}", said[0], said[1], self.service.log());
        assert!(said[0].contains("1 passed"), "no such test: {}", said[0]);
    }

    /// Returns the mounts below the scene.
    pub(crate) fn mounts(&self) -> Vec<sys::Mount> {
        self.scene.mounts()
    }
}

/// Makes the directories of a user.
fn furnish(dir: &Path, uid: u32) {
    for name in ["files", "upper", "work", "top", "dir"] {
        fs::create_dir_all(dir.join(name)).expect("a new directory");
    }
    fs::write(dir.join("dir/file"), "a file\n").expect("written");
    fs::write(dir.join("blob"), blob()).expect("written");
    fs::write(dir.join("image"), image(uid, 0o644)).expect("written");
    for path in ["", "files", "upper", "work", "top", "dir", "dir/file", "blob", "image"] {
        chown(dir.join(path), Some(uid), Some(uid)).expect("root may");
    }
}

/// Makes directories with an upper layer and a work directory. In `upper` and `work`, root owns the
/// one of that name. In `trap`, files of root lie where the kernel empties the work directory.
fn make_odd(odd: &Path) {
    for name in ["upper", "work", "trap"] {
        for layer in ["upper", "work"] {
            let path = odd.join(name).join(layer);
            fs::create_dir_all(&path).expect("a new directory");
            if layer != name {
                chown(&path, Some(ORDINARY), Some(ORDINARY)).expect("root may");
            }
        }
        chown(odd.join(name), Some(ORDINARY), Some(ORDINARY)).expect("root may");
    }
    fs::create_dir_all(odd.join("trap/work/work/sub")).expect("a new directory");
    fs::write(odd.join("trap/work/work/sub/precious"), "root's\n").expect("written");
    chown(odd, Some(ORDINARY), Some(ORDINARY)).expect("root may");
}

/// A guard that ends a loop of another thread, also after a panic.
pub(crate) struct Stop<'s>(pub(crate) &'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn blob() -> Vec<u8> {
    let mut bytes = b"content\n".to_vec();
    bytes.resize(BLOCKS as usize * 4096, 0);
    bytes
}

/// The blocks of the blob.
const BLOCKS: u32 = 4;

/// Returns an image with some files of this owner. `permissions` are those of `file`.
pub(crate) fn image(uid: u32, permissions: u16) -> Vec<u8> {
    image_with(uid, permissions, 9)
}

/// Like [`image`], with blocks of another size.
pub(crate) fn image_with(uid: u32, permissions: u16, block_bits: u32) -> Vec<u8> {
    let (uuid, time, devices) = ([7; 16], (1_300_000_000, 0), vec![BLOCKS]);
    let options = Options { block_bits, uuid, time, uid, gid: uid, devices };
    let mut image = Image::new(options, 0o755);
    let place = Some(Place { device: 0, block: 0 });
    let dir = image.add_directory(0, "dir".into(), 0o755).expect("added");
    image.add_file(dir, "deep".into(), 0o644, 8, place).expect("added");
    image.add_file(dir, "gone".into(), 0o644, 8, place).expect("added");
    image.add_file(0, "file".into(), permissions, 8, place).expect("added");
    image.add_symlink(0, "link".into(), "file".into()).expect("added");
    let mut bytes = Vec::new();
    let emitted: Result<(), std::convert::Infallible> =
        image.lay_out().expect("laid out").emit(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
    emitted.expect("a vector takes everything");
    bytes
}

impl Scene {
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    pub(crate) fn service(&self) -> Service {
        let socket = fs::read_link(self.at("socket")).expect("a link");
        Service::connect(&socket).expect("it listens")
    }

    /// Sends a request. Returns its outcome.
    pub(crate) fn ask(&self, request: &Request, descriptors: Vec<OwnedFd>) -> Code {
        code(self.service().call(request, &descriptors))
    }

    /// Asks to mount the user's image at `place`.
    pub(crate) fn ask_image(&self, place: &Path) -> Code {
        let (dir, name) = split(place);
        let given = vec![dir, readable(self.at("mine/image")), readable(self.at("mine/blob"))];
        self.ask(&Request::Image { name }, given)
    }

    pub(crate) fn mount_image(&self) -> Code {
        code(self.service().mount_image(
            &self.at("mine/image"),
            &[self.at("mine/blob")],
            &self.at("mine/files"),
        ))
    }

    pub(crate) fn mount_overlay(&self) -> Code {
        let [top, layers, files] = ["top", "", "files"].map(|name| self.at("mine").join(name));
        let lower = vec![files.as_path()];
        let overlay = Overlay { top: &top, layers: &layers, lower, is_volatile: true };
        code(self.service().mount_overlay(&overlay))
    }

    pub(crate) fn unmount(&self, path: &str) -> Code {
        code(self.service().unmount(&self.at(path), false))
    }

    pub(crate) fn mounts(&self) -> Vec<sys::Mount> {
        let all = sys::mounts().expect("readable").into_iter();
        all.filter(|mount| mount.point.starts_with(&self.dir)).collect()
    }
}

/// Returns the directory above a path, and its last component.
pub(crate) fn split(place: &Path) -> (OwnedFd, Vec<u8>) {
    let name = place.file_name().expect("a name").as_bytes().to_vec();
    (named(place.parent().expect("it has a name")), name)
}

pub(crate) fn code(answer: Result<(), Error>) -> Code {
    match answer {
        Ok(()) => Code::Done,
        Err(Error::Refused(answer)) => answer.code,
        Err(other) => panic!("{other}"),
    }
}

/// Opens a path to name it, without a right to read it.
pub(crate) fn named(path: impl AsRef<Path>) -> OwnedFd {
    opened(path, OFlags::PATH)
}

pub(crate) fn opened(path: impl AsRef<Path>, flags: OFlags) -> OwnedFd {
    let path = path.as_ref();
    open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .unwrap_or_else(|errno| panic!("{}: {errno}", path.display()))
}

pub(crate) fn readable(path: impl AsRef<Path>) -> OwnedFd {
    opened(path, OFlags::RDONLY)
}
