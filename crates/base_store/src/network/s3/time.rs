//! Times in the forms of AWS, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// The days from 1 March of the year 0 to 1970. Years that begin in March end with a leap day.
const EPOCH: u64 = 719_468;

/// The days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;

/// Returns a time as `20130524T000000Z`.
pub(super) fn stamp(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (days, rest) = (seconds / DAY + EPOCH, seconds % DAY);
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let day = day - (153 * from_march + 2) / 5 + 1;
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Reads a time such as `2009-10-12T17:50:30.000Z`, without its fraction.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let has_form = separators.iter().all(|(at, byte)| text.as_bytes().get(*at) == Some(byte));
    if !has_form || !text.ends_with('Z') {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * from_march + 2) / 5 + day - 1;
    let seconds = (days - EPOCH) * DAY + hour * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_times() {
        for (text, written, seconds) in [
            ("1970-01-01T00:00:00Z", "19700101T000000Z", 0),
            ("2009-10-12T17:50:30.000Z", "20091012T175030Z", 1_255_369_830),
            ("2000-02-29T23:59:59Z", "20000229T235959Z", 951_868_799),
            ("2000-03-01T00:00:00Z", "20000301T000000Z", 951_868_800),
            ("2100-02-28T00:00:00Z", "21000228T000000Z", 4_107_456_000),
            ("2100-03-01T00:00:00Z", "21000301T000000Z", 4_107_542_400),
            ("2024-12-31T12:00:00Z", "20241231T120000Z", 1_735_646_400),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(parse(text), Some(time), "{text}");
            assert_eq!(stamp(time), written);
        }
        for bad in ["", "2009-10-12", "2009-13-12T17:50:30Z", "2009-10-12T17:50:30", "x009-10-12T17:50:30Z"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
