//! Tracked files of a local disk with cold caches: all in the order of the index, before anything else.
//!
//! Whatever wrote the files did it mostly in that order, so inodes and directories lie like that, and what the kernel reads ahead is what is
//! asked for next. Workers share one place that moves through the index: however many there are, the disk reads at one place. What is
//! untracked is looked for afterwards, in directories that are in memory by then. None of this counts where an answer takes next to no time, or where
//! many at once take no longer than one, which is found out beforehand: there workers have parts of their own.
//!
//! What cannot be looked at is noted as by any scan; what an interruption leaves out is left to the scan that follows.

use std::{collections::BTreeSet, ops::Range, sync::atomic::Ordering, thread, time::Instant};

use bstr::ByteSlice as _;

use super::{Part, Scan};
use crate::{
    crew::{Crew, Workers},
    look::untracked::Beside as _,
};

/// Fewer files are not worth a question.
const MANY: usize = 1000;
/// Files that are asked for, at most, to find out whether the caches are cold, spread over the index,
const SAMPLES: usize = 4;
/// and how many waits say so. On a slow disk each file costs a dozen, of which the order of the index would spare most, so directories on the way
/// to it are asked for one by one.
const COLD: u64 = 3;
/// An answer in less, s, is that of a disk with nothing that has to move: there workers must not wait for each other.
const QUICK: f64 = 0.001;
/// Directories that are asked for at the same time,
const TOGETHER: usize = 8;
/// and how often another level is asked, where that left a doubt.
const TRIES: usize = 2;
/// Inodes that are surely in one block of those that are read as one: 32 blocks of 4 KiB with 16 inodes each, on ext4.
const INODES_READ_AS_ONE: u64 = 512;

/// A disk of this machine whose caches are cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cold {
    /// It serves one at a time, or few.
    OneByOne,
    /// It serves many, or answers so soon that this does not count.
    ManyAtOnce,
}

impl Scan<'_> {
    /// Looks at all tracked files if their disk is a local one and its caches are cold.
    pub(crate) fn sweep_if_cold(&self, workers: Workers) {
        if let Some(cold) = self.cold(workers) {
            self.sweep(workers, cold, true);
        }
    }

    /// How the disk answers, if it is a local one and its caches are cold. It is asked for what is to be looked at in any case.
    pub(crate) fn cold(&self, workers: Workers) -> Option<Cold> {
        if self.tuning.is_remote() {
            return None;
        }
        let files = self.files();
        let samples = (0..SAMPLES).map(|sample| self.nth(files * (2 * sample + 1) / (2 * SAMPLES)));
        if files < MANY || samples.clone().any(|at| !self.is_left(at)) {
            return None;
        }
        // Others wait for other things meanwhile.
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
            if waits >= COLD {
                let alone = start.elapsed().as_secs_f64() / waits as f64;
                return Some(match workers {
                    _ if alone < QUICK => Cold::ManyAtOnce,
                    Workers::Auto if self.serves_many(alone) => Cold::ManyAtOnce,
                    _ => Cold::OneByOne,
                });
            }
        }
        None
    }

    /// Whether those who wait together wait less than one after the other, for each of whom a wait is `alone` seconds. They ask for the directories
    /// of one level, the first that has several: they have to be read in any case, and a file system puts those near the root far from each other.
    fn serves_many(&self, alone: f64) -> bool {
        let dev = self.root.stat_self().map_or(0, |stat| stat.dev);
        // Who does not say is taken for one in which something does.
        let gains = match sys::is_rotational(dev) {
            Some(false) => UNMOVED,
            Some(true) | None => MOVED,
        };
        let mut level = vec![(0..self.index.len(), 0)];
        let mut tries = TRIES;
        loop {
            level = self.directories_in(&level);
            if level.is_empty() {
                return false;
            }
            if level.len() < TOGETHER {
                continue;
            }
            let (waits, took) = self.wait_together(&level);
            tries -= 1;
            if let Some(answer) = gains.is_many(waits as f64 * alone / took, tries) {
                return answer;
            }
        }
    }

    /// The directories in those of one level, each as its entries and the length of its path, with a slash at its end.
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

    /// Asks for some directories of a level at the same time. Returns how many reads that took at the least, and how many seconds.
    fn wait_together(&self, level: &[(Range<usize>, usize)]) -> (usize, f64) {
        let start = Instant::now();
        let read_as_one: BTreeSet<u64> = thread::scope(|scope| {
            let ask = |(entries, prefix): &(Range<usize>, usize)| {
                let path = self.index.path_at(entries.start)[..prefix - 1].as_bstr();
                let ask = move || self.root.stat_local(path.as_bytes()).ok().flatten();
                thread::Builder::new().spawn_scoped(scope, ask).ok()
            };
            let some = level.iter().step_by(level.len().div_ceil(TOGETHER));
            let asked: Vec<_> = some.map(ask).collect();
            let stats = asked.into_iter().flatten().filter_map(|asked| asked.join().ok().flatten());
            stats.map(|stat| stat.ino / INODES_READ_AS_ONE).collect()
        });
        (read_as_one.len(), start.elapsed().as_secs_f64())
    }

    /// Looks at all tracked files. It `is_alone` if nobody walks beside it.
    pub(crate) fn sweep(&self, workers: Workers, cold: Cold, is_alone: bool) {
        let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
        for at in (0..self.index.len()).filter(|&at| self.is_left(at)) {
            let prefix = self.prefix(at);
            match runs.last_mut() {
                Some((run, of)) if *of == prefix && self.is_in_one(run.start, at, prefix) => run.end = at + 1,
                _ => runs.push((at..at + 1, prefix)),
            }
        }
        let weights: Vec<usize> = runs.iter().map(|(run, _)| run.len()).collect();
        let crew = Crew::decide(workers, 0, weights.iter().sum(), Some(self.tuning)).of_units(runs.len());
        let crew = match cold {
            Cold::OneByOne => crew.in_order(),
            Cold::ManyAtOnce => crew.at_once(is_alone),
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
                    self.look_at(run.clone().filter(|&at| self.is_left(at)), *prefix, done);
                }
            },
        );
    }

    /// The length of an entry's directory, with a slash at its end.
    fn prefix(&self, at: usize) -> usize {
        self.index.path_at(at).rfind_byte(b'/').map_or(0, |slash| slash + 1)
    }

    fn is_in_one(&self, one: usize, other: usize, prefix: usize) -> bool {
        self.index.path_at(one)[..prefix] == self.index.path_at(other)[..prefix]
    }
}

