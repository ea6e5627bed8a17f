//! Locks of killed processes, and the records by which others remove them: see [`store::claims`].

use std::path::Path;

use engine::workspace::record;

use crate::{events::Events, notice::Notice};

/// Makes this process record each lock from now on, so that [`recover`] in a later process removes
/// its locks if this one is killed. `common` is the common directory. The records are those of the
/// process: the first call decides where they are.
pub fn claim(common: &Path) {
    store::claims::begin(record::claims(common));
}

/// Removes the locks that killed commands on worktrees and workspaces have left. `common` is the
/// common directory.
pub fn recover(common: &Path, events: &dyn Events) {
    let directory = record::claims(common);
    match store::claims::recover(&directory, common) {
        Ok(removed) => removed.into_iter().for_each(|lock| events.notice(Notice::LockRemoved(lock))),
        Err(error) => {
            let reason = sys::reason(&error).to_string();
            events.notice(Notice::LocksStay(directory, reason));
        }
    }
}
