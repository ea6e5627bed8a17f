//! Formats numbers and names for readers.

use super::section::Unit;
use crate::record::{Kind, Record, Spread, Tree};

/// Formats a time with three significant digits, without trailing zeros.
pub(super) fn time(seconds: f64, unit: Unit) -> String {
    let value = unit.of(seconds);
    number(value, decimals(value, unit))
}

/// Formats a median with the minimum and the maximum. All three have the number of decimals that
/// the longest one needs, so a time that was recorded with two digits keeps two.
pub(super) fn spread(spread: Spread, unit: Unit) -> String {
    let Some((least, most)) = spread.range else { return time(spread.median, unit) };
    let values = [spread.median, least, most].map(|seconds| unit.of(seconds));
    let needed = values.map(|value| decimals(value, unit)).into_iter().max().unwrap_or(0);
    let [median, least, most] = values.map(|value| number(value, needed.min(limit(value, unit))));
    format!("{median} ({least} to {most})")
}

/// Returns the maximum number of decimals for a value of this size.
fn limit(value: f64, unit: Unit) -> usize {
    match unit {
        Unit::Seconds if value < 1.0 => 3,
        Unit::Seconds if value < 10.0 => 2,
        Unit::Seconds if value < 100.0 => 1,
        Unit::Milliseconds if value < 10.0 => 1,
        _ => 0,
    }
}

/// Returns the number of decimals that a value needs, without trailing zeros.
fn decimals(value: f64, unit: Unit) -> usize {
    let limit = limit(value, unit);
    let text = format!("{value:.limit$}");
    let zeros = text.len() - text.trim_end_matches('0').len();
    limit.saturating_sub(zeros)
}

fn number(value: f64, decimals: usize) -> String {
    if decimals == 0 { count(value.round() as usize) } else { format!("{value:.decimals$}") }
}

pub(super) fn ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

/// Formats a ratio as a percentage, with one decimal if it is below 10.
pub(super) fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent < 10.0 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Formats a number with thousands separators.
pub(super) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a range of KiB in MB.
pub(super) fn memory((least, most): (i64, i64)) -> String {
    let mb = |kib: i64| (kib as f64 / 1024.0).round();
    if mb(least) == mb(most) { format!("{}", mb(least)) } else { format!("{} to {}", mb(least), mb(most)) }
}

/// Returns the text for a case. Cases of a day are commands, so their names are kept.
pub(super) fn case(kind: Kind, case: &str) -> String {
    match (kind, case) {
        (Kind::Workspace, case) => return super::workspace::case(case),
        (Kind::Life, case) => return super::workspace::step(case),
        (Kind::Add, case) => return add(case),
        (Kind::Day, "all") => return "all commands".to_owned(),
        (Kind::Write, case) => return written(case),
        (Kind::Clone, case) => {
            let (work, over) = case.rsplit_once('-').unwrap_or((case, ""));
            return format!("{}, {over}", work.replace('-', " "));
        }
        (Kind::Ci, case) => return job(case),
        (Kind::Small, "all") => return "all calls".to_owned(),
        (Kind::Day | Kind::Small | Kind::Memory, command) => return format!("`{command}`"),
        (Kind::Scale, case) => return scale(case),
        _ => {}
    }
    let (name, rest) = case.split_once('-').unwrap_or((case, ""));
    let mut words = match name {
        "full" => "full checkout".to_owned(),
        "loose" => "full checkout, loose objects".to_owned(),
        "old" | "new" => format!("switch, {}", case.replace('-', " ")),
        "switch" => return format!("switch, {}", files(rest)),
        "unormal" | "uno" | "uall" => format!("`-{name}`"),
        "cache" => "valid untracked cache".to_owned(),
        _ => name.to_owned(),
    };
    if matches!(name, "unormal" | "uno" | "uall" | "cache" | "monitor") {
        let (changes, loose) = rest.split_once("-loose-").unwrap_or((rest, "0"));
        if let Some(changes) = changes.parse().ok().filter(|&changes| changes > 0) {
            words += &format!(", {} changes", count(changes));
        }
        if let Some(loose) = loose.parse().ok().filter(|&loose| loose > 0) {
            words += &format!(", {} untracked files", count(loose));
        }
    }
    words
}

/// Returns the text for a case of `lab ci`.
fn job(case: &str) -> String {
    let (job, over) = case.rsplit_once('-').unwrap_or((case, ""));
    let job = match job {
        "new" => "empty directory",
        "next" => "clone of a job ten commits earlier",
        "again" => "clone of a job with the same commit",
        other => other,
    };
    format!("{job}, {over}")
}

/// Returns the text for a case of `lab scale`.
fn scale(case: &str) -> String {
    match case.split_once('-') {
        Some(("switch", count)) => format!("switch, {}", files(count)),
        Some((command @ ("add" | "commit"), count)) => format!("`{command}`, {}", files(count)),
        Some(("workspace", "first")) => "workspace, with the first base".to_owned(),
        Some(("workspace", "status")) => "status in a workspace".to_owned(),
        _ if case == "sparse" => "sparse checkout of 2%".to_owned(),
        _ => case.to_owned(),
    }
}

