//! The process: its start, files that it could not read, and signals to it and to its children.

/// Call `note_change` before a program starts that may change something.
pub(crate) use sys::changes::{note as note_change, were_made as changes_were_made};
#[cfg(not(test))]
pub(crate) use sys::entry;
pub(crate) use sys::{end_by_signals, terminate};

use super::{failure::Failure, interrupt::Interrupt, text::os_error};

/// Prepares the process: its standard streams, its heap, errors of mapped files, and signals. Call
/// it once, before other threads run.
pub(crate) fn set_up() {
    sys::set_up();
    sys::bound_heap();
    sys::survive_unreadable_maps();
    Interrupt::prepare();
}

/// Returns an error if a mapped file could not be read and no other code reported it: it is the
/// cause of any other failure.
pub(crate) fn readable(result: Result<u8, Failure>) -> Result<u8, Failure> {
    let Some((path, error)) = sys::unreported_unreadable_map() else { return result };
    let message = format!("unable to read '{}': {}", path.display(), os_error(&error));
    match result {
        Ok(_) => {}
        Err(failure @ (Failure::Signal(_) | Failure::Usage(_))) => return Err(failure),
        Err(failure) if failure.mentions(&message) => return Err(failure),
        Err(failure) => failure.print(),
    }
    Err(Failure::fatal(message))
}
