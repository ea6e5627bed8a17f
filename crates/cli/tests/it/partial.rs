//! Partial clones: a command that reads omitted objects fetches them as Git does, with the same
//! request, in one connection, and without running `git`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use bstr::ByteSlice as _;
use testkit::{
    Repo, Run, Sandbox,
    servers::{Daemon, Nginx, NginxOptions, Sshd},
};

use crate::SAPWOOD;

fn source(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("served/source");
    for name in ["a", "b", "dir/c"] {
        repo.write(name, name.repeat(50));
    }
    repo.commit("one");
    repo.write("a", "other");
    repo.commit("two");
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    repo.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    repo
}

/// Clones without blobs, once for each program.
fn clone_both(sandbox: &Sandbox, url: &str) {
    let source = sandbox.path().join("served/source");
    for side in ["git", "ours"] {
        let from = format!("file://{}", source.display());
        let here = sandbox.repo("");
        here.git(&["clone", "-q", "-n", "--filter=blob:none", &from, side]);
        let repo = sandbox.repo(side);
        repo.git(&["remote", "set-url", "origin", url]);
        repo.git(&["read-tree", "HEAD"]);
    }
}

fn finish(command: &mut Command) -> Run {
    let output = command.output().expect("the program can be run");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout.into(),
        stderr: output.stderr.into(),
    }
}

/// Runs a command in both clones, and compares output, requests and promisor packs. Returns
/// sapwood's run.
#[track_caller]
fn same(sandbox: &Sandbox, variables: &[(&str, &str)], args: &[&str]) -> Run {
    let run = |side: &str| {
        let here = sandbox.repo(side);
        let trace = sandbox.path().join(format!("{side}.trace"));
        let _ = fs::remove_file(&trace);
        let mut command = match side {
            "git" => here.git_command(),
            _ => here.command(Path::new(SAPWOOD)),
        };
        let run = finish(command.args(args).env("GIT_TRACE_PACKET", &trace).envs(variables.iter().copied()));
        (run, requests(&trace), promisor_files(&here))
    };
    let (theirs, ours) = (run("git"), run("ours"));
    assert_eq!(theirs, ours, "{args:?}: git left, ours right");
    ours.0
}

/// Returns the requests to the server, without the names of the programs.
fn requests(trace: &Path) -> Vec<String> {
    let trace = fs::read(trace).unwrap_or_default();
    let lines = trace.lines().filter_map(|line| Some(line.split_once_str("fetch> ")?.1));
    let said = lines.map(|line| line.to_str_lossy().into_owned());
    said.filter(|line| !line.starts_with("agent=")).map(|line| without_agent(&line)).collect()
}

fn without_agent(line: &str) -> String {
    let words = line.split(' ').filter(|word| !word.starts_with("agent="));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the contents of the `.promisor` files, each with the number of packs that have it.
fn promisor_files(repo: &Repo<'_>) -> BTreeMap<Vec<u8>, usize> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(repo.join(".git/objects/pack")).expect("a directory") {
        let path = entry.expect("readable").path();
        assert_ne!(path.extension(), Some("keep".as_ref()));
        if path.extension() == Some("promisor".as_ref()) {
            *found.entry(fs::read(&path).expect("readable")).or_default() += 1;
        }
    }
    found
}

#[test]
fn checkout_fetches_in_one_request_without_git() {
    let sandbox = Sandbox::new();
    source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    clone_both(&sandbox, &daemon.url("source"));
    let before = daemon.connections();
    sandbox.repo("git").git(&["checkout", "-q", "-f"]);
    let once = daemon.connections() - before;
    let ours = sandbox.repo("ours");
    let run = finish(ours.command(Path::new(SAPWOOD)).args(["checkout", "-q", "-f"]).env("PATH", "/nowhere"));
    assert_eq!((run.code, run.stderr.as_bstr()), (0, b"".as_bstr()));
    assert_eq!((once, daemon.connections() - before), (1, 2));
    assert_eq!(ours.git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(promisor_files(&ours), promisor_files(&sandbox.repo("git")));
}

#[test]
fn every_transport_and_version() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    let config = [("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true")];
    let nginx =
        Nginx::with(&sandbox.path().join("served"), NginxOptions { config: &config, ..Default::default() });
    let mut urls = vec![
        (format!("file://{}", source.path.display()), String::new()),
        (daemon.url("source"), String::new()),
        (nginx.url("git/source"), String::new()),
        (nginx.url("v0/source"), String::new()),
    ];
    if let Some(sshd) = Sshd::start(&sandbox) {
        urls.push((sshd.url(&source.path), sshd.ssh()));
        for (url, ssh) in &urls {
            check(&sandbox, url, ssh);
        }
    } else {
        urls.iter().for_each(|(url, ssh)| check(&sandbox, url, ssh));
    }
    sandbox.repo("home").write(".gitconfig", "[protocol]\n\tversion = 0\n");
    check(&sandbox, &urls[1].0, "");
    // An old server sends only what is reachable from its refs.
    source.git(&["config", "uploadpack.allowAnySHA1InWant", "false"]);
    clone_both(&sandbox, &urls[0].0);
    let run = same(&sandbox, &[], &["checkout", "-f"]);
    assert!(run.code == 128 && run.stderr.contains_str("unadvertised object"), "{}", run.stderr);
}

#[track_caller]
fn check(sandbox: &Sandbox, url: &str, ssh: &str) {
    clone_both(sandbox, url);
    let run = same(sandbox, &[("GIT_SSH_COMMAND", ssh)], &["checkout", "-f"]);
    assert_eq!(run.code, 0, "{url}: {}", run.stderr);
    assert_eq!(sandbox.repo("ours").git(&["status", "--porcelain"]).stdout, "", "{url}");
    for side in ["git", "ours"] {
        fs::remove_dir_all(sandbox.path().join(side)).expect("removed");
    }
}

#[test]
fn several_remotes_and_settings() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let url = format!("file://{}", source.path.display());
    let both = |args: &[&str]| {
        for side in ["git", "ours"] {
            sandbox.repo(side).git(args);
        }
    };
    clone_both(&sandbox, &url);
    let run = same(&sandbox, &[("GIT_NO_LAZY_FETCH", "1")], &["checkout", "-f"]);
    assert!(run.code == 128 && run.stderr.contains_str("lazy fetching disabled"), "{}", run.stderr);
    both(&["config", "promisor.quiet", "true"]);
    // The first remote does not exist; the second one has all objects.
    both(&["config", "remote.origin.url", "../nowhere"]);
    both(&["config", "remote.other.url", &url]);
    both(&["config", "remote.other.promisor", "true"]);
    let run = same(&sandbox, &[], &["checkout", "-f"]);
    assert!(run.code == 0 && run.stderr.contains_str("nowhere"), "{}", run.stderr);
    both(&["config", "remote.other.url", "../nowhere"]);
    let run = same(&sandbox, &[], &["checkout", "-f", "HEAD^"]);
    assert!(run.code == 128 && run.stderr.contains_str("from promisor remote"), "{}", run.stderr);
}

#[test]
fn a_large_pack_names_its_objects() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    for number in 0..120 {
        source.write(format!("many/{number}"), number.to_string());
    }
    source.commit("many");
    clone_both(&sandbox, &format!("file://{}", source.path.display()));
    same(&sandbox, &[], &["checkout", "-q", "-f"]);
    let files = promisor_files(&sandbox.repo("ours"));
    assert!(files.keys().any(|content| content.lines().count() == 123), "{files:?}");
}
