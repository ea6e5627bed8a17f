//! The clock of a profile, asked at every border.
//!
//! Where the kernel takes its own time from the processor's counter, so do we, without the kernel's barriers: a border costs a third of
//! what it does by the kernel's clock, which is asked elsewhere. A few instructions more or less on its side of a
//! border is what is given for that. What is read stays as it is, in ticks, until figures are made of it.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Whether a tick is one of the counter's, not a nanosecond of the monotonic clock. Set once, before there are threads.
static COUNTED: AtomicBool = AtomicBool::new(false);
/// How long ticks are counted to know how long one is: to about a hundred-thousandth.
const TRIAL: Duration = Duration::from_millis(2);
const NANOSECOND: u64 = 1 << 32;

/// What ticks mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The tick at which the profile began.
    began: u64,
    /// Nanoseconds of a tick, times 2^32.
    tick: u64,
    counted: bool,
}

impl Clock {
    /// One that begins now.
    pub(super) fn new() -> Clock {
        let counted = measured();
        let clock = Clock { began: 0, tick: counted.unwrap_or(NANOSECOND), counted: counted.is_some() };
        Clock { began: clock.read(), ..clock }
    }

    /// Of nanoseconds.
    #[cfg(test)]
    pub(super) fn made_up() -> Clock {
        Clock { began: 0, tick: NANOSECOND, counted: false }
    }

    /// From now on it is the one that [`now`] reads.
    pub(super) fn install(self) {
        COUNTED.store(self.counted, Ordering::Relaxed);
    }

    /// The tick it is.
    fn read(self) -> u64 {
        if self.counted { counter() } else { monotonic() }
    }

    /// Nanoseconds from the beginning to a tick.
    pub(super) fn nanos(self, at: u64) -> u64 {
        self.length(at.saturating_sub(self.began))
    }

    /// The nanoseconds of so many ticks, rounded down.
    pub(super) fn length(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.tick)) >> 32) as u64
    }

    /// The first tick that is not before so many nanoseconds from the beginning.
    pub(super) fn at(self, nanos: u64) -> u64 {
        self.began + self.ticks(nanos)
    }

    /// So many nanoseconds, or the few more that ticks allow.
    pub(super) fn ticks(self, nanos: u64) -> u64 {
        (u128::from(nanos) << 32).div_ceil(u128::from(self.tick)) as u64
    }
}

/// The tick it is, without a system call.
#[inline]
pub(super) fn now() -> u64 {
    if COUNTED.load(Ordering::Relaxed) { counter() } else { monotonic() }
}

/// Nanoseconds of the monotonic clock.
pub(super) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Nanoseconds of a tick of the counter, times 2^32, if it is to be trusted: the kernel uses it only if it goes on at one pace, on all
/// cores alike.
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
    fn it_goes_as_the_monotonic_clock() {
        let clock = Clock::new();
        let (began, before) = (monotonic(), clock.nanos(clock.read()));
        std::thread::sleep(Duration::from_millis(50));
        let (real, ours) = (monotonic() - began, clock.nanos(clock.read()) - before);
        // Whoever is put off between two looks is so by some milliseconds.
        assert!(ours.abs_diff(real) < real / 10 + 20_000_000, "{ours} {real}");
    }

    #[test]
    fn ticks_of_any_length_there_and_back() {
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
