//! `stash save`: a push of all changes, whose arguments are its message.

use bstr::BString;

use super::{
    options::{Request, SAVE},
    push,
};
use crate::{session::invocation::Invocation, term::failure::Failure};

/// Runs the command. Returns the exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = SAVE.parse(args)?.store(&mut request)?;
    if !words.is_empty() {
        request.message = Some(bstr::join(" ", words).into());
    }
    push::push(run, request, &[])
}
