//! The process that empties the trash: this program as a background child. See [`engine::trash`].

use bstr::BString;
use std::path::Path;

use crate::{
    commands::record::Command,
    session::invocation::Invocation,
    term::{failure::Failure, text::os_str},
};

/// The record of the command that sapwood starts to empty the trash. It prints nothing.
pub(super) const COMMAND: Command = Command { name: sapwood::trash::EMPTY, run, ..Command::BASE };

/// See [`sapwood::trash::empty`].
pub(crate) fn empty_in_background(common: &Path) {
    sapwood::trash::empty(common, std::env::current_exe().ok().as_deref());
}

/// Empties the trash of the repository in `args`.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [common] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    let emptied = sapwood::trash::empty_here(Path::new(os_str(common)), run.interrupt.flag());
    Ok(u8::from(emptied.is_err()))
}
