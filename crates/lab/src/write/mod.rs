//! `lab write`: measures files that are written and read as a whole: the index, the
//! multi-pack-index, the commit-graph, and the index of a pack.
//!
//! All tools work on one repository in turn, and their order is reversed from run to run. The files
//! that a run wrote are deleted before the next run. A case that takes milliseconds is warmed up
//! first: the first runs of a process are slower, because the processor and the caches are cold.

mod fixture;
mod interval;
mod steps;

use std::{path::PathBuf, process::ExitCode};

use self::{
    fixture::{Fixture, Tree},
    interval::interval,
    steps::{Step, Tool},
};
use crate::{
    Error, budget, corpus,
    measure::{self, Invocation},
    programs::ProgramOptions,
    record::{self, AtMost, Case, Machine, RecordOptions, Sample},
    results::{Results, median},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these trees.
    #[arg(long = "tree", value_enum)]
    trees: Vec<Tree>,
    /// Only these steps.
    #[arg(long = "step", value_enum)]
    steps: Vec<Step>,
    /// Number of runs for each tool and step that takes at most a second; a quarter of it, but at
    /// least 5, for longer steps.
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Number of warm-up runs for steps that take milliseconds; one for others.
    #[arg(long, default_value_t = 50)]
    warmups: usize,
    /// Number of objects in the generated repository of 16 packs.
    #[arg(long, default_value_t = 800_000)]
    objects: usize,
    /// Compare with the targets; exit 1 if one is missed.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    programs: ProgramOptions,
    /// The directory for repositories; by default in the build directory.
    #[arg(long)]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    record_options: RecordOptions,
}

/// The only disk: the one of the scratch directory.
const DISK: &str = "local";
/// A step that takes less than this, in seconds, gets warm-up runs.
const SHORT: f64 = 0.1;
/// A step that takes more than this, in seconds, has fewer runs.
const LONG: f64 = 1.0;
/// The minimum number of runs.
const LEAST_RUNS: usize = 5;

/// The highest accepted ratio of sapwood's time to that of Git and of gix.
fn at_most(step: Step) -> AtMost {
    match step {
        Step::IndexPack | Step::IndexPackStdin => AtMost { git: Some(0.35), gix: Some(0.85), seconds: None },
        _ => AtMost { git: Some(0.8), ..AtMost::default() },
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let programs = args.programs.find()?;
    println!("{}; {:?}; order alternating", Machine::here(), programs.versions);
    let scratch = match &args.scratch {
        Some(scratch) => corpus::absolute(scratch)?,
        None => corpus::absolute(&corpus::directory().join("write"))?,
    };
    let trees = if args.trees.is_empty() { vec![Tree::Linux, Tree::Packs] } else { args.trees.clone() };
    let steps = if args.steps.is_empty() { Step::ALL.to_vec() } else { args.steps.clone() };
    let (mut cases, mut facts, mut is_missed) = (Vec::new(), Vec::new(), false);
    for tree in trees {
        let fixture = Fixture::make(tree, args.objects, &scratch)?;
        println!("{}: {} packs, {} objects", tree.name(), fixture.packs, fixture.objects);
        let mut results = Results::default();
        for &step in &steps {
            let tools = step.tools(&programs, &args.programs.pair.git);
            measured(args, &fixture, step, &tools, &mut results)?;
            is_missed |= report(step, &tools, &results);
        }
        let mut of_tree = results.cases(tree.name());
        of_tree.iter_mut().for_each(|case| {
            let step = Step::ALL.into_iter().find(|step| step.name() == case.case);
            case.at_most = step.map(at_most).unwrap_or_default();
        });
        cases.extend(of_tree);
        facts.push(record::Tree::of(tree.name(), &fixture.repo, "HEAD")?);
    }
    let cases: Vec<Case> = cases;
    args.record_options.write(record::Kind::Write, &programs.versions, facts, cases)?;
    Ok(ExitCode::from(u8::from(args.check && is_missed)))
}

fn measured(
    args: &Args,
    fixture: &Fixture,
    step: Step,
    tools: &[Tool],
    results: &mut Results,
) -> Result<(), Error> {
    let one = |tool: &Tool| -> Result<Sample, Error> {
        fixture.clean(step)?;
        let invocation: Invocation = step.invocation(tool, fixture);
        Ok(measure::run(&invocation)?.into())
    };
    fixture.prepare(step)?;
    // The first run of each tool also determines the duration of a run.
    let mut longest: f64 = 0.0;
    for tool in tools {
        longest = longest.max(one(tool)?.wall);
    }
    let warmups = if longest < SHORT { args.warmups } else { 0 };
    for _ in 0..warmups {
        tools.iter().try_for_each(|tool| one(tool).map(drop))?;
    }
    let runs = if longest > LONG { (args.runs / 4).max(LEAST_RUNS.min(args.runs)) } else { args.runs };
    for run in budget::rounds(runs) {
        let mut in_turn: Vec<&Tool> = tools.iter().collect();
        if run % 2 == 1 {
            in_turn.reverse();
        }
        for tool in in_turn {
            results.add(step.name(), DISK, &tool.name, one(tool)?);
        }
    }
    fixture.clean(step)
}

/// Prints the figures of a step. Returns true if a target is missed.
fn report(step: Step, tools: &[Tool], results: &Results) -> bool {
    let cases = results.cases("");
    let Some(case) = cases.iter().find(|case| case.case == step.name()) else { return false };
    for tool in tools {
        let Some(figure) = case.tool(&tool.name) else { continue };
        let mut walls: Vec<f64> = figure.samples.iter().map(|sample| sample.wall).collect();
        walls.sort_by(f64::total_cmp);
        let (low, high) = interval(&walls);
        println!(
            "  {:<18} {:<10} {:>3} runs, median {:>9.4} s, 95% interval {:.4} to {:.4}, spread {:.4} to {:.4}",
            step.name(),
            tool.name,
            walls.len(),
            median(walls.clone()),
            low,
            high,
            walls.first().copied().unwrap_or(f64::NAN),
            walls.last().copied().unwrap_or(f64::NAN),
        );
    }
    let wall =
        |figure: Option<&record::Figure>| figure.and_then(record::Figure::wall).map(|wall| wall.median);
    let ours = wall(case.tool("sapwood"));
    let mut is_missed = false;
    let AtMost { git, gix, .. } = at_most(step);
    for (name, theirs, most) in [("git", wall(case.best_of_git()), git), ("gix", wall(case.tool("gix")), gix)]
    {
        if let (Some(ours), Some(theirs), Some(most)) = (ours, theirs, most) {
            let ratio = ours / theirs;
            let verdict = if ratio <= most { "reached" } else { "missed" };
            println!("  {:<18} {ratio:.3} of {name} (at most {most}): {verdict}", step.name());
            is_missed |= ratio > most;
        }
    }
    is_missed
}
