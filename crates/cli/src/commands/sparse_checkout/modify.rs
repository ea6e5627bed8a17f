//! The actions that change the patterns, or reapply them: `init`, `set`, `add`, `reapply` and
//! `disable`.

use bstr::{BString, ByteSlice as _};
use sapwood::{
    sparse_checkout::{Selection, Words},
    transaction::Done,
};

use super::Request;
use crate::{
    session::{input::Input, invocation::Invocation},
    term::{failure::Failure, progress},
};

/// Git's exit code if files could not be written.
const NOT_UPDATED: u8 = 254;

fn code(done: Done) -> u8 {
    if done.is_complete() { 0 } else { NOT_UPDATED }
}

pub(super) fn init(mut selection: Selection<'_>, request: &Request) -> Result<u8, Failure> {
    selection.take_mode(request.cone, request.sparse_index)?;
    Ok(code(shown(selection).begin()?))
}

pub(super) fn set(
    run: &Invocation,
    mut selection: Selection<'_>,
    request: &Request,
    args: &[BString],
) -> Result<u8, Failure> {
    let read = selection.read()?;
    selection.take_mode(request.cone, request.sparse_index)?;
    let args = selection.checked(&read, args, request.skip_checks)?;
    let words = if request.stdin { Words::Lines(stdin_lines(run)?) } else { Words::Names(args) };
    let patterns = selection.selecting(&words)?;
    drop(read);
    Ok(code(shown(selection).write_and_update(patterns)?))
}

pub(super) fn add(
    run: &Invocation,
    selection: Selection<'_>,
    request: &Request,
    args: &[BString],
) -> Result<u8, Failure> {
    selection.must_be_on("no sparse-checkout to add to")?;
    let args = selection.checked(&selection.read()?, args, request.skip_checks)?;
    let words = || if request.stdin { stdin_lines(run).map(Words::Lines) } else { Ok(Words::Names(args)) };
    let patterns = selection.adding(words)?;
    Ok(code(shown(selection).write_and_update(patterns)?))
}

pub(super) fn reapply(mut selection: Selection<'_>, request: &Request) -> Result<u8, Failure> {
    selection.must_be_on("must be in a sparse-checkout to reapply sparsity patterns")?;
    selection.take_mode(request.cone, request.sparse_index)?;
    Ok(code(shown(selection).reapply()?))
}

pub(super) fn disable(selection: Selection<'_>) -> Result<u8, Failure> {
    shown(selection).disable()?;
    Ok(0)
}

/// Shows the progress of a change on a terminal.
fn shown(mut selection: Selection<'_>) -> Selection<'_> {
    selection.progress = progress::has_terminal();
    selection
}

/// Reads the lines of standard input, without their terminators.
pub(super) fn stdin_lines(run: &Invocation) -> Result<Vec<BString>, Failure> {
    Ok(all_of_stdin(run)?.lines().map(BString::from).collect())
}

/// Reads standard input.
pub(super) fn all_of_stdin(run: &Invocation) -> Result<Vec<u8>, Failure> {
    let content = Input::new(run)?.all()?;
    content.map_err(|error| Failure::fatal(format!("cannot read the standard input: {error}")))
}
