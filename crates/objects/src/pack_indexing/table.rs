//! The table of a pack's entries.

use format::{HashKind, Kind, ObjectId, idx_writer::Members};

/// The storage form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole(Kind),
    /// A delta. Its base is given by the offset of an entry or by an object name.
    Delta,
}

/// One entry: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) offset: u64,
    /// The inflated size: that of the object or of the delta, in bytes.
    pub(super) size: u64,
    pub(super) crc: u32,
    /// The length of its header.
    pub(super) header: u8,
    pub(super) form: Form,
}

/// A delta whose base is given by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedBase {
    pub(super) base: ObjectId,
    pub(super) child: u32,
}

/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// The entries of a pack in the order of their offsets.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) hash: HashKind,
    pub(super) entries: Vec<Entry>,
    /// The offset at which the last entry ends.
    pub(super) end: u64,
    /// The concatenated names. Those of deltas are zeros until they are resolved.
    pub(super) names: Vec<u8>,
    /// For each entry, the number of its base if that is given by offset; otherwise [`NONE`].
    pub(super) bases: Vec<u32>,
    pub(super) by_name: Vec<NamedBase>,
    /// Entries that were not kept in memory, so they were not compared with existing objects yet.
    pub(super) large: Vec<u32>,
    /// Deltas that were applied and hashed in the first pass, in order.
    pub(super) early: Vec<u32>,
    /// Their concatenated names.
    pub(super) early_names: Vec<u8>,
}

impl Table {
    pub(super) fn new(hash: HashKind) -> Table {
        Table {
            hash,
            entries: Vec::new(),
            end: 0,
            names: Vec::new(),
            bases: Vec::new(),
            by_name: Vec::new(),
            large: Vec::new(),
            early: Vec::new(),
            early_names: Vec::new(),
        }
    }

    /// Returns the number of entries.
    pub(super) fn count(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn entry(&self, index: u32) -> &Entry {
        &self.entries[index as usize]
    }

    /// Returns the number of the entry that begins at `offset`.
    pub(super) fn at(&self, offset: u64) -> Option<u32> {
        self.entries.binary_search_by_key(&offset, |entry| entry.offset).ok().map(|index| index as u32)
    }

    /// Returns the range of the compressed bytes of an entry.
    pub(super) fn compressed(&self, index: u32) -> std::ops::Range<usize> {
        let entry = self.entry(index);
        let next = self.entries.get(index as usize + 1);
        let start = entry.offset + u64::from(entry.header);
        start as usize..next.map_or(self.end, |next| next.offset) as usize
    }

    /// Returns the name of a delta that was hashed in the first pass.
    pub(super) fn early(&self, index: u32) -> Option<ObjectId> {
        let at = self.early.binary_search(&index).ok()?;
        ObjectId::from_bytes(self.hash, name_in(&self.early_names, self.hash, at as u32))
    }

    pub(super) fn name(&self, index: u32) -> ObjectId {
        ObjectId::from_bytes(self.hash, name_in(&self.names, self.hash, index)).expect("as long as the hash")
    }
}

/// Returns the raw name of an entry in a list of names.
pub(super) fn name_in(names: &[u8], hash: HashKind, index: u32) -> &[u8] {
    &names[index as usize * hash.len()..][..hash.len()]
}

/// Stores a name in a list of names, which grows as needed.
pub(super) fn store_name(names: &mut Vec<u8>, index: u32, name: &ObjectId) {
    let raw = name.as_bytes();
    let at = index as usize * raw.len();
    if names.len() < at + raw.len() {
        names.resize(at + raw.len(), 0);
    }
    names[at..at + raw.len()].copy_from_slice(raw);
}

/// The objects of a resolved pack, sorted by name.
#[derive(Debug)]
pub struct Indexed {
    pub(super) table: Table,
    order: Vec<u32>,
}

impl Indexed {
    pub(super) fn new(table: Table) -> Indexed {
        let mut order: Vec<u32> = (0..table.count()).collect();
        // The first eight bytes nearly always decide the order. They are stored together for cache
        // locality.
        let (names, len) = (&table.names, table.hash.len());
        let raw = |index: u32| &names[index as usize * len..][..len];
        let start = |index: u32| u64::from_be_bytes(raw(index)[..8].try_into().expect("eight bytes"));
        let mut keyed: Vec<(u64, u32)> = order.iter().map(|&index| (start(index), index)).collect();
        keyed.sort_unstable_by(|one, other| {
            let by_start = one.0.cmp(&other.0);
            by_start.then_with(|| raw(one.1).cmp(raw(other.1))).then(one.1.cmp(&other.1))
        });
        order.iter_mut().zip(keyed).for_each(|(place, (_, index))| *place = index);
        Indexed { table, order }
    }

    /// Returns the first name that occurs twice.
    pub fn duplicate(&self) -> Option<ObjectId> {
        let same = |pair: &&[u32]| self.table.name(pair[0]) == self.table.name(pair[1]);
        self.order.windows(2).find(same).map(|pair| self.table.name(pair[0]))
    }
}

impl Members for Indexed {
    fn count(&self) -> u32 {
        self.table.count()
    }

    fn name(&self, n: u32) -> &[u8] {
        name_in(&self.table.names, self.table.hash, self.order[n as usize])
    }

    fn offset(&self, n: u32) -> u64 {
        self.table.entry(self.order[n as usize]).offset
    }

    fn crc32(&self, n: u32) -> u32 {
        self.table.entry(self.order[n as usize]).crc
    }
}
