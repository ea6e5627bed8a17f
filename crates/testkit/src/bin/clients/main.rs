//! Runs the test suites of third-party Git clients with the real git and with sapwood's `git` in
//! its place.
//!
//! Each suite runs with git, with the shim, and with git again. A test with different results in
//! the two runs with git is flaky and set aside; any other test whose result with the shim differs
//! from that with git is a difference. Exit code 0: no difference; 1: some; 2: a suite could not be
//! run.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod compare;
mod install;
mod report;
mod results;
mod roster;
mod run;

use std::{
    collections::BTreeSet,
    collections::VecDeque,
    fs, io,
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use tempfile::TempDir;
use testkit::shim;

use crate::{
    compare::Trial,
    install::Place,
    report::Setting,
    results::Outcome,
    roster::{CLIENTS, Client, Suite},
    run::{Bounds, Side},
};

/// The reason why a suite could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot {what} {}: {source}", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("{client}: {command} failed:\n{said}")]
    Install { client: &'static str, command: String, said: String },
    #[error(
        "{client}: no registry has its suite: give a directory with --checkouts whose '{client}' is its tag {tag}"
    )]
    NoCheckout { client: &'static str, tag: &'static str },
    #[error("no client is called {name}")]
    NoClient { name: String },
    #[error("{} is no Git that works", .git.display())]
    NoGit { git: PathBuf },
    #[error(
        "{client}: {passed} tests passed with git, and at least {least} should; its output is in {}", .output.display()
    )]
    TooFew { client: &'static str, passed: usize, least: usize, output: PathBuf },
    #[error("{} cannot be understood: {why}", .path.display())]
    Results { path: PathBuf, why: String },
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    fn io(what: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io { what, path: path.to_owned(), source }
    }
}

/// Test suites of other people's Git clients, with the real git and with sapwood's `git` in its
/// place.
#[derive(Parser)]
struct Args {
    /// Clients by name; all whose suite can be had where none is given
    clients: Vec<String>,
    /// Only the slice that CI runs
    #[arg(long)]
    slice: bool,
    /// Directories of suites that no registry carries, each named like its client
    #[arg(long)]
    checkouts: Option<PathBuf>,
    /// The real git
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/oracle/bin/git"))]
    git: PathBuf,
    /// The program to put in its place [default: sapwood, beside this one]
    #[arg(long)]
    shim: Option<PathBuf>,
    /// Where clients are installed, and kept
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients"))]
    installed: PathBuf,
    /// Clients at once [default: the number of processors]
    #[arg(long)]
    jobs: Option<NonZero<usize>>,
    /// Seconds after which a run of a suite is killed
    #[arg(long, default_value = "1800")]
    timeout: u64,
    /// Where the suites work, best in memory [default: /dev/shm]
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Write the report for people here
    #[arg(long)]
    report: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).expect("these signals can be caught");
    }
    match clients(&args, &stop) {
        Ok(Findings { trials, served, whole }) => {
            print!("{}", report::summary(&trials, &served));
            match trials.iter().all(|trial| trial.differences.is_empty()) {
                _ if !whole => ExitCode::from(2),
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("clients: {error}");
            ExitCode::from(2)
        }
    }
}

/// The trials of the clients whose suite could be run.
struct Findings {
    /// The commands that sapwood supports.
    served: BTreeSet<String>,
    trials: Vec<Trial>,
    /// False if some requested clients are missing.
    whole: bool,
}

