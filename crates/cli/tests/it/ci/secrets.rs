//! The token: where it is while the checkout runs, and afterwards.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use testkit::{has_program, servers::Nginx};

use super::Server;
use crate::SAPWOOD;

/// The token, and the form in which HTTP sends it.
fn forms() -> [String; 2] {
    let pair = format!("{}:{}", Nginx::USER, Nginx::PASSWORD);
    let output = Command::new("sh").args(["-c", "printf %s \"$1\" | base64 -w0", "sh", &pair]).output();
    let encoded = String::from_utf8(output.expect("a shell").stdout).expect("ASCII");
    assert!(encoded.len() > 10);
    [Nginx::PASSWORD.to_owned(), encoded]
}

/// Returns the files below `dir` that contain the token.
fn files_with_token(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_with_token(&path));
        } else if let Ok(content) = fs::read(&path) {
            let content = String::from_utf8_lossy(&content).into_owned();
            if forms().iter().any(|form| content.contains(form.as_str())) {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// Lets each checkout of the user run a script. A hook in the clone would not outlive its job.
fn hook_of_the_machine(server: &Server, script: &str) {
    let hooks = server.dir("hooks");
    hooks.write_executable("post-checkout", format!("#!/bin/sh\n{script}\n"));
    let path = hooks.path.display().to_string();
    server.sandbox.repo("home").git(&["config", "--global", "core.hooksPath", &path]);
}

#[test]
fn the_token_is_on_no_command_line_and_in_no_file() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("job");
    let trace = server.sandbox.path().join("trace").display().to_string();
    let token = server.sandbox.repo("").join("token-file");
    fs::write(&token, format!("{}\n", Nginx::PASSWORD)).expect("a new file");
    let args =
        ["ci", "checkout", "--submodules=recursive", "--ref=main", "--token-user", Nginx::USER, "--progress"];
    let mut command = if has_program("strace") {
        let mut strace = at.command("strace".as_ref());
        strace.args(["-f", "-qq", "-s", "100000", "-e", "trace=execve", "-o", &trace, SAPWOOD]);
        strace
    } else {
        at.command(SAPWOOD.as_ref())
    };
    command.args(args).arg("--token-file").arg(&token).arg(&url).env("CI", "true");
    command.env("GIT_TRACE2_EVENT", server.sandbox.path().join("events")).env("GIT_TRACE", "1");
    command.env("GIT_TRACE_CURL", "1").env("SAPWOOD_SHIM_LOG", server.sandbox.path().join("shim"));
    let output = command.output().expect("the program");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(forms().iter().all(|form| !said.contains(form.as_str())), "{said}");
    fs::remove_file(&token).expect("it was written");
    assert_eq!(files_with_token(&server.sandbox.path()), Vec::<String>::new());
    assert!(at.exists("sub/sub/README"));
    // The server still asks.
    assert_ne!(at.try_git(&["-c", "core.askPass=true", "fetch", "-q"]).code, 0);
    // A variable that holds the token reaches no child.
    hook_of_the_machine(&server, "env >../environment");
    server.check_out(&at, &["--ref=topic/a", &url]);
    let seen = fs::read_to_string(server.sandbox.path().join("environment")).expect("the hook ran");
    assert!(!seen.contains(Nginx::PASSWORD), "{seen}");
}

#[test]
fn kept_credentials_serve_the_job_until_the_cleanup() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("job");
    at.write("marker", "");
    fs::remove_file(at.join("marker")).expect("it was written");
    let secrets = server.dir("temp");
    let temp = secrets.path.display().to_string();
    let workspace = at.path.display().to_string();
    let job = [
        ("CI", "true"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_WORKSPACE", &*workspace),
        ("RUNNER_TEMP", &*temp),
    ];
    let args = [
        "checkout",
        "-q",
        "--persist-credentials",
        "--submodules=recursive",
        "--ref=main",
        "--token-env=TOKEN",
        "--token-user",
        Nginx::USER,
        &url,
    ];
    for round in 0..2 {
        let run = server.ci(&at, &job, &args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let files = files_with_token(&server.sandbox.path());
        assert_eq!(files.len(), 1, "round {round}: {files:?}");
        assert!(files[0].starts_with(&temp), "{files:?}");
        let mode = fs::metadata(&files[0]).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // A job that was killed has left them; the next one begins without.
    }
    at.git(&["fetch", "-q", "--depth=2", "origin", "main"]);
    at.git(&["-C", "sub", "fetch", "-q"]);
    at.git(&["-C", "sub/sub", "fetch", "-q"]);
    at.git(&["config", "--add", "include.path", "/of/the/user"]);
    let config =
        |dir: &str| at.git(&["-C", dir, "config", "--local", "--get-all", "include.path"]).stdout.to_string();
    assert!(config(".").contains("/github/runner_temp/sapwood-ci-"), "{}", config("."));
    let run = server.ci(&at, &job, &["cleanup"]);
    assert_eq!(
        (run.code, run.stdout),
        (0, "removed credentials: 1 files, 3 settings\n".into()),
        "{}",
        run.stderr
    );
    assert_eq!(files_with_token(&server.sandbox.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(&secrets.path).expect("a directory").count(), 0);
    assert_eq!(config("."), "/of/the/user\n");
    for dir in [".", "sub", "sub/sub"] {
        let fetch = at.try_git(&["-C", dir, "-c", "core.askPass=true", "fetch", "-q", "origin"]);
        assert_ne!(fetch.code, 0, "{dir}");
    }
    let again = server.ci(&at, &job, &["cleanup"]);
    assert_eq!(again.stdout, "removed credentials: 0 files, 0 settings\n");
    // Without a place for secrets they are in the Git directory. A checkout that fails keeps none.
    let absent = format!("--commit={}", "1234".repeat(10));
    let failed = server.ci(&at, &[("CI", "true")], &[&args[..8], &[&*absent, &url]].concat());
    assert_ne!(failed.code, 0);
    assert_eq!(files_with_token(&server.sandbox.path()), Vec::<String>::new());
    assert_eq!(server.ci(&at, &[("CI", "true")], &args).code, 0);
    let files = files_with_token(&server.sandbox.path());
    assert!(files.len() == 1 && files[0].starts_with(&format!("{workspace}/.git/sapwood-ci-")), "{files:?}");
    assert_eq!(at.git(&["status", "--porcelain", "--ignored"]).stdout, "");
}

/// A checkout that cannot change the configuration at its end leaves no secret.
#[test]
fn a_failing_checkout_keeps_no_credentials() {
    let server = Server::new();
    let url = server.url("app");
    let (at, secrets) = (server.dir("job"), server.dir("temp"));
    let temp = secrets.path.display().to_string();
    let workspace = at.path.display().to_string();
    let job = [
        ("CI", "true"),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_WORKSPACE", &*workspace),
        ("RUNNER_TEMP", &*temp),
    ];
    let commit = format!("--ref={}", server.id("main"));
    let args = [
        "checkout",
        "--persist-credentials",
        &commit,
        "--token-env=TOKEN",
        "--token-user",
        Nginx::USER,
        &url,
    ];
    let first = server.ci(&at, &job, &args);
    assert_eq!(first.code, 0, "{}", first.stderr);
    hook_of_the_machine(&server, "touch .git/config.lock");
    let failed = server.ci(&at, &job, &args);
    assert!(failed.code != 0 && at.exists(".git/config.lock"), "{}", failed.stderr);
    assert_eq!(fs::read_dir(&secrets.path).expect("a directory").count(), 0);
    assert_eq!(files_with_token(&server.sandbox.path()), Vec::<String>::new());
}

/// Only files of this command are removed, whatever a job writes into the configuration.
#[test]
fn a_cleanup_removes_no_other_file() {
    let server = Server::new();
    let at = server.sandbox.init("job");
    at.write("precious/sapwood-ci-1-0.config", "not a credential\n");
    let path = at.join("precious/sapwood-ci-1-0.config").display().to_string();
    at.git(&["config", "include.path", &path]);
    let run = at.run(Path::new(SAPWOOD), &["ci", "cleanup"]);
    assert_eq!((run.code, run.stdout), (0, "removed credentials: 0 files, 1 settings\n".into()));
    assert_eq!(at.read("precious/sapwood-ci-1-0.config"), "not a credential\n");
    // Other lines stay as they are.
    let before = format!("{}[include]\n\tpath = mine # why\n[a]\n\tb = c\n", at.read(".git/config"));
    at.write(".git/config", format!("{before}[include]\n\tpath = {path}\n"));
    assert_eq!(at.run(Path::new(SAPWOOD), &["ci", "cleanup"]).code, 0);
    assert_eq!(at.read(".git/config"), before);
}

/// A configuration that cannot be changed hides no secret in the others, and each is reported.
#[test]
fn a_cleanup_goes_on_after_a_failure() {
    let server = Server::new();
    let at = server.dir("job");
    let args = ["--persist-credentials", "--submodules=recursive", "--ref=main", &server.url("app")];
    server.check_out(&at, &args);
    assert_eq!(files_with_token(&at.path).len(), 1);
    let inner = ".git/modules/sub/modules/sub";
    at.write(".git/modules/sub/config.lock", "");
    at.write(format!("{inner}/config"), "[\n");
    let run = server.ci(&at, &[("CI", "true")], &["cleanup"]);
    let said = run.stderr.to_string();
    assert_eq!((run.code, run.stdout), (1, "removed credentials: 1 files, 1 settings\n".into()), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{said}");
    assert!(said.contains("modules/sub/config.lock") && said.contains("modules/sub/modules/sub"), "{said}");
    assert_eq!(files_with_token(&at.path), Vec::<String>::new());
    assert_eq!(at.try_git(&["config", "include.path"]).code, 1);
}

/// A killed checkout has left a key in the directory that jobs share. The next one removes it, and
/// so does a clean-up; files of a process that runs, and those that a job keeps, stay.
#[test]
fn keys_of_killed_checkouts_are_removed() {
    let server = Server::new();
    let url = server.url("app");
    let (at, secrets) = (server.dir("project"), server.dir("project.tmp"));
    let workspace = at.path.display().to_string();
    let job = [("CI", "true"), ("GITLAB_CI", "true"), ("CI_PROJECT_DIR", &*workspace)];
    let mut ended = Command::new("true").spawn().expect("a program");
    let number = ended.id();
    ended.wait().expect("it ends");
    let running = std::process::id();
    let checkout = ["checkout", "-q", "--ref=main", "--token-env=TOKEN", "--token-user", Nginx::USER, &url];
    for args in [&checkout[..], &checkout[..], &["cleanup"][..]] {
        for number in [number, running] {
            secrets.write(format!("sapwood-ci-{number}-0.key"), "secret");
            secrets.write(format!("sapwood-ci-{number}-0.hosts"), "host");
            secrets.write(format!("sapwood-ci-{number}-1.config"), "");
            secrets.write(format!("sapwood-ci-{number}-2.config"), "# of another checkout of the job\n");
            secrets.write(format!("sapwood-ci-{number}-2.key"), "secret");
        }
        fs::create_dir_all(secrets.join(format!("sapwood-ci-{number}-3.key/x"))).expect("new directories");
        secrets.write("sapwood-ci-x.key", "of somebody");
        let run = server.ci(&at, &job, args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let names = fs::read_dir(&secrets.path).expect("a directory").flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        let (ended, running) = (format!("sapwood-ci-{number}-"), format!("sapwood-ci-{running}-"));
        let mut expected = vec!["sapwood-ci-x.key".to_owned()];
        expected.extend(["2.config", "2.key", "3.key"].map(|end| format!("{ended}{end}")));
        let all = ["0.hosts", "0.key", "1.config", "2.config", "2.key"];
        expected.extend(all.map(|end| format!("{running}{end}")));
        expected.sort();
        assert_eq!(names, expected, "{args:?}");
    }
}
