//! `sapwood doctor`: which commands are native in a repository, why others are not, and what slows
//! it down.
//!
//! It changes nothing. The reasons come from the checks by which the shim decides
//! ([`Candidate::reasons`]).

use bstr::BString;
use repo::Repository;
use sys::by_path;

use super::install;
use crate::{
    commands::{
        self, obstacles,
        reason::Reason,
        record::{Candidate, Command, Group, Home},
    },
    git::Find,
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// The record of `doctor`.
pub(super) const COMMAND: Command = Command {
    name: "doctor",
    summary: "Show what is native in a repository, and what slows it down",
    group: Group::Own,
    run,
    ..Command::BASE
};

/// Runs the command. The exit code is 0 if the repository hands over no command that is native in
/// part.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    if !args.is_empty() {
        return Err(Failure::Misused("sapwood doctor takes no arguments".into()));
    }
    let git = Find { env: &run.env, config: &run.config, cwd: &run.cwd }.git();
    console::out(match &git {
        Ok(git) => format!("real git    {}", git.path.display()),
        Err(error) => format!("real git    {error}"),
    });
    console::out(match install::first_git(run).is_some_and(|git| install::is_this_program(&git)) {
        true => "shim        'git' is sapwood",
        false => "shim        'git' is not sapwood: see 'sapwood shim install'",
    });
    let repo = match run.open() {
        Ok(repo) => repo,
        Err(failure) => {
            failure.say();
            console::out("repository  cannot be opened: every command is handed over");
            return Ok(1);
        }
    };
    console::out(format!("repository  {}", repo.git_dir().display()));
    let outside = repo::StandaloneConfig::load(&run.outside())?;
    let warnings = obstacles::warnings(&repo);
    let mut code = 0;
    for command in commands::COMMANDS.iter().filter(|command| command.is_gits()) {
        for command in command.leaves() {
            let home = if command.traits.outside { Home::Outside(&outside) } else { Home::Repository(&repo) };
            let candidate = Candidate { run, command, survey: None, args: &[], home };
            let mut reasons: Vec<Reason> = candidate.reasons().collect();
            if !command.traits.outside {
                reasons.splice(0..0, warnings.iter().cloned());
            }
            code |= u8::from(!reasons.is_empty());
            report(command, &reasons);
        }
    }
    console::out(
        "\nEvery other option and command is handed over, and `--merge` of `checkout` and `switch` where there is\n\
         something to merge.",
    );
    let slow = slow(&repo);
    if !slow.is_empty() {
        console::out("\nSlower than need be:");
        slow.iter().for_each(|line| console::out(format!("    {line}")));
    }
    Ok(code)
}

/// Prints the native options of a command, or the reasons for which it is handed over.
fn report(command: &Command, reasons: &[Reason]) {
    console::out("");
    let native: Vec<String> = command.syntax.specs().iter().filter_map(|spec| spec.native_form()).collect();
    match (reasons, &native[..]) {
        ([], []) => console::out(format!("{}: native", command.name)),
        ([], options) => {
            console::out(format!("{}: native with", command.name));
            columns(options);
        }
        (reasons, _) => {
            console::out(format!("{}: handed over, because", command.name));
            reasons.iter().for_each(|reason| console::out(format!("    {reason}")));
        }
    }
}

/// Prints options, as many on a line as fit.
fn columns(options: &[String]) {
    const WIDTH: usize = 80;
    let mut line = String::from("   ");
    for name in options {
        if line.len() + name.len() + 1 > WIDTH {
            console::out(&line);
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(name);
    }
    console::out(line);
}

/// Settings that cost time, and what they cost.
fn slow(repo: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    if repo.config_int("checkout.workers").is_ok_and(|workers| workers == Some(1)) {
        found.push("checkout.workers=1: files are written one after the other".to_owned());
    }
    if repo.config_str("index.threads").is_some_and(|value| value == "1" || value == "false") {
        found.push("index.threads: the index is read by one thread".to_owned());
    }
    let synced = repo.config_all("core.fsync");
    if synced
        .iter()
        .any(|value| ["all", "index", "reference", "committed"].iter().any(|part| *value == *part))
    {
        found.push("core.fsync: commands wait for the disk".to_owned());
    }
    for name in repo.config_names() {
        let Some(filter) = name.strip_prefix(b"filter.").and_then(|rest| rest.strip_suffix(b".smudge"))
        else {
            continue;
        };
        let filter = String::from_utf8_lossy(filter);
        if repo.config_str(&format!("filter.{filter}.process")).is_none() {
            found.push(format!("filter.{filter} has no 'process': a program is started for each file"));
        }
    }
    let size = by_path::stat(&repo.index_path()).ok().flatten().map_or(0, |stat| stat.size);
    if size > LARGE_INDEX && !matches!(repo.config_bool("index.skipHash"), Ok(Some(true))) {
        found.push(format!(
            "index.skipHash is off: {} MB are hashed whenever the index is written",
            size >> 20
        ));
    }
    found
}

/// From here on hashing the index shows: some milliseconds.
const LARGE_INDEX: u64 = 4 << 20;
