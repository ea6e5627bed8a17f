//! Plain Git in a clone that began with a base: its server is never asked for a content of the
//! base.

use std::{collections::BTreeSet, fs, path::PathBuf};

use testkit::Repo;

use super::{Fleet, base_done};
use crate::SAPWOOD;

/// A server whose conversations are written down.
struct Server {
    fleet: Fleet,
    /// The program that clones run for `git-upload-pack`.
    upload_pack: PathBuf,
    log: PathBuf,
    /// The names of the blobs that the base has.
    held: BTreeSet<String>,
}

impl Server {
    fn new() -> Server {
        let fleet = Fleet::new();
        let origin = fleet.origin();
        for setting in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
            origin.git(&["config", setting, "true"]);
        }
        base_done(&origin, &["push", "-q", "--no-mount", &fleet.remote()]);
        let listed = origin.git(&["ls-tree", "-r", "--format=%(objectname)", "HEAD"]).stdout.to_string();
        origin.git(&["branch", "side"]);
        for (number, branch) in ["side", "main", "main"].into_iter().enumerate() {
            origin.git(&["switch", "-q", branch]);
            origin.write(format!("many/{number}"), format!("newer {number}\n"));
            origin.write(format!("new/{number}"), format!("new {number}\n"));
            origin.commit(&format!("newer {number}"));
        }
        let log = fleet.sandbox.path().join("asked");
        let upload_pack = fleet.sandbox.path().join("upload-pack");
        let script = format!("#!/bin/sh\ntee -a '{}' | git-upload-pack \"$@\"\n", log.display());
        testkit::write_program(&upload_pack, script);
        Server { fleet, upload_pack, log, held: listed.lines().map(str::to_owned).collect() }
    }

    fn clone(&self, name: &str, args: &[&str]) {
        let (fleet, origin) = (&self.fleet, self.fleet.origin());
        let url = format!("file://{}", origin.path.display());
        let bases = format!("sapwood.baseDir={}", fleet.bases(name).display());
        let server = format!("remote.origin.uploadpack={}", self.upload_pack.display());
        let (remote, dir) = (fleet.remote(), fleet.sandbox.path().join(name).display().to_string());
        let options = ["clone", "-q", "-c", &bases, "-c", &server, "--no-single-branch", "--base", &remote];
        let run = origin.run(SAPWOOD.as_ref(), &[&options, args, &[&url, &dir]].concat());
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    }

    /// The blobs of the base for which the server was asked.
    fn asked(&self) -> Vec<String> {
        let log = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let wanted = text.split("want ").skip(1).filter_map(|rest| rest.get(..40));
        wanted.filter(|name| self.held.contains(*name)).map(str::to_owned).collect()
    }
}

/// Commands of Git at the top of a worktree, in order. Each must succeed.
const COMMANDS: &[&str] = &[
    "git status",
    "git diff HEAD",
    "echo more >>file; git commit -q -a -m one",
    "echo more >>many/30; git stash -q",
    "git stash pop -q",
    "git stash -q -u; git stash drop -q",
    "git diff HEAD~1",
    "git diff --stat HEAD~1 HEAD",
    "git log -p -1",
    "git show HEAD",
    "git show HEAD:many/40",
    "git blame many/41",
    "git grep -c content",
    "git grep -c content HEAD",
    "git cat-file -p HEAD:many/42",
    "git checkout -q -b topic HEAD~1",
    "echo topic >topic; git add topic; git commit -q -m topic",
    "git checkout -q main",
    "git merge -q -m merged topic",
    "git checkout -q -b other HEAD~1",
    "echo other >other; git add other; git commit -q -m other",
    "git rebase -q topic",
    "git checkout -q -b pick main; echo pick >pick; git add pick; git commit -q -m pick",
    "git checkout -q other; git cherry-pick pick",
    "git revert --no-edit HEAD",
    "git switch -q main",
    "git merge -q -m 'from the side' origin/side",
    "echo more >>many/44; git commit -q -a -m two; git pull -q --rebase",
    "git reset -q --hard HEAD~1",
    "git restore --source HEAD~1 many/45",
    "git checkout HEAD -- many/45",
    "git archive HEAD | wc -c",
    "git ls-tree -r -l HEAD",
    "git format-patch -q -1 -o ../patches-$$",
    "git mv many/46 many/moved; git commit -q -m moved",
    "git rm -q many/47; git commit -q -m removed",
    "git read-tree HEAD; git write-tree",
    "git rev-list --objects HEAD | wc -l",
    "git fsck",
    "git repack -q -a -d",
    "git gc -q --prune=now",
    "git fsck",
    "git bundle create -q ../bundle-$$ HEAD~1..HEAD",
    "git fetch -q --all; git remote update",
    "git push -q origin HEAD:refs/heads/pushed-$$",
    "git status",
];

