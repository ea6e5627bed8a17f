//! `checkout [<tree>] -- <paths>` and `restore`: [`sapwood::restore`], with its result reported.

use bstr::BString;
use engine::pathspec::Pathspecs;
use repo::Repository;
use sapwood::restore::{self, unmerged};

use crate::{
    commands::checkout::request::{Request, Source, Variant},
    session::{Session, invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::{Failure, refused_with},
        notice,
    },
};

/// The targets to restore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    pub(crate) index: bool,
    pub(crate) worktree: bool,
}

/// Runs the command. Returns the exit code.
pub(crate) fn run(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: &Request,
    source: Option<&Source>,
    specs: Pathspecs,
    targets: Targets,
) -> Result<u8, Failure> {
    let context = Session { invocation: run, repository: repo, settings }.context(run);
    let wanted = restore::Request {
        source: None,
        pathspecs: specs,
        index: targets.index,
        worktree: targets.worktree,
        overlay: request.overlay.unwrap_or(request.variant == Variant::Checkout),
        include_sparse: request.ignore_skip_worktree,
        side: request.side,
        ignore_unmerged: request.ignore_unmerged,
        recurse_submodules: request.recurse,
        keep: run.original_cwd(repo),
        progress: request.shows_progress(),
    };
    let report = |paths: &[BString]| {
        paths
            .iter()
            .filter(|_| !request.quiet)
            .for_each(|path| console::warning(unmerged(path, request.side)));
        if source.is_none() {
            notice::print_object_store_errors(repo);
        }
    };
    if request.dry_run {
        let preview = restore::preview(context, wanted, source.cloned()).map_err(refused_with(1))?;
        report(preview.unmerged());
        console::out(preview.check()?.to_string().trim_end());
        return Ok(0);
    }
    let prepared = restore::prepare(context, wanted, source.cloned()).map_err(refused_with(1))?;
    report(prepared.unmerged());
    let mut executed = prepared.execute()?;
    if targets.worktree && request.count_paths && !executed.is_stopped() {
        let written = executed.report().written;
        let paths = format!("Updated {written} path{} from ", if written == 1 { "" } else { "s" });
        console::eprint_line(match source {
            Some(source) => text!(paths, repo.abbreviate(source.tree)?),
            None => text!(paths, "the index"),
        });
    }
    executed.record()?;
    let report = executed.run_hook()?;
    // Git's exit code is -1.
    Ok(if report.is_incomplete { 255 } else { 0 } | report.hook)
}
