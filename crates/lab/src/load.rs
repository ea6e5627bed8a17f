//! How busy the machine is.

use std::{fmt, fs, thread, time::Duration};

use serde::{Deserialize, Serialize};

/// The share of the processors' time that other programs may take while the lab waits.
///
/// `lab report --since` names a row that became 10% worse. Other work on a share S of the
/// processors makes a command that uses all of them slower by about S. Half of what is named is
/// the most that the machine itself may add, on any number of processors.
const BUSY: f64 = 0.05;
/// The share of the last ten seconds in which a process may have waited for a disk, from the same
/// consideration.
const WAITING: f64 = 0.05;

/// The load of a machine at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Load {
    /// The average number of runnable processes over the last minute.
    pub(crate) average: f64,
    /// The share of the last ten seconds in which a process waited for a disk; `None` without the
    /// kernel's pressure figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<f64>,
}

impl Load {
    pub(crate) fn now() -> Load {
        let average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let average = average.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0);
        let pressure = fs::read_to_string("/proc/pressure/io").ok();
        Load { average, waiting: pressure.as_deref().and_then(waiting) }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.average)
    }
}

/// Parses the share of ten seconds in which some process waited.
fn waiting(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let value = line.split(' ').find_map(|word| word.strip_prefix("avg10="))?;
    value.parse::<f64>().ok().map(|percent| percent / 100.0)
}

/// The processors' time in ticks: all of it, and the idle part.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    all: u64,
    idle: u64,
}

impl Ticks {
    fn now() -> Option<Ticks> {
        Ticks::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line of /proc/stat. Time that the host of a virtual machine took counts as
    /// busy. Guests' time is already part of the first two fields.
    fn parse(text: &str) -> Option<Ticks> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
        // Field 3 is idle time, field 4 idle time with a disk at work.
        Some(Ticks { all: fields.iter().sum(), idle: fields.get(3)? + fields.get(4)? })
    }

    fn busy_since(self, before: Ticks) -> f64 {
        let (all, idle) = (self.all.saturating_sub(before.all), self.idle.saturating_sub(before.idle));
        if all == 0 { 0.0 } else { 1.0 - idle as f64 / all as f64 }
    }
}

/// Watches the machine for this time, in which the lab does nothing. Returns the reason why it is
/// too busy for measurements, if it is.
pub(crate) fn objection(watch: Duration) -> Option<String> {
    let before = Ticks::now();
    thread::sleep(watch);
    let busy = before.zip(Ticks::now()).map_or(0.0, |(before, after)| after.busy_since(before));
    judge(busy, Load::now())
}

/// Returns the reason why a machine with this share of busy time and this load is too busy.
fn judge(busy: f64, load: Load) -> Option<String> {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    if busy > BUSY {
        return Some(format!(
            "other programs use {} of the processors, at most {} is accepted; the load average is {load}",
            percent(busy),
            percent(BUSY)
        ));
    }
    let waiting = load.waiting.filter(|&waiting| waiting > WAITING)?;
    Some(format!(
        "other programs waited for disks in {} of the last ten seconds, at most {} is accepted",
        percent(waiting),
        percent(WAITING)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_refused() {
        let load = Load { average: 0.4, waiting: Some(0.01) };
        assert_eq!(judge(0.03, load), None);
        let text = judge(0.5, load).expect("half of the processors");
        assert!(text.contains("50% of the processors, at most 5%"), "{text}");
        let text = judge(0.0, Load { waiting: Some(0.3), ..load }).expect("a busy disk");
        assert!(text.contains("disks in 30%"), "{text}");
        assert_eq!(judge(0.0, Load { waiting: None, ..load }), None);
    }

    #[test]
    fn ticks_and_pressure_are_parsed() {
        let of = |text| Ticks::parse(text).expect("a line of /proc/stat");
        let before = of("cpu  100 0 100 700 50 0 0 50 9 9\ncpu0 1\n");
        let after = of("cpu  140 0 110 730 60 0 0 60 9 9\n");
        assert_eq!(before, Ticks { all: 1000, idle: 750 });
        assert!((after.busy_since(before) - 0.6).abs() < 1e-9);
        let text = "some avg10=2.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00\n";
        assert_eq!(waiting(text), Some(0.025));
    }
}
