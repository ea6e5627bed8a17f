//! `base mirror`.

use std::{
    fs,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{Fleet, base, base_command, base_done};

fn url(fleet: &Fleet) -> String {
    format!("file://{}", fleet.origin().path.display())
}

fn mirror(fleet: &Fleet, dir: &str, options: &[&str]) -> serde_json::Value {
    let outside = fleet.sandbox.repo("");
    let (remote, url) = (fleet.remote(), url(fleet));
    let args = [&["mirror", "--json", "--dir", dir], options, &[&remote, &url]].concat();
    serde_json::from_str(&base_done(&outside, &args)).expect("JSON")
}

#[test]
fn a_mirror_pushes_tips_that_have_no_base() {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    let report = mirror(&fleet, "mirror.git", &[]);
    assert_eq!((&report[0]["branch"], &report[0]["base"]["wasThere"]), (&"main".into(), &false.into()));
    let host = fleet.host("host");
    base_done(&host, &["pull", "-q", "--branch", "main", &fleet.remote()]);
    fleet.works_at(&host, &fleet.commit("HEAD"));
    assert_eq!(fleet.stored("bundles").len(), 1);
    assert_eq!(mirror(&fleet, "mirror.git", &[])[0]["base"]["wasThere"], true);
    origin.write("file", "three\n");
    origin.commit("three");
    for branch in ["release/1", "release/2", "other"] {
        origin.git(&["branch", branch, "HEAD~1"]);
    }
    let report = mirror(&fleet, "mirror.git", &["--branch", "main", "--branch", "release/*"]);
    let names: Vec<_> = report.as_array().expect("a list").iter().map(|one| &one["branch"]).collect();
    assert_eq!(names, ["main", "release/1", "release/2"]);
    assert_eq!(report[0]["base"]["contents"], 1, "{report}");
    assert_eq!(fleet.stored("branches").len(), 3);
    // The branch goes back: its tip has a base, and becomes the newest of the record again.
    origin.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(mirror(&fleet, "mirror.git", &[])[0]["base"]["wasThere"], true);
    let list = base_done(&origin, &["list", &fleet.remote()]);
    let newest = list.lines().find(|line| line.starts_with(&fleet.commit("HEAD"))).expect("the base");
    assert!(newest.contains("main"), "{list}");
}

#[test]
fn a_mirror_leaves_other_repositories_alone() {
    let fleet = Fleet::new();
    let outside = fleet.sandbox.repo("");
    outside.git(&["clone", "-q", "--bare", &url(&fleet), "own.git"]);
    outside.git(&["-C", "own.git", "branch", "mine"]);
    let refused = base(&outside, &["mirror", "--dir", "own.git", "--branch", "*", &fleet.remote()]);
    assert_eq!(refused.code, 128);
    let message = refused.stderr.to_string();
    assert!(message.contains("was not made by 'base mirror'"), "{message}");
    outside.git(&["-C", "own.git", "rev-parse", "--verify", "mine"]);
}

/// The record of a branch goes with the branch. That of a branch which the mirror never had stays.
#[test]
fn a_mirror_forgets_branches_that_the_server_deleted() {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    for branch in ["release/1", "release/2", "other"] {
        origin.git(&["branch", branch]);
    }
    let release = ["--branch", "main", "--branch", "release/*"];
    mirror(&fleet, "m.git", &release);
    base_done(&origin, &["push", "-q", "--no-mount", "--branch", "release/local", &fleet.remote()]);
    mirror(&fleet, "o.git", &["--branch", "*"]);
    let left = |kind: &str| -> Vec<String> {
        let name = |path: &std::path::PathBuf| path.file_name().expect("a name").display().to_string();
        fleet.stored(kind).iter().map(name).collect()
    };
    let all = ["main", "other", "release_2f1", "release_2f2", "release_2flocal"];
    assert_eq!(left("branches"), all);
    assert_eq!(left("bundles"), ["main", "other", "release_2f1", "release_2f2"]);
    origin.git(&["branch", "-D", "release/1", "other"]);
    // A directory takes the place of the branch.
    origin.git(&["branch", "release/1/fix"]);
    let report = mirror(&fleet, "m.git", &release);
    assert_eq!(
        (&report[0]["branch"], &report[0]["removed"]),
        (&"release/1".into(), &true.into()),
        "{report}"
    );
    assert_eq!(left("branches"), ["main", "other", "release_2f1_2ffix", "release_2f2", "release_2flocal"]);
    assert_eq!(left("bundles"), ["main", "other", "release_2f1_2ffix", "release_2f2"]);
    let list = base_done(&origin, &["list", &fleet.remote()]);
    assert!(!list.contains("release/1,"), "{list}");
}

#[test]
fn two_mirrors_at_once_do_no_harm() {
    let fleet = Fleet::new();
    for (one, other) in [("same.git", "same.git"), ("one.git", "other.git")] {
        let origin = fleet.origin();
        origin.write("file", one);
        origin.commit(one);
        let outside = fleet.sandbox.repo("");
        let start = |dir: &str| {
            let (remote, url) = (fleet.remote(), url(&fleet));
            base_command(&outside, &["mirror", "-q", "--dir", dir, &remote, &url]).spawn().expect("started")
        };
        for mut child in [start(one), start(other)] {
            assert!(child.wait().expect("a child").success());
        }
        let host = fleet.host(&format!("host-{other}"));
        base_done(&host, &["pull", "-q", "--branch", "main", &fleet.remote()]);
        fleet.works_at(&host, &fleet.commit("HEAD"));
    }
}

#[test]
fn a_mirror_follows_until_it_is_stopped() {
    let fleet = Fleet::new();
    let outside = fleet.sandbox.repo("");
    let mut command = base_command(
        &outside,
        &["mirror", "-q", "--interval", "1s", "--dir", "m.git", &fleet.remote(), &url(&fleet)],
    );
    let mut child = command.stderr(Stdio::null()).spawn().expect("started");
    let wait_for = |commit: String| {
        let begin = Instant::now();
        while !fleet.dir().join("commits").join(&commit).exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the mirror pushed no base");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_for(fleet.commit("HEAD"));
    // The server is away for a round or two.
    let (here, away) = (fleet.origin().path, fleet.sandbox.path().join("away"));
    fs::rename(&here, &away).expect("renamed");
    std::thread::sleep(Duration::from_millis(1500));
    fs::rename(&away, &here).expect("renamed");
    fleet.origin().write("file", "later\n");
    fleet.origin().commit("later");
    wait_for(fleet.commit("HEAD"));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let status = child.wait().expect("a child");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
}

#[test]
fn a_mirror_refuses_what_it_cannot_follow() {
    let fleet = Fleet::new();
    let outside = fleet.sandbox.repo("");
    let refused = |args: &[&str]| {
        let run = base(&outside, &[&["mirror"], args].concat());
        assert_ne!(run.code, 0);
        run.stderr.to_string()
    };
    assert!(refused(&["--dir", "m.git", &fleet.remote()]).contains("name the URL to mirror"));
    assert!(refused(&[&fleet.remote(), &url(&fleet)]).contains("--dir"));
    mirror(&fleet, "above/m.git", &[]);
    mirror(&fleet, "m.git", &[]);
    assert!(refused(&["--dir", "m.git", &fleet.remote(), "file:///else"]).contains("mirrors 'file://"));
    assert!(refused(&["--once", "--interval", "1s", "--dir", "m.git", &fleet.remote()]).contains("together"));
    assert!(!refused(&["--branch", "missing", "--dir", "m.git", &fleet.remote()]).is_empty());
}

/// A job has another token each time. Tokens are not compared, and nobody prints them.
#[test]
fn a_mirror_prints_and_compares_no_token() {
    let fleet = Fleet::new();
    let outside = fleet.sandbox.repo("");
    mirror(&fleet, "mirror.git", &[]);
    let git = fleet.sandbox.repo("mirror.git");
    let remote = fleet.remote();
    let run = |url: &str| base(&outside, &["mirror", "--dir", "mirror.git", &remote, url]);
    let address = "127.0.0.1:1/repo.git";
    git.git(&["config", "remote.origin.url", &format!("http://job:first-token@{address}")]);
    let away = run(&format!("http://job:second-token@{address}"));
    assert_ne!(away.code, 0, "nobody listens there");
    let said = format!("{}{}", away.stdout, away.stderr);
    assert!(!said.contains("mirrors") && !said.contains("-token"), "{said}");
    assert!(git.git(&["config", "remote.origin.url"]).stdout.to_string().contains("second-token"));
    let other = run("http://job:third-token@127.0.0.1:1/other.git");
    assert_eq!(other.code, 128);
    let said = other.stderr.to_string();
    assert!(said.contains(&format!("'http://{address}'")) && !said.contains("-token"), "{said}");
    assert!(said.contains("'http://127.0.0.1:1/other.git'"), "{said}");
    let extra = base(&outside, &["list", &remote, "https://job:fourth-token@host/x"]);
    assert!(!extra.stderr.to_string().contains("fourth-token"), "{}", extra.stderr);
}
