//! Commands that are killed, interrupted, or run beside others.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    super::{base, base_command, base_done},
    Case, play,
    scene::Scene,
};

/// The moments at which commands are killed, in parts of their usual time.
const MOMENTS: [u32; 6] = [2, 15, 30, 50, 70, 90];

fn start(repo: &testkit::Repo<'_>, args: &[&str]) -> Child {
    base_command(repo, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started")
}

fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
}

/// Pulls at hosts, and stops each by a signal at another moment. Then the pull is repeated.
fn pulls_stopped_by(scene: &Scene, name: &str) {
    let begin = Instant::now();
    scene.works();
    let usual = begin.elapsed() / 2;
    scene.has_killed.set(name == "-KILL");
    for moment in MOMENTS {
        let host = scene.other_host();
        let mut child = start(&host, &["pull", "-q", &scene.remote(), &scene.head()]);
        std::thread::sleep(usual * moment / 100);
        signal(&child, name);
        child.wait().expect("a child");
        scene.works();
    }
}

/// Pushes commits, and stops each push at another moment. A host sees no base, or a whole one.
fn pushes_stopped_by(scene: &Scene, name: &str) {
    let begin = Instant::now();
    scene.change("before\n");
    assert_eq!(scene.push().code, 0);
    let usual = begin.elapsed();
    for moment in MOMENTS {
        scene.fleet.origin().write("more", testkit::noise(100_000, moment.into()));
        scene.change(&format!("{moment}\n"));
        let mut child = start(&scene.fleet.origin(), &["push", "-q", "--no-mount", &scene.remote()]);
        std::thread::sleep(usual * moment / 100);
        signal(&child, name);
        child.wait().expect("a child");
        scene.other_host();
        match scene.manifest(&scene.head()).exists() {
            true => scene.works(),
            false => scene.pull_refused(&["has no base of commit"]),
        }
        scene.push_works();
    }
}

const CASES: &[Case] = &[
    ("pull: killed", |scene| pulls_stopped_by(scene, "-KILL")),
    ("push: killed", |scene| pushes_stopped_by(scene, "-KILL")),
    ("pull: interrupted", |scene| pulls_stopped_by(scene, "-INT")),
    ("push: interrupted", |scene| pushes_stopped_by(scene, "-TERM")),
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
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("a child").signal(), Some(2));
    assert!(!scene.manifest(&scene.head()).exists());
}
