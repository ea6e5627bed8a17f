//! `lab agents`: agents that work at once on one repository, in workspaces with checkpoints, beside
//! worktrees of Git with a shadow repository each.
//!
//! An agent makes a branch and a place to work, edits files, saves its state in between, commits,
//! and lands its branch on a common one. A shadow repository is the usual way to save a state with
//! plain Git: `GIT_DIR` lies elsewhere and has an index of its own. Both contenders must end with
//! equal files on the common branch, and with all commits.
//!
//! A call that finds a lock taken, a branch that moved or an unfinished worktree is repeated. The
//! record has the number of such calls; their time is part of the time of the work.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use nix::sys::resource::{UsageWho, getrusage};

use super::{
    contender::{Backend, Contender, Place},
    space,
    tree::{NEW, Tree},
};
use crate::{
    Error, budget, corpus,
    measure::{Invocation, hermetic},
    options::Options,
    programs::{Pair, Programs, saw_unfinished_worktree},
    record::{AtMost, Kind, Machine, Sample},
    results::{Results, median},
    rig::{FileSystem, warm},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The number of agents; by default 50, or 4 with --quick.
    #[arg(long)]
    agents: Option<usize>,
    /// Measure a small generated tree.
    #[arg(long)]
    quick: bool,
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

/// The number of commits of an agent. Each ends an equal share of its edits and checkpoints.
const COMMITS: usize = 3;
const EDITS: usize = 30;
const CHECKPOINTS: usize = 5;
/// The files of the tree of `--quick`.
const SMALL: usize = 500;
/// The branch on which all agents land.
const COMMON: &str = "common";
/// The case of everything that the agents did.
const ALL: &str = "all";
/// A call that is refused more often than this is an error.
const MOST_REPEATS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let tree = if args.quick { Tree::wide(SMALL)? } else { Tree::of(&args.repository)? };
    let agents = args.agents.unwrap_or(if args.quick { 4 } else { 50 });
    let files = files(&tree, agents * EDITS)?;
    warm(&tree.packed)?;
    let scratch = args.options.scratch(None)?;
    println!("{}; {versions:?}; {agents} agents, {} runs, order alternating", Machine::here(), args.runs);
    let mut results = Results::default();
    for run in budget::rounds(args.runs) {
        let mut in_turn = [Contender::Git(2), Contender::Sapwood(Backend::Image)];
        if run % 2 == 1 {
            in_turn.reverse();
        }
        let mut ends = Vec::new();
        for contender in in_turn {
            eprintln!("lab: run {} of {}: {}", run + 1, args.runs, contender.tool());
            let own = scratch.join(contender.tool());
            let place = Place::on(FileSystem::Ext4, contender, &tree, (&args.programs.git, &sapwood), &own)?;
            let all = All { place, git: &args.programs.git, sapwood: &sapwood, files: &files };
            ends.push(all.work(agents, &mut results)?);
        }
        if ends[0] != ends[1] {
            return Err(Error::Setup(format!("the contenders differ in the end: {ends:?}")));
        }
    }
    results.print();
    let mut cases = results.cases(&tree.fact.name);
    for case in cases.iter_mut().filter(|case| case.case == ALL) {
        case.at_most = AtMost { git: Some(0.5), ..AtMost::default() };
    }
    let is_missed = |case: &crate::record::Case| {
        let most = case.at_most.git.unwrap_or(f64::INFINITY);
        case.ratio().is_some_and(|ratio| ratio > most)
    };
    let missed = cases.iter().filter(|case| is_missed(case)).count();
    args.options.record.write(Kind::Agents, &versions, vec![tree.fact], cases)?;
    Ok(args.options.code(missed))
}

/// Returns this number of files of the tree; each is edited by one agent.
fn files(tree: &Tree, count: usize) -> Result<Vec<String>, Error> {
    let read = fs::read_to_string(&tree.edits);
    let list = read.map_err(|source| Error::Io { what: "cannot read", path: tree.edits.clone(), source })?;
    let files: Vec<String> = list.lines().take(count).map(str::to_owned).collect();
    if files.len() < count {
        return Err(Error::Setup(format!("the agents need a tree with {count} files")));
    }
    Ok(files)
}

/// All agents of one contender, on a fresh file system.
struct All<'a> {
    place: Place<'a>,
    git: &'a Path,
    sapwood: &'a Path,
    files: &'a [String],
}

/// A kind of work, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Create,
    Checkpoint,
    Commit,
    Land,
}

impl Work {
    const ALL: [Work; 4] = [Work::Create, Work::Checkpoint, Work::Commit, Work::Land];

    fn case(self) -> &'static str {
        match self {
            Work::Create => "create",
            Work::Checkpoint => "checkpoint",
            Work::Commit => "commit",
            Work::Land => "land",
        }
    }
}

/// A piece of work that was done: its seconds, and how often it was repeated.
#[derive(Clone, Copy, Debug)]
struct Done {
    work: Work,
    wall: f64,
    repeats: usize,
}

