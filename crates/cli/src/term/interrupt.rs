//! SIGINT, SIGTERM, SIGHUP and SIGQUIT. The handlers are installed before the first change of
//! anything outside the process ([`sys::interrupt`]); until then a signal ends the process. After a
//! handled signal the operation stops at its next step, records its progress, and the process ends
//! by the same signal. A signal that was ignored at the start stays ignored (`nohup`, `&` in a
//! script), also in the programs that this one starts. A second signal has no further effect: the
//! few milliseconds that recording takes are always safer than ending at once.

use std::{
    io,
    os::unix::net::UnixStream,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::term::failure::Failure;

/// The last signal that arrived, or 0.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// The signals that have a handler.
static HANDLED: OnceLock<Vec<i32>> = OnceLock::new();

/// The signal that arrived, if any. The state belongs to the process, like its signals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interrupt(());

impl Interrupt {
    /// Lets the handlers be installed before the first change.
    pub(crate) fn prepare() {
        sys::interrupt::install_before_first_change(|| {
            let handled = install().expect("these signals can have handlers");
            let _ = HANDLED.set(handled);
        });
    }

    /// Installs the handlers now, for a command that has something to write when it ends.
    pub(crate) fn install_now() {
        sys::interrupt::install();
    }

    /// Installs the handlers, and returns a stream that becomes readable when a signal arrives.
    /// Returns `None` if there are no handlers, because a signal then ends the process.
    pub(crate) fn stream(&self) -> io::Result<Option<UnixStream>> {
        sys::interrupt::install();
        let Some(handled) = HANDLED.get() else { return Ok(None) };
        let (read, write) = UnixStream::pair()?;
        for number in handled {
            signal_hook::low_level::pipe::register(*number, write.try_clone()?)?;
        }
        Ok(Some(read))
    }

    /// Installs the handlers, and returns the flag that a signal sets, for threads that outlive a
    /// borrow. They may change something on another machine, which has to be undone.
    pub(crate) fn shared(&self) -> Arc<AtomicBool> {
        sys::interrupt::install();
        Arc::clone(sys::interrupt::flag())
    }

    /// Returns the flag that a signal sets, for long operations to check.
    pub(crate) fn flag(&self) -> &'static AtomicBool {
        sys::interrupt::flag()
    }

    /// Returns true if a signal arrived.
    pub(crate) fn is_raised(&self) -> bool {
        sys::interrupt::is_raised()
    }

    /// Forgets the last signal if it is one of `signals`: it was meant for another program.
    pub(crate) fn forget(&self, signals: &[i32]) {
        if signals.contains(&(SIGNAL.load(Ordering::Relaxed) as i32)) {
            self.flag().store(false, Ordering::Relaxed);
            SIGNAL.store(0, Ordering::Relaxed);
        }
    }

    /// Returns an error if a signal arrived. Called where no step is half done.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.is_raised() { Err(self.failure()) } else { Ok(()) }
    }

    /// Returns the failure that ends the process by the signal that arrived.
    pub(crate) fn failure(&self) -> Failure {
        Failure::Signal(SIGNAL.load(Ordering::Relaxed) as i32)
    }

    /// Returns the result of a command: after a signal it ends by that signal, whatever failed
    /// because of it. A failure with another cause is printed.
    pub(crate) fn settle(&self, result: Result<u8, Failure>) -> Result<u8, Failure> {
        match result {
            Ok(1..) if self.is_raised() => Err(self.failure()),
            Err(failure) if self.is_raised() && !matches!(failure, Failure::Signal(_)) => {
                failure.print();
                Err(self.failure())
            }
            result => result,
        }
    }
}

fn install() -> io::Result<Vec<i32>> {
    let mut handled = Vec::new();
    for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        // A handler would also end the ignoring in the Git that replaces this process.
        if sys::is_ignored(number) {
            continue;
        }
        // Register the number first: a thread that sees the flag then finds the number.
        signal_hook::flag::register_usize(number, SIGNAL.clone(), number as usize)?;
        signal_hook::flag::register(number, sys::interrupt::flag().clone())?;
        sys::interrupt::end_waits_by(number);
        handled.push(number);
    }
    Ok(handled)
}

/// Ends the process as if the signal had not been caught.
pub(crate) fn die_by(signal: i32) -> u8 {
    // This only returns if the signal's default action is not to terminate.
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    (128 + signal).clamp(0, 255) as u8
}