#[test]
fn plain_git_never_asks_the_server_for_a_content_of_a_base() {
    let server = Server::new();
    server.clone("plain", &[]);
    server.clone("inside", &["--workspace"]);
    assert_eq!(server.asked(), [""; 0], "by the clones");
    let plain = server.fleet.sandbox.repo("plain");
    let bare = server.fleet.sandbox.repo("inside.git");
    let run = |repo: &Repo<'_>, before: &[&str], command: &str| {
        let words = [before, &["sh", "-ec", command]].concat();
        let run = repo.run(words[0].as_ref(), &words[1..]);
        assert_eq!(run.code, 0, "{command}: {}{}", run.stdout, run.stderr);
        let messages = run.stderr.to_string();
        assert!(!messages.contains("fatal") && !messages.contains("error"), "{command}: {messages}");
        assert_eq!(server.asked(), [""; 0], "{command}");
    };
    for command in COMMANDS {
        run(&plain, &["env"], command);
    }
    let enter = [SAPWOOD, "workspace", "exec", "inside", "--"];
    for command in COMMANDS {
        run(&bare, &enter, command);
    }
    for repo in [&plain, &bare] {
        repo.git(&["fsck", "--full"]);
        let missing = repo.git(&["rev-list", "--objects", "--missing=print", "HEAD"]).stdout.to_string();
        assert!(!missing.lines().any(|line| line.starts_with('?')), "{missing}");
    }
    let removed = bare.run(SAPWOOD.as_ref(), &["workspace", "remove", "--force", "inside"]);
    assert_eq!(removed.code, 0, "{}", removed.stderr);
}

/// The remote that serves contents stays out of what users see and use of remotes.
#[test]
fn the_remote_of_contents_is_no_place_to_fetch_from() {
    let server = Server::new();
    server.clone("plain", &[]);
    let repo = server.fleet.sandbox.repo("plain");
    for args in [
        &["fetch", "-q", "sapwood-bases"][..],
        &["fetch", "-q", "--all"],
        &["fetch", "-q"],
        &["ls-remote", "sapwood-bases"],
        &["remote", "prune", "sapwood-bases"],
        &["remote", "show", "sapwood-bases"],
    ] {
        let run = repo.git(args);
        let clean = |text: &str| !text.contains("fatal") && !text.contains("error");
        assert!(clean(&run.stderr.to_string()), "{args:?}: {}", run.stderr);
    }
    assert_eq!(repo.git(&["for-each-ref", "refs/remotes/sapwood-bases"]).stdout, "");
    let promisors = repo.git(&["config", "--get-regexp", "--name-only", "promisor"]).stdout.to_string();
    let asked: Vec<&str> = promisors.lines().collect();
    assert_eq!(asked, ["remote.sapwood-bases.promisor", "remote.origin.promisor"]);
    // libgit2 knows no such extension.
    assert_ne!(repo.run("git".as_ref(), &["config", "extensions.partialClone"]).code, 0);
    // Native commands read contents, and start no helper for them.
    repo.git(&["config", "alias.remote-sapwood-bases", "!read -r line; exit 7"]);
    fs::remove_file(repo.join("many/41")).expect("a file");
    let run = repo.run(SAPWOOD.as_ref(), &["restore", "many/41"]);
    assert_eq!((run.code, run.stderr.to_string()), (0, String::new()));
    // Git works without the program: the server has the blob.
    let shown = repo.run("git".as_ref(), &["show", "HEAD:many/40"]);
    assert_eq!((shown.code, shown.stdout.to_string().lines().count()), (0, 40), "{}", shown.stderr);
    assert_eq!(server.asked().len(), 1);
    base_done(&repo, &["pull", "-q", "--branch", "main", &server.fleet.remote()]);
    repo.git(&["show", "HEAD:many/39"]);
    assert_eq!(server.asked().len(), 1);
}

/// Git's default remote is the only one, else `origin`. One more remote must not change it.
#[test]
fn a_clone_with_another_origin_keeps_its_default_remote() {
    let server = Server::new();
    let (fleet, origin) = (&server.fleet, server.fleet.origin());
    let (url, repo) = (format!("file://{}", origin.path.display()), fleet.sandbox.repo("plain"));
    let dir = repo.path.display().to_string();
    let words = ["clone", "-q", "-o", "upstream", "--base", &fleet.remote(), &url, &dir];
    let run = origin.run(SAPWOOD.as_ref(), &words);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(repo.git(&["remote"]).stdout, "upstream\n");
    repo.git(&["switch", "-q", "-c", "mine"]);
    repo.git(&["fetch", "-q"]);
}
