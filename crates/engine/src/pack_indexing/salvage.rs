//! Publishes the beginning of an incomplete pack as a pack of its own, in place.
//!
//! Promise: the new pack contains only complete, named objects, and each delta's base is in the
//! pack. Bytes after the beginning are not used. The incomplete file stays until the pack is
//! published, so a failed call can be repeated.

use std::path::Path;

use format::ObjectId;
use repo::pack_indexing::{self, Options, Source};
use store::pack::{FinishOptions, Staged, Target};
use sys::by_path;

use super::Error;

/// The number of pack entries that are searched for the first commits.
const FIRST: usize = 64;

/// The result of a salvage.
#[derive(Clone, Debug)]
pub struct Salvaged {
    /// The number of objects.
    pub objects: u32,
    /// The first commits of the pack. They are the tips of the refs for which the server sent it.
    pub first_commits: Vec<ObjectId>,
}

/// Publishes the beginning of the pack in `path`, a file in the directory of `target`. The file is
/// renamed. `promisor` is the content of its `.promisor` file. If the pack contains no complete
/// object, it is removed and the result is `None`.
pub fn salvage(
    path: &Path,
    target: Target<'_>,
    finish: &FinishOptions,
    promisor: Option<Vec<u8>>,
    options: &Options<'_>,
) -> Result<Option<Salvaged>, Error> {
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    let file = by_path::open(path).map_err(failed("open"))?;
    let source = Source { stream: &mut &file, is_file: true, before: &[] };
    let scanned = pack_indexing::scan_beginning(source, options);
    let pack = match scanned {
        Err(
            pack_indexing::Error::Eof | pack_indexing::Error::Signature | pack_indexing::Error::Version(_),
        ) => None,
        scanned => Some(scanned?).filter(|pack| pack.count() > 0),
    };
    let Some(mut pack) = pack else {
        by_path::remove_file(path).map_err(failed("unlink"))?;
        return Ok(None);
    };
    let map = sys::Map::of(&file).map_err(failed("map"))?;
    pack.resolve(&map, None)?;
    drop((map, file));
    // The first entry cannot be an offset delta, but it may be a ref delta.
    pack.cut();
    if pack.count() == 0 {
        by_path::remove_file(path).map_err(failed("unlink"))?;
        return Ok(None);
    }
    let (end, objects, first_commits) = (pack.end(), pack.count(), pack.first_commits(FIRST));
    let staged = Staged::take_over(target, path, end, objects)?;
    let mut complete = staged.finish(&pack.finish()?, finish)?;
    if let Some(content) = promisor {
        complete.mark("promisor", content);
    }
    complete.publish()?;
    Ok(Some(Salvaged { objects, first_commits }))
}
