//! `sapwood doctor`: what is native in a repository, what is not and why, and what slows it down.
//!
//! Only looks. The reasons come from the same tables that decide ([`super::scope`],
//! [`super::obstacles`]).

use repo::Repository;
use sys::by_path;

use super::{
    Reason, install,
    obstacles::{self, Config},
    scope::{First, SCOPES, Scope},
    submodules, worktree,
};
use crate::{
    git::Find,
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// Runs it. The exit code is 0 if nothing that is native in part is handed over for the repository's sake.
pub(crate) fn run(run: &Invocation) -> Result<u8, Failure> {
    if !run.args.is_empty() {
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
    let mut code = 0;
    for scope in SCOPES {
        let reasons = reasons(scope, run, &repo)?;
        console::out("");
        if reasons.is_empty() {
            match scope.options {
                [] => console::out(format!("{}: native", scope.command)),
                _ => {
                    console::out(format!("{}: native with", scope.command));
                    options(scope);
                }
            }
        } else {
            code = 1;
            console::out(format!("{}: handed over, because", scope.command));
            reasons.iter().for_each(|reason| console::out(format!("    {reason}")));
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

fn reasons(scope: &Scope, run: &Invocation, repo: &Repository) -> Result<Vec<Reason>, Failure> {
    if scope.command == "clone" {
        let outside = repo::Outside::load(&run.outside())?;
        return Ok(obstacles::settings(scope.command, &outside, &run.env));
    }
    let mut reasons = obstacles::settings(scope.command, repo, &run.env);
    if scope.first == First::Worktree {
        reasons.extend(worktree::obstacles_of(repo, &run.env));
        return Ok(reasons);
    }
    if scope.command != "clean" {
        reasons.extend(obstacles::files(repo));
    }
    reasons.extend(obstacles::index(scope.command, repo, &run.env));
    match submodules::go_along(scope.command, None, repo) {
        Ok(true) => reasons.extend(submodules::recursion(repo, &run.env)),
        Ok(false) => {}
        Err(reason) => reasons.push(reason),
    }
    Ok(reasons)
}

/// The native options, a few on each line.
fn options(scope: &Scope) {
    const WIDTH: usize = 80;
    let mut line = String::from("   ");
    for native in scope.options {
        let name = native.spelt();
        if line.len() + name.len() + 1 > WIDTH {
            console::out(&line);
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(&name);
    }
    console::out(line);
}

/// Settings that cost time, and what they cost.
fn slow(repo: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    if repo.config_int("checkout.workers").is_ok_and(|workers| workers == Some(1)) {
        found.push("checkout.workers=1: files are written one after the other".to_owned());
    }
    if repo.value("index.threads").is_some_and(|value| value == "1" || value == "false") {
        found.push("index.threads: the index is read by one thread".to_owned());
    }
    let synced = repo.config_all("core.fsync");
    if synced
        .iter()
        .any(|value| ["all", "index", "reference", "committed"].iter().any(|part| *value == *part))
    {
        found.push("core.fsync: commands wait for the disk".to_owned());
    }
    for name in repo.names() {
        let Some(filter) = name.strip_prefix(b"filter.").and_then(|rest| rest.strip_suffix(b".smudge"))
        else {
            continue;
        };
        let filter = String::from_utf8_lossy(filter);
        if repo.value(&format!("filter.{filter}.process")).is_none() {
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
