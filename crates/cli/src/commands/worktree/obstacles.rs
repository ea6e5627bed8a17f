//! Reasons to leave a subcommand of `worktree` to the real Git: ambiguous names, dates, and states
//! of the worktree to move or remove.

use bstr::{BStr, BString, ByteSlice as _};
use engine::switch::names;
use repo::{Repository, Worktree, keys};
use sapwood::{
    FileType, ObjectId,
    worktree::{
        add::{basename, default_name},
        records::open_worktree,
    },
};

use super::context::meant;
use crate::{
    commands::{
        obstacles::{
            CONFIGURED_HOOKS, GENERAL, RULES, ambiguous, hooks, index_at, settings_in, some_head_is_a_link,
        },
        reason::Reason,
        record::{Candidate, Check},
        rules::{Setting, When},
    },
    session::settings::expiry::expire_date,
    term::{args::Survey, files},
};

/// Variables that change the location of a repository's files.
const PLACES: &[&str] = &["GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"];

/// Settings that affect adding or removing a worktree.
const FILLING: &[Setting] = &[
    (keys::core::IGNORE_CASE.name(), When::True),
    (keys::core::SPLIT_INDEX.name(), When::True),
    (keys::hook::ALL_SETTINGS.name(), When::Set),
];

/// The settings for [`add`](super::add) and [`remove`](super::remove).
pub(super) const FILES: &[&[Setting]] = &[GENERAL, FILLING];

/// The settings for subcommands that change or show only the repository's records of its worktrees.
pub(super) const RECORDS: &[&[Setting]] = &[&[
    (keys::color::ADVICE_ALL.name(), When::Set),
    (keys::core::FSYNC_OBJECT_FILES.name(), When::Set),
    (keys::core::IGNORE_CASE.name(), When::True),
    (keys::trace2::ALL_SETTINGS.name(), When::Set),
]];

/// Checks of the subcommands that change or show only the repository's records of its worktrees.
pub(super) const RECORDING: &[Check] = &[RULES, PLACE];

/// Checks of the subcommands that write or delete files.
pub(super) const FILLING_CHECKS: &[Check] = &[RULES, CONFIGURED_HOOKS, PLACE];

const PLACE: Check = Check::new(
    "`GIT_INDEX_FILE`, `GIT_COMMON_DIR` or `GIT_NAMESPACE`; a HEAD that is a symbolic link",
    place,
);

/// Checks of `worktree add`.
pub(super) const ADDING: &[Check] = &[
    Check::new("a hook `reference-transaction` or `post-index-change`", hooks_of_add),
    Check::new(
        "a commit or branch whose name is ambiguous or wrong; `.` and `..` as the last part of the path; \
         an unknown value of `--track`",
        add,
    ),
];

/// The dates and paths of `worktree list` and `worktree prune`.
pub(super) const LIST: Check = Check::new(
    "a date of `--expire` but `never`, `now` and `<n>.<unit>.ago` (seconds to weeks); a path that is not \
     ASCII with `core.quotePath=false`",
    list,
);

/// The index of the worktree in `worktree move`.
pub(super) const RELOCATE: Check = Check::new("an index of the worktree that cannot be read", relocate);

/// The worktree in `worktree remove`.
pub(super) const REMOVE: Check = Check::new(
    "an index of the worktree that cannot be read; in its own configuration, a hook or setting of this page",
    remove,
);

/// Detects a number of arguments outside `MIN..=MAX`.
pub(super) fn arguments<const MIN: usize, const MAX: usize>(
    survey: &Survey,
    _: &[BString],
) -> Option<Reason> {
    let wrong = !(MIN..=MAX).contains(&survey.rest.len());
    wrong.then(|| Reason::command_line("a wrong number of arguments"))
}

/// Detects a commit that is named by an index entry.
pub(super) fn index_entries(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let named = survey.rest.iter().skip(1).any(|word| word.starts_with(b":"));
    named.then(|| Reason::command_line("an argument that may look into the index"))
}

/// Detects variables and links that change the location of the records of worktrees.
fn place(candidate: &Candidate<'_>) -> Vec<Reason> {
    let set = |name: &&&str| candidate.run.env.contains_key(std::ffi::OsStr::new(name));
    let mut found: Vec<Reason> = PLACES.iter().filter(set).map(|name| Reason::Variable(name)).collect();
    if some_head_is_a_link(candidate.repo()) {
        found.push(Reason::repository("some HEAD is a symbolic link"));
    }
    found
}

