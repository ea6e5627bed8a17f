//! The comparison of runs with Git and runs with the shim.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use testkit::shim::{self, Tally};

use crate::{
    script::Played,
    tap::{Outcome, Tap},
};

/// All runs of one script.
pub(crate) struct Trial {
    pub(crate) script: String,
    pub(crate) git: Played,
    /// The runs with the shim, by the number of checkout workers, in the requested order.
    pub(crate) shim: Vec<(u32, Played)>,
}

/// The outcomes of the cases of one run.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    pub(crate) known_breakages: usize,
    /// True if the script reached its end.
    pub(crate) whole: bool,
    pub(crate) timed_out: bool,
    pub(crate) seconds: f64,
}

impl Counts {
    fn of(played: &Played) -> Counts {
        let tap = &played.tap;
        Counts {
            passed: tap.count(Outcome::Passed),
            failed: tap.count(Outcome::Failed),
            skipped: tap.count(Outcome::Skipped),
            known_breakages: tap.count(Outcome::Broken) + tap.count(Outcome::Mended),
            whole: tap.is_whole(),
            timed_out: played.timed_out,
            seconds: (played.took.as_secs_f64() * 100.0).round() / 100.0,
        }
    }
}

/// A run with the shim.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShimRun {
    pub(crate) workers: u32,
    pub(crate) counts: Counts,
    /// The number of calls of the commands that sapwood supports.
    pub(crate) calls: usize,
    pub(crate) native: usize,
}

/// One script.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub(crate) script: String,
    pub(crate) git: Counts,
    pub(crate) shim: Vec<ShimRun>,
}

/// A case with different outcomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) script: String,
    pub(crate) number: u32,
    pub(crate) title: String,
    /// `None` if the script did not reach this case.
    pub(crate) git: Option<Outcome>,
    pub(crate) shim: Option<Outcome>,
    pub(crate) workers: u32,
}

impl Difference {
    /// Returns true if the case passes with Git and not with the shim.
    pub(crate) fn is_failure(&self) -> bool {
        self.git == Some(Outcome::Passed)
    }
}

/// The sums over all scripts for one number of workers.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Total {
    pub(crate) workers: u32,
    /// Passed with Git.
    pub(crate) by_git: usize,
    /// Passed with the shim.
    pub(crate) by_shim: usize,
    /// Passed with both.
    pub(crate) passed: usize,
    /// Passed with Git and not with the shim.
    pub(crate) failed: usize,
    /// Skipped with Git.
    pub(crate) skipped: usize,
    /// Cases that neither passed nor were skipped with Git: known breakages, and failures of Git on
    /// this machine.
    pub(crate) aside: usize,
    /// The number of calls of the commands that sapwood supports.
    pub(crate) calls: usize,
    pub(crate) native: usize,
    /// The total time of all scripts, with Git and with the shim.
    pub(crate) seconds_git: f64,
    pub(crate) seconds_shim: f64,
}

/// The results of all scripts.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    pub(crate) totals: Vec<Total>,
    /// The calls by command, over all runs.
    pub(crate) commands: BTreeMap<String, Tally>,
    pub(crate) differences: Vec<Difference>,
    pub(crate) scripts: Vec<Line>,
}

impl Findings {
    /// Compares the runs.
    pub(crate) fn of(trials: &[Trial], served: &BTreeSet<String>) -> Findings {
        let mut findings = Findings {
            totals: Vec::new(),
            commands: BTreeMap::new(),
            differences: Vec::new(),
            scripts: Vec::new(),
        };
        for trial in trials {
            let git = Counts::of(&trial.git);
            let mut line = Line { script: trial.script.clone(), git: git.clone(), shim: Vec::new() };
            for (place, (workers, played)) in trial.shim.iter().enumerate() {
                let differences = compare(&trial.script, *workers, &trial.git.tap, &played.tap);
                let failed = differences.iter().filter(|difference| difference.is_failure()).count();
                findings.differences.extend(differences);
                let mut all = Tally::default();
                for (command, tally) in shim::tally(&played.invocations, served) {
                    all.add(&tally);
                    findings.commands.entry(command).or_default().add(&tally);
                }
                let counts = Counts::of(played);
                if findings.totals.len() == place {
                    findings.totals.push(Total { workers: *workers, ..Total::default() });
                }
                let total = &mut findings.totals[place];
                total.by_git += git.passed;
                total.by_shim += counts.passed;
                total.passed += git.passed - failed;
                total.failed += failed;
                total.skipped += git.skipped;
                total.aside += git.failed + git.known_breakages;
                total.calls += all.calls();
                total.native += all.native;
                total.seconds_git += git.seconds;
                total.seconds_shim += counts.seconds;
                line.shim.push(ShimRun { workers: *workers, counts, calls: all.calls(), native: all.native });
            }
            findings.scripts.push(line);
        }
        findings
    }

