//! The process that empties the trash: this program as a background child. See [`engine::trash`].

use bstr::BString;
use std::{path::Path, sync::atomic::AtomicBool};

use crate::{commands::record::Command, session::invocation::Invocation, term::failure::Failure};

/// The record of the command that sapwood starts to empty the trash. It prints nothing.
pub(super) const COMMAND: Command = Command { name: "empty-trash", run, ..Command::BASE };

/// Starts a process that empties the trash of a repository, if it contains content that no process
/// is deleting: just discarded, or left by an interrupted run.
pub(crate) fn empty_in_background(common: &Path) {
    if !engine::trash::is_waiting(common) {
        return;
    }
    let started = std::env::current_exe().and_then(|program| {
        sys::spawn_detached(&program, "sapwood".as_ref(), &[COMMAND.name.as_ref(), common.as_os_str()])
    });
    if started.is_err() {
        // A later run retries files that cannot be deleted.
        let _ = engine::trash::empty(common, workers(), &AtomicBool::new(false));
    }
}

/// Empties the trash of the repository in `args`.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [common] = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    let emptied = engine::trash::empty(Path::new(sys::os_str(common)), workers(), run.interrupt.flag());
    Ok(u8::from(emptied.is_err()))
}

/// Returns the number of threads: one for each core. They run at low priority.
pub(crate) fn workers() -> usize {
    sys::cores()
}
