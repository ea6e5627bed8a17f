//! The referee: Git's own test suite, with the real git and with sapwood's `git` in its place.
//!
//! Each script runs once with the real git and once for each number of checkout workers with the
//! shim, several scripts at once. A case fails if it passes with the real git and not with the
//! shim; there are no exceptions. Exit code 0: none failed; 1: some did; 2: the suite could not be
//! run.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod compare;
mod probes;
mod report;
mod script;
mod suite;
mod tap;

use std::{
    collections::BTreeMap,
    fs, io,
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use testkit::shim;

use crate::{
    compare::{Findings, Trial},
    probes::{PROBES, Replaced},
    report::Setting,
    script::{Bounds, Played, Side},
    suite::{CORE, Suite},
};

/// The reason why the suite could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot {what} {}: {source}", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is not Git's source, built with its test helpers (`.ci/oracle` makes it)", .tree.display())]
    NotBuilt { tree: PathBuf },
    #[error("no script is called {pattern}")]
    NoScript { pattern: String },
    #[error("{} is no Git that works", .git.display())]
    NoGit { git: PathBuf },
    #[error("{} has a colon in it and cannot be in PATH", .path.display())]
    Colon { path: PathBuf },
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    fn io(what: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { what, path: path.to_owned(), source }
    }
}

/// Git's own test suite, with the real git and with sapwood's `git` in its place.
#[derive(Parser)]
struct Args {
    /// Scripts by name or its beginning (t2006, t20*); the core slice where none is given
    scripts: Vec<String>,
    /// The whole suite
    #[arg(long, conflicts_with = "scripts")]
    all: bool,
    /// Git's source, built
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracle/source"))]
    source: PathBuf,
    /// The real git, of that source
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracle/bin/git"))]
    git: PathBuf,
    /// The program to put in its place [default: sapwood, beside this one]
    #[arg(long)]
    shim: Option<PathBuf>,
    /// The numbers of checkout workers to force, one run for each
    #[arg(long, value_delimiter = ',', default_value = "1")]
    workers: Vec<u32>,
    /// Scripts at once [default: one more than there are processors]
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Seconds after which a script is killed
    #[arg(long, default_value = "900")]
    timeout: u64,
    /// Where the scripts work, best in memory [default: /dev/shm]
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Write the report for people here
    #[arg(long)]
    report: Option<PathBuf>,
    /// Write the report for programs here
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/referee.json"))]
    json: PathBuf,
    /// Keep what each script said and did here, traced by its shell
    #[arg(long)]
    logs: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).expect("these signals can be caught");
    }
    match referee(&args, &stop) {
        Ok(findings) => {
            print!("{}", report::summary(&findings));
            if findings.sums().1 == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("referee: {error}");
            ExitCode::from(2)
        }
    }
}

