//! The changes between two commits, as `diff --stat --summary -M` prints them. Layout: Git's
//! `show_stats`.
//!
//! Settings and names that need unsupported rules are left to the real Git. Without a real Git,
//! nothing is printed in that case.

use std::process::Stdio;

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::{self, Pair, Status, renames, stat::Change};
use repo::{Repository, keys};
use sapwood::ObjectId;

use crate::{
    session::{Session, index::load_index, output, real_git},
    term::{
        console::{self, text},
        failure::Failure,
        text::{os_error, quote},
    },
};

/// Settings that change the pairs, the numbers or the layout in an unsupported way.
const UNKNOWN: [&str; 6] = [
    keys::diff::ALGORITHM.name(),
    keys::diff::ORDER_FILE.name(),
    keys::diff::RELATIVE.name(),
    keys::diff::RENAME_LIMIT.name(),
    keys::diff::STAT_GRAPH_WIDTH.name(),
    keys::diff::STAT_NAME_WIDTH.name(),
];

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `--stat --summary`
    Stat,
    /// `--compact-summary`
    Compact,
}

/// Prints the changes between the commits `old` and `new`.
pub(crate) fn print(session: Session<'_>, old: ObjectId, new: ObjectId, form: Form) -> Result<(), Failure> {
    match native(session, old, new, form)? {
        Some(out) => console::out_raw(&out),
        None => by_git(session, old, new, form)?,
    }
    Ok(())
}

fn by_git(session: Session<'_>, old: ObjectId, new: ObjectId, form: Form) -> Result<(), Failure> {
    let Session { invocation: run, repository: repo, .. } = session;
    let Some(mut git) = real_git::command(run) else { return Ok(()) };
    console::flush();
    git.envs(repo.child_env()).current_dir(repo.child_dir()).stdin(Stdio::null());
    git.args(["--no-pager", "diff", "--no-ext-diff", "--no-relative", "-M"]);
    git.args(match form {
        Form::Stat => &["--stat", "--summary"][..],
        Form::Compact => &["--compact-summary"],
    });
    git.args([old.to_string(), new.to_string()]);
    git.status().map_err(|error| Failure::fatal(format!("cannot run git diff: {}", os_error(&error))))?;
    Ok(())
}

/// Returns the report, or `None` if it needs the real Git.
fn native(
    session: Session<'_>,
    old: ObjectId,
    new: ObjectId,
    form: Form,
) -> Result<Option<BString>, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let is_known = UNKNOWN.iter().all(|key| repo.config_str(key).is_none());
    if !is_known || output::wants_color(run, repo, keys::color::DIFF)? {
        return Ok(None);
    }
    let pairs = diff::trees(repo, Some(repo.tree_of(old)?), Some(repo.tree_of(new)?))?;
    let Some(pairs) = with_renames(repo, pairs)? else { return Ok(None) };
    let index = load_index(repo, settings)?;
    let Some(changes) = diff::stat::each(repo, &index, &pairs, settings.big_file_threshold)? else {
        return Ok(None);
    };
    let name = |pair: &Pair| {
        let name = match (pair.status, &pair.source) {
            (Status::Renamed | Status::Copied, Some(source)) => {
                moved(source.as_bstr(), pair.path.as_bstr(), settings.quote_path)
            }
            _ => quote(pair.path.as_bstr(), settings.quote_path),
        };
        match comment(pair).filter(|_| form == Form::Compact) {
            Some(comment) => text!(name, " (", comment, ")"),
            None => name,
        }
    };
    let rows: Vec<Row> =
        std::iter::zip(&pairs, changes).map(|(pair, change)| Row { name: name(pair), change }).collect();
    if rows.is_empty() || rows.iter().any(|row| !row.name.is_ascii()) {
        return Ok(rows.is_empty().then(BString::default));
    }
    let mut out = table(&rows, output::line_width(run) + 1);
    if form == Form::Stat {
        pairs.iter().for_each(|pair| out.extend_from_slice(&line(pair, settings.quote_path)));
    }
    Ok(Some(out))
}

/// Finds renames among changes, as `-M` does. Returns `None` if there are submodules, or too many
/// files to compare.
pub(crate) fn with_renames(repo: &Repository, pairs: Vec<Pair>) -> Result<Option<Vec<Pair>>, Failure> {
    if pairs.iter().any(|pair| [pair.old, pair.new].iter().flatten().any(|side| side.mode.is_gitlink())) {
        return Ok(None);
    }
    let options = renames::Options {
        detect: renames::Detect::Renames,
        minimum: 0,
        limit: renames::DEFAULT_LIMIT,
        empty: renames::Empty::Included,
        worktree: None,
    };
    let found = renames::detect(repo, pairs, &options)?;
    Ok(found.skipped.is_none().then(|| found.resolved()))
}

