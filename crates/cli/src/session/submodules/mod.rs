//! `--recurse-submodules`: submodules follow their superproject.
//!
//! Order: while a change of the superproject is planned, each affected submodule is checked at the
//! point where Git checks it ([`Submodules`]); [`Submodules::prepare`] checks the rest. Then the
//! worktrees of removed submodules are emptied, the superproject's files are changed, and new and
//! changed submodules are moved, in the order of the index. Moving a submodule is `read-tree` in
//! it, which handles nested ones the same way; its HEAD moves last.
//!
//! A submodule that could not be moved shows as changed afterwards, and does not stop the others.
//! Design: docs/design/submodules.md.

pub(crate) mod connect;
mod follow;
pub(crate) mod read_tree;

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use repo::Repository;

pub(crate) use self::follow::Submodules;
use crate::term::{args::Survey, console::text, failure::Failure};

/// Parses the value of the option; `on` is false for `--no-recurse-submodules`.
pub(crate) fn parse(on: bool, value: Option<BString>) -> Result<bool, Failure> {
    let Some(value) = value.filter(|_| on) else { return Ok(on) };
    repo::parse_bool(Some(value.as_bstr()))
        .ok_or_else(|| Failure::Fatal(text!("bad recurse-submodules argument: ", value)))
}

/// Returns the last value of the option on a command line, if it was given.
pub(crate) fn asked(survey: &Survey) -> Result<Option<bool>, Failure> {
    let given = survey.options.iter().filter(|given| given.name == "--recurse-submodules");
    let each = given.map(|given| parse(given.on, given.value.clone()));
    each.into_iter().try_fold(None, |_, asked| asked.map(Some))
}

/// Returns true if submodules are included: `asked`, else `submodule.recurse`.
pub(crate) fn wanted(asked: Option<bool>, repo: &Repository) -> Result<bool, Failure> {
    let configured = repo.config_bool("submodule.recurse")?;
    Ok(asked.or(configured).unwrap_or(false))
}

/// Returns the directory of the repository of this submodule inside the superproject's, if it
/// exists.
pub(crate) fn kept(repo: &Repository, name: Option<&BString>) -> Option<PathBuf> {
    let place = repo.git_dir().join("modules").join(sys::os_str(name?));
    repo.is_git_directory(&place).then_some(place)
}

/// Returns true if the configuration makes some submodule active. Inactive ones are never touched.
pub(crate) fn may_be_active(repo: &Repository) -> bool {
    repo.config_names().any(|name| {
        let about = name.strip_prefix(b"submodule.");
        about.is_some_and(|about| {
            about == b"active" || about.ends_with(b".active") || about.ends_with(b".url")
        })
    })
}
