//! The table: a line for each phase that occurred.

use std::fmt::Write as _;

use sys::profile::{Phase, Profile};

/// Times are sums over all threads, in milliseconds.
pub(super) fn draw(profile: &Profile, command: &str) -> String {
    let sys::profile::Threads { count: threads, wall: lived } = profile.threads;
    let mut table = format!(
        "profile: {command}: {} ms, {threads} thread{}\n{:<8} {:>9} {:>12} {:>12} {:>12} {:>6}\n",
        millis(profile.wall),
        if threads == 1 { "" } else { "s" },
        "phase",
        "count",
        "ms",
        "on CPU",
        "off CPU",
        "%"
    );
    let mut line = |name: &str, count: &str, wall: u64, off: u64| {
        let share = wall as f64 * 100.0 / lived.max(1) as f64;
        let (all, on, off) = (millis(wall), millis(wall - off), millis(off));
        // Writing into a string cannot fail.
        let _ = writeln!(table, "{name:<8} {count:>9} {all:>12} {on:>12} {off:>12} {share:>6.1}");
    };
    let mut waited = 0;
    for phase in Phase::ALL {
        let total = profile.total(phase);
        waited += total.off;
        if total.count > 0 || total.wall > 0 {
            // The remaining time has no number of calls.
            let count = if phase == Phase::Other { String::new() } else { total.count.to_string() };
            line(phase.name(), &count, total.wall, total.off);
        }
    }
    line("threads", "", lived, waited);
    table
}

/// Returns milliseconds with three decimals.
fn millis(nanos: u64) -> String {
    let micros = (nanos + 500) / 1000;
    format!("{}.{:03}", micros / 1000, micros % 1000)
}
