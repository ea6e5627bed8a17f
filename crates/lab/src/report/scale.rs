//! Costs beyond time: their exponents against the number of files with a chart, and the tables of
//! memory, bytes written, page faults and system calls.

use std::collections::BTreeMap;

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

use super::{
    chart::{self, FAINT, GIT, INK, SAPWOOD},
    page::{Column, column},
    section::Unit,
    text,
};
use crate::{
    Error,
    record::{Case, Figure, Kind, Record, Sample},
    results::median,
};

/// A cost of a case with one tool.
type Cost = fn(&Figure) -> Option<f64>;

fn time(figure: &Figure) -> Option<f64> {
    figure.wall().map(|wall| wall.median)
}

/// MB
fn memory(figure: &Figure) -> Option<f64> {
    positive(figure, |sample| sample.peak_rss as f64 / 1024.0)
}

/// MB
fn written(figure: &Figure) -> Option<f64> {
    positive(figure, |sample| sample.written as f64 / 1e6)
}

fn faults(figure: &Figure) -> Option<f64> {
    positive(figure, |sample| sample.faults as f64)
}

fn calls(figure: &Figure) -> Option<f64> {
    positive(figure, |sample| sample.calls.unwrap_or_default() as f64)
}

/// Returns the median of a value. A value of zero was not recorded.
fn positive(figure: &Figure, of: fn(&Sample) -> f64) -> Option<f64> {
    let values: Vec<f64> = figure.samples.iter().map(of).collect();
    (!values.is_empty()).then(|| median(values)).filter(|&value| value > 0.0)
}

/// Returns the tables of a record besides that of times.
pub(super) fn tables(
    record: &Record,
    cases: &[&Case],
    names: Vec<Column>,
) -> Vec<(&'static str, Vec<Column>)> {
    let with =
        |costs: &[(&'static str, &str, Cost)]| {
            let figure = |case: &Case, tool: &str| match tool {
                "git" => case.best_of_git().cloned(),
                tool => case.tool(tool).cloned(),
            };
            let mut columns = names.clone();
            columns.extend(costs.iter().map(|&(head, tool, cost)| {
                column(head, cases, |case| cost(&figure(case, tool)?).map(number))
            }));
            columns
        };
    let of_memory: [(&str, &str, Cost); 2] = [("sapwood", "sapwood", memory), ("git", "git", memory)];
    match record.kind {
        Kind::Scale => vec![
            ("Exponent of the cost against the number of files:", exponents(record)),
            ("Peak memory in MB:", with(&of_memory)),
            ("MB written to the disk:", with(&[("sapwood", "sapwood", written), ("git", "git", written)])),
        ],
        Kind::Small => vec![(
            "Page faults and system calls:",
            with(&[
                ("sapwood, faults", "sapwood", faults),
                ("git, faults", "git", faults),
                ("sapwood, calls", "sapwood", calls),
                ("git, calls", "git", calls),
            ]),
        )],
        Kind::Memory => {
            let mut columns = with(&of_memory);
            columns.push(column("sapwood / git", cases, |case| {
                let ratio = memory(case.tool("sapwood")?)? / memory(case.best_of_git()?)?;
                Some(text::ratio(ratio))
            }));
            vec![("Peak resident memory in MB:", columns)]
        }
        _ => Vec::new(),
    }
}

/// Formats a number with three significant digits.
fn number(value: f64) -> String {
    match value {
        value if value < 1.0 => format!("{value:.3}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => text::count(value.round() as usize),
    }
}

/// Returns the points of a cost: numbers of files with costs, smallest first.
fn points(record: &Record, case: &str, tool: &str, cost: Cost) -> Vec<(f64, f64)> {
    let sizes: BTreeMap<&str, usize> =
        record.trees.iter().map(|tree| (tree.name.as_str(), tree.files)).collect();
    let of = record.cases.iter().filter(|of| of.case == case);
    let mut points: Vec<(f64, f64)> = of
        .filter_map(|of| Some((*sizes.get(of.tree.as_str())? as f64, cost(of.tool(tool)?)?)))
        .filter(|&(files, cost)| files > 0.0 && cost > 0.0)
        .collect();
    points.sort_by(|left, right| left.0.total_cmp(&right.0));
    points
}

/// Returns the exponent of a power law through these points, by least squares of the logarithms.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean_x = logs.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = logs.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let common: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (logs.len() > 1 && spread > 0.0).then(|| common / spread)
}

/// Returns the names of the cases of all trees, in their order.
fn cases(record: &Record) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for case in &record.cases {
        if !names.contains(&case.case.as_str()) {
            names.push(&case.case);
        }
    }
    names
}

