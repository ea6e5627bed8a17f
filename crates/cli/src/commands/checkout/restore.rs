//! `checkout [<tree>] -- <paths>` and `restore`: paths of the worktree, the index or both, from a
//! tree or from the index.

use crate::{
    commands::checkout::request::{Request, Source, Variant},
    session::{
        Session,
        apply::{Done, Recorded, Start, Transaction},
        hooks,
        invocation::Invocation,
        settings::Settings,
        sparse_index, submodules,
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};
use engine::{
    checkout::{Attributes, ConflictSide, Operation, PathOptions, PathPlan, plan_paths},
    pathspec::Pathspecs,
    sparse::Purpose,
};
use format::index::Index;
use repo::Repository;

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
    specs: &Pathspecs,
    targets: Targets,
) -> Result<u8, Failure> {
    if !targets.index && !targets.worktree {
        return Err(Failure::fatal("neither '--staged' or '--worktree' is specified"));
    }
    if !targets.worktree && source.is_none() {
        return Err(Failure::fatal("'--worktree' must be used when '--source' is not specified"));
    }
    let mut transaction = Transaction::start(
        Session { invocation: run, repository: repo, settings },
        Start::Sparse { dry_run: request.dry_run },
    )?;
    transaction.policy.progress = request.shows_progress();
    transaction.policy.recurses = targets.worktree && submodules::wanted(request.recurse, repo)?;
    transaction.policy.attributes = Attributes::OfWorktree;
    transaction.policy.metadata = source.map(|source| source.metadata.clone()).unwrap_or_default();
    let options = PathOptions {
        source: source.map(|source| source.tree),
        pathspecs: specs,
        overlay: request.overlay.unwrap_or(request.variant == Variant::Checkout),
        update_worktree: targets.worktree,
        include_sparse: request.ignore_skip_worktree,
        recurse_submodules: transaction.policy.recurses,
        side: request.side,
    };
    let whole = match source {
        _ if options.include_sparse => Purpose::Files,
        None => Purpose::None,
        Some(source) if options.overlay => Purpose::Compare(source.tree),
        Some(source) => Purpose::OneWay(source.tree),
    };
    let patterns = transaction.state.before.is_some().then(|| transaction.patterns()).transpose()?.flatten();
    transaction.expand_for(patterns.as_deref(), &|dir| specs.purpose(dir, whole))?;
    let index = std::mem::replace(&mut transaction.index, Index::empty(repo.hash()));
    let planned = plan_paths(repo, transaction.worktree(), index, &options)
        .map_err(|error| transaction.explain(error.into(), Operation::Plumbing, 1))?;
    let PathPlan { mut plan, invalid, unmatched, unmerged } = planned;
    match (&transaction.state.before, source) {
        (Some(before), Some(_)) if !options.overlay => sparse_index::keep_out(before, &mut plan),
        _ => transaction.changes_collapsed(&plan.index)?,
    }
    for path in &invalid {
        console::error(text!("invalid path '", path, "'"));
    }
    for spec in &unmatched {
        console::error(text!("pathspec '", spec, "' did not match any file(s) known to git"));
    }
    if !unmatched.is_empty() {
        return Err(Failure::Reported(1));
    }
    for path in &unmerged {
        let line = match request.side {
            None => text!("path '", path, "' is unmerged"),
            Some(ConflictSide::Ours) => text!("path '", path, "' does not have our version"),
            Some(ConflictSide::Theirs) => text!("path '", path, "' does not have their version"),
        };
        match request.ignore_unmerged {
            true if request.quiet => {}
            true => console::warning(line),
            false => console::error(line),
        }
    }
    if !unmerged.is_empty() && !request.ignore_unmerged {
        return Err(Failure::Reported(1));
    }
    if source.is_none() {
        console::print_object_store_errors(repo);
    }
    let mut code = 0;
    match transaction.carry_out(plan)? {
        Done::Planned => return Ok(0),
        Done::Complete => {}
        // Git's exit code is -1.
        Done::Incomplete | Done::Unfinished => code = 255,
    }
    if targets.worktree && request.count_paths && !transaction.report.stopped {
        let written = transaction.report.written;
        let paths = format!("Updated {written} path{} from ", if written == 1 { "" } else { "s" });
        console::eprint_line(match source {
            Some(source) => text!(paths, repo.abbreviate(source.tree)?),
            None => text!(paths, "the index"),
        });
    }
    // A restore from the index changes only its stat data.
    let recorded = match targets.index || source.is_none() {
        true => Recorded::Yes,
        false => Recorded::No,
    };
    transaction.finish(recorded)?;
    let head = repo.head()?.oid();
    Ok(code | hooks::post_checkout(repo, settings, head, head, false)?)
}
