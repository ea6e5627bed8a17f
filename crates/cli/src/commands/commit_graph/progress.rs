//! The progress of a new graph, with Git's titles.

use std::time::Duration;

use engine::commit_graph::Stage;

use crate::term::progress::Progress;

/// The counters of the stages.
pub(super) struct Bars {
    bars: [Progress; 6],
    shows: bool,
    delay: Duration,
}

impl Bars {
    pub(super) fn new(shows: bool, delay: Duration) -> Bars {
        let titles = [
            "Finding commits for commit graph among packed objects",
            "Expanding reachable commits in commit graph",
            "Merging commit-graph",
            "Computing commit graph topological levels",
            "Computing commit graph generation numbers",
            "Computing commit changed paths Bloom filters",
        ];
        Bars { bars: titles.map(|title| Progress::new(title, shows, delay)), shows, delay }
    }

    /// Shows the progress of a stage.
    pub(super) fn show(&self, stage: Stage, done: usize, total: usize) {
        let bar = &self.bars[stage as usize];
        bar.update(done, total);
        if done == total {
            bar.finish(done, total);
        }
    }

    /// Shows that the file with `chunks` chunks was written.
    pub(super) fn written(&self, chunks: usize, commits: usize) {
        let title = match chunks {
            3 => "Writing out commit graph in 3 passes",
            4 => "Writing out commit graph in 4 passes",
            5 => "Writing out commit graph in 5 passes",
            6 => "Writing out commit graph in 6 passes",
            7 => "Writing out commit graph in 7 passes",
            8 => "Writing out commit graph in 8 passes",
            _ => "Writing out commit graph in 9 passes",
        };
        let total = chunks * commits;
        let bar = Progress::new(title, self.shows, self.delay);
        bar.update(total, total);
        bar.finish(total, total);
    }
}