fn exponents(record: &Record) -> Vec<Column> {
    let names = cases(record);
    let cells = |tool: &str, cost: Cost| {
        let cell = |case: &&str| exponent(&points(record, case, tool, cost));
        names.iter().map(|case| cell(case).map_or_else(String::new, |value| format!("{value:.2}"))).collect()
    };
    vec![
        ("case", names.iter().map(|case| text::case(record.kind, case)).collect()),
        ("sapwood, time", cells("sapwood", time)),
        ("git, time", cells("git", time)),
        ("sapwood, memory", cells("sapwood", memory)),
        ("git, memory", cells("git", memory)),
        ("sapwood, written", cells("sapwood", written)),
        ("git, written", cells("git", written)),
    ]
}

const WIDTH: u32 = 800;
const PANEL: u32 = 220;
const HEAD: u32 = 60;
const COLUMNS: usize = 3;

/// Draws the time of each case against the number of files. Returns `None` for fewer than two
/// sizes.
pub(super) fn chart(record: &Record) -> Result<Option<String>, Error> {
    let names: Vec<&str> =
        cases(record).into_iter().filter(|case| points(record, case, "sapwood", time).len() > 1).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let rows = names.len().div_ceil(COLUMNS);
    chart::draw((WIDTH, HEAD + PANEL * rows as u32), |area| {
        let title = chart::style(15, HPos::Left, VPos::Center);
        let left = chart::style(13, HPos::Left, VPos::Center);
        chart::write(
            area,
            &format!("Seconds against the number of files, {}", record.date),
            &title,
            (16, 20),
        )?;
        chart::write(area, "sapwood (green) and git (grey); both axes are logarithmic", &left, (16, 44))?;
        let (_, below) = area.split_vertically(HEAD);
        for (panel, case) in below.split_evenly((rows, COLUMNS)).iter().zip(&names) {
            draw(panel, record, case)?;
        }
        Ok(())
    })
    .map(Some)
}

fn draw(area: &chart::Area<'_>, record: &Record, case: &str) -> Result<(), Error> {
    let lines =
        [("git", GIT), ("sapwood", SAPWOOD)].map(|(tool, color)| (points(record, case, tool, time), color));
    let all = || lines.iter().flat_map(|(points, _)| points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let values = all().map(of);
        (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max))
    };
    let (least, most) = range(|point| point.0);
    let (fastest, slowest) = range(|point| point.1);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(text::case(record.kind, case).replace('`', ""), chart::style(13, HPos::Left, VPos::Top))
        .x_label_area_size(20)
        .y_label_area_size(40)
        .build_cartesian_2d((least * 0.9..most * 1.1).log_scale(), (fastest * 0.7..slowest * 1.4).log_scale())
        .map_err(chart::failed)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .x_labels(3)
        .y_labels(4)
        .label_style(chart::style(10, HPos::Right, VPos::Center))
        .x_label_formatter(&|files| text::count(files.round() as usize))
        .y_label_formatter(&|seconds| text::time(*seconds, Unit::Seconds))
        .draw()
        .map_err(chart::failed)?;
    for (points, color) in lines {
        let path = PathElement::new(points.clone(), color.stroke_width(2));
        chart.draw_series([path]).map_err(chart::failed)?;
        let dots = points.into_iter().map(|point| Circle::new(point, 3, color.filled()));
        chart.draw_series(dots).map_err(chart::failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exponent_is_that_of_the_power_law() {
        let of = |power: f64| {
            let points = [1e5, 5e5, 1e6, 3.5e6].map(|files: f64| (files, 3.0 * files.powf(power)));
            exponent(&points).expect("four points")
        };
        for power in [0.0, 0.5, 1.0] {
            assert!((of(power) - power).abs() < 1e-9, "{power}");
        }
        assert_eq!(exponent(&[(1e5, 1.0)]), None);
        assert_eq!(exponent(&[(1e5, 1.0), (1e5, 2.0)]), None);
    }
}
