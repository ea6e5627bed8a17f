//! Reasons to leave a command to the real Git. docs/commands.md lists them for users.
//!
//! A [`Candidate`] is a command that may run natively: with a command line for the shim, without
//! one for `doctor`. Each check returns every reason that it finds: `doctor` shows all, the shim
//! stops at the first. A check prints and changes nothing. Variables for tracing or tests are never
//! a reason, except `GIT_TRACE_SETUP`.

pub(crate) mod hooks;
mod repository;
mod settings;
pub(crate) mod submodules;

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{Defaults, Pathspecs};
use repo::{Repository, Who};
pub(crate) use sapwood::refs::some_head_is_a_link;

pub(crate) use self::{
    repository::{grafts, index_at, partial, warnings},
    settings::{GENERAL, LISTING, LOOKING, VARIABLES, find, is_unknown, settings_in},
};
use self::{
    repository::{index, index_alone},
    settings::settings,
};
use super::{
    reason::Reason,
    record::{Candidate, Check, LineCheck},
};
use crate::term::args::Survey;

/// Checks of a command that writes files, refs or the index.
pub(crate) const WRITING: &[Check] =
    &[RULES, CONFIGURED_HOOKS, FILES_OF_WRITERS, PATHSPECS, REVISIONS, INDEX];

/// Checks of a command that reads files, and writes at most the index, if it is not locked.
pub(crate) const READING: &[Check] =
    &[RULES, CONFIGURED_HOOKS, FILES_OF_READERS, PATHSPECS, REVISIONS, INDEX];

/// Checks of a command that runs no hooks, takes no locks, and does not examine submodules.
pub(crate) const ANSWERING: &[Check] = &[RULES, PATHSPECS, REVISIONS, INDEX_ALONE];

/// Additional checks of a command that can change submodules.
pub(crate) const RECURSING: &[Check] = &[Check::new(
    "with changed submodules: one that has an obstacle of its own, a `.git` that is a directory, an \
     unborn branch or another hash; `extensions.submodulePathConfig`",
    submodules::recursion,
)];

/// Checks the tables of settings and variables.
pub(crate) const RULES: Check = Check::new(
    "`pager.<command>`; an `includeIf` with a condition that sapwood does not know; `index.sparse` with \
     `core.splitIndex`; an invalid `splitIndex.sharedIndexExpire`",
    settings,
);

/// The conditions that [`partial`] and [`grafts`] detect.
pub(crate) const PARTIAL: &str = "a partial clone";
pub(crate) const PARTIAL_OR_GRAFTS: &str = "a partial clone; `info/grafts`";

/// Checks the hooks that settings define.
pub(crate) const CONFIGURED_HOOKS: Check = Check::new(
    "a hook of `hook.<name>.*` that has no command, has the name of an event, shares its event with \
     another, or is for `reference-transaction`; a key of `hook.<name>.*` but `event`, `command` and `enabled`",
    hooks::configured,
);

const FILES_OF_WRITERS: Check = Check::new(
    "a lock of the index, of HEAD or of the branch; `MERGE_AUTOSTASH`; a hook `reference-transaction`; \
     `info/grafts`; a HEAD that is a symbolic link; no worktree",
    repository::files_of_writers,
);

const FILES_OF_READERS: Check =
    Check::new("`info/grafts`; a HEAD that is a symbolic link; no worktree", repository::files_of_readers);

const PATHSPECS: Check = Check::new("a wrong pathspec with the magic `prefix`", pathspecs);

/// Checks the words that may be revisions.
pub(crate) const REVISIONS: Check =
    Check::new("a short object name that may be ambiguous; `:<word>` that names nothing", revisions);

const INDEX: Check = Check::new(
    "an index that cannot be read; a file system monitor that Git warns of; a submodule that cannot be \
     opened, has another hash, or has a setting of this page",
    index,
);

/// Checks the index, but no submodule.
pub(crate) const INDEX_ALONE: Check =
    Check::new("an index that cannot be read; a file system monitor that Git warns of", index_alone);

/// Checks who makes a commit.
pub(crate) const GUESSED_IDENTITY: Check =
    Check::new("an author or committer whom Git would have to guess", guessed_identity);

/// Checks the value of `--recurse-submodules`.
pub(crate) const RECURSION_IS_BOOLEAN: LineCheck =
    LineCheck::new("`--recurse-submodules` with a value that is no boolean", recursion_is_boolean);

