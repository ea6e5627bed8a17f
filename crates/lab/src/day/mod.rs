//! `lab day`: replays a day of work in two copies of a repository, one with Git and one with the
//! shim. It compares outputs and final states, and times the commands that sapwood serves.
//!
//! Each run creates two fresh copies. It replays each act in both copies; the copy that goes first
//! alternates from act to act. Then all agents work concurrently, first in Git's copy, then in the
//! shim's. At the end the states of both copies are compared. Any difference is printed and makes
//! the exit code 1.

mod script;
mod side;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::{
    script::{Act, WorkingSet},
    side::{Call, Root, Side, State},
};
use crate::{
    Error, budget, corpus,
    measure::must,
    programs::{Pair, Programs},
    record::{AtMost, Case, Figure, Kind, Machine, RecordOptions, Sample, Tree},
    results::median,
    rig::FileSystem,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: corpus::RepositoryOptions,
    /// Generate a repository with this many files instead.
    #[arg(long, conflicts_with = "repo")]
    made: Option<usize>,
    /// Number of Git calls by user, editors and job.
    #[arg(long, default_value_t = 500)]
    commands: usize,
    /// Number of concurrent agents.
    #[arg(long, default_value_t = 8)]
    agents: usize,
    /// Number of worktrees that each agent creates.
    #[arg(long, default_value_t = 2)]
    worktrees: usize,
    /// Give each side a new file system of this kind, which needs root. Without it both sides are
    /// below the scratch directory, where files that one side removes slow down the other.
    #[arg(long, value_enum)]
    on: Option<FileSystem>,
    /// Number of runs of the whole day.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    /// The directory for the two copies.
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Exit with 1 if the shim takes more than half of Git's time.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    record_options: RecordOptions,
}

/// The time of one command on both sides in one run, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Walls {
    calls: usize,
    git: f64,
    shim: f64,
}

type Table = BTreeMap<String, Walls>;

/// The highest accepted ratio of the shim's time to Git's, over all commands.
const TARGET: f64 = 0.5;

struct Document {
    repository: String,
    runs: Vec<Table>,
    native: BTreeMap<String, (usize, usize)>,
    differences: usize,
    /// The commands that sapwood implements, whether run natively or handed over to Git.
    served: BTreeSet<String>,
}

