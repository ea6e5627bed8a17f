//! Progress of bases that are built.

use crate::term::progress;

/// Returns true if progress is shown, with the option `--[no-]progress` and with `--quiet`.
pub(crate) fn shows(option: Option<bool>, quiet: bool) -> bool {
    option.unwrap_or_else(progress::has_terminal) && !quiet
}
