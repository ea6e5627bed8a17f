//! The picture: a bar for each phase, and below it each thread over time.
//!
//! Its size is bounded: the time axis is divided into columns, fewer with more threads, and one
//! path contains all rectangles of one colour.

use std::fmt::Write as _;

use svg::{
    Document, Node as _,
    node::element::{Group, Line, Path, Rectangle, Text, Title},
};
use sys::profile::{Bucket, Phase, Profile};

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 20.0;
/// The x position of bars and lanes.
const LEFT: f64 = 130.0;
const ROW: f64 = 18.0;
/// The longest bar; the rest of the width is for its text.
const BAR: f64 = WIDTH - LEFT - MARGIN - 320.0;
/// The largest height of all lanes together, and the smallest and largest height of one.
const LANES: f64 = 900.0;
const LANE: (f64, f64) = (5.0, 40.0);
/// The largest number of columns of all lanes together, and of one lane.
const COLUMNS: usize = 8000;
const COLUMNS_OF_LANE: usize = 256;
/// The largest number of ticks on the axis.
const TICKS: u64 = 12;
/// The opacity of time off the CPU.
const PALE: &str = "0.35";

/// A column of a lane: its start in nanoseconds, and its time by phase.
type Column = (u64, Bucket);

pub(super) fn draw(profile: &Profile, command: &str) -> String {
    let mut document = Document::new()
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("fill", "white"));
    let heading = format!("sapwood {command}: {}, {} threads", time(profile.wall), profile.threads.count);
    document.append(label(heading, MARGIN, MARGIN + 4.0, "start").set("font-size", 16));
    let explained = "All threads together; solid: on the CPU, pale: off it.";
    document.append(label(explained, MARGIN, MARGIN + 24.0, "start").set("fill", "#666"));
    let mut y = MARGIN + 36.0;
    y = bars(&mut document, profile, y) + MARGIN;
    document.append(
        label("Each thread over time; above what is solid or pale it was not there.", MARGIN, y, "start")
            .set("fill", "#666"),
    );
    y = lanes(&mut document, profile, y + 8.0) + MARGIN;
    let document = document.set("viewBox", (0, 0, WIDTH, y)).set("width", WIDTH).set("height", y);
    format!("{document}\n")
}

/// Draws the bars. Returns the y position below them.
fn bars(document: &mut Document, profile: &Profile, top: f64) -> f64 {
    let phases: Vec<_> = Phase::ALL
        .into_iter()
        .map(|phase| (phase, profile.total(phase)))
        .filter(|(_, total)| total.count > 0 || total.wall > 0)
        .collect();
    let longest = phases.iter().map(|(_, total)| total.wall).max().unwrap_or(0).max(1);
    let mut y = top;
    for (phase, total) in phases {
        let (on, off) = (total.wall - total.off, total.off);
        let scale = |nanos: u64| nanos as f64 / longest as f64 * BAR;
        let bar = |x: f64, nanos: u64| {
            let bar = Rectangle::new().set("x", round(x)).set("y", y + 2.0).set("height", ROW - 4.0);
            bar.set("width", round(scale(nanos))).set("fill", colour(phase))
        };
        let text = match phase {
            Phase::Other => format!("{} on, {} off", time(on), time(off)),
            _ => format!("{} on, {} off, {} times", time(on), time(off), total.count),
        };
        let row = Group::new()
            .set("id", phase.name())
            .add(label(phase.name(), LEFT - 8.0, y + 13.0, "end"))
            .add(bar(LEFT, on))
            .add(bar(LEFT + scale(on), off).set("fill-opacity", PALE))
            .add(label(text, LEFT + scale(total.wall) + 8.0, y + 13.0, "start").set("fill", "#666"));
        document.append(row);
        y += ROW;
    }
    y
}

