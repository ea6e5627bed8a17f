//! `lab small`: 60 calls of an editor, a prompt and an agent in small repositories.
//!
//! sapwood is called as `git`, with the real Git behind it in PATH, so its figures include calls
//! that it hands over. Both programs make each call in turn, in one worktree whose state no call
//! changes. One run of each call counts system calls under strace, outside of the times.

mod calls;
mod instructions;

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::ExitCode,
};

use self::calls::CALLERS;
use crate::{
    Error, budget, corpus,
    measure::{self, Invocation, must},
    options::Options,
    programs::{self, Pair, Programs},
    record::{AtMost, Case, Figure, Kind, Machine, Sample, Tree},
    results::median,
    status::counts,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The numbers of files of the repositories.
    #[arg(long = "files", value_delimiter = ',', default_value = "10,300,3000")]
    files: Vec<usize>,
    /// Number of runs for each program and call.
    #[arg(long, default_value_t = 25)]
    runs: usize,
    /// Count no system calls.
    #[arg(long)]
    no_counts: bool,
    /// Count instructions with valgrind.
    #[arg(long)]
    instructions: bool,
    #[command(flatten)]
    programs: Pair,
    #[command(flatten)]
    options: Options,
}

const TOOLS: [&str; 2] = ["git", "sapwood"];
/// The case of the sum of all calls of a caller.
const ALL: &str = "all";
/// The highest accepted ratio to Git's time, over all calls of a caller.
const TARGET: f64 = 1.0;
/// The highest accepted ratio of page faults to Git's, over all calls of a caller. The count does
/// not depend on the load of the machine. A call that is handed over has the faults of both.
const MOST_FAULTS: f64 = 1.4;
/// The highest accepted ratio of system calls to Git's.
const MOST_CALLS: f64 = 1.2;

/// The highest accepted ratio of instructions to Git's, of a call that is not handed over. The
/// count is the same on any machine with the same C library. One call of `config` once had five
/// times Git's, which no time on a busy machine showed.
const MOST_INSTRUCTIONS: f64 = 2.0;

/// A worktree with the programs that are called in it.
struct Place {
    programs: [PathBuf; 2],
    /// The assignment of PATH for both programs.
    path: String,
    repo: PathBuf,
    /// Paths of an unchanged, a changed and a staged file.
    files: [String; 3],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let git = programs::located(&args.programs.git)?;
    let scratch = args.options.scratch(None)?.join("small");
    let _ = fs::remove_dir_all(&scratch);
    let scratch = corpus::absolute(&scratch)?;
    println!("{}; {versions:?}; {} runs, order alternating", Machine::here(), args.runs);
    let (mut cases, mut facts) = (Vec::new(), Vec::new());
    for &files in &args.files {
        let origin = corpus::made(files.max(MINIMUM), &scratch)?;
        let source = origin.packed()?;
        facts.push(Tree::of(&origin.name(), &source, "HEAD")?);
        let dir = scratch.join(format!("at-{files}"));
        let place = Place::make(&git, &sapwood, &source, &corpus::absolute(&dir)?)?;
        place.all(args, &origin.name(), &mut cases)?;
    }
    let _ = fs::remove_dir_all(&scratch);
    print(&cases);
    let missed = cases.iter().filter(|case| is_missed(case)).count();
    args.options.record.write(Kind::Small, &versions, facts, cases)?;
    Ok(args.options.code(missed))
}

/// The fewest files that all calls can work on.
const MINIMUM: usize = 10;

fn is_missed(case: &Case) -> bool {
    let is_slow = case.at_most.git.zip(case.ratio()).is_some_and(|(most, ratio)| ratio > most);
    is_slow || exceeds(case, instructions_of, MOST_INSTRUCTIONS) || case.case == ALL && exceeds_counts(case)
}

fn instructions_of(sample: &Sample) -> f64 {
    sample.instructions.map_or(f64::NAN, |count| count as f64)
}

/// Returns true if there are more page faults or system calls than accepted.
fn exceeds_counts(case: &Case) -> bool {
    exceeds(case, |sample| sample.faults as f64, MOST_FAULTS)
        || exceeds(case, |sample| sample.calls.map_or(f64::NAN, |calls| calls as f64), MOST_CALLS)
}

/// Returns true if sapwood's count is more than `most` times Git's. Without counts the ratio is no
/// number, and exceeds nothing.
fn exceeds(case: &Case, of: fn(&Sample) -> f64, most: f64) -> bool {
    let [git, ours] = TOOLS.map(|tool| {
        case.tool(tool).map_or(f64::NAN, |figure| median(figure.samples.iter().map(of).collect()))
    });
    ours / git > most
}

