//! The content of the directory before the checkout: an earlier job's, a user's, somebody else's.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use testkit::{disk::NoMountsBelow, servers::Nginx};

use super::{Server, state};
use crate::SAPWOOD;

/// Everything that a job may leave is gone, the clone is used again, and nothing outside of the
/// directory changes.
#[test]
fn a_clone_of_an_earlier_job_is_used_again() {
    let server = Server::new();
    let url = server.url("app");
    let top = server.dir("runner");
    top.write("other/file", "of somebody\n");
    let args = ["--path=app", "--ref=refs/heads/topic/a", "--submodules=recursive", &url];
    server.check_out(&top, &args);
    let fresh = state(&server.sandbox.repo("runner/app"));
    let app = server.sandbox.repo("runner/app");
    let git_dir = app.join(".git").metadata().expect("a directory").ino();
    for script in [
        "echo of a job >README; rm docs/page; echo new >new; mkdir -p ignored; echo x >ignored/x",
        "git init -q nested; echo x >nested/x; git switch -qc mine/own; git commit -q --allow-empty -m mine",
        "git branch mine/too; git branch other; touch .git/index.lock .git/shallow.lock",
        "git -C sub commit -q --allow-empty -m x; echo x >sub/README; touch .git/modules/sub/index.lock",
        "git update-ref refs/remotes/origin/topic/a/b HEAD 2>/dev/null || \
         { git update-ref -d refs/remotes/origin/topic/a; git update-ref refs/remotes/origin/topic/a/b HEAD; }",
        "git sparse-checkout set src",
        "git config core.autocrlf false; git rm -rq docs; echo conflict | git hash-object -w --stdin >/dev/null",
        "git branch last; git symbolic-ref HEAD refs/heads/last; git read-tree --empty",
    ] {
        let shell = app.command("sh".as_ref()).args(["-ec", script]).output().expect("a shell");
        assert!(shell.status.success(), "{script}: {}", String::from_utf8_lossy(&shell.stderr));
        server.check_out(&top, &args);
        assert_eq!(state(&app), fresh, "{script}");
        assert_eq!(app.join(".git").metadata().expect("a directory").ino(), git_dir, "{script}");
    }
    // A repository that cannot be used is made anew.
    for script in ["rm .git/HEAD", "echo '[' >.git/config", "git checkout -q --orphan none", "rm -rf .git"] {
        let shell = app.command("sh".as_ref()).args(["-ec", script]).status().expect("a shell");
        assert!(shell.success(), "{script}");
        server.check_out(&top, &args);
        assert_eq!(state(&app), fresh, "{script}");
    }
    assert_eq!(top.read("other/file"), "of somebody\n");
    assert_eq!(fs::read_dir(&top.path).expect("a directory").count(), 2);
}

