//! Progress on a terminal: each phase that may be slow shows it, under Git's title where Git has
//! that phase, and without a terminal none is shown.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

/// Runs a command of sapwood with a terminal as all of its streams. Returns the output.
fn on_terminal(repo: &Repo<'_>, program: &str, args: &[&str], delay: &str) -> BString {
    testkit::need_program("script");
    let quoted = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
    let mut command = repo.command("script".as_ref());
    command.args(["-qec", &format!("{program} {quoted}"), "/dev/null"]);
    command.env("GIT_PROGRESS_DELAY", delay).env("TERM", "xterm").stdin(Stdio::null());
    let output = command.output().expect("it was found");
    BString::from(output.stdout)
}

/// Runs a command of sapwood without a terminal. Returns standard error.
fn elsewhere(repo: &Repo<'_>, args: &[&str]) -> BString {
    let mut command = repo.command(SAPWOOD.as_ref());
    command.args(args).env("GIT_PROGRESS_DELAY", "0");
    BString::from(command.output().expect("it runs").stderr)
}

/// Returns true for the last line of a phase: `Updating files: 100% (n/n), done.`
fn is_shown(screen: &BString, title: &str) -> bool {
    screen.lines().any(|line| {
        let last = line.rsplit(|&byte| byte == b'\r').find(|part| !part.is_empty()).unwrap_or_default();
        last.starts_with(format!("{title}: ").as_bytes()) && last.contains_str(", done.")
    })
}

/// Creates enough files to count, and more untracked files than are removed in one batch.
fn make(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    for number in 0..300 {
        repo.write(format!("dir-{}/file-{number}", number % 7), format!("{number}\n"));
    }
    repo.commit("one");
    repo
}

fn touch_all(repo: &Repo<'_>) {
    let script = "find . -name 'file-*' -exec touch -d 2001-01-01 {} +";
    assert!(repo.command("sh".as_ref()).args(["-c", script]).status().expect("a shell").success());
}

