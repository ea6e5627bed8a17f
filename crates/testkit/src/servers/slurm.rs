//! Slurm: one controller and several nodes on this machine, each node a `slurmd` of its own.
//!
//! The programs run in a network namespace, so their ports are free, and other processes cannot
//! connect to them. They share the mounts of the test. When the value is dropped, every process in
//! the namespace is killed: the daemons, and the jobs that still run.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::tools::find_system_program;

/// The programs, which are not in an ordinary user's `PATH`.
const PROGRAMS: [&str; 3] = ["munged", "slurmctld", "slurmd"];

/// Creates the network. The host name has no address while only the loopback is up.
const NETWORK: &str = "ip link set lo up
    ip link add name cluster0 type bridge
    ip address add 10.99.0.1/24 dev cluster0
    ip link set cluster0 up
    echo up
    exec sleep infinity";

/// The timeout until all nodes are idle.
const START: Duration = Duration::from_secs(60);

/// A running cluster with the nodes `node1`, `node2` and so on.
pub struct Slurm {
    dir: PathBuf,
    /// A process that keeps the namespace alive.
    namespace: Child,
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts a cluster with its files in the new directory `dir`, which must be accessible to
    /// every user. `settings` are added to `slurm.conf`. Each node runs two jobs at once.
    ///
    /// Returns `None`, and prints the reason, for an ordinary user or if a program is missing;
    /// under CI that is a failure.
    pub fn start(dir: &Path, nodes: usize, settings: &str) -> Option<Slurm> {
        let missing = PROGRAMS.iter().find(|name| find_system_program(name).is_none());
        let is_root = rustix::process::geteuid().is_root();
        if missing.is_some() || !is_root {
            let why =
                missing.map_or_else(|| "only root starts it".into(), |name| crate::tools::missing(name));
            assert!(!crate::tools::in_ci(), "no Slurm ({why}), and under CI a test may not skip");
            println!("skipped: no Slurm: {why}");
            return None;
        }
        for name in ["", "key", "run", "state", "spool", "log"] {
            fs::create_dir_all(dir.join(name)).expect("a new directory");
        }
        fs::set_permissions(dir.join("key"), fs::Permissions::from_mode(0o700)).expect("just made");
        let key: Vec<u8> = (0..=255).collect();
        fs::write(dir.join("key/key"), key).expect("a new file");
        fs::set_permissions(dir.join("key/key"), fs::Permissions::from_mode(0o600)).expect("just made");
        fs::write(dir.join("plugstack.conf"), "").expect("a new file");
        fs::write(dir.join("slurm.conf"), configuration(dir, nodes, settings)).expect("a new file");
        let mut hold = Command::new("unshare");
        hold.args(["--net", "sh", "-ec", NETWORK]);
        let mut namespace = hold.stdout(Stdio::piped()).spawn().expect("root may make namespaces");
        wait_for_line(&mut namespace);
        let mut cluster = Slurm { dir: dir.to_owned(), namespace, daemons: Vec::new() };
        cluster.start_daemons(nodes);
        Some(cluster)
    }

    fn start_daemons(&mut self, nodes: usize) {
        let key = self.dir.join("key");
        let file = |dir: &Path, option: &str, name: &str| format!("--{option}={}", dir.join(name).display());
        let run = self.dir.join("run");
        let munge = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            file(&run, "socket", "munge"),
            file(&key, "key-file", "key"),
            file(&key, "pid-file", "pid"),
            file(&key, "log-file", "log"),
            file(&key, "seed-file", "seed"),
        ];
        self.daemon("munged", &munge);
        let until = Instant::now() + START;
        while !run.join("munge").exists() {
            assert!(Instant::now() < until, "munged does not start:\n{}", self.log("munged"));
            thread::sleep(Duration::from_millis(20));
        }
        self.daemon("slurmctld", &["-D".into()]);
        for node in 1..=nodes {
            self.daemon("slurmd", &["-D".into(), "-N".into(), format!("node{node}")]);
        }
        while self.state().lines().filter(|state| *state == "idle").count() < nodes {
            assert!(Instant::now() < until, "{}\n{}", self.state(), self.log("slurmctld"));
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn daemon(&mut self, name: &str, args: &[String]) {
        let program = find_system_program(name).expect("it was there");
        let log = File::options().create(true).append(true).open(self.dir.join("log").join(name));
        let log = log.expect("a directory for logs");
        let mut command = self.command(&program);
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        self.daemons.push(command.spawn().expect("the program was found"));
    }

    /// Returns a command of this cluster, such as `sbatch` or `squeue`, which runs in the cluster's
    /// namespace.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.namespace.id())).arg(program);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command
    }

