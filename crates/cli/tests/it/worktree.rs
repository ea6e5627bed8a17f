//! `worktree` compared with Git, in two copies of one directory; the trash; and parallel runs.

mod inside;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use bstr::ByteSlice as _;
use testkit::{Repo, Run, Sandbox};

use crate::{
    SAPWOOD,
    shim::{Shim, finished},
};

/// A copy in which a step runs: a directory with `repo` and the worktrees next to it.
struct Side<'a> {
    name: &'static str,
    repo: Repo<'a>,
}

impl<'a> Side<'a> {
    fn new(sandbox: &'a Sandbox, name: &'static str) -> Side<'a> {
        let upstream = sandbox.init(&format!("{name}/upstream"));
        upstream.write("up", "up\n");
        upstream.commit("up");
        upstream.git(&["branch", "feature"]);
        let repo = sandbox.init(&format!("{name}/repo"));
        repo.write("file", "content\n");
        repo.write("dir/file", "more\n");
        repo.write(".gitignore", "*.o\n");
        repo.commit("one");
        repo.write("file", "changed\n");
        repo.commit("two");
        repo.git(&["branch", "topic", "HEAD~1"]);
        repo.git(&["remote", "add", "origin", "../upstream"]);
        repo.git(&["fetch", "-q"]);
        Side { name, repo }
    }

    fn at(&self, sandbox: &'a Sandbox, place: &str) -> Repo<'a> {
        sandbox.repo(&format!("{}/{place}", self.name))
    }

    /// Returns the output with the copy's path replaced.
    fn plain(&self, run: Run, top: &Path) -> Run {
        let name = top.join(self.name).into_os_string().into_string().expect("a plain name");
        let plain = |text: bstr::BString| text.replace(&name, "<place>").into();
        Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
    }

    /// Returns every file of the directory except indexes and objects.
    fn state(&self, top: &Path) -> BTreeMap<String, String> {
        let root = top.join(self.name);
        let place = root.to_str().expect("a plain name").to_owned();
        let mut found = BTreeMap::new();
        let mut dirs = vec![root.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).expect("listed") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(&root).expect("below").to_str().expect("plain").to_owned();
                if path.is_dir() {
                    if !name.ends_with(".git/objects") {
                        dirs.push(path);
                    }
                    found.insert(name, String::from("directory"));
                } else if name.ends_with("/index") {
                    found.insert(name, String::from("index"));
                } else {
                    let content = fs::read(&path).expect("read").to_str_lossy().replace(&place, "<place>");
                    found.insert(name, content);
                }
            }
        }
        found
    }
}

/// Runs each line in both copies: messages, exit codes and files must be equal after each. A line
/// with the prefix `@<dir>` runs in that directory; one with the prefix `!` is shell code.
fn agree(lines: &[&str]) {
    let (sandbox, shim) = (Sandbox::new(), Shim::new());
    let top = sandbox.path();
    let (git, ours) = (Side::new(&sandbox, "git"), Side::new(&sandbox, "our"));
    for line in lines {
        let (place, command) = match line.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            Some((place, command)) => (place, command),
            None => ("repo", *line),
        };
        if let Some(script) = command.strip_prefix('!') {
            for side in [&git, &ours] {
                let run = finished(side.at(&sandbox, place).command("sh".as_ref()).args(["-c", script]));
                assert_eq!(run.code, 0, "{line}: {}", run.stderr);
            }
            continue;
        }
        let args: Vec<&str> = command.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let theirs = git.plain(git.at(&sandbox, place).try_git(&args), &top);
        let mine = ours.plain(shim.run(&ours.at(&sandbox, place), &args), &top);
        assert_eq!(theirs, mine, "{line}: git left, shim right");
        let (left, right) = (git.state(&top), ours.state(&top));
        for name in left.keys().chain(right.keys()) {
            assert_eq!(left.get(name), right.get(name), "{line}: {name}: git left, shim right");
        }
        shim.was_native(&[line]);
    }
    let check = |side: &Side<'_>| side.plain(side.repo.try_git(&["fsck"]), &top);
    assert_eq!(check(&git), check(&ours), "git left, shim right");
}

