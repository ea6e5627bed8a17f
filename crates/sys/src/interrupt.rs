//! The signals that end the program, as all other code sees them.
//!
//! Promise: until the program changes something, it has no handlers, and a signal ends it at once.
//! That also works while the kernel waits for a dead network mount, where no handler could run.
//! Before the first change (a file, a lock, a process) the handlers are installed. From then on the
//! program stops by itself: long reads call [`check`] after each piece, and a call that may wait
//! for long, as the `open` of a FIFO, returns instead of being repeated.
//!
//! Signals and their handlers belong to the process, and so does this state.

use std::{
    fmt, io,
    sync::{
        Arc, LazyLock, Once, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::io::Errno;

use crate::profile::Phase;

static RAISED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static INSTALL: OnceLock<fn()> = OnceLock::new();
static INSTALLED: Once = Once::new();

/// Registers the function that installs the handlers. It runs once, before the first change.
/// Without it, a signal always ends the program at once.
pub fn install_before_first_change(install: fn()) {
    let _ = INSTALL.set(install);
}

/// Installs the handlers now. Call it before something has to be undone that no call of this crate
/// does, for example before a process is started. If that may change something,
/// [`changes::note`](crate::changes::note) belongs to it.
#[inline]
pub fn install() {
    if !INSTALLED.is_completed() {
        install_once();
    }
}

#[cold]
fn install_once() {
    if let Some(install) = INSTALL.get() {
        INSTALLED.call_once(install);
    }
}

/// Called before each system call of this kind. `Other` includes mounts.
#[inline]
pub(crate) fn before(kind: Phase) {
    if matches!(kind, Phase::Write | Phase::Remove | Phase::MakeDir | Phase::Link | Phase::Other) {
        install();
    }
}

/// Returns true if the handlers are installed.
pub fn is_installed() -> bool {
    INSTALLED.is_completed()
}

/// Returns the flag that the handlers set.
pub fn flag() -> &'static Arc<AtomicBool> {
    &RAISED
}

/// Returns true if a signal arrived.
pub fn is_raised() -> bool {
    RAISED.load(Ordering::Relaxed)
}

/// Returns an error if a signal arrived ([`is_stop`]).
pub fn check() -> io::Result<()> {
    if is_raised() { Err(stop()) } else { Ok(()) }
}

/// Returns true for the error of [`check`].
pub fn is_stop(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
}

/// The text of the error of [`check`].
pub const STOPPED: &str = "stopped by a signal";

#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STOPPED)
    }
}

impl std::error::Error for Stopped {}

// The kind is not `Interrupted`: the standard library repeats calls that return it.
fn stop() -> io::Error {
    io::Error::other(Stopped)
}

/// Runs a call that may wait for long, and repeats it while other signals interrupt it.
pub(crate) fn waiting<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => check()?,
            answer => return Ok(answer?),
        }
    }
}

/// Lets the handler of this signal end calls that wait (no `SA_RESTART`).
pub fn end_waits_by(signal: i32) {
    // SAFETY: all zeros is a valid `sigaction`, and the first call fills it. The second call sets
    // the same handler again, with fewer flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 {
            action.sa_flags &= !libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_recognized_and_not_repeated() {
        assert!(is_stop(&stop()) && !is_stop(&io::ErrorKind::Interrupted.into()));
        assert_ne!(stop().kind(), io::ErrorKind::Interrupted);
        assert_eq!(crate::reason(&stop()), STOPPED);
    }

    #[test]
    fn a_call_is_repeated_while_no_signal_arrived() {
        let mut calls = 0;
        let answer = waiting(|| {
            calls += 1;
            if calls < 3 { Err(Errno::INTR) } else { Ok(calls) }
        });
        assert_eq!(answer.expect("in the end"), 3);
    }
}
