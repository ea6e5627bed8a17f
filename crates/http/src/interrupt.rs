//! Waits that end when the command is interrupted.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// The interval at which a wait checks the flag.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// A flag that ends every wait.
pub type Interrupt = Option<Arc<AtomicBool>>;

/// The flag was set. Inside an [`std::io::Error`] it says so of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Interrupted {
    /// Returns true if an interrupt is the cause of an error.
    pub fn caused(error: &std::io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Interrupted>())
    }
}

pub(crate) fn is_set(interrupt: &Interrupt) -> bool {
    interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Runs a blocking system call. Fails after an interrupt, even if the call has not returned.
///
/// The call runs in a thread of its own, because the resolver and `connect` continue after a
/// signal. After an interrupt that thread is left behind; the process ends soon.
pub fn interruptible<T: Send + 'static>(
    interrupt: &Interrupt,
    call: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<T> {
    if interrupt.is_none() {
        return Ok(call());
    }
    let (sender, result) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("connect".into());
    // After an interrupt the receiver no longer exists.
    thread.spawn(move || drop(sender.send(call())))?;
    loop {
        match result.recv_timeout(TICK) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) if is_set(interrupt) => {
                return Err(std::io::Error::other(Interrupted));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(std::io::Error::other("a thread that connects has failed"));
            }
        }
    }
}

/// Sleeps, unless the command is interrupted.
pub fn sleep(interrupt: &Interrupt, time: Duration) -> Result<(), Interrupted> {
    let end = Instant::now() + time;
    loop {
        if is_set(interrupt) {
            return Err(Interrupted);
        }
        match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(()),
            left => thread::sleep(left.min(TICK)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_ends_a_call_that_blocks() {
        let flag = Arc::new(AtomicBool::new(false));
        assert_eq!(interruptible(&Some(Arc::clone(&flag)), || 1).expect("no interrupt"), 1);
        flag.store(true, Ordering::Relaxed);
        // The sender lives until the end of the test, so the call never returns by itself.
        let (_sender, never) = mpsc::channel::<()>();
        let ended = interruptible(&Some(Arc::clone(&flag)), move || never.recv());
        assert!(ended.is_err_and(|error| Interrupted::caused(&error)));
        assert_eq!(sleep(&Some(flag), Duration::from_secs(3600)), Err(Interrupted));
    }
}
