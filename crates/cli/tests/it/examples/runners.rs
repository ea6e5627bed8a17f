//! `examples/github-actions`, `gitlab`, `buildkite`, `jenkins` and `systemd`: their scripts, with
//! the variables that a runner sets, with a Git server and a remote in a directory.

use std::{fs, path::Path, process::Command};

use bstr::ByteSlice as _;

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

/// The worktree of a job by `sapwood ci checkout`, with files of a base, and its clean-up.
#[test]
fn checkout_on_github() {
    let fixture = Fixture::new();
    let remote = fixture.remote();
    let push = fixture.work().run(Path::new(SAPWOOD), &["base", "push", &remote, "HEAD"]);
    assert_eq!(push.code, 0, "{}", push.stderr);
    let url = fixture.url();
    let (server, repository) = url.split_once("/git/").expect("its URL");
    let repository = format!("git/{repository}");
    let temp = fixture.path().join("temp").display().to_string();
    fs::create_dir(&temp).expect("a new directory");
    let action = yaml::read("github-actions/checkout/action.yml");
    let inputs = action["inputs"].as_hash().expect("inputs").iter();
    let step = &action["runs"]["steps"][0];
    let commit = fixture.tip();
    let workspace = fixture.path().join("job").display().to_string();
    let output = fixture.path().join("output").display().to_string();
    let mut given: Vec<(String, String)> = inputs
        .map(|(name, input)| {
            let name = yaml::text(name);
            let value = match &*name {
                "repository" => repository.clone(),
                "github-server-url" => server.to_owned(),
                "token" => "the token".to_owned(),
                "base" => remote.clone(),
                "path" => "app".to_owned(),
                _ => yaml::text(&input["default"]),
            };
            (format!("INPUT_{}", name.replace('-', "_").to_uppercase()), value)
        })
        .collect();
    // Each input is passed on.
    let passed = step["env"].as_hash().expect("a map").iter();
    for (name, value) in passed {
        let input = yaml::text(name);
        let input = input.strip_prefix("INPUT_").expect("an input").replace('_', "-").to_lowercase();
        assert_eq!(yaml::text(value), format!("${{{{ inputs.{input} }}}}"));
    }
    assert_eq!(step["env"].as_hash().expect("a map").len(), given.len());
    let runner = [
        ("CI", "true"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_SERVER_URL", server),
        ("GITHUB_REPOSITORY", &*repository),
        ("GITHUB_REF", "refs/heads/main"),
        ("GITHUB_SHA", &*commit),
        ("GITHUB_WORKSPACE", &*workspace),
        ("GITHUB_OUTPUT", &*output),
        ("RUNNER_TEMP", &*temp),
    ];
    let runner = runner.map(|(name, value)| (name.to_owned(), value.to_owned()));
    given.extend(runner.clone());
    for round in 0..2 {
        fixture.run("job", &given, &yaml::text(&step["run"]));
        let app = fixture.sandbox.repo("job/app");
        fixture.is_from_base(&app, &commit);
        assert_eq!(app.git(&["symbolic-ref", "HEAD"]).stdout, "refs/heads/main\n", "round {round}");
        assert_eq!(fs::read_dir(&temp).expect("a directory").count(), 1, "the token is kept");
        app.write("dir1/file1", "of the job\n");
        app.write("left-over", "of the job\n");
    }
    let outputs = fs::read_to_string(&output).expect("outputs");
    assert!(outputs.ends_with(&format!("ref=refs/heads/main\ncommit={commit}\n")), "{outputs}");
    let cleanup = yaml::read("github-actions/cleanup/action.yml");
    let step = &cleanup["runs"]["steps"][0];
    let variables = [&runner[..], &[("DIRECTORY".into(), "app".into())]].concat();
    fixture.run("job", &variables, &yaml::text(&step["run"]));
    assert_eq!(fs::read_dir(&temp).expect("a directory").count(), 0, "the token is gone");
}

#[test]
fn checkout_on_gitlab() {
    let fixture = Fixture::new();
    let file = yaml::read("gitlab/checkout.gitlab-ci.yml");
    let template = &file[".sapwood-checkout"];
    assert_eq!(file["test"]["extends"].as_str(), Some(".sapwood-checkout"));
    for round in 0..2 {
        let url = fixture.url().replacen("http://", &format!("http://gitlab-ci-token:token-{round}@"), 1);
        let commit = if round == 0 { fixture.tip() } else { fixture.commit("newer\n") };
        let project = fixture.path().join("project").display().to_string();
        let token = format!("token-{round}");
        let given = [
            ("CI", "true"),
            ("GITLAB_CI", "true"),
            ("CI_REPOSITORY_URL", &*url),
            ("CI_COMMIT_SHA", &*commit),
            ("CI_COMMIT_BRANCH", "main"),
            ("CI_PROJECT_DIR", &*project),
            ("CI_JOB_TOKEN", &*token),
        ];
        let variables = yaml::variables(&template["variables"], &given);
        let script = [yaml::lines(&template["before_script"]), yaml::lines(&file["test"]["script"])];
        let at = fixture.run("project", &variables, &script.concat().join("\n"));
        assert_eq!(at.git(&["status", "--porcelain"]).stdout, "");
        assert!(at.git(&["config", "--get-all", "include.path"]).stdout.contains_str("sapwood-ci-"));
        fixture.run("project", &variables, &yaml::lines(&template["after_script"]).join("\n"));
        assert_eq!(at.try_git(&["config", "--get-all", "include.path"]).stdout, "");
        at.write("left-over", "of the job\n");
    }
}

#[test]
fn checkout_on_buildkite() {
    let fixture = Fixture::new();
    let path = fixture.path().join("builds/agent/app").display().to_string();
    let commit = fixture.tip();
    let variables = [
        ("CI", "true"),
        ("BUILDKITE", "true"),
        ("BUILDKITE_REPO", &*fixture.url()),
        ("BUILDKITE_COMMIT", &*commit),
        ("BUILDKITE_BRANCH", "main"),
        ("BUILDKITE_BUILD_CHECKOUT_PATH", &*path),
        ("GIT_TOKEN", "the token"),
        ("GIT_TOKEN_USER", "somebody else"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let hook = |name: &str| example(&format!("buildkite/hooks/{name}")).display().to_string();
    for _ in 0..2 {
        fixture.run("agent", &variables, &hook("checkout"));
        let app = fixture.sandbox.repo("builds/agent/app");
        assert_eq!(app.git(&["rev-parse", "HEAD"]).stdout, format!("{commit}\n").as_str());
        assert_eq!(app.git(&["status", "--porcelain"]).stdout, "");
        assert!(app.git(&["config", "--get-all", "include.path"]).stdout.contains_str("sapwood-ci-"));
        app.write("left-over", "of the job\n");
    }
    fixture.run("agent", &variables, &hook("pre-exit"));
    let app = fixture.sandbox.repo("builds/agent/app");
    assert_eq!(app.try_git(&["config", "--get-all", "include.path"]).stdout, "");
}

#[test]
fn checkout_on_jenkins() {
    let fixture = Fixture::new();
    let file = fs::read_to_string(example("jenkins/Jenkinsfile")).expect("the example");
    let scripts: Vec<&str> = file.split("'''").skip(1).step_by(2).collect();
    let [checkout, cleanup] = scripts[..] else { panic!("two scripts: {scripts:?}") };
    let workspace = fixture.path().join("workspace").display().to_string();
    let variables = [
        ("CI", "true"),
        ("JENKINS_URL", "http://127.0.0.1/"),
        ("GIT_URL", &*fixture.url()),
        ("WORKSPACE", &*workspace),
        ("BRANCH_NAME", "main"),
        ("GIT_USER", "somebody"),
        ("GIT_TOKEN", "the token"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let at = fixture.run("workspace", &variables, checkout);
    assert_eq!(at.git(&["rev-parse", "HEAD"]).stdout, format!("{}\n", fixture.tip()).as_str());
    assert_eq!(at.git(&["symbolic-ref", "HEAD"]).stdout, "refs/heads/main\n");
    assert!(at.git(&["config", "--get-all", "include.path"]).stdout.contains_str("sapwood-ci-"));
    fixture.run("workspace", &variables, cleanup);
    assert_eq!(at.try_git(&["config", "--get-all", "include.path"]).stdout, "");
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
