//! Locks of killed processes: see [`store::claims`].

use std::path::Path;

use engine::workspace::record;

use crate::{events::Events, notice::Notice};

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
