//! Programs are killed exactly before the change with the given number.

#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    path::Path,
    process::Command,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use testkit::{
    Repo, Sandbox,
    crash::{Crash, CrashPoints, Signal},
};

/// Names the directory of `child_with_threads`.
const DIRECTORY: &str = "SAPWOOD_TEST_CRASH_DIRECTORY";

const THREADS: usize = 4;
const FILES: usize = 10;

fn shell(repo: &Repo<'_>, script: &str) -> Command {
    let mut command = repo.command(Path::new("sh"));
    command.args(["-ec", script]);
    command
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn each_change_is_a_point() {
    let sandbox = Sandbox::new();
    let changes: &[(&str, &str, &[&str])] = &[
        ("mkdir one", "one", &[]),
        ("printf x >file", "file", &["one"]),
        ("", "file", &["file", "one"]),
        ("ln -s file link", "link", &["file", "one"]),
        ("mv file other", "file", &["file", "link", "one"]),
        ("rm link", "link", &["link", "one", "other"]),
        ("rmdir one", "one", &["one", "other"]),
    ];
    let script: String =
        changes.iter().map(|change| format!("{}\necho said; echo said >&2\n", change.0)).collect();
    let place = |number: usize| {
        let repo = sandbox.repo(&format!("place{number}"));
        fs::create_dir(&repo.path).expect("a new directory");
        repo
    };
    let points = CrashPoints::of(&shell(&place(0), &script));
    assert_eq!(points.count(), changes.len());
    assert_eq!(names(&place(100).path), [""; 0]);
    for (number, (_, path, expected)) in (1..).zip(changes) {
        let repo = place(number);
        let crash = Crash::before(number, &shell(&repo, &script));
        assert!(crash.happened() && crash.code() == 128 + 9, "{crash}: {}", crash.code());
        assert!(crash.to_string().ends_with(&format!("{path}'")), "{crash}");
        assert_eq!(names(&repo.path), *expected, "{crash}");
        let written = if number > 3 { "x" } else { "" };
        let file = ["file", "other"].into_iter().find(|name| repo.exists(name));
        assert!(file.is_none_or(|name| repo.read(name) == written), "{crash}");
    }
    let crash = Crash::before(changes.len() + 1, &shell(&place(50), &script));
    assert!(!crash.happened(), "{crash}");
    assert_eq!(crash.stderr(), "said\n".repeat(changes.len()));
}

#[test]
fn a_kill_ends_processes_in_the_background() {
    let sandbox = Sandbox::new();
    let script = "(sleep 1; mkdir late) & (setsid sh -c 'sleep 1; mkdir later') & sleep 0.2; mkdir one; wait";
    let crash = Crash::before(1, &shell(&sandbox.repo(""), script));
    assert!(crash.happened(), "{crash}");
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(names(&sandbox.path()), ["home"]);
}

#[test]
fn processes_outlive_the_command() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("");
    // It ends by itself, so that a run that waits for it ends too.
    let waits = "n=0; until test -e go || test $n = 300; do sleep 0.1; n=$((n+1)); done; mkdir late";
    let points = CrashPoints::of(&shell(&repo, &format!("mkdir one; ({waits}) & exit 0")));
    assert!(!repo.exists("late"), "it was waited for");
    assert_eq!(points.count(), 1);
    repo.write("go", "");
    let begin = Instant::now();
    while !repo.exists("late") {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not go on");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_reaches_the_command() {
    let sandbox = Sandbox::new();
    let script = "trap 'rmdir one; exit 3' INT; mkdir one; mkdir two; mkdir three";
    let crash = Crash::interrupted(2, &shell(&sandbox.repo(""), script), Signal::SIGINT);
    assert!(crash.happened() && crash.code() == 3, "{crash}: {}", crash.code());
    assert_eq!(names(&sandbox.path()), ["home", "two"]);
}

/// Does nothing unless the next test starts it.
#[test]
fn child_with_threads() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (dir, barrier) = (Path::new(&dir), &barrier);
            scope.spawn(move || {
                barrier.wait();
                (0..FILES)
                    .for_each(|file| fs::create_dir(dir.join(format!("{number}-{file}"))).expect("new"));
            });
        }
    });
}

#[test]
fn all_threads_are_counted_and_killed() {
    let sandbox = Sandbox::new();
    let run = |name: &str| {
        let dir = sandbox.repo(name);
        fs::create_dir(&dir.path).expect("a new directory");
        let mut command = dir.command(&std::env::current_exe().expect("this program"));
        command.args(["--exact", "child_with_threads", "--test-threads=1"]).env(DIRECTORY, &dir.path);
        (dir, command)
    };
    let whole = THREADS * FILES;
    assert_eq!(CrashPoints::of(&run("whole").1).count(), whole);
    for number in [1, 2, 15, 30, whole] {
        let (dir, command) = run(&number.to_string());
        let crash = Crash::before(number, &command);
        assert!(crash.happened(), "{crash}");
        // The calls of other threads, which came before, may not have begun.
        let made = names(&dir.path).len();
        assert!(made < number && made + THREADS >= number, "{crash}: {made}");
    }
}

#[test]
fn a_sample_is_evenly_spread() {
    let sandbox = Sandbox::new();
    let script = "for n in 1 2 3 4 5 6 7 8 9 10; do mkdir $n; done";
    let points = CrashPoints::of(&shell(&sandbox.repo(""), script));
    assert_eq!(points.sample(10), (1..=10).collect::<Vec<_>>());
    assert_eq!(points.sample(4), [1, 4, 7, 10]);
    assert_eq!(points.sample(2), [1, 10]);
    let points = CrashPoints::of(&shell(&sandbox.repo(""), "mkdir a; rmdir a; mkdir b; mkdir c; rmdir b"));
    assert_eq!(points.clone().only("mkdir").sample(9), [1, 3, 4]);
    assert_eq!(points.only("rmdir").count(), 2);
}
