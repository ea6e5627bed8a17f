//! `lab checkout`: measures clone, full checkout, v6.1 to v6.12 and back, and small switches, with
//! packed and loose objects.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    Error,
    ballast::Ballast,
    budget,
    corpus::{self, CHANGES, Corpus},
    floor,
    measure::{Invocation, must, run as measure},
    programs::Programs,
    record::{AtMost, Kind, Machine, RecordOptions, Sample, Tree},
    results::Results,
    rig::{FileSystem, Volume, warm},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: corpus::RepositoryOptions,
    /// Use fewer file systems, cases and runs.
    #[arg(long)]
    quick: bool,
    /// Compare with the targets; exit 1 if one is missed.
    #[arg(long)]
    check: bool,
    /// Number of runs for each tool and case.
    #[arg(long)]
    runs: Option<usize>,
    /// Only these file systems.
    #[arg(long = "fs", value_enum)]
    file_systems: Vec<FileSystem>,
    /// Only these cases.
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
    /// The sapwood binary; by default the one in the directory of this program.
    #[arg(long)]
    sapwood: Option<PathBuf>,
    /// The gix binary (gitoxide); gix is left out if this does not run.
    #[arg(long, default_value = "gix")]
    gix: PathBuf,
    /// The directory for images and mount points.
    #[arg(long)]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    record_options: RecordOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// Clone of a local path on the same file system.
    Clone,
    /// Full checkout into an empty tree, packed objects.
    Full,
    /// Full checkout into an empty tree, loose objects.
    Loose,
    /// Switch from old to new and back.
    Move,
    /// Switches that change 10, 100 and 1,000 files.
    Small,
}

impl Case {
    /// Returns the number of rows of the table that are measured one after the other.
    fn rows(self) -> usize {
        if self == Case::Small { CHANGES.len() } else { 1 }
    }
}

const GIT_WORKERS: [usize; 4] = [1, 2, 4, 8];

#[derive(Clone, Debug)]
enum Tool {
    Sapwood,
    Git(usize),
    Gix,
}

impl Tool {
    fn name(&self) -> String {
        match self {
            Tool::Sapwood => "sapwood".into(),
            Tool::Git(workers) => format!("git-{workers}"),
            Tool::Gix => "gix".into(),
        }
    }
}

struct Lab {
    corpus: Corpus,
    sapwood: PathBuf,
    gix: Option<PathBuf>,
    scratch: PathBuf,
    runs: usize,
    /// The number of rows that are not measured yet.
    left: usize,
    ballast: Ballast,
    results: Results,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let origin = args.repository.origin()?;
    let corpus = origin.corpus()?;
    let tree = Tree::of(&origin.name(), &corpus.packed, "HEAD")?;
    let Programs { sapwood, gix, versions } =
        Programs::find(Path::new("git"), args.sapwood.as_deref(), Some(&args.gix))?;
    let scratch = args.scratch.clone().unwrap_or_else(|| corpus::directory().join("scratch"));
    fs::create_dir_all(&scratch).map_err(|source| Error::Io {
        what: "cannot create",
        path: scratch.clone(),
        source,
    })?;
    let scratch = fs::canonicalize(&scratch).map_err(|source| Error::Io {
        what: "cannot find",
        path: scratch,
        source,
    })?;

