//! The two repositories, and the worktrees in which steps are made.

use testkit::{Repo, Sandbox};

use crate::shim::Shim;

/// The worktree under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ordinary worktree, made by Git.
    Ordinary,
}

/// The program that works in the worktree under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Git,
    Sapwood,
    /// They take turns.
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
    pub(super) plain: Repo<'a>,
    pub(super) tested: Repo<'a>,
}

/// The commits that steps switch to.
pub(super) const COMMITS: [&str; 8] = ["c0", "c1", "c2", "c3", "c4", "side", "wide", "main"];

/// Makes a history: lines of files change, files become links and directories, modes change, and
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
        let [plain, tested] = ["plain", "tested"].map(|name| {
            let repo = sandbox.init(&format!("{name}/repo"));
            begin(&repo);
            let place = sandbox.repo(&format!("{name}/w"));
            match kind {
                Kind::Ordinary => repo.git(&["worktree", "add", "-q", "-b", "work", "../w", "c2"]),
            };
            place
        });
        Pair { kind, tool, shim: Shim::new(), plain, tested }
    }

    /// Runs a command in both worktrees. Both succeed, or both fail. Returns true for success.
    pub(super) fn run(&self, number: usize, args: &[&str]) -> Result<bool, String> {
        let plain = self.plain.try_git(args);
        let tested = match self.tool {
            Tool::Sapwood => self.shim.run(&self.tested, args),
            Tool::Mixed if number % 2 == 1 => self.shim.run(&self.tested, args),
            Tool::Git | Tool::Mixed => self.tested.try_git(args),
        };
        match plain.code == tested.code {
            true => Ok(plain.code == 0),
            false => Err(format!("{args:?}: Git's worktree: {plain:?}\nworktree under test: {tested:?}")),
        }
    }
}
