//! Local time as the C library computes it: by `TZ`, else `/etc/localtime`, else UTC.

/// Returns the offset of local time from UTC in seconds at `time` (seconds since 1970), or 0 if it
/// is unknown. The offset is positive east of UTC.
pub fn utc_offset(time: i64) -> i64 {
    // `time_t` is narrower on some systems.
    #[allow(clippy::useless_conversion)]
    let time = libc::time_t::try_from(time).unwrap_or_default();
    let mut local = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call, and the call writes nothing else.
    let done = unsafe { libc::localtime_r(&raw const time, local.as_mut_ptr()) };
    match done.is_null() {
        true => 0,
        // SAFETY: a non-null result means that the call filled in the structure.
        #[allow(clippy::useless_conversion)]
        false => i64::from(unsafe { local.assume_init() }.tm_gmtoff),
    }
}

/// Returns the time (seconds since 1970) at which local clocks show these fields. The fields follow
/// C's `struct tm` from the year down: years since 1900, months from 0. Out-of-range fields carry
/// over. Returns -1 if there is no such time.
pub fn local_time([year, month, day, hour, minute, second]: [i32; 6]) -> i64 {
    // SAFETY: a `tm` consists of numbers and of a pointer that may be null.
    let mut fields: libc::tm = unsafe { std::mem::zeroed() };
    (fields.tm_year, fields.tm_mon, fields.tm_mday) = (year, month, day);
    (fields.tm_hour, fields.tm_min, fields.tm_sec) = (hour, minute, second);
    // The C library decides if daylight saving time applies.
    fields.tm_isdst = -1;
    // `time_t` is narrower on some systems.
    #[allow(clippy::useless_conversion)]
    // SAFETY: the pointer is valid for the call, and the call writes nothing else.
    i64::from(unsafe { libc::mktime(&raw mut fields) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_less_than_a_day() {
        for time in [0, 1_700_000_000, i64::from(i32::MAX)] {
            assert!(utc_offset(time).abs() < 86_400, "{time}");
        }
        assert_eq!(utc_offset(i64::MAX), 0);
    }

    #[test]
    fn local_time_is_the_offset_away() {
        let shown = local_time([123, 10, 14, 22, 13, 20]);
        assert_eq!(shown + utc_offset(shown), 1_700_000_000);
    }
}