    let quick = |all: &[FileSystem]| {
        if args.quick { vec![FileSystem::Ext4, FileSystem::Tmpfs] } else { all.to_vec() }
    };
    let file_systems = match args.file_systems.as_slice() {
        [] => quick(&FileSystem::ALL),
        some => some.to_vec(),
    };
    let cases = match args.cases.as_slice() {
        [] if args.quick => vec![Case::Full, Case::Move, Case::Small],
        [] => vec![Case::Clone, Case::Full, Case::Loose, Case::Move, Case::Small],
        some => some.to_vec(),
    };
    let runs = args.runs.unwrap_or(if args.quick { 3 } else { 5 });
    let ballast = Ballast::new()?;
    let left = file_systems.len() * cases.iter().map(|case| case.rows()).sum::<usize>();
    let mut lab = Lab { corpus, sapwood, gix, scratch, runs, left, ballast, results: Results::default() };
    println!("{}; {versions:?}; {runs} runs, order alternating", Machine::here());
    for &file_system in &file_systems {
        for case in &cases {
            eprintln!("lab: {case:?} on {}", file_system.name());
            match case {
                Case::Clone => lab.clones(file_system)?,
                Case::Full => lab.full(file_system, "full")?,
                Case::Loose => lab.full(file_system, "loose")?,
                Case::Move => lab.moves(file_system)?,
                Case::Small => lab.small(file_system)?,
            }
            lab.left -= case.rows();
        }
    }
    lab.results.print();
    let mut cases = lab.results.cases(&tree.name);
    for case in &mut cases {
        case.at_most = at_most(&case.disk, &case.case);
    }
    args.record_options.write(Kind::Checkout, &versions, vec![tree], cases)?;
    if args.check && !check(&lab.results, &file_systems) {
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

impl Lab {
    fn tools(&self, run: usize, with_gix: bool) -> Vec<Tool> {
        let mut tools = vec![Tool::Sapwood];
        tools.extend(GIT_WORKERS.map(Tool::Git));
        if with_gix && self.gix.is_some() {
            tools.push(Tool::Gix);
        }
        if run % 2 == 1 {
            tools.reverse();
        }
        tools
    }

    /// Builds the invocation of `tool` with `args`; Git also gets its number of workers.
    fn invocation(&self, tool: &Tool, args: &[&str], cwd: &Path) -> Invocation {
        match tool {
            Tool::Sapwood => Invocation::new(&self.sapwood, args, cwd),
            Tool::Git(workers) => {
                let setting = format!("checkout.workers={workers}");
                let mut all = vec!["-c", setting.as_str()];
                all.extend_from_slice(args);
                Invocation::new(Path::new("git"), &all, cwd)
            }
            Tool::Gix => Invocation::new(self.gix.as_deref().expect("asked for only if there"), args, cwd),
        }
    }

    fn timed(&mut self, invocation: &Invocation) -> Result<Sample, Error> {
        self.ballast.fill()?;
        self.ballast.during(|| measure(invocation)).map(Sample::from)
    }

    /// Creates a clone that shares the objects of `source`, without a checkout.
    fn empty_tree(&self, source: &Path, at: &Path) -> Result<(), Error> {
        let (from, to) = (source.display().to_string(), at.display().to_string());
        must(Path::new("git"), &["clone", "-q", "-s", "-n", &from, &to], Path::new("/"))?;
        must(
            Path::new("git"),
            &["fetch", "-q", "origin", "refs/lab/*:refs/lab/*", "refs/heads/lab:refs/lab/new"],
            at,
        )
        .map(|_| ())
    }

    fn clones(&mut self, file_system: FileSystem) -> Result<(), Error> {
        for run in budget::rounds_of_row(self.runs, self.left) {
            for tool in self.tools(run, true) {
                let volume = Volume::fresh(file_system, &self.scratch)?;
                let from = volume.path().join("source.git").display().to_string();
                let packed = self.corpus.packed.display().to_string();
                must(Path::new("cp"), &["-r", &packed, &from], Path::new("/"))?;
                warm(Path::new(&from))?;
                let args: &[&str] = match tool {
                    Tool::Gix => &["clone", &from, "tree"],
                    _ => &["clone", "-q", &from, "tree"],
                };
                let sample = self.timed(&self.invocation(&tool, args, volume.path()))?;
                self.results.add("clone", file_system.name(), &tool.name(), sample);
                verify(run, &tool, &volume.path().join("tree"))?;
            }
        }
        Ok(())
    }

    fn full(&mut self, file_system: FileSystem, case: &'static str) -> Result<(), Error> {
        let source = if case == "loose" { self.corpus.loose.clone() } else { self.corpus.packed.clone() };
        warm(&source)?;
        let index = self.scratch.join(format!("{case}.index"));
        let prepared = self.scratch.join(format!("{case}-index"));
        let _ = fs::remove_dir_all(&prepared);
        self.empty_tree(&source, &prepared)?;
        must(Path::new("git"), &["read-tree", "HEAD"], &prepared)?;
        fs::copy(prepared.join(".git/index"), &index).map_err(|error| Error::Io {
            what: "cannot copy",
            path: index.clone(),
            source: error,
        })?;
        for run in budget::rounds_of_row(self.runs, self.left) {
            for tool in self.tools(run, true) {
                let volume = Volume::fresh(file_system, &self.scratch)?;
                let tree = volume.path().join("tree");
                let invocation = if let Tool::Gix = tool {
                    let (index, git_dir) = (index.display().to_string(), source.display().to_string());
                    let into = tree.display().to_string();
                    let args =
                        ["free", "index", "-i", &index, "checkout-exclusive", "-k", "-r", &git_dir, &into];
                    // gix refuses the three files whose names Windows reserves (aux.c, aux.h), and
                    // exits with 1.
                    Invocation { accepted: &[0, 1], ..self.invocation(&tool, &args, volume.path()) }
                } else {
                    self.empty_tree(&source, &tree)?;
                    self.invocation(&tool, &["checkout", "-q", "-f", "--detach", "origin/lab"], &tree)
                };
                let sample = self.timed(&invocation)?;
                self.results.add(case, file_system.name(), &tool.name(), sample);
                verify(run, &tool, &tree)?;
            }
            if case == "full" {
                let volume = Volume::fresh(file_system, &self.scratch)?;
                self.ballast.fill()?;
                let sample = self.ballast.during(|| floor::measure(&source, "HEAD", volume.path()))?;
                self.results.add(case, file_system.name(), "floor", sample);
            }
        }
        Ok(())
    }

    fn moves(&mut self, file_system: FileSystem) -> Result<(), Error> {
        warm(&self.corpus.packed)?;
        for run in budget::rounds_of_row(self.runs, self.left) {
            for tool in self.tools(run, false) {
                let volume = Volume::fresh(file_system, &self.scratch)?;
                let tree = volume.path().join("tree");
                self.empty_tree(&self.corpus.packed, &tree)?;
                let prepare = ["-c", "checkout.workers=2", "checkout", "-q", "-f", "refs/lab/old"];
                must(Path::new("git"), &prepare, &tree)?;
                for (case, revision) in [("old-to-new", "refs/lab/new"), ("new-to-old", "refs/lab/old")] {
                    let sample = self.timed(&self.invocation(&tool, &["checkout", "-q", revision], &tree))?;
                    self.results.add(case, file_system.name(), &tool.name(), sample);
                    verify(run, &tool, &tree)?;
                }
            }
        }
        Ok(())
    }

    /// Switches one tree with each tool in turn; each tool switches to the change and back.
    fn small(&mut self, file_system: FileSystem) -> Result<(), Error> {
        let volume = Volume::fresh(file_system, &self.scratch)?;
        let tree = volume.path().join("tree");
        self.empty_tree(&self.corpus.packed, &tree)?;
        let prepare = ["-c", "checkout.workers=2", "checkout", "-q", "-f", "refs/lab/new"];
        must(Path::new("git"), &prepare, &tree)?;
        must(Path::new("git"), &["update-index", "-q", "--refresh"], &tree)?;
        self.ballast.fill()?;
        for (number, count) in CHANGES.into_iter().enumerate() {
            let change = format!("refs/lab/change-{count}");
            for run in budget::rounds_of_row(self.runs * 2, self.left - number) {
                for tool in self.tools(run, false) {
                    for revision in [change.as_str(), "refs/lab/new"] {
                        let args = ["switch", "-q", "--detach", revision];
                        let sample = measure(&self.invocation(&tool, &args, &tree)).map(Sample::from)?;
                        let case = format!("switch-{count}");
                        self.results.add(&case, file_system.name(), &tool.name(), sample);
                    }
                    verify(run, &tool, &tree)?;
                }
            }
        }
        Ok(())
    }
}

/// Fails if `git status` finds the tree dirty, so that a tool that skips work cannot win. Only the
/// first run of a case is checked, and gix never.
fn verify(run: usize, tool: &Tool, tree: &Path) -> Result<(), Error> {
    if run > 0 || matches!(tool, Tool::Gix) {
        return Ok(());
    }
    let status = must(Path::new("git"), &["status", "--porcelain"], tree)?;
    if status.is_empty() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&status);
    let first: Vec<&str> = text.lines().take(3).collect();
    Err(Error::Setup(format!("{} left the tree dirty: {first:?}", tool.name())))
}

const CASES: [&str; 8] =
    ["full", "old-to-new", "new-to-old", "switch-10", "switch-100", "switch-1000", "loose", "clone"];

/// Returns the target of a case.
fn at_most(file_system: &str, case: &str) -> AtMost {
    let git = match case {
        "full" if file_system == FileSystem::Btrfs.name() => 0.80,
        "full" => return AtMost { git: Some(0.50), gix: Some(1.05), ..AtMost::default() },
        "switch-10" => 0.40,
        "switch-100" | "switch-1000" => 1.0,
        case if CASES.contains(&case) => 0.55,
        _ => return AtMost::default(),
    };
    AtMost { git: Some(git), ..AtMost::default() }
}

/// Prints each target next to the measured figure. Returns true if all targets are met.
fn check(results: &Results, file_systems: &[FileSystem]) -> bool {
    let mut all_met = true;
    let mut line = |name: String, measured: f64, target: f64| {
        let met = measured <= target;
        all_met &= met;
        println!("{} {name:<58} {measured:>8.3} (at most {target})", if met { "met   " } else { "MISSED" });
    };
    for &file_system in file_systems {
        let fs = file_system.name();
        for case in CASES {
            let at_most = at_most(fs, case);
            let ours = |of: fn(&Sample) -> f64| results.median(case, fs, "sapwood", of);
            let (Some(wall), Some((git, git_wall))) = (ours(|s| s.wall), results.best(case, fs, "git-"))
            else {
                continue;
            };
            if let Some(target) = at_most.git {
                line(format!("{case} on {fs}: wall / {git}"), wall / git_wall, target);
            }
            if let Some(anonymous) = ours(|s| s.peak_anonymous as f64 / 1024.0) {
                line(format!("{case} on {fs}: anonymous memory, MB"), anonymous, 150.0);
            }
            let git_rss = results.median(case, fs, &git, |s| s.peak_rss as f64);
            if let (Some(rss), Some(git_rss)) = (ours(|s| s.peak_rss as f64), git_rss) {
                line(format!("{case} on {fs}: peak RSS / {git}"), rss / git_rss, 1.5);
            }
            if let (Some(target), Some(gix)) = (at_most.gix, results.median(case, fs, "gix", |s| s.wall)) {
                line(format!("{case} on {fs}: wall / gix"), wall / gix, target);
            }
        }
    }
    all_met
}
