//! Records: one JSON file for one run of the lab, with date, machine, versions, command line and
//! every sample. `lab report` writes docs/measurements.md from them.
//!
//! Figures that were measured before the lab wrote records contain a summary instead of samples.

mod file;

use std::{collections::BTreeMap, fmt, fs, path::Path};

use serde::{Deserialize, Serialize};

pub(crate) use self::file::{RecordOptions, note_load};
use crate::{
    Error,
    load::Load,
    measure::{Usage, must},
    results::median,
};

/// The results of one run of the lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// Date as `YYYY-MM-DD`, in UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// The version of each program; that of sapwood includes its commit.
    pub(crate) versions: Versions,
    pub(crate) command: String,
    /// The load before the first run and after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<[Load; 2]>,
    pub(crate) trees: Vec<Tree>,
    /// Explanations of the figures, as Markdown sentences.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    pub(crate) cases: Vec<Case>,
}

/// The lab's command that measured the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Checkout,
    Weather,
    Status,
    Day,
    Workspace,
    Life,
    Agents,
    Article,
    Write,
    Add,
    Clone,
    Ci,
    Fleet,
    Scale,
    Memory,
    Small,
}

/// The version text of each program, by program name.
pub(crate) type Versions = BTreeMap<String, String>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// `None` if it was not recorded.
    pub(crate) cpu: Option<String>,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
}

/// A measured tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) files: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) directories: Option<usize>,
}

/// One case on one disk, with the figures of all tools.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) tree: String,
    pub(crate) disk: String,
    pub(crate) case: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) at_most: AtMost,
    /// The number of calls in a run of `lab day`, and how many of them were native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls: Option<(usize, usize)>,
    pub(crate) tools: Vec<Figure>,
}

/// The project's targets for sapwood in a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AtMost {
    /// As a ratio to Git's best time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) git: Option<f64>,
    /// As a ratio to gix's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gix: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seconds: Option<f64>,
}

/// The measurements of one tool in one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    pub(crate) tool: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) samples: Vec<Sample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Summary>,
}

/// One timed run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    /// Seconds
    pub(crate) wall: f64,
    /// Seconds
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) user: f64,
    /// Seconds
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) sys: f64,
    /// KiB
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) peak_rss: i64,
    /// KiB
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) peak_anonymous: i64,
    /// The number of page faults; 0 if they were not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) faults: i64,
    /// Bytes of changed pages and direct writes for a disk; 0 on a memory file system.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) written: i64,
    /// The number of system calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) calls: Option<i64>,
    /// The number of instructions that the program itself ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instructions: Option<i64>,
    /// The number of requests the disk served; 0 if they are not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) operations: u64,
    /// The kinds of requests, most frequent first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) served: String,
    /// The lateness of responses in microseconds: median and 99th percentile.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) late: (u64, u64),
    /// KiB that the run added on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<i64>,
    /// KiB that the run added to the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cached: Option<i64>,
    /// The number of calls of `stat` and its variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<i64>,
    /// The number of calls of `open` and its variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) opens: Option<i64>,
    /// The number of calls that found a lock taken or a branch moved, and were repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<u64>,
    /// Bytes that a host of a fleet received, with the headers of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) received: Option<u64>,
    /// Seconds of CPU that the servers used for a host of a fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<f64>,
}

/// Figures from before samples were kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Summary {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<usize>,
    /// Seconds
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wall: Option<Spread>,
    /// KiB, minimum and maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak_rss: Option<(i64, i64)>,
    /// KiB, minimum and maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak_anonymous: Option<(i64, i64)>,
}

/// A median, and the minimum and maximum of its values, if recorded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<(f64, f64)>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Sample {
    pub(crate) fn wall_only(wall: f64) -> Self {
        Sample { wall, ..Sample::default() }
    }
}

impl From<Usage> for Sample {
    fn from(usage: Usage) -> Self {
        let Usage { wall, user, sys, peak_rss, peak_anonymous, faults, written, code: _ } = usage;
        Sample { wall, user, sys, peak_rss, peak_anonymous, faults, written, ..Sample::default() }
    }
}

impl Figure {
    pub(crate) fn of_samples(tool: &str, samples: &[Sample]) -> Figure {
        Figure { tool: tool.to_owned(), samples: samples.to_vec(), summary: None }
    }

    pub(crate) fn runs(&self) -> Option<usize> {
        match &self.summary {
            Some(summary) => summary.runs,
            None => Some(self.samples.len()),
        }
    }

    /// Returns the wall time, in seconds.
    pub(crate) fn wall(&self) -> Option<Spread> {
        if let Some(summary) = &self.summary {
            return summary.wall;
        }
        let walls: Vec<f64> = self.samples.iter().map(|sample| sample.wall).collect();
        let range = (walls.iter().copied().reduce(f64::min)?, walls.iter().copied().reduce(f64::max)?);
        Some(Spread { median: median(walls), range: Some(range) })
    }

    /// Returns the minimum and maximum of the resident memory, in KiB.
    pub(crate) fn peak_rss(&self) -> Option<(i64, i64)> {
        self.summary.as_ref().map_or_else(|| self.range(|sample| sample.peak_rss), |summary| summary.peak_rss)
    }

