//! The index as a whole, and writing it.
//!
//! Order, which is also that of the messages: split index, untracked cache, file system monitor;
//! then the file, if anything was changed.

use std::time::SystemTime;

use bstr::ByteSlice as _;
use engine::untracked::cache::{self, CacheSetting};
use format::index::{Fsmonitor, MonitorAnswer, Version};
use repo::{Repository, keys};
use sapwood::index::{Flags, Index};

use super::{probe, update::Update};
use crate::{
    session::{
        hooks::Changed,
        index::{Collapse, Recorded},
        monitor::{self, Monitor},
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The change of the untracked cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    On,
    Off,
    /// Only test if the file system supports it.
    Tested,
}

/// The changes of the index as a whole.
pub(super) struct WholeIndex {
    /// The version to write, -1 to print the version, 0 for neither.
    pub(super) version: i64,
    pub(super) split: Option<bool>,
    pub(super) untracked: Option<Cache>,
    pub(super) fsmonitor: Option<bool>,
    pub(super) force_write: bool,
    /// Data outside the extensions changed: Git then writes a split index whole, too.
    pub(super) something_changed: bool,
    /// The index is or becomes split.
    is_split: bool,
    /// The index gets a new shared index.
    shares_anew: bool,
}

impl WholeIndex {
    /// Stores an option about the untracked cache: `wanted`, or off.
    pub(super) fn set_cache(&mut self, on: bool, wanted: Cache) {
        self.untracked = Some(if on { wanted } else { Cache::Off });
    }

    /// Returns the configured state for an index that was just read.
    pub(super) fn of(repo: &Repository, index: &Index) -> Result<WholeIndex, Failure> {
        let wanted = repo.config(&keys::core::SPLIT_INDEX).ok().flatten();
        let is_split = wanted.unwrap_or(index.base.is_some());
        Ok(WholeIndex {
            version: 0,
            split: None,
            untracked: None,
            fsmonitor: None,
            force_write: false,
            something_changed: wanted == Some(false) && index.base.is_some(),
            is_split,
            shares_anew: wanted == Some(true) && index.base.is_none(),
        })
    }

    pub(super) fn is_changed(&self) -> bool {
        self.something_changed || self.shares_anew
    }
}

impl Update<'_> {
    /// Sets or prints the version, as requested.
    pub(super) fn version(&mut self) -> Result<(), Failure> {
        let index = self.staging.index();
        let was = index.version.map_or(0, |version| version as i64);
        match self.whole.version {
            0 => {}
            ..0 => console::out(was.to_string()),
            wanted => {
                let version = u32::try_from(wanted).ok().and_then(Version::from_number);
                let Some(version) = version else {
                    return Err(Failure::fatal(format!("index-version {wanted} not in range: 2..4")));
                };
                index.version = Some(version);
                if was != wanted {
                    self.whole.something_changed = true;
                    self.staging.set_changed(true);
                }
                self.report(&[format!("index-version: was {was}, set to {wanted}").as_bytes()]);
            }
        }
        Ok(())
    }

    /// Executes the remaining requests, and writes the index. Returns the exit code.
    pub(super) fn finish(mut self) -> Result<u8, Failure> {
        self.split()?;
        if self.whole.untracked == Some(Cache::Tested) {
            self.needs_worktree()?;
            let top = self.repo.work_tree().expect("there is one");
            return Ok(u8::from(!probe::directories_tell(top, self.rules)?));
        }
        self.untracked()?;
        self.monitor()?;
        let code = u8::from(self.has_errors);
        if self.staging.is_changed() || self.whole.force_write {
            self.write()?;
        }
        Ok(code)
    }

    fn split(&mut self) -> Result<(), Failure> {
        let Some(on) = self.whole.split else { return Ok(()) };
        let set = self.repo.config(&keys::core::SPLIT_INDEX).ok().flatten();
        if set == Some(!on) {
            let (is, verb) = if on { ("false", "enable") } else { ("true", "disable") };
            console::warning(format!(
                "core.splitIndex is set to {is}; remove or change it, if you really want to {verb} split index"
            ));
        }
        if on && self.transaction.state.before.is_some() {
            return Err(Failure::fatal("cannot use split index with a sparse index"));
        }
        if on {
            self.whole.shares_anew = true;
            self.staging.set_changed(true);
        } else if self.whole.is_split {
            self.whole.something_changed = true;
            self.staging.set_changed(true);
        }
        self.whole.is_split = on;
        Ok(())
    }

    fn untracked(&mut self) -> Result<(), Failure> {
        let Some(cache) = self.whole.untracked else { return Ok(()) };
        let (setting, on) = (cache::setting(self.repo)?, cache == Cache::On);
        if setting == if on { CacheSetting::Remove } else { CacheSetting::Write } {
            let (is, verb) = if on { ("false", "enable") } else { ("true", "disable") };
            console::warning(format!(
                "core.untrackedCache is set to {is}; remove or change it, if you really want to {verb} the untracked cache"
            ));
        }
        let repo = self.repo;
        let index = self.staging.index();
        let changed = if on { cache::add(repo, index) } else { index.untracked.take().is_some() };
        if changed {
            self.staging.set_changed(true);
        }
        if on {
            use std::os::unix::ffi::OsStrExt as _;
            let top = repo.work_tree().map_or(&b"(null)"[..], |top| top.as_os_str().as_bytes());
            self.report(&[b"Untracked cache enabled for '", top, b"'"]);
        } else {
            self.report(&[b"Untracked cache disabled"])
        }
        Ok(())
    }

    fn monitor(&mut self) -> Result<(), Failure> {
        let Some(on) = self.whole.fsmonitor else { return Ok(()) };
        let monitor = monitor::configured(self.repo)?;
        if let (true, Monitor::Unfit(why)) = (on, &monitor) {
            return Err(Failure::fatal(why.message(self.repo, &self.run.cwd)));
        }
        let repo = self.repo;
        if on == matches!(monitor, Monitor::None | Monitor::Unfit(_)) {
            let text = if on {
                "core.fsmonitor is unset; set it if you really want to enable fsmonitor"
            } else {
                "core.fsmonitor is set; remove it if you really want to disable fsmonitor"
            };
            console::warning(text);
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
        self.report(&[if on { b"fsmonitor enabled" } else { b"fsmonitor disabled" }]);
        Ok(())
    }

    fn write(mut self) -> Result<(), Failure> {
        if self.transaction.is_locked_out() && self.quiet {
            return Err(Failure::Reported(128));
        }
        // `is_split` includes `core.splitIndex`; without it, a test variable may request a split
        // index.
        let set = self.repo.config(&keys::core::SPLIT_INDEX).ok().flatten();
        let splits = self.whole.is_split || set.is_none() && self.settings.index_write.split == Some(true);
        let mut index = self.staging.into_index();
        if let Some(entry) = index.entries().iter().find(|entry| entry.oid.is_null()) {
            if self.transaction.is_locked_out() {
                self.transaction.finish(Recorded::Yes)?;
            }
            console::error(text!("cache entry has null sha1: ", index.path(entry).as_bytes()));
            return Err(Failure::fatal("Unable to write new index file"));
        }
        if self.whole.shares_anew {
            index.base = None;
        }
        if !self.transaction.is_locked_out() {
            self.objects.publish()?;
        }
        self.transaction.index = index;
        self.transaction.state.split = Some(splits && !self.whole.something_changed);
        if self.transaction.state.before.is_some() {
            self.transaction.state.collapse = Collapse::Kept;
        }
        self.transaction.policy.changed = Changed::IndexAlone;
        Ok(self.transaction.finish(Recorded::Yes)?)
    }
}
