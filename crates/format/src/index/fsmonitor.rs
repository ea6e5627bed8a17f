//! The file system monitor's extension (FSMN): a token saying when the monitor was asked last, and a
//! bitmap of the entries it could not vouch for. In an [`Index`](super::Index) the bitmap is the flag
//! [`Flags::FSMONITOR_VALID`](super::Flags::FSMONITOR_VALID) of each entry, so that it stays true
//! whatever moves.

use bstr::{BString, ByteSlice};

use super::{
    Entry, Flags,
    bytes::Reader,
    ewah::{self, Bitmap},
};

/// What the monitor said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsmonitor {
    /// The monitor's own name of that moment.
    pub token: BString,
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

    /// Gives each entry its flag. `None`, and no flag, if the bitmap speaks of entries that are not there.
    pub(super) fn settle(self, entries: &mut [Entry]) -> Option<Fsmonitor> {
        let mut dirty = Vec::new();
        self.dirty.for_each(entries.len(), |position| dirty.push(position)).ok()?;
        entries.iter_mut().for_each(|entry| entry.flags.insert(Flags::FSMONITOR_VALID));
        dirty.into_iter().for_each(|position| entries[position].flags.remove(Flags::FSMONITOR_VALID));
        Some(Fsmonitor { token: self.token })
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
