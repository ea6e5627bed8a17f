//! Examines the tracked files of a local disk with cold caches in index order, before all other
//! work.
//!
//! Files were mostly written in that order, so inodes and directories lie on the disk in that
//! order, and the kernel's read-ahead fetches the blocks that are requested next. The workers share
//! one position that moves through the index, so the disk is read at one place for any number of
//! workers. Untracked files are searched for afterwards, when the directories are in memory. The
//! order is irrelevant if the disk responds almost at once, or if parallel requests take no longer
//! than one. The probe detects both. Each worker then has its own part of the index.
//!
//! Paths that cannot be examined are noted as in any scan. Entries that are skipped after an
//! interrupt are examined by the scan that follows.

use std::{collections::BTreeSet, ops::Range, sync::atomic::Ordering, thread, time::Instant};

use bstr::ByteSlice as _;

use super::{Part, Scan};
use crate::{
    crew::{Crew, Workers},
    look::untracked::Observer as _,
};

/// Below this many files, skip the cold-cache probe.
const MIN_FILES: usize = 1000;
/// The number of files, spread over the index, that are examined to detect cold caches.
const SAMPLES: usize = 4;
/// The number of waits that indicates cold caches. On a slow disk each sample waits a dozen times,
/// most of which index order would avoid. So the sample's leading directories are examined one by
/// one, until this number is reached.
const COLD_WAITS: u64 = 3;
/// A response time in seconds. Faster responses come from a disk without moving parts, on which
/// workers must not wait for each other.
const QUICK_ANSWER: f64 = 0.001;
/// The number of directories that are examined in parallel.
const PARALLEL_PROBES: usize = 8;
/// The number of further levels that are probed while the result is unclear.
const RETRIES: usize = 2;
/// The number of inodes that share a read-ahead block on ext4: 32 blocks of 4 KiB with 16 inodes
/// each.
const INODES_PER_READ: u64 = 512;

/// A local disk with cold caches, classified by the number of requests that it serves at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColdDisk {
    /// The disk serves one or few requests at a time.
    OneByOne,
    /// The disk serves many requests at once, or responds so fast that their number does not
    /// matter.
    ManyAtOnce,
}

