//! `lab life`: the steps of a day in a workspace, beside the steps of a day in a plain worktree.
//!
//! All contenders of a file system live at once, each on a fresh volume. They take each step in
//! turn, and the order is reversed from run to run. After each step that changes files, Git without
//! a monitor examines all worktrees: the answers must be equal.

use std::{path::PathBuf, process::ExitCode};

use super::{
    contender::{Backend, Contender, Place},
    space,
    tree::{NEW, OLD, Tree},
};
use crate::{
    Error, budget, corpus,
    measure::{self, Invocation, must},
    options::Options,
    programs::{Pair, Programs},
    record::{AtMost, Case, Kind, Machine, Sample},
    results::Results,
    rig::{FileSystem, warm},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these backends; by default `image`, `overlay-user` and `btrfs`.
    #[arg(long = "backend", value_enum)]
    backends: Vec<Backend>,
    #[command(flatten)]
    repository: corpus::RepositoryOptions,
    /// Number of runs.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    #[command(flatten)]
    options: Options,
}

/// The name of the worktree that the day is spent in.
const DAY: &str = "day";
/// The case of the sum of all steps but the first worktree.
const ALL: &str = "all";
/// The case of the first worktree, with its first status.
const FIRST: &str = "first";
const APPENDED: usize = 2000;
const REPLACED: usize = 2000;
const RESTORED: usize = 500;
const STASHED: usize = 200;

/// A step of the day.
struct Step {
    /// The name of the case in records.
    case: &'static str,
    work: Work,
}

enum Work {
    /// Creates the first worktree of the repository, its base included, and asks for its status.
    First,
    Create,
    /// A command of Git's in the worktree. In a workspace, sapwood runs it.
    Command(&'static [&'static str]),
    /// A command that always Git runs. It finds nothing, and exits with code 1.
    Git(&'static [&'static str]),
    /// An act of this program on a list of files.
    Act {
        act: &'static str,
        list: List,
        from: usize,
        count: usize,
    },
    /// Edits files outside of the measurement, and runs these commands one after the other.
    AfterEdits {
        count: usize,
        commands: &'static [&'static [&'static str]],
    },
    /// A program that is neither Git's nor sapwood's.
    Program(&'static [&'static str]),
    /// `git switch` in a worktree, `workspace rebase` of a workspace.
    Rebase,
    Remove,
}

#[derive(Clone, Copy)]
enum List {
    Tracked,
    Products,
}

const STATUS: Work = Work::Command(&["status", "--porcelain"]);

const fn act(act: &'static str, list: List, from: usize, count: usize) -> Work {
    Work::Act { act, list, from, count }
}

const STEPS: [Step; 22] = [
    Step { case: FIRST, work: Work::First },
    Step { case: "create", work: Work::Create },
    Step { case: "status-0", work: STATUS },
    Step { case: "append-20", work: act("edit", List::Tracked, 0, 20) },
    Step { case: "append-2000", work: act("edit", List::Tracked, 20, APPENDED) },
    Step { case: "replace-2000", work: act("replace", List::Tracked, 20 + APPENDED, REPLACED) },
    Step { case: "status-4000", work: STATUS },
    Step { case: "commit", work: Work::Command(&["commit", "-q", "-a", "-m", "edits"]) },
    Step { case: "build", work: act("build", List::Products, 0, super::PRODUCTS) },
    Step { case: "status-built-first", work: STATUS },
    Step { case: "status-built", work: STATUS },
    Step { case: "git-grep", work: Work::Git(&["grep", "-qF", "lab finds this nowhere"]) },
    Step { case: "lstat", work: act("stat", List::Tracked, 0, usize::MAX) },
    Step { case: "find", work: Work::Program(&["find", ".", "-name", "lab finds this nowhere"]) },
    Step { case: "read-20000", work: act("read", List::Tracked, 0, 20_000) },
    Step { case: "restore-500", work: Work::AfterEdits { count: RESTORED, commands: &[&["restore", "."]] } },
    Step {
        case: "stash-200",
        work: Work::AfterEdits { count: STASHED, commands: &[&["stash", "-q"], &["stash", "pop", "-q"]] },
    },
    Step { case: "reset", work: Work::Command(&["reset", "-q", "--hard"]) },
    Step { case: "clean", work: Work::Program(&["find", ".", "-name", "product-*.o", "-delete"]) },
    Step { case: "rebase-old", work: Work::Rebase },
    Step { case: "switch-new", work: Work::Command(&["switch", "-q", "--detach", NEW]) },
    Step { case: "remove", work: Work::Remove },
];

/// A contender, its volume, and the time that its day took.
struct Side<'a> {
    place: Place<'a>,
    seconds: f64,
}

