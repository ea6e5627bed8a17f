//! `lab report --since`: names the rows that became worse since older records.

use std::{path::Path, process::ExitCode};

use super::{Records, read, text};
use crate::{
    Error,
    measure::must,
    record::{Case, Figure, Kind, Record},
    results::median,
};

/// A row is worse if its median grew by more than this share, and by more than its spread.
const WORSE: f64 = 0.10;

/// A figure and the range in which most of its runs lie.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    low: f64,
    middle: f64,
    high: f64,
}

impl Range {
    /// Returns the quartiles of four samples or more, else the least and the most.
    fn of(figure: &Figure) -> Option<Range> {
        let wall = figure.wall()?;
        let (low, high) = wall.range.unwrap_or((wall.median, wall.median));
        if figure.summary.is_some() || figure.samples.len() < 4 {
            return Some(Range { low, middle: wall.median, high });
        }
        let mut walls: Vec<f64> = figure.samples.iter().map(|sample| sample.wall).collect();
        walls.sort_by(f64::total_cmp);
        let quarter = walls.len() / 4;
        Some(Range { low: walls[quarter], middle: wall.median, high: walls[walls.len() - 1 - quarter] })
    }

    fn per(self, other: Range) -> Range {
        Range { low: self.low / other.high, middle: self.middle / other.middle, high: self.high / other.low }
    }

    fn is_worse_than(self, before: Range) -> bool {
        self.middle > before.middle * (1.0 + WORSE) && self.low > before.high
    }
}

/// A row of a table: a case, with the record that it is in.
type Row<'a> = (&'a Record, &'a Case);

/// The comparison of two sets of records.
#[derive(Debug, Default, PartialEq)]
struct Comparison {
    worse: Vec<String>,
    compared: usize,
    /// Rows of both sets that have no common measure.
    apart: usize,
    /// Rows of the older set that the newer one lacks.
    missing: usize,
}