/// A checkout that was killed is completed by the same command, in new and in old directories.
#[test]
fn a_killed_checkout_is_repeated() {
    let server = Server::new();
    let url = server.url("app");
    let args = ["--ref=refs/heads/main", "--submodules=recursive", &url];
    server.check_out(&server.dir("fresh"), &args);
    let fresh = state(&server.dir("fresh"));
    for round in 0..16u64 {
        let at = server.dir(if round % 2 == 0 { "again" } else { "killed" });
        if round % 2 == 1 {
            fs::remove_dir_all(&at.path).expect("a directory");
            fs::create_dir(&at.path).expect("a new directory");
        }
        let mut command = at.command(SAPWOOD.as_ref());
        command.env("CI", "true").env("TOKEN", Nginx::PASSWORD).process_group(0);
        command.args(["ci", "checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER]).args(args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program");
        std::thread::sleep(Duration::from_millis(round * 40));
        let kill = format!("kill -9 -{} 2>/dev/null || :", child.id());
        Command::new("sh").args(["-c", &kill]).status().expect("a shell");
        child.wait().expect("it ended");
        server.check_out(&at, &args);
        assert_eq!(state(&at), fresh, "round {round}");
        assert_eq!(at.git(&["fsck", "--connectivity-only"]).code, 0, "round {round}");
    }
}

/// Mounts a file system with a file. Returns false without the right to do so.
fn mount_tmpfs(at: &Path) -> bool {
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(at).stderr(Stdio::null()).status();
    let is_mounted = mount.is_ok_and(|status| status.success());
    if is_mounted {
        fs::write(at.join("precious"), "mine\n").expect("a new file");
    }
    is_mounted
}

/// Another URL: made anew on a runner, refused elsewhere.
#[test]
fn other_content_is_removed_only_on_a_runner() {
    let server = Server::new();
    let _mounts = NoMountsBelow::new(&server.sandbox.path());
    let token = ["--token-env=TOKEN", "--token-user", Nginx::USER];
    let url = server.url("inner");
    let checkout = |variables: &[(&str, &str)], args: &[&str]| {
        let args = [&["checkout", "-q", "--path=app"], &token[..], args, &[&url]].concat();
        server.ci(&server.dir("here"), variables, &args)
    };
    let app = server.sandbox.repo("here/app");
    let before = |script: &str| {
        drop(fs::remove_dir_all(&app.path));
        server.check_out(&server.dir("here"), &["--path=app", &server.url("app")]);
        let shell = app.command("sh".as_ref()).args(["-ec", script]).status().expect("a shell");
        assert!(shell.success(), "{script}");
    };
    for (script, reason) in [
        ("true", "it is a clone of '"),
        ("git remote remove origin", "its repository has no remote 'origin'"),
        ("rm -rf .git", "it is not empty, and no repository"),
        ("echo '[' >.git/config", "its repository cannot be opened"),
    ] {
        before(script);
        let files = || fs::read_to_string(app.join("README")).unwrap_or_default();
        for (variables, option) in
            [(&[][..], None), (&[("CI", "true")], Some("--no-clean")), (&[("CI", "")], None)]
        {
            let refused = checkout(variables, &option.into_iter().collect::<Vec<_>>());
            assert_eq!(refused.code, 128, "{script}");
            let said = refused.stderr.to_string();
            assert!(said.contains(reason) && said.contains("--clean removes"), "{script}: {said}");
            assert_eq!(files(), "three\n", "{script}");
        }
        assert_eq!(checkout(&[("CI", "true")], &[]).code, 0, "{script}");
        assert_eq!(files(), "inner\n", "{script}");
        before(script);
        assert_eq!(checkout(&[], &["--clean"]).code, 0, "{script}");
        assert_eq!(files(), "inner\n", "{script}");
    }
    // A directory in a person's clone, whose shell sets `CI`.
    before("rm -rf .git");
    fs::create_dir(server.dir("here").join(".git")).expect("a directory");
    assert_eq!(checkout(&[("CI", "true")], &[]).code, 128);
    assert!(app.join("README").exists());
    fs::remove_dir(server.dir("here").join(".git")).expect("it is empty");
    // Worktrees that need the repository, and a linked worktree itself.
    before("git worktree add -q ../linked");
    let refused = checkout(&[("CI", "true")], &[]);
    assert!(
        refused.stderr.to_string().contains("linked worktrees need its repository"),
        "{}",
        refused.stderr
    );
    let linked = server.ci(
        &server.dir("here"),
        &[("CI", "true")],
        &[&["checkout", "--clean", "--path=linked"], &token[..], &[&url]].concat(),
    );
    assert!(linked.stderr.to_string().contains("is a linked worktree or a submodule"), "{}", linked.stderr);
    assert_eq!(server.sandbox.repo("here/linked").read("README"), "three\n");
    assert_eq!(checkout(&[("CI", "true")], &["--clean"]).code, 0);
    // Something that is mounted below.
    before("mkdir mnt");
    if mount_tmpfs(&app.join("mnt")) {
        let refused = checkout(&[], &["--clean"]);
        assert!(refused.stderr.to_string().contains("is mounted below it"), "{}", refused.stderr);
        assert!(app.exists("mnt/precious") && app.exists("README"));
        // A clone is not cleaned either.
        let own = server.url("app");
        let cleaned = [&["checkout", "-q", "--path=app"], &token[..], &[&own]].concat();
        let refused = server.ci(&server.dir("here"), &[("CI", "true")], &cleaned);
        assert!(refused.stderr.to_string().contains("is mounted below it"), "{}", refused.stderr);
        assert!(app.exists("mnt/precious"));
    }
    // The home directory.
    let home = server.sandbox.repo("home");
    home.write("file", "mine\n");
    let refused =
        server.ci(&home, &[("CI", "true")], &[&["checkout", "--clean"], &token[..], &[&url]].concat());
    assert!(refused.stderr.to_string().contains("home directory"), "{}", refused.stderr);
    assert_eq!(home.read("file"), "mine\n");
}

/// A clone in the home directory is not cleaned, by whatever path; nor is one around it.
#[test]
fn the_home_directory_is_never_cleaned() {
    let server = Server::new();
    let url = server.url("app");
    let token = ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER];
    let at = server.dir("mine");
    server.check_out(&at, &[&url]);
    at.write("untracked", "mine\n");
    at.write("inner/file", "mine\n");
    std::os::unix::fs::symlink(&at.path, server.sandbox.path().join("link")).expect("a new link");
    for home in ["mine", "link", "mine/inner"] {
        let home = server.sandbox.path().join(home).display().to_string();
        let variables = [("CI", "true"), ("HOME", &*home)];
        for option in [&[][..], &["--clean"]] {
            let refused = server.ci(&at, &variables, &[&token[..], option, &[&url]].concat());
            assert_eq!(refused.code, 128, "{home}");
            assert!(refused.stderr.to_string().contains("home directory"), "{home}: {}", refused.stderr);
            assert!(at.exists("untracked") && at.exists("inner/file"), "{home}");
        }
    }
}

