//! Native or not: the subcommands of `worktree`. As [`super::decide`], with what is particular to them: names that
//! mean several things, dates, and the worktree that is to be moved or removed.

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::names;
use format::ObjectId;
use repo::{Repository, Worktree};
use sys::{FileType, by_path};

use super::{
    Reason,
    decide::{first, open, unambiguous},
    obstacles,
    scope::Scope,
};
use crate::{
    commands::worktree::{basename, meant, open_worktree},
    git::Env,
    session::{invocation::Invocation, settings::expiry::expire_date},
    term::args::Survey,
};

/// Variables that change what a repository's files are.
const VARIABLES: &[&str] = &["GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"];

/// `Ok` if the subcommand is native in full; the repository is left open in `run`.
pub(super) fn decide(run: &mut Invocation, scope: &Scope, survey: &Survey) -> Result<(), Reason> {
    let subcommand = scope.names().1.unwrap_or_default();
    let arguments = match subcommand {
        "add" => 1..=2,
        "list" | "prune" => 0..=0,
        "move" => 2..=2,
        "repair" => 0..=usize::MAX,
        _ => 1..=1,
    };
    if !arguments.contains(&survey.rest.len()) {
        return Err(Reason::command_line("a wrong number of arguments"));
    }
    let repo = open(run)?;
    first(obstacles::settings(scope.command, &repo, &run.env))?;
    first(obstacles_of(&repo, &run.env))?;
    match subcommand {
        "add" => add(&repo, scope, survey)?,
        "list" | "prune" => shows(&repo, survey)?,
        "move" => {
            if let Some(worktree) = meant(run, &repo, survey.rest[0].as_bstr()) {
                first(obstacles::index_at(&worktree.git_dir.join("index"), &repo))?;
            }
        }
        "remove" => {
            if let Some(worktree) = meant(run, &repo, survey.rest[0].as_bstr()) {
                remove(run, &repo, &worktree)?;
            }
        }
        _ => {}
    }
    run.opened.set(Some(repo));
    Ok(())
}

/// What is against every subcommand.
pub(super) fn obstacles_of(repo: &Repository, env: &Env) -> Vec<Reason> {
    let set = |name: &&&str| env.contains_key(std::ffi::OsStr::new(name));
    let mut found: Vec<Reason> = VARIABLES.iter().filter(set).map(|name| Reason::Variable(name)).collect();
    if obstacles::some_head_is_a_link(repo) {
        found.push(Reason::repository("some HEAD is a symbolic link"));
    }
    found
}

fn add(repo: &Repository, scope: &Scope, survey: &Survey) -> Result<(), Reason> {
    let path = basename(survey.rest[0].as_bstr());
    if format::refname::sanitized(path).is_empty() {
        // Refused before anything is made.
        return Ok(());
    }
    first(obstacles::hooks(repo, obstacles::HOOKS_OF_WORKTREES))?;
    for word in scope.words(survey) {
        unambiguous(repo, word)?;
        let word = if word == "-" { BStr::new("@{-1}") } else { word };
        if !repo.ambiguous_names(word).is_ok_and(|names| names.is_empty()) {
            return Err(Reason::command_line(format!("'{word}' may mean several things")));
        }
        if let Ok(oid) = repo.rev_parse(word)
            && !matches!(repo.peel_to_commit(oid), Ok(Some(_)))
        {
            return Err(Reason::command_line(format!("'{word}' is not a commit")));
        }
    }
    let asked = survey.options.iter().filter(|given| matches!(given.name, "-b" | "-B"));
    let asked = asked.filter_map(|given| given.value.as_ref()).map(|name| name.as_bstr());
    let detached = survey.options.iter().any(|given| given.name == "--detach" && given.on);
    // The path names the branch where nobody else does, and its directory always.
    let mut names: Vec<&BStr> = asked.collect();
    if names.is_empty() && survey.rest.len() == 1 && !detached {
        names.push(path);
    }
    if let Some(name) = names.into_iter().find(|name| !is_only_a_branch(repo, name)) {
        return Err(Reason::command_line(format!("'{name}' may be more, or less, than a branch")));
    }
    if path == ".." || path == "." {
        return Err(Reason::command_line(format!("'{path}' as the name of a worktree")));
    }
    let kinds = [None, Some("direct"), Some("inherit")];
    let tracks = survey.options.iter().filter(|given| given.name == "--track");
    match tracks.into_iter().all(|given| {
        kinds.iter().any(|kind| given.value.as_ref().map(|value| value.as_bstr()) == kind.map(BStr::new))
    }) {
        true => Ok(()),
        false => Err(Reason::command_line("an unknown way to track")),
    }
}

/// Whether a branch can be called so, and nothing else is.
fn is_only_a_branch(repo: &Repository, name: &BStr) -> bool {
    let full = BString::from([names::BRANCHES, name].concat());
    let hex = name.len() >= repo.hash().hex_len() && ObjectId::from_hex(repo.hash(), name).is_some();
    let other = repo.expand_ref(name).ok().flatten().is_some_and(|(found, _)| found != full);
    let several = !repo.ambiguous_names(name).is_ok_and(|names| names.is_empty());
    let is_meant = names::branch_ref(repo, name).is_ok_and(|meant| meant.as_ref() == Some(&full));
    is_meant && !hex && !other && !several
}

fn shows(repo: &Repository, survey: &Survey) -> Result<(), Reason> {
    let dates = survey.options.iter().filter(|given| given.name == "--expire");
    for date in dates.filter_map(|given| given.value.as_ref()) {
        if expire_date(date.as_bstr()).is_none() {
            return Err(Reason::command_line("a date that sapwood does not read"));
        }
    }
    // How wide a letter is shown is Git's to know.
    let wide = |worktree: &Worktree| !worktree.path.as_os_str().is_ascii();
    let quoted = repo.config_bool("core.quotePath").ok().flatten().unwrap_or(true);
    match !quoted && repo.worktrees().is_ok_and(|all| all.iter().any(wide)) {
        true => Err(Reason::repository("a path that is not ASCII, and core.quotePath=false")),
        false => Ok(()),
    }
}

fn remove(run: &Invocation, repo: &Repository, worktree: &Worktree) -> Result<(), Reason> {
    let is =
        |file_type| matches!(by_path::stat(&worktree.path), Ok(Some(stat)) if stat.file_type == file_type);
    if worktree.id.is_none() {
        // Refused, wherever it is.
        return Ok(());
    }
    if !is(FileType::Directory) && !is(FileType::Symlink) {
        return Ok(());
    }
    first(obstacles::index_at(&worktree.git_dir.join("index"), repo))?;
    // It may be configured in another way than this one. One that cannot be opened is refused, not looked into.
    match open_worktree(run, worktree) {
        Ok(other) => first(obstacles::settings("worktree remove", &other, &run.env)),
        Err(_) => Ok(()),
    }
}
