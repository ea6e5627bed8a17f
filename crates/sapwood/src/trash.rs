//! Emptying the trash of a repository.

use std::{path::Path, sync::atomic::AtomicBool};

pub use engine::trash::Error;

/// The command of the program `sapwood` that empties the trash of a repository.
pub const EMPTY: &str = "empty-trash";

/// Empties the trash of a repository, if it contains content that no process is deleting: just
/// discarded, or left by an interrupted run. A process of `program`, which is that of
/// [`crate::Events::program`], does it in the background. Without one it is done before this
/// returns. A later run retries what cannot be deleted.
pub fn empty(common: &Path, program: Option<&Path>) {
    if !engine::trash::is_waiting(common) {
        return;
    }
    let start = |program| {
        sys::spawn_detached(program, "sapwood".as_ref(), &[EMPTY.as_ref(), common.as_os_str()]).is_ok()
    };
    if !program.is_some_and(start) {
        let _ = empty_here(common, &AtomicBool::new(false));
    }
}

/// Empties the trash of a repository in this process, with a thread for each core. Does nothing if
/// another process does it. `interrupt` stops it at its next step. The error has the paths that
/// cannot be deleted.
pub fn empty_here(common: &Path, interrupt: &AtomicBool) -> Result<(), Error> {
    engine::trash::empty(common, sys::cores(), interrupt)
}