    /// Returns the minimum and maximum of the anonymous memory, in KiB.
    pub(crate) fn peak_anonymous(&self) -> Option<(i64, i64)> {
        let of_samples = || self.range(|sample| sample.peak_anonymous);
        self.summary.as_ref().map_or_else(of_samples, |summary| summary.peak_anonymous)
    }

    /// Returns the median of a value over the samples that contain it.
    pub(crate) fn median_of(&self, of: impl Fn(&Sample) -> Option<i64>) -> Option<f64> {
        let values: Vec<f64> = self.samples.iter().filter_map(of).map(|value| value as f64).collect();
        (!values.is_empty()).then(|| median(values))
    }

    fn range(&self, of: fn(&Sample) -> i64) -> Option<(i64, i64)> {
        let values = self.samples.iter().map(of);
        let range = (values.clone().min()?, values.max()?);
        (range.1 > 0).then_some(range)
    }
}

impl Case {
    /// Adds the figure of a tool to the case with this tree, disk and name. Creates the case if it
    /// is new.
    pub(crate) fn add(cases: &mut Vec<Case>, key: [&str; 3], figure: Figure) {
        if let Some(case) = cases.iter_mut().find(|of| [&*of.tree, &*of.disk, &*of.case] == key) {
            return case.tools.push(figure);
        }
        let [tree, disk, case] = key.map(str::to_owned);
        cases.push(Case { tree, disk, case, at_most: AtMost::default(), calls: None, tools: vec![figure] });
    }

    pub(crate) fn key(&self) -> [&str; 3] {
        [&self.tree, &self.disk, &self.case]
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Figure> {
        self.tools.iter().find(|figure| figure.tool == name)
    }

    /// Returns Git's figures with their numbers of workers, if known. `git-best` is the best of
    /// several numbers; the record does not say which.
    fn of_git(&self) -> impl Iterator<Item = (Option<usize>, &Figure)> {
        self.tools.iter().filter_map(|figure| match figure.tool.split_once('-') {
            None if figure.tool == "git" => Some((None, figure)),
            Some(("git", workers)) => Some((workers.parse().ok(), figure)),
            _ => None,
        })
    }

    /// Returns Git's figure with the smallest median.
    pub(crate) fn best_of_git(&self) -> Option<&Figure> {
        let time = |figure: &Figure| figure.wall().map_or(f64::INFINITY, |wall| wall.median);
        self.of_git().map(|(_, figure)| figure).min_by(|left, right| time(left).total_cmp(&time(right)))
    }

    /// Returns Git's figure with the fewest workers, if it ran with several numbers of them.
    pub(crate) fn git_with_fewest(&self) -> Option<&Figure> {
        let several = self.of_git().count() > 1;
        let known = self.of_git().filter_map(|(workers, figure)| Some((workers?, figure)));
        known.filter(|_| several).min_by_key(|(workers, _)| *workers).map(|(_, figure)| figure)
    }

    /// Returns the ratio of sapwood's median to Git's best.
    pub(crate) fn ratio(&self) -> Option<f64> {
        Some(self.tool("sapwood")?.wall()?.median / self.best_of_git()?.wall()?.median)
    }
}

impl Machine {
    /// Describes the machine that the lab runs on.
    pub(crate) fn here() -> Machine {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: model.map(|model| model.trim_start_matches([' ', '\t', ':']).to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.trim().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, kernel } = self;
        let cpu = cpu.as_deref().unwrap_or("processor not recorded");
        write!(f, "{cpu}, {cores} cores, kernel {kernel}")
    }
}

impl Tree {
    /// Counts the files and directories of a revision.
    pub(crate) fn of(name: &str, repo: &Path, revision: &str) -> Result<Tree, Error> {
        let listing = must(Path::new("git"), &["ls-tree", "-rtz", revision], repo)?;
        let is_directory = |line: &&[u8]| line.starts_with(b"040000 ");
        let lines = || listing.split(|&byte| byte == 0).filter(|line| !line.is_empty());
        let directories = lines().filter(is_directory).count();
        let files = lines().count() - directories;
        Ok(Tree { name: name.to_owned(), files, directories: Some(directories) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn figure(tool: &str, walls: &[f64]) -> Figure {
        let samples: Vec<Sample> = walls.iter().map(|&wall| Sample::wall_only(wall)).collect();
        Figure::of_samples(tool, &samples)
    }

    #[test]
    fn medians_and_gits_best() {
        let mut cases = Vec::new();
        for (tool, walls) in [("git-8", [3.0, 5.0]), ("sapwood", [1.0, 3.0]), ("git-1", [6.0, 9.0])] {
            Case::add(&mut cases, ["linux", "ext4", "full"], figure(tool, &walls));
        }
        let case = &cases[0];
        let tool = |figure: Option<&Figure>| figure.map(|figure| figure.tool.clone());
        assert_eq!(tool(case.best_of_git()).as_deref(), Some("git-8"));
        assert_eq!(tool(case.git_with_fewest()).as_deref(), Some("git-1"));
        assert_eq!(case.ratio(), Some(0.5));
        assert_eq!(case.tools[0].wall(), Some(Spread { median: 4.0, range: Some((3.0, 5.0)) }));
        assert_eq!((case.tools[0].runs(), case.tools[0].peak_rss()), (Some(2), None));
    }
}