/// Checks pathspecs of a command that serves attributes in them.
pub(crate) const ATTRIBUTES_OF_PATHSPECS: LineCheck = LineCheck::new(
    "a pathspec with `attr:builtin_objectmode`, or with any attribute beside `--recurse-submodules`",
    attributes_of_pathspecs,
);

/// Checks pathspecs of a command that serves no attributes in them.
pub(crate) const NO_ATTRIBUTES_IN_PATHSPECS: LineCheck =
    LineCheck::new("a pathspec with attributes", no_attributes_in_pathspecs);

/// Detects a value of `--recurse-submodules` that is not a boolean.
fn recursion_is_boolean(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let wrong = crate::session::submodules::asked(survey).is_err();
    wrong.then(|| Reason::command_line("--recurse-submodules with what is no boolean"))
}

/// Detects pathspecs with attributes that are not native: with `--recurse-submodules` all
/// attributes, because those of submodules are not supported, and otherwise `builtin_objectmode`.
fn attributes_of_pathspecs(survey: &Survey, args: &[BString]) -> Option<Reason> {
    let recurses = survey.options.iter().any(|given| given.name == "--recurse-submodules");
    if recurses { no_attributes_in_pathspecs(survey, args) } else { asks_for(survey, "builtin_objectmode") }
}

/// Detects pathspecs with attributes, for commands that do not support them.
fn no_attributes_in_pathspecs(survey: &Survey, _: &[BString]) -> Option<Reason> {
    asks_for(survey, "attr")
}

fn asks_for(survey: &Survey, attribute: &str) -> Option<Reason> {
    let asks = survey.rest.iter().any(|word| has_magic(word, attribute));
    asks.then(|| Reason::command_line("a pathspec with attributes"))
}

/// Returns true for a pathspec that may contain this magic.
fn has_magic(word: &[u8], magic: &str) -> bool {
    word.starts_with(b":(") && word.contains_str(magic)
}

/// Detects invalid pathspecs with the magic `prefix`, which only Git itself generates.
fn pathspecs(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    let prefixed = survey.rest.iter().filter(|word| has_magic(word, "prefix:")).cloned().collect::<Vec<_>>();
    let parsed = Pathspecs::parse(&prefixed, candidate.repo().prefix(), "".into(), Defaults::default());
    let wrong = parsed.is_err().then(|| Reason::command_line("a pathspec with a prefix"));
    wrong.into_iter().collect()
}

/// Detects ambiguous names, and names of index entries that may not exist: Git prints suggestions
/// for them.
fn revisions(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    let words: Vec<&BStr> = candidate.command.words(survey).collect();
    let ambiguous = words.iter().filter_map(|word| ambiguous(candidate.repo(), word));
    let unknown = words.iter().filter_map(|word| unknown(candidate.repo(), word));
    ambiguous.chain(unknown).collect()
}

/// Detects a short object name that may be ambiguous: Git lists the candidates.
pub(crate) fn ambiguous(repo: &Repository, word: &BStr) -> Option<Reason> {
    let end = word.iter().position(|byte| b"^~:".contains(byte)).unwrap_or(word.len());
    let mark = word[..end].windows(2).position(|pair| pair == b"@{");
    let end = mark.filter(|&at| at > 0).unwrap_or(end);
    let base = word[..end].as_bstr();
    if base.is_empty() || base == "-" || base == "@" || base.starts_with(b"@{") {
        return None;
    }
    let short = (4..repo.hash().hex_len()).contains(&base.len()) && base.iter().all(u8::is_ascii_hexdigit);
    let several = short && repo.resolve(base).is_err();
    several.then(|| Reason::repository(format!("'{base}' may be more than one object")))
}

/// Detects an identity that Git would guess, for which it looks up the host's name in the network.
fn guessed_identity(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let is_guessed = [Who::Author, Who::Committer].into_iter().any(|who| repo.guesses(who));
    is_guessed.then(|| Reason::repository("nobody told who makes the commit")).into_iter().collect()
}

/// Detects an unknown word with a leading colon: an index entry, a message search, or a pathspec.
fn unknown(repo: &Repository, word: &BStr) -> Option<Reason> {
    let rest = word.strip_prefix(b":")?;
    // Git's regular expressions differ from sapwood's.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-,'".contains(byte);
    if rest.strip_prefix(b"/").is_some_and(|text| !text.iter().all(is_plain)) {
        return Some(Reason::command_line("a pattern for messages"));
    }
    match repo.resolve(word) {
        Ok(Some(_)) => None,
        _ => Some(Reason::repository(format!("'{word}' may be no object"))),
    }
}
