//! `clone --base`: a clone that begins with a base, and takes what is newer from the server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::{Repo, Run, Sandbox, disk::NoMountsBelow};

use crate::{
    SAPWOOD,
    base::{FILES, files_below},
};

/// A server, a directory as remote, and directories for bases on a disk from which the kernel
/// mounts.
struct Fleet {
    // Dropped first: they unmount.
    _mounts: NoMountsBelow,
    _disk_mounts: NoMountsBelow,
    sandbox: Sandbox,
    disk: tempfile::TempDir,
}

impl Fleet {
    fn new() -> Fleet {
        let sandbox = Sandbox::new();
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
        let fleet = Fleet {
            _mounts: NoMountsBelow::new(&sandbox.path()),
            _disk_mounts: NoMountsBelow::new(disk.path()),
            sandbox,
            disk,
        };
        let origin = fleet.sandbox.init("origin");
        origin.write("file", "one\n");
        origin.write("dir/deep/file", "more\n");
        origin.write("dir/empty", "");
        origin.write_executable("run", "#!/bin/sh\n");
        origin.symlink("dir/deep", "link");
        origin.write("large", vec![b'l'; 3 << 20]);
        for number in 0..60 {
            origin.write(format!("many/{number}"), format!("content {number}\n").repeat(number));
        }
        origin.commit("one");
        origin.write("file", "two\n");
        origin.commit("two");
        origin.git(&["branch", "-M", "main"]);
        fs::create_dir(fleet.dir()).expect("a new directory");
        fleet
    }

    fn origin(&self) -> Repo<'_> {
        self.sandbox.repo("origin")
    }

    fn dir(&self) -> PathBuf {
        self.disk.path().canonicalize().expect("it exists").join("remote")
    }

    fn remote(&self) -> String {
        format!("file://{}", self.dir().display())
    }

    fn bases(&self, name: &str) -> PathBuf {
        self.disk.path().canonicalize().expect("it exists").join(format!("bases-{name}"))
    }

    fn commit(&self, name: &str) -> String {
        self.origin().git(&["rev-parse", name]).stdout.to_string().trim().to_owned()
    }

    /// The files of a checkout of the origin's commit.
    fn checkout(&self, commit: &str) -> String {
        let dir = self.sandbox.repo(&format!("checkout-{commit}"));
        if !dir.exists("") {
            let path = dir.path.to_str().expect("plain");
            self.origin().git(&["worktree", "add", "-q", "--detach", path, commit]);
        }
        files(&dir)
    }
}

/// A server that takes pushes and filters, whose branch is one commit ahead of its base.
fn fleet(push: &[&str]) -> Fleet {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    origin.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    sapwood(&origin, &[&["base", "push", "-q"], push, &[&fleet.remote()]].concat());
    fleet
}

fn advance(fleet: &Fleet) {
    fleet.origin().write("many/8", "eight\n");
    fleet.origin().write("new", "new\n");
    fleet.origin().commit("three");
}

/// Runs `sapwood clone` into the directory `name` of the sandbox.
fn clone(fleet: &Fleet, name: &str, args: &[&str]) -> Run {
    let url = format!("file://{}", fleet.origin().path.display());
    let bases = format!("sapwood.baseDir={}", fleet.bases(name).display());
    let dir = fleet.sandbox.path().join(name).display().to_string();
    fleet.origin().run(SAPWOOD.as_ref(), &[&["clone", "-c", &bases], args, &[&url, &dir]].concat())
}

#[track_caller]
fn cloned<'f>(fleet: &'f Fleet, name: &str, args: &[&str]) -> Repo<'f> {
    let run = clone(fleet, name, args);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    fleet.sandbox.repo(name)
}

fn missing(repo: &Repo<'_>) -> usize {
    let listed = repo.git(&["rev-list", "--objects", "--missing=print", "HEAD"]).stdout.to_string();
    listed.lines().filter(|line| line.starts_with('?')).count()
}

fn files(repo: &Repo<'_>) -> String {
    repo.run("sh".as_ref(), &["-ec", FILES]).stdout.to_string()
}

#[track_caller]
fn sapwood(repo: &Repo<'_>, args: &[&str]) -> String {
    let run = repo.run(SAPWOOD.as_ref(), args);
    assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
    run.stdout.to_string()
}

