//! `lab weather`: measures clone, full checkout and switches with all tools on slow disks.
//!
//! Each sample starts with cold caches of the disk. If FUSE serves the disk, each sample gets a
//! mount of its own; on block devices, caches are dropped. Objects are on a fast disk, except for
//! those that a clone copies, so the figures show the cost of writing the tree. The order of the
//! tools is reversed from run to run.

pub(crate) mod block;
pub(crate) mod mounted_disk;
mod published;
pub(crate) mod table;
mod targets;
pub(crate) mod tools;
pub(crate) mod trees;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::{
    mounted_disk::{Disk, MountedDisk},
    table::{Key, Table},
    tools::{Tool, Tools},
    trees::Tree,
};
use crate::{
    Error,
    ballast::Ballast,
    budget, corpus,
    measure::{Invocation, must},
    programs::ProgramOptions,
    record::{Kind, Machine, RecordOptions, Sample},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A repository or bundle to measure on, or `linux`, the tree from Debian's source packages,
    /// which is the default; may be given several times.
    #[arg(long = "tree")]
    trees: Vec<PathBuf>,
    /// Only these disks. Block devices other than the local one are measured only on request.
    #[arg(long = "on", value_enum)]
    disks: Vec<Disk>,
    /// Only these tools: sapwood, gix, git-N or sapwood-N for N workers.
    #[arg(long = "tool")]
    tools: Vec<Tool>,
    /// Only these cases.
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
    /// Numbers of files that the switches change; a number above half of the tree's files is left
    /// out.
    #[arg(long = "files", value_delimiter = ',')]
    files: Vec<usize>,
    /// Number of runs for each tool and case.
    #[arg(long)]
    runs: Option<usize>,
    /// Use fewer disks, tools, switches and runs.
    #[arg(long)]
    quick: bool,
    /// Compare with the targets; exit 1 if one is missed, 2 if one was not measured.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Do not keep the machine's memory in a fixed state for the local disk, because other
    /// programs use this machine.
    #[arg(long)]
    shared: bool,
    /// The directory for disks. By default, memory for disks that FUSE serves, so that only the
    /// simulated latency slows them down, and the directory of `lab checkout` for others.
    #[arg(long)]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    record_options: RecordOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// Clone of a repository on a fast disk, including the checkout.
    Clone,
    /// Full checkout into an empty tree.
    Full,
    /// Switch that changes some files, and back.
    Switch,
}

/// The numbers of files in Git's published figures (see `published`), and two and a half times the
/// largest.
const SWITCHES: [usize; 9] = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
const QUICK_SWITCHES: [usize; 3] = [10, 100, 5000];

struct Lab {
    tools: Tools,
    scratch: PathBuf,
    runs: usize,
    ballast: Option<Ballast>,
    table: Table,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let counts = match args.files.as_slice() {
        [] if args.quick => QUICK_SWITCHES.to_vec(),
        [] => SWITCHES.to_vec(),
        some => some.to_vec(),
    };
    let trees = match args.trees.as_slice() {
        [] => vec![trees::linux(&counts)?],
        some => some.iter().map(|path| trees::named(path, &counts)).collect::<Result<_, _>>()?,
    };
    let disks = match args.disks.as_slice() {
        [] if args.quick => vec![Disk::Nfs, Disk::Hdd],
        [] => Disk::USUAL.to_vec(),
        some => some.to_vec(),
    };
    let cases = match args.cases.as_slice() {
        [] if args.quick => vec![Case::Full, Case::Switch],
        [] => vec![Case::Clone, Case::Full, Case::Switch],
        some => some.to_vec(),
    };
    let tools = Tools::new(&args.programs, &args.tools, args.quick)?;
    let runs = args.runs.unwrap_or(if args.quick { 1 } else { 3 });
    println!("{}; {:?}; {runs} runs, order alternating", Machine::here(), tools.versions);
    let versions = tools.versions.clone();
    let mut lab = Lab { tools, scratch: PathBuf::new(), runs, ballast: None, table: Table::default() };
    for tree in &trees {
        println!("{tree}");
        for &disk in &disks {
            lab.scratch = corpus::absolute(&match &args.scratch {
                Some(scratch) => scratch.clone(),
                None if disk.is_served() => "/dev/shm/sapwood-weather".into(),
                None => corpus::directory().join("scratch"),
            })?;
            // On slow disks, the state of memory makes no measurable difference.
            lab.ballast = (disk == Disk::Local && !args.shared).then(Ballast::new).transpose()?;
            for case in &cases {
                eprintln!("lab: {case:?} of {} on {}", tree.name, disk.name());
                match case {
                    Case::Clone => lab.clones(tree, disk)?,
                    Case::Full => lab.full(tree, disk)?,
                    Case::Switch => lab.switches(tree, disk)?,
                }
            }
        }
    }
    lab.table.print();
    published::print();
    let mut cases = lab.table.cases();
    for case in &mut cases {
        let tree = trees.iter().find(|tree| tree.name == case.tree);
        let disk = disks.iter().find(|disk| disk.name() == case.disk);
        if let (Some(tree), Some(&disk)) = (tree, disk) {
            case.at_most = targets::at_most(tree, disk, &case.case);
        }
    }
    args.record_options.write(Kind::Weather, &versions, trees.iter().map(Tree::fact).collect(), cases)?;
    Ok(if args.check { targets::check(&lab.table, &trees) } else { ExitCode::SUCCESS })
}

