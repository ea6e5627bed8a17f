//! Changes one file.

use bstr::BString;
use sapwood::{
    ConfigError, Error, PlanError, Silent,
    config::{Change, Edit},
};

use super::location::Context;
use crate::term::{
    console::text,
    failure::{Failure, Preface},
};

/// Git's exit codes.
const NOTHING_SET: u8 = 5;
const NO_LOCK: u8 = 255;

/// Changes the entries of one name. Returns the exit code.
pub(super) fn change(
    context: Context<'_>,
    change: Change,
    advice: Option<&'static str>,
) -> Result<u8, Failure> {
    let name = change.name.clone();
    let planned = context.writable()?.plan(Edit::Entries(change));
    let plan = planned.map_err(|error| match (error, advice) {
        (PlanError::Failed(Error::Entries(error)), Some(advice)) => several(*error, advice, &name),
        (error, _) => error.into(),
    })?;
    plan.run(&Silent)?;
    Ok(0)
}

/// Returns the failure, with advice about several values.
fn several(error: ConfigError, advice: &str, name: &BString) -> Failure {
    match error {
        ConfigError::Multiple(key) => {
            let single = "cannot overwrite multiple values with a single value\n       ";
            let failure = Failure::Error(text!(single, advice, " to change ", name, "."), NOTHING_SET);
            failure.after(Preface::Warnings(vec![text!(key, " has multiple values")]))
        }
        error => error.into(),
    }
}

/// Renames or removes a section. Returns the exit code.
pub(super) fn section(context: Context<'_>, old: BString, new: Option<BString>) -> Result<u8, Failure> {
    let planned = context.writable()?.plan(Edit::Section { old: old.clone(), new });
    let plan = planned.map_err(|error| match error {
        // Git leaves the reason out.
        PlanError::Failed(Error::Entries(error)) => match *error {
            ConfigError::Locked { name, .. } => {
                Failure::Error(text!("could not lock config file ", name), NO_LOCK)
            }
            error => error.into(),
        },
        error => error.into(),
    })?;
    match plan.run(&Silent)?.sections {
        0 => Err(Failure::Fatal(text!("no such section: ", old))),
        _ => Ok(0),
    }
}
