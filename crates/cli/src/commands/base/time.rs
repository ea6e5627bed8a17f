//! Lengths of time on the command line: `90s`, `5m`, `12h`, `2d`, `1w`.

use std::time::Duration;

use bstr::BStr;

use crate::term::{console::text, failure::Failure};

/// Returns the length of time that an option or argument names.
pub(crate) fn parse(word: &BStr) -> Result<Duration, Failure> {
    let wrong = || Failure::fatal(text!("'", word, "' is not a length of time such as 90s, 5m, 12h or 2d"));
    let (unit, digits) = word.split_last().ok_or_else(wrong)?;
    let seconds = match unit {
        b's' => 1,
        b'm' => 60,
        b'h' => 60 * 60,
        b'd' => 24 * 60 * 60,
        b'w' => 7 * 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let digits = digits.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(digits).ok()).flatten();
    let number: u32 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_a_unit() {
        let seconds = |word: &str| parse(word.into()).ok().map(|time| time.as_secs());
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("12h"), Some(43_200));
        assert_eq!(seconds("1w"), Some(604_800));
        for wrong in ["", "h", "12", "-1h", "+1h", "1.5h", "1 h", "99999999999d", "1H"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
