//! Contents that are complete, and that the disk may not hold yet.
//!
//! A base that is needed at once is published before it is on the disk. The records of its new
//! contents go to `blobs/<generation>.pending`, with the id of the boot, and not to the index of
//! the generation. Nothing has to be synced first: the file vouches for itself. After a restart of
//! the machine its boot is another one, whatever part of it the disk got, and no record in it is
//! believed.
//!
//! - *The index of a generation names only bytes that were synced before.* Records move there by
//!   [`promote`], or with the next addition that is synced: data, then records, then the pending
//!   file goes away. So durable bases in the same generation never meet a torn content.
//! - *A base that is published as durable has synced every blob file that it names and that has
//!   pending contents* ([`sync_device`]), also those of alternates.
//! - *No byte is written twice.* After a restart new contents are appended after whatever is there.
//!   An image that was not durable may therefore name bytes of others. It is never mounted: its
//!   base is built again first.
//! - *Contents that survived are used again.* An addition hashes those that an earlier boot left
//!   pending, and keeps the intact ones ([`intact`]).
//! - `gc` promotes pending records, or removes those of an earlier boot, before it makes holes.

use std::{
    collections::HashMap,
    io::{ErrorKind, IoSlice},
    path::{Path, PathBuf},
};

use format::{HashKind, ObjectId, hash::Hasher};
use sys::{File, by_path};

use super::{
    super::boot::Boot,
    Error,
    blobs::{
        self, BLOCK, BLOCK_BITS, Content, HEADER, Record, data_file, index_file, length, push_record,
        record_len,
    },
};
use crate::crew::parallel;

const MAGIC: &[u8; 8] = b"swpend01";

/// The records of a generation that are not in its index.
pub(super) struct Pending {
    /// The boot in which the contents were written.
    pub(super) boot: Boot,
    /// Those whose bytes lie within the data file.
    pub(super) records: Vec<Record>,
}

/// Returns the path of the file for a generation.
pub(super) fn file(bases: &Path, generation: u32) -> PathBuf {
    bases.join("blobs").join(format!("{generation}.pending"))
}

/// Reads the pending records of a generation. Returns `None` if there is no file, if it is of
/// another hash, or if a crash left it without its head.
pub(super) fn read(bases: &Path, generation: u32, hash: HashKind) -> Result<Option<Pending>, Error> {
    let path = file(bases, generation);
    let read = by_path::read(&path).map_err(|source| Error::Io { action: "read", path, source })?;
    let Some(bytes) = read else { return Ok(None) };
    let parsed = || {
        let (head, rest) = bytes.split_at_checked(HEADER)?;
        let (boot, records) = rest.split_at_checked(usize::from(head[10]))?;
        let is_known = head.starts_with(MAGIC) && head[8..10] == [hash.len() as u8, BLOCK_BITS as u8];
        let boot = Boot::recorded(std::str::from_utf8(boot).ok()?.to_owned());
        is_known.then_some((boot, records))
    };
    let Some((boot, records)) = parsed() else { return Ok(None) };
    let end = length(&data_file(bases, generation))?;
    Ok(Some(Pending { boot, records: blobs::parse(records, hash, end, &|_| true) }))
}

/// Replaces the pending records of a generation.
pub(super) fn write(
    bases: &Path,
    generation: u32,
    hash: HashKind,
    boot: &Boot,
    records: &[Record],
) -> Result<(), Error> {
    let path = file(bases, generation);
    let staged = path.with_extension("pending.new");
    let mut bytes = vec![0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..11].copy_from_slice(&[hash.len() as u8, BLOCK_BITS as u8, boot.id().len() as u8]);
    bytes.extend_from_slice(boot.id().as_bytes());
    records.iter().for_each(|record| push_record(&mut bytes, record));
    let written = || {
        let _ = by_path::remove_file(&staged);
        let file = by_path::create_new(&staged, 0o666)?;
        file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0)?;
        by_path::rename(&staged, &path)
    };
    written().map_err(|source| {
        let _ = by_path::remove_file(&staged);
        Error::Io { action: "write", path, source }
    })
}

