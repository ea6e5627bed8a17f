//! The file system monitor's extension (FSMN): a token saying when the monitor was asked last, and a
//! bitmap of the entries it could not vouch for. In an [`Index`] the bitmap is the flag
//! [`Flags::FSMONITOR_VALID`](super::Flags::FSMONITOR_VALID) of each entry, so that it stays true
//! whatever moves.

use bstr::{BString, ByteSlice};

use super::{
    Entry, Flags, Index,
    bytes::Reader,
    ewah::{self, Bitmap},
};

/// What the monitor said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsmonitor {
    /// The monitor's own name of that moment.
    pub token: BString,
    /// In memory: whether that moment is in this run.
    pub answer: MonitorAnswer,
}

/// What the monitor has said since the index was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MonitorAnswer {
    /// It was not asked. [`Flags::FSMONITOR_VALID`] is kept, but tells nothing.
    #[default]
    NotAsked,
    /// It named all that changed since it was asked before: what is marked is as it was, and so is every directory
    /// that the untracked cache calls valid.
    Changes,
    /// It cannot tell what changed: nothing is marked but what was looked at since, and directories have to be looked at.
    Everything,
}

/// The extension before its bitmap was given to the entries (a split index has them only later).
#[derive(Debug)]
pub(super) struct Pending {
    token: BString,
    dirty: Bitmap,
}

impl Pending {
    /// `None` if malformed: all entries are then compared again, as without a monitor.
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

    /// The entries for which the monitor does not vouch, of so many. `None` if the bitmap speaks of others, too.
    pub(super) fn dirty(&self, entries: usize) -> Option<Vec<usize>> {
        let mut dirty = Vec::new();
        self.dirty.for_each(entries, |position| dirty.push(position)).ok()?;
        Some(dirty)
    }

    pub(super) fn into_fsmonitor(self) -> Fsmonitor {
        Fsmonitor { token: self.token, answer: MonitorAnswer::NotAsked }
    }

    /// Gives each entry its flag. `None`, and no flag, if the bitmap speaks of entries that are not there.
    pub(super) fn settle(self, entries: &mut [Entry]) -> Option<Fsmonitor> {
        let dirty = self.dirty(entries.len())?;
        // What happens inside of a submodule is not told of its entry.
        let watched = entries.iter_mut().filter(|entry| !entry.mode.is_gitlink());
        watched.for_each(|entry| entry.flags.insert(Flags::FSMONITOR_VALID));
        dirty.into_iter().for_each(|position| entries[position].flags.remove(Flags::FSMONITOR_VALID));
        Some(self.into_fsmonitor())
    }
}

impl Index {
    /// What the monitor has said in this run.
    pub fn monitor_answer(&self) -> MonitorAnswer {
        self.fsmonitor.as_ref().map_or(MonitorAnswer::NotAsked, |monitor| monitor.answer)
    }

    /// Whether the monitor vouches for the entry: its file is as it was when it was last found to be the entry's. That may be
    /// believed where a file is shown or left as it is, never where one is overwritten or removed.
    pub fn is_fsmonitor_valid(&self, entry: &Entry) -> bool {
        self.monitor_answer() != MonitorAnswer::NotAsked && entry.flags.contains(Flags::FSMONITOR_VALID)
    }

    /// The same of the entry at `at`.
    #[inline]
    pub fn is_fsmonitor_valid_at(&self, at: usize) -> bool {
        self.monitor_answer() != MonitorAnswer::NotAsked && self.table.is_fsmonitor_valid(at)
    }

    /// From here on the monitor vouches for the entry at `at`, whose file was looked at after the monitor was asked, and is the
    /// entry's. Whether that is news; never if it was not asked, nor of a submodule.
    pub fn set_fsmonitor_valid(&mut self, at: usize) -> bool {
        let is_new = self.monitor_answer() != MonitorAnswer::NotAsked
            && !self.mode_at(at).is_gitlink()
            && !self.table.is_fsmonitor_valid(at);
        if is_new {
            self.table.set_fsmonitor_valid(at, true);
        }
        is_new
    }

    /// The monitor does not vouch for the entry at `at` any more. Whether that is news.
    pub fn clear_fsmonitor_valid(&mut self, at: usize) -> bool {
        let is_new = self.table.is_fsmonitor_valid(at);
        if is_new {
            self.table.set_fsmonitor_valid(at, false);
        }
        is_new
    }
}

impl Fsmonitor {
    /// Appends the payload of the extension, version 2.
    pub(super) fn write(&self, entries: &[Entry], out: &mut Vec<u8>) {
        out.extend_from_slice(&2u32.to_be_bytes());
        out.extend_from_slice(self.token.as_bytes());
        out.push(0);
        let mut bitmap = Vec::new();
        let dirty =
            entries.iter().enumerate().filter(|(_, entry)| !entry.flags.contains(Flags::FSMONITOR_VALID));
        ewah::write(&mut bitmap, dirty.map(|(position, _)| position));
        out.extend_from_slice(&(bitmap.len() as u32).to_be_bytes());
        out.extend_from_slice(&bitmap);
    }
}
