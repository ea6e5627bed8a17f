//! Killed with SIGKILL at random moments of a switch and of a clone: the repository opens, `git fsck` is
//! clean, a stale lock is named, and the same command run again finishes.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, full, random::Random, shared_data};

/// Runs the program and kills it after `delay`; whether it was still running.
fn kill_after(repo: &Repo<'_>, args: &[&str], delay: Duration) -> bool {
    let mut child = repo.command(Path::new(SAPWOOD)).args(args).spawn().expect("the program starts");
    std::thread::sleep(delay);
    let was_running = child.try_wait().expect("our child").is_none();
    child.kill().expect("our child");
    child.wait().expect("our child");
    was_running
}

fn timed(repo: &Repo<'_>, args: &[&str]) -> Duration {
    let start = Instant::now();
    let run = repo.run(Path::new(SAPWOOD), args);
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    start.elapsed()
}

fn moment(random: &mut Random, whole: Duration) -> Duration {
    Duration::from_micros(random.next() % whole.as_micros().max(1) as u64)
}

/// Checks that Git can work with what was left, and takes stale locks away as Git's text says.
fn usable(repo: &Repo<'_>, context: &str) {
    usable_objects(repo, context);
    let status = repo.try_git(&["--no-optional-locks", "status", "--porcelain"]);
    assert_eq!(status.code, 0, "{context}: status: {}", status.stderr);
}

fn usable_objects(repo: &Repo<'_>, context: &str) {
    let fsck = repo.try_git(&["fsck", "--no-dangling", "--connectivity-only"]);
    assert_eq!((fsck.code, fsck.stderr.to_string()), (0, String::new()), "{context}: fsck");
}

fn make_dir(repo: &Repo<'_>, name: &str) {
    std::fs::create_dir_all(repo.join(name)).expect("a directory for tests");
}

#[test]
fn a_switch_can_be_killed_at_any_moment() {
    let Some(bundle) = shared_data("libgit2.bundle") else { return };
    let sandbox = Sandbox::new();
    sandbox.repo("").git(&["clone", "-q", &bundle.display().to_string(), "repo"]);
    let repo = sandbox.repo("repo");
    let (old, new) = ("HEAD~2000", "origin/HEAD");
    repo.git(&["branch", "-q", "old", old]);
    repo.git(&["branch", "-q", "new", new]);
    repo.git(&["checkout", "-q", "new"]);
    let whole = timed(&repo, &["checkout", "-q", "old"]).max(timed(&repo, &["checkout", "-q", "new"]));
    let mut random = Random::new(1);
    let (mut at, mut interrupted, mut stale_locks) = ("new", 0, 0);
    for round in 0..if full() { 100 } else { 15 } {
        let to = if at == "new" { "old" } else { "new" };
        let delay = moment(&mut random, whole);
        interrupted += usize::from(kill_after(&repo, &["checkout", "-q", to], delay));
        let context = format!("round {round}, killed after {delay:?}");
        usable(&repo, &context);
        let again = ["checkout", "-q", "-f", to];
        let mut run = repo.run(Path::new(SAPWOOD), &again);
        for name in ["index.lock", "HEAD.lock"] {
            let lock = format!(".git/{name}");
            if run.code != 0 && repo.exists(&lock) {
                stale_locks += 1;
                let path = repo.join(&lock).display().to_string();
                assert_eq!(run.code, 128, "{context}: {}", run.stderr);
                let text = run.stderr.to_string();
                assert!(
                    text.contains(&format!("Unable to create '{path}': File exists.")),
                    "{context}: {text}"
                );
                assert!(text.contains("the lock file may be stale"), "{context}: {text}");
                repo.remove(&lock);
                run = repo.run(Path::new(SAPWOOD), &again);
            }
        }
        assert_eq!(run.code, 0, "{context}: {}", run.stderr);
        let status = repo.git(&["status", "--porcelain"]).stdout;
        assert_eq!(status, "", "{context}: the second run did not finish the work");
        let head = repo.git(&["rev-parse", "HEAD", to]).stdout.to_string();
        let ids: Vec<&str> = head.lines().collect();
        assert_eq!(ids[0], ids[1], "{context}");
        at = to;
    }
    println!("{interrupted} runs were killed while running, {stale_locks} stale locks met");
    assert!(interrupted > 0, "no run was killed in time: the test shows nothing");
}

