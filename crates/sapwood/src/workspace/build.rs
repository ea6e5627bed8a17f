//! Building bases, with progress and messages.

use std::sync::atomic::{AtomicBool, Ordering};

use engine::workspace::{
    backend::Backend,
    base::{self, AddOptions, Kind, Persist},
};
use format::ObjectId;
use repo::convert::Metadata;

use crate::{Error, Events, Notice, settings::Settings};

/// Returns the kind of base that the backend uses.
pub fn kind_of(backend: Backend) -> Kind {
    if backend == Backend::Image { Kind::Image } else { Kind::Directory }
}

/// Builds the base of a commit by `add`, with progress and messages. `progress` is passed to
/// [`Events::adding_base`].
pub fn build_base<T>(
    (events, interrupt): (&dyn Events, &AtomicBool),
    settings: &Settings,
    commit: ObjectId,
    progress: Option<bool>,
    persist: Persist,
    add: impl FnOnce(&AddOptions<'_>, &mut Vec<String>) -> Result<T, base::Error>,
) -> Result<T, Error> {
    let counter = events.adding_base(progress);
    let count = |done, total| counter.iter().for_each(|counter| counter.update(done, total));
    let options = AddOptions {
        workers: settings.workers,
        interrupt,
        progress: &count,
        big_file_threshold: settings.big_file_threshold,
        metadata: Metadata { reference: None, treeish: Some(commit) },
        fsync: &settings.fsync,
        shared: settings.locks.shared,
        persist,
    };
    let mut messages = Vec::new();
    let added = add(&options, &mut messages);
    drop(counter);
    messages.into_iter().for_each(|message| events.notice(Notice::Base(message)));
    if interrupt.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(added?)
}
