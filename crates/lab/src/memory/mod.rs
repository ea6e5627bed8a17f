//! `lab memory`: the peak memory of every native command that can run in a repository, beside Git.
//!
//! Each tool has a clone of its own, so a call finds the same state with both. The calls run in one
//! order in both. A call that fails with Git cannot run in this repository and is left out. A call
//! that fails only with sapwood is an error.

mod calls;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::calls::{CALLS, Call, LEFT_OUT};
use crate::{
    Error, budget,
    corpus::{self, RepositoryOptions},
    measure::{self, Invocation, must},
    options::Options,
    programs::{Pair, Programs},
    record::{Case, Figure, Kind, Machine, Sample, Tree},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: RepositoryOptions,
    /// Number of runs of all calls. Each run gets fresh clones.
    #[arg(long, default_value_t = 1)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    #[command(flatten)]
    options: Options,
}

const TOOLS: [&str; 2] = ["git", "sapwood"];
/// The disk of the scratch directory.
const DISK: &str = "local";

/// The clone of one tool.
struct Side<'a> {
    program: &'a Path,
    repo: PathBuf,
    /// The assignments of the variables of calls.
    variables: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let origin = args.repository.origin()?;
    let source = origin.packed()?;
    let tree = Tree::of(&origin.name(), &source, "HEAD")?;
    let scratch = args.options.scratch(None)?.join("memory");
    println!("{}; {versions:?}; {} files", Machine::here(), tree.files);
    for command in uncovered(&testkit::shim::served(&sapwood)) {
        println!("no call is known of `{command}`");
    }
    let mut samples: Vec<[Vec<Sample>; 2]> = CALLS.iter().map(|_| Default::default()).collect();
    let mut failures = Vec::new();
    for _ in budget::rounds(args.runs) {
        let _ = fs::remove_dir_all(&scratch);
        let sides = [&args.programs.git, &sapwood];
        let sides = [0, 1]
            .map(|tool| Side::make(&args.programs.git, sides[tool], &source, &scratch.join(TOOLS[tool])));
        let [git, sapwood] = sides;
        pass([&git?, &sapwood?], &mut samples, &mut failures);
    }
    let _ = fs::remove_dir_all(&scratch);
    let mut cases = Vec::new();
    for (call, samples) in CALLS.iter().zip(&samples) {
        if samples.iter().all(|samples| !samples.is_empty()) {
            for (tool, samples) in TOOLS.iter().zip(samples) {
                Case::add(&mut cases, [&tree.name, DISK, call.command], Figure::of_samples(tool, samples));
            }
        }
    }
    print(&cases);
    failures.iter().for_each(|failure| println!("{failure}"));
    args.options.record.write(Kind::Memory, &versions, vec![tree], cases)?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the commands that have neither a call nor a reason for its lack.
fn uncovered(served: &BTreeSet<String>) -> Vec<&String> {
    let is_covered = |name: &str| {
        let called = CALLS.iter().map(|call| call.command);
        let mut known = called.chain(LEFT_OUT.iter().map(|(command, _)| *command));
        known.any(|command| command == name || command.split(' ').next() == Some(name))
    };
    served.iter().filter(|name| !is_covered(name)).collect()
}

/// Runs all calls in both clones.
fn pass(sides: [&Side<'_>; 2], samples: &mut [[Vec<Sample>; 2]], failures: &mut Vec<String>) {
    for (call, samples) in CALLS.iter().zip(samples) {
        if budget::rounds(1).next().is_none() {
            return;
        }
        let [git, ours] = sides.map(|side| side.run(call));
        match (git, ours) {
            (Ok(git), Ok(ours)) => {
                samples[0].push(git);
                samples[1].push(ours);
            }
            (Err(error), _) => println!("`{}` cannot run here: {error}", call.command),
            (Ok(_), Err(error)) => failures.push(format!("`{}`: {error}", call.command)),
        }
    }
}

impl<'a> Side<'a> {
    fn make(git: &Path, program: &'a Path, source: &Path, dir: &Path) -> Result<Side<'a>, Error> {
        let new = corpus::absolute(&dir.join("new"))?;
        let repo = dir.join("repo");
        let [from, to] = [source, &repo].map(|path| path.display().to_string());
        must(git, &["clone", "-q", "--template=", &from, &to], dir)?;
        for (name, value) in
            [("gc.auto", "0"), ("maintenance.auto", "false"), ("advice.detachedHead", "false")]
        {
            must(git, &["config", name, value], &repo)?;
        }
        let listed = must(git, &["ls-files", "-z"], &repo)?;
        let listed = String::from_utf8_lossy(&listed);
        let file = listed.split('\0').find(|path| path.contains('/')).or_else(|| listed.split('\0').next());
        let file = file.unwrap_or_default();
        let packs = repo.join(".git/objects/pack");
        let pack = fs::read_dir(&packs).into_iter().flatten().flatten().map(|entry| entry.path());
        let pack = pack.filter(|path| path.extension().is_some_and(|ending| ending == "pack")).min();
        let mut variables = String::new();
        for (name, value) in [
            ("GIT", git.display().to_string()),
            ("SOURCE", from),
            ("NEW", new.display().to_string()),
            ("FILE", file.to_owned()),
            ("DIR", file.split('/').next().unwrap_or_default().to_owned()),
            ("PACK", pack.unwrap_or_default().display().to_string()),
        ] {
            variables += &format!("{name}='{}'\n", value.replace('\'', r"'\''"));
        }
        Ok(Side { program, repo, variables })
    }

    /// Prepares and measures a call. The shell becomes the program, so only that is measured.
    fn run(&self, call: &Call) -> Result<Sample, Error> {
        let shell = |script: &str| format!("{}{script}", self.variables);
        let before = shell(call.before);
        must(Path::new("sh"), &["-ec", &before], &self.repo)?;
        let script = shell(&format!("exec '{}' {}", self.program.display(), call.call));
        let mut invocation = Invocation::new(Path::new("sh"), &["-ec", &script], &self.repo);
        invocation.own_memory = true;
        measure::run(&invocation).map(Sample::from)
    }
}

fn print(cases: &[Case]) {
    println!("{:<28} {:>10} {:>10}", "command", "git MB", "sapwood MB");
    for case in cases {
        let peak = |tool| {
            let range = case.tool(tool).and_then(Figure::peak_rss);
            range.map_or(0.0, |(_, most)| most as f64 / 1024.0)
        };
        println!("{:<28} {:>10.1} {:>10.1}", case.case, peak("git"), peak("sapwood"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_a_call_is_named() {
        let served = ["status", "stash", "frobnicate"].map(str::to_owned).into();
        assert_eq!(uncovered(&served), ["frobnicate"]);
        let mut names: Vec<&str> = CALLS.iter().map(|call| call.command).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "a command has two calls");
    }
}
