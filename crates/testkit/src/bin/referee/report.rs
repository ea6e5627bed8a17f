//! The Markdown report and the JSON report.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::Serialize;
use testkit::shim::Tally;

use crate::{
    compare::{Difference, Findings, Line},
    probes::Probe,
    tap::Outcome,
};

/// The environment of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    /// `2026-11-20`, UTC.
    pub(crate) date: String,
    /// `git version 2.55.0`
    pub(crate) git: String,
    /// The version and the commit.
    pub(crate) sapwood: String,
    /// `the core slice`, `the whole suite`, or the requested scripts.
    pub(crate) selection: String,
    pub(crate) processors: usize,
    pub(crate) jobs: usize,
    /// The wall time of the whole run, in seconds.
    pub(crate) seconds: u64,
}

#[derive(Serialize)]
struct Whole<'a> {
    setting: &'a Setting,
    probes: Vec<(&'a str, &'a str)>,
    #[serde(flatten)]
    findings: &'a Findings,
}

/// Returns all results as JSON.
pub(crate) fn json(setting: &Setting, probes: &[Probe], findings: &Findings) -> String {
    let probes = probes.iter().map(|probe| (probe.name, probe.reason)).collect();
    let whole = Whole { setting, probes, findings };
    serde_json::to_string_pretty(&whole).expect("plain data with text for keys") + "\n"
}

/// Returns the summary at the end of a run; its last line is `N passed, N failed, N skipped`.
pub(crate) fn summary(findings: &Findings) -> String {
    let mut text = String::new();
    for total in &findings.totals {
        let share = percent(total.native, total.calls);
        line(
            &mut text,
            &format!(
                "workers {}: passed by git {}, by the shim {}; {} failed; {} of {} calls native ({share})",
                total.workers, total.by_git, total.by_shim, total.failed, total.native, total.calls,
            ),
        );
    }
    let (passed, failed, skipped) = findings.sums();
    line(&mut text, &format!("{passed} passed, {failed} failed, {skipped} skipped"));
    text
}

/// Returns the Markdown report.
pub(crate) fn markdown(setting: &Setting, probes: &[Probe], findings: &Findings) -> String {
    let mut text = String::new();
    let (passed, failed, skipped) = findings.sums();
    line(&mut text, "# Conformance\n");
    line(
        &mut text,
        &format!(
            "The referee generates this file (`just referee --report`); do not edit it. It ran Git's own \
             test suite with the real git and with sapwood's `git` in its place. \
             [design/conformance.md](design/conformance.md) describes the method. [clients.md](clients.md) \
             has the results of the test suites of Git clients.\n\n\
             This run: {}, {} scripts, {}, {}, sapwood {}, {} processors, {} scripts at once, {} s in all.\n",
            setting.selection,
            findings.scripts.len(),
            setting.date,
            setting.git,
            setting.sapwood,
            setting.processors,
            setting.jobs,
            setting.seconds,
        ),
    );
    line(&mut text, &format!("**{passed} passed, {failed} failed, {skipped} skipped**\n"));
    totals(&mut text, findings);
    commands(&mut text, &findings.commands);
    line(&mut text, "\n## Replaced probes\n");
    for probe in probes {
        line(&mut text, &format!("- `{}` of `{}`: {}", probe.name, probe.library, probe.reason));
    }
    differences(&mut text, &findings.differences);
    line(&mut text, "\n## Scripts\n");
    line(
        &mut text,
        "The columns git and shim count passed cases; a cell has a figure for each number of workers if \
         these differ. The column native counts the native calls among all calls of the commands above, \
         summed over all numbers of workers.\n",
    );
    line(&mut text, "| script | git | shim | native |\n|---|---|---|---|");
    for script in &findings.scripts {
        line(&mut text, &row(script));
    }
    text
}

fn totals(text: &mut String, findings: &Findings) {
    line(
        text,
        "A case failed if it passed with git and did not pass with the shim. Set aside are known breakages, \
         and cases that fail with git on this machine. Times are sums over all scripts.\n",
    );
    line(
        text,
        "| workers | passed by git | by the shim | failed | skipped | set aside | native calls | time, git | shim |",
    );
    line(text, "|---|---|---|---|---|---|---|---|---|");
    for total in &findings.totals {
        line(
            text,
            &format!(
                "| {} | {} | {} | {} | {} | {} | {} of {} ({}) | {:.0} s | {:.0} s |",
                total.workers,
                total.by_git,
                total.by_shim,
                total.failed,
                total.skipped,
                total.aside,
                total.native,
                total.calls,
                percent(total.native, total.calls),
                total.seconds_git,
                total.seconds_shim,
            ),
        );
    }
}

fn commands(text: &mut String, commands: &BTreeMap<String, Tally>) {
    line(text, "\n## Commands\n");
    line(
        text,
        "Calls that the scripts make, summed over all numbers of workers. Calls that Git makes internally \
         are not counted.\n",
    );
    line(text, "| command | calls | native | share |\n|---|---|---|---|");
    for (command, tally) in commands {
        let (calls, native) = (tally.calls(), tally.native);
        line(text, &format!("| {command} | {calls} | {native} | {} |", percent(native, calls)));
    }
    let mut all = Tally::default();
    commands.values().for_each(|tally| all.add(tally));
    let share = percent(all.native, all.calls());
    line(text, &format!("| all | {} | {} | {share} |", all.calls(), all.native));
    line(text, "\n### Handed over\n\n| command | reason | calls |\n|---|---|---|");
    for (command, tally) in commands {
        let mut reasons: Vec<_> = tally.handed_over.iter().collect();
        reasons.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        for (reason, times) in reasons {
            line(text, &format!("| {command} | {} | {times} |", cell(reason)));
        }
    }
}