impl Scan<'_> {
    /// Examines all tracked files if they are on a local disk with cold caches.
    pub(crate) fn sweep_if_cold(&self, workers: Workers) {
        if let Some(cold) = self.cold(workers) {
            self.sweep(workers, cold, true);
        }
    }

    /// Detects a local disk with cold caches, and measures its response time. Returns `None` for
    /// other disks and warm caches. The probe examines only paths that have to be examined anyway.
    pub(crate) fn cold(&self, workers: Workers) -> Option<ColdDisk> {
        if self.tuning.is_remote() {
            return None;
        }
        let files = self.files();
        let samples = (0..SAMPLES).map(|sample| self.nth(files * (2 * sample + 1) / (2 * SAMPLES)));
        if files < MIN_FILES || samples.clone().any(|at| !self.is_unexamined(at)) {
            return None;
        }
        // Counts only this thread's waits, because other threads may wait for other reasons.
        let (start, before) = (Instant::now(), sys::thread_waits());
        let directories = |at| {
            let path = self.index.path_at(at);
            path.find_iter(b"/").map(move |end| &path[..end])
        };
        let ask = |path: &[u8]| drop(self.root.stat_local(path));
        let steps = samples.flat_map(|at| directories(at).map(Some).chain([None]).map(move |dir| (at, dir)));
        for (at, dir) in steps {
            match dir {
                Some(dir) => ask(dir),
                None => self.look_at(at..at + 1, self.prefix(at), &mut || {}),
            }
            let waits = sys::thread_waits().saturating_sub(before);
            if waits >= COLD_WAITS {
                let alone = start.elapsed().as_secs_f64() / waits as f64;
                return Some(match workers {
                    _ if alone < QUICK_ANSWER => ColdDisk::ManyAtOnce,
                    Workers::Auto if self.serves_many(alone) => ColdDisk::ManyAtOnce,
                    _ => ColdDisk::OneByOne,
                });
            }
        }
        None
    }

    /// Returns true if parallel requests wait less than sequential ones, which take `alone` seconds
    /// each. It requests directories of the first level that has enough of them. These have to be
    /// read anyway, and a file system places directories near the root far apart.
    fn serves_many(&self, alone: f64) -> bool {
        let dev = self.root.stat_self().map_or(0, |stat| stat.dev);
        // Treat a device of unknown type as rotational.
        let gains = match sys::is_rotational(dev) {
            Some(false) => SOLID_STATE,
            Some(true) | None => ROTATIONAL,
        };
        let mut level = vec![(0..self.index.len(), 0)];
        let mut retries = RETRIES;
        loop {
            level = self.directories_in(&level);
            if level.is_empty() {
                return false;
            }
            if level.len() < PARALLEL_PROBES {
                continue;
            }
            let (waits, took) = self.probe_in_parallel(&level);
            retries -= 1;
            if let Some(answer) = gains.is_many(waits as f64 * alone / took, retries) {
                return answer;
            }
        }
    }

    /// Returns the subdirectories of the directories of a level. Each is given by its entries and
    /// the length of its path with the slash.
    fn directories_in(&self, level: &[(Range<usize>, usize)]) -> Vec<(Range<usize>, usize)> {
        let mut next = Vec::new();
        for (entries, prefix) in level {
            self.split(entries, *prefix, |part| {
                if let Part::Directory(entries, prefix) = part {
                    next.push((entries, prefix));
                }
            });
        }
        next
    }

    /// Examines some directories of a level in parallel. Returns the minimum number of reads that
    /// this required, and the time in seconds.
    fn probe_in_parallel(&self, level: &[(Range<usize>, usize)]) -> (usize, f64) {
        let start = Instant::now();
        let blocks: BTreeSet<u64> = thread::scope(|scope| {
            let spawn_stat = |(entries, prefix): &(Range<usize>, usize)| {
                let path = self.index.path_at(entries.start)[..prefix - 1].as_bstr();
                let stat = move || self.root.stat_local(path.as_bytes()).ok().flatten();
                thread::Builder::new().spawn_scoped(scope, stat).ok()
            };
            let some = level.iter().step_by(level.len().div_ceil(PARALLEL_PROBES));
            let handles: Vec<_> = some.map(spawn_stat).collect();
            let stats = handles.into_iter().flatten().filter_map(|handle| handle.join().ok().flatten());
            stats.map(|stat| stat.ino / INODES_PER_READ).collect()
        });
        (blocks.len(), start.elapsed().as_secs_f64())
    }

    /// Examines all tracked files. `is_alone` is true if no walk runs in parallel.
    pub(crate) fn sweep(&self, workers: Workers, cold: ColdDisk, is_alone: bool) {
        let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
        for at in (0..self.index.len()).filter(|&at| self.is_unexamined(at)) {
            let prefix = self.prefix(at);
            match runs.last_mut() {
                Some((run, of)) if *of == prefix && self.share_directory(run.start, at, prefix) => {
                    run.end = at + 1
                }
                _ => runs.push((at..at + 1, prefix)),
            }
        }
        let weights: Vec<usize> = runs.iter().map(|(run, _)| run.len()).collect();
        let crew = Crew::decide(workers, 0, weights.iter().sum(), Some(self.tuning)).of_units(runs.len());
        let crew = match cold {
            ColdDisk::OneByOne => crew.in_order(),
            ColdDisk::ManyAtOnce => crew.at_once(is_alone),
        };
        crew.run(
            "sweep",
            weights.into_iter(),
            |_| (),
            |(), taken, done| {
                for (run, prefix) in &runs[taken] {
                    if self.interrupt.load(Ordering::Relaxed) {
                        return;
                    }
                    self.look_at(run.clone().filter(|&at| self.is_unexamined(at)), *prefix, done);
                }
            },
        );
    }

    /// Returns the length of the path of an entry's directory, with its slash.
    fn prefix(&self, at: usize) -> usize {
        self.index.path_at(at).rfind_byte(b'/').map_or(0, |slash| slash + 1)
    }

    fn share_directory(&self, one: usize, other: usize, prefix: usize) -> bool {
        self.index.path_at(one)[..prefix] == self.index.path_at(other)[..prefix]
    }
}

/// Thresholds for the speedup of parallel over sequential requests. Each request costs two reads,
/// of which one is counted. Below `one` the disk serves one request at a time. From `many` on it
/// serves many at once.
struct SpeedupThresholds {
    one: f64,
    many: f64,
}

/// On a rotational disk even a single arm is faster if it knows the next requests.
const ROTATIONAL: SpeedupThresholds = SpeedupThresholds { one: 1.2, many: 1.6 };
const SOLID_STATE: SpeedupThresholds = SpeedupThresholds { one: 0.9, many: 0.9 };

