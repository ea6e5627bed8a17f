//! `lab status`: measures `status` with all tools, warm and on slow disks with cold caches.
//!
//! All tools run on one tree in turn, and their order is reversed from run to run. No tool writes
//! the index, so each tool finds the same index. The first series has a plain index, the second a
//! valid untracked cache. On the local disk a third series has Git's file system monitor, too. If
//! FUSE serves the disk, each sample gets a mount of its own. On block devices, and for the cold
//! local disk, caches are dropped.

pub(crate) mod counts;
mod targets;
mod tools;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use self::tools::{Kind, Tool, Tools};
use crate::{
    Error,
    ballast::Ballast,
    budget, corpus,
    measure::{Invocation, must},
    programs::ProgramOptions,
    record::{self, Case, Machine, RecordOptions, Sample},
    weather::{
        mounted_disk::{Disk, MountedDisk},
        table::{Key, Table},
        trees::{self, Tree},
    },
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A repository or bundle to measure on, or `linux`, the tree from Debian's source packages,
    /// which is the default; may be given several times.
    #[arg(long = "tree")]
    trees: Vec<PathBuf>,
    /// Also measure a generated tree with this many files, about sixteen in a directory.
    #[arg(long)]
    made: Option<usize>,
    /// Only these disks; by default the local one, warm and cold, nfs, ebs and hdd.
    #[arg(long = "on", value_enum)]
    disks: Vec<Disk>,
    /// Number of untracked files scattered among the tracked ones.
    #[arg(long, default_value_t = 0)]
    loose: usize,
    /// Numbers of files changed since the commit.
    #[arg(long = "changes", value_delimiter = ',', default_value = "0,10,10000")]
    changes: Vec<usize>,
    /// Only these modes of untracked files.
    #[arg(long = "untracked", value_delimiter = ',', value_enum)]
    untracked: Vec<Untracked>,
    /// Only these tools: git, gix, sapwood, git-cache, sapwood-cache, git-monitor, sapwood-monitor.
    #[arg(long = "tool")]
    tools: Vec<Tool>,
    /// Number of runs for each tool and case; five times as many on the warm local disk.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Compare with the targets; exit 1 if one is missed, 2 if one was not measured.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    programs: ProgramOptions,
    /// The directory for disks; by default memory for disks that FUSE serves.
    #[arg(long)]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    record_options: RecordOptions,
}

/// The untracked files that `status` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Untracked {
    No,
    Normal,
    All,
}

impl Untracked {
    fn option(self) -> &'static str {
        match self {
            Untracked::No => "-uno",
            Untracked::Normal => "-unormal",
            Untracked::All => "-uall",
        }
    }
}

const DISKS: [Disk; 5] = [Disk::Local, Disk::Cold, Disk::Nfs, Disk::Ebs, Disk::Hdd];
/// The number of files in a directory of a generated tree.
const FULLNESS: usize = 17;
/// The factor for the number of runs on a warm disk, where a run takes about a tenth of a second.
const MORE_RUNS: usize = 5;

struct Lab<'a> {
    tools: Tools,
    args: &'a Args,
    table: Table,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let mut all = match (args.trees.as_slice(), args.made) {
        ([], None) => vec![trees::linux(&[])?],
        (some, _) => some.iter().map(|path| trees::named(path, &[])).collect::<Result<_, _>>()?,
    };
    if let Some(files) = args.made {
        let dir = corpus::absolute(&corpus::directory().join("made"))?;
        all.push(trees::of(&corpus::wide(files, FULLNESS, &dir)?, &[])?);
    }
    let disks = if args.disks.is_empty() { DISKS.to_vec() } else { args.disks.clone() };
    let tools = Tools::new(&args.programs, &args.tools)?;
    println!("{}; {:?}; {} runs, order alternating", Machine::here(), tools.versions, args.runs);
    let versions = tools.versions.clone();
    let mut lab = Lab { tools, args, table: Table::default() };
    for tree in &all {
        println!("{tree}");
        for &disk in &disks {
            lab.on(tree, disk)?;
        }
    }
    lab.table.print();
    let mut cases: Vec<Case> = lab.table.cases().into_iter().flat_map(by_index).collect();
    for case in &mut cases {
        if let Some(&disk) = disks.iter().find(|disk| disk.name() == case.disk) {
            case.at_most = targets::at_most(disk, &case.case, args.loose > 0);
        }
        if args.loose > 0 {
            case.case += &format!("-loose-{}", args.loose);
        }
    }
    args.record_options.write(
        record::Kind::Status,
        &versions,
        all.iter().map(Tree::fact).collect(),
        cases,
    )?;
    Ok(if args.check { targets::check(&lab.table, &all, args.loose > 0) } else { ExitCode::SUCCESS })
}

