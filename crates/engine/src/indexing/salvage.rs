//! The beginning of a pack that broke off becomes a pack of its own, where it is.
//!
//! Promise: the new pack holds only objects that are whole and named, and each delta in it has its
//! base. Nothing after the beginning is used. Until the pack is published its file stays, so the
//! same call can be made again.

use std::path::Path;

use format::ObjectId;
use repo::indexing::{self, Options, Source};
use store::pack::{FinishOptions, Staged, Target};
use sys::by_path;

use super::Error;

/// The number of entries among which the first commits are looked for.
const FIRST: usize = 64;

/// A pack that was salvaged.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// The number of objects.
    pub objects: u32,
    /// The first commits of the pack: the refs for which it was sent lead to them.
    pub first_commits: Vec<ObjectId>,
}

/// Publishes the beginning of the pack in `path`, which is a file in the directory of `target`. The
/// file gets another name. Returns `None`, and removes the file, if it holds no whole object.
pub fn salvage(
    path: &Path,
    target: Target<'_>,
    finish: &FinishOptions,
    options: &Options<'_>,
) -> Result<Option<Salvaged>, Error> {
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    let file = by_path::open(path).map_err(failed("open"))?;
    let source = Source { stream: &mut &file, is_file: true, before: &[] };
    let scanned = indexing::scan_beginning(source, options);
    let pack = match scanned {
        Err(indexing::Error::Eof | indexing::Error::Signature | indexing::Error::Version(_)) => None,
        scanned => Some(scanned?).filter(|pack| pack.count() > 0),
    };
    let Some(mut pack) = pack else {
        by_path::remove_file(path).map_err(failed("unlink"))?;
        return Ok(None);
    };
    let map = sys::Map::of(&file).map_err(failed("map"))?;
    pack.resolve(&map, None)?;
    drop((map, file));
    // The first entry is never a delta against an offset, but it may be one against a name.
    pack.cut();
    if pack.count() == 0 {
        by_path::remove_file(path).map_err(failed("unlink"))?;
        return Ok(None);
    }
    let (end, objects, first_commits) = (pack.end(), pack.count(), pack.first_commits(FIRST));
    let staged = Staged::take_over(target, path, end, objects)?;
    staged.finish(&pack.finish()?, finish)?.publish()?;
    Ok(Some(Salvaged { objects, first_commits }))
}
