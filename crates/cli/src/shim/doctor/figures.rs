//! Numbers formatted for people.

use std::time::Duration;

/// Formats a number with commas between thousands.
pub(super) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun: `1 pack`, `2 packs`.
pub(super) fn several(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number as u64))
}

/// Formats a time in the unit that fits it: `12 us`, `3.4 ms`, `0.17 s`, `5 min`, `3 days`.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let decimals = |value: f64, unit: &str| match value {
        10.0.. => format!("{value:.0} {unit}"),
        _ => format!("{value:.1} {unit}"),
    };
    match seconds {
        172_800.0.. => format!("{:.0} days", seconds / 86_400.0),
        7_200.0.. => format!("{:.0} hours", seconds / 3_600.0),
        120.0.. => format!("{:.0} min", seconds / 60.0),
        1.0.. => decimals(seconds, "s"),
        0.1.. => format!("{seconds:.2} s"),
        0.001.. => decimals(seconds * 1e3, "ms"),
        _ => decimals(seconds * 1e6, "us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([0u64, 999, 1000, 86_691, 1_234_567].map(count).join(" "), "0 999 1,000 86,691 1,234,567");
        assert_eq!((several(1, "pack"), several(1000, "pack")), ("1 pack".into(), "1,000 packs".into()));
        let times = [1_900, 12_400, 3_400_000, 170_000_000, 1_040_000_000, 42_000_000_000];
        let shown = times.map(|nanoseconds| time(Duration::from_nanos(nanoseconds)));
        assert_eq!(shown.join(", "), "1.9 us, 12 us, 3.4 ms, 0.17 s, 1.0 s, 42 s");
        assert_eq!(
            [300, 20_000, 300_000].map(|s| time(Duration::from_secs(s))).join(", "),
            "5 min, 6 hours, 3 days"
        );
    }
}
