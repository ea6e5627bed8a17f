//! Signed commits compared with Git, with real `gpg` and `ssh-keygen`. The keys sign
//! deterministically and the time of the signature is fixed, so equal signatures are equal bytes.

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use testkit::{Oracle, Repo, has_program};

use crate::shim::{Shim, finished};

fn setup(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.commit("one");
}

/// Returns the parent directory of both copies.
fn shared(oracle: &Oracle) -> std::path::PathBuf {
    let (git, ours) = (oracle.git().path.clone(), oracle.ours().path.clone());
    let above = git.ancestors().find(|dir| ours.starts_with(dir)).expect("one sandbox");
    above.to_owned()
}

fn configure(oracle: &Oracle, key: &str, value: &str) {
    oracle.both(|repo| drop(repo.git(&["config", key, value])));
}

fn ran(command: &mut Command) {
    let output = command.output().expect("it can be run");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs `commit-tree` with an option in both copies.
#[track_caller]
fn signs(oracle: &Oracle, shim: &Shim, option: &str) -> i32 {
    let run = oracle.same(&["commit-tree", option, "-m", "signed", "HEAD^{tree}"]);
    shim.was_native(&[option]);
    if run.code == 0 {
        let oid = run.stdout.to_string();
        let ours = oracle.ours().git(&["cat-file", "commit", oid.trim()]).stdout.to_string();
        assert!(ours.contains("\ngpgsig "), "{ours}");
    }
    run.code
}

/// An SSH agent with one key, for keys that the configuration contains as text.
struct Agent {
    child: std::process::Child,
    /// A program that works like `ssh-keygen` and uses this agent.
    program: std::path::PathBuf,
}

impl Agent {
    fn with(dir: &Path, key: &Path) -> Agent {
        let (socket, program) = (dir.join("agent"), dir.join("keygen"));
        let mut child = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("it comes with ssh-keygen");
        while !socket.exists() {
            assert!(child.try_wait().expect("a child").is_none(), "the agent ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        ran(Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &socket));
        testkit::write_program(
            &program,
            format!("#!/bin/sh\nSSH_AUTH_SOCK='{}' exec ssh-keygen \"$@\"\n", socket.display()),
        );
        Agent { child, program }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn by_ssh() {
    if !has_program("ssh-keygen") {
        return;
    }
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let dir = shared(&oracle);
    let key = dir.join("key");
    ran(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "x", "-f"]).arg(&key));
    configure(&oracle, "gpg.format", "ssh");
    assert_eq!(signs(&oracle, &shim, "-S"), 128, "no key at all");
    assert_eq!(signs(&oracle, &shim, &format!("-S{}", key.display())), 0);
    let public = std::fs::read_to_string(key.with_extension("pub")).expect("a public key");
    let script_path = dir.join("default");
    testkit::write_program(
        &script_path,
        format!("#!/bin/sh\necho \"$1:$2\" >&2\necho 'key::{}'\n", public.trim()),
    );
    configure(&oracle, "gpg.ssh.defaultKeyCommand", &format!("'{}' 'a b'", script_path.display()));
    let agent = Agent::with(&dir, &key);
    configure(&oracle, "gpg.ssh.program", &agent.program.display().to_string());
    assert_eq!(signs(&oracle, &shim, "-S"), 0);
    drop(agent);
    configure(&oracle, "gpg.ssh.program", "ssh-keygen");
    testkit::write_program(&script_path, "#!/bin/sh\necho no key\n");
    assert_ne!(signs(&oracle, &shim, "-S"), 0);
    testkit::write_program(&script_path, "#!/bin/sh\nexit 3\n");
    assert_ne!(signs(&oracle, &shim, "-S"), 0);
    configure(&oracle, "user.signingKey", &key.display().to_string());
    assert_eq!(signs(&oracle, &shim, "-S"), 0);
    configure(&oracle, "user.signingKey", &dir.join("missing").display().to_string());
    assert_ne!(signs(&oracle, &shim, "-S"), 0);
    configure(&oracle, "gpg.ssh.program", "no-such-program");
    assert_ne!(signs(&oracle, &shim, "-S"), 0);
    configure(&oracle, "gpg.format", "nonsense");
    assert_ne!(signs(&oracle, &shim, "-S"), 0);
}

#[test]
fn files_for_ssh_are_private_and_go_away() {
    if !has_program("ssh-keygen") {
        return;
    }
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let dir = shared(&oracle);
    let (key, own, program) = (dir.join("key"), dir.join("own"), dir.join("keygen"));
    ran(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "x", "-f"]).arg(&key));
    std::fs::create_dir(&own).expect("created");
    let look = "for file; do :; done; stat -c %a \"${file%/*}\" >>";
    let seen = dir.join("seen");
    let text = format!("#!/bin/sh\n{look}'{}'\nexec ssh-keygen \"$@\"\n", seen.display());
    testkit::write_program(&program, &text);
    configure(&oracle, "gpg.format", "ssh");
    configure(&oracle, "gpg.ssh.program", &program.display().to_string());
    for (key, code) in [(key, 0), (dir.join("missing"), 1)] {
        let mut command = shim.command(&oracle.ours());
        command.env("TMPDIR", &own).args(["commit-tree", "-m", "x", "HEAD^{tree}"]);
        let run = finished(command.arg(format!("-S{}", key.display())));
        assert_eq!(run.code, code, "{}", run.stderr);
        assert_eq!(std::fs::read_dir(&own).expect("a directory").count(), 0);
    }
    assert_eq!(std::fs::read_to_string(&seen).expect("written"), "700\n700\n");
}

#[test]
fn by_gpg() {
    if !has_program("gpg") {
        return;
    }
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    // The path of a socket must be short, so the home of the keys is not in the sandbox.
    let home = tempfile::Builder::new().prefix("g").tempdir_in("/tmp").expect("a directory");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).expect("it exists");
    let gpg = |args: &[&str]| {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", home.path()).args(["--batch", "--quiet", "--pinentry-mode", "loopback"]);
        ran(command.args(["--passphrase", ""]).args(args));
    };
    gpg(&["--quick-generate-key", "Key <key@example.com>", "ed25519", "sign", "never"]);
    let program = shared(&oracle).join("gpg");
    let time = "--faked-system-time 1900000000!";
    testkit::write_program(
        &program,
        format!("#!/bin/sh\nGNUPGHOME={} exec gpg --no-tty {time} \"$@\"\n", home.path().display()),
    );
    configure(&oracle, "gpg.program", &program.display().to_string());
    assert_eq!(signs(&oracle, &shim, "-Skey@example.com"), 0);
    assert_ne!(signs(&oracle, &shim, "-Snobody@example.com"), 0);
    configure(&oracle, "user.signingKey", "key@example.com");
    assert_eq!(signs(&oracle, &shim, "-S"), 0);
    let silent = shared(&oracle).join("silent");
    testkit::write_program(&silent, "#!/bin/sh\nexit 0\n");
    configure(&oracle, "gpg.openpgp.program", &silent.display().to_string());
    assert_ne!(signs(&oracle, &shim, "-S"), 0);
    // Stop the agent, which would outlive the test.
    let _ = Command::new("gpgconf").env("GNUPGHOME", home.path()).args(["--kill", "all"]).output();
}
