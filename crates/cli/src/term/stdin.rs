//! Standard input without a buffer.
//!
//! A command that waits for input may hold locks. Each read first waits for input or a signal; a
//! signal that arrived before the wait counts too.

use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
};

use sapwood::FileType;
pub(crate) use sys::stdin_is_file as is_file;

use super::interrupt::Interrupt;

/// True after this process consumed input that no other program can read again. It is static
/// because standard input belongs to the process.
static CONSUMED: AtomicBool = AtomicBool::new(false);

/// Returns true if this process consumed input that no other program can read again.
pub(crate) fn was_consumed() -> bool {
    CONSUMED.load(Ordering::Relaxed)
}

/// Notes that this process consumes such input.
pub(crate) fn note_consumed() {
    CONSUMED.store(true, Ordering::Relaxed);
}

/// Returns the size in bytes of a regular file as standard input; `None` for anything else.
pub(crate) fn file_size() -> Option<u64> {
    let stat = sys::stat_of(io::stdin()).ok()?;
    (stat.file_type == FileType::File).then_some(stat.size)
}

/// Standard input. A read fails when a signal arrives. Callers then call [`Interrupt::check`]
/// before they report the error.
pub(crate) struct Stdin {
    pub(crate) interrupt: Interrupt,
    /// Becomes readable when a signal arrives. `None` if signals end the process.
    signals: Option<UnixStream>,
}

impl Stdin {
    /// Returns standard input, and lets signals end its waits.
    pub(crate) fn new(interrupt: Interrupt) -> io::Result<Stdin> {
        Ok(Stdin { interrupt, signals: interrupt.stream()? })
    }
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(signals) = &self.signals {
            let (_, is_signalled) = sys::wait_to_read(io::stdin(), signals)?;
            if is_signalled || self.interrupt.check().is_err() {
                return Err(io::Error::other("stopped by a signal"));
            }
        }
        note_consumed();
        sys::read_stdin(buffer)
    }
}
