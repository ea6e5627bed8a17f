//! The parts of a clone that Git's clone leaves to other commands of Git.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Stdio},
};

use bstr::BString;
use engine::clone::{Cloned, HelperCommand, Prepared};

use super::options::Submodules;
use crate::{
    commands::submodule,
    session::{
        invocation::{Invocation, Program},
        real_git,
    },
    term::{console, failure::Failure},
};

/// Runs the helper command in the new repository. Returns true if it succeeds; Git prints the
/// errors.
pub(super) fn run(run: &Invocation, prepared: &Prepared, errand: HelperCommand) -> bool {
    let Some(mut git) = here(run, prepared.git_dir(), prepared.work_tree()) else { return false };
    match errand {
        HelperCommand::Repack => git.args(["repack", "-a", "-d"]).stdin(Stdio::null()),
        HelperCommand::Sparse => git.args(["sparse-checkout", "set"]),
    };
    let done = git.status().is_ok_and(|status| status.success());
    if errand == HelperCommand::Sparse && !done {
        console::error("failed to initialize sparse-checkout");
    }
    done
}

/// Clones the submodules of a clone whose worktree is filled: in this process, or by the real Git
/// if an option needs it. Returns Git's exit code.
pub(super) fn submodules(run: &Invocation, cloned: &Cloned, how: &Submodules) -> Result<u8, Failure> {
    let args = how.for_update();
    if run.program == Program::Sapwood
        && let Some(top) = &cloned.work_tree
    {
        let (leaf, rest) = submodule::COMMAND.leaf(&args)?;
        let survey = leaf.syntax.survey(rest)?;
        if leaf.line_obstacle(&survey, rest).is_none() {
            let within = run.elsewhere(top, &cloned.git_dir)?;
            match (leaf.run)(&within, rest) {
                Err(Failure::Unserved(_)) => {}
                done => return done,
            }
        }
    }
    let Some(mut git) = here(run, &cloned.git_dir, cloned.work_tree.as_deref()) else {
        return Err(Failure::fatal("submodules need a git, and there is none"));
    };
    git.arg(submodule::COMMAND.name).args(args.iter().map(|arg| sys::os_str(arg)));
    let status =
        git.status().map_err(|error| Failure::fatal(format!("cannot run git submodule: {error}")))?;
    let signal = || 128 + status.signal().unwrap_or(0);
    Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1))
}

impl Submodules {
    /// The arguments of `submodule` that do what was asked.
    fn for_update(&self) -> Vec<BString> {
        let mut args: Vec<BString> = vec!["update".into(), "--require-init".into(), "--recursive".into()];
        let mut add = |wanted: bool, option: &str| {
            if wanted {
                args.push(option.into());
            }
        };
        add(self.shallow, "--depth=1");
        if let Some(jobs) = &self.jobs {
            add(true, &format!("--jobs={jobs}"));
        }
        add(self.progress, "--progress");
        add(self.quiet, "--quiet");
        add(self.remote, "--remote");
        add(self.remote, "--no-fetch");
        if let Some(format) = self.ref_format {
            add(true, &format!("--ref-format={format}"));
        }
        if let Some(filter) = &self.filter {
            add(true, &format!("--filter={filter}"));
        }
        add(self.single_branch, "--single-branch");
        add(!self.single_branch, "--no-single-branch");
        args
    }
}

/// The real Git in a repository.
fn here(run: &Invocation, git_dir: &Path, work_tree: Option<&Path>) -> Option<Command> {
    let mut git = real_git::command(run)?;
    git.env("GIT_DIR", git_dir).env_remove("GIT_WORK_TREE");
    if let Some(work_tree) = work_tree {
        git.current_dir(work_tree).env("GIT_WORK_TREE", ".");
    }
    console::flush();
    Some(git)
}
