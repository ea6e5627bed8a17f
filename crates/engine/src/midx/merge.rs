//! Merges the objects of several packs, sorted by name and without duplicates.
//!
//! Names are merged in 256 buckets by their first byte, on all cores. A row consists of a source's
//! index and a position in that source. Names and offsets stay in the memory-mapped indexes.

use std::{
    cmp::Reverse,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, ByteSlice as _};
use format::{idx::Idx, midx::Midx};
use store::midx::Objects;
use sys::Map;

use super::{Error, Packs};
use crate::crew::parallel;

/// Fewer objects than this are merged on the calling thread.
const FEW: u64 = 20_000;

/// The pack number of a dropped pack.
const DROPPED: u32 = u32::MAX;

/// The objects of a new multi-pack-index.
#[derive(Debug)]
pub struct Merged {
    packs: Packs,
    rows: Vec<Row>,
    /// For each pack in `packs`, its number in the new file.
    numbers: Vec<u32>,
    /// For each pack in the new file, its index in `packs`.
    order: Vec<usize>,
}

/// The rows of [`Merged`] with the lists that they refer to.
#[derive(Debug)]
pub struct Content<'m> {
    merged: &'m Merged,
    sources: Vec<Source<'m>>,
}

/// A sorted list of objects: a pack index, or the old multi-pack-index.
#[derive(Clone, Copy, Debug)]
enum Source<'p> {
    Pack(usize, &'p Idx<Map>),
    Old(&'p Midx<Map>),
}

/// An object of a source.
#[derive(Clone, Copy, Debug)]
struct Row {
    source: u32,
    at: u32,
}

/// A row that is being sorted, with the first bytes of its name.
#[derive(Clone, Copy)]
struct Candidate {
    prefix: u64,
    row: Row,
}

impl Source<'_> {
    fn name(&self, at: u32) -> &[u8] {
        match self {
            Source::Pack(_, index) => index.name_bytes(at),
            Source::Old(midx) => midx.name_bytes(at),
        }
    }

    /// Returns the index in `packs` of an object's pack, and the object's offset.
    fn pack_and_offset(&self, at: u32, packs: &Packs) -> Result<(usize, u64), Error> {
        match self {
            Source::Pack(number, index) => {
                let path = || packs.pack_dir.display_path(&packs.all[*number].name).with_extension("pack");
                let offset = index.offset(at).ok_or_else(|| Error::PackOffset(path()))?;
                Ok((*number, offset))
            }
            Source::Old(midx) => {
                let (pack, packs) = (midx.pack_of(at), midx.pack_names().len());
                if pack as usize >= packs {
                    return Err(Error::PackNumber { pack, packs });
                }
                Ok((pack as usize, midx.offset(at).ok_or(Error::LargeOffset)?))
            }
        }
    }
}

impl Merged {
    /// Merges the objects of `packs`. Packs named `dropped` are not in the new file, and no object
    /// may need them ([`Merged::needed_but_dropped`]). Returns [`Error::Interrupted`] once
    /// `interrupt` is set.
    pub fn new(packs: Packs, dropped: &[&BStr], interrupt: &AtomicBool) -> Result<Merged, Error> {
        let rows = rows(&packs, interrupt)?;
        let mut order: Vec<usize> = (0..packs.all.len()).collect();
        order.retain(|&number| !dropped.contains(&packs.all[number].name.as_bstr()));
        order.sort_by(|&one, &two| packs.all[one].name.cmp(&packs.all[two].name));
        let mut numbers = vec![DROPPED; packs.all.len()];
        order.iter().enumerate().for_each(|(new, &number)| numbers[number] = new as u32);
        Ok(Merged { packs, rows, numbers, order })
    }

    /// Returns the names of the packs' index files, sorted.
    pub fn pack_names(&self) -> Vec<&[u8]> {
        self.order.iter().map(|&number| self.packs.all[number].name.as_slice()).collect()
    }

    /// Returns the objects.
    pub fn content(&self) -> Content<'_> {
        Content { merged: self, sources: sources(&self.packs) }
    }

    /// Returns the path of a dropped pack that contains an object without another copy.
    pub fn needed_but_dropped(&self) -> Option<PathBuf> {
        let content = self.content();
        let lost = (0..content.count()).find(|&n| content.place(n).0 == DROPPED)?;
        let (number, _) = content.pack_and_offset(lost)?;
        Some(self.packs.pack_dir.display_path(&self.packs.all[number].name))
    }
}

