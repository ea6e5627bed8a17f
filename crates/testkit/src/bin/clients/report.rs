//! The Markdown report, and the summary at the end of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use testkit::shim::Tally;

use crate::{
    compare::Trial,
    results::End,
    roster::{Registry, Suite},
};

/// The environment of a run.
pub(crate) struct Setting {
    /// `2026-11-20`, UTC.
    pub(crate) date: String,
    /// `git version 2.55.0`
    pub(crate) git: String,
    /// The version and the commit.
    pub(crate) sapwood: String,
    pub(crate) processors: usize,
    pub(crate) jobs: usize,
    pub(crate) seconds: u64,
}

/// Returns the summary: a line for each client, then the differences. The last line is `N passed, N
/// failed`: tests with the same result as with git, and tests with another result.
pub(crate) fn summary(trials: &[Trial], served: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for trial in trials {
        let (native, of_served, calls) = counts(trial, served);
        line(
            &mut text,
            &format!(
                "{} {}: {} tests, passed by git {}, by the shim {}; {} differ, {} unsteady; \
                 {calls} calls, {native} of {of_served} served ones native; git {:.1} s, shim {:.1} s",
                trial.client.name,
                trial.client.version,
                trial.tests,
                trial.passed_by_git,
                trial.passed_by_shim,
                trial.differences.len(),
                trial.unsteady.len(),
                trial.seconds_git,
                trial.seconds_shim,
            ),
        );
    }
    for trial in trials {
        for test in &trial.unsteady {
            line(&mut text, &format!("unsteady: {}: {test}", trial.client.name));
        }
        for one in &trial.differences {
            let (git, shim) = (told(one.git.as_ref()), told(one.shim.as_ref()));
            line(
                &mut text,
                &format!("differs: {}: {}: git: {git}; shim: {shim}", trial.client.name, one.test),
            );
        }
    }
    let sum = |of: fn(&Trial) -> f64| trials.iter().map(of).sum::<f64>();
    let (git, shim) = (sum(|trial| trial.seconds_git), sum(|trial| trial.seconds_shim));
    line(&mut text, &format!("all: git {git:.1} s, shim {shim:.1} s"));
    let failed: usize = trials.iter().map(|trial| trial.differences.len()).sum();
    let set_aside: usize = trials.iter().map(|trial| trial.unsteady.len()).sum();
    let tests: usize = trials.iter().map(|trial| trial.tests).sum();
    line(&mut text, &format!("{} passed, {failed} failed", tests.saturating_sub(failed + set_aside)));
    text
}

/// Returns the Markdown report.
pub(crate) fn markdown(setting: &Setting, trials: &[Trial], served: &BTreeSet<String>) -> String {
    let mut text = String::from("# Test suites of Git clients\n\n");
    line(
        &mut text,
        &format!(
            "`just clients --report` generates this file; do not edit it. It ran the test suites of Git \
             clients with the real git and with sapwood's `git` in its place. \
             [design/conformance.md](design/conformance.md) describes the method.\n\n\
             This run: {}, {}, sapwood {}, {} processors, {} clients at once, {} s in all.\n",
            setting.date, setting.git, setting.sapwood, setting.processors, setting.jobs, setting.seconds,
        ),
    );
    line(
        &mut text,
        "| client | suite | tests | passed, failed with git | passed, failed with the shim | differ | unsteady | calls | native, of the served calls | time, git | time, shim |\n\
         |---|---|---|---|---|---|---|---|---|---|---|",
    );
    for trial in trials {
        line(&mut text, &row(trial, served));
    }
    let calls = all_calls(trials);
    let total = Trial::total(trials, served);
    line(&mut text, &total);
    differences(&mut text, trials);
    commands(&mut text, &calls, served);
    text
}