/// Runs `lab day`.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let absolute = |path: &Path| {
        path.canonicalize().map_err(|source| Error::Io { what: "cannot find", path: path.into(), source })
    };
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let scratch = args.scratch.clone().unwrap_or_else(|| corpus::directory().join("day"));
    std::fs::create_dir_all(&scratch).map_err(|source| Error::Io {
        what: "cannot create",
        path: scratch.clone(),
        source,
    })?;
    let scratch = absolute(&scratch)?;
    let origin = match args.made {
        Some(files) => corpus::made(files, &scratch)?,
        None => args.repository.origin()?,
    };
    let source = origin.packed()?;
    let mut document = Document {
        repository: source.display().to_string(),
        runs: Vec::new(),
        native: BTreeMap::new(),
        differences: 0,
        served: testkit::shim::served(&sapwood),
    };
    for number in budget::rounds(args.runs.max(1)) {
        let make = |name, first| {
            let root = Root::make(name, &scratch, args.on)?;
            Side::make(name, root, &source, &args.programs.git, first)
        };
        let (git, shim) = (make("git", None)?, make("shim", Some(&*sapwood))?);
        let served = document.served.clone();
        let mut day = Day { sides: [git, shim], table: Table::new(), differences: 0, clock: number, served };
        day.pass(args)?;
        document.differences += day.differences;
        document.native = day.sides[1].native();
        eprintln!("lab: run {} of {}: {} differences", number + 1, args.runs.max(1), day.differences);
        document.runs.push(day.table);
    }
    let ratio = document.print();
    let tree = Tree::of(&origin.name(), &source, "HEAD")?;
    let cases = document.cases(&tree.name);
    args.record_options.write(Kind::Day, &versions, vec![tree], cases)?;
    let slow = args.check && ratio > TARGET;
    Ok(if document.differences > 0 || slow { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

struct Day {
    served: BTreeSet<String>,
    /// Git's side, then the shim's side.
    sides: [Side; 2],
    table: Table,
    differences: usize,
    /// Seconds into the day, passed to Git as part of its dates.
    clock: usize,
}

impl Day {
    fn pass(&mut self, args: &Args) -> Result<(), Error> {
        let working_set = working_set(&args.programs.git, &self.sides[0])?;
        for act in script::day(&working_set, args.commands) {
            self.step(&act)?;
        }
        let [make, remove] = script::keeper();
        self.step(&make)?;
        self.agents(&working_set, args)?;
        self.step(&remove)?;
        let [git, shim] =
            [self.sides[0].state(&args.programs.git)?, self.sides[1].state(&args.programs.git)?];
        self.compare_states(&git, &shim);
        Ok(())
    }

    /// Replays one act on both sides.
    fn step(&mut self, act: &Act) -> Result<(), Error> {
        self.clock += 1;
        let first = self.clock % 2;
        let mut calls = [None, None];
        for side in [first, 1 - first] {
            calls[side] = self.sides[side].act(act, self.clock)?;
        }
        if let [Some(git), Some(shim)] = calls {
            self.compare(&git, &shim);
        }
        Ok(())
    }

    /// Runs all agents concurrently on one side, then on the other. The order alternates between
    /// runs.
    fn agents(&mut self, working_set: &WorkingSet, args: &Args) -> Result<(), Error> {
        let scripts: Vec<Vec<Act>> =
            (0..args.agents).map(|agent| script::agent(working_set, agent, args.worktrees)).collect();
        let clock = self.clock;
        let mut done = [Vec::new(), Vec::new()];
        for at in [clock % 2, 1 - clock % 2] {
            let side = &self.sides[at];
            done[at] = std::thread::scope(|scope| {
                let agents: Vec<_> = scripts
                    .iter()
                    .enumerate()
                    .map(|(agent, acts)| {
                        let start = clock + 1000 * (agent + 1);
                        scope.spawn(move || {
                            let acts = acts.iter().enumerate();
                            acts.map(|(at, act)| side.act(act, start + at)).collect::<Result<Vec<_>, _>>()
                        })
                    })
                    .collect();
                agents
                    .into_iter()
                    .map(|agent| agent.join().expect("an agent does not panic"))
                    .collect::<Result<Vec<_>, _>>()
            })?;
        }
        let [git, shim] = done;
        for (git, shim) in git.into_iter().flatten().flatten().zip(shim.into_iter().flatten().flatten()) {
            self.compare(&git, &shim);
        }
        Ok(())
    }

    fn compare(&mut self, git: &Call, shim: &Call) {
        let same = (git.code, &git.stdout, &git.stderr) == (shim.code, &shim.stdout, &shim.stderr);
        if !same {
            self.differences += 1;
            println!("DIFFERENT: git {}", git.line.join(" "));
            for (side, call) in self.sides.iter().zip([git, shim]) {
                println!("  {}: {:?} {:?} {:?}", side.name, call.code, call.stdout, call.stderr);
            }
        }
        let command = command(&git.line);
        if self.served.contains(command) {
            let walls = self.table.entry(command.to_owned()).or_default();
            walls.calls += 1;
            walls.git += git.wall;
            walls.shim += shim.wall;
        }
    }

    fn compare_states(&mut self, git: &State, shim: &State) {
        let names: std::collections::BTreeSet<&String> = git.keys().chain(shim.keys()).collect();
        for name in names {
            if git.get(name) != shim.get(name) {
                self.differences += 1;
                let show = |state: &State| {
                    let text = state.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
                    text.map(|text| text.chars().take(600).collect::<String>())
                };
                println!("DIFFERENT in the end: {name}\n  git: {:?}\n  shim: {:?}", show(git), show(shim));
            }
        }
    }
}

/// Returns the name of the Git command in an argument list. Skips `-C` and `-c`, the only global
/// options with values in the script.
fn command(line: &[String]) -> &str {
    let mut words = line.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "-C" | "-c" => drop(words.next()),
            word => return word,
        }
    }
    ""
}

