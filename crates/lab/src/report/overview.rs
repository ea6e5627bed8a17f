//! The chart of the README: seconds of git, gix and sapwood, on a local and on a network disk.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, VPos},
};

use super::{
    Records,
    chart::{self, FAINT, GIT, GIX, INK, SAPWOOD},
    section::Unit,
    text,
};
use crate::{
    Error,
    record::{Case, Kind, Record},
};

/// One half of the chart.
struct Panel {
    title: &'static str,
    /// The preferred tree. Another one takes its place if that has more groups.
    tree: &'static str,
    groups: [Group; 3],
}

/// The bars of one case: a caption, and the record and case to show.
struct Group {
    caption: &'static str,
    kind: Kind,
    disk: &'static str,
    case: &'static str,
}

const fn group(caption: &'static str, kind: Kind, disk: &'static str, case: &'static str) -> Group {
    Group { caption, kind, disk, case }
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "local disk",
        tree: "linux",
        groups: [
            group("clone", Kind::Checkout, "ext4", "clone"),
            group("checkout", Kind::Checkout, "ext4", "full"),
            group("status", Kind::Status, "local", "unormal-0"),
        ],
    },
    Panel {
        title: "network disk, 1 ms",
        tree: "libgit2",
        groups: [
            group("clone", Kind::Weather, "nfs", "clone"),
            group("checkout", Kind::Weather, "nfs", "full"),
            group("status", Kind::Status, "nfs", "unormal-0"),
        ],
    },
];

const SIZE: (u32, u32) = (800, 420);
/// The heights of the title with the legend, and of the notes below the panels.
const HEAD: u32 = 62;
const NOTES: [&str; 2] = [
    "git: at its best number of workers. gix, checkout: its checkout phase only.",
    "Caches are warm on the local disk and cold on the network disk.",
];
/// The width of a group of three bars; each bar has width 1.
const GROUP: f64 = 3.5;
/// The smallest and the largest value on the axis, in seconds.
const AXIS: (f64, f64) = (0.05, 200.0);

/// Draws the chart. A group without a record is left out: a short measurement does not have all. A
/// panel without any is an error, because the README shows it.
pub(super) fn chart(records: &Records) -> Result<String, Error> {
    chart::draw(SIZE, |area| {
        let title = chart::style(16, HPos::Left, VPos::Center);
        chart::write(area, "Seconds, on a logarithmic scale; a shorter bar is faster", &title, (16, 20))?;
        let legend = chart::style(13, HPos::Left, VPos::Center);
        for (at, (name, color)) in [("git", GIT), ("gix", GIX), ("sapwood", SAPWOOD)].into_iter().enumerate()
        {
            let x = 16 + 70 * at as i32;
            chart::fill(area, (x, 40), (12, 12), color)?;
            chart::write(area, name, &legend, (x + 18, 46))?;
        }
        let (_, below) = area.split_vertically(HEAD);
        let (below, foot) = below.split_vertically(SIZE.1 - HEAD - 44);
        let small = chart::style(12, HPos::Left, VPos::Center);
        for (line, note) in NOTES.iter().enumerate() {
            chart::write(&foot, note, &small, (16, 10 + 18 * line as i32))?;
        }
        for (half, panel) in below.split_evenly((1, 2)).iter().zip(&PANELS) {
            draw(half, panel, records)?;
        }
        Ok(())
    })
}

fn draw(area: &chart::Area<'_>, panel: &Panel, records: &Records) -> Result<(), Error> {
    let tree = tree(records, panel);
    let found = panel.groups.iter().filter_map(|group| Some((group, find(records, tree, group)?)));
    let groups: Vec<(&Group, &Case)> = found.collect();
    if groups.is_empty() {
        return Err(Error::Setup(format!("no record has a case of the panel '{}'", panel.title)));
    }
    let title = format!("{} ({tree}, {} files)", panel.title, files(records, tree));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption(title, chart::style(14, HPos::Left, VPos::Top))
        .x_label_area_size(26)
        .y_label_area_size(38)
        .build_cartesian_2d(0.0..3.0 * GROUP, (AXIS.0..AXIS.1).log_scale())
        .map_err(chart::failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .label_style(chart::style(12, HPos::Right, VPos::Center))
        .y_label_formatter(&|seconds| text::time(*seconds, Unit::Seconds))
        .draw()
        .map_err(chart::failed)?;
    let (bar, caption) =
        (chart::style(11, HPos::Center, VPos::Bottom), chart::style(14, HPos::Center, VPos::Top));
    for (group, (of, case)) in groups.into_iter().enumerate() {
        let left = GROUP * group as f64;
        let peers = [(case.best_of_git(), GIT), (case.tool("gix"), GIX), (case.tool("sapwood"), SAPWOOD)];
        for (at, (figure, color)) in peers.into_iter().enumerate() {
            let Some(wall) = figure.and_then(|figure| figure.wall()) else { continue };
            let (from, to) = (left + 0.29 + at as f64, left + 1.21 + at as f64);
            let rectangle = Rectangle::new([(from, AXIS.0), (to, wall.median)], color.filled());
            let value = Text::new(
                text::time(wall.median, Unit::Seconds),
                ((from + to) / 2.0, wall.median * 1.06),
                bar.clone(),
            );
            chart.draw_series([rectangle]).map_err(chart::failed)?;
            chart.draw_series([value]).map_err(chart::failed)?;
        }
        let name = Text::new(of.caption, (left + GROUP / 2.0, AXIS.0 * 0.85), caption.clone());
        chart.draw_series([name]).map_err(chart::failed)?;
    }
    Ok(())
}

/// Returns the tree of a panel.
fn tree<'a>(records: &'a Records, panel: &Panel) -> &'a str {
    let count = |tree: &str| panel.groups.iter().filter(|group| find(records, tree, group).is_some()).count();
    let all = records.values().flat_map(|record| &record.trees).map(|tree| tree.name.as_str());
    // The last of several that have as many groups.
    all.chain([panel.tree]).max_by_key(|tree| count(tree)).unwrap_or(panel.tree)
}

/// Finds the case of a group in the newest record that contains it.
fn find<'a>(records: &'a Records, tree: &str, group: &Group) -> Option<&'a Case> {
    let key = (tree, group.disk, group.case);
    let of_kind = records.values().filter(|record| record.kind == group.kind);
    let found = of_kind.flat_map(|record| record.cases.iter().map(move |case| (&record.date, case)));
    found
        .filter(|(_, case)| (&*case.tree, &*case.disk, &*case.case) == key)
        .filter(|(_, case)| case.ratio().is_some())
        .max_by_key(|(date, _)| *date)
        .map(|(_, case)| case)
}

fn files(records: &Records, tree: &str) -> String {
    let all = records.values().flat_map(|record: &Record| &record.trees);
    all.filter(|of| of.name == tree).map(|of| text::count(of.files)).next().unwrap_or_default()
}
