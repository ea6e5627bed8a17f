//! `--recurse-submodules`: whether submodules go along with their superproject.

use bstr::{BString, ByteSlice as _};
use repo::Repository;

use crate::{args::Survey, console::text, failure::Failure};

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

/// Whether the configuration makes some submodule active; no other is ever touched.
pub(crate) fn may_be_active(repo: &Repository) -> bool {
    repo.config_names().any(|name| {
        let about = name.strip_prefix(b"submodule.");
        about.is_some_and(|about| {
            about == b"active" || about.ends_with(b".active") || about.ends_with(b".url")
        })
    })
}

/// Refuses what there may be to do with submodules.
pub(crate) fn refuse(asked: Option<bool>, repo: &Repository) -> Result<(), Failure> {
    match wanted(asked, repo)? && may_be_active(repo) {
        true => Err(Failure::unsupported("--recurse-submodules with active submodules")),
        false => Ok(()),
    }
}