/// Returns the change of mode or existence that `--compact-summary` prints after a name.
fn comment(pair: &Pair) -> Option<&'static str> {
    let mode = |side: Option<diff::Side>| side.map(|side| side.mode);
    let is_link = |side: Option<diff::Side>| mode(side).is_some_and(|mode| mode.is_symlink());
    let is_executable = |side: Option<diff::Side>| mode(side).is_some_and(|mode| mode.is_executable());
    match pair.status {
        Status::Added if is_link(pair.new) => return Some("new +l"),
        Status::Added if is_executable(pair.new) => return Some("new +x"),
        Status::Added => return Some("new"),
        Status::Deleted => return Some("gone"),
        _ => {}
    }
    match (is_link(pair.old), is_link(pair.new), is_executable(pair.old), is_executable(pair.new)) {
        (true, false, ..) => Some("mode -l"),
        (false, true, ..) => Some("mode +l"),
        (false, false, false, true) => Some("mode +x"),
        (false, false, true, false) => Some("mode -x"),
        _ => None,
    }
}

/// One file of the table. The name is ASCII.
struct Row {
    name: BString,
    change: Change,
}

impl Row {
    /// Returns the number that the graph shows.
    fn lines(&self) -> usize {
        match self.change {
            Change::Lines { added, removed } => added + removed,
            Change::Binary { .. } => 0,
        }
    }
}

/// The widths of the columns.
struct Widths {
    name: usize,
    number: usize,
    graph: usize,
    /// The largest number of lines.
    most: usize,
}

impl Widths {
    fn new(rows: &[Row], columns: usize) -> Widths {
        let longest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let most = rows.iter().map(Row::lines).max().unwrap_or(0);
        let binary = |row: &Row| match row.change {
            Change::Binary { old, new } => Some(14 + digits(old) + digits(new)),
            Change::Lines { .. } => None,
        };
        let binary = rows.iter().filter_map(binary).max().unwrap_or(0);
        let number = digits(most as u64).max(if binary > 0 { 3 } else { 0 });
        let columns = columns.max(16 + 6 + number);
        let mut graph = if most + 4 > binary { most } else { binary - 4 };
        let mut name = longest;
        if name + number + 6 + graph > columns {
            graph = graph.min((columns * 3 / 8).saturating_sub(number + 6).max(6));
            match columns - number - 6 - graph {
                room if name > room => name = room,
                _ => graph = columns - number - 6 - name,
            }
        }
        Widths { name, number, graph, most }
    }

    /// Scales a number of lines to graph columns. Every change gets at least one column.
    fn scale(&self, lines: usize) -> usize {
        if lines == 0 { 0 } else { 1 + lines * (self.graph - 1) / self.most }
    }

    /// Returns the graph columns of added and removed lines.
    fn bars(&self, added: usize, removed: usize) -> (usize, usize) {
        if self.graph > self.most {
            return (added, removed);
        }
        let total = self.scale(added + removed);
        let total = if total < 2 && added > 0 && removed > 0 { 2 } else { total };
        if added < removed {
            let added = self.scale(added);
            (added, total - added)
        } else {
            let removed = self.scale(removed);
            (total - removed, removed)
        }
    }

    /// Formats a name, cut at the front to fit, and the padding after it.
    fn name(&self, name: &BStr) -> BString {
        let mut shown = BString::default();
        let (mut name, mut room) = (name, self.name);
        if name.len() > room {
            shown.extend_from_slice(b"...");
            room = room.saturating_sub(3);
            name = &name[name.len() - room..];
            name = name.find_byte(b'/').map_or(name, |slash| &name[slash..]);
        }
        shown.extend_from_slice(name);
        shown.extend(std::iter::repeat_n(b' ', room.saturating_sub(name.len())));
        shown
    }
}

fn digits(number: u64) -> usize {
    number.to_string().len()
}

