//! `lab add`: compares `add`, `commit -a` and `stash` with Git, on local disks and on disks whose
//! flushes take time.
//!
//! Both tools run on one repository in turn, and their order is reversed from run to run. Before
//! each run the repository is restored to its initial state, and the files get content that is in
//! no object yet.

mod place;
mod script;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::{
    place::{Place, TestDisk},
    script::{Script, Work},
};
use crate::{
    Error,
    ballast::Ballast,
    budget,
    measure::Invocation,
    options::Options,
    programs::{Pair, Programs},
    record::{AtMost, Case, Figure, Kind, Machine, Sample},
    results::median,
    weather::trees::{self, Tree},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A repository or bundle to measure on, or `linux`, the tree from Debian's source packages.
    #[arg(long, default_value = "linux")]
    tree: PathBuf,
    /// Only these disks.
    #[arg(long = "on", value_enum)]
    places: Vec<Place>,
    /// Only cases whose names begin with these prefixes.
    #[arg(long = "case")]
    cases: Vec<String>,
    /// Number of runs for each tool and case.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    #[command(flatten)]
    options: Options,
}

/// A program with its settings.
#[derive(Clone, Copy)]
struct Tool {
    name: &'static str,
    settings: &'static [&'static str],
}

/// A case: the work and the tools that do it.
struct Plan {
    name: &'static str,
    work: Work,
    tools: [Tool; 2],
}

const fn tool(name: &'static str, settings: &'static [&'static str]) -> Tool {
    Tool { name, settings }
}

const PLAIN: [Tool; 2] = [tool("sapwood", &[]), tool("git", &[])];
const NO_FSYNC: Tool = tool("git", &["core.fsync=none"]);
const FSYNC: Tool = tool("git", &["core.fsync=all"]);
const BATCH: Tool = tool("git", &["core.fsync=all", "core.fsyncMethod=batch"]);

/// `add-all` must be last, because it replaces the Git directory of the tree.
const PLANS: [Plan; 10] = [
    Plan { name: "500-unsynced", work: Work::New(500), tools: [PLAIN[0], NO_FSYNC] },
    Plan { name: "500-batch", work: Work::New(500), tools: [PLAIN[0], BATCH] },
    Plan { name: "500-fsync", work: Work::New(500), tools: [tool("sapwood", &["core.fsync=all"]), FSYNC] },
    Plan { name: "add-1", work: Work::Changed(1), tools: PLAIN },
    Plan { name: "add-10", work: Work::Changed(10), tools: PLAIN },
    Plan { name: "add-5000", work: Work::Changed(5000), tools: PLAIN },
    Plan { name: "commit-10", work: Work::Commit(10), tools: PLAIN },
    Plan { name: "stash-10", work: Work::Stash(10), tools: PLAIN },
    Plan { name: "pop-10", work: Work::Pop(10), tools: PLAIN },
    Plan { name: "add-all", work: Work::All, tools: PLAIN },
];

struct Lab<'a> {
    args: &'a Args,
    programs: Programs,
    tree: Tree,
    cases: Vec<Case>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let tree = trees::named(&args.tree, &[])?;
    let programs = args.programs.find()?;
    println!("{}; {:?}; {} runs, order alternating", Machine::here(), programs.versions, args.runs);
    let mut lab = Lab { args, programs, tree, cases: Vec::new() };
    let places = if args.places.is_empty() { Place::ALL.to_vec() } else { args.places.clone() };
    for &place in &places {
        lab.on(place)?;
    }
    lab.print();
    let Lab { programs, tree, cases, .. } = lab;
    let is_missed =
        |case: &Case| case.at_most.git.zip(case.ratio()).is_some_and(|(at_most, ratio)| ratio > at_most);
    let missed = cases.iter().filter(|case| is_missed(case)).count();
    args.options.record.write(Kind::Add, &programs.versions, vec![tree.fact()], cases)?;
    Ok(args.options.code(missed))
}

