//! docs/measurements.md: the sections with their records, and a table for each record.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Records, fleet, scale,
    section::{SECTIONS, Section, Unit},
    text, workspace,
};
use crate::record::{AtMost, Case, Figure, Kind, Record};

const HEAD: &str = "# Measurements

This document holds the figures that stand for sapwood as a whole. `cargo run -p sapwood-lab -- report`
writes it, and its charts, from the records in [measurements/](measurements): one JSON file for each
run of the lab, with all samples. Design notes in [design/](design) hold the figures behind single
decisions.

- A record that was made before the lab kept samples has medians and spreads. Its command is the one
  that repeats the figures.
- Times are wall times. A cell holds the median, and the least and the most in parentheses.
- Tools run in alternating order.
- \"git, best\" is Git at the best number of workers among those that ran.
- \"sapwood / git\" is the ratio of the medians. A ratio below 1 means that sapwood is faster.
- \"target\" is the highest ratio, or the longest time, that the project accepts. A figure above it is
  bold.

![Seconds of git, gix and sapwood for clone, checkout and status](measurements.svg)
";

/// Returns the page. `charts` contains the charts of the records by file name.
pub(super) fn page(records: &Records, charts: &BTreeMap<String, String>) -> String {
    let mut page = HEAD.to_owned();
    for section in &SECTIONS {
        let here: Vec<_> = records.iter().filter(|(_, record)| !section.cases(record).is_empty()).collect();
        if here.is_empty() {
            continue;
        }
        page += &format!("\n## {}\n\n{}\n", section.title, text::wrap(section.intro, ""));
        for (name, record) in here {
            let chart = section.chart_name(name, record);
            let chart = charts.contains_key(&chart).then_some(chart);
            page += &of_record(section, record, chart.as_deref());
        }
    }
    page
}

fn of_record(section: &Section, record: &Record, chart: Option<&str>) -> String {
    let cases = section.cases(record);
    let trees: Vec<String> = record.trees.iter().map(|tree| text::tree(&tree.name)).collect();
    let mut page = format!("\n### {}, {}\n\n", trees.join(" and "), record.date);
    let mut item = |text: &str| page += &format!("{}\n", text::wrap(&format!("- {text}"), "  "));
    item(&format!("Tree: {}.", text::trees(record)));
    item(&format!("Machine: {}.", record.machine));
    item(&format!("Date: {}.", record.date));
    let versions: Vec<&str> = record.versions.values().map(String::as_str).collect();
    item(&format!("Versions: {}.", versions.join("; ")));
    if let Some([before, after]) = record.load {
        item(&format!("Load average: {before} before, {after} after."));
    }
    // The command is not wrapped, so that readers can copy it.
    page += &format!("- Command: `{}`\n", record.command);
    for note in &record.notes {
        page += &format!("{}\n", text::wrap(&format!("- {note}"), "  "));
    }
    let timed: Vec<&Case> = cases
        .iter()
        .copied()
        .filter(|case| case.tools.iter().any(|figure| figure.wall().is_some()))
        .filter(|case| record.kind != Kind::Workspace || case.tool("sapwood").is_some())
        .collect();
    if record.kind == Kind::Article {
        page += &format!("\n{}", table(workspace::article(section.unit, &timed)));
    } else if record.kind == Kind::Fleet {
        page += &format!("\n{}", table(fleet::columns(&timed)));
    } else if !timed.is_empty() && record.kind != Kind::Memory {
        page += &format!("\n{}", table(columns(section, &timed)));
    }
    if let Some(chart) = chart {
        let title = match record.kind {
            Kind::Scale => "Time against the number of files",
            _ => "Time of sapwood as a share of Git's time",
        };
        page += &format!("\n![{title}](measurements/{chart})\n");
    }
    let more = scale::tables(record, &cases, names(record.kind, &cases));
    for (title, columns) in workspace::tables(section, &cases).into_iter().chain(more) {
        if columns.len() > 1
            && columns.iter().skip(1).any(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()))
        {
            page += &format!("\n{title}\n\n{}", table(columns));
        }
    }
    let weighed: Vec<&Case> = cases
        .into_iter()
        .filter(|case| case.tools.iter().any(|figure| figure.peak_rss().is_some()))
        .collect();
    if matches!(record.kind, Kind::Checkout | Kind::Clone | Kind::Ci) && !weighed.is_empty() {
        let columns = memory(record.kind, &weighed);
        page += &format!("\nPeak memory in MB, Git's of its largest process:\n\n{}", table(columns));
    }
    page
}

