//! `docker-registry`: Debian's registry for OCI artifacts, with its storage in a directory.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::tools::need_system_program;

/// The program, of the package with the same name.
const PROGRAM: &str = "docker-registry";

/// The timeout for the response to the first request.
const START: Duration = Duration::from_secs(30);

/// The number of ports to try: another process may take a port before the registry does.
const TRIES: usize = 5;

/// The access control of a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistryAccess {
    /// Reads, writes and deletions without a password.
    #[default]
    Open,
    /// A password is required: [`Registry::USER`], [`Registry::PASSWORD`].
    Password,
    /// Reads and writes without a password, and no deletions.
    KeepsAll,
}

/// A running registry.
pub struct Registry {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Registry {
    /// The user of a registry with a password.
    pub const USER: &'static str = "alice";
    /// The password.
    pub const PASSWORD: &'static str = "open sesame";

    /// Starts an empty registry.
    pub fn start(access: RegistryAccess) -> Registry {
        let program = need_system_program(PROGRAM);
        let dir = tempfile::Builder::new().prefix("registry-").tempdir().expect("a temporary directory");
        // bcrypt of the password: the only hash that the program supports.
        let hash = "$2b$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";
        fs::write(dir.path().join("passwords"), format!("{}:{hash}\n", Registry::USER)).expect("writable");
        for _ in 0..TRIES {
            let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = socket.local_addr().expect("it is bound");
            drop(socket);
            let mut child = spawn(&program, dir.path(), address, access);
            if is_ready(&mut child, address) {
                return Registry { child, address, dir };
            }
            end(&mut child);
            let messages = fs::read_to_string(dir.path().join("messages")).unwrap_or_default();
            assert!(
                messages.contains("address already in use"),
                "docker-registry does not answer: {messages}"
            );
        }
        panic!("no port stays free");
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the messages of the registry, with a line for each request.
    pub fn messages(&self) -> String {
        fs::read_to_string(self.dir.path().join("messages")).unwrap_or_default()
    }

    /// Returns the file of a blob, by its SHA-256.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let blobs = self.dir.path().join("files/docker/registry/v2/blobs/sha256");
        blobs.join(&digest[..2]).join(digest).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

fn spawn(program: &Path, dir: &Path, address: SocketAddr, access: RegistryAccess) -> Child {
    let at = dir.display();
    let mut settings = format!(
        "version: 0.1
log: {{ level: error, accesslog: {{ disabled: true }} }}
storage:
  filesystem: {{ rootdirectory: {at}/files }}
  delete: {{ enabled: {} }}
http: {{ addr: {address} }}
",
        access != RegistryAccess::KeepsAll
    );
    if access == RegistryAccess::Password {
        let _ = writeln!(settings, "auth: {{ htpasswd: {{ realm: vault, path: {at}/passwords }} }}");
    }
    let file = dir.join("settings.yml");
    fs::write(&file, settings).expect("the directory is writable");
    let log = fs::File::create(dir.join("messages")).expect("the directory is writable");
    let copy = log.try_clone().expect("it is open");
    let mut command = Command::new(program);
    command.args([OsStr::new("serve"), file.as_os_str()]).env_clear().stdin(Stdio::null());
    // Without a secret it prints a warning and generates one.
    command.env("REGISTRY_HTTP_SECRET", "testkit").env("OTEL_TRACES_EXPORTER", "none");
    command.stdout(log).stderr(copy).process_group(0).spawn().expect("docker-registry starts")
}

/// Waits until the registry responds. Returns false if it ends, or does not respond in time.
fn is_ready(child: &mut Child, address: SocketAddr) -> bool {
    let start = Instant::now();
    while start.elapsed() < START && matches!(child.try_wait(), Ok(None)) {
        let answer = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(START))?;
            stream.write_all(b"GET /v2/ HTTP/1.0\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).map(|_| answer)
        });
        if answer.is_ok_and(|answer| answer.starts_with(b"HTTP/1.0 ")) {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}
