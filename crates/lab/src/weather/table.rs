//! Samples by tree, disk, case and tool: medians and spread, operations per file, and the lateness
//! of responses.

use std::collections::BTreeMap;

use testkit::weather::Report;

use super::mounted_disk::Disk;
use crate::{
    measure::Usage,
    record::{Case, Figure, Sample},
    results::median,
};

/// Returns the sample of a run, with the requests that the disk served.
pub(super) fn sample(usage: Usage, report: &Report) -> Sample {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let late = (micros(report.lateness.half), micros(report.lateness.p99));
    let (operations, served) = (report.counts.all(), report.counts.to_string());
    Sample { operations, served, late, ..Sample::from(usage) }
}

/// The identity of a figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) tree: String,
    pub(crate) disk: &'static str,
    pub(crate) case: String,
    pub(crate) tool: String,
}

/// All samples of one call of the lab.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<Key, Row>,
}

struct Row {
    samples: Vec<Sample>,
    /// The number of files the case writes.
    files: usize,
    disk: Disk,
    /// The position in the order of first measurement.
    number: usize,
}

impl Row {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }
}

impl Table {
    pub(crate) fn add(&mut self, key: Key, sample: Sample, disk: Disk, files: usize) {
        let number = self.rows.len();
        let row = || Row { samples: Vec::new(), files, disk, number };
        self.rows.entry(key).or_insert_with(row).samples.push(sample);
    }

    /// Returns the median wall time of one tool, if it was measured.
    pub(crate) fn wall(&self, tree: &str, disk: Disk, case: &str, tool: &str) -> Option<f64> {
        let key = Key { tree: tree.into(), disk: disk.name(), case: case.into(), tool: tool.into() };
        self.rows.get(&key).map(|row| row.median(|sample| sample.wall))
    }

    /// Returns the tool with the smallest median wall time among the tools whose names start with
    /// `prefix`.
    pub(crate) fn best(&self, tree: &str, disk: Disk, case: &str, prefix: &str) -> Option<(String, f64)> {
        let of_case = self.rows.iter().filter(|(key, _)| {
            (key.tree.as_str(), key.disk, key.case.as_str()) == (tree, disk.name(), case)
                && key.tool.starts_with(prefix)
        });
        of_case
            .map(|(key, row)| (key.tool.clone(), row.median(|sample| sample.wall)))
            .min_by(|left, right| left.1.total_cmp(&right.1))
    }

    /// Prints the table. The last column is the ratio of the median to that of Git's best number of
    /// workers. `MB` is the peak resident size of the tool's largest process.
    pub(crate) fn print(&self) {
        println!(
            "{:<10} {:<9} {:<12} {:<11} {:>2} {:>9} {:>19} {:>6} {:>9} {:>14} {:>7}",
            "tree",
            "disk",
            "case",
            "tool",
            "n",
            "wall s",
            "least .. most",
            "MB",
            "ops/file",
            "late us p50/99",
            "/ git"
        );
        let mut rows: Vec<_> = self.rows.iter().collect();
        // Sort by case, then by time.
        rows.sort_by(|(left, of_left), (right, of_right)| {
            let group = |key: &Key, row: &Row| (key.tree.clone(), row.disk, row.files, key.case.clone());
            let wall = |row: &Row| row.median(|sample| sample.wall);
            group(left, of_left).cmp(&group(right, of_right)).then(wall(of_left).total_cmp(&wall(of_right)))
        });
        for (key, row) in rows {
            let walls = row.samples.iter().map(|sample| sample.wall);
            let (least, most) = (walls.clone().fold(f64::MAX, f64::min), walls.fold(0.0, f64::max));
            let wall = row.median(|sample| sample.wall);
            let peak = row.samples.iter().map(|sample| sample.peak_rss).max().unwrap_or(0) / 1024;
            let git = self.best(&key.tree, row.disk, &key.case, "git-");
            let ratio = git.map_or_else(String::new, |(_, git)| format!("{:.3}", wall / git));
            let (mut per_file, mut late) = (String::new(), String::new());
            if row.samples.iter().any(|sample| sample.operations > 0) {
                per_file = format!("{:.2}", row.median(|sample| sample.operations as f64) / row.files as f64);
                let worst = row.samples.iter().map(|sample| sample.late.1).max().unwrap_or(0);
                late = format!("{}/{worst}", row.median(|sample| sample.late.0 as f64));
            }
            println!(
                "{:<10} {:<9} {:<12} {:<11} {:>2} {wall:>9.3} {least:>8.3} .. {most:>7.3} {peak:>6} {per_file:>9} {late:>14} {ratio:>7}",
                key.tree,
                key.disk,
                key.case,
                key.tool,
                row.samples.len(),
            );
        }
    }

    /// Returns all figures, in the order in which the cases were first measured.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by_key(|(_, row)| row.number);
        let mut cases = Vec::new();
        for (Key { tree, disk, case, tool }, row) in rows {
            Case::add(&mut cases, [tree, disk, case], Figure::of_samples(tool, &row.samples));
        }
        cases
    }
}
