//! The contents of the files in all images of a base directory.
//!
//! A generation is a pair of files. `<number>.data` contains contents, each aligned to a block of
//! 512 bytes. `<number>.index` records the location of each content. Contents are identified by the
//! object id of their bytes.
//!
//! Both files are append-only (see `append`), except for `gc`. Each record has a checksum. A record
//! with a wrong checksum is ignored. It is the torn end of an addition that was never published.
//! Records of contents that the disk may not hold yet are in `<number>.pending` (see `pending`).

use std::{
    collections::HashMap,
    io::{self, IoSlice},
    ops::Range,
    path::{Path, PathBuf},
};

use format::{HashKind, ObjectId, erofs};
use sys::{File, by_path};

use super::{Bases, Error, pending};

/// The binary logarithm of the block size. It is the smallest that the kernel can mount, because
/// the unused rest of a content's last block is wasted.
pub(super) const BLOCK_BITS: u32 = 9;
pub(super) const BLOCK: u64 = 1 << BLOCK_BITS;
/// A new generation starts when the last one has this many blocks (512 GiB).
const MAX_BLOCKS: u64 = 1 << 30;

const MAGIC: &[u8; 8] = b"swblobs1";
pub(super) const HEADER: usize = 16;

/// The location of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The blob file, as an index into [`Blobs::files`].
    pub(super) file: u32,
    pub(super) block: u32,
    pub(super) size: u64,
}

impl Content {
    pub(super) fn blocks(&self) -> u64 {
        self.size.div_ceil(BLOCK)
    }

    /// Returns the block after the last one.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.block) + self.blocks()
    }
}

/// A record in the index of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) oid: ObjectId,
    pub(super) block: u32,
    pub(super) size: u64,
}

/// A blob file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlobFile {
    /// The path relative to the base directory, or absolute for an alternate.
    pub(super) path: PathBuf,
    /// The number of blocks up to the end of the last known content.
    pub(super) blocks: u64,
}

/// A generation that contents are added to.
pub(super) struct Next {
    pub(super) number: u32,
    /// The position of its file.
    pub(super) file: u32,
    /// Its data, open for writing. Locked (`flock`) until it is closed.
    pub(super) data: File,
    /// It has no records yet.
    pub(super) is_new: bool,
}

/// The contents of all generations with one kind of hash.
#[derive(Debug)]
pub(super) struct Blobs {
    pub(super) dir: PathBuf,
    pub(super) hash: HashKind,
    /// Each content once. Later generations replace earlier ones.
    pub(super) known: HashMap<ObjectId, Content>,
    pub(super) files: Vec<BlobFile>,
    /// The generations of this directory with this hash, in ascending order: their number, and the
    /// index of their file in `files`.
    generations: Vec<(u32, u32)>,
    /// The highest generation number in use, for any hash.
    last: u32,
}

/// Returns the disk space that a file uses, in bytes.
pub(super) fn disk_usage(path: &Path) -> Result<u64, Error> {
    sys::by_path::room(path).map_err(|source| Error::Io { action: "examine", path: path.to_owned(), source })
}

/// Removes the records of a generation that overlap `dead`, and syncs the index file.
fn forget(
    bases: &Path,
    generation: u32,
    hash: HashKind,
    records: Vec<Record>,
    dead: &[Range<u64>],
) -> Result<(), Error> {
    let is_dead = |record: &Record| {
        let start = u64::from(record.block) * BLOCK;
        let at = dead.partition_point(|range| range.end <= start);
        dead.get(at).is_some_and(|range| range.start < start + record.size.max(1))
    };
    let count = records.len();
    let kept: Vec<_> = records.into_iter().filter(|record| !is_dead(record)).collect();
    if kept.len() == count {
        return Ok(());
    }
    let path = index_file(bases, generation);
    let staged = path.with_extension("index.new");
    let failed = |source| Error::Io { action: "write", path: path.clone(), source };
    let _ = by_path::remove_file(&staged);
    let mut bytes = header(hash).to_vec();
    kept.iter().for_each(|record| push_record(&mut bytes, record));
    let file = by_path::create_new(&staged, 0o666).map_err(failed)?;
    file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0).map_err(failed)?;
    sys::sync_file(&file).map_err(failed)?;
    by_path::rename(&staged, &path).map_err(failed)?;
    by_path::sync_dir(&bases.join("blobs")).map_err(failed)
}

pub(super) fn push_record(records: &mut Vec<u8>, record: &Record) {
    let start = records.len();
    records.extend_from_slice(record.oid.as_bytes());
    records.extend_from_slice(&record.block.to_le_bytes());
    records.extend_from_slice(&record.size.to_le_bytes());
    let checksum = erofs::crc32c(!0, &records[start..]);
    records.extend_from_slice(&checksum.to_le_bytes());
}

/// Returns the path of the data file of a generation.
pub(super) fn data_file(bases: &Path, generation: u32) -> PathBuf {
    bases.join("blobs").join(data_name(generation))
}

