//! `--recurse-submodules` on the command line. See [`sapwood::submodules`].

use bstr::{BString, ByteSlice as _};
use repo::Repository;
pub(crate) use sapwood::submodules::may_be_active;

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

/// See [`sapwood::submodules::wanted`].
pub(crate) fn wanted(asked: Option<bool>, repo: &Repository) -> Result<bool, Failure> {
    Ok(sapwood::submodules::wanted(asked, repo)?)
}
