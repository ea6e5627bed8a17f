//! The file system monitor's extension (FSMN): a token for the time of the last query, and a bitmap
//! of the entries that may have changed. An [`Index`] holds the bitmap as the flag
//! [`Flags::FSMONITOR_VALID`](super::Flags::FSMONITOR_VALID) of each entry, so it stays correct
//! when entries move.

use bstr::{BString, ByteSlice};

use super::{
    Entry, Flags, Index,
    bytes::Reader,
    ewah::{self, Bitmap},
};

/// The last response of the monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsmonitor {
    /// The monitor's token for the time of the response.
    pub token: BString,
    /// In memory: the response to the query of this run.
    pub answer: MonitorAnswer,
}

/// The monitor's response since the index was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MonitorAnswer {
    /// The monitor was not queried. [`Flags::FSMONITOR_VALID`] is kept, but means nothing.
    #[default]
    NotAsked,
    /// The monitor listed all changes since the last query. Marked entries are unchanged, and so is
    /// every directory that the untracked cache marks as valid.
    Changes,
    /// The monitor cannot report the changes. Only entries that were checked since then are marked,
    /// and all directories must be read.
    Everything,
}

/// The extension before its bitmap is applied to the entries. A split index gets them only later.
#[derive(Debug)]
pub(super) struct Pending {
    token: BString,
    dirty: Bitmap,
}

impl Pending {
    /// Returns `None` if it is malformed. All entries are then compared again, as without a
    /// monitor.
    pub(super) fn read(data: &[u8]) -> Option<Pending> {
        let mut reader = Reader(data);
        let token = match reader.u32()? {
            1 => u64::from_be_bytes(reader.array()?).to_string().into(),
            2 => reader.string()?.to_owned(),
            _ => return None,
        };
        let size = reader.u32()?;
        let mut bitmap = Reader(reader.take(size as usize)?);
        let dirty = Bitmap::read(&mut bitmap)?;
        bitmap.0.is_empty().then_some(Pending { token, dirty })
    }

    /// Returns the entries that may have changed. Returns `None` if the bitmap refers to a position
    /// from `entries` on.
    pub(super) fn dirty(&self, entries: usize) -> Option<Vec<usize>> {
        let mut dirty = Vec::new();
        self.dirty.for_each(entries, |position| dirty.push(position)).ok()?;
        Some(dirty)
    }

    pub(super) fn into_fsmonitor(self) -> Fsmonitor {
        Fsmonitor { token: self.token, answer: MonitorAnswer::NotAsked }
    }

    /// Sets the flag of each entry. Returns `None`, and sets no flag, if the bitmap refers to
    /// entries that do not exist.
    pub(super) fn settle(self, entries: &mut [Entry]) -> Option<Fsmonitor> {
        let dirty = self.dirty(entries.len())?;
        // A change inside a submodule is not reported for its entry.
        let watched = entries.iter_mut().filter(|entry| !entry.mode.is_gitlink());
        watched.for_each(|entry| entry.flags.insert(Flags::FSMONITOR_VALID));
        dirty.into_iter().for_each(|position| entries[position].flags.remove(Flags::FSMONITOR_VALID));
        Some(self.into_fsmonitor())
    }
}

impl Index {
    /// Returns the monitor's response in this run.
    pub fn monitor_answer(&self) -> MonitorAnswer {
        self.fsmonitor.as_ref().map_or(MonitorAnswer::NotAsked, |monitor| monitor.answer)
    }

    /// Returns true if the monitor reports the entry's file as unchanged since it last matched the
    /// entry. A command may then show the file or skip it, but must never overwrite or remove it.
    pub fn is_fsmonitor_valid(&self, entry: &Entry) -> bool {
        self.monitor_answer() != MonitorAnswer::NotAsked && entry.flags.contains(Flags::FSMONITOR_VALID)
    }

    /// Like [`Index::is_fsmonitor_valid`] for the entry at `at`.
    #[inline]
    pub fn is_fsmonitor_valid_at(&self, at: usize) -> bool {
        self.monitor_answer() != MonitorAnswer::NotAsked && self.table.is_fsmonitor_valid(at)
    }

    /// Marks the entry at `at` as unchanged: its file was checked after the query of the monitor,
    /// and matches. Returns true if the mark is new. Does nothing if the monitor was not queried,
    /// or for a submodule.
    pub fn set_fsmonitor_valid(&mut self, at: usize) -> bool {
        let is_new = self.monitor_answer() != MonitorAnswer::NotAsked
            && !self.mode_at(at).is_gitlink()
            && !self.table.is_fsmonitor_valid(at);
        if is_new {
            self.table.set_fsmonitor_valid(at, true);
        }
        is_new
    }

    /// Clears the mark of the entry at `at`. Returns true if it was set.
    pub fn clear_fsmonitor_valid(&mut self, at: usize) -> bool {
        let is_new = self.table.is_fsmonitor_valid(at);
        if is_new {
            self.table.set_fsmonitor_valid(at, false);
        }
        is_new
    }
}

impl Fsmonitor {
    /// Appends the payload of the extension of `index`, version 2.
    pub(super) fn write(&self, index: &Index, out: &mut Vec<u8>) {
        let dirty = (0..index.len()).filter(|&at| !index.table.is_fsmonitor_valid(at));
        self.write_with(dirty, out);
    }

    /// Like [`Fsmonitor::write`], for the positions of the entries that may have changed.
    pub(super) fn write_with(&self, dirty: impl IntoIterator<Item = usize>, out: &mut Vec<u8>) {
        out.extend_from_slice(&2u32.to_be_bytes());
        out.extend_from_slice(self.token.as_bytes());
        out.push(0);
        let mut bitmap = Vec::new();
        ewah::write(&mut bitmap, dirty);
        out.extend_from_slice(&(bitmap.len() as u32).to_be_bytes());
        out.extend_from_slice(&bitmap);
    }
}