/// The branch of a linked worktree stays when the clone is cleaned; other branches go.
#[test]
fn the_branch_of_a_linked_worktree_stays() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("job");
    server.check_out(&at, &[&url]);
    at.git(&["branch", "unused"]);
    at.git(&["worktree", "add", "-q", "-b", "mine", "../linked"]);
    let linked = server.sandbox.repo("linked");
    linked.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
    let mine = linked.git(&["rev-parse", "HEAD"]).stdout;
    server.check_out(&at, &[&url]);
    assert_eq!(linked.git(&["rev-parse", "mine"]).stdout, mine);
    assert_eq!(at.try_git(&["rev-parse", "-q", "--verify", "refs/heads/unused"]).code, 1);
}

/// A repository whose worktree is elsewhere is made anew, and that worktree is not touched.
#[test]
fn a_worktree_elsewhere_stays() {
    let server = Server::new();
    let url = server.url("app");
    let (at, elsewhere) = (server.dir("job"), server.dir("elsewhere"));
    elsewhere.write("file", "mine\n");
    for worktree in [elsewhere.path.display().to_string(), "../../elsewhere".to_owned()] {
        server.check_out(&at, &[&url]);
        at.git(&["config", "core.worktree", &worktree]);
        let token = ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER];
        let refused = server.ci(&at, &[], &[&token[..], &[&url]].concat());
        assert!(
            refused.stderr.to_string().contains("the worktree of its repository is '"),
            "{}",
            refused.stderr
        );
        server.check_out(&at, &[&url]);
        assert_eq!(at.try_git(&["config", "core.worktree"]).code, 1);
        assert_eq!(elsewhere.read("file"), "mine\n");
        assert_eq!(fs::read_dir(&elsewhere.path).expect("a directory").count(), 1);
    }
    // In its own place.
    at.git(&["config", "core.worktree", ".."]);
    let git_dir = at.join(".git").metadata().expect("a directory").ino();
    server.check_out(&at, &[&url]);
    assert_eq!(at.join(".git").metadata().expect("a directory").ino(), git_dir);
}

/// Outside of a runner the work of a user stays, and a dry run changes nothing.
#[test]
fn the_work_of_a_user_stays() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("mine");
    let token = ["checkout", "--token-env=TOKEN", "--token-user", Nginx::USER];
    let dry = server.ci(&at, &[], &[&token[..], &["-n", &url]].concat());
    assert_eq!(dry.stdout.to_string(), format!("Would clone '{url}' into '{}'\n", at.path.display()));
    assert_eq!(fs::read_dir(&at.path).expect("a directory").count(), 0);
    let first = server.ci(&at, &[], &[&token[..], &["--depth=0", &url]].concat());
    assert_eq!(first.code, 0, "{}", first.stderr);
    at.git(&["switch", "-q", "-c", "mine", "origin/topic/a"]);
    at.write("src/lib/code", "my code\n");
    at.write("untracked", "mine\n");
    at.write(".git/index.lock.mine", "");
    let mine = at.git(&["rev-parse", "mine"]).stdout;
    let again = server.ci(&at, &[], &[&token[..], &["--depth=0", "--ref=main", &url]].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(at.git(&["rev-parse", "mine"]).stdout, mine);
    assert_eq!(at.git(&["rev-parse", "HEAD"]).stdout.to_string().trim(), server.id("main"));
    assert_eq!(at.git(&["status", "--porcelain"]).stdout, " M src/lib/code\n?? untracked\n");
    // A conflict is an error that changes nothing.
    at.git(&["switch", "-q", "--detach", "origin/topic/a"]);
    at.write("README", "my words\n");
    let refused = server.ci(&at, &[], &[&token[..], &["--depth=0", "--ref=main", &url]].concat());
    assert_eq!(refused.code, 128);
    assert!(refused.stderr.to_string().contains("would be overwritten"), "{}", refused.stderr);
    assert_eq!(at.read("README"), "my words\n");
    // A command of somebody is at work.
    at.git(&["checkout", "-q", "--", "README"]);
    at.write(".git/index.lock", "");
    let refused = server.ci(&at, &[], &[&token[..], &["--depth=0", "--ref=main", &url]].concat());
    assert!(refused.code == 128 && at.exists(".git/index.lock"), "{}", refused.stderr);
}