#[test]
fn adding() {
    agree(&[
        "worktree add ../plain",
        "worktree add ../plain",
        "worktree add ../other/deep/topic topic",
        "worktree add ../again topic",
        "worktree add -f ../again topic",
        "worktree add --detach ../detached HEAD~1",
        "worktree add -d ../detached2",
        "worktree add -b fresh ../fresh topic",
        "worktree add -b fresh ../fresh2",
        "worktree add -B fresh ../fresh2",
        "worktree add -B reset ../reset HEAD~1",
        "@reset checkout -q --detach",
        "worktree add -B reset ../reset2",
        "worktree add -q ../quiet",
        "worktree add --lock ../locked",
        "worktree add --lock --reason because ../locked2",
        "worktree add --no-checkout ../empty",
        "worktree add ../missing nothing",
        "worktree add ../feature feature",
        "worktree add --guess-remote ../main2",
        "worktree add --track -b tracked ../tracked origin/feature",
        "worktree add --no-track -b untracked ../untracked origin/feature",
        "worktree add --orphan ../orphan",
        "worktree add --orphan -b named ../orphan2",
        "worktree add --orphan -b topic ../orphan3",
        "worktree add -b x -B y ../z",
        "worktree add --orphan --detach ../z",
        "worktree add --reason why ../z",
        "worktree add --track ../z topic",
        "@repo/dir worktree add ../../inner",
        "@plain worktree add ../from-linked",
        "worktree add inside",
        "worktree add --relative-paths ../relative",
        "worktree list",
        "worktree list --porcelain",
        "worktree list -v",
    ]);
}

#[test]
fn adding_to_a_repository_with_nothing_in_it() {
    agree(&[
        "!git init -q -b main ../bare --bare && git init -q -b main ../new",
        "@bare worktree add ../first",
        "@bare worktree list",
        "@first worktree list --porcelain",
        "@new worktree add ../second HEAD",
        "@new worktree add --detach ../second",
        "@new worktree add --no-checkout ../second",
        "@new worktree add -b one ../second",
        "@new worktree add ../third nothing",
        "@new worktree list",
    ]);
}

/// The files cannot be written, and the worktree is undone.
#[test]
fn adding_a_tree_that_is_refused() {
    agree(&[
        "!tree=$(git ls-tree HEAD | sed 's/\\tfile$/\\t.git/' | git mktree) &&
         git update-ref refs/heads/bad $(git commit-tree $tree -m bad)",
        "worktree add ../bad bad",
        "worktree add -q ../bad bad",
    ]);
}

#[test]
fn keeping_and_moving() {
    agree(&[
        "worktree add -q ../one",
        "worktree add -q ../two",
        "worktree lock ../one",
        "worktree lock one",
        "worktree lock --reason why two",
        "worktree lock two",
        "worktree lock .",
        "worktree lock nowhere",
        "worktree list -v",
        "worktree list --porcelain -z",
        "worktree remove one",
        "worktree remove two",
        "worktree move two ../three",
        "worktree unlock two",
        "worktree unlock two",
        "worktree move two ../three",
        "worktree move ../three ../one",
        "worktree move . ../four",
        "worktree move ../one/three ../three",
        "worktree move three ../one/file",
        "worktree move --relative-paths three ../two",
        "!mv ../two ../moved",
        "worktree prune -n",
        "worktree prune --expire 1.hour.ago",
        "@moved worktree repair",
        "worktree list",
        "worktree repair ../nothing",
        "!mv ../moved ../moved2",
        "worktree repair ../moved2",
        "!rm ../moved2/.git",
        "worktree repair",
        "worktree remove moved2",
        "!rm -rf ../one && mkdir .git/worktrees/odd && touch .git/worktrees/file",
        "worktree add ../one topic",
        "worktree add -f ../one topic",
        "worktree prune",
        "worktree unlock one",
        "worktree remove one",
        "worktree prune -v",
        "worktree list",
    ]);
}

