//! Reasons for which a command is left to the real Git. SHORTCOMINGS.md lists them for users.
//!
//! A [`Candidate`] is a command that may run natively: with a command line for the shim, without
//! one for `doctor`. Each check returns every reason that it finds: `doctor` shows all, the shim
//! stops at the first. A check prints and changes nothing. Variables that trace or test are never a
//! reason, except `GIT_TRACE_SETUP`.

pub(crate) mod hooks;
mod repository;
mod settings;
pub(crate) mod submodules;

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{Defaults, Pathspecs};
use repo::{Repository, Who};

pub(crate) use self::{
    repository::{
        files_of_readers, files_of_writers, grafts, index, index_alone, index_at, partial,
        some_head_is_a_link, warnings,
    },
    settings::{GENERAL, LISTING, LOOKING, find, is_unknown, settings, settings_in},
};
use super::{
    reason::Reason,
    record::{Candidate, Check},
};
use crate::term::args::Survey;

/// Checks of a command that writes files, refs or the index.
pub(crate) const WRITING: &[Check] =
    &[settings, hooks::configured, files_of_writers, pathspecs, revisions, index];

/// Checks of a command that reads files, and writes nothing but the index if it can.
pub(crate) const READING: &[Check] =
    &[settings, hooks::configured, files_of_readers, pathspecs, revisions, index];

/// Checks of a command that runs no hooks, takes no locks, and does not look into submodules.
pub(crate) const ANSWERING: &[Check] = &[settings, pathspecs, revisions, index_alone];

/// Checks of a command that can change submodules too.
pub(crate) const RECURSING: &[Check] = &[submodules::recursion];

/// `--recurse-submodules` with a value that is no boolean.
pub(crate) fn recursion_is_boolean(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let wrong = crate::session::submodules::asked(survey).is_err();
    wrong.then(|| Reason::command_line("--recurse-submodules with what is no boolean"))
}

/// Pathspecs that ask for attributes in a way that is not native. sapwood knows no attributes of
/// other repositories, and `builtin_objectmode` in none.
pub(crate) fn attributes_of_pathspecs(survey: &Survey, args: &[BString]) -> Option<Reason> {
    let recurses = survey.options.iter().any(|given| given.name == "--recurse-submodules");
    if recurses { no_attributes_in_pathspecs(survey, args) } else { asks_for(survey, "builtin_objectmode") }
}

/// Pathspecs that ask for attributes, for commands in which that is not native.
pub(crate) fn no_attributes_in_pathspecs(survey: &Survey, _: &[BString]) -> Option<Reason> {
    asks_for(survey, "attr")
}

fn asks_for(survey: &Survey, attribute: &str) -> Option<Reason> {
    let asks = survey.rest.iter().any(|word| has_magic(word, attribute));
    asks.then(|| Reason::command_line("a pathspec with attributes"))
}

/// Returns true for a pathspec that may have this magic.
fn has_magic(word: &[u8], magic: &str) -> bool {
    word.starts_with(b":(") && word.contains_str(magic)
}

/// Git dies of some pathspecs with a prefix that only it writes.
fn pathspecs(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    let prefixed = survey.rest.iter().filter(|word| has_magic(word, "prefix:")).cloned().collect::<Vec<_>>();
    let parsed = Pathspecs::parse(&prefixed, candidate.repo().prefix(), "".into(), Defaults::default());
    let wrong = parsed.is_err().then(|| Reason::command_line("a pathspec with a prefix"));
    wrong.into_iter().collect()
}

/// Names that stand for several objects, or for something in the index that may not exist: Git
/// prints suggestions.
pub(crate) fn revisions(candidate: &Candidate<'_>) -> Vec<Reason> {
    let Some(survey) = candidate.survey else { return Vec::new() };
    let words: Vec<&BStr> = candidate.command.words(survey).collect();
    let ambiguous = words.iter().filter_map(|word| ambiguous(candidate.repo(), word));
    let unknown = words.iter().filter_map(|word| unknown(candidate.repo(), word));
    ambiguous.chain(unknown).collect()
}

/// A short object name that may stand for several objects: Git lists them.
pub(crate) fn ambiguous(repo: &Repository, word: &BStr) -> Option<Reason> {
    let end = word.iter().position(|byte| b"^~:".contains(byte)).unwrap_or(word.len());
    let end = word[..end].find("@{").filter(|&at| at > 0).unwrap_or(end);
    let base = word[..end].as_bstr();
    if base.is_empty() || base == "-" || base == "@" || base.starts_with(b"@{") {
        return None;
    }
    let short = (4..repo.hash().hex_len()).contains(&base.len()) && base.iter().all(u8::is_ascii_hexdigit);
    let several = short && repo.resolve(base).is_err();
    several.then(|| Reason::repository(format!("'{base}' may be more than one object")))
}

/// Finds an identity that Git would guess. It asks the network for the name of the host.
pub(crate) fn guessed_identity(candidate: &Candidate<'_>) -> Vec<Reason> {
    let repo = candidate.repo();
    let is_guessed = [Who::Author, Who::Committer].into_iter().any(|who| repo.guesses(who));
    is_guessed.then(|| Reason::repository("nobody told who makes the commit")).into_iter().collect()
}

/// A word that begins with a colon is an entry of the index, the text of a message, or a pathspec.
fn unknown(repo: &Repository, word: &BStr) -> Option<Reason> {
    let rest = word.strip_prefix(b":")?;
    // Git's regular expressions are not ours.
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-,'".contains(byte);
    if rest.strip_prefix(b"/").is_some_and(|text| !text.iter().all(is_plain)) {
        return Some(Reason::command_line("a pattern for messages"));
    }
    match repo.resolve(word) {
        Ok(Some(_)) => None,
        _ => Some(Reason::repository(format!("'{word}' may be no object"))),
    }
}
