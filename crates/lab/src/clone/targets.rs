//! The project's targets for clone and fetch, and the verdicts.

use super::{case::Case, line::Over};
use crate::{
    record::{self, AtMost, Figure},
    results::median,
    weather::mounted_disk::Disk,
};

/// The share of the time of the bytes that a clone may take on a line of 1 Gbit/s.
const BYTES_TIME: f64 = 1.2;

/// Returns the targets of a case whose answer has so many bytes.
pub(super) fn at_most(case: Case, over: Over, disk: Disk, bytes: Option<u64>) -> AtMost {
    let git = |git: f64| AtMost { git: Some(git), ..AtMost::default() };
    match (disk, case, over) {
        (Disk::Nfs, Case::Full, Over::File | Over::Https) => git(0.15),
        (Disk::Local, Case::Full, Over::File | Over::Https) => {
            AtMost { git: Some(0.4), gix: Some(0.8), seconds: None }
        }
        (Disk::Local, Case::Full, Over::Gbit) => {
            AtMost { seconds: bytes.map(|bytes| BYTES_TIME * over.seconds(bytes)), ..AtMost::default() }
        }
        (Disk::Local, Case::Shallow | Case::Blobless, _) => git(0.6),
        (Disk::Local, Case::Fetch10 | Case::Fetch1000, _) => git(1.0),
        (Disk::Local, Case::Nothing, _) => git(0.5),
        _ => AtMost::default(),
    }
}

/// A target and its verdict.
pub(super) struct Verdict {
    pub(super) is_met: bool,
    pub(super) text: String,
}

/// Compares a case with its targets. Memory may not exceed Git's in any case.
pub(super) fn judge(case: &record::Case) -> Vec<Verdict> {
    let wall = |figure: &Figure| figure.wall().map(|wall| wall.median);
    let Some(ours) = case.tool("sapwood") else { return Vec::new() };
    let git = case.best_of_git();
    let mut verdicts = Vec::new();
    let mut add = |what: &str, value: Option<f64>, at_most: Option<f64>| {
        if let (Some(value), Some(at_most)) = (value, at_most) {
            let is_met = value <= at_most;
            let word = if is_met { "met" } else { "MISSED" };
            verdicts.push(Verdict { is_met, text: format!("{word}: {what} {value:.3} of {at_most:.3}") });
        }
    };
    let share = |other: Option<&Figure>| Some(wall(ours)? / wall(other?)?);
    add("of git's time", share(git), case.at_most.git);
    add("of gix's time", share(case.tool("gix")), case.at_most.gix);
    add("seconds", wall(ours), case.at_most.seconds);
    let memory =
        |figure: &Figure| median(figure.samples.iter().map(|of| of.peak_rss as f64 / 1024.0).collect());
    add("MB of memory", Some(memory(ours)), git.map(memory));
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sample;

    #[test]
    fn each_target_has_a_verdict() {
        let mut cases = Vec::new();
        for (tool, wall, peak_rss) in [("sapwood", 1.0, 2048), ("git-2", 2.0, 1024), ("gix", 4.0, 1)] {
            let figure = Figure::of_samples(tool, &[Sample { wall, peak_rss, ..Sample::default() }]);
            record::Case::add(&mut cases, ["tree", "local", "full"], figure);
        }
        cases[0].at_most = at_most(Case::Full, Over::File, Disk::Local, None);
        let verdicts = judge(&cases[0]);
        assert_eq!(verdicts.iter().map(|of| of.is_met).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(verdicts[1].text, "met: of gix's time 0.250 of 0.800");
        cases[0].at_most = at_most(Case::Full, Over::Gbit, Disk::Local, Some(250_000_000));
        assert_eq!(cases[0].at_most.seconds, Some(2.4));
        assert!(judge(&cases[0])[0].is_met);
    }
}
