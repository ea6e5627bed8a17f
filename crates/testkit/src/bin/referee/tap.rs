//! Parses the output of a test script: the subset of the Test Anything Protocol that Git's scripts
//! use.
//!
//! Only lines that begin in the first column are parsed. Other lines are ignored: a script that
//! died has too few cases and no plan, and [`Tap::is_whole`] detects that.

use std::fmt;

use serde::Serialize;

/// The outcome of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// A prerequisite is missing on this machine.
    Skipped,
    /// Failed, as Git expects.
    Broken,
    /// Passed, although Git expects a failure.
    Mended,
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
            Outcome::Broken => "known breakage",
            Outcome::Mended => "breakage vanished",
        })
    }
}

/// One case of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    /// Counts from 1.
    pub(crate) number: u32,
    pub(crate) title: String,
    pub(crate) outcome: Outcome,
}

/// The parsed output of a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tap {
    /// In execution order.
    pub(crate) cases: Vec<Case>,
    /// The number of cases, which Git's scripts print last.
    pub(crate) plan: Option<u32>,
    /// The reason why the whole script was skipped.
    pub(crate) skipped: Option<String>,
    /// The reason why the script bailed out.
    pub(crate) gave_up: Option<String>,
}

impl Tap {
    /// Parses the standard output of a script.
    pub(crate) fn parse(text: &str) -> Tap {
        let mut tap = Tap::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("not ok ") {
                tap.cases.extend(case(rest, Outcome::Failed));
            } else if let Some(rest) = line.strip_prefix("ok ") {
                tap.cases.extend(case(rest, Outcome::Passed));
            } else if let Some(rest) = line.strip_prefix("1..") {
                let (count, comment) = rest.split_once(' ').unwrap_or((rest, ""));
                tap.plan = count.parse().ok().or(tap.plan);
                tap.skipped = comment.strip_prefix("# SKIP").map(|why| why.trim().to_owned());
            } else if let Some(why) = line.strip_prefix("Bail out!") {
                tap.gave_up = Some(why.trim().to_owned());
            }
        }
        tap
    }

    /// Returns true if the script reached its end: it printed the number of cases, and that number
    /// is right.
    pub(crate) fn is_whole(&self) -> bool {
        self.gave_up.is_none() && self.plan.is_some_and(|plan| plan as usize == self.cases.len())
    }

    /// Returns the case with this number.
    pub(crate) fn case(&self, number: u32) -> Option<&Case> {
        // Nearly always the case is at its own index.
        let place = self.cases.get(number.wrapping_sub(1) as usize).filter(|case| case.number == number);
        place.or_else(|| self.cases.iter().find(|case| case.number == number))
    }

    /// Returns the number of cases with this outcome.
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.cases.iter().filter(|case| case.outcome == outcome).count()
    }
}

/// Parses `7 - title`, `7 # skip title (missing WHAT)`, `7 - title # TODO known breakage`.
fn case(rest: &str, plain: Outcome) -> Option<Case> {
    let (number, title) = rest.split_once(' ').unwrap_or((rest, ""));
    let number = number.parse().ok()?;
    if let Some(title) = title.strip_prefix("# skip ") {
        return Some(Case { number, title: title.to_owned(), outcome: Outcome::Skipped });
    }
    let title = title.strip_prefix("- ").unwrap_or(title);
    let (title, outcome) = match (title.split_once(" # TODO known breakage"), plain) {
        (Some((title, _)), Outcome::Failed) => (title, Outcome::Broken),
        (Some((title, _)), _) => (title, Outcome::Mended),
        (None, plain) => (title, plain),
    };
    Some(Case { number, title: title.to_owned(), outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line() {
        let tap = Tap::parse(
            "ok 1 - setup\nnot ok 2 - a # in the title\n#\t  false\n#\nok 3 # skip no links (missing SYMLINKS)\n\
             not ok 4 - later # TODO known breakage\nok 5 - now # TODO known breakage vanished\n\
             \tok 6 - of a test within\n# failed 1 among 5 test(s)\n1..5\n",
        );
        let of = |number: u32| {
            let case = tap.case(number).expect("was said");
            (case.title.as_str(), case.outcome)
        };
        assert_eq!(of(1), ("setup", Outcome::Passed));
        assert_eq!(of(2), ("a # in the title", Outcome::Failed));
        assert_eq!(of(3), ("no links (missing SYMLINKS)", Outcome::Skipped));
        assert_eq!(of(4), ("later", Outcome::Broken));
        assert_eq!(of(5), ("now", Outcome::Mended));
        assert_eq!(tap.case(6), None);
        assert!(tap.is_whole());
        assert_eq!(tap.count(Outcome::Passed), 1);
    }

    #[test]
    fn a_script_that_died_is_not_whole() {
        assert!(!Tap::parse("ok 1 - setup\n").is_whole(), "no plan");
        assert!(!Tap::parse("ok 1 - setup\n1..2\n").is_whole(), "fewer than planned");
        let tap = Tap::parse("ok 1 - setup\nBail out! no port\n1..1\n");
        assert!(!tap.is_whole());
        assert_eq!(tap.gave_up.as_deref(), Some("no port"));
    }

    #[test]
    fn a_script_may_be_skipped_as_a_whole() {
        let tap = Tap::parse("1..0 # SKIP no web server found\n");
        assert!(tap.is_whole());
        assert_eq!(tap.skipped.as_deref(), Some("no web server found"));
        assert_eq!(Tap::parse("ok 1 - all\n1..1\n").skipped, None);
    }

    #[test]
    fn numbers_may_be_out_of_place() {
        let tap = Tap::parse("ok 2 - second\nok 1 - first\nok x - none\n");
        assert_eq!(tap.case(1).map(|case| case.title.as_str()), Some("first"));
        assert_eq!(tap.case(2).map(|case| case.title.as_str()), Some("second"));
        assert_eq!(tap.case(0), None);
        assert_eq!(tap.cases.len(), 2);
    }
}
