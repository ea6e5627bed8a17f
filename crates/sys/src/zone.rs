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
}