fn table(rows: &[Row], columns: usize) -> BString {
    let widths = Widths::new(rows, columns);
    let mut out = BString::default();
    let (mut all_added, mut all_removed) = (0, 0);
    for row in rows {
        out.extend_from_slice(&text!(" ", widths.name(row.name.as_bstr()), " | "));
        let number = widths.number;
        let rest = match row.change {
            Change::Binary { old: 0, new: 0 } => format!("{:>number$}", "Bin"),
            Change::Binary { old, new } => format!("{:>number$} {old} -> {new} bytes", "Bin"),
            Change::Lines { added: 0, removed: 0 } => format!("{:>number$}", 0),
            Change::Lines { added, removed } => {
                (all_added, all_removed) = (all_added + added, all_removed + removed);
                let (plus, minus) = widths.bars(added, removed);
                format!("{:>number$} {}{}", added + removed, "+".repeat(plus), "-".repeat(minus))
            }
        };
        out.extend_from_slice(rest.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(totals(rows.len(), all_added, all_removed).as_bytes());
    out
}

/// Returns the line of totals. `files` is not zero.
pub(crate) fn totals(files: usize, added: usize, removed: usize) -> String {
    let some = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let mut out = format!(" {} changed", some(files, "file"));
    if added > 0 || removed == 0 {
        out += &format!(", {}(+)", some(added, "insertion"));
    }
    if removed > 0 || added == 0 {
        out += &format!(", {}(-)", some(removed, "deletion"));
    }
    out + "\n"
}

/// Returns the summary line of a path that was added, deleted, renamed or changed its mode.
pub(crate) fn line(pair: &Pair, quote_path: bool) -> BString {
    let path = |path: &BString| quote(path.as_bstr(), quote_path);
    let mode = |side: Option<diff::Side>| side.map_or(0, |side| side.mode.bits());
    let (old, new) = (mode(pair.old), mode(pair.new));
    let is_changed = old != new;
    match pair.status {
        Status::Added => text!(format!(" create mode {new:06o} "), path(&pair.path), "\n"),
        Status::Deleted => text!(format!(" delete mode {old:06o} "), path(&pair.path), "\n"),
        Status::Renamed | Status::Copied => {
            let what = if pair.status == Status::Renamed { " rename " } else { " copy " };
            let source = pair.source.as_ref().unwrap_or(&pair.path);
            let percent = pair.score * 100 / diff::MAX_SCORE;
            let names = moved(source.as_bstr(), pair.path.as_bstr(), quote_path);
            let mut line = text!(what, names, format!(" ({percent}%)\n"));
            if is_changed {
                line.extend_from_slice(format!(" mode change {old:06o} => {new:06o}\n").as_bytes());
            }
            line
        }
        _ if is_changed => {
            text!(format!(" mode change {old:06o} => {new:06o} "), path(&pair.path), "\n")
        }
        _ => BString::default(),
    }
}

/// Formats a rename; the common parts of the two names are printed once.
fn moved(old: &BStr, new: &BStr, quote_path: bool) -> BString {
    let quote = |name: &BStr| quote(name, quote_path);
    if quote(old) != old || quote(new) != new {
        return text!(quote(old), " => ", quote(new));
    }
    let shared = old.iter().zip(new.iter()).take_while(|(one, other)| one == other).count();
    let lead = old[..shared].rfind_byte(b'/').map_or(0, |slash| slash + 1);
    // The slash after the common directories may also begin the common end of the names.
    let least = lead.saturating_sub(usize::from(lead > 0));
    let limit = (old.len() - least).min(new.len() - least);
    let pairs = old.iter().rev().zip(new.iter().rev()).take(limit);
    let same = pairs.take_while(|(one, other)| one == other).count();
    let tail = old[old.len() - same..].find_byte(b'/').map_or(0, |slash| same - slash);
    let middle = |name: &BStr| {
        let end = name.len() - tail;
        BString::from(if end > lead { &name[lead..end] } else { &b""[..] })
    };
    if lead + tail == 0 {
        return text!(old, " => ", new);
    }
    let tail = &old[old.len() - tail..];
    text!(old[..lead], "{", middle(old), " => ", middle(new), "}", tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &[(&str, Change)], columns: usize) -> String {
        let rows: Vec<Row> =
            rows.iter().map(|(name, change)| Row { name: (*name).into(), change: *change }).collect();
        table(&rows, columns).to_string()
    }

    #[test]
    fn scales_and_aligns() {
        let lines = |added, removed| Change::Lines { added, removed };
        let rows = [
            ("a", lines(1, 0)),
            ("dir/long", lines(300, 100)),
            ("x", Change::Binary { old: 0, new: 12 }),
            ("y", Change::Binary { old: 0, new: 0 }),
            ("z", lines(0, 0)),
        ];
        assert_eq!(
            shown(&rows, 40),
            " a        |   1 +\n \
             dir/long | 400 +++++++++++++++++------\n \
             x        | Bin 0 -> 12 bytes\n \
             y        | Bin\n \
             z        |   0\n \
             5 files changed, 301 insertions(+), 100 deletions(-)\n"
        );
    }

    #[test]
    fn cuts_long_names_at_a_slash() {
        let name = "a/very/long/way/to/get/to/the/file";
        let out = shown(&[(name, Change::Lines { added: 100, removed: 0 })], 40);
        assert!(out.starts_with(" .../to/get/to/the/file    | 100 ++++++\n"), "{out}");
    }
}
