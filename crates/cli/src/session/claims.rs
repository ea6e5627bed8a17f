//! Locks of killed commands, with the reports printed. See [`sapwood::locks`].

use std::path::Path;

use crate::term::notice::Printer;

/// See [`sapwood::locks::recover`]. Makes the locks of this command removable in the same way.
pub(crate) fn recover_locks(common: &Path) {
    sapwood::locks::recover(common, &Printer);
    sapwood::locks::claim(common);
}