/// Removes the file of a generation, if there is one.
pub(super) fn remove(bases: &Path, generation: u32) -> Result<(), Error> {
    let path = file(bases, generation);
    match by_path::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(Error::Io { action: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// Syncs a blob file, and its name, if it has pending contents.
pub(super) fn sync_device(device: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io { action: "sync", path: device.to_owned(), source };
    if by_path::stat(&device.with_extension("pending")).map_err(failed)?.is_none() {
        return Ok(());
    }
    let file = by_path::open(device).map_err(failed)?;
    sys::sync_data(&file).map_err(failed)?;
    device.parent().map_or(Ok(()), by_path::sync_dir).map_err(failed)
}

/// Makes the pending contents of a generation durable, and moves their records to its index. Those
/// of an earlier boot are dropped. Does nothing while another process adds to the generation. The
/// caller holds the lock of the base directory.
pub(super) fn promote(bases: &Path, generation: u32) -> Result<(), Error> {
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let data_path = data_file(bases, generation);
        let failed = |source| Error::Io { action: "sync", path: data_path.clone(), source };
        if read(bases, generation, hash)?.is_none() {
            continue;
        }
        let data = by_path::open_to_change(&data_path).map_err(failed)?;
        if !sys::try_lock(&data).map_err(failed)? {
            return Ok(());
        }
        let pending = read(bases, generation, hash)?.filter(|pending| pending.boot.is_current());
        if let Some(pending) = pending.filter(|pending| !pending.records.is_empty()) {
            sys::sync_data(&data).map_err(failed)?;
            let index = index_file(bases, generation);
            append(&index, length(&index)?, hash, &pending.records)?;
            let dir = bases.join("blobs");
            by_path::sync_dir(&dir).map_err(|source| Error::Io { action: "sync", path: dir, source })?;
        }
    }
    remove(bases, generation)
}

/// Appends records to the index of a generation, which has `length` bytes, and syncs it.
fn append(path: &Path, length: u64, hash: HashKind, records: &[Record]) -> Result<(), Error> {
    let failed = |action| move |source| Error::Io { action, path: path.to_owned(), source };
    let mut bytes = Vec::with_capacity(records.len() * record_len(hash));
    records.iter().for_each(|record| push_record(&mut bytes, record));
    let file = by_path::open_to_change(path).map_err(failed("open"))?;
    file.write_pieces_at(&mut [IoSlice::new(&bytes)], after_records(length, hash))
        .map_err(failed("write"))?;
    sys::sync_data(&file).map_err(failed("sync"))
}

/// Returns the offset after the last record of an index of `length` bytes, which may end in a torn
/// one.
pub(super) fn after_records(length: u64, hash: HashKind) -> u64 {
    let record = record_len(hash) as u64;
    length.saturating_sub(HEADER as u64).div_ceil(record) * record + HEADER as u64
}

/// Returns the records whose bytes in `data` are intact, without those of contents that `known`
/// has.
pub(super) fn intact(
    data: &Path,
    records: Vec<Record>,
    known: &HashMap<ObjectId, Content>,
    hash: HashKind,
) -> Result<Vec<Record>, Error> {
    const BATCH: usize = 256;
    let failed = |source| Error::Io { action: "read", path: data.to_owned(), source };
    let file = by_path::open(data).map_err(failed)?;
    let new: Vec<Record> = records.into_iter().filter(|record| !known.contains_key(&record.oid)).collect();
    let batches: Vec<&[Record]> = new.chunks(BATCH).collect();
    let mut buffers = vec![Vec::new(); parallel::threads(new.len(), BATCH, sys::cores())];
    let checked = parallel::map(&batches, &mut buffers, |buffer, batch| {
        let mut good = Vec::new();
        for record in *batch {
            if is_intact(&file, record, hash, buffer).map_err(failed)? {
                good.push(*record);
            }
        }
        Ok::<_, Error>(good)
    })?;
    Ok(checked.concat())
}

fn is_intact(file: &File, record: &Record, hash: HashKind, buffer: &mut Vec<u8>) -> std::io::Result<bool> {
    const PIECE: u64 = 1 << 20;
    let start = u64::from(record.block) * BLOCK;
    let mut hasher = Hasher::object(hash, "blob", record.size);
    let mut done = 0;
    while done < record.size {
        let length = PIECE.min(record.size - done);
        buffer.resize(length as usize, 0);
        file.read_exact_at(buffer, start + done)?;
        hasher.update(buffer);
        done += length;
    }
    Ok(hasher.finish().is_ok_and(|oid| oid == record.oid))
}
