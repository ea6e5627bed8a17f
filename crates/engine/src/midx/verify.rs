//! Verifies a multi-pack-index against the indexes of its packs, with Git's messages.

use std::{
    collections::HashMap,
    io::{Read as _, Seek as _, SeekFrom},
    sync::atomic::{AtomicBool, Ordering},
};

use format::{ObjectId, idx::Idx, midx::Midx, pack};
use sys::{Map, by_path};

use super::{Error, PackDir};

/// The result of the verification.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Lines for standard error.
    pub lines: Vec<String>,
    /// The fatal error that ended the verification.
    pub fatal: Option<Error>,
    /// True if a pack or its index is unusable. Git prints its own messages about that.
    pub unusable_pack: bool,
}

/// The steps of the verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Checking that packs exist.
    Packs,
    /// Checking the order of names.
    Order,
    /// Sorting objects by pack.
    Sort,
    /// Checking offsets.
    Offsets,
}

/// Verifies `midx`. `show` gets the step, the number of finished items, and the total. Once
/// `interrupt` is set, the verification ends early.
pub fn verify(
    pack_dir: &PackDir,
    midx: &Midx<Map>,
    interrupt: &AtomicBool,
    show: &mut dyn FnMut(Step, usize, usize),
) -> Verdict {
    let mut verdict = Verdict::default();
    if !midx.has_valid_checksum() {
        verdict.lines.push("incorrect checksum".to_owned());
    }
    let names: Vec<&[u8]> = midx.pack_names().collect();
    let mut is_there = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        is_there.push(name.ends_with(b".idx") && pack_dir.modified(name).is_some());
        if !is_there[number] {
            verdict.lines.push(format!("failed to load pack in position {number}"));
        }
        show(Step::Packs, number + 1, names.len());
    }
    if midx.count() == 0 {
        verdict.lines.push("the midx contains no oid".to_owned());
        return verdict;
    }
    let total = midx.count() as usize;
    for n in 0..midx.count() - 1 {
        let (one, two) = (midx.name_bytes(n), midx.name_bytes(n + 1));
        if one >= two {
            let (one, two) = (midx.name(n), midx.name(n + 1));
            let next = n + 1;
            verdict.lines.push(format!("oid lookup out of order: oid[{n}] = {one} >= {two} = oid[{next}]"));
        }
        if n.is_multiple_of(INTERVAL) {
            show(Step::Order, n as usize + 1, total - 1);
        }
    }
    show(Step::Order, total - 1, total - 1);
    let mut by_pack: Vec<(u32, u32)> = (0..midx.count()).map(|n| (midx.pack_of(n), n)).collect();
    // Git starts with the highest pack number.
    by_pack.sort_by_key(|&(pack, _)| std::cmp::Reverse(pack));
    show(Step::Sort, total, total);
    let mut show = |step, done, total| {
        show(step, done, total);
        !interrupt.load(Ordering::Relaxed)
    };
    offsets(pack_dir, midx, &by_pack, &is_there, &mut verdict, &mut show);
    verdict
}

/// The number of objects between two progress reports, which also check for an interrupt.
const INTERVAL: u32 = 1 << 12;

/// Checks the offsets. Stops when `show` returns false.
fn offsets(
    pack_dir: &PackDir,
    midx: &Midx<Map>,
    by_pack: &[(u32, u32)],
    is_there: &[bool],
    verdict: &mut Verdict,
    show: &mut dyn FnMut(Step, usize, usize) -> bool,
) {
    let names: Vec<&[u8]> = midx.pack_names().collect();
    let mut indexes: HashMap<u32, Option<Idx<Map>>> = HashMap::new();
    for (done, &(_, n)) in by_pack.iter().enumerate() {
        let oid = midx.name(n);
        // If names are out of order, the lookup finds another object or none.
        let Some(at) = midx.find(&oid) else {
            verdict.lines.push(format!("failed to load pack entry for oid[{n}] = {oid}"));
            continue;
        };
        let pack = midx.pack_of(at);
        let Some(&is_there) = is_there.get(pack as usize) else {
            verdict.fatal = Some(Error::PackNumber { pack, packs: names.len() });
            return;
        };
        if !is_there {
            verdict.lines.push(format!("failed to load pack entry for oid[{n}] = {oid}"));
            continue;
        }
        indexes.retain(|&other, _| other == pack);
        let index = indexes.entry(pack).or_insert_with(|| usable(pack_dir, names[pack as usize]));
        let Some(index) = index else {
            verdict.unusable_pack = true;
            return;
        };
        let Some(offset) = midx.offset(at) else {
            verdict.fatal = Some(Error::LargeOffset);
            return;
        };
        let Ok(found) = in_index(pack_dir, index, names[pack as usize], &oid) else {
            verdict.unusable_pack = true;
            return;
        };
        if offset != found {
            verdict
                .lines
                .push(format!("incorrect object offset for oid[{n}] = {oid}: {offset:x} != {found:x}"));
        }
        if (done as u32).is_multiple_of(INTERVAL) && !show(Step::Offsets, done + 1, by_pack.len()) {
            return;
        }
    }
    show(Step::Offsets, by_pack.len(), by_pack.len());
}

/// Returns the offset of an object in its pack's index, or 0 if the index does not contain it.
fn in_index(pack_dir: &PackDir, index: &Idx<Map>, name: &[u8], oid: &ObjectId) -> Result<u64, Error> {
    match index.find(oid) {
        None => Ok(0),
        Some(at) => index.offset(at).ok_or_else(|| Error::PackOffset(pack_dir.display_path(name))),
    }
}

/// Opens the index of a pack. Returns `None` if it does not match the pack.
fn usable(pack_dir: &PackDir, name: &[u8]) -> Option<Idx<Map>> {
    let index = pack_dir.open_index(name).ok()?;
    let mut file = by_path::open(&super::sibling(&pack_dir.path, name, "pack")).ok()?;
    let mut header = [0; pack::HEADER_LEN];
    file.read_exact(&mut header).ok()?;
    let mut trailer = vec![0; pack_dir.hash.len()];
    file.seek(SeekFrom::End(-(trailer.len() as i64))).ok()?;
    file.read_exact(&mut trailer).ok()?;
    let fits = pack::parse_header(&header).ok()? == index.count() && trailer == index.pack_checksum();
    fits.then_some(index)
}