/// Runs `lab report --since`.
pub(super) fn run(docs: &Path, since: &str) -> Result<ExitCode, Error> {
    let (old, new) = (older(docs, since)?, read(&docs.join("measurements"))?);
    let Comparison { worse, compared, apart, missing } = compare(&old, &new);
    for line in &worse {
        println!("{line}");
    }
    println!("{compared} rows compared with {since}, {} of them worse", worse.len());
    if apart > 0 {
        println!("{apart} rows not compared: a single run, or another machine and no figure of git on both");
    }
    if missing > 0 {
        println!("{missing} rows of {since} have no newer figure");
    }
    Ok(if worse.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads the older records: a directory, a file, or the records of `docs` in a commit.
fn older(docs: &Path, since: &str) -> Result<Records, Error> {
    let path = Path::new(since);
    if path.is_dir() {
        let inner = path.join("measurements");
        return read(if inner.is_dir() { &inner } else { path });
    }
    if path.is_file() {
        return Ok(Records::from([(since.to_owned(), Record::read(path)?)]));
    }
    let git = |args: &[&str]| must(Path::new("git"), args, docs);
    let listed = git(&["ls-tree", "--name-only", since, "measurements/"])?;
    let mut records = Records::new();
    for name in String::from_utf8_lossy(&listed).lines().filter(|name| name.ends_with(".json")) {
        let text = git(&["show", &format!("{since}:./{name}")])?;
        let record =
            Record::parse(&text).map_err(|error| Error::Setup(format!("{since}:{name}: {error}")))?;
        records.insert(name.to_owned(), record);
    }
    if records.is_empty() {
        return Err(Error::Setup(format!("{since} holds no record in {}", docs.display())));
    }
    Ok(records)
}

/// Returns the rows with a figure of sapwood: the newest where several records have one.
fn rows(records: &Records) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (record, case) in
        records.values().flat_map(|record| record.cases.iter().map(move |case| (record, case)))
    {
        if case.tool("sapwood").and_then(Figure::wall).is_none() {
            continue;
        }
        match rows.iter_mut().find(|row| is_pair(row, &(record, case))) {
            Some(row) if row.0.date < record.date => *row = (record, case),
            Some(_) => {}
            None => rows.push((record, case)),
        }
    }
    rows
}

fn is_pair(left: &Row<'_>, right: &Row<'_>) -> bool {
    left.0.kind == right.0.kind && left.1.key() == right.1.key()
}

fn compare(old: &Records, new: &Records) -> Comparison {
    let mut result = Comparison::default();
    let newer = rows(new);
    for before in rows(old) {
        let Some(after) = newer.iter().find(|after| is_pair(after, &before)) else {
            result.missing += 1;
            continue;
        };
        let Some((measure, was, is)) = measures(before, *after) else {
            result.apart += 1;
            continue;
        };
        result.compared += 1;
        if is.is_worse_than(was) {
            let [tree, disk, case] = after.1.key();
            result.worse.push(format!(
                "{tree}, {disk}, {}: {measure} {} to {}, +{:.0}%",
                text::case(after.0.kind, case),
                text::ratio(was.middle),
                text::ratio(is.middle),
                (is.middle / was.middle - 1.0) * 100.0
            ));
        }
    }
    result
}

/// Returns the measure of a row, before and after. The ratio to Git can be compared on every
/// machine, seconds on the same machine only. The time of a single run is not compared: it includes
/// reading the program, and its spread is unknown.
fn measures(before: Row<'_>, after: Row<'_>) -> Option<(&'static str, Range, Range)> {
    let of_sapwood = [before.1.tool("sapwood")?, after.1.tool("sapwood")?];
    if after.0.kind == Kind::Memory {
        let [was, is] = of_sapwood.map(memory);
        return Some(("MB of memory", was, is));
    }
    if of_sapwood.iter().any(|figure| figure.samples.len() == 1) {
        return None;
    }
    let [was, is] = of_sapwood.map(Range::of);
    let (was, is) = (was?, is?);
    let gits = |case: &Case| case.best_of_git().and_then(Range::of);
    if let (Some(git_was), Some(git_is)) = (gits(before.1), gits(after.1)) {
        return Some(("of git's time", was.per(git_was), is.per(git_is)));
    }
    let same =
        (&before.0.machine.cpu, before.0.machine.cores) == (&after.0.machine.cpu, after.0.machine.cores);
    same.then_some(("seconds", was, is))
}

/// Returns the peak memory in MB, which hardly differs between runs.
fn memory(figure: &Figure) -> Range {
    let middle = median(figure.samples.iter().map(|sample| sample.peak_rss as f64 / 1024.0).collect());
    Range { low: middle, middle, high: middle }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Machine, Sample, Versions};

    fn figure(walls: &[f64]) -> Figure {
        let samples: Vec<Sample> = walls.iter().map(|&wall| Sample::wall_only(wall)).collect();
        Figure::of_samples("sapwood", &samples)
    }

    fn range(walls: &[f64]) -> Range {
        Range::of(&figure(walls)).expect("samples")
    }

    #[test]
    fn a_row_is_worse_by_more_than_its_spread() {
        let before = range(&[1.0, 1.01, 1.02]);
        assert!(range(&[1.2, 1.21, 1.22]).is_worse_than(before));
        assert!(!range(&[1.05, 1.06, 1.07]).is_worse_than(before), "by 5% only");
        assert!(!range(&[1.0, 1.3, 1.4]).is_worse_than(before), "the ranges overlap");
        // One slow run among eight does not hide a change of all others.
        let with_outlier = range(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0]);
        assert!(range(&[1.2; 8]).is_worse_than(with_outlier));
    }

    #[test]
    fn a_single_run_is_compared_by_its_memory_only() {
        let sample = |wall: f64, peak_rss| Sample { wall, peak_rss, ..Sample::default() };
        let case = |samples: &[Sample]| {
            let mut cases = Vec::new();
            Case::add(&mut cases, ["tree", "local", "status"], Figure::of_samples("sapwood", samples));
            cases.remove(0)
        };
        let (before, after) = (case(&[sample(1.0, 1024)]), case(&[sample(9.0, 2048)]));
        let mut record = Record {
            kind: Kind::Memory,
            date: String::new(),
            machine: Machine::here(),
            versions: Versions::default(),
            command: String::new(),
            load: None,
            trees: Vec::new(),
            notes: Vec::new(),
            cases: Vec::new(),
        };
        let compared = |record: &Record| measures((record, &before), (record, &after));
        let (measure, was, is) = compared(&record).expect("figures");
        assert_eq!((measure, was.middle, is.middle), ("MB of memory", 1.0, 2.0));
        record.kind = Kind::Status;
        assert_eq!(compared(&record), None);
    }
}