/// Outside of a runner the history, the tags and the settings of a user's clone stay.
#[test]
fn the_repository_of_a_user_stays() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("mine");
    let token = ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER];
    let check_out = |args: &[&str]| server.ci(&at, &[], &[&token[..], args, &[&url]].concat());
    let first = check_out(&["--depth=0"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let origin = url.replacen("://", "://me@", 1);
    for (key, value) in [("gc.auto", "7"), ("remote.origin.url", &*origin)] {
        at.git(&["config", key, value]);
    }
    at.git(&["sparse-checkout", "set", "docs"]);
    let commits = || at.git(&["rev-list", "--count", "origin/main"]).stdout;
    let before = commits();
    let again = check_out(&["--ref=main"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(commits(), before);
    assert!(!at.exists(".git/shallow"));
    assert_eq!(at.git(&["config", "gc.auto"]).stdout, "7\n");
    assert_eq!(at.git(&["sparse-checkout", "list"]).stdout, "docs\n");
    assert_eq!(at.git(&["config", "remote.origin.url"]).stdout.to_string().trim(), origin);
    // A tag of the user is not replaced.
    at.git(&["tag", "-f", "v1", "origin/main"]);
    let mine = at.git(&["rev-parse", "v1"]).stdout;
    for args in [&["--tags"][..], &["--depth=0"], &["--ref=refs/tags/v1"]] {
        assert_eq!(check_out(args).code, 128, "{args:?}");
        assert_eq!(at.git(&["rev-parse", "v1"]).stdout, mine, "{args:?}");
    }
}

/// A Git directory is no worktree of an earlier job.
#[test]
fn a_git_directory_stays() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("job");
    let token = ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER];
    server.check_out(&at, &["--path=app", &url]);
    at.git(&["init", "-q", "--bare", "bare.git"]);
    for (path, reason) in
        [("--path=app/.git", "--clean removes"), ("--path=bare.git", "it is a Git directory")]
    {
        let refused = server.ci(&at, &[("CI", "true")], &[&token[..], &[path, &url]].concat());
        assert!(refused.stderr.to_string().contains(reason), "{path}: {}", refused.stderr);
        assert!(at.exists("app/.git/HEAD") && at.exists("bare.git/HEAD"), "{path}");
    }
}

/// A commit that looks like an option reaches no command.
#[test]
fn a_commit_is_an_object_id() {
    let server = Server::new();
    let at = server.dir("new");
    let ran = server.sandbox.path().join("ran");
    let source = server.sandbox.path().join("server/app.git");
    let commit = format!("--commit=--upload-pack=touch {} && git-upload-pack", ran.display());
    let refused = server.ci(&at, &[], &["checkout", "-q", &commit, &format!("file://{}", source.display())]);
    assert_eq!(refused.code, 128);
    assert!(refused.stderr.to_string().contains("is not a whole object id"), "{}", refused.stderr);
    assert!(!ran.exists());
}

/// `cleanup` in a directory without a repository, and with wrong arguments.
#[test]
fn a_cleanup_without_credentials_does_nothing() {
    let server = Server::new();
    let at = server.dir("empty");
    let run = at.run(SAPWOOD.as_ref(), &["ci", "cleanup"]);
    assert_eq!(
        (run.code, run.stdout),
        (0, "removed credentials: 0 files, 0 settings\n".into()),
        "{}",
        run.stderr
    );
    assert_eq!(at.run(SAPWOOD.as_ref(), &["ci", "cleanup", "a", "b"]).code, 128);
}
