//! A scratch directory with the layers of one workspace, and the helper processes.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
};

use engine::workspace::{
    backend::{self, Backend, Busy, Error, Layers, Mounted, Programs, Site, holder},
    base::{Base, Kind},
    record::Durability,
};
use format::{HashKind, ObjectId};
use tempfile::TempDir;

/// A user without privileges.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) fn is_root() -> bool {
    sys::user::effective_uid() == 0
}

/// The layers of a workspace in a scratch directory.
pub(crate) struct Place {
    pub(crate) layers: Layers,
    root: TempDir,
    /// The directory of the base image, for a base of kind image.
    image: Option<TempDir>,
    /// The directories in which programs are searched, if not those of `PATH`.
    pub(crate) search: Option<Vec<PathBuf>>,
}

impl Place {
    /// Creates empty layers, and a base with some files and directories.
    pub(crate) fn new() -> Place {
        let root = tempfile::Builder::new().prefix("sapwood-mounts-").tempdir().expect("made");
        Place::make(root)
    }

    /// Like [`Place::new`], in a directory below `above`.
    pub(crate) fn below(above: &Path) -> Place {
        Place::make(tempfile::Builder::new().prefix("place-").tempdir_in(above).expect("made"))
    }

    fn make(root: TempDir) -> Place {
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let layers = layers(root.path());
        for dir in [
            &layers.site.upper,
            &layers.site.work,
            &layers.site.top,
            &layers.site.state,
            &layers.base.files(),
        ] {
            fs::create_dir_all(dir).expect("made");
        }
        let files = layers.base.files();
        for dir in ["dir/sub", "other", "deep/a/b/c"] {
            fs::create_dir_all(files.join(dir)).expect("made");
        }
        for file in ["file", "two", "dir/one", "dir/sub/two", "other/three", "deep/a/b/c/four"] {
            fs::write(files.join(file), format!("content of {file}\n")).expect("written");
        }
        std::os::unix::fs::symlink("file", files.join("link")).expect("made");
        fs::hard_link(files.join("two"), files.join("second name of two")).expect("made");
        Place { layers, root, image: None, search: None }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn top(&self, path: &str) -> PathBuf {
        self.layers.site.top.join(path)
    }

    /// Converts the base to an EROFS image whose contents are in an extra device.
    ///
    /// It is created in Cargo's target directory, because the kernel mounts no image file on tmpfs.
    pub(crate) fn with_image(mut self) -> Place {
        let dir =
            tempfile::Builder::new().prefix("mounts-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("made");
        let base = &mut self.layers.base;
        let files = std::mem::replace(&mut base.dir, dir.path().to_owned()).join("files");
        let blobs = base.dir.join("blobs");
        testkit::need_program("mkfs.erofs");
        let mut make = Command::new("mkfs.erofs");
        // With chunks, the contents are stored in the extra device.
        make.args(["--quiet", "--chunksize=4096"]).arg(format!("--blobdev={}", blobs.display()));
        let made = make.arg(base.image()).arg(files).output().expect("mkfs.erofs can be run");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        fs::create_dir(base.files()).expect("made");
        base.kind = Kind::Image;
        base.devices = vec![blobs];
        self.image = Some(dir);
        self
    }

    /// Adds a file of three blocks to the base.
    pub(crate) fn with_file(self, name: &str) -> Place {
        fs::write(self.layers.base.files().join(name), content()).expect("written");
        self
    }

    /// Changes the owner of all files to an unprivileged user.
    pub(crate) fn of_nobody(self) -> Place {
        fn give(path: &Path) {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).expect("given");
            if path.symlink_metadata().expect("there").is_dir() {
                fs::read_dir(path).expect("listed").for_each(|entry| give(&entry.expect("read").path()));
            }
        }
        give(self.root());
        chown(self.root(), Some(NOBODY), Some(NOBODY)).expect("given");
        self
    }

    pub(crate) fn mount(&self, backend: Backend) -> Result<Mounted, Error> {
        let mut programs = programs(self.root());
        if let Some(search) = &self.search {
            programs.search.clone_from(search);
        }
        backend::mount(backend, &self.layers, &programs)
    }

    pub(crate) fn unmount(&self, backend: Backend) -> Result<(), Error> {
        self.release(backend, Busy::Refuse)
    }

    pub(crate) fn release(&self, backend: Backend, busy: Busy) -> Result<(), Error> {
        backend::unmount(backend, &self.layers.site, busy)
    }

    pub(crate) fn state(&self, backend: Backend) -> Mounted {
        backend::state(backend, &self.layers.site).expect("it is known")
    }

    /// Returns the command line of this program as a helper for this place.
    pub(crate) fn helper(&self, words: &[&str]) -> Command {
        let mut command = Command::new(own_program());
        command.arg("helper").arg(words[0]).arg(self.root()).args(&words[1..]);
        command
    }

    /// Runs a helper as `uid` and returns its output.
    pub(crate) fn run_as(&self, uid: u32, words: &[&str]) -> Output {
        let helper = self.helper(words);
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={uid}")).arg("--clear-groups");
        command.arg(helper.get_program()).args(helper.get_args()).current_dir("/");
        let output = command.output().expect("setpriv can be run");
        let _ = std::io::stderr().write_all(&output.stderr);
        output
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The holder exits when its marker is removed.
        let _ = fs::remove_dir_all(&self.layers.site.state);
        let roots = [Some(&self.root), self.image.as_ref()].into_iter().flatten();
        let roots: Vec<PathBuf> =
            roots.map(|root| root.path().canonicalize().unwrap_or_else(|_| root.path().to_owned())).collect();
        let is_ours = |mount: &&sys::Mount| roots.iter().any(|root| mount.point.starts_with(root));
        let mounts = sys::mounts().unwrap_or_default();
        for mount in mounts.iter().rev().filter(is_ours) {
            let _ = sys::mount::unmount(&mount.point, sys::mount::Unmount::Lazy);
        }
    }
}

/// Returns the content of a file of three blocks, without a zero.
pub(crate) fn content() -> Vec<u8> {
    (0..3 * 4096).map(|at| (at % 251) as u8 + 1).collect()
}

/// Returns the layers below `root`.
fn layers(root: &Path) -> Layers {
    let base = Base {
        dir: root.join("base"),
        name: "base".to_owned(),
        kind: Kind::Directory,
        tree: ObjectId::null(HashKind::Sha1),
        shared_index: ObjectId::null(HashKind::Sha1),
        devices: Vec::new(),
        contents: None,
        owner: None,
        view: None,
        pending: None,
        parent: None,
    };
    let at = |name: &str| root.join(name);
    let durability = if at("volatile").exists() { Durability::Volatile } else { Durability::Synced };
    Layers {
        base,
        frozen: Vec::new(),
        site: Site {
            upper: at("upper"),
            work: at("work"),
            top: at("top"),
            state: at("state"),
            git: None,
            door: Default::default(),
        },
        durability,
    }
}

/// Returns the programs of the place in `root`.
pub(crate) fn programs(root: &Path) -> Programs {
    let holder = holder::Program {
        program: own_program(),
        argv0: "holder".into(),
        args: vec!["helper".into(), "hold".into(), root.into()],
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    Programs { holder: Some(holder), search: std::env::split_paths(&path).collect() }
}

fn own_program() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// Runs a helper: `helper WORD ROOT ...`. Returns `None` for other command lines.
pub(crate) fn helper(words: &[&str]) -> Option<ExitCode> {
    let ["helper", word, root, rest @ ..] = words else { return None };
    if *word == "promise-here" {
        crate::promises::run(root, rest[0]);
        return Some(ExitCode::SUCCESS);
    }
    let layers = layers(Path::new(root));
    let programs = programs(Path::new(root));
    let done = match *word {
        "hold" => holder::hold(&layers, std::io::stdout()),
        "mount" => backend::mount(backend_of(rest[0]), &layers, &programs).map(|found| println!("{found:?}")),
        "unmount" => backend::unmount(backend_of(rest[0]), &layers.site, Busy::Refuse),
        "state" => backend::state(backend_of(rest[0]), &layers.site).map(|found| println!("{found:?}")),
        "inside" => holder::join(backend_of(rest[0]), &layers.site, Path::new("")).map(|()| {
            let status = Command::new("sh").arg("-c").arg(rest[1]).status().expect("sh can be run");
            assert!(status.success(), "{}", rest[1]);
        }),
        "promise" => holder::join(backend_of(rest[0]), &layers.site, Path::new("")).map(|()| {
            crate::promises::run(rest[1], rest[0]);
        }),
        _ => panic!("no helper {word}"),
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    })
}

fn backend_of(name: &str) -> Backend {
    Backend::from_name(name.as_bytes()).expect("a backend")
}
