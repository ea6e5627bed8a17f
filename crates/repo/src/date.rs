//! Dates of identities: `GIT_COMMITTER_DATE`.
//!
//! Source: git-commit-tree(1) "DATE FORMATS", and forms that Git accepts beyond those. A date is
//! `@<seconds> <zone>`, or words in any order. The form of a word decides its meaning: a month, a
//! day of the week, a time zone, a time, a date, a number. Words of another form are ignored. After
//! the last word, year, month, hour, minute and second must be set. [`approximate()`] also reads
//! relative dates (`yesterday`, `2 weeks ago`).

mod approximate;
mod words;

use std::ops::Range;

use self::words::{MONTHS, WEEKDAYS, ZONES, common};

pub(crate) use self::approximate::approximate;

/// The value of a field that no word has set. Git uses it for the zone too, so a zone of one minute
/// west of Greenwich counts as unset.
const UNSET: i32 = -1;

/// A moment in a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    /// Seconds since 1970. As in Git, the value wraps around for an earlier date.
    pub(crate) seconds: u64,
    /// The zone, in minutes east of Greenwich.
    pub(crate) offset: i32,
}

impl std::fmt::Display for Time {
    /// `<seconds> <zone>`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.abs();
        write!(f, "{} {sign}{:02}{:02}", self.seconds, minutes / 60, minutes % 60)
    }
}

/// Parses `text` as a date; returns `None` if it is not a date. `now` is the current time.
pub(crate) fn parse(text: &[u8], now: i64) -> Option<Time> {
    if let Some(time) = text.strip_prefix(b"@").and_then(as_in_objects) {
        return Some(time);
    }
    let mut date = Date { text, now, fields: Fields::NONE, offset: UNSET, is_utc: false };
    let mut at = 0;
    while let Some(&byte) = text.get(at).filter(|&&byte| byte != b'\n' && byte != 0) {
        let word = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => date.name(at),
            b'0'..=b'9' => date.number(at),
            b'-' | b'+' if date.is_digit(at + 1) => date.zone(at),
            _ => 1,
        };
        at += word;
    }
    date.finish()
}

/// Parses `<seconds> <zone>` without any other text.
fn as_in_objects(text: &[u8]) -> Option<Time> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let (seconds, end) = digits(text, 0);
    let sign = *text.get(end + 1).filter(|_| text[end] == b' ' && seconds != u64::MAX)?;
    if sign != b'+' && sign != b'-' {
        return None;
    }
    let zone = end + 2;
    let (number, end) = signed(text, zone);
    if end != zone + 4 || !matches!(text.get(end), None | Some(b'\n')) {
        return None;
    }
    let offset = number / 100 * 60 + number % 100;
    let offset = i32::try_from(offset).ok()?;
    Some(Time { seconds, offset: if sign == b'-' { -offset } else { offset } })
}

/// The fields that were read so far. Months count from 0, years from 1900.
#[derive(Clone, Copy)]
struct Fields {
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
}

impl Fields {
    const NONE: Fields =
        Fields { year: UNSET, month: UNSET, day: UNSET, hour: UNSET, minute: UNSET, second: UNSET };

    fn are_unset(&self) -> bool {
        (self.year & self.month & self.day & self.hour & self.minute & self.second) < 0
    }

    /// Returns the seconds since 1970, as if the fields were UTC. An unset day is not an error.
    fn seconds(&self) -> Option<i64> {
        const BEFORE_MONTH: [i32; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let year = self.year.wrapping_sub(70);
        let before = *BEFORE_MONTH.get(usize::try_from(self.month).ok()?)?;
        if !(0..130).contains(&year) || self.hour < 0 || self.minute < 0 || self.second < 0 {
            return None;
        }
        let is_leap_day_past = self.month >= 2 && (year + 2) % 4 == 0;
        let days = year * 365 + (year + 1) / 4 + before + self.day - i32::from(!is_leap_day_past);
        let time = self.hour * 3600 + self.minute * 60 + self.second;
        let seconds = i64::from(days) * 86_400 + i64::from(time);
        (seconds != -1).then_some(seconds)
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64) -> bool {
        let fits = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
        if fits {
            (self.hour, self.minute, self.second) = (hour as i32, minute as i32, second as i32);
        }
        fits
    }

    /// Sets the date if it is valid. Month and day are set before the year is checked, as in Git.
    fn set_date(&mut self, year: i32, month: i32, day: i32) -> bool {
        if !(1..13).contains(&month) || !(1..32).contains(&day) {
            return false;
        }
        (self.month, self.day) = (month - 1, day);
        let Some(year) = full_year(year).filter(|_| year != UNSET) else { return false };
        self.year = year;
        true
    }

    /// Sets the date unless it is more than ten days after `now`. If the year is missing, the
    /// current year is used.
    fn set_past_date(&mut self, year: i32, month: i32, day: i32, now: i64) -> bool {
        if !(1..13).contains(&month) || !(1..32).contains(&day) {
            return false;
        }
        let this_year = || Some(civil(now)?.year);
        let Some(full) = (if year == UNSET { this_year() } else { full_year(year) }) else { return false };
        let checked = Fields { year: full, month: month - 1, day, ..*self };
        if checked.seconds().is_some_and(|seconds| now + 10 * 86_400 < seconds) {
            return false;
        }
        (self.month, self.day) = (checked.month, checked.day);
        if year != UNSET {
            self.year = full;
        }
        true
    }
}

/// Converts a year of two or four digits to a count from 1900.
fn full_year(year: i32) -> Option<i32> {
    match year {
        1970..2100 => Some(year - 1900),
        71..100 => Some(year),
        ..38 => Some(year + 100),
        _ => None,
    }
}

struct Date<'a> {
    text: &'a [u8],
    now: i64,
    fields: Fields,
    offset: i32,
    /// True if the fields come from a count of seconds.
    is_utc: bool,
}