fn differences(text: &mut String, differences: &[Difference]) {
    line(text, "\n## Cases that differ\n");
    if differences.is_empty() {
        line(text, "None.");
        return;
    }
    let said = |end: Option<Outcome>| end.map_or_else(|| "not reached".to_owned(), |end| end.to_string());
    // Equal outcomes of a case for several numbers of workers share a row.
    let mut rows: BTreeMap<_, BTreeSet<u32>> = BTreeMap::new();
    for one in differences {
        let row = (&one.script, one.number, &one.title, said(one.git), said(one.shim));
        rows.entry(row).or_default().insert(one.workers);
    }
    line(text, "| script | case | title | git | shim | workers |\n|---|---|---|---|---|---|");
    for ((script, number, title, git, shim), workers) in rows {
        let workers: Vec<String> = workers.iter().map(u32::to_string).collect();
        let (title, workers) = (cell(title), workers.join(", "));
        line(text, &format!("| {script} | {number} | {title} | {git} | {shim} | {workers} |"));
    }
}

fn row(script: &Line) -> String {
    let mut shim: Vec<String> = script
        .shim
        .iter()
        .map(|run| {
            let cut = match (run.counts.timed_out, run.counts.whole) {
                (true, _) => " (too late)",
                (false, false) => " (died)",
                (false, true) => "",
            };
            format!("{}{cut}", run.counts.passed)
        })
        .collect();
    shim.dedup();
    let (native, calls) =
        script.shim.iter().fold((0, 0), |(native, calls), run| (native + run.native, calls + run.calls));
    let share = match calls {
        0 => String::new(),
        calls => format!("{native} of {calls} ({})", percent(native, calls)),
    };
    let cut = if script.git.timed_out { " (too late)" } else { "" };
    format!("| {} | {}{cut} | {} | {share} |", script.script, script.git.passed, shim.join("; "))
}

/// Returns a percentage with one decimal, rounded down: only a complete part gives 100%.
fn percent(part: usize, whole: usize) -> String {
    match whole {
        0 => "none".to_owned(),
        whole => {
            let tenths = part * 1000 / whole;
            format!("{}.{}%", tenths / 10, tenths % 10)
        }
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
    use crate::{compare::Trial, probes::PROBES, script::Played, tap::Tap};

    fn setting() -> Setting {
        Setting {
            date: "2026-11-20".into(),
            git: "git version 2.55.0".into(),
            sapwood: "0.1.0 (abc)".into(),
            selection: "t0001".into(),
            processors: 2,
            jobs: 3,
            seconds: 9,
        }
    }

    fn findings() -> Findings {
        let played = |text: &str, calls: &[(&str, Handling)]| Played {
            tap: Tap::parse(text),
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
        let calls =
            [("reset", Handling::Native), ("reset", Handling::Native), ("clone", Handling::HandedOver)];
        let bad = "ok 1 - a\nnot ok 2 - b | <c>\n1..2\n";
        Findings::of(
            &[Trial {
                script: "t0001-x".into(),
                git: played("ok 1 - a\nok 2 - b | <c>\n1..2\n", &[]),
                shim: vec![(1, played(bad, &calls)), (2, played(bad, &[])), (8, played("ok 1 - a\n", &[]))],
            }],
            &["reset", "clone"].map(str::to_owned).into(),
        )
    }

    #[test]
    fn the_summary_ends_with_the_counts() {
        let text = summary(&findings());
        assert_eq!(text.lines().last(), Some("3 passed, 3 failed, 0 skipped"));
        assert!(text.starts_with(
            "workers 1: passed by git 2, by the shim 1; 1 failed; 2 of 3 calls native (66.6%)\n"
        ));
    }

    #[test]
    fn the_report_names_every_difference_once() {
        let text = markdown(&setting(), PROBES, &findings());
        for expected in [
            "**3 passed, 3 failed, 0 skipped**",
            "2026-11-20, git version 2.55.0, sapwood 0.1.0 (abc)",
            "| t0001-x | 2 | b \\| &lt;c> | passed | failed | 1, 2 |",
            "| t0001-x | 2 | b \\| &lt;c> | passed | not reached | 8 |",
            "| clone | asks a\\|b | 1 |",
            "| all | 3 | 2 | 66.6% |",
            "- `test_checkout_workers` of `lib-parallel-checkout.sh`: ",
            "| t0001-x | 2 | 1; 1 (died) | 2 of 3 (66.6%) |",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
    }

    #[test]
    fn the_machine_readable_one_holds_the_same() {
        let text = json(&setting(), PROBES, &findings());
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["setting"]["git"], "git version 2.55.0");
        assert_eq!(value["totals"][0]["failed"], 1);
        assert_eq!(value["differences"][0]["shim"], "failed");
        assert_eq!(value["commands"]["clone"]["handed_over"]["asks a|b"], 1);
        assert_eq!(value["scripts"][0]["shim"][2]["counts"]["whole"], false);
    }

    #[test]
    fn shares_are_rounded_down() {
        assert_eq!(percent(9999, 10000), "99.9%");
        assert_eq!(percent(0, 0), "none");
        assert_eq!(percent(5, 5), "100.0%");
    }
}