/// Splits a case by the kind of index that its tools read. Figures of `sapwood-cache` and
/// `git-cache` move to a case `cache-N` as `sapwood` and `git`, and those with a monitor to a case
/// `monitor-N`.
fn by_index(case: Case) -> Vec<Case> {
    let Case { tree, disk, case, tools, .. } = case;
    let mut cases = Vec::new();
    for mut figure in tools {
        let name = match figure.tool.split_once('-') {
            Some((tool, index)) => {
                let name = format!("{index}-{}", case.rsplit('-').next().unwrap_or_default());
                figure.tool = tool.to_owned();
                name
            }
            None => case.clone(),
        };
        Case::add(&mut cases, [&tree, &disk, &name], figure);
    }
    cases
}

impl Lab<'_> {
    fn on(&mut self, tree: &Tree, disk: Disk) -> Result<(), Error> {
        let scratch = corpus::absolute(&match &self.args.scratch {
            Some(scratch) => scratch.clone(),
            None if disk.is_served() => "/dev/shm/sapwood-status".into(),
            None => corpus::directory().join("scratch"),
        })?;
        let mut mounted = MountedDisk::fresh(disk, &scratch)?;
        let at = mounted.fast()?.join("tree");
        tree.full_at(&at)?;
        scatter(&at, self.args.loose)?;
        let mut changed = BTreeSet::new();
        let mut changes = self.args.changes.clone();
        changes.sort_unstable();
        for count in changes.into_iter().filter(|&count| count * 2 <= tree.files) {
            change(&mounted.fast()?.join("tree"), &mut changed, count)?;
            for kind in [Kind::Plain, Kind::Cache, Kind::Monitor] {
                if kind == Kind::Monitor && disk != Disk::Local {
                    continue;
                }
                let at = mounted.fast()?.join("tree");
                must(Path::new("git"), &["update-index", kind.option()], &at)?;
                let _monitor = (kind == Kind::Monitor).then(|| Monitor::start(&at)).transpose()?;
                // Two runs are needed: the untracked cache does not trust directories as recent as
                // the index, and it records the path of the worktree.
                for _ in 0..2 {
                    thread::sleep(Duration::from_millis(1100));
                    self.measured(&mut mounted, |tools, at| tools.filling(kind, at))?;
                }
                for untracked in [Untracked::Normal, Untracked::No, Untracked::All] {
                    let asked = self.args.untracked.is_empty() || self.args.untracked.contains(&untracked);
                    // Both caches are valid only for the mode `normal` of untracked files.
                    if asked && (kind == Kind::Plain || untracked == Untracked::Normal) {
                        self.case(tree, disk, &mut mounted, (kind, untracked, count))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn case(
        &mut self,
        tree: &Tree,
        disk: Disk,
        mounted: &mut MountedDisk,
        (kind, untracked, count): (Kind, Untracked, usize),
    ) -> Result<(), Error> {
        let case = format!("{}-{count}", untracked.option().trim_start_matches('-'));
        let tools = self.tools.of(kind, untracked);
        let runs = if disk == Disk::Local { self.args.runs * MORE_RUNS } else { self.args.runs };
        for run in budget::rounds(runs) {
            let in_turn: Vec<Tool> = match run % 2 {
                0 => tools.clone(),
                _ => tools.iter().rev().copied().collect(),
            };
            for tool in in_turn {
                let sample =
                    self.measured(mounted, |tools, at| tools.status(tool, untracked, &at.join("tree")))?;
                if run == 0 {
                    eprintln!("lab:   {} {case} {tool} {:.3} s {}", disk.name(), sample.wall, sample.served);
                }
                let key = Key {
                    tree: tree.name.clone(),
                    disk: disk.name(),
                    case: case.clone(),
                    tool: tool.to_string(),
                };
                self.table.add(key, sample, disk, tree.files);
            }
        }
        if disk == Disk::Local {
            let at = mounted.fast()?.join("tree");
            for tool in tools {
                let counts = counts::of(&self.tools.status(tool, untracked, &at))?;
                println!("{} {case} {tool}: {counts}", tree.name);
            }
        }
        Ok(())
    }

    fn measured(
        &self,
        mounted: &mut MountedDisk,
        invocation: impl FnOnce(&Tools, &Path) -> Invocation,
    ) -> Result<Sample, Error> {
        let mut ballast: Option<Ballast> = None;
        mounted.measured(|at| invocation(&self.tools, at), &mut ballast)
    }
}

/// A running daemon of Git's file system monitor. On drop it is stopped and its configuration
/// removed.
struct Monitor<'a>(&'a Path);

impl<'a> Monitor<'a> {
    fn start(at: &'a Path) -> Result<Self, Error> {
        let git = Path::new("git");
        must(git, &["config", "core.fsmonitor", "true"], at)?;
        // The daemon changes to HOME, which must exist.
        must(Path::new("env"), &["HOME=/", "git", "fsmonitor--daemon", "start"], at)?;
        Ok(Monitor(at))
    }
}

impl Drop for Monitor<'_> {
    fn drop(&mut self) {
        let git = Path::new("git");
        for args in [&["fsmonitor--daemon", "stop"][..], &["config", "--unset", "core.fsmonitor"]] {
            if let Err(error) = must(git, args, self.0) {
                eprintln!("lab: {error}");
            }
        }
    }
}

/// Creates `count` untracked files, spread evenly over the directories of the tree.
fn scatter(at: &Path, count: usize) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    let listing = must(Path::new("git"), &["ls-tree", "-rdz", "--name-only", "HEAD"], at)?;
    let text = String::from_utf8_lossy(&listing);
    let directories: Vec<&str> = text.split_terminator('\0').collect();
    for number in 0..count {
        let directory = directories[number * directories.len() / count];
        let path = at.join(directory).join(format!("loose-{number}"));
        fs::write(&path, "").map_err(|source| Error::Io { what: "cannot make", path, source })?;
    }
    Ok(())
}

/// Appends a line to files spread over the tree, until `count` files are changed. `changed`
/// contains the positions of changed files in the listing.
fn change(at: &Path, changed: &mut BTreeSet<usize>, count: usize) -> Result<(), Error> {
    let listing = must(Path::new("git"), &["ls-files", "-sz"], at)?;
    let text = String::from_utf8_lossy(&listing);
    let files: Vec<&str> = text
        .split('\0')
        .filter(|line| line.starts_with("100"))
        .filter_map(|line| line.split_once('\t').map(|(_, path)| path))
        .collect();
    let spread = (0..files.len()).step_by((files.len() / count.max(1)).max(1)).chain(0..files.len());
    for number in spread {
        if changed.len() >= count {
            break;
        }
        if changed.insert(number) {
            let path = at.join(files[number]);
            let failed = |source| Error::Io { what: "cannot change", path: path.clone(), source };
            let mut file = fs::OpenOptions::new().append(true).open(&path).map_err(failed)?;
            file.write_all(b"changed\n").map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Figure;

    #[test]
    fn cases_are_split_by_index() {
        let mut cases = Vec::new();
        for tool in ["git", "sapwood-cache", "sapwood", "git-cache", "sapwood-monitor"] {
            Case::add(&mut cases, ["linux", "local", "unormal-10"], Figure::of_samples(tool, &[]));
        }
        let split: Vec<(String, Vec<String>)> = cases
            .into_iter()
            .flat_map(by_index)
            .map(|case| (case.case, case.tools.into_iter().map(|figure| figure.tool).collect()))
            .collect();
        let of = |case: &str, tools: &[&str]| (case.into(), tools.iter().map(|&tool| tool.into()).collect());
        assert_eq!(
            split,
            [
                of("unormal-10", &["git", "sapwood"]),
                of("cache-10", &["sapwood", "git"]),
                of("monitor-10", &["sapwood"])
            ]
        );
    }
}
