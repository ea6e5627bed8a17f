//! Sizes in bytes, as Git prints them for people.

/// Returns a size in the unit that fits it, with two decimals: `1.50 MiB`. Like Git, rounds KiB and
/// MiB, and truncates GiB.
pub(crate) fn readable(bytes: u64) -> String {
    let decimals = |bytes: u64, unit: u64| format!("{}.{:02}", bytes / unit, bytes % unit * 100 / unit);
    match bytes {
        0x4000_0001.. => format!("{} GiB", decimals(bytes, 1 << 30)),
        0x10_0001.. => format!("{} MiB", decimals(bytes + 5243, 1 << 20)),
        0x401.. => format!("{} KiB", decimals(bytes + 5, 1 << 10)),
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
        assert_eq!((readable(1505).as_str(), readable(1499).as_str()), ("1.47 KiB", "1.46 KiB"));
        assert_eq!((readable(1536).as_str(), readable(3 << 30).as_str()), ("1.50 KiB", "3.00 GiB"));
    }
}
