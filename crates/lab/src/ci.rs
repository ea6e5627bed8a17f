//! `lab ci`: measures the worktree of a job, `sapwood ci checkout` beside the commands of Git that
//! actions/checkout documents.
//!
//! Each run gets a fresh file system, and each result is compared with Git's commit. The order of
//! the tools is reversed from run to run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    Error,
    ballast::Ballast,
    budget,
    clone::{
        self,
        line::{Over, Server},
        source::{self, Source},
    },
    measure::{Invocation, must},
    options::Options,
    programs::{Pair, Programs},
    record::{self, AtMost, Figure, Kind, Machine, Sample},
    weather::{
        mounted_disk::{Disk, MountedDisk},
        trees::{self, Tree},
    },
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A repository or bundle to measure on, or `linux`, the tree from Debian's source packages,
    /// which is the default; may be given several times.
    #[arg(long = "tree")]
    trees: Vec<PathBuf>,
    /// Only these ways to the server.
    #[arg(long = "over", value_enum)]
    overs: Vec<Over>,
    /// Only these jobs.
    #[arg(long = "case", value_enum)]
    jobs: Vec<Job>,
    /// Only these tools.
    #[arg(long = "tool", value_enum)]
    tools: Vec<Tool>,
    /// The disk of the jobs.
    #[arg(long = "on", value_enum, default_value = "local")]
    disk: Disk,
    /// Number of runs for each tool and job.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    /// Do not keep the machine's memory in a fixed state, because other programs use this machine.
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    options: Options,
}

/// The job whose worktree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Job {
    /// The directory is empty.
    New,
    /// The directory has the clone of a job that was ten commits earlier, with 100 new files.
    Next,
    /// The directory has the clone of a job with the same commit, as it left it.
    Again,
}

impl Job {
    const ALL: [Job; 3] = [Job::New, Job::Next, Job::Again];

    fn name(self) -> &'static str {
        match self {
            Job::New => "new",
            Job::Next => "next",
            Job::Again => "again",
        }
    }

    /// Returns the branch of the job that was there before.
    fn before(self) -> Option<String> {
        match self {
            Job::New => None,
            Job::Next => Some("base".into()),
            Job::Again => Some(Source::branch(COMMITS)),
        }
    }
}

/// A measured program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Tool {
    Sapwood,
    /// Git with a checkout worker for each core.
    Git,
}

/// The commits between two jobs.
const COMMITS: usize = 10;

/// The files that a job leaves.
const LEFT: usize = 100;

/// Git's commands for a job in an empty directory, `$0` is Git, `$1` the address, `$2` the branch.
const NEW: &str = r#"
"$0" init -q
"$0" remote add origin "$1"
"$0" config gc.auto 0
"$0" fetch -q --no-tags --no-recurse-submodules --depth=1 origin "+refs/heads/$2:refs/remotes/origin/$2"
"$0" checkout -q --force -B "$2" "refs/remotes/origin/$2"
"#;

/// Git's commands for a job in the clone of an earlier one.
const NEXT: &str = r#"
rm -f .git/index.lock .git/shallow.lock
"$0" config remote.origin.url "$1"
"$0" checkout -q --force --detach
"$0" for-each-ref --format='delete %(refname)' refs/heads | "$0" update-ref --stdin
"$0" clean -ffdxq
"$0" reset -q --hard HEAD
"$0" fetch -q --no-tags --no-recurse-submodules --force --depth=1 origin \
    "+refs/heads/$2:refs/remotes/origin/$2"
"$0" checkout -q --force -B "$2" "refs/remotes/origin/$2"
"#;

struct Lab<'a> {
    args: &'a Args,
    programs: Programs,
    cores: usize,
    ballast: Option<Ballast>,
    /// The number of rows that are not measured yet.
    left: usize,
    cases: Vec<record::Case>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let trees = match args.trees.as_slice() {
        [] => vec![trees::linux(&[])?],
        some => some.iter().map(|path| trees::named(path, &[])).collect::<Result<_, _>>()?,
    };
    let programs = args.programs.find()?;
    println!("{}; {:?}; {} runs, order alternating", Machine::here(), programs.versions, args.runs);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let overs = clone::chosen(&args.overs, &[Over::File, Over::Https, Over::Gbit]);
    let jobs = clone::chosen(&args.jobs, &Job::ALL);
    let left = trees.len() * overs.len() * jobs.len();
    let mut lab = Lab { args, programs, cores, ballast: None, left, cases: Vec::new() };
    for tree in &trees {
        println!("{tree}");
        let source = Source::of(tree, true)?;
        source.prepare(source::HISTORY)?;
        for &over in &overs {
            let server = Server::start(over, &source.root)?;
            for &job in &jobs {
                lab.round(tree, &server, over, job)?;
            }
        }
    }
    let missed = clone::print(&lab.cases);
    let Lab { programs, cases, .. } = lab;
    args.options.record.write(Kind::Ci, &programs.versions, trees.iter().map(Tree::fact).collect(), cases)?;
    Ok(args.options.code(missed))
}

