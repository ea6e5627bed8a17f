//! The project's targets for a fleet, and the verdicts.

use crate::{
    record::{Case, Figure},
    results::median,
};

/// The share of the time, and of the bytes, of `git clone --depth 1` for the first worktree.
const FIRST_TIME: f64 = 0.25;
const FIRST_BYTES: f64 = 1.0;
/// The seconds for the next commit, and for both moments from a shared directory.
const NEXT: f64 = 1.0;
const SHARED: f64 = 0.2;
/// The share of the first worktree's bytes for the next commit.
const NEXT_BYTES: f64 = 0.02;

/// A target and its verdict.
pub(super) struct Verdict {
    pub(super) is_met: bool,
    pub(super) text: String,
}

/// Compares the cases of one number of hosts with the targets.
pub(super) fn judge(first: &Case, next: &Case) -> Vec<Verdict> {
    // The fastest counts if there are several numbers of workers.
    let shallow = first.tools.iter().filter(|figure| figure.tool.starts_with("git clone --depth 1"));
    let Some(git) = shallow.min_by(|one, other| wall(one).total_cmp(&wall(other))) else {
        return Vec::new();
    };
    let mut verdicts = Vec::new();
    for ours in first.tools.iter().filter(|figure| figure.tool.starts_with("sapwood")) {
        let mut add = |what: &str, value: f64, at_most: f64| {
            let is_met = value <= at_most;
            let word = if is_met { "met" } else { "MISSED" };
            let text = format!("{word}: {}, {what}: {value:.3} of {at_most:.3}", ours.tool);
            verdicts.push(Verdict { is_met, text });
        };
        let is_shared = ours.tool.ends_with("directory");
        add("share of git's time", wall(ours) / wall(git), FIRST_TIME);
        add("share of git's bytes", received(ours) / received(git), FIRST_BYTES);
        if is_shared {
            add("seconds", wall(ours), SHARED);
        }
        if let Some(next) = next.tool(&ours.tool) {
            add("seconds of the next commit", wall(next), if is_shared { SHARED } else { NEXT });
            if !is_shared {
                add("share of the first bytes", received(next) / received(ours), NEXT_BYTES);
            }
        }
    }
    verdicts
}

fn wall(figure: &Figure) -> f64 {
    figure.wall().map_or(f64::NAN, |wall| wall.median)
}

fn received(figure: &Figure) -> f64 {
    median(figure.samples.iter().map(|sample| sample.received.unwrap_or_default() as f64).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Sample;

    #[test]
    fn each_target_has_a_verdict() {
        let mut cases = Vec::new();
        let figures = [
            ("first", "git clone --depth 1, checkout.workers=1", 20.0, 1000),
            ("first", "git clone --depth 1, checkout.workers=0", 10.0, 1000),
            ("first", "sapwood, S3", 2.0, 900),
            ("first", "sapwood, shared directory", 0.3, 1001),
            ("next", "sapwood, S3", 1.5, 10),
            ("next", "sapwood, shared directory", 0.1, 100),
        ];
        for (moment, tool, wall, bytes) in figures {
            let sample = Sample { wall, received: Some(bytes), ..Sample::default() };
            Case::add(&mut cases, ["linux", "8 hosts", moment], Figure::of_samples(tool, &[sample]));
        }
        let verdicts = judge(&cases[0], &cases[1]);
        let met: Vec<bool> = verdicts.iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [true, true, false, true, true, false, false, true]);
        assert_eq!(verdicts[2].text, "MISSED: sapwood, S3, seconds of the next commit: 1.500 of 1.000");
    }
}