/// Creates the state before a run of the command.
type Prepare = fn(&Repo<'_>);

/// The preparation, the command, the titles of its phases, and a variant of it that shows no
/// progress.
type Case<'c> = (Prepare, &'c [&'c str], &'c [&'c str], &'c [&'c str]);

#[test]
fn phases_show_themselves_on_a_terminal_alone() {
    let dirt: Prepare = |repo| {
        for number in 0..300 {
            repo.write(format!("new-{}/file-{number}", number % 9), "untracked\n");
        }
    };
    let linked: Prepare = |repo| {
        let linked = repo.path.parent().expect("the sandbox").join("linked");
        let _ = fs::remove_dir_all(&linked);
        repo.git(&["worktree", "prune"]);
        repo.git(&["worktree", "add", "-q", "--detach", "../linked"]);
        for number in 0..300 {
            fs::write(linked.join(format!("new-{number}")), "").expect("written");
        }
    };
    let unlinked: Prepare = |repo| {
        let _ = fs::remove_dir_all(repo.path.parent().expect("the sandbox").join("linked"));
        repo.git(&["worktree", "prune"]);
    };
    let sparse: Prepare = |repo| {
        repo.git(&["sparse-checkout", "set", "dir-1"]);
    };
    let full: Prepare = |repo| {
        repo.git(&["sparse-checkout", "disable"]);
    };
    let uncloned: Prepare = |repo| {
        let _ = fs::remove_dir_all(repo.path.parent().expect("the sandbox").join("copy"));
    };
    let empty: Prepare = |repo| {
        for number in 0..7 {
            let _ = fs::remove_dir_all(repo.join(format!("dir-{number}")));
        }
    };
    let cases: &[Case] = &[
        (touch_all, &["status"], &["Refresh index"], &["status", "--porcelain"]),
        (touch_all, &["adopt"], &["Verifying files"], &["adopt", "-q"]),
        (dirt, &["clean", "-fd"], &["Reading directories", "Removing files"], &["clean", "-fdq"]),
        (empty, &["reset", "--hard"], &["Updating files"], &["reset", "-q", "--hard"]),
        (empty, &["checkout", "-f"], &["Updating files"], &["checkout", "-q", "-f"]),
        (sparse, &["sparse-checkout", "disable"], &["Updating files"], &[]),
        (full, &["sparse-checkout", "set", "dir-2"], &["Updating files"], &[]),
        (
            unlinked,
            &["worktree", "add", "--detach", "../linked"],
            &["Updating files"],
            &["worktree", "add", "-q", "--detach", "../linked"],
        ),
        (linked, &["worktree", "remove", "-f", "../linked"], &["Removing files"], &[]),
        (
            uncloned,
            &["clone", ".", "../copy"],
            &["Copying objects", "Updating files"],
            &["clone", "-q", ".", "../copy"],
        ),
        (
            uncloned,
            &["clone", "--no-local", ".", "../copy"],
            &["Receiving objects", "Updating files"],
            &["clone", "-q", "--no-local", ".", "../copy"],
        ),
    ];
    let sandbox = Sandbox::new();
    let repo = make(&sandbox);
    for (prepare, args, titles, quiet) in cases {
        prepare(&repo);
        let screen = on_terminal(&repo, SAPWOOD, args, "0");
        for title in *titles {
            assert!(is_shown(&screen, title), "{args:?}: {title}: {screen}");
        }
        // A phase that ends before the delay shows nothing.
        prepare(&repo);
        let screen = on_terminal(&repo, SAPWOOD, args, "60");
        let delayed = titles.iter().filter(|title| **title != "Receiving objects");
        for title in delayed {
            assert!(!screen.contains_str(format!("{title}:")), "{args:?}: {title}: {screen}");
        }
        if !quiet.is_empty() {
            prepare(&repo);
            let screen = on_terminal(&repo, SAPWOOD, quiet, "0");
            assert!(!screen.contains_str("done."), "{quiet:?}: {screen}");
        }
        // Git's `reset --hard`, which `worktree add` runs too, shows progress without a terminal.
        if args[0] != "reset" && !args.starts_with(&["worktree", "add"]) {
            prepare(&repo);
            let said = elsewhere(&repo, args);
            let shown = titles.iter().filter(|title| args[0] != "clone" || **title != "Updating files");
            for title in shown {
                assert!(!said.contains_str(format!("{title}:")), "{args:?}: {title}: {said}");
            }
        }
    }
}

/// The final screen of `status` equals Git's, progress included, except for overwritten lines.
#[test]
fn status_ends_as_gits() {
    let sandbox = Sandbox::new();
    let repo = make(&sandbox);
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let shim = sandbox.path().join("bin");
    fs::create_dir(&shim).expect("made");
    std::os::unix::fs::symlink(SAPWOOD, shim.join("git")).expect("linked");
    let ours = shim.join("git").display().to_string();
    let last_words = |screen: BString| -> Vec<BString> {
        let lines = screen.lines().map(|line| line.trim_end_with(|letter| letter == '\r').to_vec());
        lines.map(|line| line.rsplit(|&byte| byte == b'\r').next().unwrap_or_default().into()).collect()
    };
    for args in [&["status"][..], &["status", "-s"], &["status", "--porcelain"], &["status", "-z"]] {
        touch_all(&repo);
        let theirs = last_words(on_terminal(&repo, &git, args, "0"));
        touch_all(&repo);
        assert_eq!(theirs, last_words(on_terminal(&repo, &ours, args, "0")), "{args:?}: git left");
        let is_shown = theirs.iter().any(|line| line.starts_with(b"Refresh index: 100% (300/300), done."));
        assert_eq!(is_shown, matches!(args, ["status"] | ["status", "-s"]), "{theirs:?}");
    }
}

/// The background process of `worktree remove` prints nothing, even with a terminal.
#[test]
fn the_background_is_silent() {
    let sandbox = Sandbox::new();
    let repo = make(&sandbox);
    repo.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    let linked = sandbox.path().join("linked");
    for number in 0..600 {
        fs::write(linked.join(format!("new-{number}")), "").expect("written");
    }
    let program = format!("{SAPWOOD} worktree remove -f ../linked; sleep 1; echo end;");
    let screen = on_terminal(&repo, &program, &[], "60");
    assert_eq!(screen.to_str_lossy().trim(), "end", "{screen}");
    assert!(!linked.exists());
    assert!(is_gone(&repo.join(".git/sapwood/trash")), "the background has deleted it");
}

/// Waits for a process of the lowest priority, which may be slow on a busy machine.
fn is_gone(path: &Path) -> bool {
    (0..2_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        !path.exists()
    })
}

/// A job in the background of its terminal draws nothing over the foreground job.
#[test]
fn a_background_job_shows_only_the_end() {
    let sandbox = Sandbox::new();
    let repo = make(&sandbox);
    touch_all(&repo);
    let script = sandbox.path().join("job");
    testkit::write_program(&script, format!("#!/bin/bash\nset -m\n{SAPWOOD} status & wait\n"));
    let screen = on_terminal(&repo, &script.display().to_string(), &[], "0");
    let parts = screen.lines().flat_map(|line| line.split_str("\r"));
    let shown: Vec<&[u8]> = parts.filter(|part| part.starts_with(b"Refresh index")).collect();
    assert!(shown.iter().all(|part| part.contains_str("done.")), "{screen}");
    let has_bash = Command::new("bash").arg("--version").output().is_ok();
    assert!(!has_bash || screen.contains_str("On branch main"), "{screen}");
}

/// A clone counts the files that it wrote while objects arrived, which needs a server, and the link
/// that it wrote after.
#[test]
fn a_clone_counts_all_files() {
    let sandbox = Sandbox::new();
    let repo = make(&sandbox);
    repo.symlink("dir-0", "link");
    repo.commit("two");
    let ssh = sandbox.path().join("ssh");
    let script = "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n";
    repo.write_executable("../ssh", script);
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let ssh = format!("core.sshCommand={}", ssh.display());
    let url = format!("ssh://host{}", repo.path.display());
    let program = format!("{git} upload-pack");
    let server = ["-c", &ssh, "-c", "ssh.variant=ssh", "clone", "--progress", "-u", &program, &url, "../far"];
    let local = ["clone", "--progress", ".", "../near"];
    for args in [&server[..], &local] {
        let shown = elsewhere(&repo, args);
        assert!(shown.contains_str("Updating files: 100% (301/301), done."), "{args:?}: {shown}");
    }
}
