//! Clone, fetch and ls-remote over HTTP, SSH and `git://`, directly and through proxies: results
//! and requests equal Git's.

use std::{path::Path, process::Command};

use bstr::ByteSlice as _;
use testkit::{
    Repo, Run, Sandbox,
    servers::{Daemon, Fault, Line, Nginx, Proxy, Sshd},
    wording,
};

use crate::SAPWOOD;

fn source(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("served/source");
    for number in 0..20 {
        repo.write("file", format!("line {number}\n").repeat(200));
        repo.write(format!("dir/{number}"), format!("{number}\n"));
        repo.commit(&number.to_string());
    }
    repo.git(&["tag", "-a", "-m", "a tag", "v1"]);
    repo.git(&["branch", "topic", "HEAD~3"]);
    repo
}

fn finish(command: &mut Command) -> Run {
    let output = command.output().expect("the program can be run");
    let code = output.status.code().unwrap_or(-1);
    Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
}

/// Runs a command with both programs, each in its directory, and compares the output. Returns
/// sapwood's run.
#[track_caller]
fn same(sandbox: &Sandbox, below: &str, variables: &[(&str, &str)], args: &[&str]) -> Run {
    let run = |side: &str| {
        let here = sandbox.repo(&format!("{side}/{below}"));
        std::fs::create_dir_all(&here.path).expect("a directory of ours");
        let mut command = match side {
            "git" => here.git_command(),
            _ => here.command(Path::new(SAPWOOD)),
        };
        finish(command.args(args).envs(variables.iter().copied()))
    };
    let (theirs, ours) = (run("git"), run("ours"));
    let plain = |said: &bstr::BString| said.replace("sapwood", "git").to_str_lossy().into_owned();
    assert_eq!(theirs.code, ours.code, "{args:?}: git said {}, ours {}", theirs.stderr, ours.stderr);
    assert_eq!(
        wording(plain(&theirs.stderr).as_bytes()),
        wording(plain(&ours.stderr).as_bytes()),
        "{args:?}: git left, ours right"
    );
    assert_eq!(theirs.stdout, ours.stdout, "{args:?}: git left, ours right");
    ours
}

/// Compares the two repositories by their refs and objects.
#[track_caller]
fn same_repositories(sandbox: &Sandbox, name: &str) {
    let seen = |side: &str| {
        let repo = sandbox.repo(&format!("{side}/{name}"));
        repo.git(&["fsck", "--full"]);
        let objects = repo.git(&["cat-file", "--batch-all-objects", "--batch-check"]).stdout;
        (repo.git(&["for-each-ref"]).stdout, objects, repo.git(&["status", "--porcelain"]).stdout)
    };
    assert_eq!(seen("git"), seen("ours"), "{name}: git left, ours right");
}

/// Runs all commands that a user would run with one server.
#[track_caller]
fn use_server(sandbox: &Sandbox, url: &str, variables: &[(&str, &str)]) {
    let source = sandbox.repo("served/source");
    same(sandbox, "", variables, &["ls-remote", url]);
    same(sandbox, "", variables, &["ls-remote", "--symref", "--branches", url, "main"]);
    same(sandbox, "", variables, &["clone", url, "copy"]);
    same_repositories(sandbox, "copy");
    same(sandbox, "", variables, &["clone", "--depth=2", url, "shallow"]);
    same_repositories(sandbox, "shallow");
    same(sandbox, "", variables, &["clone", "-b", "topic", "--single-branch", url, "one"]);
    same_repositories(sandbox, "one");
    source.write("file", "new\n");
    source.commit("new");
    source.git(&["branch", "-f", "topic", "HEAD~1"]);
    source.git(&["tag", "light"]);
    same(sandbox, "copy", variables, &["fetch"]);
    same_repositories(sandbox, "copy");
    // Git prints the sizes of its HTTP requests, which contain its name.
    let how = if url.starts_with("http") { "--no-verbose" } else { "-v" };
    same(sandbox, "copy", variables, &["fetch", how]);
    same(sandbox, "shallow", variables, &["fetch", "--unshallow"]);
    same_repositories(sandbox, "shallow");
    let nowhere = url.replace("/source", "/nowhere");
    let refused = same(sandbox, "", variables, &["clone", &nowhere, "none"]);
    assert_eq!(refused.code, 128);
    assert!(!sandbox.repo("ours").exists("none"));
}