impl SpeedupThresholds {
    /// Returns true if the disk serves many requests at once, or `None` to probe again if `retries`
    /// are left.
    fn is_many(&self, gain: f64, retries: usize) -> Option<bool> {
        let is_doubtful = (self.one..self.many).contains(&gain);
        (retries == 0 || !is_doubtful).then_some(gain >= self.many)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use repo::Repository;
    use testkit::Sandbox;

    use super::*;
    use crate::{
        crew::Tuning,
        look::{
            pathspec::Pathspecs,
            scan::{PathState, ScanTarget},
            stat::StatRules,
        },
    };

    /// The notes of a scan, as text.
    fn noted(scan: Scan<'_>) -> Vec<(usize, String)> {
        let notes = scan.into_notes().into_iter();
        notes
            .map(|note| {
                let state = match &note.state {
                    PathState::Missing => "missing".to_owned(),
                    PathState::Behind(stat) => format!("behind a link: {:?} {}", stat.file_type, stat.size),
                    PathState::There(stat) => format!("{:?} {}", stat.file_type, stat.size),
                    PathState::Unreadable(error) => error.to_string(),
                };
                (note.at, format!("{state} {:?}", note.verdict))
            })
            .collect()
    }

    #[test]
    fn a_sweep_notes_the_same_as_a_scan() {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("tree");
        for number in 0..1200 {
            repo.write(format!("{}/{}/{number}", number % 7, number % 5), "x");
        }
        repo.git(&["add", "-A"]);
        repo.remove("0/0/0");
        repo.write("1/1/1", "longer");
        for directory in ["2/3", "5/0", "6/4"] {
            std::fs::remove_dir_all(repo.join(directory)).expect("it was made");
        }
        repo.symlink("4", "2/3");
        repo.write("6/4", "a file");
        let options = repo::OpenOptions { cwd: repo.path.clone(), ..repo::OpenOptions::default() };
        let opened = Repository::open(&options).expect("a repository");
        let read = store::index::ReadOptions::default();
        let index = store::index::load(&opened.index_path(), opened.hash(), &read).expect("it was written");
        let root = sys::Dir::open(&repo.path).expect("it is there");
        let rules = StatRules::of(&opened).expect("no settings");
        let everything = Pathspecs::default();
        let interrupt = AtomicBool::new(false);
        let tuning = Tuning::default();
        let target = ScanTarget {
            root: &root,
            index: &index,
            rules,
            tuning: &tuning,
            interrupt: &interrupt,
            meter: None,
        };
        let new = || Scan::new(target, &everything);
        let mut scanned = new();
        scanned.run(Workers::Fixed(2));
        let expected = noted(scanned);
        // The fixture has three directories. If the clock is coarse, files as young as the index
        // are noted too.
        assert!(expected.len() > 100, "{}", expected.len());
        let few = [1, 8].map(|workers| (Workers::Fixed(workers), ColdDisk::OneByOne));
        for (workers, cold) in few.into_iter().chain([(Workers::Auto, ColdDisk::ManyAtOnce)]) {
            let mut swept = new();
            // A disk that responds at once gains nothing from parallel requests. A disk with very
            // long response times does.
            assert!(!swept.serves_many(0.0) && swept.serves_many(1e9));
            swept.sweep(workers, cold, cold == ColdDisk::OneByOne);
            assert!((0..index.len()).all(|at| !swept.is_unexamined(at)));
            // Entries that are already examined are skipped.
            swept.run(workers);
            assert_eq!(noted(swept), expected);
        }
    }

    #[test]
    fn an_unclear_speedup_is_probed_again() {
        let verdicts = |gains: SpeedupThresholds, seen: [f64; 2]| {
            seen.map(|gain| (gains.is_many(gain, 1), gains.is_many(gain, 0)))
        };
        assert_eq!(verdicts(ROTATIONAL, [0.8, 1.1]), [(Some(false), Some(false)); 2]);
        assert_eq!(verdicts(ROTATIONAL, [1.3, 1.5]), [(None, Some(false)); 2]);
        assert_eq!(verdicts(ROTATIONAL, [1.7, 8.0]), [(Some(true), Some(true)); 2]);
        // Values measured on disks that serve one and four requests at a time.
        assert_eq!(verdicts(SOLID_STATE, [0.6, 0.8]), [(Some(false), Some(false)); 2]);
        assert_eq!(verdicts(SOLID_STATE, [1.0, 2.8]), [(Some(true), Some(true)); 2]);
    }
}