impl All<'_> {
    /// Lets the agents work at once. Returns the tree and the number of commits of the common
    /// branch.
    fn work(&self, agents: usize, results: &mut Results) -> Result<[String; 2], Error> {
        let repo = &self.place.repo;
        self.must(&["branch", COMMON, NEW], repo)?;
        let before = space::used(self.place.volume.path())?;
        let (cpu, start) = (cpu()?, Instant::now());
        let done = thread::scope(|scope| {
            let agents = (0..agents).map(|number| scope.spawn(move || self.agent(number)));
            let agents: Vec<_> = agents.collect();
            let ends = agents.into_iter().map(|agent| agent.join().expect("an agent does not panic"));
            ends.collect::<Result<Vec<_>, Error>>()
        })?;
        let wall = start.elapsed().as_secs_f64();
        let after = self::cpu()?;
        let done: Vec<Done> = done.into_iter().flatten().collect();
        let tool = self.place.contender.tool();
        let mut add = |case: &str, sample: Sample| {
            results.add(case, self.place.contender.file_system().name(), &tool, sample);
        };
        let repeats = |of: &dyn Fn(&Done) -> bool| {
            Some(done.iter().filter(|done| of(done)).map(|done| done.repeats as u64).sum())
        };
        add(
            ALL,
            Sample {
                wall,
                user: after.0 - cpu.0,
                sys: after.1 - cpu.1,
                disk: Some(space::used(self.place.volume.path())? - before),
                waits: repeats(&|_| true),
                ..Sample::default()
            },
        );
        for work in Work::ALL {
            let walls = done.iter().filter(|done| done.work == work).map(|done| done.wall);
            let waits = repeats(&|done| done.work == work);
            add(work.case(), Sample { wall: median(walls.collect()), waits, ..Sample::default() });
        }
        let end = |args: &[&str]| Ok::<_, Error>(self.must(args, repo)?.trim().to_owned());
        let range = format!("{NEW}..{COMMON}");
        let tree = end(&["rev-parse", &format!("{COMMON}^{{tree}}")])?;
        let commits = end(&["rev-list", "--count", "--no-merges", &range])?;
        if commits != (agents * COMMITS).to_string() {
            return Err(Error::Setup(format!("{tool} landed {commits} commits of {agents} agents")));
        }
        for number in 0..agents {
            let remove = self.place.remove(&name(number));
            self.place.output(&remove)?;
        }
        Ok([tree, commits])
    }

    /// Does the work of one agent.
    fn agent(&self, number: usize) -> Result<Vec<Done>, Error> {
        let mut done = Vec::new();
        let mut timed = |work: Work, what: &dyn Fn() -> Result<usize, Error>| {
            let start = Instant::now();
            let repeats = what()?;
            done.push(Done { work, wall: start.elapsed().as_secs_f64(), repeats });
            Ok::<(), Error>(())
        };
        timed(Work::Create, &|| self.create(number))?;
        for edit in 0..EDITS {
            self.edit(number, edit)?;
            if (edit + 1) % (EDITS / CHECKPOINTS) == 0 {
                timed(Work::Checkpoint, &|| self.checkpoint(number))?;
            }
            if (edit + 1) % (EDITS / COMMITS) == 0 {
                timed(Work::Commit, &|| self.commit(number))?;
            }
        }
        timed(Work::Land, &|| self.land(number))?;
        Ok(done)
    }

    fn is_git(&self) -> bool {
        matches!(self.place.contender, Contender::Git(_))
    }

    fn create(&self, number: usize) -> Result<usize, Error> {
        let (name, dir) = (name(number), self.place.dir(&name(number)).display().to_string());
        if self.is_git() {
            // A repeated call finds the branch that the failed one created.
            let args = ["worktree", "add", "-q", "-B", &name, &dir, NEW];
            let repeats = self.repeated(&self.place.git(&args, &self.place.repo), None)?;
            let init = ["init", "-q", "--bare", &self.shadow(number).display().to_string()];
            return Ok(repeats + self.repeated(&self.place.git(&init, &self.place.repo), None)?);
        }
        let args =
            ["workspace", "create", &name, "-q", "-b", &name, "--dir", &dir, "--backend", "image", NEW];
        self.repeated(&self.place.sapwood(&args, &self.place.repo), None)
    }

    fn edit(&self, number: usize, edit: usize) -> Result<(), Error> {
        let path = self.place.dir(&name(number)).join(&self.files[number * EDITS + edit]);
        let mut append = fs::OpenOptions::new();
        let written = append.append(true).open(&path).and_then(|mut file| writeln!(file, "edited {edit}"));
        written.map_err(|source| Error::Io { what: "cannot edit", path, source })
    }

    fn shadow(&self, number: usize) -> PathBuf {
        self.place.volume.path().join("shadows").join(name(number))
    }

    fn checkpoint(&self, number: usize) -> Result<usize, Error> {
        let dir = self.place.dir(&name(number));
        if !self.is_git() {
            return self.repeated(&self.place.sapwood(&["checkpoint", "-m", "step"], &dir), None);
        }
        let shadow = self.shadow(number);
        let add = self.repeated(&self.place.git(&["add", "-A"], &dir), Some(&shadow))?;
        let commit = self.place.git(&["commit", "-q", "--allow-empty", "-m", "step"], &dir);
        Ok(add + self.repeated(&commit, Some(&shadow))?)
    }

    fn commit(&self, number: usize) -> Result<usize, Error> {
        let (dir, args) = (self.place.dir(&name(number)), ["commit", "-q", "-a", "-m", "work"]);
        let commit =
            if self.is_git() { self.place.git(&args, &dir) } else { self.place.sapwood(&args, &dir) };
        self.repeated(&commit, None)
    }

    fn land(&self, number: usize) -> Result<usize, Error> {
        let (name, repo) = (name(number), &self.place.repo);
        if !self.is_git() {
            let args = ["workspace", "land", &name, "-q", "--onto", COMMON];
            return self.repeated(&self.place.sapwood(&args, repo), None);
        }
        for repeats in 0..MOST_REPEATS {
            let before = self.must(&["rev-parse", COMMON], repo)?;
            let tree = self.must(&["merge-tree", "--write-tree", COMMON, &name], repo)?;
            let parents = ["-p", before.trim(), "-p", &name, "-m", "land"];
            let commit = self.must(&[&["commit-tree", tree.trim()], &parents[..]].concat(), repo)?;
            let full = format!("refs/heads/{COMMON}");
            let update = ["update-ref", &full, commit.trim(), before.trim()];
            if self.ended(&self.place.git(&update, repo), None)?.is_ok() {
                return Ok(repeats);
            }
            thread::sleep(PAUSE);
        }
        Err(Error::Setup(format!("{name} could not land")))
    }

    fn must(&self, args: &[&str], at: &Path) -> Result<String, Error> {
        self.place.output(&self.place.git(args, at))
    }

    /// Runs a command until no lock stops it. Returns the number of repeats.
    fn repeated(&self, invocation: &Invocation, git_dir: Option<&Path>) -> Result<usize, Error> {
        let mut last = String::new();
        for repeats in 0..MOST_REPEATS {
            match self.ended(invocation, git_dir)? {
                Ok(()) => return Ok(repeats),
                Err(said) if is_about_a_lock(&said) || saw_unfinished_worktree(&said) => last = said,
                Err(said) => {
                    let command = format!("{} {}", invocation.program, invocation.args.join(" "));
                    return Err(Error::Command { command, detail: said });
                }
            }
            thread::sleep(PAUSE);
        }
        Err(Error::Setup(format!("a lock stays: {last}")))
    }

    /// Runs a command, in the shadow repository `git_dir` if there is one. Returns the errors that
    /// it prints if it fails.
    fn ended(&self, invocation: &Invocation, git_dir: Option<&Path>) -> Result<Result<(), String>, Error> {
        let mut command = Command::new(&invocation.program);
        hermetic(&mut command).args(&invocation.args).current_dir(&invocation.cwd);
        // Its land and its checkpoints run the real Git.
        let dirs =
            [self.git.parent().unwrap_or(Path::new("")), self.sapwood.parent().unwrap_or(Path::new(""))];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = dirs.into_iter().filter(|dir| dir.is_absolute()).map(Path::to_owned);
        let path = std::env::join_paths(dirs.chain(std::env::split_paths(&path)));
        command.env("PATH", path.map_err(|error| Error::Setup(error.to_string()))?);
        if let Some(git_dir) = git_dir {
            command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", &invocation.cwd);
        }
        let output = command.output().map_err(|error| Error::Command {
            command: invocation.program.clone(),
            detail: error.to_string(),
        })?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() { Ok(()) } else { Err(said) })
    }
}

fn name(number: usize) -> String {
    format!("agent-{number}")
}

/// Returns true for an error that ends when another process is done.
fn is_about_a_lock(said: &str) -> bool {
    ["cannot lock", "Unable to create", "could not lock", ".lock", "try again"]
        .iter()
        .any(|words| said.contains(words))
}

/// Returns the seconds of CPU of all processes that this one has waited for.
fn cpu() -> Result<(f64, f64), Error> {
    let usage =
        getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| Error::Setup(format!("getrusage: {error}")))?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_locks_and_unfinished_worktrees_are_waited_for() {
        assert!(is_about_a_lock("fatal: Unable to create '/r/.git/index.lock': File exists."));
        assert!(is_about_a_lock("error: cannot lock ref 'refs/heads/x'"));
        assert!(!is_about_a_lock("fatal: not a git repository"));
        let failed = |reason| format!("fatal: failed to read .git/worktrees/agent-3/commondir: {reason}\n");
        assert!(saw_unfinished_worktree(&failed("Success")));
        assert!(!saw_unfinished_worktree(&failed("Permission denied")));
    }
}
