//! `lab clone`: measures clone and fetch beside Git and gix, over several ways to a server.
//!
//! Each clone gets a fresh file system. The order of the tools is reversed from run to run. The
//! time of `git upload-pack` alone is measured too: no client of Git's server is faster.

mod alone;
mod case;
pub(crate) mod line;
pub(crate) mod source;
mod targets;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::{
    alone::Request,
    case::Case,
    line::{Over, Server},
    source::Source,
    tools::Tool,
};
use crate::{
    Error,
    ballast::Ballast,
    budget,
    measure::must,
    options::Options,
    programs::{ProgramOptions, Programs},
    record::{self, Figure, Kind, Machine, Sample},
    results::median,
    weather::{
        mounted_disk::{Disk, MountedDisk},
        trees::{self, Tree},
    },
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A repository or bundle to measure on, or `linux`, the tree from Debian's source packages,
    /// which is the default; may be given several times.
    #[arg(long = "tree")]
    trees: Vec<PathBuf>,
    /// Only these ways to the server.
    #[arg(long = "over", value_enum)]
    overs: Vec<Over>,
    /// Only these cases.
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
    /// Only these tools.
    #[arg(long = "tool", value_enum)]
    tools: Vec<Tool>,
    /// The disks of the clones.
    #[arg(long = "on", value_enum, default_value = "local")]
    disks: Vec<Disk>,
    /// Number of runs for each tool and case.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// 500 refs in place of 50,000.
    #[arg(long)]
    few_refs: bool,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Do not keep the machine's memory in a fixed state, because other programs use this machine.
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    options: Options,
}

struct Lab<'a> {
    args: &'a Args,
    programs: Programs,
    cores: usize,
    ballast: Option<Ballast>,
    /// The number of rows that are not measured yet.
    left: usize,
    cases: Vec<record::Case>,
}

/// One figure to take: a case over a line, on a disk.
struct Round<'a> {
    tree: &'a Tree,
    source: &'a Source,
    server: &'a Server,
    over: Over,
    case: Case,
    disk: Disk,
}

/// Returns the given values, or all.
pub(crate) fn chosen<T: Copy>(given: &[T], all: &[T]) -> Vec<T> {
    if given.is_empty() { all.to_vec() } else { given.to_vec() }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let trees = match args.trees.as_slice() {
        [] => vec![trees::linux(&[])?],
        some => some.iter().map(|path| trees::named(path, &[])).collect::<Result<_, _>>()?,
    };
    let programs = args.programs.find()?;
    println!("{}; {:?}; {} runs, order alternating", Machine::here(), programs.versions, args.runs);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (overs, cases) = (chosen(&args.overs, &Over::ALL), chosen(&args.cases, &Case::ALL));
    let left = trees.len() * overs.len() * args.disks.len() * cases.len();
    let mut lab = Lab { args, programs, cores, ballast: None, left, cases: Vec::new() };
    for tree in &trees {
        println!("{tree}");
        let source = Source::of(tree, args.few_refs)?;
        cases.iter().try_for_each(|case| source.prepare(case.repo()))?;
        for &over in &overs {
            let server = Server::start(over, &source.root)?;
            for &disk in &args.disks {
                for &case in &cases {
                    lab.round(&Round { tree, source: &source, server: &server, over, case, disk })?;
                }
            }
        }
    }
    let missed = print(&lab.cases);
    let Lab { programs, cases, .. } = lab;
    args.options.record.write(
        Kind::Clone,
        &programs.versions,
        trees.iter().map(Tree::fact).collect(),
        cases,
    )?;
    Ok(args.options.code(missed))
}

