//! SIGINT, SIGTERM, SIGHUP and SIGQUIT. After a signal the operation stops at its next step,
//! records its progress, and the process ends by the same signal. A signal that the parent process
//! ignores stays ignored (`nohup`). A second signal has no further effect: the few milliseconds
//! that recording takes are always safer than ending at once.

use std::{
    io,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::term::failure::Failure;

/// The signal that arrived, if any. The default value installs no handlers: a signal ends the
/// process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    /// The signals that have a handler.
    handled: Vec<i32>,
}

impl Interrupt {
    /// Installs the handlers. Lock files may be created once this has returned.
    pub(crate) fn install() -> io::Result<Interrupt> {
        let mut interrupt = Interrupt::default();
        interrupt.arm()?;
        Ok(interrupt)
    }

    /// Like [`Interrupt::install`], for a value that was cloned before: its clones see the signals
    /// too.
    pub(crate) fn arm(&mut self) -> io::Result<()> {
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            if matches!(number, SIGHUP | SIGQUIT) && sys::is_ignored(number) {
                continue;
            }
            // Register the number first: a thread that sees the flag then finds the number.
            signal_hook::flag::register_usize(number, self.signal.clone(), number as usize)?;
            signal_hook::flag::register(number, self.raised.clone())?;
            self.handled.push(number);
        }
        Ok(())
    }

    /// Returns a stream that becomes readable when a signal arrives; `None` without handlers,
    /// because a signal then ends the process.
    pub(crate) fn stream(&self) -> io::Result<Option<UnixStream>> {
        if self.handled.is_empty() {
            return Ok(None);
        }
        let (read, write) = UnixStream::pair()?;
        for number in &self.handled {
            signal_hook::low_level::pipe::register(*number, write.try_clone()?)?;
        }
        Ok(Some(read))
    }

    /// Returns the flag that a signal sets, for threads that outlive a borrow.
    pub(crate) fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.raised)
    }

    /// Returns the flag that a signal sets, for long operations to check.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.raised
    }

    /// Returns true if a signal arrived.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Forgets the last signal if it is one of `signals`: it was meant for another program.
    pub(crate) fn forget(&self, signals: &[i32]) {
        if signals.contains(&(self.signal.load(Ordering::Relaxed) as i32)) {
            self.raised.store(false, Ordering::Relaxed);
            self.signal.store(0, Ordering::Relaxed);
        }
    }

    /// Returns an error if a signal arrived. Called where no step is half done.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.raised.load(Ordering::Relaxed) {
            true => Err(self.failure()),
            false => Ok(()),
        }
    }

    /// Returns the failure that ends the process by the signal that arrived.
    pub(crate) fn failure(&self) -> Failure {
        Failure::Signal(self.signal.load(Ordering::Relaxed) as i32)
    }
}

/// Ends the process as if the signal had not been caught.
pub(crate) fn die_by(signal: i32) -> u8 {
    // This only returns if the signal's default action is not to terminate.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    (128 + signal).clamp(0, 255) as u8
}