impl Place {
    /// Clones the repository, and changes one file, stages another and adds a third one. `git` is a
    /// path: its name alone would be the shim's in the PATH of the calls.
    fn make(git: &Path, sapwood: &Path, source: &Path, dir: &Path) -> Result<Place, Error> {
        let bin = corpus::absolute(&dir.join("bin"))?;
        let shim = bin.join("git");
        io_of("cannot link", &shim, symlink(sapwood, &shim))?;
        // The real Git is the next one in PATH.
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let real = git.parent().filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_owned);
        let dirs = std::iter::once(bin).chain(real).chain(std::env::split_paths(&inherited));
        let path = std::env::join_paths(dirs).map_err(|error| Error::Setup(error.to_string()))?;
        let repo = dir.join("repo");
        let [from, to] = [source, &repo].map(|path| path.display().to_string());
        must(git, &["clone", "-q", "--template=", &from, &to], dir)?;
        for (name, value) in [("gc.auto", "0"), ("user.name", "lab"), ("user.email", "lab@example.org")] {
            must(git, &["config", name, value], &repo)?;
        }
        let listed = must(git, &["ls-files", "-z"], &repo)?;
        let listed = String::from_utf8_lossy(&listed);
        let mut files = listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned);
        let files = [files.next(), files.next(), files.next()].map(Option::unwrap_or_default);
        for path in &files[1..] {
            let path = repo.join(path);
            io_of("cannot edit", &path, fs::write(&path, "edited\n"))?;
        }
        must(git, &["add", &files[2]], &repo)?;
        let info = corpus::absolute(&repo.join(".git/info"))?;
        io_of("cannot write", &info, fs::write(info.join("exclude"), "*.ignored\n"))?;
        let new = repo.join("untracked.txt");
        io_of("cannot write", &new, fs::write(&new, "new\n"))?;
        let path = format!("PATH={}", path.to_string_lossy());
        Ok(Place { programs: [git.to_owned(), shim], path, repo, files })
    }

    /// Makes all calls of all callers.
    fn all(&self, args: &Args, tree: &str, cases: &mut Vec<Case>) -> Result<(), Error> {
        for caller in &CALLERS {
            let mut sums: [Vec<Sample>; 2] = Default::default();
            for call in caller.calls {
                let samples = self.call(args, call)?;
                if samples.iter().any(Vec::is_empty) {
                    // The time is over. A sum of some of the calls would be no caller's.
                    return Ok(());
                }
                for ((tool, samples), sums) in TOOLS.iter().zip(&samples).zip(&mut sums) {
                    Case::add(cases, [tree, caller.name, call], Figure::of_samples(tool, samples));
                    add_up(sums, samples);
                }
            }
            for (tool, samples) in TOOLS.iter().zip(&sums) {
                Case::add(cases, [tree, caller.name, ALL], Figure::of_samples(tool, samples));
            }
            let sum = cases.last_mut().expect("added above");
            sum.at_most = AtMost { git: Some(TARGET), ..AtMost::default() };
        }
        Ok(())
    }

    /// Makes one call with both programs in turn.
    fn call(&self, args: &Args, call: &str) -> Result<[Vec<Sample>; 2], Error> {
        let mut samples: [Vec<Sample>; 2] = Default::default();
        for run in budget::rounds(args.runs) {
            for which in if run % 2 == 0 { [0, 1] } else { [1, 0] } {
                let invocation = self.invocation(which, call);
                // The first call finds cold caches, so it is made twice.
                if run == 0 {
                    measure::run(&invocation)?;
                }
                samples[which].push(measure::run(&invocation)?.into());
            }
        }
        if !args.no_counts && samples.iter().all(|samples| !samples.is_empty()) {
            for (which, samples) in samples.iter_mut().enumerate() {
                let all = counts::of(&self.invocation(which, call))?.all;
                samples.iter_mut().for_each(|sample| sample.calls = i64::try_from(all).ok());
            }
        }
        if args.instructions {
            for (which, samples) in samples.iter_mut().enumerate() {
                let count = instructions::of(&self.invocation(which, call))?;
                samples.iter_mut().for_each(|sample| sample.instructions = count);
            }
        }
        Ok(samples)
    }

    fn invocation(&self, which: usize, call: &str) -> Invocation {
        let [file, changed, staged] = &self.files;
        let words = calls::words(call, file, changed, staged);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut invocation = Invocation::new(&self.programs[which], &words, &self.repo);
        invocation.outside = vec!["env".into(), self.path.clone()];
        invocation
    }
}