impl Lab<'_> {
    fn on(&mut self, place: Place) -> Result<(), Error> {
        let memory = Path::new("/dev/shm/sapwood-add");
        let scratch = self.args.options.scratch(place.is_served().then_some(memory))?;
        let mut disk = TestDisk::fresh(place, &scratch)?;
        let asked = |plan: &&Plan| {
            self.args.cases.is_empty()
                || self.args.cases.iter().any(|case| plan.name.starts_with(case.as_str()))
        };
        let plans: Vec<&Plan> =
            PLANS.iter().filter(asked).filter(|plan| plan.fits(place, &self.tree)).collect();
        if plans.iter().any(|plan| plan.work.needs_tree()) {
            self.tree.full_at(&disk.fast()?.join("tree"))?;
        }
        for plan in plans {
            self.case(place, &mut disk, plan)?;
        }
        Ok(())
    }

    fn case(&mut self, place: Place, disk: &mut TestDisk, plan: &Plan) -> Result<(), Error> {
        let mut ballast: Option<Ballast> = None;
        let mut samples = [Vec::new(), Vec::new()];
        for run in budget::rounds(self.args.runs) {
            let order = if run % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let tool = plan.tools[which];
                let script = Script { work: plan.work, seed: format!("{} {run} {which}", plan.name) };
                script.prepare(&disk.fast()?)?;
                let program =
                    if tool.name == "git" { &self.args.programs.git } else { &self.programs.sapwood };
                let files = script::files(&disk.fast()?.join(plan.work.directory()));
                let mut sample = disk.measured(
                    |at| {
                        let mut words: Vec<&str> = tool.settings.iter().flat_map(|set| ["-c", set]).collect();
                        words.extend(plan.work.words());
                        Invocation::new(program, &words, &at.join(plan.work.directory()))
                    },
                    &mut ballast,
                )?;
                let more = script::files(&disk.fast()?.join(plan.work.directory())) - files;
                sample.served += &format!("; {more} files more");
                if run == 0 {
                    eprintln!(
                        "lab:   {} {} {} {:.3} s: {}",
                        place.name(),
                        plan.name,
                        tool.name,
                        sample.wall,
                        sample.served
                    );
                }
                samples[which].push(sample);
                script.clear(&disk.fast()?)?;
            }
        }
        for (tool, samples) in plan.tools.iter().zip(&samples) {
            let key = [self.tree.name.as_str(), place.name(), plan.name];
            Case::add(&mut self.cases, key, Figure::of_samples(tool.name, samples));
        }
        if let Some(case) = self.cases.last_mut() {
            case.at_most = plan.at_most(place);
        }
        Ok(())
    }

    fn print(&self) {
        let middle = |samples: &[Sample]| median(samples.iter().map(|sample| sample.wall).collect());
        for case in &self.cases {
            let tools = case.tools.iter().map(|figure| {
                let served = figure.samples.first().map_or("", |sample| sample.served.as_str());
                format!("{} {:.3} s ({served})", figure.tool, middle(&figure.samples))
            });
            let tools: Vec<String> = tools.collect();
            let ratio = case.ratio().map_or_else(String::new, |ratio| format!("{ratio:.3}"));
            println!("{:<8} {:<13} {ratio:>7}  {}", case.disk, case.case, tools.join(", "));
        }
    }
}

impl Plan {
    /// Returns true if the case is measured on this disk. The whole tree is not added on a disk
    /// with latency, because each request waits, and a case must not change more than half of the
    /// files.
    fn fits(&self, place: Place, tree: &Tree) -> bool {
        match self.work {
            Work::All => !place.is_served(),
            Work::Changed(count) => count * 2 <= tree.files,
            _ => true,
        }
    }

    /// Returns the project's targets.
    fn at_most(&self, place: Place) -> AtMost {
        let git = match self.name {
            "500-unsynced" if !place.is_served() => Some(1.5),
            "500-batch" if place == Place::Flush5 => Some(0.3),
            "500-batch" => Some(0.7),
            "add-all" => Some(0.2),
            "commit-10" => Some(0.5),
            "stash-10" | "pop-10" => Some(0.4),
            _ => None,
        };
        AtMost { git, ..AtMost::default() }
    }
}
