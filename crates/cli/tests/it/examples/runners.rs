//! `examples/github-actions`, `examples/gitlab` and `examples/systemd`: their scripts, with the
//! variables that a runner sets, with a Git server and a remote in a directory.

use std::{fs, path::Path, process::Command};

use super::{example, fixture::Fixture, yaml};
use crate::SAPWOOD;

#[test]
fn github_actions() {
    let fixture = Fixture::new();
    let (url, remote) = (fixture.url(), fixture.remote());
    let bases = yaml::read("github-actions/bases.yml");
    let step = &bases["jobs"]["push"]["steps"][0];
    let cache = fixture.path().join("cache").display().to_string();
    fs::create_dir(&cache).expect("a new directory");
    let given = [("REMOTE", &*remote), ("URL", &*url), ("BRANCH", "main"), ("RUNNER_TOOL_CACHE", &*cache)];
    fixture.run("pusher", &yaml::variables(&step["env"], &given), &yaml::text(&step["run"]));

    let action = yaml::read("github-actions/action.yml");
    assert_eq!(action["runs"]["using"].as_str(), Some("composite"));
    let step = &action["runs"]["steps"][0];
    let base_dir = fixture.path().join("bases").display().to_string();
    for (run, content) in [("one", None), ("two", Some("newer than the base\n")), ("two", Some("newest\n"))] {
        let commit = content.map_or_else(|| fixture.tip(), |content| fixture.commit(content));
        let given = [
            ("REMOTE", &*remote),
            ("URL", &*url),
            ("COMMIT", &*commit),
            ("BRANCH", "main"),
            ("DIRECTORY", "app"),
            ("BASE_DIR", if run == "one" { "" } else { &*base_dir }),
            ("KEEP", "14d"),
        ];
        let at = fixture.run(run, &yaml::variables(&step["env"], &given), &yaml::text(&step["run"]));
        fixture.is_from_base(&fixture.sandbox.repo(&format!("{run}/app")), &commit);
        assert_eq!(fs::read_dir(&at.path).expect("the runner's directory").count(), 1);
        // The runner keeps the directory, with what the job left.
        let worktree = fixture.sandbox.repo(&format!("{run}/app"));
        assert!(!worktree.exists("left-over"), "of the job before");
        for path in ["dir1/file1", "dir2/file2", "left-over"] {
            worktree.write(path, "of a job\n");
        }
        worktree.write(".git/index.lock", "");
    }
    assert!(Path::new(&base_dir).join("users").exists(), "the bases are kept where the input says");
}

#[test]
fn gitlab() {
    let fixture = Fixture::new();
    let (url, remote) = (fixture.url(), fixture.remote());
    let file = yaml::read("gitlab/.gitlab-ci.yml");
    assert_eq!(file["test"]["extends"].as_str(), Some(".sapwood"));
    let project = fixture.path().join("project").display().to_string();
    for (number, content) in [None, Some("newer than the base\n")].into_iter().enumerate() {
        // Each job has another token.
        let url = url.replacen("http://", &format!("http://job:token-{number}@"), 1);
        let commit = content.map_or_else(|| fixture.tip(), |content| fixture.commit(content));
        let given = [
            ("SAPWOOD_REMOTE", &*remote),
            ("CI_REPOSITORY_URL", &*url),
            ("CI_COMMIT_SHA", &*commit),
            ("CI_COMMIT_BRANCH", "main"),
            ("CI_DEFAULT_BRANCH", "main"),
            ("CI_PROJECT_DIR", &*project),
        ];
        let job = &file["bases"];
        let bases = yaml::lines(&job["script"]).join("\n");
        if number == 0 {
            fixture.run("project", &yaml::variables(&job["variables"], &given), &bases);
        }
        let template = &file[".sapwood"];
        let script = [yaml::lines(&template["before_script"]), yaml::lines(&file["test"]["script"])];
        let variables = yaml::variables(&template["variables"], &given);
        fixture.run("project", &variables, &script.concat().join("\n"));
        fixture.is_from_base(&fixture.sandbox.repo("project/app"), &commit);
        fixture.run("project", &yaml::variables(&job["variables"], &given), &bases);
    }
}

#[test]
fn systemd() {
    let fixture = Fixture::new();
    let dir = fixture.path().join("units");
    fs::create_dir(&dir).expect("a new directory");
    let mut service = String::new();
    for kind in ["service", "timer"] {
        let text = fs::read_to_string(example(&format!("systemd/sapwood-mirror@.{kind}"))).expect("a unit");
        let text = text.replace("/usr/bin/sapwood", SAPWOOD);
        fs::write(dir.join(format!("sapwood-mirror@.{kind}")), &text).expect("a new file");
        if kind == "service" {
            service = text;
        }
    }
    if testkit::has_program("systemd-analyze") {
        let units = ["service", "timer"].map(|kind| dir.join(format!("sapwood-mirror@app.{kind}")));
        let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units).output();
        let verify = verify.expect("it was there");
        let said = String::from_utf8_lossy(&verify.stderr);
        assert!(verify.status.success() && !said.contains("sapwood-mirror"), "{said}");
        fs::copy(dir.join("sapwood-mirror@.service"), &units[0]).expect("a new file");
        let mut security = Command::new("systemd-analyze");
        security.args(["security", "--offline=true", "--threshold=20"]).arg(&units[0]);
        let security = security.output().expect("it was there");
        assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
    }
    let commands: Vec<String> = service
        .lines()
        .filter_map(|line| line.strip_prefix("ExecStart="))
        .map(|command| command.replace("%S", &dir.display().to_string()).replace("%i", "app"))
        .collect();
    assert_eq!(commands.len(), 2);
    let variables = [
        ("REMOTE", fixture.remote()),
        ("URL", fixture.url()),
        ("BRANCHES", "--branch main".into()),
        ("KEEP", "1".into()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    fs::create_dir(dir.join("sapwood-mirror")).expect("systemd makes it");
    for content in [None, Some("newer\n")] {
        let commit = content.map_or_else(|| fixture.tip(), |content| fixture.commit(content));
        fixture.run("units", &variables, &commands.join("\n"));
        let listed = fixture.run("units", &variables, "sapwood base list \"$REMOTE\" >list");
        assert!(listed.read("list").to_string().contains(&commit[..12]), "{}", listed.read("list"));
    }
}
