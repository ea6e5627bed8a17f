//! Local time as the C library computes it: by `TZ`, else `/etc/localtime`, else UTC.

/// Converts to the type of the C library, which is narrower than 64 bits on some systems; 0 if the
/// time is out of its range.
fn seconds<T: TryFrom<i64> + Default>(time: i64) -> T {
    T::try_from(time).unwrap_or_default()
}

/// Returns the offset of local time from UTC in seconds at `time` (seconds since 1970), or 0 if it
/// is unknown. The offset is positive east of UTC.
pub fn utc_offset(time: i64) -> i64 {
    let time = seconds(time);
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

/// A moment in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// Year since 1900, month from 0, day, hour, minute, second.
    pub fields: [i32; 6],
    /// Days since Sunday.
    pub weekday: i32,
    /// Standard or daylight saving time.
    pub clocks: Clocks,
}

/// Standard time or daylight saving time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// The one in effect on the date.
    OfDate,
    /// Standard time.
    Standard,
    /// Daylight saving time.
    Daylight,
}

/// Returns the local time at `time` (seconds since 1970). If it is unknown, all fields are 0.
pub fn local_fields(time: i64) -> LocalTime {
    let time = seconds(time);
    // SAFETY: a `tm` consists of numbers and of a pointer that may be null.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are valid for the call, and the call writes nothing else.
    unsafe { libc::localtime_r(&raw const time, &raw mut local) };
    LocalTime {
        fields: [local.tm_year, local.tm_mon, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec],
        weekday: local.tm_wday,
        clocks: if local.tm_isdst > 0 { Clocks::Daylight } else { Clocks::Standard },
    }
}

/// Returns the time (seconds since 1970) of these fields in the local time that `clocks` selects.
/// The fields follow C's `struct tm` from the year down: years since 1900, months from 0.
/// Out-of-range fields carry over. Returns -1 if the time does not exist.
pub fn local_time([year, month, day, hour, minute, second]: [i32; 6], clocks: Clocks) -> i64 {
    // SAFETY: a `tm` consists of numbers and of a pointer that may be null.
    let mut fields: libc::tm = unsafe { std::mem::zeroed() };
    (fields.tm_year, fields.tm_mon, fields.tm_mday) = (year, month, day);
    (fields.tm_hour, fields.tm_min, fields.tm_sec) = (hour, minute, second);
    fields.tm_isdst = match clocks {
        Clocks::OfDate => -1,
        Clocks::Standard => 0,
        Clocks::Daylight => 1,
    };
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
        let shown = local_time([123, 10, 14, 22, 13, 20], Clocks::OfDate);
        assert_eq!(shown + utc_offset(shown), 1_700_000_000);
        let LocalTime { fields, weekday, clocks } = local_fields(shown);
        assert_eq!((fields, weekday), ([123, 10, 14, 22, 13, 20], 2));
        assert_eq!(local_time(fields, clocks), shown);
    }
}
