//! OpenSSH's server, for the user who runs the tests, with keys of its own.
//!
//! A client needs the options of [`Sshd::ssh`]. Commands run in the sandbox's environment, and are
//! logged.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::inetd::{Inetd, Plan, read};
use crate::Sandbox;

/// The paths of the program. It is run by its full path.
const PROGRAMS: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];

/// A running server.
pub struct Sshd {
    inetd: Inetd,
    dir: PathBuf,
    user: String,
}

impl Sshd {
    /// Starts a server. Returns `None`, and prints the reason, if there is no `sshd`; under CI that
    /// is a failure.
    pub fn start(sandbox: &Sandbox) -> Option<Sshd> {
        let Some(program) = PROGRAMS.iter().find(|program| Path::new(program).exists()) else {
            let missing = crate::tools::missing("sshd");
            assert!(!crate::tools::in_ci(), "{missing}, and under CI a test may not skip");
            println!("skipped: {missing}");
            return None;
        };
        let dir = sandbox.path().join("sshd");
        fs::create_dir(&dir).expect("one server a sandbox");
        // Root's server requires this empty directory; the package creates it when the service
        // starts.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").expect("root may make it");
        }
        make_keys(&dir);
        write_serve(&dir, sandbox);
        write_settings(&dir);
        let plan = Plan::of(&sandbox.repo("").command(Path::new(program)));
        let settings = dir.join("sshd_config").display().to_string();
        let args = ["-i", "-e", "-f", &settings].map(String::from);
        let inetd = Inetd::start(dir.join("log"), move || plan.command(&args));
        let server = Sshd { inetd, user: user_name(), dir };
        server.write_client_settings();
        Some(server)
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.inetd.address()
    }

    /// Returns the URL of an absolute path.
    pub fn url(&self, path: &Path) -> String {
        format!("ssh://{}@{}{}", self.user, self.address(), path.display())
    }

    /// Returns the name of the user who can log in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the scp-like address of a path. Port and key come from [`Sshd::ssh`].
    pub fn scp_like(&self, path: &str) -> String {
        format!("{}@127.0.0.1:{path}", self.user)
    }

    /// Returns the client's command with its options, for `GIT_SSH_COMMAND`.
    pub fn ssh(&self) -> String {
        format!("ssh -F '{}'", self.dir.join("ssh_config").display())
    }

    /// Returns the commands that were run, one per line, each after the requested protocol version
    /// (`version=2`) and a space.
    pub fn commands(&self) -> String {
        read(&self.dir.join("commands"))
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.inetd.accepted()
    }

    /// Returns the messages of the server.
    pub fn log(&self) -> String {
        read(&self.dir.join("log"))
    }

    fn write_client_settings(&self) {
        let dir = self.dir.display();
        let lines = [
            format!("Port {}", self.address().port()),
            format!("IdentityFile {dir}/key"),
            "IdentitiesOnly yes".to_owned(),
            "IdentityAgent none".to_owned(),
            "BatchMode yes".to_owned(),
            format!("UserKnownHostsFile {dir}/known_hosts"),
            "GlobalKnownHostsFile /dev/null".to_owned(),
            "StrictHostKeyChecking accept-new".to_owned(),
            "LogLevel ERROR".to_owned(),
        ];
        write(&self.dir.join("ssh_config"), &(lines.join("\n") + "\n"), 0o600);
    }
}

fn write(file: &Path, text: &str, mode: u32) {
    fs::write(file, text).expect("a new directory");
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("just written");
}

fn make_keys(dir: &Path) {
    for name in ["key", "host"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]).arg(dir.join(name));
        let made = keygen.stdout(Stdio::null()).status().expect("ssh-keygen comes with ssh");
        assert!(made.success(), "ssh-keygen failed");
    }
    fs::copy(dir.join("key.pub"), dir.join("authorized")).expect("a key was made");
}

/// Writes the wrapper that runs every command in the sandbox's environment.
fn write_serve(dir: &Path, sandbox: &Sandbox) {
    let quote = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy().replace('\'', "'\\''"));
    let command = sandbox.repo("").git_command();
    let mut script = format!(
        "#!/bin/sh\nprintf '%s %s\\n' \"$GIT_PROTOCOL\" \"$SSH_ORIGINAL_COMMAND\" >>{}\nexec env -i",
        quote(dir.join("commands").as_os_str())
    );
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default();
        script += &format!(" {}={}", name.to_string_lossy(), quote(value));
    }
    script += " ${GIT_PROTOCOL:+\"GIT_PROTOCOL=$GIT_PROTOCOL\"} sh -c \"$SSH_ORIGINAL_COMMAND\"\n";
    write(&dir.join("serve"), &script, 0o700);
}

fn write_settings(dir: &Path) {
    let dir = dir.display();
    let lines = [
        format!("HostKey {dir}/host"),
        format!("AuthorizedKeysFile {dir}/authorized"),
        format!("ForceCommand {dir}/serve"),
        "AcceptEnv GIT_PROTOCOL".to_owned(),
        "PasswordAuthentication no".to_owned(),
        "KbdInteractiveAuthentication no".to_owned(),
        "PermitRootLogin yes".to_owned(),
        "PidFile none".to_owned(),
        // The directory of the test may be writable for all users.
        "StrictModes no".to_owned(),
        "UsePAM no".to_owned(),
        "PrintMotd no".to_owned(),
        "PrintLastLog no".to_owned(),
        "LogLevel VERBOSE".to_owned(),
    ];
    write(Path::new(&format!("{dir}/sshd_config")), &(lines.join("\n") + "\n"), 0o600);
}

fn user_name() -> String {
    let output = Command::new("id").arg("-un").output().expect("every system has id");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
