//! Lengths of time: `90s`, `5m`, `12h`, `2d`, `1w`.

use std::time::Duration;

use bstr::BStr;

/// Returns the length of time that a text names; `None` if it is not valid.
pub fn parse(text: &BStr) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    let seconds = match unit {
        b's' => 1,
        b'm' => 60,
        b'h' => 60 * 60,
        b'd' => 24 * 60 * 60,
        b'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u32 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_a_unit() {
        let seconds = |text: &str| parse(text.into()).map(|time| time.as_secs());
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("12h"), Some(43_200));
        assert_eq!(seconds("1w"), Some(604_800));
        for wrong in ["", "h", "12", "-1h", "+1h", "1.5h", "1 h", "99999999999d", "1H"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
