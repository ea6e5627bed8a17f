//! `stash branch`: creates a branch at the commit that the stash was made from, and applies the
//! stash.

use bstr::{BString, ByteSlice as _};
use sapwood::stash;

use super::{
    apply,
    common::{find, open},
    entries,
    options::BARE,
};
use crate::{
    commands::{checkout, nested},
    session::{Session, invocation::Invocation},
    term::{console, failure::Failure},
};

/// Runs the command. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = BARE.parse(args)?;
    let Some((branch, rest)) = parsed.rest.split_first() else {
        console::eprint_line("No branch name specified");
        return Ok(1);
    };
    let (repo, settings) = open(run)?;
    let entry = find(&repo, rest)?;
    // Once the branch exists, the command can no longer be left to Git.
    let number = if entry.is_of_stash { Some(entry.number()?) } else { None };
    let Ok(name) = branch.to_str() else { return Err(Failure::Unserved("branch names that are not UTF-8")) };
    let base = entry.base.to_string();
    match nested::run(run, &repo, &checkout::COMMAND, &["-b", name, &base]) {
        Ok(0) => {}
        Ok(_) => return Ok(1),
        Err(signal @ Failure::Signal(_)) => return Err(signal),
        Err(failure) => {
            failure.print();
            return Ok(1);
        }
    }
    // HEAD has changed.
    let repo = run.open()?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let request = stash::apply::Request { index: Some(true), ..Default::default() };
    let applied = match apply::apply(session, &entry, request, false) {
        // The branch exists, so only this part is left to Git.
        Err(Failure::Unserved(_)) => {
            let args = ["--index".into(), entry.commit.to_string().into()];
            let code = nested::by_git(run, "stash apply", &args)?;
            if code == 0 && number.is_some() {
                stash::apply::make_all_durable(session.context(run))?;
            }
            code
        }
        applied => applied?,
    };
    match number {
        Some(number) if applied == 0 => entries::drop_entry(session, &entry, number, false),
        _ => Ok(applied),
    }
}
