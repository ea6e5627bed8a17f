//! Starting `maintenance run --auto`, as Git does after a command that added objects.

use std::process::Stdio;

use bstr::{BStr, BString};
use engine::workspace::record;
use repo::Repository;

use crate::{
    session::{invocation::Invocation, real_git, trace},
    term::{console, failure::Failure},
};

/// The output of the maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceOutput {
    Progress,
    Quiet,
}

/// Runs the real Git's automatic maintenance, unless the configuration turns it off. If it has work
/// to do, it continues in the background. Its failure does not affect the command.
pub(crate) fn start_auto(
    run: &Invocation,
    repo: &Repository,
    output: MaintenanceOutput,
) -> Result<(), Failure> {
    start_with(run, repo, output, &[])
}

/// Like [`start_auto`], with `settings` (`key=value`) for the maintenance.
pub(crate) fn start_with(
    run: &Invocation,
    repo: &Repository,
    output: MaintenanceOutput,
    settings: &[BString],
) -> Result<(), Failure> {
    let is_on = match repo.config_bool("maintenance.auto")? {
        Some(is_on) => is_on,
        None => repo.config_int("gc.auto")?.is_none_or(|threshold| threshold > 0),
    };
    if !is_on {
        return Ok(());
    }
    let detaches = match repo.config_bool("maintenance.autoDetach")? {
        None => repo.config_bool("gc.autoDetach")?,
        given => given,
    };
    let detaches = detaches.unwrap_or_else(|| {
        let value = run.variable("GIT_TEST_MAINT_AUTO_DETACH");
        value.and_then(|value| repo::parse_bool(Some(value.into()))).unwrap_or(true)
    });
    let quiet = if output == MaintenanceOutput::Quiet { "--quiet" } else { "--no-quiet" };
    let detach = if detaches { "--detach" } else { "--no-detach" };
    let is_too_old =
        start(run, repo, &["maintenance", "run", "--auto", quiet, detach], settings) == Ended::TooOld;
    if is_too_old {
        let args: &[&str] = match output {
            MaintenanceOutput::Quiet => &["gc", "--auto", "--quiet"],
            MaintenanceOutput::Progress => &["gc", "--auto"],
        };
        start(run, repo, args, settings);
    }
    Ok(())
}

/// Git's variables that describe one worktree.
const OF_WORKTREE: [&str; 4] = ["GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_IMPLICIT_WORK_TREE"];

/// Returns true if the current worktree is a workspace that can be unmounted. If variables give
/// paths of the repository, which may be relative, Git's current directory must not change.
fn is_in_mounted_workspace(repo: &Repository) -> bool {
    const PATHS: [&str; 3] = ["GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"];
    PATHS.iter().all(|name| !repo.env().is_set(name))
        && matches!(
            record::of_git_dir(repo.common_dir(), repo.git_dir()),
            Ok(Some(workspace)) if workspace.record.backend.has_upper()
        )
}

/// How the real Git ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Finished,
    /// Git lacks `--detach`: it is older than 2.47.
    TooOld,
}

fn start(run: &Invocation, repo: &Repository, args: &[&str], settings: &[BString]) -> Ended {
    const WRONG_USAGE: i32 = 129;
    const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";
    let Some(mut git) = real_git::command(run) else { return Ended::Finished };
    console::flush();
    trace::child("?", &[&["git"], args].concat());
    let env = repo.child_env();
    let before = env.iter().find(|(name, _)| name == PARAMETERS);
    let before = before.map(|(_, value)| BStr::new(value.as_encoded_bytes()));
    let parameters = repo::config_parameters(before, settings);
    git.args(args).envs(env.clone()).current_dir(repo.child_dir()).stderr(Stdio::piped());
    if is_in_mounted_workspace(repo) {
        // Maintenance stays in the background, and its current directory would keep the workspace
        // from being unmounted. It works on the common directory only.
        for name in OF_WORKTREE {
            git.env_remove(name);
        }
        git.env("GIT_DIR", repo.real_common_dir()).current_dir(repo.real_common_dir());
    }
    if let Some(parameters) = parameters {
        git.env(PARAMETERS, parameters);
    }
    let ended = match git.spawn().and_then(|child| child.wait_with_output()) {
        Ok(ended) => ended,
        Err(error) => {
            console::error(format!("cannot run git: {}", crate::term::text::os_error(&error)));
            return Ended::Finished;
        }
    };
    if ended.status.code() == Some(WRONG_USAGE) && args.contains(&"maintenance") {
        return Ended::TooOld;
    }
    console::eprint_raw(&ended.stderr);
    Ended::Finished
}
