//! The fetch of a pull.

use bstr::BString;

use crate::{commands::fetch, session::Session, term::failure::Failure};

/// Fetches with the options `args` and the words `words`. Prints failures, and returns the exit
/// code, like a child process.
pub(super) fn run(session: Session<'_>, mut args: Vec<BString>, words: &[BString]) -> Result<u8, Failure> {
    args.extend_from_slice(words);
    let run = session.invocation.of_command(fetch::COMMAND.name);
    match (fetch::COMMAND.run)(&run, &args) {
        Err(failure @ Failure::Signal(_)) => Err(failure),
        Err(failure) => {
            failure.print();
            Ok(failure.code())
        }
        done => done,
    }
}
