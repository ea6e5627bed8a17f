//! `lab scale`: time, memory and bytes written of everyday work, against the number of files.
//!
//! Both tools work in one worktree of each size in turn. Steps that change it move on and never
//! go back: a reset of millions of files would take longer than the step. A step that a tool cannot
//! do here is named and left out. The record holds one tree for each size; `lab report` computes
//! the exponents.

mod steps;
mod tree;

use std::{fs, path::Path, process::ExitCode};

use self::steps::Place;
use crate::{
    Error, budget, corpus,
    measure::must,
    options::Options,
    programs::{Pair, Programs},
    record::{Case, Figure, Kind, Machine, Sample, Tree},
    results::median,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The numbers of files.
    #[arg(long = "files", value_delimiter = ',', default_value = "100000,500000,1000000,3500000")]
    files: Vec<usize>,
    /// Number of runs for each tool and step. Steps of several minutes are run once.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    /// The scratch directory should be on a disk, because memory file systems count no writes. A
    /// worktree of 3.5 million files takes 16 GB.
    #[command(flatten)]
    options: Options,
}

/// The tools in the order of the first run.
pub(crate) const TOOLS: [&str; 2] = ["git", "sapwood"];

/// The samples of all steps of one size, by step and tool, in the order of measurement.
type Taken = Vec<(&'static str, [Vec<Sample>; 2])>;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let scratch = args.options.scratch(None)?.join("scale");
    println!("{}; {versions:?}; {} runs, order alternating", Machine::here(), args.runs);
    let (mut cases, mut facts) = (Vec::new(), Vec::new());
    for &files in &args.files {
        let generated = tree::generate(files, &corpus::absolute(&corpus::directory().join("scale"))?)?;
        facts.push(Tree::of(&generated.name, &generated.repo, "main")?);
        let _ = fs::remove_dir_all(&scratch);
        let place = Place::new(&generated, [&args.programs.git, &sapwood], &corpus::absolute(&scratch)?)?;
        let mut taken = Taken::new();
        for step in steps::STEPS {
            if let Err(error) = measured(step, &place, args.runs, &mut taken) {
                eprintln!("lab: {files} files: {}: {error}", step.name);
            }
        }
        place.finish();
        drop(place);
        remove(&scratch)?;
        for (name, samples) in taken {
            for (tool, samples) in TOOLS.into_iter().zip(samples) {
                if !samples.is_empty() {
                    let figure = Figure::of_samples(tool, &samples);
                    Case::add(&mut cases, [&generated.name, "local", name], figure);
                }
            }
        }
    }
    print(&cases);
    args.options.record.write(Kind::Scale, &versions, facts, cases)?;
    Ok(ExitCode::SUCCESS)
}

/// Measures one step with both tools. Samples from before a failure stay.
fn measured(step: steps::Step, place: &Place<'_>, runs: usize, taken: &mut Taken) -> Result<(), Error> {
    taken.extend(step.cases.iter().map(|&case| (case, <[Vec<Sample>; 2]>::default())));
    let mut failure = Ok(());
    let mut is_there = [true; 2];
    for run in budget::rounds(runs) {
        let order = if run % 2 == 0 { [0, 1] } else { [1, 0] };
        for tool in order {
            if !is_there[tool] || (step.once && TOOLS[tool] == "git" && run > 0) {
                continue;
            }
            match (step.take)(place, tool, run) {
                Ok(samples) => {
                    for (case, sample) in step.cases.iter().zip(samples) {
                        eprintln!("lab:   {case} {} {:.3} s", TOOLS[tool], sample.wall);
                        let of = taken.iter_mut().find(|(name, _)| name == case);
                        of.expect("added above").1[tool].push(sample);
                    }
                }
                Err(error) => {
                    is_there[tool] = false;
                    failure = Err(error);
                }
            }
        }
    }
    failure
}

fn remove(scratch: &Path) -> Result<(), Error> {
    must(Path::new("rm"), &["-rf", &scratch.display().to_string()], Path::new("/")).map(drop)
}

fn print(cases: &[Case]) {
    for case in cases {
        for figure in &case.tools {
            let of = |of: fn(&Sample) -> f64| median(figure.samples.iter().map(of).collect());
            println!(
                "{:<14} {:<18} {:<8} {:>9.3} s {:>8.1} MB {:>10.1} MB written",
                case.tree,
                case.case,
                figure.tool,
                of(|sample| sample.wall),
                of(|sample| sample.peak_rss as f64 / 1024.0),
                of(|sample| sample.written as f64 / 1e6),
            );
        }
    }
}
