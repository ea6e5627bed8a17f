//! The index as a whole, and writing it.
//!
//! Order, which is also that of the notices: version, split index, untracked cache, file system
//! monitor; then the objects are published and the file is written.

use std::time::SystemTime;

use bstr::ByteSlice as _;
use engine::{
    add::Staging,
    untracked::cache::{self, CacheSetting},
};
use format::index::{Flags, Fsmonitor, Index, MonitorAnswer, Version};
use repo::{Repository, keys};
use store::objects::ObjectTransaction;

use super::Update;
use crate::{
    Context, Error, Notice,
    hooks::Changed as Told,
    monitor::{self, Monitor},
    text,
    transaction::{Collapse, IndexTransaction, Recorded},
};

/// The changes of the index as a whole. `None` changes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whole {
    /// The version of the file.
    pub version: Option<i64>,
    /// A split index.
    pub split: Option<bool>,
    /// The untracked cache.
    pub untracked: Option<bool>,
    /// The data of the file system monitor.
    pub fsmonitor: Option<bool>,
    /// Write the index even if nothing has changed.
    pub forced: bool,
}

/// The form of the file that will be written.
pub(super) struct State {
    /// Data outside the extensions changed: Git then writes a split index whole, too.
    pub(super) something_changed: bool,
    /// The index is or becomes split.
    is_split: bool,
    /// The index gets a new shared index.
    shares_anew: bool,
    /// The index is written in any case.
    is_forced: bool,
}

impl State {
    /// Returns the configured state for an index that was just read.
    pub(super) fn of(repo: &Repository, index: &Index) -> State {
        let wanted = configured_split(repo);
        State {
            something_changed: wanted == Some(false) && index.base.is_some(),
            is_split: wanted.unwrap_or(index.base.is_some()),
            shares_anew: wanted == Some(true) && index.base.is_none(),
            is_forced: false,
        }
    }

    pub(super) fn is_changed(&self) -> bool {
        self.something_changed || self.shares_anew
    }
}

fn configured_split(repo: &Repository) -> Option<bool> {
    repo.config(&keys::core::SPLIT_INDEX).ok().flatten()
}

impl<'a> Update<'a> {
    /// Changes the index as a whole.
    pub(super) fn apply_whole(&mut self, whole: &Whole) -> Result<(), Error> {
        if let Some(version) = whole.version {
            self.set_version(version)?;
        }
        self.state.is_forced = whole.forced;
        whole.split.map_or(Ok(()), |on| self.split(on))?;
        whole.untracked.map_or(Ok(()), |on| self.untracked(on))?;
        whole.fsmonitor.map_or(Ok(()), |on| self.monitor(on))
    }

    /// Returns the version of the file that was read; 0 for a new one.
    pub fn version(&mut self) -> i64 {
        self.staging.index().version.map_or(0, |version| version as i64)
    }

    /// Sets the version of the file.
    pub fn set_version(&mut self, wanted: i64) -> Result<(), Error> {
        let was = self.version();
        let version = u32::try_from(wanted).ok().and_then(Version::from_number);
        let wrong = || Error::failed(format!("index-version {wanted} not in range: 2..4"));
        self.staging.index().version = Some(version.ok_or_else(wrong)?);
        if was != wanted {
            self.state.something_changed = true;
            self.staging.set_changed(true);
        }
        Ok(())
    }

    /// Warns that a setting contradicts a change.
    fn contradicted(&self, setting: &str, on: bool, what: &str) {
        let (is, verb) = if on { ("false", "enable") } else { ("true", "disable") };
        let text =
            format!("{setting} is set to {is}; remove or change it, if you really want to {verb} {what}");
        self.context.events.notice(Notice::Contradicted(text));
    }

    /// Makes the index split, or whole.
    pub fn split(&mut self, on: bool) -> Result<(), Error> {
        if configured_split(self.context.repo) == Some(!on) {
            self.contradicted(keys::core::SPLIT_INDEX.name(), on, "split index");
        }
        if on && self.transaction.state.before.is_some() {
            return Err(Error::failed("cannot use split index with a sparse index"));
        }
        if on {
            self.state.shares_anew = true;
            self.staging.set_changed(true);
        } else if self.state.is_split {
            self.state.something_changed = true;
            self.staging.set_changed(true);
        }
        self.state.is_split = on;
        Ok(())
    }

