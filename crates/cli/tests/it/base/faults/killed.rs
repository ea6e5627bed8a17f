//! Commands that are killed, interrupted, or run beside others.

use std::{
    cell::Cell,
    fs,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use testkit::{
    Repo,
    crash::{Crash, CrashPoints, Signal},
};

use super::{
    super::{base, base_command, base_done},
    Case, play,
    scene::Scene,
};
use crate::killed::{ALL, Most, at_crash_points};

/// The crash points of a transfer.
const POINTS: Most = Most(8, ALL);

fn start(repo: &Repo<'_>, args: &[&str]) -> Child {
    base_command(repo, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
}

/// Stops a command before a change. It ends by the signal, or it was done.
fn stopped(command: &Command, number: usize, signal: Signal) -> Crash {
    let crash = if signal == Signal::SIGKILL {
        Crash::before(number, command)
    } else {
        Crash::interrupted(number, command, signal)
    };
    assert!(
        [0, 128 + signal as i32].contains(&crash.code()),
        "{crash}: {}: {}",
        crash.code(),
        crash.stderr()
    );
    crash
}

/// Pulls at hosts, and stops each by a signal before another change. Then the pull is repeated.
fn pulls_stopped_by(scene: &Scene, signal: Signal) {
    let pull = |host: &Repo<'_>| base_command(host, &["pull", "-q", &scene.remote(), &scene.head()]);
    let points = CrashPoints::of(&pull(&scene.other_host()));
    scene.has_killed.set(signal == Signal::SIGKILL);
    at_crash_points(&points, &POINTS, |number| {
        let crash = stopped(&pull(&scene.other_host()), number, signal);
        let lock = scene.host().join(".git/shallow.lock");
        if signal == Signal::SIGKILL && lock.exists() {
            scene.pull_refused(&[&format!("Unable to create '{}': File exists.", lock.display())]);
            fs::remove_file(lock).expect("it is there");
        }
        scene.works();
        crash.happened()
    });
}

/// Pushes commits, and stops each push before another change. A host sees no base, or a whole one.
fn pushes_stopped_by(scene: &Scene, signal: Signal) {
    let rounds = Cell::new(0);
    let push = || {
        rounds.set(rounds.get() + 1);
        scene.fleet.origin().write("more", testkit::noise(100_000, rounds.get()));
        scene.change(&format!("{}\n", rounds.get()));
        base_command(&scene.fleet.origin(), &["push", "-q", "--no-mount", &scene.remote()])
    };
    push();
    assert_eq!(scene.push().code, 0);
    let points = CrashPoints::of(&push());
    at_crash_points(&points, &POINTS, |number| {
        let crash = stopped(&push(), number, signal);
        scene.other_host();
        if scene.manifest(&scene.head()).exists() {
            scene.works()
        } else {
            scene.pull_refused(&["has no base of commit"])
        }
        scene.push_works();
        crash.happened()
    });
}

const CASES: &[Case] = &[
    ("pull: killed", |scene| pulls_stopped_by(scene, Signal::SIGKILL)),
    ("push: killed", |scene| pushes_stopped_by(scene, Signal::SIGKILL)),
    ("pull: interrupted", |scene| pulls_stopped_by(scene, Signal::SIGINT)),
    ("push: interrupted", |scene| pushes_stopped_by(scene, Signal::SIGTERM)),
    ("two pushes of one commit", |scene| {
        scene.change("three\n");
        let push = || start(&scene.fleet.origin(), &["push", "-q", "--no-mount", &scene.remote()]);
        for child in [push(), push(), push()] {
            let output = child.wait_with_output().expect("a child");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        scene.push_works();
    }),
    ("pushes of different commits of a branch", |scene| {
        let commits: Vec<String> = (0..4)
            .map(|number| {
                scene.change(&format!("change {number}\n"));
                scene.head()
            })
            .collect();
        let push = |commit: &String| {
            let args = ["push", "-q", "--no-mount", "--branch", "main", &scene.remote(), commit];
            start(&scene.fleet.origin(), &args)
        };
        for child in commits.iter().map(push).collect::<Vec<_>>() {
            let output = child.wait_with_output().expect("a child");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let host = scene.host();
        for commit in &commits {
            base_done(&host, &["pull", "-q", &scene.remote(), commit]);
            scene.fleet.works_at(&host, commit);
        }
    }),
    ("a prune beside pulls: right files, or the base was pruned", |scene| {
        let (old, begin) = (scene.head(), Instant::now());
        scene.change("three\n");
        assert_eq!(scene.push().code, 0);
        scene.keep_sound();
        let prune = ["prune", "-q", "--keep", "1", "--grace", "0s", &scene.remote()];
        let mut pruned = 0;
        while pruned < 2 && begin.elapsed() < Duration::from_secs(20) {
            let host = scene.other_host();
            let pull = start(&host, &["pull", "-q", &scene.remote(), &old]);
            let prune = start(&scene.fleet.origin(), &prune);
            let (pull, prune) = (pull.wait_with_output(), prune.wait_with_output());
            assert!(prune.expect("a child").status.success());
            let output = pull.expect("a child");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => scene.fleet.works_at(&host, &old),
                Some(128) => {
                    assert!(said.contains("was pruned") || said.contains("has no base of commit"), "{said}");
                    assert!(scene.bases_here().is_empty());
                    pruned += 1;
                }
                other => panic!("{other:?}: {said}"),
            }
        }
        scene.other_host();
        scene.works();
    }),
    ("a prune beside a pull with a lease: the base stays", |scene| {
        let old = scene.head();
        scene.change("three\n");
        assert_eq!(scene.push().code, 0);
        base_done(&scene.fleet.origin(), &["lease", "-q", "--holder", "job", &scene.remote(), &old, "1h"]);
        let prune = ["prune", "-q", "--keep", "1", "--grace", "0s", &scene.remote()];
        let host = scene.host();
        let pull = start(&host, &["pull", "-q", &scene.remote(), &old]);
        assert_eq!(base(&scene.fleet.origin(), &prune).code, 0);
        assert!(pull.wait_with_output().expect("a child").status.success());
        scene.fleet.works_at(&host, &old);
        // After the lease, it goes.
        base_done(&scene.fleet.origin(), &["lease", "--release", "--holder", "job", &scene.remote(), &old]);
        assert_eq!(base(&scene.fleet.origin(), &prune).code, 0);
        assert!(!scene.manifest(&old).exists());
        scene.works();
    }),
];

#[test]
fn stopped_and_beside_others() {
    play(CASES);
}

/// A signal ends the process as the shell expects.
#[test]
fn a_signal_is_the_exit_status() {
    let scene = Scene::new();
    scene.fleet.origin().write("big", testkit::noise(64 << 20, 1));
    scene.fleet.origin().commit("big");
    let bases = scene.fleet.bases("origin");
    scene.fleet.origin().git(&["config", "sapwood.baseDir", bases.to_str().expect("a plain name")]);
    let mut child = start(&scene.fleet.origin(), &["push", "-q", "--no-mount", &scene.remote()]);
    let is_sending = || {
        let entries = fs::read_dir(&bases).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b".transfer-"))
    };
    while !is_sending() {
        assert!(child.try_wait().expect("a child").is_none(), "the push ended without a transfer");
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, "-TERM");
    assert_eq!(child.wait().expect("a child").signal(), Some(15));
    assert!(!scene.manifest(&scene.head()).exists());
}
