//! Memory in the same state before each run.
//!
//! A virtual machine's host takes back what the guest has free, within seconds. The first touch of a page is then
//! up to five times dearer, so that one and the same checkout takes 2.1 s or 3.0 s. Between the runs, free
//! memory is therefore kept in use, and let go of while a run takes it. The kernel's limits for dirty pages, which follow from what
//! it could reclaim, are fixed meanwhile at what they would be without.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use memmap2::{Advice, MmapMut};

use crate::{Error, measure::must};

/// See the module.
pub(crate) struct Ballast {
    held: Vec<MmapMut>,
    limits: Vec<Limit>,
}

/// `vm.NAME_ratio`, in percent, which stood there before.
struct Limit {
    name: &'static str,
    ratio: u64,
}

/// What is taken and let go of at once, bytes.
const SLICE: usize = 64 << 20;
/// What a run finds free at each moment, bytes: so much that the kernel need not reclaim.
const FREE: u64 = 7 << 29;
/// At first all but this is taken, bytes, so that what is free later has been touched, too.
const LEAST_FREE: u64 = 3 << 29;
/// A run takes some ten MB in this time, and is not to be slowed down by being watched.
const PERIOD: Duration = Duration::from_millis(10);

impl Ballast {
    /// Fixes the limits and takes what is free, also from the page cache: files are to be warmed after this.
    pub(crate) fn new() -> Result<Ballast, Error> {
        let available = memory("MemAvailable:")?;
        let mut ballast = Ballast { held: Vec::new(), limits: Vec::new() };
        for name in ["dirty_background", "dirty"] {
            let ratio = read(&format!("/proc/sys/vm/{name}_ratio"))?.trim().parse().unwrap_or(0);
            // Zero: it is fixed already.
            if ratio > 0 {
                ballast.limits.push(Limit { name, ratio });
                write(&format!("/proc/sys/vm/{name}_bytes"), available / 100 * ratio)?;
            }
        }
        ballast.fill_to(LEAST_FREE)?;
        Ok(ballast)
    }

    /// Takes what is free but for what a run shall find. What earlier runs have left to be written is written first.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        self.fill_to(FREE)
    }

    fn fill_to(&mut self, left: u64) -> Result<(), Error> {
        must(Path::new("sync"), &[], Path::new("/"))?;
        while memory("MemFree:")? > left + SLICE as u64 {
            let mut slice =
                MmapMut::map_anon(SLICE).map_err(|source| Error::Setup(format!("ballast: {source}")))?;
            // Taking and giving back becomes much cheaper. Only a hint.
            let _ = slice.advise(Advice::HugePage);
            slice.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
            self.held.push(slice);
        }
        while !self.held.is_empty() && memory("MemFree:")? < FREE {
            self.held.pop();
        }
        Ok(())
    }

    /// Does `work` and meanwhile lets go of what it takes.
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

/// A line of /proc/meminfo, in bytes.
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
