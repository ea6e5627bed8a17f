//! Recovers the beginning of a pack whose transfer broke off.
//!
//! Order: [`scan_beginning`] finds the complete entries, [`Pack::resolve`] applies their deltas,
//! and [`Pack::cut`] keeps the longest beginning in which every delta has its base.

use format::{Kind, ObjectId};

use super::{
    Error, Options, Pack, Source,
    input::{Input, Origin},
    scan,
    table::{Form, NONE},
};

/// Reads the complete entries of a pack, up to the first that is cut off or damaged. It reads at
/// most as many entries as the header states.
pub fn scan_beginning<'a>(source: Source<'_>, options: &Options<'a>) -> Result<Pack<'a>, Error> {
    let origin = Origin {
        source: source.stream,
        is_file: source.is_file,
        limit: options.limit,
        interrupt: options.interrupt,
        meter: &options.meter.bytes,
    };
    let mut copy = |_: &[u8]| Ok(());
    let table = scan::scan_beginning(Input::new(origin, source.before, &mut copy), options)?;
    Ok(Pack::of(table, options))
}

impl Pack<'_> {
    /// Drops the first unresolved entry and all later entries. Then it drops more until no delta is
    /// left whose base was dropped: a delta against a name may precede its base.
    pub fn cut(&mut self) {
        let (mut count, mut furthest) = (0, None);
        for index in 0..self.table.count() {
            let is_whole = self.table.entry(index).form != Form::Delta;
            if !is_whole {
                if self.table.name(index).is_null() {
                    break;
                }
                furthest = furthest.max(Some(self.families.base(index)).filter(|base| *base != NONE));
            }
            if furthest.is_none_or(|base| base <= index) {
                count = index + 1;
            }
        }
        if let Some(first) = self.table.entries.get(count as usize) {
            self.table.end = first.offset;
        }
        self.table.entries.truncate(count as usize);
        self.table.names.truncate(count as usize * self.table.hash.len());
        self.table.large.retain(|index| *index < count);
        self.unresolved = 0;
    }

    /// Returns the names of the commits among the first `most` entries, deltas excepted. A server
    /// sends the commits of its refs first.
    pub fn first_commits(&self, most: usize) -> Vec<ObjectId> {
        let entries = (0..self.table.count()).take(most);
        let is_commit = |index: &u32| self.table.entry(*index).form == Form::Whole(Kind::Commit);
        entries.filter(is_commit).map(|index| self.table.name(index)).collect()
    }
}