fn referee(args: &Args, stop: &AtomicBool) -> Result<Findings, Error> {
    let began = Instant::now();
    let suite = Suite::open(&args.source)?;
    let (scripts, selection) = match (args.all, &args.scripts[..]) {
        (true, _) => (suite.scripts.clone(), "the whole suite".to_owned()),
        (false, []) => (suite.select(CORE.iter().copied())?, "the core slice".to_owned()),
        (false, named) => (suite.select(named.iter().map(String::as_str))?, named.join(" ")),
    };
    let absolute = |path: &Path| path.canonicalize().map_err(|source| Error::io("find", path, source));
    let git = absolute(&args.git)?;
    let no_git = |git: &Path| Error::NoGit { git: git.to_owned() };
    let git_version = shim::git_version(&git).ok_or_else(|| no_git(&git))?;
    // Read the version before the long run: the checkout may change in the meantime.
    let sapwood = shim::sapwood_version(&git);
    let stand_in = match &args.shim {
        Some(shim) => absolute(shim)?,
        None => {
            let own =
                std::env::current_exe().map_err(|source| Error::io("find", Path::new("myself"), source))?;
            absolute(&own.with_file_name("sapwood"))?
        }
    };
    let memory = Path::new("/dev/shm");
    let scratch = match &args.scratch {
        Some(scratch) => scratch.clone(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    };
    let scratch = tempfile::Builder::new()
        .prefix("referee.")
        .tempdir_in(&scratch)
        .map_err(|source| Error::io("create a directory in", &scratch, source))?;
    let bin = scratch.path().join("bin");
    shim::stand_in(&git, &stand_in, &bin).map_err(|(path, source)| Error::io("create", &path, source))?;
    shim::git_version(&bin.join("git")).ok_or_else(|| no_git(&bin))?;
    let replaced = Replaced::make(&suite, &scratch.path().join("tree"))?;

    let behind = git.parent().expect("a file is in a directory");
    let side = |name: String, bin: &Path, workers| Side {
        name,
        bin: bin.to_owned(),
        behind: behind.to_owned(),
        workers,
    };
    let real = side("git".to_owned(), behind, None);
    let shims: Vec<(u32, Side)> = args
        .workers
        .iter()
        .map(|&number| (number, side(format!("shim-{number}"), &bin, Some(number))))
        .collect();
    let mut tasks = Vec::new();
    for (script, name) in scripts.iter().enumerate() {
        tasks.push(Task { script, run: 0, side: &real, file: suite.file(name) });
        for (run, (_, side)) in shims.iter().enumerate() {
            tasks.push(Task { script, run: run + 1, side, file: replaced.file(&suite, name)? });
        }
    }
    // Long scripts start first, by the size of their text, so that none runs alone at the end. The
    // runs of one script are far apart, because some listen on a port that is derived from their
    // number.
    let size = |task: &Task<'_>| fs::metadata(&task.file).map_or(0, |meta| meta.len());
    tasks.sort_by_key(|task| (task.run, std::cmp::Reverse(size(task))));
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.map_or(processors + 1, NonZero::get);
    let logs = args.logs.as_deref().map(std::path::absolute).transpose();
    let logs = logs.map_err(|source| Error::io("find", Path::new("the logs"), source))?;
    let bounds = Bounds {
        timeout: Duration::from_secs(args.timeout),
        scratch: scratch.path(),
        logs: logs.as_deref(),
        stop,
    };
    let mut played = play(&tasks, &scripts, jobs, &bounds)?;

    let mut trials = Vec::new();
    for (script, name) in scripts.iter().enumerate() {
        let mut run = |run| played.remove(&(script, run)).expect("every task was played");
        let git = run(0);
        let shim = shims.iter().enumerate().map(|(place, (number, _))| (*number, run(place + 1))).collect();
        trials.push(Trial { script: name.clone(), git, shim });
    }
    let findings = Findings::of(&trials, &shim::served(&stand_in));
    let setting = Setting {
        date: shim::today(),
        git: git_version,
        sapwood,
        selection,
        processors,
        jobs,
        seconds: began.elapsed().as_secs(),
    };
    write(&args.json, &report::json(&setting, PROBES, &findings))?;
    if let Some(file) = &args.report {
        write(file, &report::markdown(&setting, PROBES, &findings))?;
    }
    Ok(findings)
}

/// One run of one script.
struct Task<'a> {
    /// Its index in the list of scripts.
    script: usize,
    /// 0 for the real git, then one number for each number of workers.
    run: usize,
    side: &'a Side,
    file: PathBuf,
}

/// Runs all tasks, several at once. Stops at the first task that cannot be run.
fn play(
    tasks: &[Task<'_>],
    scripts: &[String],
    jobs: usize,
    bounds: &Bounds<'_>,
) -> Result<BTreeMap<(usize, usize), Played>, Error> {
    let next = AtomicUsize::new(0);
    let alone: Vec<Mutex<()>> = scripts.iter().map(|_| Mutex::new(())).collect();
    let played = Mutex::new(Ok(BTreeMap::new()));
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(place) else { return };
            let name = &scripts[task.script];
            // The path must be short, because scripts create sockets below it.
            let dir = bounds.scratch.join(place.to_string());
            let _alone = alone[task.script].lock().expect("no thread panics with it");
            let result = script::run(&task.file, task.side, &dir, bounds);
            let mut played = played.lock().expect("no thread panics with it");
            match (&mut *played, result) {
                (Ok(all), Ok(one)) => {
                    if one.timed_out {
                        eprintln!("{name}: {}: killed after {} s", task.side.name, bounds.timeout.as_secs());
                    }
                    all.insert((task.script, task.run), one);
                }
                (all @ Ok(_), Err(error)) => *all = Err(error),
                (Err(_), _) => {}
            }
            if played.is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    played.into_inner().expect("no thread panics with it")
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(|source| Error::io("create", dir, source))?;
    }
    fs::write(file, text).map_err(|source| Error::io("write", file, source))
}