#[test]
fn a_clone_can_be_killed_at_any_moment() {
    let Some(bundle) = shared_data("libgit2.bundle") else { return };
    let sandbox = Sandbox::new();
    let root = sandbox.repo("");
    root.git(&["clone", "-q", "--bare", &bundle.display().to_string(), "source.git"]);
    let clone = ["clone", "-q", "source.git", "copy"];
    let whole = timed(&root, &clone);
    let copy = sandbox.repo("copy");
    let mut random = Random::new(2);
    let (mut interrupted, mut finished) = (0, 0);
    for round in 0..if full() { 100 } else { 10 } {
        if root.exists("copy") {
            root.remove("copy");
        }
        let delay = moment(&mut random, whole);
        interrupted += usize::from(kill_after(&root, &clone, delay));
        let context = format!("round {round}, killed after {delay:?}");
        if copy.exists(".git/HEAD") {
            usable(&copy, &context);
        }
        // The marker comes with the repository and goes last: without it the clone is whole, and is
        // refused as Git refuses it.
        let whole = copy.exists(".git") && !copy.exists(".git/sapwood-clone");
        let run = root.run(Path::new(SAPWOOD), &clone);
        if whole {
            finished += 1;
            let refusal = "fatal: destination path 'copy' already exists and is not an empty directory.\n";
            assert_eq!((run.code, run.stderr.to_string()), (128, refusal.to_owned()), "{context}");
        } else {
            assert_eq!(run.code, 0, "{context}: {}", run.stderr);
        }
        usable(&copy, &context);
        for name in ["sapwood-clone", "index.lock", "HEAD.lock"] {
            assert!(!copy.exists(format!(".git/{name}")), "{context}: {name} is left");
        }
        let status = copy.git(&["status", "--porcelain"]).stdout;
        assert_eq!(status, "", "{context}: the second run did not finish the work");
        let source = sandbox.repo("source.git").git(&["rev-parse", "HEAD"]).stdout;
        assert_eq!(copy.git(&["rev-parse", "HEAD"]).stdout, source, "{context}");
    }
    println!("{interrupted} runs were killed while running, {finished} clones were whole by then");
    assert!(interrupted > 0, "no run was killed in time: the test shows nothing");
}

/// Moments too short to be met by chance, made by hand from the pieces of a whole clone.
#[test]
fn a_clone_goes_on_from_every_moment_a_kill_can_leave() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    source.write("a/file", "one\n");
    source.write("file", "two\n");
    source.commit("one");
    let root = sandbox.repo("");
    let (copy, bare) = (sandbox.repo("copy"), sandbox.repo("bare"));
    let url = source.join("").display().to_string();
    let url = url.trim_end_matches('/');
    // The id of a process that lives: it is not what counts.
    let marker = format!("{}\n{url}\n", std::process::id());
    let scrap = format!(".clone-{}", std::process::id());
    let marked = format!("{scrap}/sapwood-clone");
    let invalid = "ref: refs/heads/.invalid\n";
    type Moment<'a> = (&'a str, &'a dyn Fn());
    let published: &dyn Fn() = &|| {
        root.git(&["clone", "-q", "--no-checkout", url, "copy"]);
        copy.write(".git/sapwood-clone", &marker);
    };
    let moments: &[Moment<'_>] = &[
        ("an assembly without a marker", &|| make_dir(&copy, &scrap)),
        ("an assembly with a marker not written", &|| copy.write(&marked, "")),
        ("an assembly", &|| {
            copy.write(&marked, &marker);
            copy.write(format!("{scrap}/description"), "half");
        }),
        ("a skeleton", &|| {
            copy.write(".git/sapwood-clone", &marker);
            copy.write(".git/HEAD", invalid);
        }),
        ("only the marker left by a clearing", &|| copy.write(".git/sapwood-clone", &marker)),
        ("an empty directory left by a clearing", &|| make_dir(&copy, ".git")),
        ("refs, and HEAD locked for its reflog", &|| {
            published();
            copy.write(".git/HEAD.lock", "");
        }),
        ("a locked index, and half a file", &|| {
            published();
            copy.write(".git/index.lock", "");
            copy.write("a/file", "o");
        }),
        ("an index, and the marker", &|| {
            root.git(&["clone", "-q", url, "copy"]);
            copy.write(".git/sapwood-clone", &marker);
        }),
    ];
    for (context, make) in moments {
        if root.exists("copy") {
            root.remove("copy");
        }
        make();
        let run = root.run(Path::new(SAPWOOD), &["clone", "-q", url, "copy"]);
        assert_eq!(run.code, 0, "{context}: {}", run.stderr);
        usable(&copy, context);
        assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "", "{context}");
        let head = copy.git(&["rev-parse", "HEAD"]).stdout;
        assert_eq!(head, source.git(&["rev-parse", "HEAD"]).stdout, "{context}");
        for name in ["sapwood-clone", "index.lock", "HEAD.lock"] {
            assert!(!copy.exists(format!(".git/{name}")), "{context}: {name} is left");
        }
    }
    bare.write("sapwood-clone", &marker);
    bare.write(format!("{scrap}/HEAD"), invalid);
    let run = root.run(Path::new(SAPWOOD), &["clone", "-q", "--bare", url, "bare"]);
    assert_eq!(run.code, 0, "half moved in: {}", run.stderr);
    usable_objects(&bare, "half moved in");
    assert!(!bare.exists("sapwood-clone") && !bare.exists(&scrap), "half moved in: something is left");
}
