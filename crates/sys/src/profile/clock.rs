//! The profile's clock, read at every phase change.
//!
//! If the kernel derives its own time from the processor's counter, this clock reads the counter
//! too, without the kernel's barriers. A phase change then costs a third of a read of the kernel's
//! clock, which is the fallback. In exchange, a few instructions may be attributed to the phase on
//! the other side of the change. Readings stay in ticks until they are converted for the results.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// True if a tick is one of the processor's counter, not a nanosecond of the monotonic clock. Set
/// once, before other threads start.
static COUNTED: AtomicBool = AtomicBool::new(false);
/// The time over which ticks are counted to measure their length, to about one part in 100,000.
const TRIAL: Duration = Duration::from_millis(2);
const NANOSECOND: u64 = 1 << 32;

/// The length of a tick and the start of the profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The tick at which the profile began.
    began: u64,
    /// Nanoseconds per tick, times 2^32.
    tick: u64,
    counted: bool,
}

impl Clock {
    /// Creates a clock that starts now.
    pub(super) fn new() -> Clock {
        let counted = measured();
        let clock = Clock { began: 0, tick: counted.unwrap_or(NANOSECOND), counted: counted.is_some() };
        Clock { began: clock.read(), ..clock }
    }

    /// Creates a clock that counts nanoseconds.
    #[cfg(test)]
    pub(super) fn of_nanoseconds() -> Clock {
        Clock { began: 0, tick: NANOSECOND, counted: false }
    }

    /// Makes this the clock that [`now`] reads.
    pub(super) fn install(self) {
        COUNTED.store(self.counted, Ordering::Relaxed);
    }

    /// Returns the current tick.
    fn read(self) -> u64 {
        if self.counted { counter() } else { monotonic() }
    }

    /// Returns the nanoseconds from the start to a tick.
    pub(super) fn nanos(self, at: u64) -> u64 {
        self.length(at.saturating_sub(self.began))
    }

    /// Converts ticks to nanoseconds, rounded down.
    pub(super) fn length(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.tick)) >> 32) as u64
    }

    /// Returns the first tick that is at least `nanos` nanoseconds after the start.
    pub(super) fn at(self, nanos: u64) -> u64 {
        self.began + self.ticks(nanos)
    }

    /// Converts nanoseconds to ticks, rounded up.
    pub(super) fn ticks(self, nanos: u64) -> u64 {
        (u128::from(nanos) << 32).div_ceil(u128::from(self.tick)) as u64
    }
}

/// Returns the current tick without a system call.
#[inline]
pub(super) fn now() -> u64 {
    if COUNTED.load(Ordering::Relaxed) { counter() } else { monotonic() }
}

/// Returns the nanoseconds of the monotonic clock.
pub(super) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Measures the counter: nanoseconds per tick, times 2^32. Returns `None` if the counter is not
/// reliable. The kernel uses it as its clock only if it runs at the same rate on all cores.
fn measured() -> Option<u64> {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    if cfg!(not(target_arch = "x86_64"))
        || crate::by_path::read(Path::new(SOURCE)).ok()??.trim_ascii() != b"tsc"
    {
        return None;
    }
    let began = (monotonic(), counter());
    std::thread::sleep(TRIAL);
    let ended = (monotonic(), counter());
    let (nanos, ticks) = (ended.0 - began.0, ended.1.checked_sub(began.1)?);
    let tick = (u128::from(nanos) << 32).checked_div(u128::from(ticks))?;
    u64::try_from(tick).ok().filter(|&tick| tick > 0)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_monotonic_clock() {
        let clock = Clock::new();
        let (began, before) = (monotonic(), clock.nanos(clock.read()));
        std::thread::sleep(Duration::from_millis(50));
        let (real, ours) = (monotonic() - began, clock.nanos(clock.read()) - before);
        // The scheduler may pause this thread for some milliseconds between two reads.
        assert!(ours.abs_diff(real) < real / 10 + 20_000_000, "{ours} {real}");
    }

    #[test]
    fn converts_ticks_of_any_length_both_ways() {
        for tick in [NANOSECOND, NANOSECOND / 3, NANOSECOND * 41 + 7] {
            let clock = Clock { began: 1_000, tick, counted: true };
            for nanos in [0, 1, 42, 999_999_999_999] {
                let at = clock.at(nanos);
                assert!(clock.nanos(at) >= nanos, "{tick} {nanos}");
                assert!(at == 1_000 || clock.nanos(at - 1) <= nanos, "{tick} {nanos}");
            }
        }
    }
}
