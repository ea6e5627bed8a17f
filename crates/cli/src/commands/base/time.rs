//! Lengths of time on the command line: `90s`, `5m`, `12h`, `2d`, `1w`.

use std::time::Duration;

use bstr::BStr;
use sapwood::base::time;

use crate::term::{console::text, failure::Failure};

/// Returns the length of time that an option or argument names.
pub(crate) fn parse(word: &BStr) -> Result<Duration, Failure> {
    let wrong = || Failure::fatal(text!("'", word, "' is not a length of time such as 90s, 5m, 12h or 2d"));
    time::parse(word).ok_or_else(wrong)
}