    /// Returns the numbers of passed, failed and skipped cases, over all numbers of workers.
    pub(crate) fn sums(&self) -> (usize, usize, usize) {
        self.totals.iter().fold((0, 0, 0), |(passed, failed, skipped), total| {
            (passed + total.passed, failed + total.failed, skipped + total.skipped)
        })
    }
}

/// Returns the cases with different outcomes, ordered by number.
pub(crate) fn compare(script: &str, workers: u32, git: &Tap, shim: &Tap) -> Vec<Difference> {
    let difference = |number, title: &str, git, shim| Difference {
        script: script.to_owned(),
        number,
        title: title.to_owned(),
        git,
        shim,
        workers,
    };
    let mut differences: Vec<Difference> = git
        .cases
        .iter()
        .filter_map(|case| {
            let ours = shim.case(case.number).map(|case| case.outcome);
            (ours != Some(case.outcome))
                .then(|| difference(case.number, &case.title, Some(case.outcome), ours))
        })
        .collect();
    let more = shim.cases.iter().filter(|case| git.case(case.number).is_none());
    differences.extend(more.map(|case| difference(case.number, &case.title, None, Some(case.outcome))));
    differences.sort_by_key(|difference| difference.number);
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(text: &str) -> Played {
        Played { tap: Tap::parse(text), ..Played::default() }
    }

    #[test]
    fn only_what_passes_with_git_can_fail() {
        let git = "ok 1 - a\nok 2 - b\nnot ok 3 - c\nok 4 # skip d (missing D)\nnot ok 5 - e # TODO known breakage\n\
                   ok 6 - f\nok 7 - g\n1..7\n";
        let shim = "ok 1 - a\nnot ok 2 - b\nok 3 - c\nok 4 # skip d (missing D)\nok 5 - e # TODO known breakage vanished\n\
                    ok 6 # skip f (missing F)\n";
        let trial = Trial {
            script: "t0001-x".to_owned(),
            git: played(git),
            shim: vec![(1, played(git)), (8, played(shim))],
        };
        let findings = Findings::of(&[trial], &BTreeSet::from(["checkout".to_owned()]));
        let [same, other] = &findings.totals[..] else { panic!("two numbers of workers") };
        assert_eq!((same.workers, same.passed, same.failed, same.skipped, same.aside), (1, 4, 0, 1, 2));
        assert_eq!((other.workers, other.passed, other.failed, other.by_shim), (8, 1, 3, 2));
        assert_eq!(findings.sums(), (5, 3, 2));
        let seen: Vec<_> = findings.differences.iter().map(|one| (one.number, one.git, one.shim)).collect();
        assert_eq!(
            seen,
            [
                (2, Some(Outcome::Passed), Some(Outcome::Failed)),
                (3, Some(Outcome::Failed), Some(Outcome::Passed)),
                (5, Some(Outcome::Broken), Some(Outcome::Mended)),
                (6, Some(Outcome::Passed), Some(Outcome::Skipped)),
                (7, Some(Outcome::Passed), None),
            ]
        );
        assert!(!findings.scripts[0].shim[1].counts.whole);
    }

    #[test]
    fn a_case_git_does_not_come_to_is_listed_and_no_failure() {
        let found = compare("t1-x", 1, &Tap::parse("1..0 # SKIP no\n"), &Tap::parse("not ok 1 - a\n1..1\n"));
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_failure());
    }
}
