//! Charts as SVG: the shared colours and shapes, and the chart of a record.
//!
//! A chart has a white background, so it looks the same in a light and in a dark theme.

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{section::Section, text};
use crate::{
    Error,
    record::{Case, Kind, Record},
};

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
pub(super) const FAINT: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
pub(super) const SAPWOOD: RGBColor = RGBColor(0x1a, 0x7f, 0x37);
pub(super) const GIT: RGBColor = RGBColor(0x8c, 0x95, 0x9f);
pub(super) const GIX: RGBColor = RGBColor(0x54, 0x9c, 0xe8);
const TARGET: RGBColor = RGBColor(0xcf, 0x22, 0x2e);

/// Draws on a white background and returns the SVG.
pub(super) fn draw(
    size: (u32, u32),
    drawing: impl FnOnce(&Area<'_>) -> Result<(), Error>,
) -> Result<String, Error> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    drawing(&area)?;
    area.present().map_err(failed)?;
    drop(area);
    svg.push('\n');
    Ok(svg)
}

pub(super) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Setup(format!("cannot draw: {error}"))
}

/// Returns a style for text of this size, anchored at its `horizontal` and `vertical` edge.
pub(super) fn style(size: u32, horizontal: HPos, vertical: VPos) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&(0, 0)).color(&INK).pos(Pos::new(horizontal, vertical))
}

pub(super) fn write(area: &Area<'_>, text: &str, style: &TextStyle<'_>, at: (i32, i32)) -> Result<(), Error> {
    area.draw_text(text, style, at).map_err(failed)
}

/// Draws a filled rectangle; the point is its upper left corner.
pub(super) fn fill(
    area: &Area<'_>,
    (x, y): (i32, i32),
    (width, height): (i32, i32),
    color: RGBColor,
) -> Result<(), Error> {
    area.draw(&Rectangle::new([(x, y), (x + width, y + height)], color.filled())).map_err(failed)
}

const WIDTH: u32 = 800;
/// The left edge of the bars, and the width of a bar for Git's time, in pixels.
const LEFT: i32 = 330;
const FULL: i32 = 240;
const ROW: i32 = 24;
const TOP: i32 = 64;

/// Draws sapwood's time as a share of Git's for each case, with the project's targets.
pub(super) fn ratios(section: &Section, record: &Record, cases: &[&Case]) -> Result<String, Error> {
    let rows: Vec<(&Case, f64)> = cases.iter().filter_map(|case| Some((*case, case.ratio()?))).collect();
    let height = TOP + ROW * rows.len() as i32 + 12;
    draw((WIDTH, height as u32), |area| {
        let (left, middle) = (style(13, HPos::Left, VPos::Center), style(15, HPos::Left, VPos::Center));
        write(area, &format!("{}, {}", section.title, record.date), &middle, (16, 20))?;
        let legend = "Time of sapwood (green) as a share of Git's (grey); the red line is the target";
        write(area, legend, &left, (16, 44))?;
        for (row, (case, ratio)) in rows.iter().enumerate() {
            let y = TOP + ROW * row as i32;
            of_case(area, section, case, *ratio, y)?;
        }
        Ok(())
    })
}

fn of_case(area: &Area<'_>, section: &Section, case: &Case, ratio: f64, y: i32) -> Result<(), Error> {
    let left = style(13, HPos::Left, VPos::Center);
    let place = match section.kind {
        Kind::Small => format!(", {}, {}", case.disk, text::tree(&case.tree)),
        _ if case.disk == "local" => String::new(),
        _ => format!(", {}", case.disk),
    };
    let name = format!("{}{place}", text::case(section.kind, &case.case).replace('`', ""));
    write(area, &name, &left, (16, y + ROW / 2))?;
    // A bar may be longer than Git's, but must not reach the figures.
    let width = |ratio: f64| ((ratio.min(1.2) * f64::from(FULL)).round() as i32).max(1);
    fill(area, (LEFT, y + 4), (FULL, ROW - 8), FAINT)?;
    fill(area, (LEFT, y + 4), (width(ratio), ROW - 8), SAPWOOD)?;
    if ratio > 1.0 {
        fill(area, (LEFT + FULL - 1, y + 4), (2, ROW - 8), FAINT)?;
    }
    if let Some(target) = case.at_most.git {
        fill(area, (LEFT + width(target) - 1, y + 2), (2, ROW - 4), TARGET)?;
    }
    let median = |figure: Option<&crate::record::Figure>| {
        let wall = figure.and_then(crate::record::Figure::wall);
        wall.map_or_else(String::new, |wall| text::time(wall.median, section.unit))
    };
    let figures = format!(
        "{} of {} {} ({}%)",
        median(case.tool("sapwood")),
        median(case.best_of_git()),
        section.unit.sign(),
        text::percent(ratio)
    );
    write(area, &figures, &left, (LEFT + FULL + 60, y + ROW / 2))
}
