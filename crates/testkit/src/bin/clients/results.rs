//! The results of a run: one for each test, from a JUnit file or from TAP lines.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use serde::Serialize;

use crate::Error;

/// The outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::Skipped => "skipped",
        })
    }
}

/// The format of a suite's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A JUnit file.
    JUnit,
    /// Lines of the Test Anything Protocol on standard output. The title is a part of the result:
    /// our own drivers print the client's output there.
    Tap,
}

/// The result of one test: its outcome, and for TAP its title.
pub(crate) type End = (Outcome, String);

/// All tests of a run by name.
pub(crate) type Results = BTreeMap<String, End>;

/// Reads the results of a run from `file`. A missing file means that no test was run.
pub(crate) fn read(format: Format, file: &Path) -> Result<Results, Error> {
    let text = match fs::read(file) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Results::new()),
        Err(error) => return Err(Error::io("read", file, error)),
    };
    match format {
        Format::Tap => Ok(tap(&text)),
        Format::JUnit => {
            junit(&text).map_err(|why| Error::Results { path: file.to_owned(), why: why.to_string() })
        }
    }
}

/// Parses `<testcase classname="c" name="n">` elements, which have a child `failure`, `error` or
/// `skipped` unless the test passed.
fn junit(text: &str) -> Result<Results, roxmltree::Error> {
    let document = roxmltree::Document::parse(text)?;
    let mut results = Results::new();
    for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
        let within = case.ancestors().skip(1).filter(|node| node.has_tag_name("testsuite"));
        let class = case.attribute("classname").filter(|class| *class != "test").map(str::to_owned);
        let class =
            class.or_else(|| within.filter_map(|node| node.attribute("name")).next().map(str::to_owned));
        let name = case.attribute("name").unwrap_or_default();
        let name = format!("{}::{name}", class.unwrap_or_default());
        let has = |tag| case.children().any(|child| child.has_tag_name(tag));
        let outcome = match (has("failure") || has("error"), has("skipped")) {
            (true, _) => Outcome::Failed,
            (_, true) => Outcome::Skipped,
            _ => Outcome::Passed,
        };
        insert(&mut results, name, (outcome, String::new()));
    }
    Ok(results)
}

/// Parses `ok 3 - title`, `not ok 3 - title`, `ok 3 # skip why`. The numbers restart with each
/// script, so this function counts the tests itself.
fn tap(text: &str) -> Results {
    let mut results = Results::new();
    for line in text.lines() {
        let (outcome, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) if rest.contains("# skip") => (Outcome::Skipped, rest),
            (Some(rest), _) => (Outcome::Passed, rest),
            (_, Some(rest)) if rest.contains("# TODO") => (Outcome::Skipped, rest),
            (_, Some(rest)) => (Outcome::Failed, rest),
            (None, None) => continue,
        };
        let name = format!("{:04}", results.len() + 1);
        insert(&mut results, name, (outcome, rest.to_owned()));
    }
    results
}

/// Tests of the same name are distinguished by their order.
fn insert(results: &mut Results, name: String, end: End) {
    let taken = (2..).map(|count| format!("{name} ({count})"));
    let free = std::iter::once(name.clone()).chain(taken).find(|name| !results.contains_key(name));
    results.insert(free.expect("numbers do not end"), end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_formats() {
        let text = r#"<?xml version="1.0"?><testsuites><testsuite name="s">
            <testcase classname="a.B" name="x"/><testcase classname="a.B" name="x"><failure message="m">t</failure></testcase>
            <testcase classname="a.B" name="y"><skipped/></testcase><testcase classname="test" name="z"><error/></testcase>
            </testsuite></testsuites>"#;
        let results = junit(text).expect("XML");
        let ends: Vec<_> = results.iter().map(|(name, (outcome, _))| (name.as_str(), *outcome)).collect();
        assert_eq!(
            ends,
            [
                ("a.B::x", Outcome::Passed),
                ("a.B::x (2)", Outcome::Failed),
                ("a.B::y", Outcome::Skipped),
                ("s::z", Outcome::Failed),
            ]
        );
        let results =
            tap("ok 1 - a\nnot ok 2 - b\nnoise\nok 1 # skip c\nnot ok 3 - d # TODO known breakage\n");
        let ends: Vec<_> = results.values().map(|(outcome, _)| *outcome).collect();
        assert_eq!(ends, [Outcome::Passed, Outcome::Failed, Outcome::Skipped, Outcome::Skipped]);
        assert_eq!(results["0001"].1, "1 - a");
    }

    #[test]
    fn no_file_is_no_test() {
        assert!(read(Format::JUnit, Path::new("/nowhere/results")).expect("not an error").is_empty());
    }
}
