//! `--recurse-submodules`: submodules go along with their superproject.
//!
//! Order: while a change of the superproject is planned, each submodule that it moves is asked whether it can be moved,
//! where Git asks ([`Submodules`]); [`Submodules::prepare`] asks what is left to ask. Then the worktrees of submodules that go
//! are emptied, the superproject's own files changed, and the submodules that come or change moved, in the order of the
//! index. Moving one is `read-tree` in it, which is the same once more for those nested in it; its HEAD moves last.
//!
//! A submodule that could not be moved shows as changed afterwards, and hides no other.
//! Design: docs/design/submodules.md.

mod connect;
mod follow;
pub(crate) mod read_tree;

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use repo::Repository;

pub(crate) use self::follow::Submodules;
use crate::term::{args::Survey, console::text, failure::Failure};

/// What the option says, `--no-recurse-submodules` being `!on`.
pub(crate) fn parse(on: bool, value: Option<BString>) -> Result<bool, Failure> {
    let Some(value) = value.filter(|_| on) else { return Ok(on) };
    repo::parse_bool(Some(value.as_bstr()))
        .ok_or_else(|| Failure::Fatal(text!("bad recurse-submodules argument: ", value)))
}

/// What a whole command line says, if anything.
pub(crate) fn asked(survey: &Survey) -> Result<Option<bool>, Failure> {
    let given = survey.options.iter().filter(|given| given.name == "--recurse-submodules");
    let each = given.map(|given| parse(given.on, given.value.clone()));
    each.into_iter().try_fold(None, |_, asked| asked.map(Some))
}

/// Whether submodules go along: as `asked`, else as `submodule.recurse` says.
pub(crate) fn wanted(asked: Option<bool>, repo: &Repository) -> Result<bool, Failure> {
    let configured = repo.config_bool("submodule.recurse")?;
    Ok(asked.or(configured).unwrap_or(false))
}

/// Where the repository of the submodule of this name is kept in that of its superproject, if it is there.
pub(crate) fn kept(repo: &Repository, name: Option<&BString>) -> Option<PathBuf> {
    let place = repo.git_dir().join("modules").join(sys::os_str(name?));
    repo.is_git_directory(&place).then_some(place)
}

/// Whether the configuration makes some submodule active; no other is ever touched.
pub(crate) fn may_be_active(repo: &Repository) -> bool {
    repo.config_names().any(|name| {
        let about = name.strip_prefix(b"submodule.");
        about.is_some_and(|about| {
            about == b"active" || about.ends_with(b".active") || about.ends_with(b".url")
        })
    })
}