fn row(trial: &Trial, served: &BTreeSet<String>) -> String {
    let registry = match trial.client.registry {
        Registry::PyPI => "PyPI",
        Registry::Npm => "npm",
    };
    let suite = match trial.client.suite {
        Suite::Published => format!("{registry}'s"),
        Suite::Checkout { tag } => format!("the client's repository, {tag}"),
        Suite::Driver { .. } => "our driver".to_owned(),
    };
    let (native, of_served, calls) = counts(trial, served);
    format!(
        "| {} {} | {suite} | {} | {}, {} | {}, {} | {} | {} | {calls} | {native} of {of_served} | {:.1} s | {:.1} s |",
        trial.client.name,
        trial.client.version,
        trial.tests,
        trial.passed_by_git,
        trial.failed_by_git,
        trial.passed_by_shim,
        trial.failed_by_shim,
        trial.differences.len(),
        trial.unsteady.len(),
        trial.seconds_git,
        trial.seconds_shim,
    )
}

impl Trial {
    /// Returns the last row of the table.
    fn total(trials: &[Trial], served: &BTreeSet<String>) -> String {
        let sum = |of: &dyn Fn(&Trial) -> usize| trials.iter().map(of).sum::<usize>();
        let seconds = |of: fn(&Trial) -> f64| trials.iter().map(of).sum::<f64>();
        format!(
            "| all | | {} | {}, {} | {}, {} | {} | {} | {} | {} of {} | {:.1} s | {:.1} s |",
            sum(&|trial: &Trial| trial.tests),
            sum(&|trial: &Trial| trial.passed_by_git),
            sum(&|trial: &Trial| trial.failed_by_git),
            sum(&|trial: &Trial| trial.passed_by_shim),
            sum(&|trial: &Trial| trial.failed_by_shim),
            sum(&|trial: &Trial| trial.differences.len()),
            sum(&|trial: &Trial| trial.unsteady.len()),
            sum(&|trial: &Trial| counts(trial, served).2),
            sum(&|trial: &Trial| counts(trial, served).0),
            sum(&|trial: &Trial| counts(trial, served).1),
            seconds(|trial| trial.seconds_git),
            seconds(|trial| trial.seconds_shim),
        )
    }
}

fn differences(text: &mut String, trials: &[Trial]) {
    let left_out: Vec<_> =
        trials.iter().map(|trial| trial.client).filter(|client| !client.left_out.is_empty()).collect();
    if !left_out.is_empty() {
        line(text, "\n## Left out\n");
    }
    for client in left_out {
        for (test, why) in client.left_out {
            line(text, &format!("- {}: `{test}`: {why}", client.name));
        }
    }
    if trials.iter().any(|trial| !trial.unsteady.is_empty()) {
        line(text, "\n## Unsteady\n\nThese tests ended differently in the two runs with git.\n");
    }
    for trial in trials {
        for test in &trial.unsteady {
            line(text, &format!("- {}: `{test}`", trial.client.name));
        }
    }
    if trials.iter().any(|trial| !trial.differences.is_empty()) {
        line(text, "\n## Differences\n\n| client | test | git | shim |\n|---|---|---|---|");
    }
    for trial in trials {
        for one in &trial.differences {
            let (git, shim) = (told(one.git.as_ref()), told(one.shim.as_ref()));
            let cells = [trial.client.name, &one.test, &git, &shim].map(cell);
            line(text, &format!("| {} |", cells.join(" | ")));
        }
    }
}

fn commands(text: &mut String, calls: &BTreeMap<String, Tally>, served: &BTreeSet<String>) {
    line(
        text,
        "\n## Calls\n\nCalls that the clients and their suites make. Calls that Git makes internally are not counted.\n",
    );
    line(text, "| command | calls | native | reasons for handing over |\n|---|---|---|---|");
    let mut commands: Vec<_> = calls.iter().collect();
    commands.sort_by_key(|(name, tally)| (std::cmp::Reverse(tally.calls()), name.as_str()));
    for (name, tally) in commands {
        let reasons = if served.contains(name.as_str()) { reasons(tally) } else { "the command".to_owned() };
        let name = if name.is_empty() { "(none)" } else { name };
        line(
            text,
            &format!("| {} | {} | {} | {} |", cell(name), tally.calls(), tally.native, cell(&reasons)),
        );
    }
}