/// How many times faster than one by one those that are asked for together are answered, as each costs two reads, of which one is reckoned: a gain
/// below which one is served at a time, and one from which on many are.
struct Gains {
    one: f64,
    many: f64,
}

/// Where something moves: one arm gains by knowing where it is to go next.
const MOVED: Gains = Gains { one: 1.2, many: 1.6 };
const UNMOVED: Gains = Gains { one: 0.9, many: 0.9 };

impl Gains {
    /// Whether a disk serves many. `None`: to be asked again, which can be done as often as `tries` says.
    fn is_many(&self, gain: f64, tries: usize) -> Option<bool> {
        let is_doubtful = (self.one..self.many).contains(&gain);
        (tries == 0 || !is_doubtful).then_some(gain >= self.many)
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
        look::{pathspec::Pathspecs, scan::Sight, stat::StatRules},
    };

    /// What is noted of each entry by one way of looking.
    fn noted(scan: Scan<'_>) -> Vec<(usize, String)> {
        let notes = scan.into_notes().into_iter();
        notes
            .map(|note| {
                let sight = match &note.sight {
                    Sight::Missing => "missing".to_owned(),
                    Sight::Behind(stat) => format!("behind a link: {:?} {}", stat.file_type, stat.size),
                    Sight::There(stat) => format!("{:?} {}", stat.file_type, stat.size),
                    Sight::Unreadable(error) => error.to_string(),
                };
                (note.at, format!("{sight} {:?}", note.verdict))
            })
            .collect()
    }

    #[test]
    fn it_sees_what_a_scan_sees() {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("tree");
        for number in 0..1200 {
            repo.write(format!("{}/{}/{number}", number % 7, number % 5), "x");
        }
        repo.git(&["add", "-A"]);
        repo.remove("0/0/0");
        repo.write("1/1/1", "longer");
        for directory in ["2/3", "6/4"] {
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
        let new = || Scan::new(&root, &index, (rules, &tuning), &everything, &interrupt);
        let mut scanned = new();
        scanned.run(Workers::Fixed(2));
        let expected = noted(scanned);
        assert!(expected.len() > 100, "{}", expected.len());
        let few = [1, 8].map(|workers| (Workers::Fixed(workers), Cold::OneByOne));
        for (workers, cold) in few.into_iter().chain([(Workers::Auto, Cold::ManyAtOnce)]) {
            let mut swept = new();
            // All in no time, and nothing in a long time.
            assert!(!swept.serves_many(0.0) && swept.serves_many(1e9));
            swept.sweep(workers, cold, cold == Cold::OneByOne);
            assert!((0..index.len()).all(|at| !swept.is_left(at)));
            // Nothing is looked at twice.
            swept.run(workers);
            assert_eq!(noted(swept), expected);
        }
    }

    #[test]
    fn what_is_in_doubt_is_asked_again() {
        let asked =
            |gains: Gains, seen: [f64; 2]| seen.map(|gain| (gains.is_many(gain, 1), gains.is_many(gain, 0)));
        assert_eq!(asked(MOVED, [0.8, 1.1]), [(Some(false), Some(false)); 2]);
        assert_eq!(asked(MOVED, [1.3, 1.5]), [(None, Some(false)); 2]);
        assert_eq!(asked(MOVED, [1.7, 8.0]), [(Some(true), Some(true)); 2]);
        // What was measured of disks that serve one at a time, and four.
        assert_eq!(asked(UNMOVED, [0.6, 0.8]), [(Some(false), Some(false)); 2]);
        assert_eq!(asked(UNMOVED, [1.0, 2.8]), [(Some(true), Some(true)); 2]);
    }
}
