//! Kills a program before one of the changes that it makes on disk.
//!
//! The program runs under `ptrace(2)`, with all its threads and all processes that it starts. Each
//! system call that changes something (`calls.rs`) has a number. Threads that run in parallel make
//! their calls in another order in each run; the numbers are those of the run at hand.
//!
//! Calls that only flush are not counted: a kill does not lose what the system has in memory.
//! Changes through a writable memory map are not seen.

mod calls;
mod tracer;

use std::{fmt, process::Command};

pub use nix::sys::signal::Signal;

use tracer::{Event, Outcome, Stop};

/// The places at which a command can be killed: before each of its changes.
#[derive(Clone, Debug)]
pub struct CrashPoints {
    /// The names of all calls that change something, in their order.
    calls: Vec<&'static str>,
    /// The numbers of the chosen ones.
    numbers: Vec<usize>,
}

impl CrashPoints {
    /// Runs the command to its end, and counts its changes. The command must succeed.
    ///
    /// The program, its arguments, its variables and its directory are those of `command`. No other
    /// variable is set, the input is empty, and the output is dropped.
    #[track_caller]
    pub fn of(command: &Command) -> CrashPoints {
        let run = tracer::run(command, None);
        assert_eq!(run.code, 0, "{command:?}: {}", run.stderr);
        assert!(!run.calls.is_empty(), "{command:?} changes nothing");
        CrashPoints { numbers: (1..=run.calls.len()).collect(), calls: run.calls }
    }

    /// Keeps the calls whose names begin with `name`, as `renameat2` does with `rename`.
    #[must_use]
    pub fn only(mut self, name: &str) -> CrashPoints {
        self.numbers.retain(|number| self.calls[number - 1].starts_with(name));
        self
    }

    /// Returns the number of points.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the numbers of all points, or of `most` evenly spread ones, with the first and the
    /// last. `most` is at least 2.
    pub fn sample(&self, most: usize) -> Vec<usize> {
        let count = self.count();
        if count <= most {
            return self.numbers.clone();
        }
        (0..most).map(|step| self.numbers[step * (count - 1) / (most - 1)]).collect()
    }
}

/// The end of a command that was to be stopped before a change.
#[derive(Debug)]
pub struct Crash {
    number: usize,
    run: Outcome,
}

impl Crash {
    /// Runs the command, and kills it and all processes that it has started before change `number`,
    /// which does not happen. Calls that other threads have begun may still end.
    pub fn before(number: usize, command: &Command) -> Crash {
        Crash {
            number,
            run: tracer::run(command, Some(Stop { number, event: Event::Signal(Signal::SIGKILL) })),
        }
    }

    /// Sends a signal to the command itself before change `number`, and waits for its end.
    pub fn interrupted(number: usize, command: &Command, signal: Signal) -> Crash {
        assert_ne!(signal, Signal::SIGKILL, "a kill concerns all processes");
        Crash { number, run: tracer::run(command, Some(Stop { number, event: Event::Signal(signal) })) }
    }

    /// Calls `act` before change `number`, while the command waits. Then the command goes on to its
    /// end.
    pub fn beside(number: usize, command: &Command, act: &(dyn Fn() + Sync)) -> Crash {
        Crash { number, run: tracer::run(command, Some(Stop { number, event: Event::Meanwhile(act) })) }
    }

    /// Returns true if the command came to the change. If not, it has made fewer changes than in
    /// the run that counted them, and must have succeeded.
    #[track_caller]
    pub fn happened(&self) -> bool {
        let happened = self.run.stopped.is_some();
        assert!(happened || self.run.code == 0, "{self}: exit {}: {}", self.run.code, self.run.stderr);
        happened
    }

    /// Returns the exit code of the command, or 128 and the number of the signal that ended it.
    pub fn code(&self) -> i32 {
        self.run.code
    }

    /// Returns the command's messages.
    pub fn stderr(&self) -> &str {
        &self.run.stderr
    }
}

/// The words for the message of a failed check.
impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.run.stopped {
            Some(call) => write!(f, "stopped before change {}, {call}", self.number),
            None => write!(f, "ended after {} changes, before change {}", self.run.calls.len(), self.number),
        }
    }
}
