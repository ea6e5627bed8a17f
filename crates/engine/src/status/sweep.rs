//! Tracked files of a local disk with cold caches: all in the order of the index, before anything else.
//!
//! Whatever wrote the files did it mostly in that order, so inodes and directories lie like that, and what the kernel reads ahead is what is
//! asked for next. Workers share one place that moves through the index: however many there are, the disk reads at one place. What is
//! untracked is looked for afterwards, in directories that are in memory by then.
//!
//! What cannot be looked at is noted as by any scan; what an interruption leaves out is left to the scan that follows.

use std::{ops::Range, sync::atomic::Ordering};

use bstr::ByteSlice as _;

use super::scan::Scan;
use crate::{
    checkout::Workers,
    crew::{Crew, Tuning},
    untracked::Beside as _,
};

/// Fewer files are not worth a question.
const MANY: usize = 1000;
/// Files that are asked for, at most, to find out whether the caches are cold, spread over the index,
const SAMPLES: usize = 4;
/// and how many waits say so. On a slow disk each file costs a dozen, of which the order of the index would spare most.
const COLD: u64 = 2;

impl Scan<'_> {
    /// Looks at all tracked files if their disk is a local one and its caches are cold.
    pub(super) fn sweep_if_cold(&self, workers: Workers, tuning: &Tuning) {
        if !tuning.is_remote() && self.is_cold() {
            self.sweep(workers, tuning);
        }
    }

    fn is_cold(&self) -> bool {
        let files = self.files();
        let samples = (0..SAMPLES).map(|sample| self.nth(files * (2 * sample + 1) / (2 * SAMPLES)));
        if files < MANY || samples.clone().any(|at| !self.is_left(at)) {
            return false;
        }
        let before = sys::waits();
        samples.into_iter().any(|at| {
            self.look_at(at..at + 1, self.prefix(at), &mut || {});
            sys::waits().saturating_sub(before) >= COLD
        })
    }

    fn sweep(&self, workers: Workers, tuning: &Tuning) {
        let mut runs: Vec<(Range<usize>, usize)> = Vec::new();
        for at in (0..self.index.entries().len()).filter(|&at| self.is_left(at)) {
            let prefix = self.prefix(at);
            match runs.last_mut() {
                Some((run, of)) if *of == prefix && self.is_in_one(run.start, at, prefix) => run.end = at + 1,
                _ => runs.push((at..at + 1, prefix)),
            }
        }
        let weights: Vec<usize> = runs.iter().map(|(run, _)| run.len()).collect();
        let crew =
            Crew::decide(workers, 0, weights.iter().sum(), Some(tuning)).of_units(runs.len()).in_order();
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

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use repo::Repository;
    use testkit::Sandbox;

    use super::{super::scan::Sight, *};
    use crate::{pathspec::Pathspecs, stat::StatRules};

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
        let new = || Scan::new(&root, &index, rules, &everything, &interrupt);
        let mut scanned = new();
        scanned.run(Workers::Fixed(2), &Tuning::default());
        let expected = noted(scanned);
        assert!(expected.len() > 100, "{}", expected.len());
        for workers in [1, 8] {
            let mut swept = new();
            swept.sweep(Workers::Fixed(workers), &Tuning::default());
            assert!((0..index.entries().len()).all(|at| !swept.is_left(at)));
            // Nothing is looked at twice.
            swept.run(Workers::Fixed(workers), &Tuning::default());
            assert_eq!(noted(swept), expected);
        }
    }
}
