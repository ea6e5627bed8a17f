//! Building a base, aside, and publishing it under its name.

use std::sync::atomic::AtomicBool;

use super::{Base, Bases, Error, Wanted};
use crate::crew::Workers;

/// How a base is built.
pub struct AddOptions<'a> {
    /// The number of workers.
    pub workers: Workers,
    /// Set by a signal handler; checked before each file.
    pub interrupt: &'a AtomicBool,
    /// Called with (done, total) from time to time, from any thread: files of the base.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// The facts about the commit that filters get.
    pub metadata: repo::convert::Metadata,
    /// The sync policy. A base is synced unless syncing is off altogether.
    pub fsync: &'a store::Fsync,
    /// `core.sharedRepository`
    pub shared: store::SharedRepository,
}

impl Bases {
    /// Returns the base for `wanted`, if it is there and complete.
    pub fn find(&self, wanted: &Wanted<'_>) -> Result<Option<Base>, Error> {
        let _ = wanted;
        Ok(None)
    }

    /// Returns the base for `wanted`, and builds it if it is missing. One of several callers builds
    /// it, and the others wait. Messages of conversions go to `messages`.
    pub fn add(
        &self,
        wanted: &Wanted<'_>,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Base, Error> {
        let _ = (wanted, options, messages);
        Err(Error::Image("this version builds none".to_owned()))
    }
}
