//! Bases that machines share, over a directory: what a host gets is what Git makes of the commit.

mod faults;
mod hostile;
mod prune;
mod servers;
mod transfer;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::AtomicBool},
};

use base_store::{Address, Remote};
use bstr::{BString, ByteSlice as _};
use engine::{
    base_transfer::{
        self, Context, Error, Progress,
        pull::{self, State},
        push,
    },
    crew::Workers,
    workspace::base::{AddOptions, Base, Bases, Kind, Owner, Wanted},
};
use format::{HashKind, ObjectId};
use repo::{OpenOptions, Repository};
use store::LockOptions;
use testkit::{ErofsImage, Repo, Sandbox, disk::NoMountsBelow, noise};

use crate::place;

/// A machine: its repository and its base directory.
struct Host {
    repository: PathBuf,
    bases: Bases,
    /// On a disk from which the kernel mounts images.
    _place: Option<tempfile::TempDir>,
    connections: usize,
    interrupt: AtomicBool,
}

impl Host {
    fn at(repository: PathBuf) -> Host {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for tests");
        let bases = Bases::at(&place.path().join("bases"));
        Host { bases, _place: Some(place), ..Host::with_bases(repository, Bases::at(Path::new("/"))) }
    }

    fn with_bases(repository: PathBuf, bases: Bases) -> Host {
        Host { repository, bases, _place: None, connections: 4, interrupt: AtomicBool::new(false) }
    }

    /// Makes a repository that has nothing but the address of a promisor remote.
    fn new(sandbox: &Sandbox, name: &str) -> Host {
        let repo = sandbox.init(name);
        for (key, value) in [
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.url", "../source"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.partialCloneFilter", "blob:none"),
        ] {
            repo.git(&["config", key, value]);
        }
        Host::at(repo.path)
    }

    fn open(&self) -> Repository {
        let options = OpenOptions { cwd: self.repository.clone(), ..OpenOptions::default() };
        Repository::open(&options).expect("a repository")
    }

    fn with<T>(
        &self,
        remote: &Remote,
        progress: &(dyn Fn(Progress) + Sync),
        work: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        work(&Context {
            repo: &self.open(),
            remote,
            bases: &self.bases,
            fsync: &place::UNSYNCED,
            locks: &LockOptions::default(),
            workers: Workers::Fixed(2),
            connections: self.connections,
            interrupt: &self.interrupt,
            progress,
        })
    }

    fn push(&self, remote: &Remote, commit: ObjectId, options: &push::Options<'_>) -> push::Report {
        self.with(remote, &|_| {}, |context| push::push(context, commit, options)).expect("pushed")
    }

    /// Pulls a base and builds it.
    fn pull(&self, remote: &Remote, commit: ObjectId) -> Result<(Base, pull::Report), Error> {
        self.pull_with(remote, commit, &pull::Options::default(), &|_| {})
    }

    fn pull_with(
        &self,
        remote: &Remote,
        commit: ObjectId,
        options: &pull::Options<'_>,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<(Base, pull::Report), Error> {
        self.with(remote, progress, |context| {
            let pulled = pull::pull(context, commit, options)?;
            let opened = self.open();
            let (kind, owner) = (Kind::Image, Owner::of_process());
            let wanted = Wanted::new(&opened, pulled.manifest.tree, kind, owner, options.sparse)?;
            let add = AddOptions {
                interrupt: &self.interrupt,
                fsync: context.fsync,
                shared: context.locks.shared,
                ..place::add_options()
            };
            let base = match pulled.state {
                State::Base(base) => *base,
                State::Contents(importer) => importer.add_base(&wanted, &add, &mut Vec::new())?,
            };
            Ok((base, pulled.report))
        })
    }
}

fn remote_at(path: &Path) -> Remote {
    let _ = fs::create_dir(path);
    let options = base_store::Options::new(&|_| None, Arc::new(AtomicBool::new(false)));
    Remote::open(Address::Directory(path.to_owned()), &options).expect("a directory")
}

fn remote_in(sandbox: &Sandbox) -> Remote {
    remote_at(&sandbox.path().join("remote"))
}