fn clients(args: &Args, stop: &AtomicBool) -> Result<Findings, Error> {
    let began = Instant::now();
    let chosen = choose(args)?;
    let ground = Ground::make(args)?;
    fs::create_dir_all(&args.installed).map_err(|source| Error::io("create", &args.installed, source))?;
    let place = Place { installed: absolute(&args.installed)?, checkouts: args.checkouts.clone() };
    let bounds = Bounds {
        timeout: Duration::from_secs(args.timeout),
        scratch: ground.scratch.path(),
        slice: args.slice,
        stop,
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.map_or(processors, NonZero::get);
    let trials = each(&chosen, jobs, |client| {
        if stop.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            trial(client, &place, [&ground.real, &ground.ours], &bounds)
        }
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let whole = trials.iter().all(Result::is_ok);
    for error in trials.iter().filter_map(|trial| trial.as_ref().err()) {
        eprintln!("clients: {error}");
    }
    let trials: Vec<Trial> = trials.into_iter().flatten().collect();
    if let Some(file) = &args.report {
        let setting = Setting {
            date: shim::today(),
            git: ground.version,
            sapwood: shim::sapwood_version(&ground.git),
            processors,
            jobs,
            seconds: began.elapsed().as_secs(),
        };
        fs::write(file, report::markdown(&setting, &trials, &ground.served))
            .map_err(|source| Error::io("write", file, source))?;
    }
    Ok(Findings { trials, served: ground.served, whole })
}

/// The scratch directory of the suites, and the two Gits.
struct Ground {
    scratch: TempDir,
    git: PathBuf,
    /// The version of the real git.
    version: String,
    /// The commands that sapwood supports.
    served: BTreeSet<String>,
    real: Side,
    ours: Side,
}

impl Ground {
    fn make(args: &Args) -> Result<Ground, Error> {
        let git = absolute(&args.git)?;
        let no_git = |git: &Path| Error::NoGit { git: git.to_owned() };
        let version = shim::git_version(&git).ok_or_else(|| no_git(&git))?;
        let stand_in = match &args.shim {
            Some(shim) => absolute(shim)?,
            None => {
                let own = std::env::current_exe();
                let own = own.map_err(|source| Error::io("find", Path::new("myself"), source))?;
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
            .prefix("clients.")
            .tempdir_in(&scratch)
            .map_err(|source| Error::io("create a directory in", &scratch, source))?;
        let bin = scratch.path().join("bin");
        shim::stand_in(&git, &stand_in, &bin).map_err(|(path, source)| Error::io("create", &path, source))?;
        shim::git_version(&bin.join("git")).ok_or_else(|| no_git(&bin))?;
        let behind = git.parent().expect("a file is in a directory").to_owned();
        let real = Side { name: "git", bins: vec![behind.clone()] };
        let ours = Side { name: "shim", bins: vec![bin, behind] };
        let served = shim::served(&stand_in);
        Ok(Ground { scratch, git, version, served, real, ours })
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|source| Error::io("find", path, source))
}

/// Runs the suite of one client with git, with the shim, and with git again.
fn trial(
    client: &'static Client,
    place: &Place,
    [real, ours]: [&Side; 2],
    bounds: &Bounds<'_>,
) -> Result<Trial, Error> {
    let suite = install::install(client, place)?;
    let git = run::run(client, &suite, real, "1", bounds)?;
    let passed = git.count(Outcome::Passed);
    let least = if bounds.slice { client.least_in_slice } else { client.least };
    if passed < least {
        return Err(Error::TooFew { client: client.name, passed, least, output: suite.dir });
    }
    let shim = run::run(client, &suite, ours, "", bounds)?;
    let again = run::run(client, &suite, real, "2", bounds)?;
    Ok(Trial::of(client, [git, again], shim))
}

/// Returns the requested clients. By default, a suite that is not in a registry is left out unless
/// its checkout was given.
fn choose(args: &Args) -> Result<Vec<&'static Client>, Error> {
    let at_hand = |client: &Client| match (client.suite, &args.checkouts) {
        (Suite::Checkout { .. }, None) => false,
        (Suite::Checkout { .. }, Some(checkouts)) => checkouts.join(client.name).is_dir(),
        _ => true,
    };
    let named = |name: &String| {
        let client = CLIENTS.iter().find(|client| client.name == name);
        let client = client.ok_or_else(|| Error::NoClient { name: name.clone() })?;
        match client.suite {
            Suite::Checkout { tag } if !at_hand(client) => {
                Err(Error::NoCheckout { client: client.name, tag })
            }
            _ => Ok(client),
        }
    };
    if !args.clients.is_empty() {
        return args.clients.iter().map(named).collect();
    }
    let all = CLIENTS.iter().filter(|client| at_hand(client));
    Ok(all.filter(|client| !args.slice || client.slice.is_some()).collect())
}

/// Calls `work` for each client, `jobs` at once. Returns the results in the order of the clients.
fn each<T: Send>(
    clients: &[&'static Client],
    jobs: usize,
    work: impl Fn(&'static Client) -> T + Sync,
) -> Vec<T> {
    let queue: Mutex<VecDeque<(usize, &'static Client)>> =
        Mutex::new(clients.iter().copied().enumerate().collect());
    let done = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let next = queue.lock().expect("no thread panics with it").pop_front();
            let Some((place, client)) = next else { return };
            let result = work(client);
            done.lock().expect("no thread panics with it").push((place, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().expect("no thread panics with it");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}
