//! The project's targets for workspaces.

use std::process::ExitCode;

use crate::record::{AtMost, Case, Sample};

/// Cases that take Git's figure from another case, because Git has no bases, and its own status and
/// switch are the reference for sapwood's.
const OF_GIT: [(&str, &str); 12] = [
    ("base-first", "create"),
    ("base-old", "git-switch-old"),
    ("base-100", "git-switch-100"),
    ("rebase-old", "git-switch-old"),
    ("rebase-100", "git-switch-100"),
    ("switch-old", "git-switch-old"),
    ("switch-100", "git-switch-100"),
    ("status-first", "git-status-first"),
    ("status-0", "git-status-0"),
    ("status-10", "git-status-10"),
    ("status-10000", "git-status-10000"),
    ("status-built", "git-status-built"),
];

/// Adds Git's figures to the cases of [`OF_GIT`].
pub(super) fn add_git(cases: &mut [Case]) {
    for (to, from) in OF_GIT {
        let figures: Vec<_> = cases
            .iter()
            .filter(|case| case.case == from)
            .flat_map(|case| &case.tools)
            .filter(|figure| figure.tool.starts_with("git-"))
            .cloned()
            .collect();
        if let Some(case) = cases.iter_mut().find(|case| case.case == to) {
            case.tools.extend(figures);
        }
    }
}

/// Returns the target of a case for the best backend.
pub(super) fn at_most(case: &str, is_huge: bool) -> AtMost {
    let git = |ratio| AtMost { git: Some(ratio), ..AtMost::default() };
    let seconds = |seconds| AtMost { seconds: Some(seconds), ..AtMost::default() };
    match case {
        "create" => AtMost { git: Some(0.01), seconds: Some(0.025), ..AtMost::default() },
        "create-50" => seconds(1.0),
        "base-first" => git(0.5),
        "base-100" => seconds(0.5),
        "base-old" => git(0.35),
        "status-0" | "status-10" => seconds(if is_huge { 0.03 } else { 0.02 }),
        "git-status-0" | "git-status-10" => git(0.4),
        "edit-10" => seconds(0.05),
        "rebase-old" => git(0.1),
        "grep-cold" => git(1.0),
        "remove" => seconds(0.03),
        _ => AtMost::default(),
    }
}

/// Returns the target of a case for the backend `overlay-user`.
fn at_most_for_users(case: &str, is_huge: bool) -> AtMost {
    match case {
        "create" => AtMost { seconds: Some(0.05), ..AtMost::default() },
        "status-0" | "status-10" | "git-status-0" | "git-status-10" => at_most(case, is_huge),
        _ => AtMost::default(),
    }
}

/// The disk space of fifty workspaces, in KiB.
const SPACE_OF_FIFTY: f64 = 30.0 * 1024.0;
/// The page cache that a second workspace fills, as a fraction of the first one's. It is not zero,
/// because each workspace has its own directory entries and index.
const SHARED_CACHE: f64 = 0.05;

/// Prints each target next to the measured figure. Returns exit code 1 if one is missed.
pub(super) fn check(cases: &[Case], huge: impl Fn(&str) -> bool) -> ExitCode {
    let mut is_missed = false;
    let mut line = |case: &Case, tool: &str, what: &str, measured: f64, target: f64| {
        let word = if measured <= target { "met" } else { "MISSED" };
        is_missed |= measured > target;
        println!(
            "{word:<7} {}, {} with {tool}: {what} {measured:.3} (at most {target})",
            case.tree, case.case
        );
    };
    for case in cases {
        let best = case.best_of_git().and_then(|figure| figure.wall());
        for (tool, at_most) in [
            ("sapwood", at_most(&case.case, huge(&case.tree))),
            ("overlay-user", at_most_for_users(&case.case, huge(&case.tree))),
        ] {
            let Some(figure) = case.tool(tool) else { continue };
            let Some(wall) = figure.wall() else { continue };
            if let Some(target) = at_most.seconds {
                line(case, tool, "seconds", wall.median, target);
            }
            if let (Some(target), Some(git)) = (at_most.git, best) {
                line(case, tool, "of git", wall.median / git.median, target);
            }
        }
        let of = |case: &Case, of: fn(&Sample) -> Option<i64>| case.tool("sapwood")?.median_of(of);
        if case.case == "create-50"
            && let Some(disk) = of(case, |sample| sample.disk)
        {
            line(case, "sapwood", "KiB", disk, SPACE_OF_FIFTY);
        }
        let cold = cases.iter().find(|of| of.tree == case.tree && of.case == "grep-cold");
        if case.case == "grep-second"
            && let (Some(second), Some(first)) =
                (of(case, |s| s.cached), cold.and_then(|cold| of(cold, |s| s.cached)))
        {
            line(case, "sapwood", "new page cache, of the first", second / first, SHARED_CACHE);
        }
    }
    if is_missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Figure;

    #[test]
    fn gits_figures_come_from_its_own_cases() {
        let figure = |tool: &str, wall| Figure::of_samples(tool, &[Sample::wall_only(wall)]);
        let mut cases = Vec::new();
        for (case, tool, wall) in
            [("create", "git-2", 4.0), ("create", "sapwood", 0.01), ("base-first", "sapwood", 1.0)]
        {
            Case::add(&mut cases, ["linux", "local", case], figure(tool, wall));
        }
        add_git(&mut cases);
        assert_eq!(cases[1].ratio(), Some(0.25));
        assert_eq!(cases[0].tools.len(), 2);
        assert_eq!(check(&cases, |_| false), ExitCode::SUCCESS);
        cases[1].tools[0] = figure("sapwood", 3.0);
        cases[1].at_most = at_most("base-first", false);
        assert_eq!(check(&cases, |_| false), ExitCode::FAILURE);
    }
}
