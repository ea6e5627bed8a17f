//! Dates as Git prints them, and the names of their formats. Source: git-log(1), `--date`.
//!
//! A format that depends on the user's locale, or on the terminal, is not supported here.

use bstr::{BStr, BString, ByteSlice as _};

/// A format, and the time zone to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat {
    style: Style,
    /// The time is shown in the user's time zone, not in the date's own.
    is_local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Style {
    Default,
    Relative,
    Iso,
    IsoStrict,
    Rfc,
    Short,
    Raw,
    Unix,
    /// Conversions of C's `strftime`, checked by [`conversions`].
    Custom(BString),
}

/// The conversions whose result depends on the date alone.
const CONVERSIONS: &[u8] = b"YmdHMSyjFTRDeIuwntsz%";

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// The last second of the year 9999: later dates are not formatted here.
const LAST: i64 = 253_402_300_799;

impl DateFormat {
    /// Git's format.
    pub const DEFAULT: DateFormat = DateFormat { style: Style::Default, is_local: false };

    /// Returns the format called `name`; `None` if it is unknown.
    pub fn parse(name: &BStr) -> Option<DateFormat> {
        for (lead, is_local) in [("format:", false), ("format-local:", true)] {
            if let Some(custom) = name.strip_prefix(lead.as_bytes()) {
                conversions(custom)?;
                return Some(DateFormat { style: Style::Custom(custom.into()), is_local });
            }
        }
        let (word, is_local) = match name.strip_suffix(b"-local") {
            Some(word) => (word, true),
            None if name == "local" => (&b"default"[..], true),
            None => (name.as_bytes(), false),
        };
        let style = match word {
            b"default" => Style::Default,
            b"relative" => Style::Relative,
            b"iso" | b"iso8601" => Style::Iso,
            b"iso-strict" | b"iso8601-strict" => Style::IsoStrict,
            b"rfc" | b"rfc2822" => Style::Rfc,
            b"short" => Style::Short,
            b"raw" => Style::Raw,
            b"unix" => Style::Unix,
            _ => return None,
        };
        Some(DateFormat { style, is_local })
    }

    /// Formats a time: `seconds` since 1970, and `zone` as Git writes it, hours and minutes as one
    /// decimal number (`+0130` is 130). Returns `None` for a time after the year 9999.
    pub fn show(&self, seconds: u64, zone: i32, now: u64) -> Option<String> {
        if self.style == Style::Unix {
            return Some(seconds.to_string());
        }
        let moment = i64::try_from(seconds).ok().filter(|moment| *moment <= LAST)?;
        let zone = if self.is_local { local_zone(moment) } else { zone };
        match &self.style {
            Style::Raw => return Some(format!("{seconds} {zone:+05}")),
            Style::Relative => return Some(relative(seconds, now)),
            _ => {}
        }
        let offset = i64::from(zone / 100 * 3600 + zone % 100 * 60);
        let local = moment + offset;
        if local < 0 {
            return None;
        }
        Some(self.civil(&Civil::of(local), seconds, zone))
    }

    fn civil(&self, date: &Civil, seconds: u64, zone: i32) -> String {
        let Civil { year, month, day, hour, minute, second, weekday, .. } = *date;
        let (month_name, weekday) = (MONTHS[month - 1], WEEKDAYS[weekday]);
        let time = format!("{hour:02}:{minute:02}:{second:02}");
        match &self.style {
            Style::Short => format!("{year:04}-{month:02}-{day:02}"),
            Style::Iso => format!("{year:04}-{month:02}-{day:02} {time} {zone:+05}"),
            Style::IsoStrict => {
                let sign = if zone < 0 { '-' } else { '+' };
                let (hours, minutes) = (zone.abs() / 100, zone.abs() % 100);
                let zone = if zone == 0 { "Z".to_owned() } else { format!("{sign}{hours:02}:{minutes:02}") };
                format!("{year:04}-{month:02}-{day:02}T{time}{zone}")
            }
            Style::Rfc => format!("{weekday}, {day} {month_name} {year} {time} {zone:+05}"),
            Style::Custom(custom) => date.custom(custom.as_bstr(), seconds, zone),
            _ if self.is_local => format!("{weekday} {month_name} {day} {time} {year}"),
            _ => format!("{weekday} {month_name} {day} {time} {year} {zone:+05}"),
        }
    }
}

/// Returns the user's time zone at `moment` (seconds since 1970), in the form of
/// [`DateFormat::show`].
fn local_zone(moment: i64) -> i32 {
    let minutes = i32::try_from(sys::utc_offset(moment) / 60).unwrap_or_default();
    minutes / 60 * 100 + minutes % 60
}

/// The fields of a date.
struct Civil {
    year: i64,
    /// 1 to 12.
    month: usize,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// Days since Sunday.
    weekday: usize,
    /// 1 to 366.
    day_of_year: i64,
}