#[test]
fn removing() {
    agree(&[
        "worktree add -q ../one",
        "!echo x > ../one/untracked",
        "worktree remove ../one",
        "!rm ../one/untracked && echo x > ../one/y.o && mkdir ../one/empty",
        "worktree remove ../one",
        "worktree add -q ../two",
        "!echo x >> ../two/file",
        "worktree remove two",
        "worktree remove -f two",
        "worktree add -q ../three",
        "!git -C ../three rm -q --cached file",
        "worktree remove three",
        "worktree lock three",
        "worktree remove --force three",
        "worktree remove -f -f three",
        "worktree add -q ../four",
        "!git -C ../four config status.showUntrackedFiles no && echo x > ../four/u",
        "worktree remove four",
        "worktree remove .",
        "worktree remove four",
        "worktree add -q ../five",
        "!git init -q ../five/nested",
        "worktree remove five",
        "worktree add -q ../six",
        "!rm -rf ../six",
        "worktree remove six",
        "worktree add -q ../seven",
        "!rm ../seven/.git",
        "worktree remove seven",
        "worktree list",
    ]);
}

#[test]
fn hooks_sparse_patterns_and_configuration() {
    agree(&[
        "!mkdir -p .git/hooks && printf '#!/bin/sh\\necho \"$@\"; env | grep ^GIT_DIR; pwd; exit 3\\n' > .git/hooks/post-checkout",
        "!chmod +x .git/hooks/post-checkout",
        "worktree add ../hooked",
        "worktree add --no-checkout ../unhooked",
        "!rm .git/hooks/post-checkout && git config extensions.worktreeConfig true",
        "!git config --worktree core.bare true; git config --worktree user.name me",
        "-c core.bare=false worktree add ../configured",
        "worktree list",
        "@configured worktree list",
    ]);
}

#[test]
fn submodules() {
    agree(&[
        "!git -c protocol.file.allow=always submodule -q add ../upstream sub && git commit -qm sub",
        "worktree add ../one",
        "worktree remove one",
        "worktree add ../two",
        "!git -C ../two -c protocol.file.allow=always submodule -q update --init",
        "worktree move two ../three",
        "worktree remove two",
        "worktree remove -f two",
    ]);
}

