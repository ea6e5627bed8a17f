//! Keeps the machine's memory in the same state before each run.
//!
//! The host of a virtual machine reclaims the guest's free memory within seconds. The first touch
//! of a reclaimed page is then up to five times slower, so the same checkout takes 2.1 s in one
//! run and 3.0 s in the next. The lab therefore occupies free memory between runs, and releases it
//! while a run allocates. The kernel derives its limits for dirty pages from the memory it could
//! reclaim. While the ballast exists, the limits are fixed at their values without it.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memmap2::{Advice, MmapMut};

use crate::{Error, measure::must};

/// Memory allocated between runs, and the kernel settings to restore. See the module's description.
pub(crate) struct Ballast {
    held: Vec<MmapMut>,
    limits: Vec<Limit>,
}

/// The previous value of `vm.NAME_ratio`, in percent.
struct Limit {
    name: &'static str,
    ratio: u64,
}

/// The unit of allocation and release, in bytes.
const SLICE: usize = 64 << 20;
/// The memory kept free during a run, in bytes: enough that the kernel need not reclaim.
const FREE: u64 = 7 << 29;
/// The memory left free by the first fill, in bytes. It is less than `FREE`, so the memory that is
/// released for a run was touched before.
const LEAST_FREE: u64 = 3 << 29;
/// The interval between two checks of free memory during a run. A run allocates some ten MB in
/// this time, and more frequent checks would slow it down.
const PERIOD: Duration = Duration::from_millis(10);

impl Ballast {
    /// Fixes the limits for dirty pages and occupies free memory. This evicts the page cache, so
    /// callers warm files afterwards.
    pub(crate) fn new() -> Result<Ballast, Error> {
        let available = memory("MemAvailable:")?;
        let mut ballast = Ballast { held: Vec::new(), limits: Vec::new() };
        for name in ["dirty_background", "dirty"] {
            let ratio = read(&format!("/proc/sys/vm/{name}_ratio"))?.trim().parse().unwrap_or(0);
            // Zero means that the limit is already fixed in bytes.
            if ratio > 0 {
                ballast.limits.push(Limit { name, ratio });
                write(&format!("/proc/sys/vm/{name}_bytes"), available / 100 * ratio)?;
            }
        }
        ballast.fill_to(LEAST_FREE)?;
        Ok(ballast)
    }

    /// Writes back the dirty pages of earlier runs, then occupies free memory down to `FREE`.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        self.fill_to(FREE)
    }

    fn fill_to(&mut self, left: u64) -> Result<(), Error> {
        must(Path::new("sync"), &[], Path::new("/"))?;
        while memory("MemFree:")? > left + SLICE as u64 {
            let mut slice =
                MmapMut::map_anon(SLICE).map_err(|source| Error::Setup(format!("ballast: {source}")))?;
            // Huge pages make allocation and release much cheaper. A refusal is harmless.
            let _ = slice.advise(Advice::HugePage);
            slice.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            self.held.push(slice);
        }
        while !self.held.is_empty() && memory("MemFree:")? < FREE {
            self.held.pop();
        }
        Ok(())
    }

    /// Runs `work` and meanwhile releases memory whenever less than `FREE` is free.
    pub(crate) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if memory("MemFree:").is_ok_and(|free| free < FREE) {
                        let kept = self.held.len().saturating_sub(2);
                        self.held.truncate(kept);
                    }
                    thread::sleep(PERIOD);
                }
            });
            let result = work();
            done.store(true, Ordering::Relaxed);
            result
        })
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        for Limit { name, ratio } in &self.limits {
            if let Err(error) = write(&format!("/proc/sys/vm/{name}_ratio"), *ratio) {
                eprintln!("lab: vm.{name}_ratio was {ratio}: {error}");
            }
        }
    }
}

/// Returns one line of /proc/meminfo, in bytes.
fn memory(name: &str) -> Result<u64, Error> {
    let text = read("/proc/meminfo")?;
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes << 10)
        .ok_or_else(|| Error::Setup(format!("no {name} in /proc/meminfo")))
}

fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Io { what: "cannot read", path: path.into(), source })
}

fn write(path: &str, value: u64) -> Result<(), Error> {
    fs::write(path, value.to_string()).map_err(|source| Error::Io {
        what: "cannot set",
        path: path.into(),
        source,
    })
}
