//! Locks of killed commands: see [`store::claims`].

use std::path::Path;

use engine::workspace::record;

use crate::term::console;

/// Removes the locks that killed commands of worktrees and workspaces have left, and makes the
/// locks of this command removable in the same way. `common` is the common directory.
pub(crate) fn recover_locks(common: &Path) {
    let directory = record::claims(common);
    match store::claims::recover(&directory, common) {
        Ok(removed) => removed.iter().for_each(|lock| {
            console::eprint_line(format!("Removed '{}', the lock of a killed command", lock.display()));
        }),
        Err(error) => {
            let (place, reason) = (directory.display(), sys::reason(&error));
            console::warning(format!("cannot remove the locks of killed commands in '{place}': {reason}"));
        }
    }
    store::claims::begin(directory);
}
