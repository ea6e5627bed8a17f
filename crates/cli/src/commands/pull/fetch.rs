//! The fetch of a pull.

use bstr::BString;

use crate::{
    commands::{beside, fetch},
    session::Session,
    term::failure::Failure,
};

/// Fetches with the options `args` and the words `words`. Returns the exit code, like a process of
/// its own: its failures have been printed.
pub(super) fn run(session: Session<'_>, mut args: Vec<BString>, words: &[BString]) -> Result<u8, Failure> {
    let run = session.invocation;
    args.extend_from_slice(words);
    let fetched = match fetch::is_served(&args) {
        true => (fetch::COMMAND.run)(run, &args),
        false => beside::by_git(run, fetch::COMMAND.name, &args),
    };
    match fetched {
        Err(failure @ Failure::Signal(_)) => Err(failure),
        Err(failure) => {
            failure.say();
            Ok(failure.code())
        }
        done => done,
    }
}