#[test]
fn a_clone_takes_only_newer_objects_from_the_server() {
    let fleet = fleet(&["--no-mount"]);
    advance(&fleet);
    let remote = fleet.remote();
    let repo = cloned(&fleet, "clone", &["--base", &remote]);
    assert_eq!(repo.git(&["status", "--porcelain=v2", "--branch"]).code, 0);
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout.to_string().trim(), fleet.commit("HEAD"));
    assert_eq!(files(&repo), fleet.checkout(&fleet.commit("HEAD")));
    // The two newer blobs came; the others lie in the base directory alone.
    assert!(missing(&repo) > 50, "{} objects are missing", missing(&repo));
    assert_eq!(repo.git(&["config", "remote.origin.promisor"]).stdout, "true\n");
    assert_eq!(repo.git(&["config", "remote.origin.partialclonefilter"]).stdout, "blob:none\n");
    repo.git(&["fsck", "--connectivity-only"]);
    repo.git(&["fsck"]);
    assert_eq!(sapwood(&repo, &["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["log", "--format=%s", "-2"]).stdout, "three\ntwo\n");

    // Without the server, contents serve whoever reads.
    let away = fleet.sandbox.path().join("away");
    fs::rename(&fleet.origin().path, &away).expect("moved");
    fs::remove_file(repo.join("many/9")).expect("removed");
    fs::write(repo.join("dir/deep/file"), "changed\n").expect("written");
    sapwood(&repo, &["restore", "."]);
    assert_eq!(sapwood(&repo, &["status", "--porcelain"]), "");
    fs::rename(&away, &fleet.origin().path).expect("moved back");

    repo.write("many/3", "a change\n");
    sapwood(&repo, &["commit", "-q", "-a", "-m", "four"]);
    repo.git(&["push", "-q", "origin", "HEAD:refs/heads/ours"]);
    fleet.origin().git(&["fsck"]);
    assert_eq!(fleet.commit("ours~1"), fleet.commit("main"));
    repo.git(&["fsck"]);
}

#[test]
fn a_clone_becomes_a_workspace_of_a_bare_repository() {
    let fleet = fleet(&["--no-mount"]);
    for (name, is_newer) in [("same", false), ("newer", true)] {
        if is_newer {
            advance(&fleet);
        }
        let remote = fleet.remote();
        let repo = cloned(&fleet, name, &["--base", &remote, "--workspace"]);
        let bare = fleet.sandbox.repo(&format!("{name}.git"));
        assert_eq!(bare.git(&["rev-parse", "--is-bare-repository"]).stdout, "true\n");
        assert_eq!(bare.git(&["rev-parse", "origin/main"]).stdout.to_string().trim(), fleet.commit("main"));
        let inside = |words: &str| {
            let args = ["workspace", "exec", name, "--", "sh", "-ec", words];
            sapwood(&bare, &args)
        };
        assert_eq!(inside(FILES), fleet.checkout(&fleet.commit("main")), "{name}");
        assert_eq!(inside("git status --porcelain"), "");
        assert_eq!(inside("git symbolic-ref HEAD"), "refs/heads/main\n");
        inside(&format!("echo x >many/1; {SAPWOOD} commit -qam changed; git push -q origin HEAD:{name}"));
        assert_eq!(fleet.commit(&format!("{name}~1")), fleet.commit("main"));
        sapwood(&bare, &["workspace", "remove", name]);
        assert!(!repo.exists(""));
    }
}

#[test]
fn contents_of_a_shared_directory_are_used_where_they_lie() {
    let fleet = fleet(&[]);
    advance(&fleet);
    let remote = fleet.remote();
    let repo = cloned(&fleet, "clone", &["--base", &remote]);
    assert_eq!(files(&repo), fleet.checkout(&fleet.commit("HEAD")));
    let room = |dir: &Path| -> u64 {
        let files = files_below(&dir.join("blobs")).into_iter();
        files.map(|file| fs::metadata(file).expect("a file").len()).sum()
    };
    assert!(room(&fleet.dir().join("bases")) > 3 << 20);
    assert!(room(&fleet.bases("clone")) < 4096, "{} bytes were copied", room(&fleet.bases("clone")));
    repo.git(&["fsck"]);
}

#[test]
fn without_a_base_it_is_an_ordinary_clone() {
    let fleet = Fleet::new();
    let remote = fleet.remote();
    let run = clone(&fleet, "clone", &["--base", &remote]);
    let repo = fleet.sandbox.repo("clone");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.to_string().contains("has no base of branch 'main'; cloning without one"),
        "{}",
        run.stderr
    );
    assert_eq!(missing(&repo), 0);
    assert_ne!(repo.run("git".as_ref(), &["config", "remote.origin.promisor"]).code, 0);
    assert_eq!(files(&repo), fleet.checkout(&fleet.commit("HEAD")));
}

#[test]
fn a_base_that_is_damaged_leaves_nothing() {
    let fleet = fleet(&["--no-mount"]);
    for path in files_below(&fleet.dir().join("data")) {
        let mut bytes = fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).expect("written");
    }
    let remote = fleet.remote();
    for args in [&["--base", &remote][..], &["--base", &remote, "--workspace"]] {
        let run = clone(&fleet, "clone", args);
        assert_eq!(run.code, 128, "{}", run.stderr);
        assert!(run.stderr.to_string().contains("is damaged"), "{}", run.stderr);
        for name in ["clone", "clone.git"] {
            assert!(!fleet.sandbox.path().join(name).exists(), "{name} is left");
        }
    }
    let run = clone(&fleet, "clone", &["--base", &remote, "--workspace", "--bare"]);
    assert!(
        run.stderr.to_string().contains("'--workspace' and '--bare' cannot be used together"),
        "{}",
        run.stderr
    );
}
