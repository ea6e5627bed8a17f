//! Measures one run of one command: wall, user and system time, peak RSS, peak anonymous memory.
//!
//! The command runs as the only child of a small process of the lab. `getrusage(RUSAGE_CHILDREN)`
//! in that process therefore covers only the command and the command's children. Anonymous memory
//! is sampled from /proc every 30 ms, summed over the command and its children.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The resources a command used: times in seconds, memory in KiB.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) wall: f64,
    pub(crate) user: f64,
    pub(crate) sys: f64,
    pub(crate) peak_rss: i64,
    pub(crate) peak_anonymous: i64,
    /// The number of page faults.
    pub(crate) faults: i64,
    /// Bytes of changed pages and direct writes for a disk. Writes to memory file systems do not
    /// count.
    pub(crate) written: i64,
    /// The command's exit code, or -1 if a signal ended it.
    pub(crate) code: i32,
}

/// A command with its arguments and its working directory.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) cwd: std::path::PathBuf,
    /// The argument list of a program that runs the measuring process. The time of that program
    /// itself is not counted.
    pub(crate) outside: Vec<String>,
    /// Leave the memory of the measuring process out of the peak. This costs time.
    pub(crate) own_memory: bool,
    /// Exit codes that count as success.
    pub(crate) accepted: &'static [i32],
}

impl Invocation {
    pub(crate) fn new(program: &Path, args: &[&str], cwd: &Path) -> Self {
        Invocation {
            program: program.display().to_string(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            cwd: cwd.to_owned(),
            outside: Vec::new(),
            own_memory: false,
            accepted: &[0],
        }
    }

    /// Returns the invocation wrapped in a shell that joins a cgroup first.
    pub(crate) fn within(self, group: &Path) -> Invocation {
        let join = "echo $$ >\"$0\"/cgroup.procs && exec \"$@\"";
        let mut args = vec!["-c".to_owned(), join.to_owned(), group.display().to_string(), self.program];
        args.extend(self.args);
        Invocation { program: "/bin/sh".into(), args, ..self }
    }

    fn line(&self) -> String {
        format!("{} {}", self.program, self.args.join(" "))
    }
}

/// Removes user and system configuration from a command's environment, and sets a fixed identity
/// and date.
pub(crate) fn hermetic(command: &mut Command) -> &mut Command {
    command
        .env_remove("GIT_SSL_CAINFO")
        .env_remove("GIT_SSL_CAPATH")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("GIT_AUTHOR_NAME", "lab")
        .env("GIT_AUTHOR_EMAIL", "lab@example.org")
        .env("GIT_AUTHOR_DATE", "1700000000 +0000")
        .env("GIT_COMMITTER_NAME", "lab")
        .env("GIT_COMMITTER_EMAIL", "lab@example.org")
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
}

/// Runs a command outside of measurements and returns its output; a failure is an error.
pub(crate) fn must(program: &Path, args: &[&str], cwd: &Path) -> Result<Vec<u8>, Error> {
    let invocation = Invocation::new(program, args, cwd);
    let output = hermetic(&mut Command::new(program))
        .args(args)
        .current_dir(cwd)
        .output()
        .map_err(|error| Error::Command { command: invocation.line(), detail: error.to_string() })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let detail = format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Err(Error::Command { command: invocation.line(), detail })
}

/// Runs a command and measures it; an exit code that is not accepted is an error.
pub(crate) fn run(invocation: &Invocation) -> Result<Usage, Error> {
    let failed = |detail: String| Error::Command { command: invocation.line(), detail };
    let me = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut words = invocation.outside.iter().map(AsRef::as_ref).chain([me.as_os_str()]);
    let child = hermetic(&mut Command::new(words.next().expect("at least this program")))
        .args(words)
        .arg("measured")
        .args(invocation.own_memory.then_some("--own-memory"))
        .arg("--")
        .arg(&invocation.program)
        .args(&invocation.args)
        .current_dir(&invocation.cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let id = child.id();
    let done = AtomicBool::new(false);
    let (output, anonymous) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous_of_descendants(id));
                std::thread::park_timeout(Duration::from_millis(30));
            }
            peak
        });
        let output = child.wait_with_output();
        done.store(true, Ordering::Relaxed);
        sampler.thread().unpark();
        (output, sampler.join().expect("the sampler does not panic"))
    });
    let output = output.map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut usage: Usage = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| failed(String::from_utf8_lossy(&output.stderr).into_owned()))?;
    if !invocation.accepted.contains(&usage.code) {
        return Err(failed(format!("exit code {}: {}", usage.code, String::from_utf8_lossy(&output.stderr))));
    }
    usage.peak_anonymous = anonymous;
    Ok(usage)
}

/// The limit of open files for a measured command, the default on most systems. The lab itself
/// raises its limit when it serves a disk.
const OPEN_FILES: u64 = 1024;

/// The unit in which the kernel counts writes.
const SECTOR: i64 = 512;

/// Runs `lab measured -- COMMAND…` and prints the usage as JSON.
pub(crate) fn child(command: &[String], own_memory: bool) -> Result<ExitCode, Error> {
    let Some((program, args)) = command.split_first() else {
        return Err(Error::Setup("measured: no command".into()));
    };
    let failed = |error: nix::Error| Error::Command { command: program.clone(), detail: error.to_string() };
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES.min(most), most).map_err(failed)?;
    let mut command = Command::new(program);
    if own_memory {
        // Up to its exec, a child shares the memory of its parent, and the kernel counts it in the
        // child's peak. With a group of its own, here the same one, the standard library makes a
        // copy instead, which has few pages.
        command.gid(fs::metadata("/proc/self").map_or(0, |found| found.gid()));
    }
    let start = Instant::now();
    let status = command
        .args(args)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| Error::Command { command: program.clone(), detail: error.to_string() })?;
    let wall = start.elapsed().as_secs_f64();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(failed)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = Usage {
        wall,
        user: seconds(usage.user_time()),
        sys: seconds(usage.system_time()),
        peak_rss: usage.max_rss(),
        peak_anonymous: 0,
        faults: usage.minor_page_faults() + usage.major_page_faults(),
        written: usage.block_writes() * SECTOR,
        code: status.code().unwrap_or(-1),
    };
    println!("{}", serde_json::to_string(&usage).expect("plain numbers serialise"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the anonymous memory of all processes below `root` in KiB, without `root` itself. It
/// must be cheap because it runs during the measurement.
fn anonymous_of_descendants(root: u32) -> i64 {
    let mut pending = children(root);
    let mut sum = 0;
    while let Some(id) = pending.pop() {
        pending.extend(children(id));
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        sum += field.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
    }
    sum
}

/// Returns the ids of the child processes of process `id`.
fn children(id: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}
