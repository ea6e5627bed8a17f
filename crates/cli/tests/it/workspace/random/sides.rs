//! The two repositories, and the worktrees in which the steps run.

use std::path::{Path, PathBuf};

use testkit::{Repo, Run, Sandbox, disk::NoMountsBelow};

use crate::{
    SAPWOOD,
    shim::{Shim, finished},
};

/// The worktree under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ordinary worktree, created by Git.
    Ordinary,
    Image,
    Overlay,
    OverlayUser,
    Copy,
}

impl Kind {
    /// Returns the name of the backend.
    fn backend(self) -> Option<&'static str> {
        match self {
            Kind::Ordinary => None,
            Kind::Image => Some("image"),
            Kind::Overlay => Some("overlay"),
            Kind::OverlayUser => Some("overlay-user"),
            Kind::Copy => Some("copy"),
        }
    }

    /// Returns true if directories of the base can be renamed.
    pub(super) fn renames_directories(self) -> bool {
        self != Kind::OverlayUser
    }

    /// Returns true if `workspace rebase` replaces the base.
    pub(super) fn rebases(self) -> bool {
        matches!(self, Kind::Image | Kind::Overlay | Kind::OverlayUser)
    }

    /// Returns true if the files are mounted.
    pub(super) fn mounts(self) -> bool {
        matches!(self, Kind::Image | Kind::Overlay | Kind::OverlayUser)
    }
}

/// A worktree.
pub(super) struct Side<'a> {
    /// The repository in which commands run.
    pub(super) repo: Repo<'a>,
    kind: Kind,
}

impl Side<'_> {
    /// Returns the directory in which this process sees the files. For a workspace in its own
    /// namespace, this is the holder's view.
    pub(super) fn place(&self) -> PathBuf {
        if self.kind != Kind::OverlayUser {
            return self.repo.path.clone();
        }
        let marker = self.repo.path.join("../repo/.git/sapwood/workspaces/w/mounted");
        let marker = std::fs::read_to_string(marker).expect("a mounted workspace");
        let holder = marker.lines().find_map(|line| line.strip_prefix("holder ")).expect("a holder");
        let pid = holder.split(' ').next().expect("a number");
        let below = self.repo.path.strip_prefix("/").expect("an absolute path");
        Path::new("/proc").join(pid).join("root").join(below)
    }

    /// Returns the location of a path.
    pub(super) fn join(&self, path: &str) -> PathBuf {
        self.place().join(path)
    }

    /// Runs a program in the worktree.
    pub(super) fn run(&self, program: &str, args: &[&str]) -> Run {
        let mut command = match self.kind {
            Kind::OverlayUser => {
                let mut command = self.repo.command(SAPWOOD.as_ref());
                command.args(["workspace", "exec", "w", "--", program]);
                command
            }
            _ => self.repo.command(program.as_ref()),
        };
        finished(command.args(args).stdin(std::process::Stdio::null()))
    }

    /// Runs Git in the worktree.
    pub(super) fn try_git(&self, args: &[&str]) -> Run {
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        self.run(&git, args)
    }

    /// Like [`Side::try_git`]; it must succeed.
    pub(super) fn git(&self, args: &[&str]) -> Run {
        let run = self.try_git(args);
        assert_eq!(run.code, 0, "git {args:?}: {}", run.stderr);
        run
    }

    /// Returns true for a workspace.
    pub(super) fn is_workspace(&self) -> bool {
        self.kind != Kind::Ordinary
    }

    /// Runs `sapwood workspace` in the main worktree.
    pub(super) fn workspace_from_outside(&self, args: &[&str]) -> Run {
        let mut command = self.repo.command(SAPWOOD.as_ref());
        command.current_dir(self.repo.path.with_file_name("repo"));
        finished(command.arg("workspace").args(args))
    }
}

/// The program that works in the worktree under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Git,
    Sapwood,
    /// Git and sapwood, in turn.
    Mixed,
}

impl Tool {
    pub(super) const ALL: [Tool; 3] = [Tool::Git, Tool::Sapwood, Tool::Mixed];
}

pub(super) struct Pair<'a> {
    pub(super) kind: Kind,
    tool: Tool,
    /// sapwood as `git`.
    shim: Shim,
    /// An ordinary worktree.
    pub(super) plain: Side<'a>,
    pub(super) tested: Side<'a>,
    // Dropped before the directory: it unmounts.
    _mounts: NoMountsBelow,
    _bases: tempfile::TempDir,
}

/// A directory that no commit and no edit changes.
pub(super) const FILLER: &str = "filler";

/// The commits that steps switch to.
pub(super) const COMMITS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "side", "wide", "main"];

