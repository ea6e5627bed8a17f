//! The time of day, as traces print it.

use jiff::{Timestamp, tz::Offset};

/// Returns the time of day in the form that begins each trace line.
pub(crate) fn wall_clock() -> String {
    let now = Timestamp::now();
    let offset = i32::try_from(sys::utc_offset(now.as_second())).unwrap_or_default();
    let zone = Offset::from_seconds(offset).unwrap_or(Offset::UTC).to_time_zone();
    now.to_zoned(zone).strftime("%H:%M:%S.%6f").to_string()
}
