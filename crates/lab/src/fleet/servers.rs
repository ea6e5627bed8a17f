//! The servers of the fleet, in a process of their own below a cgroup that counts their time.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
};

use testkit::{
    Sandbox,
    servers::{Daemon, Nginx, Registry, RegistryAccess, S3},
};

use super::network::SERVER;
use crate::{Error, measure::hermetic};

/// A running process with all servers.
pub(super) struct Servers {
    process: Child,
    group: PathBuf,
    /// `git daemon`
    pub(super) git: SocketAddr,
    /// A web server with the files of the directory.
    pub(super) web: SocketAddr,
    /// An object store.
    pub(super) store: SocketAddr,
    /// A registry.
    pub(super) registry: SocketAddr,
}

impl Servers {
    /// Serves the repositories and files below `root`.
    pub(super) fn start(root: &Path) -> Result<Servers, Error> {
        let failed = |error: std::io::Error| Error::Setup(format!("the servers: {error}"));
        let group = groups().join(format!("sapwood-lab-servers-{}", std::process::id()));
        fs::create_dir_all(&group).map_err(failed)?;
        let me = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]).arg(&group).arg(me);
        hermetic(command.arg("serve-fleet").arg(root)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(failed)?;
        let mut lines = BufReader::new(process.stdout.take().expect("piped above")).lines();
        let mut address = || {
            let line = lines.next().and_then(Result::ok);
            let address = line.and_then(|line| line.parse().ok());
            address.ok_or_else(|| Error::Setup("the servers do not start".into()))
        };
        let [git, web, store, registry] = [address()?, address()?, address()?, address()?];
        Ok(Servers { process, group, git, web, store, registry })
    }

    /// Returns the seconds of CPU that the servers have used so far.
    pub(super) fn cpu(&self) -> f64 {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let first = fs::read_to_string(self.group.join("cpuacct.usage")).ok();
        if let Some(nanoseconds) = first.as_deref().and_then(number) {
            return nanoseconds / 1e9;
        }
        let second = fs::read_to_string(self.group.join("cpu.stat")).unwrap_or_default();
        let line = second.lines().find_map(|line| line.strip_prefix("usage_usec "));
        line.and_then(number).unwrap_or_default() / 1e6
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
        let _ = fs::remove_dir(&self.group);
    }
}

/// Returns the directory of cgroups that count time: of version 1, or of version 2.
fn groups() -> PathBuf {
    let first = Path::new("/sys/fs/cgroup/cpuacct");
    if first.exists() { first.to_owned() } else { "/sys/fs/cgroup".into() }
}

/// Runs `lab serve-fleet ROOT`: prints the address of each server, and ends with its input.
pub(crate) fn child(root: &Path) -> Result<ExitCode, Error> {
    let sandbox = Sandbox::new();
    let daemon = Daemon::start(&sandbox, &root.display().to_string());
    let nginx = Nginx::start(root);
    let (store, registry) = (S3::start(), Registry::start(RegistryAccess::Open));
    let mut output = std::io::stdout();
    let web = SocketAddr::from(([127, 0, 0, 1], nginx.port()));
    let addresses = [daemon.address(), web, store.address(), registry.address()];
    for server in addresses {
        let address = on_the_bridge(server).map_err(|error| Error::Setup(format!("the bridge: {error}")))?;
        writeln!(output, "{address}").map_err(|error| Error::Setup(error.to_string()))?;
    }
    let _ = output.flush();
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    Ok(ExitCode::SUCCESS)
}

/// Makes a server of the loopback reachable for the hosts. Its bytes are moved by the kernel.
fn on_the_bridge(server: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((SERVER, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || relay(&client, server));
        }
    });
    Ok(address)
}

fn relay(client: &TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    let pass = |mut from: &TcpStream, mut to: &TcpStream| {
        to.set_nodelay(true)?;
        let copied = std::io::copy(&mut from, &mut to);
        to.shutdown(std::net::Shutdown::Write).and(copied)
    };
    thread::scope(|scope| {
        scope.spawn(|| pass(client, &server));
        pass(&server, client)
    })?;
    Ok(())
}
