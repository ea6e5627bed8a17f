//! Sizes in bytes, as Git prints them for people.

/// A size in the unit that fits it, with two decimals: `1.50 MiB`.
pub(crate) fn readable(bytes: u64) -> String {
    let hundredths = |unit: u64| format!("{}.{:02}", bytes / unit, bytes % unit * 100 / unit);
    match bytes {
        0x4000_0001.. => format!("{} GiB", hundredths(1 << 30)),
        0x10_0001.. => format!("{} MiB", hundredths(1 << 20)),
        0x401.. => format!("{} KiB", hundredths(1 << 10)),
        1 => "1 byte".to_owned(),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!((readable(1).as_str(), readable(1024).as_str()), ("1 byte", "1024 bytes"));
        assert_eq!((readable(1536).as_str(), readable(3 << 30).as_str()), ("1.50 KiB", "3.00 GiB"));
    }
}