    /// Returns the state of each node, one per line.
    pub fn state(&self) -> String {
        let mut sinfo = self.command(Path::new("sinfo"));
        let output =
            sinfo.args(["--Node", "--noheader", "--format=%T"]).output().expect("it comes with Slurm");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until no job is left, and no node runs an epilog. Panics after `limit`.
    pub fn wait_until_idle(&self, limit: Duration) {
        let until = Instant::now() + limit;
        loop {
            let queue = self.command(Path::new("squeue")).arg("--noheader").output().expect("squeue");
            let (queue, state) = (String::from_utf8_lossy(&queue.stdout).into_owned(), self.state());
            if queue.is_empty() && state.lines().all(|state| state == "idle") {
                return;
            }
            assert!(Instant::now() < until, "jobs are left:\n{queue}{state}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the messages of a daemon: `slurmctld`, `slurmd` (of all nodes) or `munged`.
    pub fn log(&self, daemon: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log").join(daemon)).unwrap_or_default()).into_owned()
    }

    /// Returns the names of the cluster's processes that are not daemons: those of jobs.
    pub fn processes_of_jobs(&self) -> Vec<String> {
        let daemons: Vec<u32> = self.daemons.iter().map(Child::id).chain([self.namespace.id()]).collect();
        let others = self.processes().into_iter().filter(|id| !daemons.contains(id));
        let names = others.filter_map(|id| fs::read_to_string(format!("/proc/{id}/comm")).ok());
        // The controller starts this process for its own scripts.
        names.filter(|name| name != "slurmscriptd\n").collect()
    }

    /// Returns the processes in the namespace.
    fn processes(&self) -> Vec<u32> {
        let namespace = |id: u32| fs::read_link(format!("/proc/{id}/ns/net")).ok();
        let Some(ours) = namespace(self.namespace.id()) else { return Vec::new() };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id| namespace(*id).as_ref() == Some(&ours)).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // A process may start another one while the list is read.
        for _ in 0..100 {
            let mut left = self.processes();
            left.retain(|id| *id != self.namespace.id());
            for id in left.iter().filter_map(|id| Pid::from_raw(i32::try_from(*id).ok()?)) {
                let _ = kill_process(id, Signal::KILL);
            }
            for daemon in &mut self.daemons {
                let _ = daemon.wait();
            }
            if left.is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

/// Waits until the process has written a line.
fn wait_for_line(child: &mut Child) {
    let mut line = [0; 3];
    let output = child.stdout.as_mut().expect("piped");
    std::io::Read::read_exact(output, &mut line).expect("`ip` comes with iproute2");
    let _ = std::io::stdout().flush();
}

fn configuration(dir: &Path, nodes: usize, settings: &str) -> String {
    let at = dir.display();
    let ports = if nodes == 1 { "17001".to_owned() } else { format!("[17001-{}]", 17000 + nodes) };
    let names = if nodes == 1 { "node1".to_owned() } else { format!("node[1-{nodes}]") };
    format!(
        "ClusterName=test\n\
         SlurmctldHost=localhost\n\
         SlurmUser=root\n\
         SlurmdUser=root\n\
         AuthInfo=socket={at}/run/munge\n\
         StateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool/%n\n\
         SlurmctldPidFile={at}/run/slurmctld.pid\n\
         SlurmdPidFile={at}/run/%n.pid\n\
         PlugStackConfig={at}/plugstack.conf\n\
         ProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\n\
         MpiDefault=none\n\
         SchedulerType=sched/builtin\n\
         SchedulerParameters=batch_sched_delay=0\n\
         SelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\n\
         SlurmdParameters=config_overrides\n\
         ReturnToService=2\n\
         {settings}\n\
         NodeName={names} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports} CPUs=2 Feature=app\n\
         PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP\n"
    )
}