    /// Adds the untracked cache, or removes it.
    pub fn untracked(&mut self, on: bool) -> Result<(), Error> {
        let repo = self.context.repo;
        if cache::setting(repo)? == if on { CacheSetting::Remove } else { CacheSetting::Write } {
            self.contradicted(keys::core::UNTRACKED_CACHE.name(), on, "the untracked cache");
        }
        let index = self.staging.index();
        let changed = if on { cache::add(repo, index) } else { index.untracked.take().is_some() };
        if changed {
            self.staging.set_changed(true);
        }
        Ok(())
    }

    /// Adds the data of the file system monitor, or removes it.
    pub fn monitor(&mut self, on: bool) -> Result<(), Error> {
        let Context { repo, events, .. } = self.context;
        let monitor = monitor::configured(repo)?;
        if let (true, Monitor::Unfit(why)) = (on, &monitor) {
            return Err(Error::Failed(why.message(repo, repo.cwd())));
        }
        if on == matches!(monitor, Monitor::None | Monitor::Unfit(_)) {
            let text = if on {
                "core.fsmonitor is unset; set it if you really want to enable fsmonitor"
            } else {
                "core.fsmonitor is set; remove it if you really want to disable fsmonitor"
            };
            events.notice(Notice::Contradicted(text.to_owned()));
        }
        let index = self.staging.index();
        if on && index.fsmonitor.is_none() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            index.fsmonitor =
                Some(Fsmonitor { token: now.as_nanos().to_string().into(), answer: MonitorAnswer::NotAsked });
            index.entries_mut().iter_mut().for_each(|entry| entry.flags.remove(Flags::FSMONITOR_VALID));
            if index.untracked.is_some() {
                cache::add(repo, index);
            }
            self.staging.set_changed(true);
        } else if !on && index.fsmonitor.take().is_some() {
            self.staging.set_changed(true);
        }
        Ok(())
    }

    /// Writes the index even if nothing has changed.
    pub fn force_write(&mut self) {
        self.state.is_forced = true;
    }

    /// Ends the changes.
    pub fn finish(self) -> Changed<'a> {
        let Update { transaction, staging, state, .. } = self;
        Changed { transaction, staging, state }
    }
}

/// A changed index that is not written yet.
pub struct Changed<'a> {
    transaction: IndexTransaction<'a>,
    staging: Staging,
    state: State,
}

impl Changed<'_> {
    /// Replaces the context, which may then outlive the worktree and the objects: another receiver
    /// gets the reports from now on.
    pub fn with_context<'b>(self, context: Context<'b>) -> Changed<'b> {
        let Changed { transaction, staging, state } = self;
        Changed { transaction: transaction.with_context(context), staging, state }
    }

    /// Returns true if the index has to be written.
    pub fn is_changed(&self) -> bool {
        self.staging.is_changed() || self.state.is_forced
    }

    /// Returns true if another process has locked the index, so that writing fails.
    pub fn is_locked_out(&self) -> bool {
        self.transaction.is_locked_out()
    }

    /// Publishes the objects, and writes the index.
    pub fn write(self, objects: ObjectTransaction<'_>) -> Result<(), Error> {
        let Changed { mut transaction, staging, state } = self;
        let Context { repo, settings, events, .. } = transaction.context();
        // `is_split` includes `core.splitIndex`; without it, a test variable may request a split
        // index.
        let is_unset = configured_split(repo).is_none();
        let splits = state.is_split || is_unset && settings.index_write.split == Some(true);
        let mut index = staging.into_index();
        if let Some(at) = (0..index.len()).find(|&at| index.entry(at).oid.is_null()) {
            if transaction.is_locked_out() {
                transaction.finish(Recorded::Yes)?;
            }
            let path = index.path_at(at).as_bytes();
            events.notice(Notice::NotStaged(text!("cache entry has null sha1: ", path)));
            return Err(Error::failed("Unable to write new index file"));
        }
        if state.shares_anew {
            index.base = None;
        }
        if !transaction.is_locked_out() {
            objects.publish()?;
        }
        transaction.index = index;
        transaction.state.split = Some(splits && !state.something_changed);
        if transaction.state.before.is_some() {
            transaction.state.collapse = Collapse::Kept;
        }
        transaction.policy.changed = Told::IndexAlone;
        transaction.finish(Recorded::Yes)
    }
}