/// A repository whose files link, are converted, repeat, and have all sizes.
fn project<'s>(sandbox: &'s Sandbox) -> Repo<'s> {
    let repo = sandbox.init("source");
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    repo.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    repo.write(".gitattributes", "*.crlf eol=crlf\n");
    repo.write("a/text.crlf", "one\ntwo\n");
    repo.write("empty", "");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("a/b", "link");
    repo.write("a/b/same", "twice");
    repo.write("same", "twice");
    repo.write("medium", noise(5 << 20, 1));
    repo.write("large", noise(40 << 20, 2));
    for number in 0..600 {
        repo.write(format!("many/{}/file{number}", number % 7), format!("{number}\n").repeat(number));
    }
    repo.write("module/x", "");
    repo.commit("one");
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    let entry = format!("160000,{},sub", head.trim().as_bstr());
    repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
    repo.git(&["commit", "-q", "-m", "two"]);
    repo
}

/// Changes some files and commits.
fn change(repo: &Repo<'_>, count: usize, round: usize) -> ObjectId {
    for number in 0..count {
        repo.write(format!("many/{}/file{number}", number % 7), format!("{round} {number}\n"));
    }
    repo.git(&["commit", "-q", "-a", "-m", &format!("round {round}")]);
    commit(repo, "HEAD")
}

fn commit(repo: &Repo<'_>, name: &str) -> ObjectId {
    place::oid(repo, &format!("{name}^{{commit}}"))
}

/// Everything below a directory: permissions and content.
fn files(root: &Path) -> BTreeMap<BString, (u32, Vec<u8>)> {
    let (mut found, mut left) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            let stat = fs::symlink_metadata(&path).expect("examined");
            let content = if stat.is_symlink() {
                fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec()
            } else if stat.is_dir() {
                left.push(path.clone());
                continue;
            } else {
                fs::read(&path).expect("read")
            };
            let relative = path.strip_prefix(root).expect("below").as_os_str().as_bytes();
            let executable = stat.permissions().mode() & 0o111;
            found.insert(relative.into(), (executable, content));
        }
    }
    found
}

/// Compares a base with `git archive` of the source, the repository with `git ls-tree`, and checks
/// it with `git fsck`.
fn check(source: &Repo<'_>, host: &Host, base: &Base, commit: ObjectId) {
    let hex = commit.to_string();
    let host_git = |args: &[&str]| {
        let ran = source.git_command().current_dir(&host.repository).args(args).output().expect("git runs");
        assert!(ran.status.success(), "git {args:?}: {}", ran.stderr.as_bstr());
        ran
    };
    host_git(&["fsck", "--strict"]);
    let list = ["ls-tree", "-r", "-t", "--full-tree", &hex];
    assert_eq!(host_git(&list).stdout.as_bstr(), source.git(&list).stdout);
    host_git(&["log", "--format=%H %T", &hex]);
    assert_eq!(base.verify(None, 2).expect("read").flaws, []);
    let plain = tempfile::tempdir().expect("a directory for tests");
    let tar = plain.path().join("tar");
    source.git(&["archive", "-o", tar.to_str().expect("UTF-8"), &hex]);
    let expected = plain.path().join("files");
    fs::create_dir(&expected).expect("created");
    let unpacked = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&expected).status();
    assert!(unpacked.expect("tar runs").success());
    let _mounts = NoMountsBelow::new(&base.dir);
    let Some(_mounted) = ErofsImage::mount(&base.image(), &base.devices, &base.files()) else { return };
    let (found, expected) = (files(&base.files()), files(&expected));
    assert!(expected.len() > 500);
    let names = |files: &BTreeMap<BString, (u32, Vec<u8>)>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected));
    for (path, file) in &found {
        assert!(*file == expected[path], "{path} differs");
    }
}

/// Returns the data files of a remote with their sizes.
fn data(remote: &Remote) -> BTreeMap<PathBuf, u64> {
    let root = remote.directory().expect("a directory").join("data");
    let mut found = BTreeMap::new();
    for dir in fs::read_dir(&root).into_iter().flatten() {
        for file in fs::read_dir(dir.expect("an entry").path()).expect("listed") {
            let file = file.expect("an entry");
            found.insert(file.path(), file.metadata().expect("examined").len());
        }
    }
    found
}
