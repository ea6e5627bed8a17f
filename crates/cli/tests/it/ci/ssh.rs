//! Checkouts by ssh: the key and the known hosts, as files and as contents of variables.

use std::{fs, path::Path};

use testkit::{Run, servers::Sshd};

use super::Server;
use crate::SAPWOOD;

#[test]
fn a_key_for_ssh_is_named_by_its_file() {
    let server = Server::new();
    let at = server.dir("ssh");
    // Git starts a shell with the command, and this one instead of ssh.
    let bin = server.dir("bin");
    bin.write_executable("ssh", "#!/bin/sh\nprintf '%s\\n' \"$@\" >>../ssh.log\nexit 1\n");
    fs::write(server.sandbox.path().join("key"), "secret key").expect("a new file");
    let mut command = at.command(Path::new(SAPWOOD));
    let path =
        command.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?)).expect("a PATH");
    let path = format!("{}:{}", bin.path.display(), path.to_string_lossy());
    command.env("PATH", path).env("CI", "true");
    command.args(["ci", "checkout", "-q", "--ssh-key=../key", "--ssh-known-hosts=../hosts", "--ref=main"]);
    let output = command.arg("git@127.0.0.1:app.git").output().expect("the program");
    assert!(!output.status.success());
    let log = fs::read_to_string(server.sandbox.path().join("ssh.log")).expect("ssh was called");
    assert!(log.contains("/ssh/../key\n") && log.contains("StrictHostKeyChecking=yes"), "{log}");
    assert!(log.contains("IdentitiesOnly=yes") && !log.contains("secret key"), "{log}");
}

/// Runs a checkout with these inputs of an action.
fn with_inputs(server: &Server, at: &str, inputs: &[(&str, &str)], args: &[&str]) -> Run {
    let variables = [&[("CI", "true")], inputs].concat();
    server.ci(&server.dir(at), &variables, &[&["checkout", "-q", "--inputs"], args].concat())
}

