//! The submodules of a clone, which Git's clone leaves to another command of Git.

use std::os::unix::process::ExitStatusExt as _;

use bstr::BString;
use engine::clone::Prepared;
use sapwood::clone::git_in;

use super::options::Submodules;
use crate::{
    commands::submodule,
    session::invocation::{Invocation, Program},
    term::{failure::Failure, text::os_str},
};

/// Clones the submodules of a clone whose worktree is filled: in this process, or by the real Git
/// if an option needs it. Returns Git's exit code.
pub(super) fn submodules(run: &Invocation, prepared: &Prepared, how: &Submodules) -> Result<u8, Failure> {
    let args = how.for_update();
    if run.program == Program::Sapwood
        && let Some(top) = prepared.work_tree()
    {
        let (leaf, rest) = submodule::COMMAND.leaf(&args)?;
        let survey = leaf.syntax.survey(&rest)?;
        if leaf.line_obstacle(&survey, &rest).is_none() {
            let within = run.elsewhere(top, prepared.git_dir())?;
            match (leaf.run)(&within, &rest) {
                Err(Failure::Unserved(_)) => {}
                done => return done,
            }
        }
    }
    let Some(mut git) = git_in(run, prepared.git_dir(), prepared.work_tree()) else {
        return Err(Failure::fatal("submodules need a git, and there is none"));
    };
    git.arg(submodule::COMMAND.name).args(args.iter().map(|arg| os_str(arg)));
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