/// Detects hooks that Git runs in a child process when it adds a worktree.
fn hooks_of_add(candidate: &Candidate<'_>) -> Vec<Reason> {
    hooks::present(candidate.repo(), hooks::HOOKS_OF_WORKTREES)
}

/// Checks the names in `worktree add`.
fn add(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    examine_add(candidate, survey).err().into_iter().collect()
}

/// Checks the dates and the paths in `worktree list` and `worktree prune`.
fn list(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    examine_list(candidate.repo(), survey).err().into_iter().collect()
}

/// Checks the index of the worktree in `worktree move`.
fn relocate(candidate: &Candidate<'_>) -> Vec<Reason> {
    let found = named(candidate);
    found.map_or_else(Vec::new, |worktree| index_at(&worktree.git_dir.join("index"), candidate.repo()))
}

/// Checks the worktree in `worktree remove`.
fn remove(candidate: &Candidate<'_>) -> Vec<Reason> {
    named(candidate).and_then(|worktree| examine_removal(candidate, &worktree).err()).into_iter().collect()
}

fn named(candidate: &Candidate<'_>) -> Option<Worktree> {
    let word = candidate.survey?.rest.first()?;
    meant(candidate.run, candidate.repo(), word.as_bstr())
}

fn first(reasons: Vec<Reason>) -> Result<(), Reason> {
    reasons.into_iter().next().map_or(Ok(()), Err)
}

fn examine_add(candidate: &Candidate<'_>, survey: &Survey) -> Result<(), Reason> {
    let repo = candidate.repo();
    let path = basename(survey.rest[0].as_bstr());
    if default_name(path).is_empty() {
        // The command refuses this before it creates anything.
        return Ok(());
    }
    for word in candidate.command.words(survey) {
        ambiguous(repo, word).map_or(Ok(()), Err)?;
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
    // The path determines the directory, and also the branch unless an option or the commit does.
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
    if tracks.into_iter().all(|given| {
        kinds.iter().any(|kind| given.value.as_ref().map(|value| value.as_bstr()) == kind.map(BStr::new))
    }) {
        Ok(())
    } else {
        Err(Reason::command_line("an unknown way to track"))
    }
}

/// Returns true if `name` is valid for a branch, and not ambiguous.
fn is_only_a_branch(repo: &Repository, name: &BStr) -> bool {
    let full = BString::from([names::BRANCHES, name].concat());
    let hex = name.len() >= repo.hash().hex_len() && ObjectId::from_hex(repo.hash(), name).is_some();
    let other = repo.expand_ref(name).ok().flatten().is_some_and(|(found, _)| found != full);
    let several = !repo.ambiguous_names(name).is_ok_and(|names| names.is_empty());
    let is_meant = names::branch_ref(repo, name).is_ok_and(|meant| meant.as_ref() == Some(&full));
    is_meant && !hex && !other && !several
}

fn examine_list(repo: &Repository, survey: &Survey) -> Result<(), Reason> {
    let dates = survey.options.iter().filter(|given| given.name == "--expire");
    for date in dates.filter_map(|given| given.value.as_ref()) {
        if expire_date(date.as_bstr()).is_none() {
            return Err(Reason::command_line("a date that sapwood does not read"));
        }
    }
    // The width of non-ASCII characters is unknown here.
    let wide = |worktree: &Worktree| !worktree.path.as_os_str().is_ascii();
    let quoted = repo.config(&keys::core::QUOTE_PATH).unwrap_or(true);
    if !quoted && repo.worktrees().is_ok_and(|all| all.iter().any(wide)) {
        Err(Reason::repository("a path that is not ASCII, and core.quotePath=false"))
    } else {
        Ok(())
    }
}

fn examine_removal(candidate: &Candidate<'_>, worktree: &Worktree) -> Result<(), Reason> {
    let is = |file_type| matches!(files::stat(&worktree.path), Ok(Some(stat)) if stat.file_type == file_type);
    if worktree.id.is_none() {
        // The command refuses this in any case.
        return Ok(());
    }
    if !is(FileType::Directory) && !is(FileType::Symlink) {
        return Ok(());
    }
    first(index_at(&worktree.git_dir.join("index"), candidate.repo()))?;
    // The worktree may have its own settings. A worktree that cannot be opened is refused later.
    match open_worktree(candidate.repo(), worktree) {
        Ok(other) => {
            let mut found = settings_in(&other, candidate.command.settings, candidate.command.family());
            found.extend(hooks::configured_in(&other));
            first(found)
        }
        Err(_) => Ok(()),
    }
}
