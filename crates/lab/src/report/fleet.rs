//! The table of `lab fleet`: a row for each way to get a worktree.

use super::{page::Column, section::Unit, text};
use crate::{
    record::{Case, Figure, Sample},
    results::median,
};

/// A way to get a worktree, with a number of hosts.
struct Row<'a> {
    case: &'a Case,
    first: &'a Figure,
    next: Option<&'a Figure>,
}

/// Returns the columns. Cases with the same number of hosts form a row: the first worktree, and the
/// next commit.
pub(super) fn columns(cases: &[&Case]) -> Vec<Column> {
    let next = |first: &Case, tool: &str| {
        let same = |case: &&&Case| case.case == "next" && case.tree == first.tree && case.disk == first.disk;
        cases.iter().find(same).and_then(|case| case.tool(tool))
    };
    let firsts = cases.iter().copied().filter(|case| case.case == "first");
    let rows = firsts.flat_map(|case| {
        case.tools.iter().map(move |first| Row { case, first, next: next(case, &first.tool) })
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let time = |figure: &Figure| figure.wall().map(|wall| text::spread(wall, Unit::Seconds));
    let column = |head, cell: &dyn Fn(&Row<'_>) -> Option<String>| {
        (head, rows.iter().map(|row| cell(row).unwrap_or_default()).collect())
    };
    vec![
        column("hosts", &|row| Some(row.case.disk.trim_end_matches(" hosts").to_owned())),
        column("way", &|row| Some(row.first.tool.clone())),
        column("first status", &|row| time(row.first)),
        column("MB received", &|row| received(row.first)),
        column("server, s of CPU", &|row| server(row.first)),
        column("next commit", &|row| time(row.next?)),
        column("MB received, next", &|row| received(row.next?)),
        column("server, next", &|row| server(row.next?)),
    ]
}

fn of_samples(figure: &Figure, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = figure.samples.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| median(values))
}

fn received(figure: &Figure) -> Option<String> {
    let bytes = of_samples(figure, |sample| Some(sample.received? as f64))?;
    Some(if bytes < 1e6 { format!("{:.3}", bytes / 1e6) } else { format!("{:.1}", bytes / 1e6) })
}

fn server(figure: &Figure) -> Option<String> {
    of_samples(figure, |sample| sample.server).map(|seconds| format!("{seconds:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_of_a_way_share_a_row() {
        let mut cases = Vec::new();
        for (moment, wall, received) in [("first", 2.0, 5_000_000), ("next", 0.5, 70_000)] {
            let sample = Sample { wall, received: Some(received), server: Some(0.25), ..Sample::default() };
            let figure = Figure::of_samples("git clone", &[sample]);
            Case::add(&mut cases, ["linux", "8 hosts", moment], figure);
        }
        let cases: Vec<&Case> = cases.iter().collect();
        let cells: Vec<String> = columns(&cases).into_iter().flat_map(|(_, cells)| cells).collect();
        let time = |seconds: f64| {
            let wall = crate::record::Spread { median: seconds, range: Some((seconds, seconds)) };
            text::spread(wall, Unit::Seconds)
        };
        let row = ["8", "git clone", &time(2.0), "5.0", "0.25", &time(0.5), "0.070", "0.25"];
        assert_eq!(cells, row);
    }
}