impl Lab<'_> {
    fn tools(&self, case: Case) -> Vec<Tool> {
        let tools = chosen(&self.args.tools, &[Tool::Sapwood, Tool::Git, Tool::Gix]);
        let is_there = |tool: &Tool| *tool != Tool::Gix || self.programs.gix.is_some();
        tools.into_iter().filter(|tool| is_there(tool) && case.is_for(*tool)).collect()
    }

    fn round(&mut self, round: &Round<'_>) -> Result<(), Error> {
        let Round { tree, over, case, disk, .. } = *round;
        let name = format!("{}-{}", case.name(), over.name());
        let request = Request::of(case, &self.args.programs.pair.git, round.source)?;
        self.ballast = (disk == Disk::Local && !self.args.shared).then(Ballast::new).transpose()?;
        let tools = self.tools(case);
        let mut samples = vec![Vec::new(); tools.len()];
        let mut alone = Vec::new();
        for run in budget::rounds_of_row(self.args.runs, self.left) {
            let mut order: Vec<usize> = (0..tools.len()).collect();
            if run % 2 == 1 {
                order.reverse();
            }
            for which in order {
                let sample = self.sample(round, tools[which])?;
                eprintln!(
                    "lab:   {name} {} {:.3} s; {}",
                    tools[which].name(self.cores),
                    sample.wall,
                    sample.served
                );
                samples[which].push(sample);
            }
            if let Some(request) = &request {
                alone.push(Sample::from(crate::measure::run(
                    &request.invocation(&self.args.programs.pair.git),
                )?));
            }
        }
        self.left -= 1;
        if samples.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let key = [tree.name.as_str(), disk.name(), name.as_str()];
        for (tool, samples) in tools.iter().zip(&samples) {
            let figure = Figure::of_samples(&tool.name(self.cores), samples);
            record::Case::add(&mut self.cases, key, figure);
        }
        if !alone.is_empty() {
            record::Case::add(&mut self.cases, key, Figure::of_samples("server", &alone));
        }
        if let Some(of) = self.cases.last_mut() {
            of.at_most = targets::at_most(case, over, disk, request.map(|request| request.bytes));
        }
        Ok(())
    }

    /// Takes one sample, and verifies the result.
    fn sample(&mut self, round: &Round<'_>, tool: Tool) -> Result<Sample, Error> {
        let Round { source, server, case, disk, .. } = *round;
        let memory = Path::new("/dev/shm/sapwood-clone");
        let scratch = self.args.options.scratch(disk.is_served().then_some(memory))?;
        let mut mounted = MountedDisk::fresh(disk, &scratch)?;
        if let Some(client) = case.client() {
            let [from, to] = [source.root.join(client), mounted.fast()?.join("tree")]
                .map(|path| path.display().to_string());
            must(Path::new("cp"), &["-a", &from, &to], Path::new("/"))?;
            let set = ["-C", &to, "config", "remote.origin.url", &server.url(case.repo())];
            must(Path::new("git"), &set, Path::new("/"))?;
        }
        let words = case.words(tool, &server.url(case.repo()));
        let settings = server.settings();
        let calls = |at: &Path| match case.client() {
            Some(_) => at.join("tree"),
            None => at.to_owned(),
        };
        let (programs, git) = (&self.programs, &self.args.programs.pair.git);
        // Proves that the tool is there.
        tool.invocation(programs, git, &settings, &words, Path::new("/"))?;
        let before = server.bytes();
        let mut sample = mounted.measured(
            |at| tool.invocation(programs, git, &settings, &words, &calls(at)).expect("the tool was there"),
            &mut self.ballast,
        )?;
        if let Some((before, after)) = before.zip(server.bytes()) {
            let text = format!("{} bytes from the server", after - before);
            sample.served =
                if sample.served.is_empty() { text } else { format!("{text}; {}", sample.served) };
        }
        verify(&mounted.fast()?.join("tree"), case, tool)?;
        Ok(sample)
    }
}

/// Prints the medians and the verdicts. Returns the number of missed targets.
pub(crate) fn print(cases: &[record::Case]) -> usize {
    let mut missed = 0;
    for case in cases {
        println!("\n{} {} {}", case.tree, case.disk, case.case);
        for figure in &case.tools {
            let of = |of: fn(&Sample) -> f64| median(figure.samples.iter().map(of).collect());
            let (least, most) = figure.wall().and_then(|wall| wall.range).unwrap_or_default();
            println!(
                "  {:<8} {:>8.3} s ({least:.3} .. {most:.3}), CPU {:.3} s, {:.1} MB; {}",
                figure.tool,
                of(|sample| sample.wall),
                of(|sample| sample.user + sample.sys),
                of(|sample| sample.peak_rss as f64 / 1024.0),
                figure.samples.first().map_or("", |sample| sample.served.as_str()),
            );
        }
        for verdict in targets::judge(case) {
            println!("  {}", verdict.text);
            missed += usize::from(!verdict.is_met);
        }
    }
    missed
}

/// Fails if a clone is not complete, or a fetch brought nothing, so that a tool that skips work
/// cannot win. `tree` is accessible at full speed.
fn verify(tree: &Path, case: Case, tool: Tool) -> Result<(), Error> {
    let git = |args: &[&str]| must(Path::new("git"), args, tree);
    let wrong = |what: String| Err(Error::Setup(format!("{}: {tool:?} {what}", case.name())));
    if let Some(commits) = case.commits() {
        if commits > 0 {
            let count = git(&["rev-list", "--count", &format!("base..origin/{}", Source::branch(commits))])?;
            let count = String::from_utf8_lossy(&count).trim().to_owned();
            if count != commits.to_string() {
                return wrong(format!("fetched {count} commits"));
            }
        }
        return Ok(());
    }
    // gix writes another index, and refuses names that Windows reserves.
    if tool != Tool::Gix {
        let status = git(&["status", "--porcelain"])?;
        if let Some(first) = String::from_utf8_lossy(&status).lines().next() {
            return wrong(format!("left the tree dirty: {first:?}"));
        }
    }
    let has_files = fs::read_dir(tree).is_ok_and(|mut entries| entries.nth(1).is_some());
    if has_files { Ok(()) } else { wrong("wrote no files".into()) }
}
