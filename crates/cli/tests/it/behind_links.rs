//! Tracked files whose directory was replaced by a link to the same files. Every command reports
//! them as deleted, wherever the link points.

use std::fs;

use testkit::Oracle;

use crate::SAPWOOD;

#[test]
fn does_not_follow_a_link_that_replaces_a_directory() {
    // The replaced directory: one that contains only directories, one a level deeper, and one that
    // contains files.
    for replaced in ["a", "a/b", "a/b/d3"] {
        for preload in ["true", "false"] {
            let oracle = Oracle::new(SAPWOOD, |repo| {
                for number in 0..40 {
                    repo.write(format!("a/b/d{}/f{number}", number % 8), "x\n");
                }
                repo.commit("all");
                repo.git(&["config", "core.preloadIndex", preload]);
                repo.git(&["update-index", "--untracked-cache"]);
                fs::rename(repo.join(replaced), repo.join("elsewhere")).expect("it was made");
                let up = "../".repeat(replaced.matches('/').count());
                repo.symlink(&format!("{up}elsewhere"), replaced);
            });
            for args in [
                &["diff-files", "--name-status"][..],
                &["diff-index", "--name-status", "HEAD"],
                &["-c", "core.untrackedCache=false", "status", "-s", "-uno"],
                &["status", "-s", "-uno"],
                &["status", "-s"],
                &["ls-files", "-d"],
                &["update-index", "--refresh"],
                &["update-index", "--refresh", "--ignore-missing"],
                &["checkout"],
                &["reset"],
            ] {
                oracle.same(args);
            }
        }
    }
}
