//! `sapwood ci`: the worktree of a job on a runner, and its clean-up.
//!
//! The library decides the steps ([`sapwood::ci`]); commands of this program, called as `git`, do
//! them. Order: the options, the variables of the runner, the checkout, the outputs.

mod children;
mod inputs;
mod options;
mod runner;

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use sapwood::{
    UserPath,
    ci::{
        Access, Persist, Token,
        checkout::{self, Base, Clean, Files, History},
        cleanup,
    },
};
use serde_json::json;

use self::{
    children::Children,
    options::{CHECKOUT, CLEANUP, Request},
    runner::Runner,
};
use super::workspace::context::{json_path, print_json};
use crate::{
    commands::record::{Command, Group, Traits},
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `ci`.
pub(super) const COMMAND: Command = Command {
    name: "ci",
    summary: "Make the worktree of a job on a CI runner",
    about: "`checkout` makes the worktree of a job, with the inputs of actions/checkout as options. On GitHub, \
            GitLab, Buildkite and Jenkins the repository, the ref and the commit come from the variables of the \
            runner. A clone that an earlier job left in the directory is cleaned and used again; other content is \
            removed. Outside of a runner (`CI` is not `true`) nothing is removed without `--clean`: local changes \
            stay, no branch moves, and HEAD is detached.\n\n\
            With `sapwood.baseRemote` or `--base`, the contents of files come from a base: see sapwood-base(1).\n\n\
            A token is never on a command line: `--token-env` names a variable, `--token-file` a file. \
            `--persist-credentials` keeps it for the job, in a file outside of the worktree if the runner has a \
            place for one, and `cleanup` removes it.",
    group: Group::Own,
    subcommands: SUBCOMMANDS,
    ..Command::BASE
};

const OUTSIDE: Traits = Traits { outside: true, ..Command::BASE.traits };

const SUBCOMMANDS: &[Command] = &[
    Command {
        name: "ci checkout",
        summary: "Make the worktree of a job",
        syntax: &CHECKOUT,
        group: Group::Own,
        traits: OUTSIDE,
        run: check_out,
        ..Command::BASE
    },
    Command {
        name: "ci cleanup",
        summary: "Remove the credentials of a job from its worktree",
        syntax: &CLEANUP,
        group: Group::Own,
        traits: OUTSIDE,
        run: clean_up,
        ..Command::BASE
    },
];

/// Runs `ci checkout`. Returns its exit code.
fn check_out(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = CHECKOUT.parse(args)?.store(&mut request)?;
    if request.inputs {
        let given = inputs::arguments(run)?;
        words.extend(CHECKOUT.parse(&given)?.store(&mut request)?);
    }
    let runner = Runner::of(run);
    let job = job(run, &mut request, words, &runner)?;
    let dir = job.asked.dir.clone();
    let plan = checkout::plan((*run.env).clone(), job.asked)?;
    if request.dry_run {
        console::out(format!("Would {plan}"));
        return Ok(0);
    }
    let report = plan.run(&Children { run, hidden: &job.hidden, asks: !runner.is_ci })?;
    if let Some(file) = run.variable("GITHUB_OUTPUT").filter(|file| !file.is_empty()) {
        report.append_to(&run.path(file)?)?;
    }
    if request.json {
        print_json(&json!({
            "version": 1,
            "dir": json_path(&dir),
            "ref": report.reference.to_str_lossy(),
            "commit": report.commit.to_str_lossy(),
            "reused": report.reused,
            "credentials": report.credentials.as_deref().map(json_path),
        }));
    } else if !request.quiet {
        let at = dir.as_os_str().as_encoded_bytes();
        console::out(text!("checked out ", report.reference, " at ", report.commit, " in '", at, "'"));
    }
    Ok(0)
}

/// Runs `ci cleanup`. Returns its exit code.
fn clean_up(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = CLEANUP.parse(args)?.store(&mut request)?;
    let (given, extra) = (words.first(), words.get(1));
    if let Some(extra) = extra {
        return Err(Failure::fatal(text!("cleanup takes one directory, and so not '", extra, "'")));
    }
    let runner = Runner::of(run);
    let dir = directory(run, given.or(request.path.as_ref()), &runner)?;
    let report = cleanup::plan(cleanup::Request { dir, secrets: runner.secrets })?.run()?;
    for failure in report.failures.iter().chain(&report.abandoned) {
        console::error(failure.to_string());
    }
    if !request.quiet {
        console::out(format!("removed credentials: {} files, {} settings", report.files, report.configs));
    }
    Ok(if report.failures.is_empty() && report.abandoned.is_empty() { 0 } else { 1 })
}

/// A checkout that was asked for.
struct Job {
    asked: checkout::Request,
    /// The names of the variables that hold secrets.
    hidden: Vec<BString>,
}

/// Returns the checkout that the options and the runner describe.
fn job(
    run: &Invocation,
    request: &mut Request,
    words: Vec<BString>,
    runner: &Runner,
) -> Result<Job, Failure> {
    if words.len() > 1 {
        return Err(Failure::fatal("name at most one repository"));
    }
    let (url, is_own) = match (words.into_iter().next(), request.url(runner)) {
        (Some(url), _) => {
            let url = absolute(run, url)?;
            let is_own = runner.url.as_ref() == Some(&url);
            (url, is_own)
        }
        (None, Some(url)) => {
            let is_own = runner.url.as_ref() == Some(&url);
            (request.by_ssh(absolute(run, url)?), is_own)
        }
        (None, None) => {
            return Err(Failure::fatal("name the repository to check out: a URL, or --repository"));
        }
    };
    let dir = directory(run, request.path.as_ref(), runner)?;
    // The ref and the commit of the job are those of its own repository.
    let own = |value: &Option<BString>| value.clone().filter(|_| is_own);
    let (reference, commit) = match (request.reference.take(), request.commit.take()) {
        (None, None) => (own(&runner.reference), own(&runner.commit)),
        given => given,
    };
    let secrets = runner.secrets.clone().unwrap_or_else(|| dir.join(".git"));
    let (token, mut hidden) = token(run, request, runner)?;
    let (ssh, of_ssh) = request.ssh(run, secrets.clone())?;
    hidden.extend(of_ssh);
    let clean = match request.clean {
        Some(true) => Clean::Asked,
        Some(false) => Clean::Keep,
        None if runner.is_ci && (runner.workspace.is_some() || !checkout::lies_in_a_worktree(&dir)) => {
            Clean::Runner
        }
        None => Clean::Keep,
    };
    let configured =
        repo::StandaloneConfig::load(&run.outside())?.config_str(&repo::keys::sapwood::BASE_REMOTE);
    let persist =
        request.persist.then(|| Persist { dir: secrets, also: runner.secrets_in_containers.clone() });
    let asked = checkout::Request {
        dir,
        url,
        reference,
        commit,
        history: History {
            depth: request.depth.unwrap_or(1),
            tags: request.tags,
            filter: request.filter.clone(),
        },
        files: Files {
            sparse: request.sparse.clone(),
            cone: request.cone.unwrap_or(true),
            submodules: request.submodules,
            lfs: request.lfs,
        },
        access: Access { token, ssh },
        persist,
        clean,
        trusts_owner: request.safe_directory.unwrap_or(runner.is_ci),
        progress: if request.quiet { Some(false) } else { request.progress },
        base: Base {
            remote: request.base.clone().or(configured),
            dir: request.base_dir.clone(),
            branch: runner.branch.clone(),
        },
    };
    Ok(Job { asked, hidden })
}

/// Returns the directory of the checkout. On a runner it lies in the workspace of the job.
fn directory(run: &Invocation, given: Option<&BString>, runner: &Runner) -> Result<PathBuf, Failure> {
    let top = runner.workspace.as_deref().unwrap_or(&run.cwd);
    let given = given.filter(|given| !given.is_empty()).map(UserPath::new);
    Ok(checkout::directory(top, given.as_ref(), runner.workspace.is_some())?)
}

/// Makes the path of a repository on this machine absolute.
fn absolute(run: &Invocation, url: BString) -> Result<BString, Failure> {
    let is_path = url.starts_with(b"/") || url.starts_with(b".");
    if !is_path {
        return Ok(url);
    }
    Ok(run.path(&url)?.into_os_string().into_encoded_bytes().into())
}

/// Returns the token, and the names of the variables that hold it.
fn token(
    run: &Invocation,
    request: &Request,
    runner: &Runner,
) -> Result<(Option<Token>, Vec<BString>), Failure> {
    let user = request.token_user.clone().unwrap_or_else(|| runner.user.into());
    if let Some(file) = &request.token_file {
        return Ok((Token::read(user, &run.path(file)?)?, Vec::new()));
    }
    let given = request.token_env.clone();
    let Some(name) = given.clone().or_else(|| runner.token_variable.map(Into::into)) else {
        return Ok((None, Vec::new()));
    };
    match run.variable(&name.to_str_lossy()) {
        Some(secret) => Ok((Token::new(user, secret), vec![name])),
        None if given.is_some() => Err(Failure::fatal(text!("the variable '", name, "' is not set"))),
        None => Ok((None, Vec::new())),
    }
}
