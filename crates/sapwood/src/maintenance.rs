//! Starting `maintenance run --auto`, as Git does after a command that added objects.
//!
//! In a repository with workspaces, many commands ask for it at once. There one of them starts it,
//! and the next start is a minute later: see `is_due`. Nothing starts where it is certain that
//! there is no work: see `work`.

mod work;

use std::{
    io::Write as _,
    path::Path,
    process::Stdio,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString};
use engine::workspace::record;
use repo::{Repository, keys};
use sys::{File, by_path};

use crate::{Error, context::Context, notice::Notice, trace};

/// The output of the maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceOutput {
    /// Progress, if standard error is a terminal.
    Progress,
    /// None.
    Quiet,
}

/// Runs the real Git's automatic maintenance, unless the configuration turns it off or there is no
/// Git. Maintenance that has work to do continues in the background. Its failure does not affect
/// the command.
pub fn start_auto(context: Context<'_>, output: MaintenanceOutput) -> Result<(), Error> {
    start_with(context, output, &[])
}

/// Like [`start_auto`], with `settings` (`key=value`) for the maintenance.
pub fn start_with(
    context: Context<'_>,
    output: MaintenanceOutput,
    settings: &[BString],
) -> Result<(), Error> {
    let repo = context.repo;
    let is_on = match repo.config(&keys::maintenance::AUTO)? {
        Some(is_on) => is_on,
        None => repo.config(&keys::gc::AUTO)?.is_none_or(|threshold| threshold > 0),
    };
    if !is_on {
        return Ok(());
    }
    let detaches = match repo.config(&keys::maintenance::AUTO_DETACH)? {
        None => repo.config(&keys::gc::AUTO_DETACH)?,
        given => given,
    };
    let detaches = detaches.unwrap_or_else(|| {
        let value = repo.env().bytes("GIT_TEST_MAINT_AUTO_DETACH");
        value.and_then(|value| repo::parse_bool(Some(value))).unwrap_or(true)
    });
    if context.events.git().is_none() {
        return Ok(());
    }
    // Nobody gives the settings of one command again.
    if settings.is_empty() && (!work::is_possible(repo) || !is_due(repo)) {
        return Ok(());
    }
    let quiet = if output == MaintenanceOutput::Quiet { "--quiet" } else { "--no-quiet" };
    let detach = if detaches { "--detach" } else { "--no-detach" };
    let is_too_old =
        start(context, &["maintenance", "run", "--auto", quiet, detach], settings) == Ended::TooOld;
    if is_too_old {
        let args: &[&str] = match output {
            MaintenanceOutput::Quiet => &["gc", "--auto", "--quiet"],
            MaintenanceOutput::Progress => &["gc", "--auto"],
        };
        start(context, args, settings);
    }
    Ok(())
}

/// The shortest time between two starts in a repository with workspaces.
const INTERVAL: Duration = Duration::from_secs(60);

/// Returns true if maintenance may start now. Its work is not lost: the next command asks again.
///
/// Git's own lock lets only one run do the work, but each asks for it in a process of its own. So
/// in a repository with workspaces nothing starts while Git's lock exists, while another command
/// of sapwood changes a workspace, or within [`INTERVAL`] after a start. The file
/// `sapwood/maintenance` has the time of the last start, and the lock under which it is read.
fn is_due(repo: &Repository) -> bool {
    let common = repo.real_common_dir();
    let is_there = |path: &Path| matches!(by_path::stat(path), Ok(Some(_)));
    if !is_there(&record::directory(&common)) {
        return true;
    }
    if is_there(&repo.objects_dir().join("maintenance.lock")) {
        return false;
    }
    let path = common.join("sapwood/maintenance");
    // Where no file can be written, Git decides alone.
    let Ok(mut file) = by_path::lock_file(&path, 0o666) else { return true };
    let Ok(stat) = sys::stat_of(&file) else { return true };
    if !matches!(sys::try_lock(&file), Ok(true)) || is_recent(&file) || is_changing(&common) {
        return false;
    }
    // An empty file has no time of a start.
    let noted = if stat.size == 0 { file.write_all(b"\n") } else { by_path::touch(&path) };
    noted.is_ok()
}

/// Returns true if the last start was less than [`INTERVAL`] ago. A time in the future says
/// nothing.
fn is_recent(file: &File) -> bool {
    let Ok(stat) = sys::stat_of(file) else { return false };
    let started = UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.mtime.0).unwrap_or(0));
    stat.size > 0 && SystemTime::now().duration_since(started).is_ok_and(|since| since < INTERVAL)
}

/// Returns true if another command makes, moves, rebases or removes a workspace.
fn is_changing(common: &Path) -> bool {
    let all = record::directory(common);
    let is_locked = |file: File| matches!(sys::try_lock_shared(&file), Ok(false));
    let names = by_path::list(&all).unwrap_or_default();
    names.iter().any(|(name, _)| by_path::open(&all.join(name).join("lock")).is_ok_and(is_locked))
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

fn start(context: Context<'_>, args: &[&str], settings: &[BString]) -> Ended {
    let repo = context.repo;
    const WRONG_USAGE: i32 = 129;
    const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";
    let Some(mut git) = context.events.git() else { return Ended::Finished };
    context.events.before_program();
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
            context.events.notice(Notice::CannotRun("git".into(), sys::reason(&error)));
            return Ended::Finished;
        }
    };
    if ended.status.code() == Some(WRONG_USAGE) && args.contains(&"maintenance") {
        return Ended::TooOld;
    }
    if !ended.stderr.is_empty() {
        context.events.notice(Notice::Program(ended.stderr.into()));
    }
    Ended::Finished
}