/// Lists files that exist on all branches, spread over the tree.
fn working_set(git: &Path, side: &Side) -> Result<WorkingSet, Error> {
    const FILES: usize = 997;
    let list = |revision: &str| -> Result<Vec<String>, Error> {
        let listing = must(git, &["ls-tree", "-rz", revision], &side.repo())?;
        let lines = listing.split(|&byte| byte == 0).filter(|line| line.starts_with(b"100644 "));
        let paths = lines.filter_map(|line| std::str::from_utf8(line).ok()?.split_once('\t'));
        Ok(paths.map(|(_, path)| path.to_owned()).collect())
    };
    let old: std::collections::HashSet<String> = list("old")?.into_iter().collect();
    let plain =
        |path: &String| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    let mut files = list("main")?;
    files.retain(|path| old.contains(path) && plain(path) && !path.contains(".git"));
    if files.len() < 16 {
        return Err(Error::Setup("a repository with more files is needed".into()));
    }
    let step = (files.len() / FILES).max(1);
    Ok(WorkingSet { files: files.into_iter().step_by(step).collect() })
}

impl Document {
    /// Returns the cases of a record: all commands together, then each command.
    fn cases(&self, tree: &str) -> Vec<Case> {
        let case = |name: &str, walls: &[Walls], native: usize, at_most: AtMost| {
            let figure = |tool, of: fn(&Walls) -> f64| {
                let samples: Vec<Sample> = walls.iter().map(|walls| Sample::wall_only(of(walls))).collect();
                Figure::of_samples(tool, &samples)
            };
            Case {
                tree: tree.to_owned(),
                disk: "local".into(),
                case: name.to_owned(),
                at_most,
                calls: walls.first().map(|walls| (walls.calls, native)),
                tools: vec![figure("git", |walls| walls.git), figure("sapwood", |walls| walls.shim)],
            }
        };
        let all = AtMost { git: Some(TARGET), ..AtMost::default() };
        let mut cases = vec![case("all", &self.totals(), self.all_native(), all)];
        for name in self.commands() {
            cases.push(case(name, &self.of(name), self.native_of(name), AtMost::default()));
        }
        cases
    }

    /// Returns the sum over all commands for each run.
    fn totals(&self) -> Vec<Walls> {
        let sum = |table: &Table| {
            table.values().fold(Walls::default(), |sum, walls| Walls {
                calls: sum.calls + walls.calls,
                git: sum.git + walls.git,
                shim: sum.shim + walls.shim,
            })
        };
        self.runs.iter().map(sum).collect()
    }

    fn commands(&self) -> BTreeSet<&str> {
        self.runs.iter().flat_map(Table::keys).map(String::as_str).collect()
    }

    fn of(&self, name: &str) -> Vec<Walls> {
        self.runs.iter().filter_map(|run| run.get(name).copied()).collect()
    }

    fn native_of(&self, name: &str) -> usize {
        self.native.get(name).map_or(0, |(_, native)| *native)
    }

    /// Returns the number of native calls of the commands that sapwood serves.
    fn all_native(&self) -> usize {
        self.native
            .iter()
            .filter(|(name, _)| self.served.contains(*name))
            .map(|(_, (_, native))| native)
            .sum()
    }

    /// Prints the table. Returns the ratio of the shim's time to Git's, as the median over the
    /// runs.
    fn print(&self) -> f64 {
        println!("{}\n{}", Machine::here(), self.repository);
        println!(
            "{:<16} {:>6} {:>7} {:>9} {:>9} {:>6}  least .. most of {} runs",
            "command",
            "calls",
            "native",
            "git s",
            "shim s",
            "ratio",
            self.runs.len()
        );
        for name in self.commands() {
            line(name, self.native_of(name), &self.of(name));
        }
        line("all of these", self.all_native(), &self.totals())
    }
}

fn line(name: &str, native: usize, walls: &[Walls]) -> f64 {
    let of = |figure: fn(&Walls) -> f64| median(walls.iter().map(figure).collect());
    let ratio = of(|walls| walls.shim / walls.git);
    let ratios = walls.iter().map(|walls| walls.shim / walls.git);
    let (least, most) = (ratios.clone().fold(f64::MAX, f64::min), ratios.fold(0.0, f64::max));
    let calls = walls.first().map_or(0, |walls| walls.calls);
    println!(
        "{name:<16} {calls:>6} {native:>7} {:>9.3} {:>9.3} {ratio:>6.2}  {least:.2} .. {most:.2}",
        of(|walls| walls.git),
        of(|walls| walls.shim),
    );
    ratio
}