impl Lab<'_> {
    fn name(&self, tool: Tool) -> String {
        match tool {
            Tool::Sapwood => "sapwood".into(),
            Tool::Git => format!("git-{}", self.cores),
        }
    }

    fn round(&mut self, tree: &Tree, server: &Server, over: Over, job: Job) -> Result<(), Error> {
        let name = format!("{}-{}", job.name(), over.name());
        let is_local = self.args.disk == Disk::Local;
        self.ballast = (is_local && !self.args.shared).then(Ballast::new).transpose()?;
        let tools = clone::chosen(&self.args.tools, &[Tool::Sapwood, Tool::Git]);
        let mut samples = vec![Vec::new(); tools.len()];
        for run in budget::rounds_of_row(self.args.runs, self.left) {
            let mut order: Vec<usize> = (0..tools.len()).collect();
            if run % 2 == 1 {
                order.reverse();
            }
            for which in order {
                let sample = self.sample(server, job, tools[which])?;
                eprintln!("lab:   {name} {} {:.3} s", self.name(tools[which]), sample.wall);
                samples[which].push(sample);
            }
        }
        self.left -= 1;
        if samples.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let key = [tree.name.as_str(), self.args.disk.name(), name.as_str()];
        for (tool, samples) in tools.into_iter().zip(&samples) {
            let figure = Figure::of_samples(&self.name(tool), samples);
            record::Case::add(&mut self.cases, key, figure);
        }
        if let Some(case) = self.cases.last_mut().filter(|_| is_local) {
            case.at_most = AtMost { git: Some(1.0), ..AtMost::default() };
        }
        Ok(())
    }

    /// Takes one sample, and verifies the result.
    fn sample(&mut self, server: &Server, job: Job, tool: Tool) -> Result<Sample, Error> {
        let disk = self.args.disk;
        let memory = Path::new("/dev/shm/sapwood-ci");
        let scratch = self.args.options.scratch(disk.is_served().then_some(memory))?;
        let mut mounted = MountedDisk::fresh(disk, &scratch)?;
        let dir = mounted.fast()?.join("job");
        let failed = |source| Error::Io { what: "cannot create", path: dir.clone(), source };
        fs::create_dir(&dir).map_err(failed)?;
        let url = server.url(source::HISTORY);
        if let Some(branch) = job.before() {
            // The job before is always one of Git: both tools begin with the same clone.
            let words = words(NEW, &self.args.programs.git, server, &url, &branch);
            must(Path::new("sh"), &words.iter().map(String::as_str).collect::<Vec<_>>(), &dir)?;
            trees::settle(&dir)?;
            let left = if job == Job::Next { LEFT } else { 0 };
            for number in 0..left {
                let path = dir.join(format!("left-{number}"));
                fs::write(&path, "of a job\n").map_err(|source| Error::Io {
                    what: "cannot write",
                    path,
                    source,
                })?;
            }
        }
        let branch = Source::branch(COMMITS);
        let reference = format!("refs/heads/{branch}");
        let script = if job == Job::New { NEW } else { NEXT };
        let (sapwood, git) = (&self.programs.sapwood, &self.args.programs.git);
        let before = server.bytes();
        let invocation = |at: &Path| {
            let cwd = at.join("job");
            match tool {
                Tool::Git => {
                    let words = words(script, git, server, &url, &branch);
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    Invocation::new(Path::new("sh"), &words, &cwd)
                }
                Tool::Sapwood => {
                    let settings = server.settings();
                    let mut all: Vec<&str> = settings.iter().flat_map(|given| ["-c", given]).collect();
                    // Runners give the full name.
                    all.extend(["ci", "checkout", "-q", "--clean", "--ref", &reference, &url]);
                    Invocation::new(sapwood, &all, &cwd)
                }
            }
        };
        let mut sample = mounted.measured(invocation, &mut self.ballast)?;
        if let Some((before, after)) = before.zip(server.bytes()) {
            let text = format!("{} bytes from the server", after - before);
            sample.served =
                if sample.served.is_empty() { text } else { format!("{text}; {}", sample.served) };
        }
        verify(&mounted.fast()?.join("job"), &branch, tool)?;
        Ok(sample)
    }
}

/// Returns the arguments of a shell that runs `script` with Git's settings for this server.
fn words(script: &str, git: &Path, server: &Server, url: &str, branch: &str) -> Vec<String> {
    let settings = server.settings().into_iter().chain(["checkout.workers=0".to_owned()]);
    // A function of the shell takes the place of Git, so that each command has the settings.
    let given: Vec<String> = settings.map(|setting| format!("-c '{setting}'")).collect();
    let script = script.replace("\"$0\"", &format!("\"$0\" {}", given.join(" ")));
    let git = git.display().to_string();
    ["-ec".to_owned(), script, git, url.to_owned(), branch.to_owned()].into()
}

/// Fails if the worktree is not that of the job, so that a tool that skips work cannot win.
fn verify(job: &Path, branch: &str, tool: Tool) -> Result<(), Error> {
    let git = |args: &[&str]| -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&must(Path::new("git"), args, job)?).trim().to_owned())
    };
    let wrong = |what: String| Err(Error::Setup(format!("{tool:?} {what}")));
    let status = git(&["status", "--porcelain", "--ignored"])?;
    if let Some(first) = status.lines().next() {
        return wrong(format!("left the tree dirty: {first:?}"));
    }
    let [head, wanted] =
        [git(&["rev-parse", "HEAD"])?, git(&["rev-parse", &format!("refs/remotes/origin/{branch}")])?];
    if head != wanted || git(&["symbolic-ref", "--short", "HEAD"])? != branch {
        return wrong(format!("checked out {head}, and not {branch}"));
    }
    if git(&["rev-list", "--count", "HEAD"])? != "1" {
        return wrong("fetched more than one commit".into());
    }
    Ok(())
}