/// Waits for an effect of another process.
fn eventually(what: &str, is: impl Fn() -> bool) {
    let started = Instant::now();
    while !is() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn large_worktrees_are_moved_to_the_trash_and_deleted() {
    let (sandbox, shim) = (Sandbox::new(), Shim::new());
    let repo = sandbox.init("repo");
    for number in 0..600 {
        repo.write(format!("d{}/f{number}", number % 7), format!("{number}\n"));
    }
    repo.commit("many");
    repo.git(&["worktree", "add", "-q", "../tree"]);
    let removed = shim.run(&repo, &["worktree", "remove", "../tree"]);
    shim.was_native(&["remove"]);
    assert_eq!((removed.code, removed.stderr.as_slice()), (0, &b""[..]));
    assert!(!sandbox.path().join("tree").exists());
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    eventually("the trash is emptied", || !repo.exists(".git/sapwood"));

    // The next command completes an unfinished removal.
    repo.write(".git/sapwood/trash/1-0/0/file", "left");
    assert_eq!(shim.run(&repo, &["worktree", "prune"]).code, 0);
    eventually("an old trash is emptied", || !repo.exists(".git/sapwood"));
}

#[test]
fn a_locked_configuration_is_waited_for() {
    let (sandbox, shim) = (Sandbox::new(), Shim::new());
    let side = Side::new(&sandbox, "our");
    side.repo.git(&["config", "core.packedRefsTimeout", "0"]);
    side.repo.write(".git/config.lock", "");
    let refused = shim.run(&side.repo, &["worktree", "add", "-b", "a", "../a", "origin/feature"]);
    side.repo.git(&["branch", "-D", "a"]);
    let theirs = side.repo.try_git(&["worktree", "add", "-b", "a", "../a", "origin/feature"]);
    assert_eq!(theirs, refused, "git left, shim right");
    assert_eq!(refused.code, 255);
    fs::remove_file(side.repo.join(".git/config.lock")).expect("there");
    side.repo.git(&["config", "core.packedRefsTimeout", "-1"]);
    side.repo.write(".git/config.lock", "");
    let mut command = shim.command(&side.repo);
    command.args(["worktree", "add", "-q", "-b", "b", "../b", "origin/feature"]);
    let waiting = command.stdout(Stdio::null()).spawn().expect("started");
    eventually("the branch is made", || side.repo.exists(".git/refs/heads/b"));
    fs::remove_file(side.repo.join(".git/config.lock")).expect("there");
    assert!(waiting.wait_with_output().expect("ends").status.success());
    assert_eq!(side.repo.git(&["config", "branch.b.merge"]).stdout, "refs/heads/feature\n");
}

#[test]
fn eight_at_once() {
    const ROUNDS: usize = 6;
    let sandbox = Sandbox::new();
    let side = Side::new(&sandbox, "our");
    for number in 0..40 {
        side.repo.write(format!("many/f{number}"), "x\n");
    }
    side.repo.commit("many");
    let script = format!(
        "for round in $(seq {ROUNDS}); do
            '{SAPWOOD}' worktree add -q -b \"a$1-$round\" \"../w$1/same\" origin/feature || exit 1
            '{SAPWOOD}' worktree add -q --detach \"../v$1/same\" main || exit 2
            test -f \"../v$1/same/many/f39\" || exit 3
            '{SAPWOOD}' worktree lock \"../v$1/same\" || exit 4
            '{SAPWOOD}' worktree remove \"../w$1/same\" || exit 5
            '{SAPWOOD}' worktree remove -f -f \"../v$1/same\" || exit 6
            '{SAPWOOD}' worktree prune || exit 7
        done"
    );
    let start = |number: usize| -> std::process::Child {
        let mut command: Command = side.repo.command("sh".as_ref());
        command.args(["-c", &script, "sh", &number.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("started")
    };
    let running: Vec<_> = (0..8).map(start).collect();
    for child in running {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{:?}: {}", output.status, output.stderr.to_str_lossy());
    }
    side.repo.git(&["fsck", "--strict"]);
    let list = side.repo.git(&["worktree", "list", "--porcelain"]).stdout;
    assert_eq!(list.lines().filter(|line| line.starts_with(b"worktree ")).count(), 1, "{list}");
    for agent in 0..8 {
        for round in 1..=ROUNDS {
            let merge = side.repo.git(&["config", &format!("branch.a{agent}-{round}.merge")]).stdout;
            assert_eq!(merge, "refs/heads/feature\n");
        }
    }
    assert!(!side.repo.exists(".git/worktrees"));
}

/// Only one of several processes gets the directory, and no process removes anything from it.
#[test]
fn one_place_is_one_worktrees() {
    let sandbox = Sandbox::new();
    let side = Side::new(&sandbox, "our");
    for round in 0..5 {
        let start = |number: usize| {
            let mut command = side.repo.command(SAPWOOD.as_ref());
            command.args(["worktree", "add", "-q", "-b", &format!("b{round}-{number}"), "../same"]);
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
        };
        let running: Vec<_> = (0..8).map(start).collect();
        let ended = running.into_iter().map(|child| child.wait_with_output().expect("ends"));
        let made = ended.filter(|output| output.status.success()).count();
        assert_eq!(made, 1);
        let same = side.at(&sandbox, "same");
        assert_eq!(same.git(&["status", "--porcelain"]).stdout, "");
        assert_eq!(same.read("dir/file"), "more\n");
        let list = side.repo.git(&["worktree", "list", "--porcelain"]).stdout;
        assert_eq!(list.lines().filter(|line| line.starts_with(b"worktree ")).count(), 2, "{list}");
        side.repo.git(&["worktree", "remove", "../same"]);
    }
}

/// A file system mounted inside a worktree does not belong to it.
#[test]
fn mounts_are_not_entered() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for number in 0..300 {
        repo.write(format!("f{number}"), "x\n");
    }
    repo.commit("many");
    repo.git(&["worktree", "add", "-q", "../tree"]);
    let kept = sandbox.repo("kept");
    kept.write("file", "precious\n");
    let script = format!(
        "mkdir ../tree/mnt && mount --bind ../kept ../tree/mnt || exit 77
         '{SAPWOOD}' worktree remove -f ../tree"
    );
    let mut command = repo.command("unshare".as_ref());
    let Ok(output) = command.args(["-r", "-m", "sh", "-c", &script]).output() else {
        println!("skipped: there is no unshare");
        return;
    };
    assert_eq!(kept.read("file"), "precious\n");
    if output.status.code() != Some(255) {
        println!("skipped: nothing can be mounted: {}", output.stderr.to_str_lossy());
        return;
    }
    let busy = format!(
        "error: failed to delete '{}': Device or resource busy\n",
        sandbox.path().join("tree").display()
    );
    assert_eq!(output.stderr.to_str_lossy(), busy);
}
