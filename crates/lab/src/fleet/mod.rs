//! `lab fleet`: hosts begin a job on one repository, and then on its next commit.
//!
//! Each host has namespaces, a line and a fresh disk of its own. All hosts
//! start at once, and share the processors of this machine. The time of a host ends with the first
//! `git status` that finds nothing. The order of the ways is reversed from run to run.

mod network;
mod peers;
mod servers;
mod targets;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use testkit::servers::{Proxy, S3};

pub(crate) use self::servers::child as serve;
use self::{
    network::{Host, Speed},
    peers::{Moment, Peer, REPOSITORY, Way},
    servers::Servers,
};
use crate::{
    Error, budget, corpus,
    measure::{self, Invocation, must},
    options::Options,
    programs::{Pair, Programs},
    record::{self, Figure, Kind, Machine, Sample},
    results::median,
    rig::{FileSystem, Volume},
    weather::trees::{self, Tree},
};

/// The number of files that the next commit changes.
const CHANGED: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A repository or bundle to measure on, or `linux`, the tree from Debian's source packages,
    /// which is the default.
    #[arg(long)]
    tree: Option<PathBuf>,
    /// The numbers of hosts that start at once.
    #[arg(long = "hosts", default_values_t = [1, 8])]
    hosts: Vec<usize>,
    /// Only these ways.
    #[arg(long = "peer", value_enum)]
    peers: Vec<Peer>,
    /// Values of `checkout.workers` for the ways with Git. 0 is one worker for each processor, 1 is
    /// Git's default.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    git_workers: Vec<usize>,
    /// Number of runs for each way.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Megabits a second of each host's line.
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Milliseconds from one end of a line to the other.
    #[arg(long, default_value_t = 5)]
    delay: u64,
    #[command(flatten)]
    programs: Pair,
    #[command(flatten)]
    options: Options,
}

impl Args {
    /// Returns the ways to measure: each way with Git once for each number of workers.
    fn ways(&self) -> Vec<Way> {
        let peers = if self.peers.is_empty() { Peer::ALL.to_vec() } else { self.peers.clone() };
        let of = |peer: Peer| {
            if peer.is_checkout_by_git() {
                self.git_workers.iter().map(|&workers| Way { peer, workers: Some(workers) }).collect()
            } else {
                vec![Way { peer, workers: None }]
            }
        };
        peers.into_iter().flat_map(of).collect()
    }
}

struct Lab<'a> {
    args: &'a Args,
    programs: Programs,
    /// The directory that the servers serve.
    root: PathBuf,
    scratch: PathBuf,
    servers: Servers,
    /// The commit of each moment.
    commits: [String; 2],
}

/// A host with its disk and its ports.
struct Ready {
    host: Host,
    disk: Volume,
    /// The lines to the servers, which end with these values.
    _lines: Vec<Proxy>,
    /// Assignments of shell variables.
    variables: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    network::enter()?;
    network::bridge()?;
    let tree = match &args.tree {
        None => trees::linux(&[CHANGED])?,
        Some(path) => trees::named(path, &[CHANGED])?,
    };
    let programs = args.programs.find()?;
    println!("{}; {:?}; {} runs, order alternating\n{tree}", Machine::here(), programs.versions, args.runs);
    let root = corpus::absolute(&corpus::directory().join("fleet").join(&tree.name))?;
    let commits = repository(&tree, &root.join(REPOSITORY))?;
    let scratch = args.options.scratch(None)?;
    let lab = Lab { args, programs, servers: Servers::start(&root)?, root, scratch, commits };
    let mut cases = Vec::new();
    for &hosts in &args.hosts {
        lab.measure(&tree, hosts, &mut cases)?;
    }
    let missed = print(&cases);
    args.options.record.write(Kind::Fleet, &lab.programs.versions, vec![tree.fact()], cases)?;
    Ok(args.options.code(missed))
}