fn data_name(generation: u32) -> String {
    format!("{generation}.data")
}

pub(super) fn index_file(bases: &Path, generation: u32) -> PathBuf {
    bases.join("blobs").join(format!("{generation}.index"))
}

/// Returns the numbers of all generations, in ascending order.
pub(super) fn generations(bases: &Path) -> Result<Vec<u32>, Error> {
    let dir = bases.join("blobs");
    let names = match by_path::list(&dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
    };
    let number = |name: &std::ffi::OsStr| name.to_str()?.split_once('.')?.0.parse().ok();
    let mut numbers: Vec<u32> = names.iter().filter_map(|(name, _)| number(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Removes the files of a generation.
pub(super) fn remove(bases: &Path, generation: u32) -> Result<(), Error> {
    let files = [index_file, pending::file, data_file].map(|file| file(bases, generation));
    for path in files {
        match by_path::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Io { action: "remove", path, source });
            }
            _ => {}
        }
    }
    Ok(())
}

impl Blobs {
    /// Reads the records of all generations in the base directory `bases` and in its `alternates`.
    /// Generations of an alternate that cannot be read count as missing.
    pub(super) fn open(bases: &Path, alternates: &[PathBuf], hash: HashKind) -> Result<Blobs, Error> {
        Blobs::open_for(bases, alternates, hash, &|_| true)
    }

    /// Like [`Blobs::open`], for a caller that looks only for contents for which `wanted` returns
    /// true. The others count as missing.
    pub(super) fn open_for(
        bases: &Path,
        alternates: &[PathBuf],
        hash: HashKind,
        wanted: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<Blobs, Error> {
        let all = generations(bases)?;
        let last = all.last().copied().unwrap_or(0);
        let mut blobs = Blobs {
            dir: bases.to_owned(),
            hash,
            known: HashMap::new(),
            files: Vec::new(),
            generations: Vec::new(),
            last,
        };
        for generation in all {
            if let Some(records) = read_records(bases, generation, hash, wanted)? {
                let file = blobs.add_file(PathBuf::from("blobs").join(data_name(generation)));
                blobs.generations.push((generation, file));
                blobs.add_records(file, records);
            }
        }
        for dir in alternates {
            for generation in generations(dir).unwrap_or_default() {
                if let Ok(Some(mut records)) = read_records(dir, generation, hash, wanted) {
                    records.retain(|record| !blobs.known.contains_key(&record.oid));
                    let file = blobs.add_file(data_file(dir, generation));
                    blobs.add_records(file, records);
                }
            }
        }
        Ok(blobs)
    }

    /// Returns the location of a content.
    pub(super) fn find(&self, oid: &ObjectId) -> Option<Content> {
        self.known.get(oid).copied()
    }

    /// Returns each file with records, and its length in bytes. A different result means that
    /// contents were added or removed.
    pub(super) fn stamp(dirs: &[PathBuf]) -> Vec<(PathBuf, u64)> {
        let of = |dir: &PathBuf| {
            let dir = dir.clone();
            let all = generations(&dir).unwrap_or_default();
            let files =
                |dir: &Path, generation| [index_file, pending::file].map(|file| file(dir, generation));
            all.into_iter().flat_map(move |generation| files(&dir, generation))
        };
        let files = dirs.iter().flat_map(of);
        files.map(|path| (length(&path).unwrap_or(0), path)).map(|(length, path)| (path, length)).collect()
    }

    fn add_file(&mut self, path: PathBuf) -> u32 {
        self.files.push(BlobFile { path, blocks: 0 });
        self.files.len() as u32 - 1
    }

    pub(super) fn add_records(&mut self, file: u32, records: Vec<Record>) {
        self.known.reserve(records.len());
        for Record { oid, block, size } in records {
            let content = Content { file, block, size };
            let blocks = &mut self.files[file as usize].blocks;
            *blocks = (*blocks).max(content.end());
            self.known.insert(oid, content);
        }
    }

    /// Locks and returns the generation for the next content: the newest one that has room and that
    /// no other process writes to, else a new one. The caller holds the lock of the base directory.
    pub(super) fn next_generation(&mut self) -> Result<Next, Error> {
        for &(number, file) in self.generations.iter().rev() {
            let path = data_file(&self.dir, number);
            if length(&path)?.div_ceil(BLOCK) >= MAX_BLOCKS {
                continue;
            }
            let io = |action| {
                let path = path.clone();
                move |source| Error::Io { action, path, source }
            };
            let data = by_path::open_to_change(&path).map_err(io("open"))?;
            if sys::try_lock(&data).map_err(io("lock"))? {
                return Ok(Next { number, file, data, is_new: false });
            }
        }
        let number = self.last.max(last_named(&self.dir)) + 1;
        let path = data_file(&self.dir, number);
        let io = |action| {
            let path = path.clone();
            move |source| Error::Io { action, path, source }
        };
        let data = by_path::create_new(&path, 0o666).map_err(io("open"))?;
        sys::lock(&data).map_err(io("lock"))?;
        let file = self.add_file(PathBuf::from("blobs").join(data_name(number)));
        Ok(Next { number, file, data, is_new: true })
    }

    /// Frees the `dead` byte ranges of a generation: first removes their records, then punches
    /// holes. Returns the number of bytes freed, or with `for_real` false the number that would be
    /// freed, without changing anything. A file system without support for holes frees nothing.
    pub(super) fn punch_holes(
        bases: &Path,
        generation: u32,
        dead: &[Range<u64>],
        for_real: bool,
    ) -> Result<u64, Error> {
        let path = data_file(bases, generation);
        let failed = |source| Error::Io { action: "write", path: path.clone(), source };
        let before = disk_usage(&path)?;
        if !for_real {
            let sum: u64 = dead.iter().map(|range| range.end - range.start).sum();
            return Ok(sum.min(before));
        }
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            if let Some(records) = read_durable(bases, generation, hash, &|_| true)? {
                forget(bases, generation, hash, records, dead)?;
            }
        }
        let file = by_path::open_to_change(&path).map_err(failed)?;
        for range in dead {
            match sys::punch_hole(&file, range.clone()) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(0),
                result => result.map_err(failed)?,
            }
        }
        sys::sync_data(&file).map_err(failed)?;
        Ok(before.saturating_sub(disk_usage(&path)?))
    }
}