impl Lab {
    fn add(&mut self, tree: &Tree, disk: Disk, case: &str, tool: Tool, sample: Sample) {
        let key =
            Key { tree: tree.name.clone(), disk: disk.name(), case: case.to_owned(), tool: tool.to_string() };
        eprintln!("lab:   {tool} {:.3} s, {} operations", sample.wall, sample.operations);
        self.table.add(key, sample, disk, tree.files_of(case));
    }

    /// Calls `invocation` with the path of the mounted disk, runs the resulting command and
    /// measures it.
    fn measured(
        &mut self,
        mounted: &mut MountedDisk,
        invocation: impl FnOnce(&Tools, &Path) -> Invocation,
    ) -> Result<Sample, Error> {
        let tools = &self.tools;
        mounted.measured(|at| invocation(tools, at), &mut self.ballast)
    }

    fn clones(&mut self, tree: &Tree, disk: Disk) -> Result<(), Error> {
        for run in budget::rounds(self.runs) {
            for tool in self.tools.in_turn(run, disk) {
                let mut mounted = MountedDisk::fresh(disk, &self.scratch)?;
                let source = tree.packed.display().to_string();
                let sample = self.measured(&mut mounted, |tools, at| tools.clone_of(tool, &source, at))?;
                if tool != Tool::Gix {
                    verify(&mounted.fast()?.join("tree"), tool)?;
                }
                self.add(tree, disk, "clone", tool, sample);
            }
        }
        Ok(())
    }

    fn full(&mut self, tree: &Tree, disk: Disk) -> Result<(), Error> {
        for run in budget::rounds(self.runs) {
            for tool in self.tools.in_turn(run, disk) {
                let mut mounted = MountedDisk::fresh(disk, &self.scratch)?;
                if tool != Tool::Gix {
                    tree.empty_at(&mounted.fast()?.join("tree"))?;
                }
                let sample =
                    self.measured(&mut mounted, |tools, at| tools.full(tool, tree, &at.join("tree")))?;
                if tool != Tool::Gix {
                    verify(&mounted.fast()?.join("tree"), tool)?;
                }
                self.add(tree, disk, "full", tool, sample);
            }
        }
        Ok(())
    }

    /// Switches one tree with each tool in turn; each tool switches to the change and back.
    fn switches(&mut self, tree: &Tree, disk: Disk) -> Result<(), Error> {
        let mut mounted = MountedDisk::fresh(disk, &self.scratch)?;
        let at = mounted.fast()?.join("tree");
        tree.full_at(&at)?;
        for &count in &tree.changes {
            for run in budget::rounds(self.runs) {
                for tool in self.tools.in_turn(run, disk).into_iter().filter(|&tool| tool != Tool::Gix) {
                    for revision in [format!("refs/lab/change-{count}"), "refs/lab/new".into()] {
                        let sample = self.measured(&mut mounted, |tools, at| {
                            tools.switch(tool, &revision, &at.join("tree"))
                        })?;
                        self.add(tree, disk, &format!("switch-{count}"), tool, sample);
                        let at = mounted.fast()?.join("tree");
                        trees::settle(&at)?;
                        verify(&at, tool)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Fails if `git status` finds the tree dirty, so that a tool that skips work cannot win. Callers
/// pass a path with full speed.
fn verify(tree: &Path, tool: Tool) -> Result<(), Error> {
    let status = must(Path::new("git"), &["status", "--porcelain"], tree)?;
    let text = String::from_utf8_lossy(&status);
    match text.lines().next() {
        None => Ok(()),
        Some(first) => Err(Error::Setup(format!("{tool} left the tree dirty: {first:?}"))),
    }
}
