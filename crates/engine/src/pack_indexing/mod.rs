//! Receives packs, and creates and checks the indexes of existing packs.
//!
//! Promise: files get their names only after the whole pack was read, every object was named, and
//! the checksums were verified. After an error no new file is left behind.
//!
//! [`receive`] writes a stream into a repository. [`index`] reads an existing pack. [`salvage()`]
//! publishes the beginning of an incomplete pack.

mod check;
pub mod incoming;
mod salvage;

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use format::ObjectId;
use repo::pack_indexing::{self, Indexed, Options, Source};
use store::{
    HashWriter, Hashing,
    pack::{FinishOptions, Staged, Target, Writing},
};
use sys::{File, by_path};

pub use check::{Mismatch, check_index, check_reverse};
pub use salvage::{Salvaged, salvage};

/// The reason why a pack was not indexed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Pack(#[from] pack_indexing::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Fsck(#[from] repo::fsck::Refused),
    #[error("cannot {what} '{}': {}", .path.display(), sys::reason(.source))]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

/// The options for a received pack.
pub struct Plan<'a> {
    /// The place where it is published.
    pub target: Target<'a>,
    /// The options for the files that accompany the pack.
    pub finish: &'a FinishOptions,
    /// The deflate level of the bases that complete a thin pack. `None` rejects thin packs.
    pub complete: Option<i32>,
    /// Files that are created before the pack, with the pack's name: their extension and content.
    pub companion_files: Vec<(&'static str, Vec<u8>)>,
    /// Called after the whole pack has been read.
    pub on_end: &'a dyn Fn(),
    /// Called before the pack is published. After an error no file is left behind.
    pub validate: &'a dyn Fn() -> Result<(), Error>,
    /// True to keep the temporary file after an error. [`salvage()`] recovers its objects.
    pub keeps_partial: bool,
}

/// The result of receiving a pack.
#[derive(Clone, Debug)]
pub struct Received {
    /// The trailer of the pack, which is part of the file names.
    pub checksum: ObjectId,
    /// The number of objects, without added bases.
    pub objects: u32,
    /// The number of bases that were added.
    pub added: u32,
    /// True if the first of [`Plan::companion_files`] did not exist before. False without such
    /// files.
    pub is_first_companion_new: bool,
    /// The bytes that were read after the pack.
    pub rest: Vec<u8>,
}

/// Reads one pack from `source` and publishes it.
pub fn receive(source: Source<'_>, options: &Options<'_>, plan: Plan<'_>) -> Result<Received, Error> {
    let mut staged = Staged::create(plan.target, hashing(options), Writing::Direct)?;
    if plan.keeps_partial {
        staged.keep();
    }
    let scanned = pack_indexing::scan(source, options, &mut |bytes| staged.writer().write(bytes));
    let (mut pack, end) = scanned.inspect_err(|_| {
        // A failed flush only loses the last bytes, as if the stream had ended earlier.
        let _ = staged.writer().flush();
    })?;
    let hashed = staged.writer().checkpoint();
    let checksum = hashed.map_err(pack_indexing::Error::Write)?.checksum();
    verify_trailer(&end, checksum.expect("a pack is always hashed"))?;
    (plan.on_end)();
    let map = sys::Map::of(staged.file()).map_err(|source| staged.error("map", source))?;
    pack.resolve(&map, Some(staged.file()))?;
    let objects = pack.count();
    let mut added = 0;
    if let (Some(level), true) = (plan.complete, pack.unresolved() > 0) {
        added = pack.complete(&map, level, &mut |bytes| staged.writer().write(bytes))?;
    }
    drop(map);
    options.meter.added.store(added.into(), Ordering::Relaxed);
    let indexed = pack.finish()?;
    (plan.validate)()?;
    if added > 0 {
        staged = staged.set_count(objects + added)?;
    }
    let mut complete = staged.finish(&indexed, plan.finish)?;
    let is_new = |(extension, _): &(&str, _)| {
        let name = format!("pack-{}.{extension}", complete.checksum());
        matches!(by_path::stat(&plan.target.objects.join("pack").join(name)), Ok(None))
    };
    let is_first_companion_new = plan.companion_files.first().is_some_and(is_new);
    plan.companion_files.into_iter().for_each(|(extension, content)| complete.mark(extension, content));
    Ok(Received { checksum: complete.publish()?, objects, added, is_first_companion_new, rest: end.rest })
}

/// Indexes the pack in `file`, without writing anything. `path` is its path in errors. Returns the
/// index and the pack's trailer.
pub fn index(file: &File, path: &Path, options: &Options<'_>) -> Result<(Indexed, ObjectId), Error> {
    let mut writer = HashWriter::new(io::sink(), options.hash, hashing(options));
    let source = Source { stream: &mut &*file, is_file: true, before: &[] };
    let (mut pack, end) = pack_indexing::scan(source, options, &mut |bytes| writer.write(bytes))?;
    let (_, checksum) = writer.finish().map_err(pack_indexing::Error::Write)?;
    verify_trailer(&end, checksum)?;
    let failed = |source| Error::Io { what: "map", path: path.to_owned(), source };
    let map = sys::Map::of(file).map_err(failed)?;
    pack.resolve(&map, Some(file))?;
    Ok((pack.finish()?, checksum))
}

fn hashing(options: &Options<'_>) -> Hashing {
    if options.threads > 1 { Hashing::Threaded } else { Hashing::Inline }
}

/// Compares the trailer with the checksum of all bytes before it. Also rejects bytes after the
/// trailer.
fn verify_trailer(end: &pack_indexing::End, checksum: ObjectId) -> Result<(), pack_indexing::Error> {
    if end.trailer != checksum.as_bytes() {
        return Err(pack_indexing::Error::Checksum);
    }
    if end.has_junk { Err(pack_indexing::Error::Junk) } else { Ok(()) }
}
