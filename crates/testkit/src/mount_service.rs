//! The mount service (`sapwood-mountd`), started for a test. Needs root.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A running service. It ends when the value is dropped; its mounts stay.
#[derive(Debug)]
pub struct MountService {
    child: Child,
    command: Command,
    dir: TempDir,
}

impl MountService {
    /// Starts `program`. Its copies of images lie below `disk`, which is not in memory. `options`
    /// are more options.
    pub fn start(program: &Path, disk: &Path, options: &[&str]) -> MountService {
        let dir = tempfile::Builder::new().prefix("mountd-").tempdir_in(disk).expect("a directory on a disk");
        // Users reach the socket.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let at = |name: &str| dir.path().join(name);
        let log = fs::File::create(at("log")).expect("a new file");
        let mut command = Command::new(program);
        command.arg("--listen").arg(at("socket")).arg("--images").arg(at("images"));
        command.arg("--state").arg(at("state")).args(options);
        let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("the service can be run");
        let mut service = MountService { child, command, dir };
        service.wait();
        service
    }

    /// Kills the service and starts it again.
    pub fn restart(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a child");
        fs::remove_file(self.socket()).expect("the socket of the killed one");
        self.child = self.command.spawn().expect("the service can be run");
        self.wait();
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while !self.is_ready() {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "the service ended: {}", self.log());
            assert!(begun.elapsed() < Duration::from_secs(60), "no socket: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The mode is set after the socket was made, and before it listens.
    fn is_ready(&self) -> bool {
        fs::metadata(self.socket()).is_ok_and(|found| found.permissions().mode() & 0o777 == 0o666)
            && self.dir.path().join("state").exists()
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Returns the lines that the service wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Returns the names in the table of mounts.
    pub fn table(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("state")).expect("a directory").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with("lock")).collect()
    }

    /// Returns the id of the process that accepts connections.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true while the service runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for MountService {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the program of the service, which lies beside `sapwood`, another program of this build.
/// Builds it if only the package of that program was built.
pub fn program_beside(sapwood: &Path) -> PathBuf {
    let dir = sapwood.parent().expect("a program lies in a directory");
    let program = dir.join("sapwood-mountd");
    if !program.exists() {
        let profile = match dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "-p", "sapwood-mountd", "--profile", profile]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().is_ok_and(|status| status.success()), "sapwood-mountd cannot be built");
    }
    program
}