/// Returns the reasons, the most frequent first.
fn reasons(tally: &Tally) -> String {
    let mut reasons: Vec<_> = tally.handed_over.iter().collect();
    reasons.sort_by_key(|(reason, times)| (std::cmp::Reverse(**times), reason.as_str()));
    let shown: Vec<String> = reasons.iter().map(|(reason, times)| format!("{reason}: {times}")).collect();
    shown.join("; ")
}

/// Returns the number of native calls, of calls of the commands that sapwood supports, and of all
/// calls.
fn counts(trial: &Trial, served: &BTreeSet<String>) -> (usize, usize, usize) {
    let of = |only_served: bool| {
        let calls =
            trial.calls.iter().filter(move |(name, _)| !only_served || served.contains(name.as_str()));
        calls.fold((0, 0), |(native, all), (_, tally)| (native + tally.native, all + tally.calls()))
    };
    let (native, calls) = of(true);
    (native, calls, of(false).1)
}

fn all_calls(trials: &[Trial]) -> BTreeMap<String, Tally> {
    let mut all: BTreeMap<String, Tally> = BTreeMap::new();
    for (name, tally) in trials.iter().flat_map(|trial| &trial.calls) {
        all.entry(name.clone()).or_default().add(tally);
    }
    all
}

fn told(end: Option<&End>) -> String {
    match end {
        None => "not run".to_owned(),
        Some((outcome, title)) if title.is_empty() => outcome.to_string(),
        Some((outcome, title)) => format!("{outcome}: {title}"),
    }
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn line(text: &mut String, more: &str) {
    writeln!(text, "{more}").expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use testkit::shim::{Handling, Invocation};

    use super::*;
    use crate::{results::Outcome, roster::CLIENTS, run::Played};

    fn trials() -> Vec<Trial> {
        let played = |ends: &[(&str, Outcome)], calls: &[(&str, Handling)]| Played {
            results: ends.iter().map(|(name, end)| ((*name).to_owned(), (*end, String::new()))).collect(),
            invocations: calls
                .iter()
                .map(|(command, outcome)| Invocation {
                    command: Some((*command).to_owned()),
                    outcome: *outcome,
                    reason: Some("asks a|b".to_owned()),
                })
                .collect(),
            ..Played::default()
        };
        let git = || played(&[("a", Outcome::Passed), ("b", Outcome::Passed)], &[]);
        let calls =
            [("reset", Handling::Native), ("clone", Handling::HandedOver), ("log", Handling::HandedOver)];
        let shim = played(&[("a", Outcome::Passed), ("b", Outcome::Failed)], &calls);
        vec![Trial::of(&CLIENTS[0], [git(), git()], shim)]
    }

    fn served() -> BTreeSet<String> {
        ["reset", "clone"].map(str::to_owned).into()
    }

    #[test]
    fn the_summary_ends_with_the_counts() {
        let text = summary(&trials(), &served());
        assert_eq!(text.lines().last(), Some("1 passed, 1 failed"));
        assert!(text.contains("3 calls, 1 of 2 served ones native"), "{text}");
        assert!(
            text.contains(&format!("differs: {}: b: git: passed; shim: failed\n", CLIENTS[0].name)),
            "{text}"
        );
    }

    #[test]
    fn the_report_names_differences_and_calls() {
        let setting = Setting {
            date: "2026-11-20".into(),
            git: "git version 2.55.0".into(),
            sapwood: "0.1.0 (abc)".into(),
            processors: 2,
            jobs: 1,
            seconds: 9,
        };
        let text = markdown(&setting, &trials(), &served());
        for expected in [
            "2026-11-20, git version 2.55.0, sapwood 0.1.0 (abc), 2 processors",
            "| all | | 2 | 2, 0 | 1, 1 | 1 | 0 | 3 | 1 of 2 |",
            "| b | passed | failed |",
            "| clone | 1 | 0 | asks a\\|b: 1 |",
            "| log | 1 | 0 | the command |",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }
}