impl Civil {
    /// Splits a time in seconds since 1970.
    fn of(seconds: i64) -> Civil {
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = |year: i64| if is_leap(year) { 366 } else { 365 };
        // Days before a year, counted from the year 0.
        let before = |year: i64| 365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
        let since_zero = days + before(1970);
        let mut year = since_zero / 366;
        while since_zero - before(year) >= length(year) {
            year += 1;
        }
        let day_of_year = since_zero - before(year);
        let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut month, mut day) = (0, day_of_year);
        while day >= lengths[month] {
            day -= lengths[month];
            month += 1;
        }
        Civil {
            year,
            month: month + 1,
            day: day + 1,
            hour: time / 3600,
            minute: time / 60 % 60,
            second: time % 60,
            // 1970 began on a Thursday.
            weekday: usize::try_from((days + 4).rem_euclid(7)).unwrap_or_default(),
            day_of_year: day_of_year + 1,
        }
    }

    fn custom(&self, format: &BStr, seconds: u64, zone: i32) -> String {
        let Civil { year, month, day, hour, minute, second, .. } = *self;
        let mut shown = String::new();
        for piece in conversions(format).unwrap_or_default() {
            let conversion = match piece {
                Piece::Text(text) => {
                    shown += &text.to_str_lossy();
                    continue;
                }
                Piece::Conversion(letter) => letter,
            };
            shown += &match conversion {
                b'Y' => year.to_string(),
                b'm' => format!("{month:02}"),
                b'd' => format!("{day:02}"),
                b'e' => format!("{day:2}"),
                b'H' => format!("{hour:02}"),
                b'I' => format!("{:02}", (hour + 11) % 12 + 1),
                b'M' => format!("{minute:02}"),
                b'S' => format!("{second:02}"),
                b'y' => format!("{:02}", year % 100),
                b'j' => format!("{:03}", self.day_of_year),
                b'F' => format!("{year}-{month:02}-{day:02}"),
                b'T' => format!("{hour:02}:{minute:02}:{second:02}"),
                b'R' => format!("{hour:02}:{minute:02}"),
                b'D' => format!("{month:02}/{day:02}/{:02}", year % 100),
                b'u' => ((self.weekday + 6) % 7 + 1).to_string(),
                b'w' => self.weekday.to_string(),
                b's' => seconds.to_string(),
                b'z' => format!("{zone:+05}"),
                b'n' => "\n".to_owned(),
                b't' => "\t".to_owned(),
                _ => "%".to_owned(),
            };
        }
        shown
    }
}

/// A part of a custom format.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Text(&'a BStr),
    Conversion(u8),
}

/// Splits a custom format. Returns `None` for an unsupported conversion, or bytes that are not
/// UTF-8.
fn conversions(format: &[u8]) -> Option<Vec<Piece<'_>>> {
    std::str::from_utf8(format).ok()?;
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find_byte(b'%') {
        let letter = *rest.get(at + 1).filter(|letter| CONVERSIONS.contains(letter))?;
        pieces.push(Piece::Text(rest[..at].as_bstr()));
        pieces.push(Piece::Conversion(letter));
        rest = &rest[at + 2..];
    }
    pieces.push(Piece::Text(rest.as_bstr()));
    Some(pieces)
}

/// Returns the time from `seconds` to `now` in the largest fitting unit.
fn relative(seconds: u64, now: u64) -> String {
    let Some(distance) = now.checked_sub(seconds) else { return "in the future".to_owned() };
    let count = |number: u64, unit: &str| format!("{number} {unit}{}", if number == 1 { "" } else { "s" });
    let minutes = (distance + 30) / 60;
    let hours = (minutes + 30) / 60;
    let days = (hours + 12) / 24;
    match () {
        () if distance < 90 => count(distance, "second") + " ago",
        () if minutes < 90 => count(minutes, "minute") + " ago",
        () if hours < 36 => count(hours, "hour") + " ago",
        () if days < 14 => count(days, "day") + " ago",
        () if days < 70 => count((days + 3) / 7, "week") + " ago",
        () if days < 365 => count((days + 15) / 30, "month") + " ago",
        () if days < 5 * 365 => {
            let months = (days * 12 * 2 + 365) / (365 * 2);
            match months % 12 {
                0 => count(months / 12, "year") + " ago",
                rest => format!("{}, {} ago", count(months / 12, "year"), count(rest, "month")),
            }
        }
        () => count((days + 183) / 365, "year") + " ago",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(format: &str, seconds: u64, zone: i32) -> String {
        let format = DateFormat::parse(format.into()).expect("known");
        format.show(seconds, zone, 1_700_000_000).expect("not far away")
    }

    #[test]
    fn styles() {
        for (format, shown) in [
            ("default", "Tue Jul 4 01:18:43 2006 +0200"),
            ("iso", "2006-07-04 01:18:43 +0200"),
            ("iso-strict", "2006-07-04T01:18:43+02:00"),
            ("rfc", "Tue, 4 Jul 2006 01:18:43 +0200"),
            ("short", "2006-07-04"),
            ("raw", "1151968723 +0200"),
            ("unix", "1151968723"),
            ("relative", "17 years ago"),
            ("format:%F %T %z%%%j", "2006-07-04 01:18:43 +0200%185"),
        ] {
            assert_eq!(show(format, 1_151_968_723, 200), shown, "{format}");
        }
        assert_eq!(show("iso", 951_782_400, 0), "2000-02-29 00:00:00 +0000");
        assert_eq!(show("iso-strict", 0, 0), "1970-01-01T00:00:00Z");
        assert_eq!(show("iso", 1_700_000_000, -330), "2023-11-14 18:43:20 -0330");
        for unknown in ["human", "", "format:%B", "auto:iso", "Iso", "format:%"] {
            assert_eq!(DateFormat::parse(unknown.into()), None, "{unknown}");
        }
    }

    #[test]
    fn distances() {
        for (distance, shown) in [
            (1, "1 second ago"),
            (89, "89 seconds ago"),
            (90, "2 minutes ago"),
            (36 * 3600, "2 days ago"),
            (20 * 86_400, "3 weeks ago"),
            (100 * 86_400, "3 months ago"),
            (400 * 86_400, "1 year, 1 month ago"),
            (730 * 86_400, "2 years ago"),
            (3000 * 86_400, "8 years ago"),
        ] {
            assert_eq!(relative(1_700_000_000 - distance, 1_700_000_000), shown);
        }
        assert_eq!(relative(2, 1), "in the future");
    }
}