/// Adds the samples of a call to the sums of all calls, run by run.
fn add_up(sums: &mut Vec<Sample>, samples: &[Sample]) {
    if sums.is_empty() {
        *sums = samples.iter().map(|sample| Sample { instructions: None, ..sample.clone() }).collect();
        return;
    }
    // A call with fewer runs, because the time was over, shortens the sums.
    sums.truncate(samples.len());
    for (sum, sample) in sums.iter_mut().zip(samples) {
        sum.wall += sample.wall;
        sum.user += sample.user;
        sum.sys += sample.sys;
        sum.faults += sample.faults;
        sum.written += sample.written;
        sum.calls = sum.calls.zip(sample.calls).map(|(all, more)| all + more);
        // Calls that are handed over have no count, so their sum would not compare.
        sum.instructions = None;
        sum.peak_rss = sum.peak_rss.max(sample.peak_rss);
        sum.peak_anonymous = sum.peak_anonymous.max(sample.peak_anonymous);
    }
}

fn io_of<T>(what: &'static str, path: &Path, result: io::Result<T>) -> Result<T, Error> {
    result.map_err(|source| Error::Io { what, path: path.to_owned(), source })
}

fn print(cases: &[Case]) {
    for case in cases {
        let of = |tool: &str, of: fn(&Sample) -> f64| {
            case.tool(tool).map_or(f64::NAN, |figure| median(figure.samples.iter().map(of).collect()))
        };
        let both = |figure: fn(&Sample) -> f64| TOOLS.map(|tool| of(tool, figure));
        let [git, ours] = both(|sample| sample.wall * 1000.0);
        let [git_faults, our_faults] = both(|sample| sample.faults as f64);
        let [git_calls, our_calls] = both(|sample| sample.calls.unwrap_or_default() as f64);
        let instructions = both(instructions_of);
        let instructions = match instructions.map(|count| count / 1000.0) {
            [git, ours] if git.is_finite() && ours.is_finite() => format!("{git:>6.0} {ours:>6.0} ki"),
            _ => String::new(),
        };
        println!(
            "{:<10} {:<7} {git:>8.2} {ours:>8.2} ms {:>5.2}  {git_faults:>6} {our_faults:>6} faults  \
             {git_calls:>6} {our_calls:>6} calls  {instructions:<16}  {}",
            case.tree,
            case.disk,
            ours / git,
            case.case
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_sixty_calls() {
        let calls: Vec<&str> = CALLERS.iter().flat_map(|caller| caller.calls).collect();
        let different: std::collections::BTreeSet<&&str> = calls.iter().collect();
        assert_eq!((calls.len(), different.len()), (60, 60));
    }

    #[test]
    fn a_program_keeps_its_path() {
        let shell = programs::located("sh".as_ref()).expect("a shell");
        assert!(shell.is_absolute() && shell.ends_with("sh"), "{shell:?}");
        assert!(programs::located("no-such-program".as_ref()).is_err());
        assert!(programs::located("/no/such/program".as_ref()).is_err());
    }

    #[test]
    fn counts_have_a_budget() {
        let of = |name: &'static str, samples: [Sample; 2]| {
            let mut cases = Vec::new();
            for (tool, sample) in TOOLS.iter().zip(samples) {
                Case::add(&mut cases, ["tree", "agent", name], Figure::of_samples(tool, &[sample]));
            }
            cases.remove(0)
        };
        let case = |faults: [i64; 2], calls: [i64; 2]| {
            let sample =
                |at: usize| Sample { faults: faults[at], calls: Some(calls[at]), ..Sample::wall_only(1.0) };
            of(ALL, [sample(0), sample(1)])
        };
        let instructions = |counts: [Option<i64>; 2]| {
            of("status", counts.map(|instructions| Sample { instructions, ..Sample::wall_only(1.0) }))
        };
        assert!(!is_missed(&instructions([Some(100), Some(200)])));
        assert!(is_missed(&instructions([Some(100), Some(201)])));
        assert!(!is_missed(&instructions([Some(100), None])), "handed over");
        assert!(!is_missed(&case([100, 140], [100, 120])));
        assert!(is_missed(&case([100, 141], [100, 100])));
        assert!(is_missed(&case([100, 100], [100, 121])));
    }

    #[test]
    fn sums_are_run_by_run() {
        let sample = |wall, calls| Sample { calls: Some(calls), ..Sample::wall_only(wall) };
        let mut sums = Vec::new();
        add_up(&mut sums, &[sample(1.0, 3), sample(2.0, 3)]);
        add_up(&mut sums, &[sample(0.5, 4)]);
        assert_eq!(sums.len(), 1, "a run that lacks a call is no sum");
        assert_eq!((sums[0].wall, sums[0].calls), (1.5, Some(7)));
    }
}
