//! The dates that `--expire` and expiry settings accept.

use bstr::{BStr, ByteSlice as _};
use engine::worktree::prune::Expire;

/// Parses a date of `--expire`: `never`, `now`, or a number of seconds to weeks ago. Returns `None`
/// for Git's other dates.
pub fn expire_date(text: &BStr) -> Option<Expire> {
    match text.as_bytes() {
        b"never" | b"false" => return Some(Expire::At(0)),
        b"all" | b"now" => return Some(Expire::Now),
        _ => {}
    }
    let text = text.to_str().ok()?;
    let words: Vec<&str> = text.split(['.', ' ']).filter(|word| !word.is_empty()).collect();
    let [number, unit, "ago"] = words[..] else { return None };
    let unit = match unit.strip_suffix('s').unwrap_or(unit) {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        "day" => 86_400,
        "week" => 7 * 86_400,
        _ => return None,
    };
    let number: i64 = number.parse().ok().filter(|number| (1..10_000).contains(number))?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(Expire::At(i64::try_from(now).ok()? - number * unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(expire_date("now".into()), Some(Expire::Now));
        assert_eq!(expire_date("never".into()), Some(Expire::At(0)));
        for odd in ["", "ago", "yesterday", "2005-04-07", "-1 days ago", "2.months.ago", "\u{e4}"] {
            assert_eq!(expire_date(odd.into()), None, "{odd}");
        }
        let (Some(Expire::At(days)), Some(Expire::At(hours))) =
            (expire_date("2.days.ago".into()), expire_date("1 hour ago".into()))
        else {
            panic!("both are dates");
        };
        assert!((hours - days - 47 * 3600).abs() < 3600);
    }
}
