//! Compares measured figures with the project's targets for slow disks.

use std::process::ExitCode;

use super::{
    mounted_disk::Disk,
    table::Table,
    trees::{Shape, Tree},
};
use crate::record::AtMost;

/// The figure that sapwood's time is compared with.
#[derive(Clone, Copy)]
enum Against {
    GitsBest,
    SerialGit,
    OurBestFixed,
}

struct Target {
    disk: Disk,
    /// The shape of tree the target applies to; `None` means any shape.
    shape: Option<Shape>,
    case: &'static str,
    against: Against,
    at_most: f64,
}

const LARGE: [&str; 3] = ["clone", "full", "switch-5000"];
const SMALL: &str = "switch-10";

fn targets() -> Vec<Target> {
    let mut all = Vec::new();
    let mut add =
        |disk, shape, case, against, at_most| all.push(Target { disk, shape, case, against, at_most });
    for disk in [Disk::Nfs, Disk::Efs] {
        for case in LARGE {
            add(disk, Some(Shape::Spread), case, Against::GitsBest, 0.15);
            add(disk, Some(Shape::Crowded), case, Against::GitsBest, 0.25);
        }
        add(disk, None, "full", Against::SerialGit, 1.0 / 15.0);
    }
    for case in LARGE {
        add(Disk::Hdd, None, case, Against::GitsBest, 0.85);
        add(Disk::Hdd, None, case, Against::SerialGit, 1.0);
        add(Disk::Local, None, case, Against::OurBestFixed, 1.03);
    }
    for disk in Disk::USUAL {
        add(disk, None, SMALL, Against::GitsBest, 1.0);
    }
    all
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Met,
    NotMeasured,
    Missed,
}

/// Returns the target of a case against Git.
pub(super) fn at_most(tree: &Tree, disk: Disk, case: &str) -> AtMost {
    let shape = tree.shape();
    let applies = |target: &Target| {
        (target.disk, target.case) == (disk, case)
            && target.shape.is_none_or(|of| of == shape)
            && matches!(target.against, Against::GitsBest)
    };
    let git = targets().into_iter().find(applies).map(|target| target.at_most);
    AtMost { git, ..AtMost::default() }
}

/// Prints each target for each tree. Returns the exit code: 1 if one is missed, 2 if one was not
/// measured.
pub(super) fn check(table: &Table, trees: &[Tree]) -> ExitCode {
    let mut worst = Verdict::Met;
    println!();
    for tree in trees {
        for target in targets().iter().filter(|target| target.shape.is_none_or(|shape| shape == tree.shape()))
        {
            // Trees with too few files have no such switch.
            let count = target.case.strip_prefix("switch-").and_then(|count| count.parse::<usize>().ok());
            if count.is_some_and(|count| count * 2 > tree.files) {
                continue;
            }
            worst = worst.max(judge(table, &tree.name, target));
        }
    }
    match worst {
        Verdict::Met => ExitCode::SUCCESS,
        Verdict::Missed => ExitCode::FAILURE,
        Verdict::NotMeasured => ExitCode::from(2),
    }
}

fn judge(table: &Table, tree: &str, target: &Target) -> Verdict {
    let Target { disk, case, against, at_most, .. } = *target;
    let ours = table.wall(tree, disk, case, "sapwood");
    let theirs = match against {
        Against::GitsBest => table.best(tree, disk, case, "git-"),
        Against::OurBestFixed => table.best(tree, disk, case, "sapwood-"),
        Against::SerialGit => table.wall(tree, disk, case, "git-1").map(|wall| ("git-1".to_owned(), wall)),
    };
    let by = match against {
        Against::GitsBest => "git at its best",
        Against::SerialGit => "serial git",
        Against::OurBestFixed => "our best fixed number",
    };
    let what = format!("{tree}, {case} on {}", disk.name());
    let (verdict, text) = match (ours, theirs) {
        (Some(ours), Some((tool, theirs))) if ours / theirs <= at_most => {
            (Verdict::Met, format!("{:.3} of {tool}", ours / theirs))
        }
        (Some(ours), Some((tool, theirs))) => (Verdict::Missed, format!("{:.3} of {tool}", ours / theirs)),
        _ => (Verdict::NotMeasured, by.to_owned()),
    };
    let word = match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "MISSED",
        Verdict::NotMeasured => "not measured",
    };
    println!("{word:<12} {what:<38} {text:<24} (at most {at_most:.3} of {by})");
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{record::Sample, weather::table::Key};

    #[test]
    fn met_missed_and_not_measured() {
        let mut table = Table::default();
        let mut add = |disk: Disk, case: &str, tool: &str, wall| {
            let (tree, case) = ("tree".to_owned(), case.to_owned());
            let key = Key { tree, disk: disk.name(), case, tool: tool.to_owned() };
            table.add(key, Sample::wall_only(wall), disk, 1);
        };
        add(Disk::Nfs, "full", "sapwood", 1.0);
        add(Disk::Nfs, "full", "git-1", 20.0);
        add(Disk::Nfs, "full", "git-8", 5.0);
        add(Disk::Local, "full", "sapwood", 1.0);
        add(Disk::Local, "full", "sapwood-2", 0.98);
        let all = targets();
        let of = |disk, shape, against: fn(&Against) -> bool| {
            let is_meant = |target: &&Target| {
                (target.disk, target.shape, target.case) == (disk, shape, "full") && against(&target.against)
            };
            judge(&table, "tree", all.iter().find(is_meant).expect("there is such a target"))
        };
        let gits_best = |against: &Against| matches!(against, Against::GitsBest);
        assert_eq!(of(Disk::Nfs, Some(Shape::Spread), gits_best), Verdict::Missed);
        assert_eq!(of(Disk::Nfs, Some(Shape::Crowded), gits_best), Verdict::Met);
        assert_eq!(of(Disk::Nfs, None, |against| matches!(against, Against::SerialGit)), Verdict::Met);
        assert_eq!(of(Disk::Local, None, |against| matches!(against, Against::OurBestFixed)), Verdict::Met);
        assert_eq!(
            of(Disk::Efs, None, |against| matches!(against, Against::SerialGit)),
            Verdict::NotMeasured
        );
    }
}
