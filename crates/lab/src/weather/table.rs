//! Samples by tree, disk, case and tool: medians and spread, operations per file, and the lateness
//! of answers.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Serialize;
use testkit::weather::Report;

use super::{Versions, ground::Disk};
use crate::{
    Error,
    measure::Usage,
    report::{machine, median},
};

/// One timed run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    pub(crate) wall: f64,
    pub(crate) user: f64,
    pub(crate) sys: f64,
    /// KiB
    pub(crate) peak_rss: i64,
    /// The number of requests the disk served; 0 if they are not counted.
    pub(crate) operations: u64,
    /// The kinds of requests, most frequent first.
    pub(crate) served: String,
    /// The lateness of answers in microseconds: median and 99th percentile.
    pub(crate) late: (u64, u64),
}

impl Sample {
    pub(crate) fn new(usage: Usage, report: Option<&Report>) -> Sample {
        let Usage { wall, user, sys, peak_rss, .. } = usage;
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let late = report.map_or((0, 0), |of| (micros(of.lateness.half), micros(of.lateness.p99)));
        let operations = report.map_or(0, |of| of.counts.all());
        let served = report.map_or_else(String::new, |of| of.counts.to_string());
        Sample { wall, user, sys, peak_rss, operations, served, late }
    }

    /// Returns the sample with the number of reads that the block device counted.
    pub(crate) fn with_reads(self, reads: u64) -> Sample {
        Sample { operations: reads, served: format!("{reads} reads"), ..self }
    }

    #[cfg(test)]
    pub(crate) fn wall_only(wall: f64) -> Sample {
        Sample { wall, user: 0.0, sys: 0.0, peak_rss: 0, operations: 0, served: String::new(), late: (0, 0) }
    }
}

/// The identity of a figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

#[derive(Default)]
struct Row {
    samples: Vec<Sample>,
    /// The number of files the case writes.
    files: usize,
    /// The disk, which determines the row's place in the report.
    order: Option<Disk>,
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    key: &'a Key,
    files: usize,
    median_wall: f64,
    samples: &'a [Sample],
}

#[derive(Serialize)]
struct Document<'a> {
    machine: String,
    versions: &'a Versions,
    rows: Vec<Written<'a>>,
}

impl Row {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of).collect())
    }
}

impl Table {
    pub(crate) fn add(&mut self, key: Key, sample: Sample, disk: Disk, files: usize) {
        let row = self.rows.entry(key).or_default();
        row.samples.push(sample);
        row.files = files;
        row.order = Some(disk);
    }

    /// Returns the median wall time of one tool, if it was measured.
    pub(crate) fn wall(&self, tree: &str, disk: Disk, case: &str, tool: &str) -> Option<f64> {
        let key = Key { tree: tree.into(), disk: disk.name(), case: case.into(), tool: tool.into() };
        self.rows.get(&key).map(|row| row.median(|sample| sample.wall))
    }

    /// Returns the tool with the least median wall time among the tools whose names start with
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

    /// Prints the table. The last column is the ratio of the median to that of Git's best number
    /// of workers. `MB` is the largest resident size of any one process of the tool.
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
        // Sort by the compared case, then by time.
        rows.sort_by(|(left, of_left), (right, of_right)| {
            let group = |key: &Key, row: &Row| (key.tree.clone(), row.order, row.files, key.case.clone());
            let wall = |row: &Row| row.median(|sample| sample.wall);
            group(left, of_left).cmp(&group(right, of_right)).then(wall(of_left).total_cmp(&wall(of_right)))
        });
        for (key, row) in rows {
            let walls = row.samples.iter().map(|sample| sample.wall);
            let (least, most) = (walls.clone().fold(f64::MAX, f64::min), walls.fold(0.0, f64::max));
            let wall = row.median(|sample| sample.wall);
            let peak = row.samples.iter().map(|sample| sample.peak_rss).max().unwrap_or(0) / 1024;
            let git = row.order.and_then(|disk| self.best(&key.tree, disk, &key.case, "git-"));
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

    /// Writes all samples as JSON.
    pub(crate) fn write_json(&self, path: &Path, versions: &Versions) -> Result<(), Error> {
        let rows = self.rows.iter().map(|(key, row)| Written {
            key,
            files: row.files,
            median_wall: row.median(|sample| sample.wall),
            samples: &row.samples,
        });
        let document = Document { machine: machine(), versions, rows: rows.collect() };
        let text = serde_json::to_vec_pretty(&document).expect("plain data serialises");
        fs::write(path, text).map_err(|source| Error::Io { what: "cannot write", path: path.into(), source })
    }
}
