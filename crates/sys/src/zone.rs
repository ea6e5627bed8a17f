//! Local time, as the C library has it, and so every program: by `TZ`, else `/etc/localtime`, else UTC.

/// How many seconds a clock on the wall is ahead of UTC at `time` (seconds since 1970); 0 where that cannot be told.
pub fn utc_offset(time: i64) -> i64 {
    // It is narrower on some systems.
    #[allow(clippy::useless_conversion)]
    let time = libc::time_t::try_from(time).unwrap_or_default();
    let mut local = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call, which writes nothing else.
    let done = unsafe { libc::localtime_r(&raw const time, local.as_mut_ptr()) };
    match done.is_null() {
        true => 0,
        // SAFETY: it says that it filled it in.
        #[allow(clippy::useless_conversion)]
        false => i64::from(unsafe { local.assume_init() }.tm_gmtoff),
    }
}

/// The moment (seconds since 1970) at which the clock on the wall shows these fields, in the order of C's `struct tm` from
/// the year down: years from 1900, months from 0. Fields out of range are carried; -1 where there is no such moment.
pub fn local_time([year, month, day, hour, minute, second]: [i32; 6]) -> i64 {
    // SAFETY: a `tm` is numbers and a pointer that may be null.
    let mut fields: libc::tm = unsafe { std::mem::zeroed() };
    (fields.tm_year, fields.tm_mon, fields.tm_mday) = (year, month, day);
    (fields.tm_hour, fields.tm_min, fields.tm_sec) = (hour, minute, second);
    // Daylight saving time is for the zone to say.
    fields.tm_isdst = -1;
    // It is narrower on some systems.
    #[allow(clippy::useless_conversion)]
    // SAFETY: the pointer is valid for the call, which writes nothing else.
    i64::from(unsafe { libc::mktime(&raw mut fields) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_a_day_away() {
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
