//! Reasons to leave `checkout`, `switch` and `restore` to the real Git: merges of local changes.

use bstr::{BStr, BString, ByteSlice as _};

use super::request::is_conflict_style;
use crate::{
    commands::{
        checkout::branch,
        obstacles::{partial, submodules},
        reason::Reason,
        record::{Candidate, Check, LineCheck},
    },
    term::args::{Given, Survey},
};

/// Checks the options for conflicts.
pub(super) const CONFLICTS: LineCheck = LineCheck::new(
    "`-m` and `--conflict` with paths, without a branch, or beside options that go without a merge; an \
     unknown style of conflicts; a side of conflicts beside `--ignore-unmerged`",
    conflicts,
);

/// Checks a switch with `-m`.
pub(super) const MERGE: Check = Check::new("`-m` and `--conflict` where something must be merged", merge);

/// Forms of `--merge`, `--conflict`, `--ours` and `--theirs` that are not native. sapwood serves a
/// switch to one named branch or commit, and a checkout of one side.
fn conflicts(survey: &Survey, _: &[BString]) -> Option<Reason> {
    const BESIDE_MERGE: &[&str] = &[
        "-b",
        "-B",
        "-l",
        "--conflict",
        "--create",
        "--detach",
        "--force-create",
        "--guess",
        "--merge",
        "--progress",
        "--quiet",
        "--track",
    ];
    let given = |name: &str| survey.options.iter().any(|given| given.name == name);
    let mut styles = survey.options.iter().filter(|given| given.name == "--conflict" && given.on);
    if styles.any(|given| !given.value.as_ref().is_some_and(|style| is_conflict_style(style))) {
        return Some(Reason::command_line("an unknown style of conflicts"));
    }
    if (given("--ours") || given("--theirs")) && given("--ignore-unmerged") {
        return Some(Reason::command_line("--ignore-unmerged with a side of conflicts"));
    }
    let merges =
        survey.options.iter().find(|given| given.on && matches!(given.name, "--merge" | "--conflict"))?;
    let beside = survey.options.iter().all(|given| BESIDE_MERGE.contains(&given.name));
    match (merged_with(survey), beside) {
        (Some(_), true) => None,
        _ => Some(Reason::Option(merges.name.to_owned())),
    }
}

/// Returns the branch or commit to switch to with `--merge`.
fn merged_with(survey: &Survey) -> Option<&BStr> {
    let merges = |given: &Given| given.on && matches!(given.name, "--merge" | "--conflict");
    match &survey.rest[..] {
        _ if !survey.options.iter().any(merges) => None,
        [name] if name != "--" => Some(name.as_bstr()),
        [name, dashes] if name != "--" && dashes == "--" => Some(name.as_bstr()),
        _ => None,
    }
}

/// Returns no reason if `-m` has nothing to merge, which is a plain switch. The switch is planned
/// in a repository opened for that alone, so that the command prints its warnings once.
fn merge(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(name) = candidate.survey.and_then(merged_with) else { return Vec::new() };
    // Planning may fetch objects, and nothing may be fetched before the decision.
    let partial = partial(candidate.repo());
    if !partial.is_empty() {
        return partial;
    }
    if submodules::are_included(candidate) == Ok(true) {
        return vec![Reason::command_line("'--merge' with submodules that go along")];
    }
    let run = candidate.run;
    vec![match run.open().and_then(|repo| branch::needs_a_merge(run, &repo, name)) {
        Ok(Some(false)) => return Vec::new(),
        Ok(Some(true)) => Reason::repository("local changes have to be merged"),
        Ok(None) => Reason::command_line("'--merge' with what may be no commit"),
        Err(_) => Reason::repository("it cannot be told whether there is something to merge"),
    }]
}