/// Returns the text for a case of `lab add`.
fn add(case: &str) -> String {
    let (name, rest) = case.split_once('-').unwrap_or((case, ""));
    match (name, rest) {
        ("500", "unsynced") => "500 new files, Git syncs nothing".to_owned(),
        ("500", "batch") => "500 new files, Git syncs in a batch".to_owned(),
        ("500", "fsync") => "500 new files, `core.fsync=all`".to_owned(),
        ("add", "all") => "`add`, the whole tree".to_owned(),
        ("commit", count) => format!("`commit -a`, {}", files(count)),
        ("stash", count) => format!("`stash`, {}", files(count)),
        ("pop", count) => format!("`stash pop`, {}", files(count)),
        (name, "1") => format!("`{name}`, 1 file"),
        (name, count) => format!("`{name}`, {}", files(count)),
    }
}

fn files(number: &str) -> String {
    number.parse().map_or_else(|_| number.to_owned(), |number| format!("{} files", count(number)))
}

/// Formats the number in a case with thousands separators.
pub(super) fn number_of(number: &str) -> String {
    number.parse().map_or_else(|_| number.to_owned(), count)
}

/// Formats KiB as MB, with three significant digits.
pub(super) fn megabytes(kib: f64) -> String {
    let value = kib / 1024.0;
    let decimals = match value.abs() {
        value if value < 1.0 => 3,
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    if decimals == 0 && value > 0.0 { count(value.round() as usize) } else { format!("{value:.decimals$}") }
}

/// Returns the text for a disk.
pub(super) fn disk(disk: &str) -> &str {
    match disk {
        "nfs" => "nfs: 1 ms, 64 at once",
        "efs" => "efs: 3 ms, 128 at once",
        "ebs" => "ebs: 0.5 ms, 32 at once",
        "hdd" => "hdd: one arm",
        "local" => "ext4",
        "cold" => "ext4, the machine's own disk",
        "delayed" => "ext4, reads of 5 ms",
        "queued" => "ext4, ten reads of 5 ms at once",
        "throttled" => "ext4, 400 reads a second",
        other => other,
    }
}

/// Returns the text for a tree.
pub(super) fn tree(name: &str) -> String {
    match ["wide-", "made-", "deep-"].into_iter().find_map(|prefix| name.strip_prefix(prefix)) {
        Some(number) => format!("generated tree of {}", files(number)),
        None => name.to_owned(),
    }
}

fn is_generated(tree: &str) -> bool {
    ["wide-", "made-", "deep-"].into_iter().any(|prefix| tree.starts_with(prefix))
}

/// Returns the text for the trees of a record, with their sizes.
pub(super) fn trees(record: &Record) -> String {
    let one = |of: &Tree| {
        let name = if is_generated(&of.name) { "generated" } else { &of.name };
        let directories = of.directories.map(|number| format!(" in {} directories", count(number)));
        format!("{name}, {} files{}", count(of.files), directories.unwrap_or_default())
    };
    record.trees.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Breaks a paragraph into lines of at most 100 columns. Lines after the first begin with `indent`.
pub(super) fn wrap(text: &str, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("never empty");
        if line.trim().is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= 100 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n")
}

/// Returns the text for a case of `lab write`.
fn written(case: &str) -> String {
    let words = match case {
        "index-write-v2" => "index, version 2: write",
        "index-write-v4" => "index, version 4: write",
        "index-read-v2" => "index, version 2: read",
        "index-read-v4" => "index, version 4: read",
        "multi-pack-index" => "`multi-pack-index write`",
        "commit-graph" => "`commit-graph write`",
        "changed-paths" => "`commit-graph write --changed-paths`",
        "index-pack" => "`index-pack` of a file",
        "index-pack-stdin" => "`index-pack --stdin`",
        other => other,
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_at_most() {
        let seconds: Vec<String> = [0.0291, 0.36, 1.873, 4.0, 19.54, 127.6, 1203.0, 0.0004]
            .map(|value| time(value, Unit::Seconds))
            .into();
        assert_eq!(seconds, ["0.029", "0.36", "1.87", "4", "19.5", "128", "1,203", "0"]);
        let milliseconds: Vec<String> =
            [0.008, 0.00843, 0.0784, 1.2084].map(|value| time(value, Unit::Milliseconds)).into();
        assert_eq!(milliseconds, ["8", "8.4", "78", "1,208"]);
        let of = |range| spread(Spread { median: 2.0, range }, Unit::Seconds);
        assert_eq!([of(None), of(Some((1.5, 3.25)))], ["2", "2.00 (1.50 to 3.25)"]);
        assert_eq!(of(Some((1.9, 12.0))), "2.0 (1.9 to 12.0)");
        assert_eq!(of(Some((1.93, 127.6))), "2.00 (1.93 to 128)");
    }

    #[test]
    fn cases_disks_and_trees_have_names() {
        let names = [
            ("full", "full checkout"),
            ("old-to-new", "switch, old to new"),
            ("switch-1000", "switch, 1,000 files"),
            ("unormal-0", "`-unormal`"),
            ("cache-10", "valid untracked cache, 10 changes"),
            ("monitor-10000", "monitor, 10,000 changes"),
            ("uall-0-loose-500000", "`-uall`, 500,000 untracked files"),
        ];
        for (name, words) in names {
            assert_eq!(case(Kind::Status, name), words);
        }
        let commands = ["all", "switch", "update-index"].map(|command| case(Kind::Day, command));
        assert_eq!(commands, ["all commands", "`switch`", "`update-index`"]);
        assert_eq!(tree("wide-1000000"), "generated tree of 1,000,000 files");
        assert_eq!(tree("linux"), "linux");
        assert_eq!(memory((140_000, 141_000)), "137 to 138");
    }

    #[test]
    fn paragraphs_are_broken_between_words() {
        let text = wrap(&"word ".repeat(50), "  ");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