impl Date<'_> {
    fn byte(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn is_digit(&self, at: usize) -> bool {
        self.byte(at).is_ascii_digit()
    }

    /// Parses a word that begins with a letter; returns the length of the parsed text.
    fn name(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        for (month, name) in (0..).zip(MONTHS) {
            let len = common(rest, name);
            if len >= 3 {
                self.fields.month = month;
                return len;
            }
        }
        if let Some(len) = WEEKDAYS.iter().map(|name| common(rest, name)).find(|&len| len >= 3) {
            return len;
        }
        for (name, hours) in ZONES {
            let len = common(rest, name);
            if len >= 3 || len == name.len() {
                if self.offset == UNSET {
                    self.offset = 60 * hours;
                }
                return len;
            }
        }
        let afternoon = common(rest, "PM") == 2;
        if afternoon || common(rest, "AM") == 2 {
            self.fields.hour = self.fields.hour % 12 + if afternoon { 12 } else { 0 };
            return 2;
        }
        if rest[0] == b'T' && self.is_digit(at + 1) && self.fields.hour == UNSET {
            (self.fields.minute, self.fields.second) = (0, 0);
            return 1;
        }
        rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
    }

    /// Parses a word that begins with a digit; returns the length of the parsed text.
    fn number(&mut self, at: usize) -> usize {
        let (number, end) = digits(self.text, at);
        // A number of eight digits may be a day, so a count of seconds must be larger.
        if number >= 100_000_000 && self.fields.are_unset() {
            if let Some(fields) = civil(number as i64) {
                (self.fields, self.is_utc) = (fields, true);
                return end - at;
            }
            // C's `gmtime` has set these fields when it finds that the year is out of range.
            self.fields = time_of_day(number as i64);
        }
        if matches!(self.byte(end), b':' | b'.' | b'/' | b'-') && self.is_digit(end + 1) {
            let taken = self.several(number, at..end);
            if taken > 0 {
                return taken;
            }
        }
        match end - at {
            len @ (6 | 8) => self.compact(number as i32, len == 8, end) - at,
            len => {
                self.short(number, len);
                len
            }
        }
    }

    /// Parses two or three numbers with the same separator: a time or a date. Returns 0 if they are
    /// neither.
    fn several(&mut self, first: u64, word: Range<usize>) -> usize {
        let mark = self.byte(word.end);
        let (second, mut end) = signed(self.text, word.end + 1);
        let mut third = i64::from(UNSET);
        if self.byte(end) == mark && self.is_digit(end + 1) {
            (third, end) = signed(self.text, end + 1);
        }
        let (now, fields) = (self.now, &mut self.fields);
        let taken = match mark {
            b':' => fields.set_time(first as i64, second, third.max(0)),
            _ => {
                let [one, two, three] = [first as i32, second as i32, third as i32];
                // A large first number is a year. Otherwise the month comes before the day, except
                // with dots.
                first > 70 && (fields.set_date(one, two, three) || fields.set_date(one, three, two))
                    || mark != b'.' && fields.set_past_date(three, one, two, now)
                    || fields.set_past_date(three, two, one, now)
                    || mark == b'.' && fields.set_past_date(three, one, two, now)
            }
        };
        let is_day_known = fields.year != UNSET && fields.month != UNSET && fields.day != UNSET;
        if taken && mark == b':' && is_day_known && self.byte(end) == b'.' && self.is_digit(end + 1) {
            end = digits(self.text, end + 1).1;
        }
        if taken { end - word.start } else { 0 }
    }

    /// Parses `YYYYmmDD` or `HHMMSS` with an optional fraction; returns the end.
    fn compact(&mut self, number: i32, is_date: bool, end: usize) -> usize {
        let (one, two, three) = (number / 10_000, number % 10_000 / 100, number % 100);
        if is_date {
            self.fields.set_date(one, two, three);
            return end;
        }
        let is_time = self.fields.set_time(one.into(), two.into(), three.into());
        if is_time && self.byte(end) == b'.' && self.is_digit(end + 1) {
            digits(self.text, end + 1).1
        } else {
            end
        }
    }

    /// Parses any other number, of `len` digits.
    fn short(&mut self, number: u64, len: usize) {
        let fields = &mut self.fields;
        if fields.hour == UNSET && fields.minute == 0 && fields.second == 0 {
            // A number after the `T` of a time without colons.
            let (hour, minute) = if len == 4 { (number / 100, number % 100) } else { (number, 0) };
            if matches!(len, 2 | 4) && fields.set_time(hour as i64, minute as i64, 0) {
                return;
            }
            (fields.minute, fields.second) = (UNSET, UNSET);
        }
        let small = number as i32;
        match len {
            4 if number <= 1400 && self.offset == UNSET => self.offset = small / 100 * 60 + small % 100,
            4 if (1901..2100).contains(&number) => fields.year = small - 1900,
            1 | 2 if (1..32).contains(&number) && fields.day < 0 => fields.day = small,
            2 if fields.year < 0 && number < 10 && fields.day >= 0 => fields.year = small + 100,
            2 if fields.year < 0 && number >= 70 => fields.year = small,
            1 | 2 if (1..13).contains(&number) && fields.month < 0 => fields.month = small - 1,
            _ => {}
        }
    }

    /// Parses a sign and digits: `+hhmm`, `+hh:mm`, `+hh`. Returns the length of the parsed text.
    fn zone(&mut self, at: usize) -> usize {
        let start = at + 1;
        let (number, mut end) = digits(self.text, start);
        let (hours, minutes) = match end - start {
            4 => (number as i64 / 100, Some(number as i64 % 100)),
            2 if self.byte(end) == b':' => {
                let (minutes, after) = signed(self.text, end + 1);
                end = after;
                (number as i64, (end - start == 5).then_some(minutes))
            }
            2 => (number as i64, Some(0)),
            _ => (0, None),
        };
        if let Some(minutes) = minutes.filter(|&minutes| minutes < 60 && hours < 24) {
            let offset = (hours * 60 + minutes) as i32;
            self.offset = if self.byte(at) == b'-' { -offset } else { offset };
        }
        end - at
    }

    fn finish(self) -> Option<Time> {
        /// The last second of 2099.
        const LAST: u64 = ((2100 - 1970) * 365 + 32) * 86_400 - 1;
        let fields = self.fields;
        let seconds = fields.seconds()?;
        let mut offset = self.offset;
        if offset == UNSET {
            let Fields { year, month, day, hour, minute, second } = fields;
            let local = sys::local_time([year, month, day, hour, minute, second], sys::Clocks::OfDate);
            offset = ((seconds - local) / 60) as i32;
        }
        let mut seconds = seconds as u64;
        if !self.is_utc {
            let ahead = i64::from(offset.wrapping_mul(60));
            if offset > 0 && ahead as u64 > seconds
                || offset < 0 && (-ahead) as u64 > LAST.wrapping_sub(seconds)
            {
                return None;
            }
            seconds = seconds.wrapping_sub(ahead as u64);
        }
        Some(Time { seconds, offset })
    }
}