/// Creates a history: lines of files change, files become links and directories, modes change, and
/// directories move.
fn begin(repo: &Repo<'_>) {
    repo.git(&["config", "gc.auto", "0"]);
    repo.git(&["config", "maintenance.auto", "false"]);
    repo.write(".gitignore", "*.o\n/out/\n");
    for name in
        ["a", "b", "c", "x y", "é", "d/a", "d/b", "d/d/a", "d/d/b", "e/a", "e/f/a", "e/f/b", "g/h/i/a"]
    {
        repo.write(name, format!("1 {name}\n"));
    }
    // With them the commits are near to each other, and workspaces use differences.
    for number in 0..64 {
        repo.write(format!("{FILLER}/{number}"), format!("{number}\n"));
    }
    for name in ["long", "d/long", "e/f/long"] {
        repo.write(name, (1..30).map(|line| format!("line {line} of {name}\n")).collect::<String>());
    }
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("d/a", "link");
    repo.commit("c0");
    repo.git(&["tag", "c0"]);
    repo.git(&["branch", "side"]);
    repo.write("a", "2 a\n");
    repo.write("d/new", "2\n");
    repo.remove("e/f/b");
    repo.commit("c1");
    repo.git(&["tag", "c1"]);
    repo.git(&["mv", "e", "moved"]);
    repo.write_executable("b", "1 b\n");
    repo.commit("c2");
    repo.git(&["tag", "c2"]);
    repo.remove("d/d");
    repo.write("d/d", "a file\n");
    repo.remove("c");
    repo.write("c/inside", "3\n");
    repo.remove("link");
    repo.write("link", "a file now\n");
    repo.commit("c3");
    repo.git(&["tag", "c3"]);
    repo.write(".gitignore", "*.o\n/out/\n*.log\n");
    for number in 0..20 {
        repo.write(format!("many/{}/{number}", number % 3), format!("{number}\n"));
    }
    repo.remove("g");
    repo.commit("c4");
    repo.git(&["tag", "c4"]);
    repo.write(
        "long",
        (1..30).map(|line| format!("line {line} of long, {}\n", line % 7)).collect::<String>(),
    );
    repo.commit("c5");
    repo.git(&["checkout", "-q", "side"]);
    repo.write("d/a", "side\n");
    repo.write("side/only", "side\n");
    repo.commit("side");
    repo.git(&["checkout", "-q", "-b", "wide", "c0"]);
    repo.git(&["mv", "d", "dd"]);
    repo.write("a", "wide\n");
    repo.commit("wide");
    repo.git(&["checkout", "-q", "--detach", "main"]);
    repo.git(&["pack-refs", "--all"]);
}

impl<'a> Pair<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, kind: Kind, tool: Tool) -> Pair<'a> {
        let bases = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
        let [plain, tested] = [("plain", Kind::Ordinary), ("tested", kind)].map(|(name, kind)| {
            let repo = sandbox.init(&format!("{name}/repo"));
            begin(&repo);
            repo.git(&["config", "sapwood.baseDir", bases.path().to_str().expect("a plain name")]);
            match kind.backend() {
                None => drop(repo.git(&["worktree", "add", "-q", "-b", "work", "../w", "c2"])),
                Some(backend) => {
                    if kind.rebases() {
                        let add = ["workspace", "base", "add", "-q", "--backend", backend, "c1"];
                        assert_eq!(repo.run(SAPWOOD.as_ref(), &add).code, 0);
                    }
                    let create = ["workspace", "create", "-q", "--backend", backend, "--dir", "../w"];
                    let run = repo.run(SAPWOOD.as_ref(), &[&create[..], &["-b", "work", "w", "c2"]].concat());
                    assert_eq!(run.code, 0, "{}", run.stderr);
                }
            }
            Side { repo: sandbox.repo(&format!("{name}/w")), kind }
        });
        let mounts = NoMountsBelow::new(bases.path());
        Pair { kind, tool, shim: Shim::new(), plain, tested, _mounts: mounts, _bases: bases }
    }

    /// Runs a command in both worktrees.
    pub(super) fn run(&self, number: usize, args: &[&str]) -> Ran {
        let plain = self.plain.try_git(args);
        let tested = match self.tool {
            Tool::Sapwood => self.tested.run(&self.shim.program(), args),
            Tool::Mixed if number % 2 == 1 => self.tested.run(&self.shim.program(), args),
            Tool::Git | Tool::Mixed => self.tested.try_git(args),
        };
        let is_refusal =
            |line: &str| !line.starts_with("warning: ") && line.ends_with(": Device or resource busy");
        let is_blocked = plain.stderr.to_string().lines().any(is_refusal);
        if is_blocked {
            return Ran::Blocked;
        }
        if plain.code == tested.code {
            Ran::Ended { is_done: plain.code == 0 }
        } else {
            Ran::Different(format!("{args:?}: Git's worktree: {plain:?}\nworktree under test: {tested:?}"))
        }
    }
}

/// The result of a command in both worktrees.
#[derive(Debug)]
pub(super) enum Ran {
    /// Both succeeded, or both failed.
    Ended {
        is_done: bool,
    },
    /// A mount point kept Git from writing a file. Git then ends without an index, or counts it as
    /// success, and sapwood does not (docs/differences.md). The worktrees may differ from now on.
    Blocked,
    Different(String),
}
