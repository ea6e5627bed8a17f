//! Bases that machines share: push, pull, mirror, prune and leases, on every kind of remote.

mod bundles;
mod choice;
mod faults;
mod lives;
mod mirrors;
mod plain_git;
mod shared;
mod signatures;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::{Repo, Run, Sandbox, disk::NoMountsBelow, noise};

use crate::SAPWOOD;

/// Prints every file below the current directory with its mode and content, but for `.git`.
pub(super) const FILES: &str = "find . -name .git -prune -o -type f -exec sha256sum {} + | sort -k2; \
                     find . -name .git -prune -o -type l -printf '%p %l\\n' | sort; \
                     find . -name .git -prune -o -type f -perm -100 -print | sort";

/// A repository that is complete, a directory as remote, and hosts that begin with nothing.
pub(super) struct Fleet {
    // Dropped first: they unmount.
    _mounts: NoMountsBelow,
    _disk_mounts: NoMountsBelow,
    pub(super) sandbox: Sandbox,
    /// On a real disk: the kernel mounts no image that lies in memory.
    disk: tempfile::TempDir,
}

impl Fleet {
    pub(super) fn new() -> Fleet {
        Fleet::with(&["init", "-q", "-b", "main"])
    }

    /// As [`Fleet::new`], with this `git init`.
    pub(super) fn with(init: &[&str]) -> Fleet {
        let sandbox = Sandbox::new();
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
        let fleet = Fleet {
            _mounts: NoMountsBelow::new(&sandbox.path()),
            _disk_mounts: NoMountsBelow::new(disk.path()),
            sandbox,
            disk,
        };
        let origin = fleet.sandbox.repo("origin");
        fs::create_dir(&origin.path).expect("a new directory");
        origin.git(init);
        origin.write("file", "one\n");
        origin.write("dir/deep/file", "more\n");
        origin.write("dir/empty", "");
        origin.write_executable("run", "#!/bin/sh\n");
        origin.symlink("dir/deep", "link");
        origin.write(".gitattributes", "*.crlf text eol=crlf\n");
        origin.write("lines.crlf", "a\nb\n");
        origin.write("large", noise(3 << 20, 1));
        for number in 0..50 {
            origin.write(format!("many/{number}"), format!("content {number}\n").repeat(number));
        }
        origin.commit("one");
        origin.write("file", "two\n");
        origin.write("many/7", "seven\n");
        origin.commit("two");
        fs::create_dir(fleet.dir()).expect("a new directory");
        fleet
    }

    pub(super) fn origin(&self) -> Repo<'_> {
        self.sandbox.repo("origin")
    }

    /// The directory of the remote.
    pub(super) fn dir(&self) -> PathBuf {
        self.disk.path().canonicalize().expect("it exists").join("remote")
    }

    /// The address of the remote.
    pub(super) fn remote(&self) -> String {
        format!("file://{}", self.dir().display())
    }

    /// A host: an empty repository with a base directory of its own.
    pub(super) fn host(&self, name: &str) -> Repo<'_> {
        let format = self.origin().git(&["rev-parse", "--show-object-format"]).stdout;
        let repo = self.sandbox.repo(name);
        fs::create_dir_all(&repo.path).expect("a directory");
        repo.git(&["init", "-q", "-b", "main", &format!("--object-format={}", format.to_string().trim())]);
        let bases = self.bases(name);
        repo.git(&["config", "sapwood.baseDir", bases.to_str().expect("a plain name")]);
        repo
    }

    /// The base directory of a host.
    pub(super) fn bases(&self, name: &str) -> PathBuf {
        self.disk.path().canonicalize().expect("it exists").join(format!("bases-{name}"))
    }

    /// The id of a commit of the origin.
    pub(super) fn commit(&self, name: &str) -> String {
        self.origin().git(&["rev-parse", name]).stdout.to_string().trim().to_owned()
    }

    /// Pushes the base of the origin's HEAD.
    pub(super) fn push(&self) {
        base_done(&self.origin(), &["push", "-q", "--no-mount", &self.remote()]);
    }

    /// The files of the remote below a directory, sorted.
    pub(super) fn stored(&self, below: &str) -> Vec<PathBuf> {
        files_below(&self.dir().join(below))
    }

    /// Checks that a workspace of `commit` at a host has the files of a checkout.
    #[track_caller]
    pub(super) fn works_at(&self, host: &Repo<'_>, commit: &str) {
        let name = format!("w{}", fs::read_dir(host.join(".git/worktrees")).map_or(0, Iterator::count));
        let run = host.run(SAPWOOD.as_ref(), &["workspace", "create", "-q", "-d", &name, commit]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let inside = |args: &[&str]| {
            let run = host.run(SAPWOOD.as_ref(), &[&["workspace", "exec", &name, "--"], args].concat());
            assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
            run.stdout
        };
        assert_eq!(inside(&["sh", "-ec", FILES]), self.checkout(commit));
        assert_eq!(inside(&[SAPWOOD, "status", "--porcelain"]), "");
        let run = host.run(SAPWOOD.as_ref(), &["workspace", "remove", "-f", &name]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }

    /// The files of a checkout of the origin's commit.
    pub(super) fn checkout(&self, commit: &str) -> bstr::BString {
        let origin = self.origin();
        let dir = self.sandbox.repo(&format!("checkout-{commit}"));
        if !dir.exists("") {
            origin.git(&["worktree", "add", "-q", "--detach", dir.path.to_str().expect("plain"), commit]);
        }
        let run = dir.run("sh".as_ref(), &["-ec", FILES]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    }
}

/// Runs `sapwood base`.
pub(super) fn base(repo: &Repo<'_>, args: &[&str]) -> Run {
    repo.run(SAPWOOD.as_ref(), &[&["base"], args].concat())
}

/// Runs `sapwood base`, which must succeed. Returns its output.
#[track_caller]
pub(super) fn base_done(repo: &Repo<'_>, args: &[&str]) -> String {
    let run = base(repo, args);
    assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
    run.stdout.to_string()
}

/// `sapwood base` as a command to be started.
pub(super) fn base_command(repo: &Repo<'_>, args: &[&str]) -> Command {
    let mut command = repo.command(Path::new(SAPWOOD));
    command.arg("base").args(args);
    command
}

/// All files below a directory, sorted.
pub(super) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                dirs.push(entry.path())
            } else {
                found.push(entry.path())
            }
        }
    }
    found.sort();
    found
}