/// One run of all contenders on one file system.
struct Day<'a> {
    file_system: FileSystem,
    sides: Vec<Side<'a>>,
    tree: &'a Tree,
    /// The path of this program.
    me: PathBuf,
    results: &'a mut Results,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let tree = Tree::of(&args.repository)?;
    warm(&tree.packed)?;
    let scratch = args.options.scratch(None)?;
    let backends = match args.backends.as_slice() {
        [] => vec![Backend::Image, Backend::OverlayUser, Backend::Btrfs],
        some => some.to_vec(),
    };
    let me = std::env::current_exe().map_err(|error| Error::Setup(error.to_string()))?;
    println!("{}; {versions:?}; {} runs, order alternating", Machine::here(), args.runs);
    let mut results = Results::default();
    for run in budget::rounds(args.runs) {
        for file_system in FileSystem::ALL {
            let ours: Vec<Contender> = backends
                .iter()
                .map(|&backend| Contender::Sapwood(backend))
                .filter(|contender| contender.file_system() == file_system)
                .collect();
            if ours.is_empty() {
                continue;
            }
            eprintln!("lab: run {} of {} on {}", run + 1, args.runs, file_system.name());
            let mut day =
                Day { file_system, sides: Vec::new(), tree: &tree, me: me.clone(), results: &mut results };
            for contender in [Contender::Git(2)].into_iter().chain(ours) {
                let own = scratch.join(contender.tool());
                let place = Place::on(file_system, contender, &tree, (&args.programs.git, &sapwood), &own)?;
                day.sides.push(Side { place, seconds: 0.0 });
            }
            if run % 2 == 1 {
                day.sides.reverse();
            }
            day.spend()?;
        }
    }
    results.print();
    let mut cases = results.cases(&tree.fact.name);
    for case in &mut cases {
        case.at_most = at_most(&case.case);
    }
    args.options.record.write(Kind::Life, &versions, vec![tree.fact], cases.clone())?;
    Ok(args.options.code(missed(&cases)))
}

impl Day<'_> {
    fn spend(&mut self) -> Result<(), Error> {
        for step in &STEPS {
            for number in 0..self.sides.len() {
                let sample = self.take(number, &step.work)?;
                if step.case != FIRST {
                    self.sides[number].seconds += sample.wall;
                }
                self.add(number, step.case, sample);
            }
            if !matches!(step.work, Work::Remove | Work::First) {
                self.compare(step.case)?;
            }
        }
        for number in 0..self.sides.len() {
            let sample = Sample::wall_only(self.sides[number].seconds);
            self.add(number, ALL, sample);
        }
        Ok(())
    }

    fn add(&mut self, number: usize, case: &str, sample: Sample) {
        let tool = self.sides[number].place.contender.tool();
        eprintln!(
            "lab:   {tool} {case} {:.4} s, CPU {:.4} s, disk {:?}",
            sample.wall,
            sample.user + sample.sys,
            sample.disk
        );
        self.results.add(case, self.file_system.name(), &tool, sample);
    }

    /// Does one step on one side. Returns the sum of its commands.
    fn take(&self, number: usize, work: &Work) -> Result<Sample, Error> {
        let place = &self.sides[number].place;
        if let Work::AfterEdits { count, .. } = work {
            self.output(number, self.act("edit", List::Tracked, 0, *count))?;
        }
        // A step must not wait for the bytes of the step before it.
        let before = space::used(place.volume.path())?;
        let mut sum = Sample::default();
        for invocation in self.invocations(number, work) {
            let sample = Sample::from(measure::run(&invocation)?);
            sum.wall += sample.wall;
            sum.user += sample.user;
            sum.sys += sample.sys;
            sum.peak_rss = sum.peak_rss.max(sample.peak_rss);
        }
        sum.disk = Some(space::used(place.volume.path())? - before);
        Ok(sum)
    }

    fn invocations(&self, number: usize, work: &Work) -> Vec<Invocation> {
        let place = &self.sides[number].place;
        let inside = |invocation| place.inside(DAY, invocation);
        let command = |args: &[&str]| match place.contender {
            Contender::Git(_) => place.git(args, &place.repo),
            _ => place.sapwood(args, &place.repo),
        };
        match work {
            Work::First => {
                let status = place.inside("first", command(&["status", "--porcelain"]));
                vec![place.create("first"), status]
            }
            Work::Create => vec![place.create(DAY)],
            Work::Command(args) => vec![inside(command(args))],
            Work::Git(args) => {
                vec![Invocation { accepted: &[1], ..inside(place.git(args, &place.repo)) }]
            }
            Work::Act { act, list, from, count } => vec![inside(self.act(act, *list, *from, *count))],
            Work::AfterEdits { commands, .. } => commands.iter().map(|args| inside(command(args))).collect(),
            Work::Program(words) => {
                vec![inside(Invocation::new(words[0].as_ref(), &words[1..], &place.repo))]
            }
            Work::Rebase => {
                let switch = || inside(place.git(&["switch", "-q", "--detach", OLD], &place.repo));
                vec![place.rebase(DAY, OLD).unwrap_or_else(switch)]
            }
            Work::Remove => vec![place.remove(DAY)],
        }
    }

    fn act(&self, act: &str, list: List, from: usize, count: usize) -> Invocation {
        let list = match list {
            List::Tracked => &self.tree.edits,
            List::Products => &self.tree.products,
        };
        let (list, from, count) = (list.display().to_string(), from.to_string(), count.to_string());
        Invocation::new(&self.me, &["act", act, &list, &from, &count], self.tree.packed.as_path())
    }

    fn output(&self, number: usize, invocation: Invocation) -> Result<String, Error> {
        let place = &self.sides[number].place;
        place.output(&place.inside(DAY, invocation))
    }

    /// Fails unless all sides have the same files. Git without a monitor examines each worktree,
    /// and sapwood's own answer in a workspace must be equal.
    fn compare(&self, case: &str) -> Result<(), Error> {
        const STATUS: [&str; 5] =
            ["--no-optional-locks", "status", "--porcelain", "--untracked-files=all", "--ignored=no"];
        let mut answers = Vec::new();
        for side in &self.sides {
            let without_monitor = [&["-c", "core.fsmonitor=false"], &STATUS[..]].concat();
            answers.push((side.place.contender.tool(), side.place.check(DAY, &without_monitor)?));
            if matches!(side.place.contender, Contender::Sapwood(_)) {
                let ours = side.place.inside(DAY, side.place.sapwood(&STATUS, &side.place.repo));
                answers.push((side.place.contender.tool(), side.place.output(&ours)?));
            }
        }
        let of_git = answers.iter().find(|(tool, _)| tool.starts_with("git")).expect("git always runs");
        match answers.iter().find(|(_, answer)| *answer != of_git.1) {
            None => Ok(()),
            Some((tool, answer)) => {
                let lines = |text: &str| text.lines().count();
                Err(Error::Setup(format!(
                    "after {case}, {tool} has {} changes, but git has {}",
                    lines(answer),
                    lines(&of_git.1)
                )))
            }
        }
    }
}

