//! Hosts as network namespaces, joined to the lab's own by a bridge.
//!
//! The lab runs in a network, mount and process namespace of its own, so a lab that is killed
//! leaves no process, no mount and no interface. A token bucket limits each direction of a host's
//! line. A proxy in the host's namespace delays the bytes of each connection: few kernels have
//! `netem`.

use std::{
    fs::File,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::sched::{CloneFlags, setns};
use testkit::servers::{Line, Proxy};

use crate::{Error, measure::must};

/// The address of the servers on the bridge.
pub(super) const SERVER: &str = "10.77.0.1";

/// The variable that tells the lab that it runs in its own namespaces.
const INSIDE: &str = "SAPWOOD_LAB_INSIDE";

/// The first process of the namespace. The kernel gives it only those signals that it handles.
const FIRST: &str = "trap 'exit 130' INT TERM; \"$@\" & wait $!";

/// A line between a host and the servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Megabits a second, in each direction.
    pub(super) rate: u32,
    /// The time from one end to the other.
    pub(super) delay: Duration,
}

/// Becomes the same program in new namespaces, unless it runs in them already.
pub(super) fn enter() -> Result<(), Error> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let me = std::env::current_exe().map_err(|error| Error::Setup(error.to_string()))?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    unshare.args(["sh", "-c", FIRST, "sh"]).arg(me).args(std::env::args_os().skip(1)).env(INSIDE, "1");
    Err(Error::Setup(format!("unshare: {}", unshare.exec())))
}

/// Makes the bridge.
pub(super) fn bridge() -> Result<(), Error> {
    for args in [
        "link set lo up",
        "link add name lab0 type bridge",
        &format!("address add {SERVER}/16 dev lab0"),
        "link set lab0 up",
    ] {
        ip(args)?;
    }
    Ok(())
}

fn ip(args: &str) -> Result<(), Error> {
    must(Path::new("ip"), &args.split(' ').collect::<Vec<_>>(), Path::new("/")).map(drop)
}

/// A host: a network and a mount namespace, with one line to the servers.
pub(super) struct Host {
    /// A process that does nothing. It keeps the namespace.
    holder: Child,
    number: usize,
    delay: Duration,
}

impl Host {
    /// Adds host `number`, from 0. It sees what is mounted now.
    pub(super) fn new(number: usize, speed: Speed) -> Result<Host, Error> {
        let failed = |error: std::io::Error| Error::Setup(format!("unshare: {error}"));
        let mut hold = Command::new("unshare");
        hold.args(["--net", "--mount", "sh", "-c", "echo up && exec sleep infinity"]).stdout(Stdio::piped());
        let mut holder = hold.spawn().map_err(failed)?;
        let mut line = [0; 3];
        let output = holder.stdout.as_mut().expect("piped above");
        std::io::Read::read_exact(output, &mut line).map_err(failed)?;
        let host = Host { holder, number, delay: speed.delay };
        let (id, bucket) =
            (host.holder.id(), format!("tbf rate {}mbit burst 256kb latency 100ms", speed.rate));
        ip(&format!("link add name host{number} type veth peer name eth0 netns {id}"))?;
        ip(&format!("link set host{number} master lab0 up"))?;
        let inside = format!(
            "ip link set lo up && ip address add 10.77.1.{}/16 dev eth0 && ip link set eth0 up && \
             tc qdisc add dev eth0 root {bucket}",
            number + 1
        );
        host.run(&inside)?;
        let outside = format!("qdisc add dev host{number} root {bucket}");
        must(Path::new("tc"), &outside.split(' ').collect::<Vec<_>>(), Path::new("/"))?;
        Ok(host)
    }

    fn run(&self, script: &str) -> Result<(), Error> {
        let mut words = self.prefix();
        words.extend(["sh", "-ec", script].map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        must(Path::new(words[0]), &words[1..], Path::new("/")).map(drop)
    }

    /// Returns the words before a command that runs on this host.
    pub(super) fn prefix(&self) -> Vec<String> {
        let of = |option, kind| format!("--{option}=/proc/{}/ns/{kind}", self.holder.id());
        vec!["nsenter".into(), of("net", "net"), of("mount", "mnt")]
    }

    /// Opens a port of the host's loopback that leads to a server, with the delay of the line.
    pub(super) fn line_to(&self, server: SocketAddr) -> Result<Proxy, Error> {
        let failed = |error: String| Error::Setup(format!("cannot enter a host's namespace: {error}"));
        let namespace = File::open(format!("/proc/{}/ns/net", self.holder.id()));
        let namespace = namespace.map_err(|error| failed(error.to_string()))?;
        let line = Line { rate: None, latency: self.delay };
        // Sockets and threads of the proxy belong to the namespace of the thread that makes it.
        let made = thread::spawn(move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET).map(|()| Proxy::on(line, server))
        });
        made.join().expect("the proxy starts").map_err(|error| failed(error.to_string()))
    }

    /// Returns the bytes that have arrived on the line so far, with their headers.
    pub(super) fn received(&self) -> u64 {
        let table =
            std::fs::read_to_string(format!("/proc/{}/net/dev", self.holder.id())).unwrap_or_default();
        let line = table.lines().find_map(|line| line.trim().strip_prefix("eth0:"));
        let field = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        field.unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The kernel removes the interface some time after the namespace.
        let _ = ip(&format!("link delete host{}", self.number));
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
