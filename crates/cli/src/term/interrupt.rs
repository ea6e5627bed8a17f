//! SIGINT and SIGTERM: the work in hand is stopped at its next step, recorded, and then the process
//! ends by the same signal. A second signal only says the same again: there is no point at which
//! dying at once would be safer than the few milliseconds that recording takes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::term::failure::Failure;

/// The signal that arrived, if any. The default has no handlers: a signal ends the process.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Installs the handlers. Locks may be taken once this has returned.
    pub(crate) fn install() -> std::io::Result<Interrupt> {
        let Interrupt { raised, signal } = Interrupt::default();
        for number in [SIGINT, SIGTERM] {
            // The number first: whoever sees the flag finds it.
            signal_hook::flag::register_usize(number, signal.clone(), number as usize)?;
            signal_hook::flag::register(number, raised.clone())?;
        }
        Ok(Interrupt { raised, signal })
    }

    /// The flag, for those who do long work.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.raised
    }

    /// Stops here if a signal came. To be called where nothing is half done.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.raised.load(Ordering::Relaxed) {
            true => Err(self.failure()),
            false => Ok(()),
        }
    }

    /// The failure that ends the process by the signal that came.
    pub(crate) fn failure(&self) -> Failure {
        Failure::Signal(self.signal.load(Ordering::Relaxed) as i32)
    }
}

/// Ends the process as if the signal had not been caught.
pub(crate) fn die_by(signal: i32) -> u8 {
    // Only returns if the signal's default is not to terminate.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    (128 + signal).clamp(0, 255) as u8
}
