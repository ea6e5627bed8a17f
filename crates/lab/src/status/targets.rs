//! Compares measured figures with the project's targets for `status`.

use std::process::ExitCode;

use crate::{
    record::AtMost,
    weather::{mounted_disk::Disk, table::Table, trees::Tree},
};

/// A disk, a case, sapwood's tool, the tool to compare with, and the highest accepted ratio of
/// their times.
type Target = (Disk, &'static str, &'static str, &'static str, f64);

const TARGETS: [Target; 17] = [
    (Disk::Local, "unormal-0", "sapwood", "git", 0.85),
    (Disk::Local, "uno-0", "sapwood", "git", 0.85),
    (Disk::Local, "uall-0", "sapwood", "git", 0.85),
    (Disk::Local, "unormal-0", "sapwood-cache", "git-cache", 0.85),
    (Disk::Local, "unormal-0", "sapwood", "gix", 0.55),
    (Disk::Nfs, "unormal-0", "sapwood", "git", 0.15),
    (Disk::Nfs, "uno-0", "sapwood", "git", 0.15),
    (Disk::Nfs, "unormal-0", "sapwood-cache", "git-cache", 0.4),
    (Disk::Efs, "unormal-0", "sapwood", "git", 0.15),
    (Disk::Efs, "unormal-0", "sapwood-cache", "git-cache", 0.4),
    (Disk::Hdd, "unormal-0", "sapwood", "git", 0.35),
    (Disk::Hdd, "uno-0", "sapwood", "git", 0.35),
    (Disk::Cold, "unormal-0", "sapwood", "git", 1.0),
    (Disk::Cold, "uno-0", "sapwood", "git", 1.0),
    (Disk::Delayed, "unormal-0", "sapwood", "git", 0.6),
    (Disk::Queued, "unormal-0", "sapwood", "git", 0.6),
    (Disk::Throttled, "unormal-0", "sapwood", "git", 1.0),
];

/// The target for a tree with many untracked files.
const LOOSE: Target = (Disk::Local, "uall-0", "sapwood", "git", 0.6);
/// The target for a tree like linux with a monitor and ten changes, in seconds.
const MONITORED: f64 = 0.015;

/// Returns the target of a case of a record, for any number of changed files.
pub(super) fn at_most(disk: Disk, case: &str, loose: bool) -> AtMost {
    let (untracked, changes) = case.split_once('-').unwrap_or((case, ""));
    let (name, ours) = match untracked {
        "cache" => ("unormal-0".to_owned(), "sapwood-cache"),
        "monitor" => ("unormal-0".to_owned(), "sapwood-monitor"),
        untracked => (format!("{untracked}-0"), "sapwood"),
    };
    let against = |tool: &str| {
        let all = loose.then_some(LOOSE).into_iter().chain(TARGETS);
        let mut fit = all.filter(|of| (of.0, of.1, of.2) == (disk, name.as_str(), ours));
        fit.find(|of| of.3.starts_with(tool)).map(|of| of.4)
    };
    let is_monitored = (disk, untracked, changes) == (Disk::Local, "monitor", "10");
    AtMost { git: against("git"), gix: against("gix"), seconds: is_monitored.then_some(MONITORED) }
}

/// Prints each target for each tree. Returns the exit code: 1 if one is missed, 2 if one was not
/// measured.
pub(super) fn check(table: &Table, trees: &[Tree], loose: bool) -> ExitCode {
    let (mut missed, mut unknown) = (false, false);
    println!();
    for tree in trees {
        if let Some(wall) = table.wall(&tree.name, Disk::Local, "unormal-10", "sapwood-monitor") {
            let word = if wall < MONITORED { "met" } else { "MISSED" };
            missed |= word == "MISSED";
            println!("{word:<12} {}, monitored, ten changes: {wall:.4} s (less than {MONITORED})", tree.name);
        }
        for (disk, case, ours, theirs, at_most) in TARGETS.into_iter().chain(loose.then_some(LOOSE)) {
            let wall = |tool| table.wall(&tree.name, disk, case, tool);
            let (word, text) = match (wall(ours), wall(theirs)) {
                (Some(ours), Some(theirs)) => {
                    let word = if ours / theirs <= at_most { "met" } else { "MISSED" };
                    (word, format!("{:.3}", ours / theirs))
                }
                _ => ("not measured", "?".to_owned()),
            };
            missed |= word == "MISSED";
            unknown |= word == "not measured";
            println!(
                "{word:<12} {}, {case} on {}: {ours} {text} of {theirs} (at most {at_most:.2})",
                tree.name,
                disk.name()
            );
        }
    }
    match (missed, unknown) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(2),
        (false, false) => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_the_targets_of_the_table() {
        let of = |case, loose| at_most(Disk::Local, case, loose);
        let ratios = |git, gix| AtMost { git, gix, ..AtMost::default() };
        assert_eq!(of("unormal-10", false), ratios(Some(0.85), Some(0.55)));
        assert_eq!(of("uall-0", false), ratios(Some(0.85), None));
        assert_eq!(of("uall-0", true), ratios(Some(0.6), None));
        assert_eq!(of("monitor-0", false), AtMost::default());
        assert_eq!(of("monitor-10", false), AtMost { seconds: Some(MONITORED), ..AtMost::default() });
        assert_eq!(at_most(Disk::Nfs, "cache-10", false), ratios(Some(0.4), None));
    }
}