/// Merges the objects of `packs`.
fn rows(packs: &Packs, interrupt: &AtomicBool) -> Result<Vec<Row>, Error> {
    let sources = sources(packs);
    let total: u64 = sources.iter().map(|source| u64::from(count(source))).sum();
    let threads = if total < FEW { 1 } else { sys::cores().max(1) };
    let buckets: Vec<u8> = (0..=u8::MAX).collect();
    let merge = |(): &mut (), &byte: &u8| {
        if interrupt.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            bucket(packs, &sources, byte)
        }
    };
    Ok(parallel::map(&buckets, &mut vec![(); threads], merge)?.concat())
}

fn count(source: &Source<'_>) -> u32 {
    match source {
        Source::Pack(_, index) => index.count(),
        Source::Old(midx) => midx.count(),
    }
}

/// Returns the sources in order of precedence: the first source with an object provides it.
fn sources(packs: &Packs) -> Vec<Source<'_>> {
    let of_old = packs.old().map_or(0, |old| old.pack_names().len());
    let is_read = |number: usize| number >= of_old || packs.preferred == Some(number);
    let read = packs.all.iter().enumerate().filter(|(number, _)| is_read(*number));
    let mut ranked: Vec<_> = read
        .filter_map(|(number, pack)| {
            let rank = (packs.preferred != Some(number), Reverse(pack.mtime), number);
            Some((rank, Source::Pack(number, pack.index.as_ref()?)))
        })
        .collect();
    ranked.extend(packs.old().map(|old| ((true, Reverse(0), 0), Source::Old(old))));
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, source)| source).collect()
}

/// Merges the objects whose names begin with `byte`.
fn bucket(packs: &Packs, sources: &[Source<'_>], byte: u8) -> Result<Vec<Row>, Error> {
    let mut candidates = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let range = match source {
            Source::Pack(_, index) => index.bucket(byte),
            Source::Old(midx) => midx.bucket(byte),
        };
        candidates.reserve(range.len());
        for at in range {
            // Checks each row here, so that `pack_and_offset` cannot fail later.
            let (pack, _) = source.pack_and_offset(at, packs)?;
            if matches!(source, Source::Old(_)) && packs.preferred == Some(pack) {
                continue;
            }
            let prefix = source.name(at)[1..9].try_into().expect("names are longer");
            let row = Row { source: number as u32, at };
            candidates.push(Candidate { prefix: u64::from_be_bytes(prefix), row });
        }
    }
    let name = |row: Row| sources[row.source as usize].name(row.at);
    // The sort is stable, so the first source wins. It exploits that each source is already sorted.
    candidates.sort_by(|one, two| one.prefix.cmp(&two.prefix).then_with(|| name(one.row).cmp(name(two.row))));
    let mut rows: Vec<Row> = Vec::with_capacity(candidates.len());
    let mut last: Option<Candidate> = None;
    for candidate in candidates {
        let is_copy =
            last.is_some_and(|last| last.prefix == candidate.prefix && name(last.row) == name(candidate.row));
        if !is_copy {
            rows.push(candidate.row);
            last = Some(candidate);
        }
    }
    Ok(rows)
}

impl Content<'_> {
    /// Returns the index in `packs` of an object's pack, and the object's offset.
    fn pack_and_offset(&self, n: usize) -> Option<(usize, u64)> {
        let row = self.merged.rows[n];
        self.sources[row.source as usize].pack_and_offset(row.at, &self.merged.packs).ok()
    }
}

impl Objects for Content<'_> {
    fn count(&self) -> usize {
        self.merged.rows.len()
    }

    fn name(&self, n: usize) -> &[u8] {
        let row = self.merged.rows[n];
        self.sources[row.source as usize].name(row.at)
    }

    fn place(&self, n: usize) -> (u32, u64) {
        let (pack, offset) = self.pack_and_offset(n).expect("the place of each row was looked at");
        (self.merged.numbers[pack], offset)
    }
}