fn lanes(document: &mut Document, profile: &Profile, top: f64) -> f64 {
    let count = profile.lanes.len().max(1);
    let height = (LANES / count as f64).clamp(LANE.0, LANE.1);
    let span = profile.wall.max(1);
    let x = |nanos: u64| LEFT + nanos as f64 / span as f64 * (WIDTH - LEFT - MARGIN);
    let bottom = top + count as f64 * height;
    axis(document, span, &x, (top, bottom));
    let most = (COLUMNS / count).min(COLUMNS_OF_LANE);
    let mut paths: Vec<(Phase, bool, String)> = Phase::ALL
        .into_iter()
        .flat_map(|phase| [(phase, true, String::new()), (phase, false, String::new())])
        .collect();
    for (number, lane) in profile.lanes.iter().enumerate() {
        let y = top + number as f64 * height;
        if height >= 12.0 || number == 0 {
            let name = if number == 0 { "main thread".to_owned() } else { format!("thread {}", number + 1) };
            document.append(label(name, LEFT - 8.0, y + height / 2.0 + 4.0, "end"));
        }
        let (width, columns) = columns(&lane.timeline, most);
        for (from, column) in columns {
            // From the bottom: time on the CPU, then time off the CPU, as shares of the column's
            // width.
            let (left, right) = (x(from.min(span)), x((from + width).min(span)));
            let mut base = y + height - 1.0;
            for is_on in [true, false] {
                for (phase, (on, off)) in Phase::ALL.into_iter().zip(column) {
                    let part = if is_on { on } else { off } as f64 / width as f64 * (height - 2.0);
                    base -= part;
                    if part >= 0.05 {
                        let path = &mut paths[phase as usize * 2 + usize::from(!is_on)].2;
                        let (wide, high) = (round(right - left), round(part));
                        // Writing into a string cannot fail.
                        let _ = write!(path, "M{} {}h{wide}v{high}h-{wide}z", round(left), round(base));
                    }
                }
            }
        }
    }
    for (phase, is_on, path) in paths.into_iter().filter(|(_, _, path)| !path.is_empty()) {
        let titled = if is_on { phase.name().to_owned() } else { format!("{}, off the CPU", phase.name()) };
        let opacity = if is_on { "1" } else { PALE };
        let path = Path::new().set("d", path).set("fill", colour(phase)).set("fill-opacity", opacity);
        document.append(path.add(Title::new(titled)));
    }
    bottom + 16.0
}

/// Returns a lane's columns, at most `most` over the whole time, and their width in nanoseconds.
fn columns(timeline: &sys::profile::Timeline, most: usize) -> (u64, Vec<Column>) {
    let ends = timeline.first() + timeline.buckets().len();
    let together = ends.div_ceil(most).max(1);
    let width = timeline.width() * together as u64;
    let mut columns: Vec<Column> = Vec::new();
    for (at, bucket) in timeline.buckets().iter().enumerate() {
        let from = ((timeline.first() + at) / together) as u64 * width;
        match columns.last_mut().filter(|(last, _)| *last == from) {
            Some((_, column)) => {
                for ((on, off), (more_on, more_off)) in column.iter_mut().zip(bucket) {
                    *on += more_on;
                    *off += more_off;
                }
            }
            None => columns.push((from, *bucket)),
        }
    }
    (width, columns)
}

fn axis(document: &mut Document, span: u64, x: &dyn Fn(u64) -> f64, (top, bottom): (f64, f64)) {
    let least = span.div_ceil(TICKS).max(1);
    let power = 10_u64.pow(least.ilog10());
    let step = [1, 2, 5].map(|factor| factor * power).into_iter().find(|&step| step >= least);
    let step = step.unwrap_or_else(|| power.saturating_mul(10));
    let mut at = 0;
    while at <= span {
        let x = round(x(at));
        let line = Line::new().set("x1", x).set("x2", x).set("y1", top).set("y2", bottom);
        document.append(line.set("stroke", "#ddd"));
        document.append(label(time(at), x, bottom + 14.0, "middle").set("fill", "#666"));
        at += step;
    }
}

fn label(content: impl Into<String>, x: f64, y: f64, anchor: &str) -> Text {
    Text::new(content).set("x", round(x)).set("y", round(y)).set("text-anchor", anchor)
}

fn round(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

fn time(nanos: u64) -> String {
    match nanos as f64 {
        0.0 => "0".to_owned(),
        nanos if nanos < 1e6 => format!("{:.0} µs", nanos / 1e3),
        nanos if nanos < 1e9 => format!("{:.1} ms", nanos / 1e6),
        nanos => format!("{:.2} s", nanos / 1e9),
    }
}

/// Work has cool colours, system calls have warm ones, and waiting is grey.
fn colour(phase: Phase) -> &'static str {
    match phase {
        Phase::Other => "#8c8c8c",
        Phase::Plan => "#1f6fb4",
        Phase::Execute => "#17a2b8",
        Phase::Decode => "#2e8b57",
        Phase::Convert => "#9acd32",
        Phase::Index => "#6a5acd",
        Phase::Open => "#d62728",
        Phase::Read => "#e377c2",
        Phase::Write => "#ff7f0e",
        Phase::Stat => "#f2c12e",
        Phase::List => "#c49c6b",
        Phase::Close => "#8c564b",
        Phase::Remove => "#7f0000",
        Phase::MakeDir => "#c71585",
        Phase::Link => "#ffa07a",
        Phase::Sync => "#000000",
        Phase::Wait => "#cccccc",
    }
}