impl Drop for Day<'_> {
    fn drop(&mut self) {
        for side in &self.sides {
            if matches!(side.place.contender, Contender::Git(_)) {
                continue;
            }
            // The first worktree is still mounted.
            let remove = side.place.remove("first");
            let args: Vec<&str> = remove.args.iter().map(String::as_str).collect();
            if let Err(error) = must(remove.program.as_ref(), &args, &remove.cwd) {
                eprintln!("lab: {error}");
            }
        }
    }
}

/// The time by which a step may exceed its ratio, in seconds. It is the time of a few mounts and
/// process starts, which no user notices.
const UNNOTICED: f64 = 0.02;

fn at_most(case: &str) -> AtMost {
    let git = |ratio| AtMost { git: Some(ratio), ..AtMost::default() };
    match case {
        FIRST => git(0.5),
        ALL => git(0.25),
        "append-2000" => AtMost { git: Some(6.0), seconds: Some(0.3), ..AtMost::default() },
        _ => git(1.2),
    }
}

/// Prints each target beside the measured figure. Returns the number of missed ones.
fn missed(cases: &[Case]) -> usize {
    let mut count = 0;
    for case in cases {
        let Some(git) = case.best_of_git().and_then(|figure| figure.wall()) else { continue };
        for figure in case.tools.iter().filter(|figure| !figure.tool.starts_with("git")) {
            let Some(wall) = figure.wall() else { continue };
            let ratio = case.at_most.git.unwrap_or(f64::INFINITY);
            let is_unnoticed = ratio > 1.0 && wall.median - git.median < UNNOTICED;
            let is_met = (is_unnoticed || wall.median <= git.median * ratio)
                && case.at_most.seconds.is_none_or(|seconds| wall.median <= seconds);
            count += usize::from(!is_met);
            println!(
                "{:<7} {}, {}, {}: {:.3} of git's {:.3} s (at most {ratio})",
                if is_met { "met" } else { "MISSED" },
                case.disk,
                case.case,
                figure.tool,
                wall.median / git.median,
                git.median,
            );
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Figure;

    #[test]
    fn a_step_may_exceed_its_ratio_by_a_time_that_nobody_notices() {
        let figure = |tool: &str, wall| Figure::of_samples(tool, &[Sample::wall_only(wall)]);
        let of = |case: &str, git, ours| {
            let mut cases = Vec::new();
            Case::add(&mut cases, ["linux", "ext4", case], figure("git-2", git));
            Case::add(&mut cases, ["linux", "ext4", case], figure("sapwood", ours));
            cases[0].at_most = at_most(case);
            missed(&cases)
        };
        assert_eq!(of("find", 0.01, 0.029), 0);
        assert_eq!(of("find", 0.1, 0.13), 1);
        assert_eq!(of("find", 1.0, 1.19), 0);
        assert_eq!(of("append-2000", 0.1, 0.29), 0);
        assert_eq!(of("append-2000", 0.1, 0.31), 1);
        assert_eq!(of(FIRST, 4.0, 2.1), 1);
    }
}