#[test]
fn git_daemon() {
    let sandbox = Sandbox::new();
    source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    use_server(&sandbox, &daemon.url("source"), &[]);
}

#[test]
fn http() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let server = Nginx::start(source.path.parent().expect("the directory that is served"));
    use_server(&sandbox, &server.url("git/source"), &[]);
}

#[test]
fn ssh() {
    let sandbox = Sandbox::new();
    let source = source(&sandbox);
    let Some(sshd) = Sshd::start(&sandbox) else { return };
    let ssh = sshd.ssh();
    use_server(&sandbox, &sshd.url(&source.path), &[("GIT_SSH_COMMAND", &ssh)]);
    // Both programs made the same requests: every line occurs twice.
    let commands = sshd.commands();
    let mut lines: Vec<&str> = commands.lines().collect();
    lines.sort_unstable();
    assert!(lines.chunks(2).all(|pair| pair.len() == 2 && pair[0] == pair[1]), "{commands}");
    let address = sshd.scp_like(&source.path.display().to_string());
    same(&sandbox, "", &[("GIT_SSH_COMMAND", &ssh)], &["clone", "-q", &address, "scp-like"]);
    same_repositories(&sandbox, "scp-like");
    // The SSH program starts in the user's directory.
    let place = ("GIT_SSH_COMMAND", "cd .. && basename \"$PWD\" >&2; false");
    same(&sandbox, "", &[place, ("GIT_SSH_VARIANT", "ssh")], &["clone", "a:b", "none"]);
    same(&sandbox, "", &[("GIT_SSH", "./nothing"), ("GIT_SSH_VARIANT", "ssh")], &["clone", "a:b", "none"]);
}

#[test]
fn older_protocols() {
    for version in ["0", "1"] {
        let sandbox = Sandbox::new();
        source(&sandbox);
        let daemon = Daemon::start(&sandbox, "served");
        let home = sandbox.repo("home");
        home.write(".gitconfig", format!("[protocol]\n\tversion = {version}\n"));
        use_server(&sandbox, &daemon.url("source"), &[]);
    }
}

#[test]
fn slow_and_distant_servers() {
    let sandbox = Sandbox::new();
    source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    let line = Line { rate: Some(2_000_000), latency: std::time::Duration::from_millis(5) };
    let proxy = Proxy::on(line, daemon.address());
    let url = proxy.before(&daemon.url("source"));
    same(&sandbox, "", &[], &["clone", "-q", &url, "copy"]);
    same_repositories(&sandbox, "copy");
    assert!(proxy.received() > 0);
}

/// A corrupt byte is detected: no file is left, and the next attempt succeeds.
#[test]
fn a_corrupt_byte_in_the_pack() {
    let sandbox = Sandbox::new();
    source(&sandbox);
    let daemon = Daemon::start(&sandbox, "served");
    let proxy = Proxy::to(daemon.address());
    let url = proxy.before(&daemon.url("source"));
    let root = sandbox.repo("");
    let clone = ["clone", "-q", &url, "copy"];
    root.git(&clone);
    root.remove("copy");
    // Near its end, the stream contains only the pack.
    proxy.once(Fault::Corrupt, proxy.received() - 1000);
    let run = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!(run.code, 128, "{}", run.stderr);
    assert!(!root.exists("copy") && !proxy.is_troubled());
    let run = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!(run.code, 0, "{}", run.stderr);
    sandbox.repo("copy").git(&["fsck", "--full"]);
}