/// A column: its header, and a cell for each case.
pub(super) type Column = (&'static str, Vec<String>);

pub(super) fn column(head: &'static str, cases: &[&Case], cell: impl Fn(&Case) -> Option<String>) -> Column {
    (head, cases.iter().map(|case| cell(case).unwrap_or_default()).collect())
}

/// Returns the columns that identify the case of a row. A tree or disk that all rows share is left
/// out.
fn names(kind: Kind, cases: &[&Case]) -> Vec<Column> {
    let several =
        |of: fn(&Case) -> &str| cases.iter().map(|case| of(case)).collect::<BTreeSet<_>>().len() > 1;
    let mut columns = Vec::new();
    if several(|case| &case.tree) {
        columns.push(column("tree", cases, |case| Some(text::tree(&case.tree))));
    }
    if several(|case| &case.disk) || cases.iter().any(|case| case.disk != "local") {
        let head = if kind == Kind::Small { "caller" } else { "disk" };
        columns.push(column(head, cases, |case| Some(text::disk(&case.disk).to_owned())));
    }
    for (_, cells) in &mut columns {
        for row in (1..cells.len()).rev() {
            if cells[row] == cells[row - 1] {
                cells[row].clear();
            }
        }
    }
    columns.push(column("case", cases, |case| Some(text::case(kind, &case.case))));
    columns
}

fn columns(section: &Section, cases: &[&Case]) -> Vec<Column> {
    let time = |figure: Option<&Figure>| Some(text::spread(figure?.wall()?, section.unit));
    let ours = |case: &Case| {
        let wall = case.tool("sapwood")?.wall()?;
        let text = text::spread(wall, section.unit);
        let is_missed = case.at_most.seconds.is_some_and(|seconds| wall.median > seconds);
        Some(if is_missed { format!("**{text}**") } else { text })
    };
    let has_workers = cases.iter().any(|case| case.tool("git").is_none());
    let mut columns = names(section.kind, cases);
    columns.extend([
        column("calls", cases, |case| Some(text::count(case.calls?.0))),
        column("native", cases, |case| Some(text::count(case.calls?.1))),
        column("runs", cases, runs),
        column("sapwood", cases, ours),
        column(if has_workers { "git, best" } else { "git" }, cases, |case| time(case.best_of_git())),
        column("git, fewest workers", cases, |case| time(case.git_with_fewest())),
        column("gix", cases, |case| time(case.tool("gix"))),
        column("write only", cases, |case| time(case.tool("floor"))),
        column("server", cases, |case| time(case.tool("server"))),
        column("sapwood / git", cases, |case| ratio(case.ratio()?, case.at_most.git)),
        column("sapwood / gix", cases, |case| ratio(of_gix(case)?, case.at_most.gix)),
        column("target", cases, |case| target(case.at_most)),
    ]);
    columns
}

/// Returns the number of runs, as a range if it differs between tools.
fn runs(case: &Case) -> Option<String> {
    let of_peers = case.tools.iter().filter(|figure| figure.tool != "floor");
    let runs: BTreeSet<usize> = of_peers.filter_map(Figure::runs).collect();
    let (least, most) = (runs.first()?, runs.last()?);
    Some(if least == most { least.to_string() } else { format!("{least} to {most}") })
}

fn of_gix(case: &Case) -> Option<f64> {
    Some(case.tool("sapwood")?.wall()?.median / case.tool("gix")?.wall()?.median)
}

fn ratio(ratio: f64, at_most: Option<f64>) -> Option<String> {
    let text = text::ratio(ratio);
    Some(if at_most.is_some_and(|at_most| ratio > at_most) { format!("**{text}**") } else { text })
}

fn target(at_most: AtMost) -> Option<String> {
    let ratio = |ratio: f64, of: &str| format!("{of}{}", text::ratio(ratio));
    let targets = [
        at_most.git.map(|git| ratio(git, "")),
        at_most.gix.map(|gix| ratio(gix, "gix ")),
        at_most.seconds.map(|seconds| format!("{} ms", text::time(seconds, Unit::Milliseconds))),
    ];
    let targets: Vec<String> = targets.into_iter().flatten().collect();
    (!targets.is_empty()).then(|| targets.join(", "))
}

fn memory(kind: Kind, cases: &[&Case]) -> Vec<Column> {
    let mut columns = names(kind, cases);
    columns.extend([
        column("sapwood, anonymous", cases, |case| case.tool("sapwood")?.peak_anonymous().map(text::memory)),
        column("sapwood, resident", cases, |case| case.tool("sapwood")?.peak_rss().map(text::memory)),
        column("git, resident", cases, |case| case.best_of_git()?.peak_rss().map(text::memory)),
    ]);
    columns
}

/// Writes a table in Markdown. Columns without any cell are left out.
fn table(columns: Vec<Column>) -> String {
    let columns: Vec<Column> =
        columns.into_iter().filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty())).collect();
    let rows = columns.first().map_or(0, |(_, cells)| cells.len());
    let line = |cells: Vec<&str>| {
        let cells: Vec<String> =
            cells.iter().map(|cell| if cell.is_empty() { " ".into() } else { format!(" {cell} ") }).collect();
        format!("|{}|\n", cells.join("|"))
    };
    let mut text = line(columns.iter().map(|(head, _)| *head).collect());
    text += &format!("|{}\n", "---|".repeat(columns.len()));
    for row in 0..rows {
        text += &line(columns.iter().map(|(_, cells)| cells[row].as_str()).collect());
    }
    text
}