/// Makes the server's repository, with one branch, and returns the commit of each moment.
fn repository(tree: &Tree, at: &Path) -> Result<[String; 2], Error> {
    let git = |args: &[&str]| must(Path::new("git"), args, at);
    let from = tree.packed.display().to_string();
    if fs::metadata(at).is_err() {
        let to = at.display().to_string();
        must(Path::new("git"), &["init", "-q", "--bare", "-b", "main", &to], Path::new("/"))?;
        let next = format!("refs/lab/change-{CHANGED}");
        git(&["fetch", "-q", &from, "refs/lab/new:refs/heads/main", &format!("{next}:{next}")])?;
        git(&["config", "uploadpack.allowFilter", "true"])?;
        git(&["config", "transfer.hideRefs", "refs/lab"])?;
        git(&["update-ref", "refs/lab/new", "main"])?;
        git(&["repack", "-adqb"])?;
    }
    let commit = |name: &str| -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&git(&["rev-parse", "--verify", name])?).trim().to_owned())
    };
    Ok([commit("refs/lab/new")?, commit(&format!("refs/lab/change-{CHANGED}"))?])
}

impl Lab<'_> {
    /// Measures all ways with this number of hosts.
    fn measure(&self, tree: &Tree, hosts: usize, cases: &mut Vec<record::Case>) -> Result<(), Error> {
        let ways = self.args.ways();
        for way in &ways {
            for moment in Moment::ALL {
                self.publish(moment)?;
                let store = &self.servers.store.to_string();
                let variables = self.variables(store, &self.servers.registry.to_string());
                way.peer.prepare_server(&self.root, moment, &variables)?;
            }
        }
        let mut samples = vec![[Vec::new(), Vec::new()]; ways.len()];
        for run in budget::rounds(self.args.runs) {
            let order: Vec<usize> = (0..ways.len()).collect();
            let order: Box<dyn Iterator<Item = usize>> =
                if run % 2 == 0 { Box::new(order.into_iter()) } else { Box::new(order.into_iter().rev()) };
            for which in order {
                for (all, new) in samples[which].iter_mut().zip(self.run(ways[which], hosts)?) {
                    all.extend(new);
                }
            }
        }
        for (at, moment) in Moment::ALL.into_iter().enumerate() {
            for (way, samples) in ways.iter().zip(&samples) {
                let disk = format!("{hosts} hosts");
                let key = [tree.name.as_str(), disk.as_str(), moment.name()];
                record::Case::add(cases, key, Figure::of_samples(&way.name(), &samples[at]));
            }
        }
        Ok(())
    }

    /// Sets the branch of the server to the commit of a moment.
    fn publish(&self, moment: Moment) -> Result<(), Error> {
        let set = ["update-ref", "refs/heads/main", &self.commits[moment as usize]];
        must(Path::new("git"), &set, &self.root.join(REPOSITORY)).map(drop)
    }

    /// Runs a way once on fresh hosts. Returns the samples of each moment.
    fn run(&self, way: Way, hosts: usize) -> Result<[Vec<Sample>; 2], Error> {
        self.publish(Moment::First)?;
        let speed = Speed { rate: self.args.rate, delay: Duration::from_millis(self.args.delay) };
        let ready =
            (0..hosts).map(|number| self.host(way.peer, number, speed)).collect::<Result<Vec<_>, _>>()?;
        nix::unistd::sync();
        let mut result = [Vec::new(), Vec::new()];
        for moment in Moment::ALL {
            self.publish(moment)?;
            let before = self.servers.cpu();
            let taken: Vec<Result<Sample, Error>> = thread::scope(|scope| {
                let hosts: Vec<_> =
                    ready.iter().map(|host| scope.spawn(|| self.sample(way, moment, host))).collect();
                hosts.into_iter().map(|host| host.join().expect("a host does not panic")).collect()
            });
            let cpu = (self.servers.cpu() - before) / hosts as f64;
            let samples = taken.into_iter().collect::<Result<Vec<_>, _>>()?;
            let samples: Vec<Sample> =
                samples.into_iter().map(|of| Sample { server: Some(cpu), ..of }).collect();
            eprintln!(
                "lab:   {hosts} hosts, {} {}: {:.3} s, {} bytes, server {cpu:.3} s a host",
                way.name(),
                moment.name(),
                median(samples.iter().map(|of| of.wall).collect()),
                samples[0].received.unwrap_or_default(),
            );
            result[moment as usize] = samples;
        }
        Ok(result)
    }

    fn host(&self, peer: Peer, number: usize, speed: Speed) -> Result<Ready, Error> {
        let disk = Volume::fresh(FileSystem::Ext4, &self.scratch.join(format!("host-{number}")))?;
        disk.read_directly();
        peer.prepare_host(&self.root, disk.path())?;
        let host = Host::new(number, speed)?;
        let servers = [self.servers.git, self.servers.web, self.servers.store, self.servers.registry];
        let lines = servers.iter().map(|server| host.line_to(*server)).collect::<Result<Vec<_>, _>>()?;
        let at: Vec<String> = lines.iter().map(|line| line.address().to_string()).collect();
        let variables = format!(
            "{}export GIT_SERVER=git://{} WEB_SERVER=http://{}/files\n",
            self.variables(&at[2], &at[3]),
            at[0],
            at[1],
        );
        Ok(Ready { host, disk, _lines: lines, variables })
    }

    /// Returns the assignments of shell variables for a store and a registry at these addresses.
    fn variables(&self, store: &str, registry: &str) -> String {
        let mut variables = self.path();
        let address = store.parse().expect("the address of a socket");
        for (name, value) in S3::variables(address) {
            variables += &format!("export {name}={}\n", value.display());
        }
        variables + &format!("export REGISTRY={registry} ROOT={}\n", self.root.display())
    }

    /// Returns the assignment of `PATH` with the measured programs.
    fn path(&self) -> String {
        let dir = |program: &Path| program.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
        let git = fs::canonicalize(&self.args.programs.git).map(|git| dir(&git)).unwrap_or_default();
        let dirs = [dir(&self.programs.sapwood), git];
        let dirs: Vec<&str> = dirs.iter().map(String::as_str).filter(|dir| !dir.is_empty()).collect();
        format!("export PATH={}:$PATH\n", dirs.join(":"))
    }

    fn sample(&self, way: Way, moment: Moment, ready: &Ready) -> Result<Sample, Error> {
        let commit = &self.commits[moment as usize];
        let (variables, disk) = (&ready.variables, ready.disk.path().display());
        let script = format!("{variables}COMMIT={commit}\ncd {disk} && {}", way.script(moment));
        let mut invocation = Invocation::new(Path::new("/bin/sh"), &["-ec", &script], Path::new("/"));
        invocation.outside = ready.host.prefix();
        let before = ready.host.received();
        let sample = Sample::from(measure::run(&invocation)?);
        Ok(Sample { received: Some(ready.host.received() - before), ..sample })
    }
}

/// Prints the medians and the verdicts. Returns the number of missed targets.
fn print(cases: &[record::Case]) -> usize {
    for case in cases {
        println!("\n{} {} {}", case.tree, case.disk, case.case);
        for figure in &case.tools {
            let (least, most) = figure.wall().and_then(|wall| wall.range).unwrap_or_default();
            let of = |of: fn(&Sample) -> f64| median(figure.samples.iter().map(of).collect());
            println!(
                "  {:<35} {:>8.3} s ({least:.3} .. {most:.3}), {:>8.3} MB, CPU {:.2} s, server {:.2} s",
                figure.tool,
                of(|sample| sample.wall),
                of(|sample| sample.received.unwrap_or_default() as f64 / 1e6),
                of(|sample| sample.user + sample.sys),
                of(|sample| sample.server.unwrap_or_default()),
            );
        }
    }
    let mut missed = 0;
    for pair in cases.chunks_exact(2) {
        println!("\n{}", pair[0].disk);
        for verdict in targets::judge(&pair[0], &pair[1]) {
            println!("  {}", verdict.text);
            missed += usize::from(!verdict.is_met);
        }
    }
    missed
}
