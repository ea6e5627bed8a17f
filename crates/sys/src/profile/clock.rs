//! The clock of a profile: nanoseconds since its start, asked at every border.
//!
//! Where the kernel takes its own time from the processor's counter, so do we, without the kernel's barriers: a border costs a third of
//! what it does by the kernel's clock, which is asked elsewhere. A few instructions more or less on its side of a
//! border is what is given for that.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// When the profile began: nanoseconds of the monotonic clock, or ticks.
static BEGAN: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds of a tick, times 2^32; 0 where there are no ticks to be trusted.
static OF_A_TICK: AtomicU64 = AtomicU64::new(0);
/// How long ticks are counted to know how long one is: to about a hundred-thousandth.
const TRIAL: Duration = Duration::from_millis(2);

/// Begins with zero.
pub(super) fn start() {
    OF_A_TICK.store(measured().unwrap_or(0), Ordering::Relaxed);
    BEGAN.store(raw(), Ordering::Relaxed);
}

/// Nanoseconds since the start, without a system call.
pub(super) fn now() -> u64 {
    let since = raw().saturating_sub(BEGAN.load(Ordering::Relaxed));
    match OF_A_TICK.load(Ordering::Relaxed) {
        0 => since,
        nanos => ((u128::from(since) * u128::from(nanos)) >> 32) as u64,
    }
}

fn raw() -> u64 {
    match OF_A_TICK.load(Ordering::Relaxed) {
        0 => monotonic(),
        _ => ticks(),
    }
}

/// Nanoseconds of the monotonic clock.
pub(super) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// See [`OF_A_TICK`]. The kernel uses the counter only if it goes on at one pace, on all cores alike.
fn measured() -> Option<u64> {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    if cfg!(not(target_arch = "x86_64"))
        || crate::by_path::read(Path::new(SOURCE)).ok()??.trim_ascii() != b"tsc"
    {
        return None;
    }
    let began = (monotonic(), ticks());
    std::thread::sleep(TRIAL);
    let ended = (monotonic(), ticks());
    let (nanos, ticks) = (ended.0 - began.0, ended.1.checked_sub(began.1)?);
    (u128::from(nanos) << 32).checked_div(u128::from(ticks)).and_then(|nanos| u64::try_from(nanos).ok())
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_as_the_monotonic_clock() {
        start();
        let (began, before) = (monotonic(), now());
        std::thread::sleep(Duration::from_millis(50));
        let (real, ours) = (monotonic() - began, now() - before);
        // Whoever is put off between two looks is so by some milliseconds.
        assert!(ours.abs_diff(real) < real / 10 + 20_000_000, "{ours} {real}");
    }
}
