//! `sapwood ls-files`: the paths in the index, and other paths of the worktree. See
//! [`sapwood::ls_files`].

mod form;
mod request;
mod show;

use std::ops::ControlFlow;

use bstr::BString;
use repo::keys;
use sapwood::ls_files::{self, Listed};

use self::{request::Request, show::Show};
use crate::{
    commands::{
        obstacles::{ANSWERING, ATTRIBUTES_OF_PATHSPECS, LOOKING, partial, submodules::listed},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group},
        rules::When,
    },
    session::{Session, index, invocation::Invocation, settings::Settings, submodules},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `ls-files`.
pub(super) const COMMAND: Command = Command {
    name: "ls-files",
    summary: "Show information about files in the index and the working tree",
    about: "Lists paths of the index, and of the worktree: modified, deleted, untracked, ignored. The \
            worktree is scanned in parallel.",
    group: Group::Scripts,
    syntax: &request::TABLE,
    settings: &[LOOKING, &[(keys::attr::TREE.name(), When::Set)]],
    line: &[request::WRONG_TOGETHER, ATTRIBUTES_OF_PATHSPECS],
    checks: &[
        ANSWERING,
        &[
            Check::new("no worktree", worktree),
            Check::new(
                "with `--recurse-submodules`, obstacles in any submodule; with `--with-tree`, a partial clone",
                other_sources,
            ),
        ],
    ],
    run,
    ..Command::BASE
};

/// Detects a repository without a worktree.
fn worktree(candidate: &Candidate<'_>) -> Vec<Reason> {
    let missing = candidate.repo().work_tree().is_none();
    missing.then(|| Reason::repository("there is no worktree")).into_iter().collect()
}

/// Detects submodules and trees that the command lists in addition to the index.
fn other_sources(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let asked = candidate.survey.and_then(|survey| submodules::asked(survey).ok().flatten());
    let mut found = if asked == Some(true) { listed(repo) } else { Vec::new() };
    if candidate.has("--with-tree") {
        found.extend(partial(repo));
    }
    found
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let request = Request::parse(args)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_lookups();
    let context = Session { invocation: run, repository: &repo, settings: &settings }.context(run);
    let options = &request.options;
    let mut prepared = ls_files::prepare(context, options)?;
    let mut specs = paths::parse_or_here(run, &repo, &request.paths)?;
    if specs.ask_attributes() {
        let mut index = index::load_index(&repo, &settings)?;
        if !options.recurse {
            index = ls_files::for_attributes(index, &specs);
        }
        specs = paths::parse_or_here_by(run, &repo, &request.paths, index)?;
    }
    request.validate()?;
    prepared.add_tree(context, options)?;
    let mut show = Show::new(&repo, &settings, &request);
    let mut failed = None;
    let mut visit = |listed: Listed<'_>| match show.listed(&listed) {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            failed = Some(failure);
            ControlFlow::Break(())
        }
    };
    let listed = ls_files::list(context, options, prepared, &specs, &mut visit);
    let written = show.finish();
    failed.map_or(Ok(()), Err)?;
    let unmatched = listed?.unmatched;
    written?;
    run.interrupt.check()?;
    for spec in &unmatched {
        console::error(text!("pathspec '", spec, "' did not match any file(s) known to git"));
    }
    if unmatched.is_empty() {
        return Ok(0);
    }
    console::eprint_line("Did you forget to 'git add'?");
    Ok(1)
}