/// The key and the hosts of the inputs serve OpenSSH, and no file stays.
#[test]
fn a_key_for_ssh_is_the_content_of_an_input() {
    let server = Server::new();
    let Some(sshd) = Sshd::start(&server.sandbox) else { return };
    let read = |name: &str| fs::read_to_string(server.sandbox.path().join("sshd").join(name)).expect("a key");
    let url = sshd.url(&server.sandbox.path().join("server/innermost.git"));
    // Secrets are pasted with other ends of lines, and without the last one.
    let key = read("key").trim_end().replace('\n', "\r\n");
    let address = format!("[127.0.0.1]:{}", sshd.address().port());
    let hosts = format!("{address} {}", read("host.pub"));
    let right = [("INPUT_SSH-KEY", &*key), ("INPUT_SSH-KNOWN-HOSTS", &*hosts), ("INPUT_SSH-STRICT", "true")];
    let run = with_inputs(&server, "right", &right, &[&url]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(server.dir("right").read("README"), "innermost\n");
    let stays = |at: &str| {
        let names = fs::read_dir(server.dir(at).join(".git")).expect("a directory").flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("sapwood-ci-")).count()
    };
    assert_eq!(stays("right"), 0);
    let log = format!("{}{}", run.stderr, server.dir("right").read(".git/config"));
    assert!(!log.contains("PRIVATE KEY") && !log.contains("sshCommand"), "{log}");
    // Another key of the host is refused, and so is a host without one.
    let other = format!("{address} {}", read("key.pub"));
    for hosts in [&*other, "elsewhere ssh-ed25519 AAAA"] {
        let wrong = [("INPUT_SSH-KEY", &*key), ("INPUT_SSH-KNOWN-HOSTS", hosts)];
        let run = with_inputs(&server, "wrong", &wrong, &[&url]);
        assert!(run.code != 0 && run.stderr.to_string().contains("Host key"), "{}", run.stderr);
        assert_eq!(stays("wrong"), 0);
    }
    // The job keeps the key until the clean-up.
    let kept = [&right[..], &[("INPUT_PERSIST-CREDENTIALS", "true")]].concat();
    for round in 0..2 {
        let run = with_inputs(&server, "right", &kept, &[&url]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(stays("right"), 3, "round {round}");
    }
    server.dir("right").git(&["fetch", "-q"]);
    let run = server.ci(&server.dir("right"), &[("CI", "true")], &["cleanup"]);
    assert_eq!((run.code, run.stdout), (0, "removed credentials: 3 files, 1 settings\n".into()));
    assert_eq!(stays("right"), 0);
    assert_ne!(server.dir("right").try_git(&["fetch", "-q"]).code, 0);
    // A checkout that was killed has left a key alone.
    server.dir("right").write(".git/sapwood-ci-1-0.key", "secret");
    let run = server.ci(&server.dir("right"), &[("CI", "true")], &["cleanup"]);
    assert_eq!((run.code, run.stdout), (0, "removed credentials: 1 files, 0 settings\n".into()));
    assert_eq!(stays("right"), 0);
}

/// With a key, `--repository` and the job's own repository are reached by ssh.
#[test]
fn a_key_for_ssh_chooses_the_address() {
    let server = Server::new();
    let bin = server.dir("bin");
    let log = server.sandbox.path().join("ssh.log");
    // Takes the place of ssh: notes its arguments and the key, and starts Git's server here.
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{0}'\nstat -c 'mode %a' \"$2\" >>'{0}'\ncat \"$2\" >>'{0}'\n\
         for command; do :; done\ncd '{1}'\nexec sh -c \"$command\"\n",
        log.display(),
        server.sandbox.path().join("server").display(),
    );
    bin.write_executable("ssh", script);
    server.dir("server/owner");
    fs::rename(
        server.sandbox.path().join("server/app.git"),
        server.sandbox.path().join("server/owner/app.git"),
    )
    .expect("a repository");
    let secrets = server.dir("temp");
    let temp = secrets.path.display().to_string();
    let sha = server.id("v1");
    for (number, (inputs, address, is_own)) in [
        (&[("INPUT_REPOSITORY", "owner/app")][..], "git@code.example.org", true),
        (&[("INPUT_REPOSITORY", "owner/app"), ("INPUT_SSH-USER", "robot")], "robot@code.example.org", true),
        (&[], "git@code.example.org", true),
        (&[("INPUT_REPOSITORY", "owner/app.git"), ("INPUT_REF", "main")], "git@code.example.org", false),
    ]
    .into_iter()
    .enumerate()
    {
        drop(fs::remove_file(&log));
        let at = server.dir(&format!("job/{number}"));
        let mut command = at.command(Path::new(SAPWOOD));
        let path =
            command.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?)).expect("a PATH");
        let path = format!("{}:{}", bin.path.display(), path.to_string_lossy());
        command.env("PATH", path).env("CI", "true").env("INPUT_SSH-KEY", "the secret key");
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_SERVER_URL", "https://code.example.org");
        command.env("GITHUB_REPOSITORY", "owner/app").env("GITHUB_SHA", &sha).env("RUNNER_TEMP", &temp);
        command.env("GITHUB_REF", "refs/tags/v1").env("GITHUB_WORKSPACE", &at.path);
        command.envs(inputs.iter().copied()).args(["ci", "checkout", "-q", "--inputs"]);
        let output = command.output().expect("the program");
        assert!(output.status.success(), "{number}: {}", String::from_utf8_lossy(&output.stderr));
        let said = fs::read_to_string(&log).expect("ssh was called");
        assert!(said.contains(&format!("\n{address}\n")), "{said}");
        assert!(said.contains("git-upload-pack 'owner/app.git'"), "{said}");
        assert!(said.contains("mode 600\nthe secret key\n"), "{said}");
        let head = if is_own { sha.clone() } else { server.id("main") };
        assert_eq!(at.git(&["rev-parse", "HEAD"]).stdout, format!("{head}\n").as_str(), "{number}");
        assert_eq!(fs::read_dir(&secrets.path).expect("a directory").count(), 0, "{number}");
    }
}
