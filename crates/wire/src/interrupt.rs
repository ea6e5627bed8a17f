//! Waits that end when the command is interrupted.

use std::{
    io::{self, Read},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::Error;

/// The interval at which a wait checks the flag.
const TICK: Duration = Duration::from_millis(200);

/// A flag that ends every wait.
pub(super) type Interrupt = Option<Arc<AtomicBool>>;

fn is_set(interrupt: &Interrupt) -> bool {
    interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// A stream whose reads end when the command is interrupted.
pub(super) struct Watched<R> {
    pub(super) inner: R,
    pub(super) interrupt: Interrupt,
}

impl<R: Read + AsFd> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.interrupt.is_some() {
            if is_set(&self.interrupt) {
                return Err(io::Error::other(Error::Interrupted));
            }
            if sys::wait_to_read_for(&self.inner, TICK)? {
                break;
            }
        }
        self.inner.read(buffer)
    }
}

/// Runs a blocking system call. Returns [`Error::Interrupted`] after an interrupt, even if the call
/// has not returned.
///
/// The call runs in a thread of its own, because the resolver and `connect` continue after a
/// signal. After an interrupt that thread is left behind; the process ends soon.
pub(super) fn interruptible<T: Send + 'static>(
    interrupt: &Interrupt,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if interrupt.is_none() {
        return Ok(call());
    }
    let (sender, result) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("connect".into());
    // After an interrupt the receiver no longer exists.
    thread.spawn(move || drop(sender.send(call()))).map_err(Error::Io)?;
    loop {
        match result.recv_timeout(TICK) {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) if is_set(interrupt) => return Err(Error::Interrupted),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Io(io::Error::other("a thread that connects has failed")));
            }
        }
    }
}

/// Sleeps, unless the command is interrupted.
pub(super) fn sleep(interrupt: &Interrupt, time: Duration) -> Result<(), Error> {
    let end = Instant::now() + time;
    loop {
        if is_set(interrupt) {
            return Err(Error::Interrupted);
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
        assert!(matches!(ended, Err(Error::Interrupted)));
        assert!(matches!(sleep(&Some(flag), Duration::from_secs(3600)), Err(Error::Interrupted)));
    }
}
