//! Measures sapwood, Git and gix on the same work, each run on a fresh file system.
//!
//! The lab needs root for loop mounts. It is not a test: it reports figures, and only `--check`
//! compares them with the targets of the project.

#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::print_stderr)]

mod add;
mod ballast;
mod budget;
mod build;
mod checkout;
mod ci;
mod clone;
mod corpus;
mod day;
mod fleet;
mod floor;
mod load;
mod measure;
mod memory;
mod options;
mod programs;
mod record;
mod report;
mod results;
mod rig;
mod scale;
mod small;
mod status;
mod suite;
mod weather;
mod workspace;
mod write;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// A failure of the lab, as one sentence that names the command or path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{what} {}: {source}", .path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("`{command}` failed: {detail}")]
    Command { command: String, detail: String },
    #[error("{0}")]
    Setup(String),
}

#[derive(Parser)]
#[command(about = "Measure sapwood beside its peers")]
struct Args {
    #[command(flatten)]
    budget: budget::BudgetOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All tables of README and docs for one build, with a time for each, then the page.
    Measure(suite::Args),
    /// Time, memory and bytes written against the number of files, with the exponents.
    Scale(scale::Args),
    /// Peak memory of every native command that can run in a repository.
    Memory(memory::Args),
    /// 60 calls of an editor, a prompt and an agent in small repositories.
    Small(small::Args),
    /// Clone, full checkout and switches.
    Checkout(checkout::Args),
    /// Replay a day of a user, editors, a job and agents on Git and on the shim, compare results
    /// and times.
    Day(day::Args),
    /// Clone, full checkout and switches on slow disks.
    Weather(weather::Args),
    /// Status, warm and on slow disks with cold caches.
    Status(status::Args),
    /// Workspaces compared with worktrees, copies and unionfs-fuse.
    Workspace(workspace::Args),
    /// The steps of a day in a workspace, beside a plain worktree.
    Life(workspace::life::Args),
    /// Agents at once in workspaces with checkpoints, beside worktrees with shadow repositories.
    Agents(workspace::agents::Args),
    /// `add`, `commit -a` and `stash`, on local disks and on disks whose flushes take time.
    Add(add::Args),
    /// Clone and fetch over several ways to a server.
    Clone(clone::Args),
    /// The worktree of a job on a runner, beside the commands of Git.
    Ci(ci::Args),
    /// Hosts that begin a job on one repository, compared with clones, mirrors and archives.
    Fleet(fleet::Args),
    /// The steps of an article of 2012, compared with workspaces.
    Article(workspace::article::Args),
    /// Files that are written and read as a whole: index, multi-pack-index, commit-graph, packs.
    Write(write::Args),
    /// Write docs/measurements.md and its charts from the records in docs/measurements.
    Report(report::Args),
    /// Create the linux repository from Debian's source packages and print its path.
    Corpus,
    /// Run a command and print its resource use as JSON (used by the other commands).
    #[command(hide = true)]
    Measured {
        #[arg(long)]
        own_memory: bool,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Edit or build in the current directory (used by the other commands).
    #[command(hide = true)]
    Act {
        #[command(subcommand)]
        act: workspace::Act,
    },
    /// Serve a directory to the hosts of a fleet (used by the other commands).
    #[command(hide = true)]
    ServeFleet { root: PathBuf },
    /// Write the files of a commit from memory: the floor (used by the other commands).
    #[command(hide = true)]
    Floor { repo: PathBuf, revision: String, into: PathBuf },
}

fn main() -> ExitCode {
    record::note_load();
    let args = Args::parse();
    budget::set(&args.budget);
    let result = match args.command {
        Command::Measure(args) => suite::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Small(args) => small::run(&args),
        Command::Checkout(args) => checkout::run(&args),
        Command::Day(args) => day::run(&args),
        Command::Weather(args) => weather::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Workspace(args) => workspace::run(&args),
        Command::Life(args) => workspace::life::run(&args),
        Command::Agents(args) => workspace::agents::run(&args),
        Command::Write(args) => write::run(&args),
        Command::Add(args) => add::run(&args),
        Command::Clone(args) => clone::run(&args),
        Command::Ci(args) => ci::run(&args),
        Command::Fleet(args) => fleet::run(&args),
        Command::ServeFleet { root } => fleet::serve(&root),
        Command::Article(args) => workspace::article::run(&args),
        Command::Act { act } => workspace::act(&act),
        Command::Report(args) => report::run(&args),
        Command::Corpus => corpus::linux().and_then(|origin| origin.corpus()).map(|corpus| {
            println!("{}", corpus.packed.display());
            ExitCode::SUCCESS
        }),
        Command::Measured { own_memory, command } => measure::child(&command, own_memory),
        Command::Floor { repo, revision, into } => floor::child(&repo, &revision, &into),
    };
    result.unwrap_or_else(|error| {
        eprintln!("lab: {error}");
        ExitCode::FAILURE
    })
}
