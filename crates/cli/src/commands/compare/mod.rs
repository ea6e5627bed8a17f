//! `sapwood try`: measures status, clone and switch beside the user's Git, in a user's repository.
//!
//! [`sapwood::compare`] decides the steps; this module starts the programs and prints the table.

use std::{
    io::Read as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use bstr::{BString, ByteSlice as _};
use sapwood::compare::{self, Place, Report, Row, Side, Timed};
use serde_json::{Value, json};

use super::{
    record::{Command as Record, Group},
    workspace::context::print_json,
};
use crate::{
    session::{invocation::Invocation, real_git, reexec, tasks},
    term::{
        args::{Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
        interrupt::Interrupt,
        text::{os_error, os_str},
    },
};

/// The record of `try`.
pub(super) const COMMAND: Record = Record {
    name: "try",
    summary: "Measure sapwood beside your Git in this repository",
    about: "Runs `status`, `clone` and `switch` with your Git and with sapwood, one after the other, and prints the \
            median times. The repository is only read. The clones share its objects; they lie in a new directory \
            below `$TMPDIR` or that of `--dir`, which is removed at the end. Both programs run without a file system \
            monitor and without hooks.\n\n\
            The numbers are those of a warm cache. A directory for `--dir` on the disk of the repository gives the \
            times of that disk.",
    group: Group::Own,
    syntax: &TABLE,
    run,
    ..Record::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood try [--rounds <n>] [--dir <dir>] [--json]"],
    options: &[
        Opt::new(
            "--rounds <n>",
            "the number of measurements of each command; default 3",
            |request: &mut Request, value| {
                let text = value.text.unwrap_or_default();
                let number =
                    text.to_str().ok().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
                let wrong = || Failure::fatal(text!("--rounds needs a number above zero, not '", text, "'"));
                request.rounds = Some(number.ok_or_else(wrong)?);
                Ok(())
            },
        )
        .only(),
        Opt::text("--dir <dir>", "the directory for the clones", field!(dir)),
        Opt::flag("--json", "print a JSON document", field!(json)),
    ],
    grammar: Grammar::Mixed,
};

const ROUNDS: usize = 3;

#[derive(Default)]
struct Request {
    rounds: Option<usize>,
    dir: Option<BString>,
    json: bool,
}

/// Runs the command. Returns its exit code: 1 if the programs disagree.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let rest = TABLE.parse(args)?.store(&mut request)?;
    if let Some(extra) = rest.first() {
        return Err(Failure::fatal(text!("try takes no arguments, and so not '", extra, "'")));
    }
    let temporary = run.variable("TMPDIR").filter(|dir| !dir.is_empty()).unwrap_or(b"/tmp");
    let parent: PathBuf = run.path(request.dir.as_ref().map_or(temporary, |dir| dir))?;
    let rounds = request.rounds.unwrap_or(ROUNDS);
    let repo = run.open()?;
    let plan = compare::plan_for(&repo, compare::Request { parent, rounds })?;
    drop(repo);
    let version = git_version(run)?;
    let report = plan.run(&Watch { run })?;
    if request.json {
        print_json(&document(&report, &version));
    } else {
        table(&report, &version).iter().for_each(console::out);
    }
    Ok(u8::from(report.rows.iter().any(|row| !row.agrees)))
}

fn document(report: &Report, version: &str) -> Value {
    let seconds = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).collect::<Vec<_>>();
    let row = |row: &Row| {
        json!({
            "command": row.name,
            "git": seconds(&row.git),
            "sapwood": seconds(&row.sapwood),
            "agrees": row.agrees,
        })
    };
    json!({
        "version": 1,
        "git": version,
        "sapwood": env!("CARGO_PKG_VERSION"),
        "entries": report.entries,
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "leftOut": report.left_out,
    })
}

/// Returns the lines of the table, and the sentence below it.
fn table(report: &Report, version: &str) -> Vec<String> {
    let mut lines = vec![format!("{:<8} {:>12} {:>12}", "", format!("git {version}"), "sapwood")];
    let (mut git, mut sapwood) = (0.0, 0.0);
    for row in &report.rows {
        let (theirs, ours) = row.medians();
        let (theirs, ours) = (theirs.as_secs_f64(), ours.as_secs_f64());
        git += theirs;
        sapwood += ours;
        let factor = theirs / ours.max(1e-6);
        let doubt = if row.agrees { "" } else { "  the results differ: please report it" };
        lines.push(format!("{:<8} {theirs:>10.3} s {ours:>10.3} s {factor:>6.1} x{doubt}", row.name));
    }
    let names: Vec<&str> = report.rows.iter().map(|row| row.name).collect();
    let (slower, faster, factor) = match git >= sapwood {
        true => ("git", "sapwood", git / sapwood.max(1e-6)),
        false => ("sapwood", "git", sapwood / git.max(1e-6)),
    };
    lines.push(format!(
        "In this repository of {} files, {} takes {factor:.1} times as long as {faster} for {}.",
        report.entries,
        slower,
        names.join(", "),
    ));
    lines.extend(report.left_out.map(|reason| format!("clone and switch were not measured: {reason}.")));
    lines
}

/// Returns the version of the real Git, without `git version`.
fn git_version(run: &Invocation) -> Result<String, Failure> {
    let place = Place::Directory(run.cwd.clone());
    let timed = compare::Timer::time(&Watch { run }, Side::Git, &place, &["version".into()])?;
    let text = timed.output.to_str_lossy().trim().to_owned();
    Ok(text.strip_prefix("git version ").unwrap_or(&text).split(' ').next().unwrap_or_default().to_owned())
}

/// Starts the programs.
struct Watch<'a> {
    run: &'a Invocation,
}

impl compare::Timer for Watch<'_> {
    type Error = Failure;

    fn time(&self, side: Side, place: &Place, args: &[BString]) -> Result<Timed, Failure> {
        let mut command = match side {
            Side::Git => real_git::command(self.run)
                .ok_or_else(|| Failure::fatal("no git was found to compare with; SAPWOOD_GIT names one"))?,
            Side::Sapwood => reexec::as_sapwood(self.run),
        };
        match place {
            Place::Repository { git_dir, worktree } => {
                command.current_dir(worktree).env("GIT_DIR", git_dir).env("GIT_WORK_TREE", worktree);
            }
            Place::Directory(dir) => {
                let variables = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"];
                for name in variables {
                    command.env_remove(name);
                }
                command.current_dir(dir);
            }
        }
        // Contents of LFS would be fetched, and hooks run.
        command.env("GIT_LFS_SKIP_SMUDGE", "1").env("GIT_TERMINAL_PROMPT", "0");
        command.args(["-c", "core.hooksPath=/dev/null"]).args(args.iter().map(|arg| os_str(arg)));
        self.run_timed(command)
    }
}

impl Watch<'_> {
    fn run_timed(&self, mut command: Command) -> Result<Timed, Failure> {
        Interrupt::install_now();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let begin = Instant::now();
        let mut child = command.spawn().map_err(|error| {
            Failure::fatal(format!("cannot run {}: {}", command.get_program().display(), os_error(&error)))
        })?;
        let mut output = Vec::new();
        if let Some(mut stdout) = child.stdout.take() {
            // A child that fails says so by its exit code.
            let _ = stdout.read_to_end(&mut output);
        }
        let code = tasks::wait(child);
        let time = begin.elapsed();
        self.run.interrupt.check()?;
        Ok(Timed { time, code, output })
    }
}
