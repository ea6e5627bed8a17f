//! Samples of `lab checkout`: medians and the printed table.

use std::collections::BTreeMap;

use crate::record::{Case, Figure, Sample};

/// The identity of a figure: a case on a file system by a tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) case: String,
    pub(crate) file_system: &'static str,
    pub(crate) tool: String,
}

/// All samples of one call of the lab.
#[derive(Default)]
pub(crate) struct Results {
    samples: BTreeMap<Key, Samples>,
}

struct Samples {
    all: Vec<Sample>,
    /// The position in the order of first measurement.
    number: usize,
}

impl Results {
    pub(crate) fn add(&mut self, case: &str, file_system: &'static str, tool: &str, sample: Sample) {
        let key = Key { case: case.to_owned(), file_system, tool: tool.to_owned() };
        let number = self.samples.len();
        let samples = self.samples.entry(key).or_insert_with(|| Samples { all: Vec::new(), number });
        samples.all.push(sample);
    }

    /// Returns the median of one figure of a tool, if it was measured.
    pub(crate) fn median(
        &self,
        case: &str,
        file_system: &'static str,
        tool: &str,
        of: impl Fn(&Sample) -> f64,
    ) -> Option<f64> {
        let key = Key { case: case.to_owned(), file_system, tool: tool.to_owned() };
        self.samples.get(&key).map(|samples| median(samples.all.iter().map(of).collect()))
    }

    /// Returns the tool with the smallest median wall time among the tools whose names start with
    /// `prefix`.
    pub(crate) fn best(&self, case: &str, file_system: &'static str, prefix: &str) -> Option<(String, f64)> {
        let of_case = self.samples.iter().filter(|(key, _)| {
            key.case == case && key.file_system == file_system && key.tool.starts_with(prefix)
        });
        of_case
            .map(|(key, samples)| (key.tool.clone(), median(samples.all.iter().map(|s| s.wall).collect())))
            .min_by(|left, right| left.1.total_cmp(&right.1))
    }

    /// Prints the table: medians, and the range of wall times.
    pub(crate) fn print(&self) {
        println!(
            "{:<16} {:<6} {:<10} {:>3} {:>8} {:>17} {:>8} {:>8} {:>9} {:>9}",
            "case", "fs", "tool", "n", "wall s", "least .. most", "user s", "sys s", "RSS MB", "anon MB"
        );
        for (key, Samples { all: samples, .. }) in &self.samples {
            let of = |f: fn(&Sample) -> f64| median(samples.iter().map(f).collect());
            let walls = samples.iter().map(|sample| sample.wall);
            let (least, most) = (walls.clone().fold(f64::MAX, f64::min), walls.fold(0.0, f64::max));
            println!(
                "{:<16} {:<6} {:<10} {:>3} {:>8.3} {:>7.3} .. {:>6.3} {:>8.3} {:>8.3} {:>9.1} {:>9.1}",
                key.case,
                key.file_system,
                key.tool,
                samples.len(),
                of(|s| s.wall),
                least,
                most,
                of(|s| s.user),
                of(|s| s.sys),
                of(|s| s.peak_rss as f64 / 1024.0),
                of(|s| s.peak_anonymous as f64 / 1024.0),
            );
        }
    }

    /// Returns all figures, in the order in which the cases were first measured.
    pub(crate) fn cases(&self, tree: &str) -> Vec<Case> {
        let mut figures: Vec<_> = self.samples.iter().collect();
        figures.sort_by_key(|(_, samples)| samples.number);
        let mut cases = Vec::new();
        for (Key { case, file_system, tool }, samples) in figures {
            Case::add(&mut cases, [tree, file_system, case], Figure::of_samples(tool, &samples.all));
        }
        cases
    }
}

/// Returns the median; for an even number of values, the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_the_best_tool() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        let mut results = Results::default();
        for (tool, wall) in [("git-1", 4.0), ("git-2", 3.0), ("gix", 1.0), ("git-2", 5.0)] {
            results.add("full", "ext4", tool, Sample::wall_only(wall));
        }
        assert_eq!(results.best("full", "ext4", "git-"), Some(("git-1".into(), 4.0)));
        assert_eq!(results.median("full", "ext4", "gix", |s| s.wall), Some(1.0));
        assert_eq!(results.median("full", "xfs", "gix", |s| s.wall), None);
    }
}
