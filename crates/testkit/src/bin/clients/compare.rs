//! Compares the runs of one client.

use std::collections::{BTreeMap, BTreeSet};

use testkit::shim::{self, Tally};

use crate::{
    results::{End, Outcome},
    roster::Client,
    run::Played,
};

/// A test with different results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) test: String,
    /// `None` if the test did not run.
    pub(crate) git: Option<End>,
    pub(crate) shim: Option<End>,
}

/// All runs of one client.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) client: &'static Client,
    pub(crate) tests: usize,
    pub(crate) passed_by_git: usize,
    pub(crate) failed_by_git: usize,
    pub(crate) passed_by_shim: usize,
    pub(crate) failed_by_shim: usize,
    /// Flaky tests: their results differ between the two runs with git.
    pub(crate) unsteady: Vec<String>,
    pub(crate) differences: Vec<Difference>,
    /// The calls by command, with the shim.
    pub(crate) calls: BTreeMap<String, Tally>,
    /// The mean time of the two runs with git.
    pub(crate) seconds_git: f64,
    pub(crate) seconds_shim: f64,
}

impl Trial {
    pub(crate) fn of(client: &'static Client, git: [Played; 2], shim: Played) -> Trial {
        let [first, again] = git;
        let names: BTreeSet<&String> =
            [&first, &again, &shim].into_iter().flat_map(|played| played.results.keys()).collect();
        let mut unsteady = Vec::new();
        let mut differences = Vec::new();
        for test in names {
            let git = first.results.get(test);
            if git != again.results.get(test) {
                unsteady.push(test.clone());
            } else if git != shim.results.get(test) {
                let shim = shim.results.get(test).cloned();
                differences.push(Difference { test: test.clone(), git: git.cloned(), shim });
            }
        }
        Trial {
            client,
            tests: first.results.len(),
            passed_by_git: first.count(Outcome::Passed),
            failed_by_git: first.count(Outcome::Failed),
            passed_by_shim: shim.count(Outcome::Passed),
            failed_by_shim: shim.count(Outcome::Failed),
            unsteady,
            differences,
            calls: shim::tally_all(&shim.invocations),
            seconds_git: (first.took + again.took).as_secs_f64() / 2.0,
            seconds_shim: shim.took.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{results::Results, roster::CLIENTS};

    fn played(ends: &[(&str, Outcome)]) -> Played {
        let results: Results =
            ends.iter().map(|(name, outcome)| ((*name).to_owned(), (*outcome, String::new()))).collect();
        Played { results, ..Played::default() }
    }

    #[test]
    fn a_test_differs_unless_git_itself_is_unsteady() {
        use Outcome::{Failed, Passed, Skipped};
        let git = || played(&[("a", Passed), ("b", Passed), ("c", Failed), ("d", Passed), ("e", Skipped)]);
        let again = played(&[("a", Passed), ("b", Passed), ("c", Failed), ("d", Failed), ("e", Skipped)]);
        let shim = played(&[("a", Passed), ("b", Failed), ("c", Passed), ("d", Failed), ("f", Passed)]);
        let trial = Trial::of(&CLIENTS[0], [git(), again], shim);
        assert_eq!(trial.unsteady, ["d"]);
        let tests: Vec<_> = trial.differences.iter().map(|one| one.test.as_str()).collect();
        assert_eq!(tests, ["b", "c", "e", "f"]);
        assert_eq!((trial.tests, trial.passed_by_git, trial.failed_by_git), (5, 3, 1));
        assert!(Trial::of(&CLIENTS[0], [git(), git()], git()).differences.is_empty());
    }

    #[test]
    fn an_answer_that_differs_is_a_difference() {
        let said = |said: &str| {
            let results = [("1".to_owned(), (Outcome::Passed, said.to_owned()))].into();
            Played { results, ..Played::default() }
        };
        let trial = Trial::of(&CLIENTS[0], [said("x"), said("x")], said("y"));
        assert_eq!(trial.differences.len(), 1);
    }
}