/// Returns the time of day of a moment in UTC.
fn time_of_day(seconds: i64) -> Fields {
    let second = seconds.rem_euclid(86_400) as i32;
    Fields { hour: second / 3600, minute: second / 60 % 60, second: second % 60, ..Fields::NONE }
}

/// Returns the fields of a moment in UTC; `None` if the year is too large.
fn civil(seconds: i64) -> Option<Fields> {
    let days = seconds.div_euclid(86_400);
    // Counts in years that begin in March, in cycles of 400 years, from the year 0.
    let days = days + 719_468;
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * from_march + 2) / 5 + 1) as i32;
    let month = ((from_march + 2) % 12) as i32;
    let year = cycle * 400 + year + i64::from(month < 2);
    let year = i32::try_from(year - 1900).ok()?;
    Some(Fields { year, month, day, ..time_of_day(seconds) })
}

/// Parses the number at `from` and returns it with its end. A number that is too large becomes the
/// largest value.
fn digits(text: &[u8], from: usize) -> (u64, usize) {
    let len = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = text[from..from + len]
        .iter()
        .try_fold(0u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
    (number.unwrap_or(u64::MAX), from + len)
}

/// Parses a number as C does: after white space and a sign. Without digits it parses nothing.
fn signed(text: &[u8], from: usize) -> (i64, usize) {
    let is_space = |byte: &&u8| matches!(**byte, b' ' | b'\t'..=b'\r');
    let mut at = from + text.get(from..).unwrap_or_default().iter().take_while(is_space).count();
    let is_negative = text.get(at) == Some(&b'-');
    if is_negative || text.get(at) == Some(&b'+') {
        at += 1;
    }
    if !text.get(at).is_some_and(u8::is_ascii_digit) {
        return (0, from);
    }
    let (number, end) = digits(text, at);
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    (if is_negative { -number } else { number }, end)
}

#[cfg(test)]
mod tests;
