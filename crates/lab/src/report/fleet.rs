//! The table of `lab fleet`: a row for each way to a worktree.

use super::{page::Column, section::Unit, text};
use crate::{
    record::{Case, Figure, Sample},
    results::median,
};

/// Returns the columns. Cases of one number of hosts belong together: the first worktree, and the
/// next commit.
pub(super) fn columns(cases: &[&Case]) -> Vec<Column> {
    let firsts: Vec<&Case> = cases.iter().copied().filter(|case| case.case == "first").collect();
    let next = |first: &Case, tool: &str| {
        let same = |case: &&&Case| case.case == "next" && case.tree == first.tree && case.disk == first.disk;
        cases.iter().find(same).and_then(|case| case.tool(tool))
    };
    let rows: Vec<(&Case, &Figure, Option<&Figure>)> = firsts
        .into_iter()
        .flat_map(|case| case.tools.iter().map(move |figure| (case, figure, next(case, &figure.tool))))
        .collect();
    let time = |figure: &Figure| figure.wall().map(|wall| text::spread(wall, Unit::Seconds));
    let column = |head, cell: &dyn Fn(&(&Case, &Figure, Option<&Figure>)) -> Option<String>| {
        (head, rows.iter().map(|row| cell(row).unwrap_or_default()).collect())
    };
    vec![
        column("hosts", &|(case, ..)| Some(case.disk.trim_end_matches(" hosts").to_owned())),
        column("way", &|(_, first, _)| Some(first.tool.clone())),
        column("first status", &|(_, first, _)| time(first)),
        column("MB received", &|(_, first, _)| received(first)),
        column("server, s of CPU", &|(_, first, _)| server(first)),
        column("next commit", &|(.., next)| time((*next)?)),
        column("MB received, next", &|(.., next)| received((*next)?)),
        column("server, next", &|(.., next)| server((*next)?)),
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