/// Returns the highest number of a generation that a base in the directory names. The files of that
/// generation may be gone. With a new file of its name, the base would show other contents.
fn last_named(bases: &Path) -> u32 {
    let blobs = bases.join("blobs");
    let number = |device: &PathBuf| {
        let is_own = device.parent() == Some(&blobs);
        device.file_stem().filter(|_| is_own)?.to_str()?.parse().ok()
    };
    let named = Bases::at(bases).readable().into_iter().flat_map(|base| base.devices);
    named.filter_map(|device| number(&device)).max().unwrap_or(0)
}

/// Returns the size of a file in bytes; 0 if it does not exist.
pub(super) fn length(path: &Path) -> Result<u64, Error> {
    match by_path::stat_followed(path) {
        Ok(Some(stat)) => Ok(stat.size),
        Ok(None) => Ok(0),
        Err(source) => Err(Error::Io { action: "examine", path: path.to_owned(), source }),
    }
}

/// Returns the length of a record in bytes: name, block, size, checksum.
pub(super) fn record_len(hash: HashKind) -> usize {
    hash.len() + 16
}

pub(super) fn header(hash: HashKind) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8] = hash.len() as u8;
    header[9] = BLOCK_BITS as u8;
    header
}

/// Returns the intact records of wanted contents of a generation that lie within its data file:
/// those of durable contents, and those that are pending since the last boot. Returns `None` if the
/// generation has another hash, or its creation was not completed.
fn read_records(
    bases: &Path,
    generation: u32,
    hash: HashKind,
    wanted: &dyn Fn(&ObjectId) -> bool,
) -> Result<Option<Vec<Record>>, Error> {
    let Some(mut records) = read_durable(bases, generation, hash, wanted)? else { return Ok(None) };
    let pending = pending::read(bases, generation, hash)?;
    let pending = pending.filter(|pending| pending.boot.is_current()).into_iter().flat_map(|p| p.records);
    records.extend(pending.filter(|record| wanted(&record.oid)));
    Ok(Some(records))
}

/// Like [`read_records`], without those that are pending.
fn read_durable(
    bases: &Path,
    generation: u32,
    hash: HashKind,
    wanted: &dyn Fn(&ObjectId) -> bool,
) -> Result<Option<Vec<Record>>, Error> {
    let path = index_file(bases, generation);
    let read = by_path::read(&path).map_err(|source| Error::Io { action: "read", path, source })?;
    let bytes = read.unwrap_or_default();
    let Some(records) = bytes.strip_prefix(&header(hash)) else { return Ok(None) };
    Ok(Some(parse(records, hash, length(&data_file(bases, generation))?, wanted)))
}

/// Returns the intact records of wanted contents among these bytes, for a data file of `end` bytes.
pub(super) fn parse(
    records: &[u8],
    hash: HashKind,
    end: u64,
    wanted: &dyn Fn(&ObjectId) -> bool,
) -> Vec<Record> {
    let parse = |record: &[u8]| {
        let (record, checksum) = record.split_at(record.len() - 4);
        let oid = ObjectId::from_bytes(hash, &record[..hash.len()]).filter(wanted)?;
        let block = u32::from_le_bytes(record[hash.len()..][..4].try_into().ok()?);
        let size = u64::from_le_bytes(record[hash.len() + 4..].try_into().ok()?);
        let is_intact = erofs::crc32c(!0, record).to_le_bytes() == checksum;
        let is_there = (u64::from(block) << BLOCK_BITS).checked_add(size).is_some_and(|last| last <= end);
        (is_intact && is_there).then_some(Record { oid, block, size })
    };
    records.chunks_exact(record_len(hash)).filter_map(parse).collect()
}
