//! Reasons to leave a commit to the real Git, and texts that only some commits print.

use bstr::{BString, ByteSlice as _};

use repo::keys;

use crate::{
    commands::{
        obstacles,
        reason::Reason,
        record::{Candidate, Check, LineCheck},
        rules::{Setting, Variable, When},
    },
    term::args::Survey,
};

/// Settings that only the real Git handles.
pub(super) const SETTINGS: &[Setting] = &[
    (keys::commit::GPG_SIGN.name(), When::NotBoolean),
    (keys::commit::STATUS.name(), When::NotBoolean),
    (keys::notes::REWRITE_REF.name(), When::Set),
    (keys::rerere::ENABLED.name(), When::NotBoolean),
];

/// Variables that make an amended commit keep its notes.
pub(super) const VARIABLES: &[Variable] =
    &[("GIT_NOTES_REWRITE_MODE", When::Set), ("GIT_NOTES_REWRITE_REF", When::Set)];

pub(super) const EMPTY_AMEND: &str = "\
You asked to amend the most recent commit, but doing so would make
it empty. You can repeat your command with --allow-empty, or you can
remove the commit entirely with \"git reset HEAD^\".
";

pub(super) const EMPTY_PICK: &str = "\
The previous cherry-pick is now empty, possibly due to conflict resolution.
If you wish to commit it anyway, use:

    git commit --allow-empty

";

/// Checks the values of the options.
pub(super) const LINE: LineCheck = LineCheck::new(
    "`--author` without an address; `--date` that depends on the time; `--file` or `--template` with `:(optional)`",
    line,
);

pub(super) const VERBOSE: Check =
    Check::new("`commit.verbose` that is neither a number nor a boolean", verbose);

/// Checks the commits that options name.
pub(super) const REVISIONS: Check = Check::new(
    "a commit for the message (`-C`, `-c`, `--fixup`, `--squash`) that is ambiguous, or looked for by its message",
    revisions,
);

/// Detects option values that only the real Git handles.
fn line(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let last = |name: &str| survey.options.iter().rev().find(|given| given.name == name);
    let value = |name: &str| last(name).and_then(|given| given.value.as_ref());
    if value("--author").is_some_and(|author| !author.contains(&b'>')) {
        return Some(Reason::command_line("an author to be looked for"));
    }
    if value("--date").is_some_and(|date| !repo::Repository::is_absolute_date(date.as_bstr())) {
        return Some(Reason::command_line("a date that depends on the time"));
    }
    let optional = |name| value(name).is_some_and(|file: &BString| file.starts_with(b":("));
    if optional("--file") || optional("--template") {
        return Some(Reason::command_line("a file that may be missing"));
    }
    None
}

/// Detects a `commit.verbose` that is neither a number nor a boolean.
fn verbose(candidate: &Candidate<'_>) -> Vec<Reason> {
    let is_wrong = super::plan::configured_verbosity(candidate.repo()).is_err();
    is_wrong.then(|| Reason::Setting(keys::commit::VERBOSE.lower())).into_iter().collect()
}

/// Detects commit names that Git explains to the user, or searches for in messages.
fn revisions(candidate: &Candidate<'_>) -> Vec<Reason> {
    const NAMING: [&str; 4] = ["--reuse-message", "--reedit-message", "--fixup", "--squash"];
    let Some(survey) = candidate.survey else { return Vec::new() };
    let named = survey.options.iter().filter(|given| NAMING.contains(&given.name));
    let mut reasons = Vec::new();
    for word in named.filter_map(|given| given.value.as_ref()) {
        let commit = match word.split_once_str(":") {
            Some((b"amend" | b"reword", commit)) => commit.as_bstr(),
            _ => word.as_bstr(),
        };
        if commit.contains_str("/") && (commit.contains(&b':') || commit.contains_str("^{/")) {
            reasons.push(Reason::command_line("a pattern for messages"));
        }
        reasons.extend(obstacles::ambiguous(candidate.repo(), commit));
    }
    reasons
}
