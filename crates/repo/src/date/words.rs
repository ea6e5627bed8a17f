//! The words that occur in dates.

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const WEEKDAYS: [&str; 7] =
    ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays"];

/// Numbers in words, from one.
pub(super) const NUMBERS: [&str; 10] =
    ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// Spans of time, in seconds.
pub(super) const SPANS: [(&str, i32); 5] =
    [("seconds", 1), ("minutes", 60), ("hours", 3600), ("days", 86_400), ("weeks", 7 * 86_400)];

/// Time zones in hours east of Greenwich. The first match counts.
pub(super) const ZONES: [(&str, i32); 44] = [
    ("IDLW", -12),
    ("NT", -11),
    ("CAT", -10),
    ("HST", -10),
    ("HDT", -9),
    ("YST", -9),
    ("YDT", -8),
    ("PST", -8),
    ("PDT", -7),
    ("MST", -7),
    ("MDT", -6),
    ("CST", -6),
    ("CDT", -5),
    ("EST", -5),
    ("EDT", -4),
    ("AST", -3),
    ("ADT", -2),
    ("WAT", -1),
    ("GMT", 0),
    ("UTC", 0),
    ("Z", 0),
    ("WET", 0),
    ("BST", 1),
    ("CET", 1),
    ("MET", 1),
    ("MEWT", 1),
    ("MEST", 2),
    ("CEST", 2),
    ("MESZ", 2),
    ("FWT", 1),
    ("FST", 2),
    ("EET", 2),
    ("EEST", 3),
    ("WAST", 7),
    ("WADT", 8),
    ("CCT", 8),
    ("JST", 9),
    ("EAST", 10),
    ("EADT", 11),
    ("GST", 10),
    ("NZT", 12),
    ("NZST", 12),
    ("NZDT", 13),
    ("IDLE", 12),
];

/// Returns the length of the common prefix of `text` and `name`, ignoring case; 0 if a letter or
/// digit follows it.
pub(super) fn common(text: &[u8], name: &str) -> usize {
    let len = text.iter().zip(name.as_bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    match text.get(len) {
        Some(byte) if byte.is_ascii_alphanumeric() => 0,
        _ => len,
    }
}
