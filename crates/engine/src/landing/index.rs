//! The index of a repository that nobody trusts.

use std::{
    io::{self, Read as _},
    path::Path,
};

use format::{HashKind, ObjectId, index::parts::Small};
use sys::{Dir, Map, by_path};

use super::{
    Error,
    tips::{odd, regular, unreadable},
};

/// The most bytes of a file, and of the paths in it.
const MOST_BYTES: u64 = 1 << 30;

/// Copies the index of the Git directory `git`, and its shared half, to the directory `to`. Returns
/// false if there is none. It needs bounded memory when it is read.
pub fn copy_index(git: &Dir, hash: HashKind, to: &Path) -> Result<bool, Error> {
    let Some(half) = copy(git, "index", hash, to)? else { return Ok(false) };
    if let Some(shared) = half.shared {
        let name = format!("sharedindex.{shared}");
        copy(git, &name, hash, to)?.ok_or_else(|| odd(name.as_bytes(), "does not exist"))?;
    }
    Ok(true)
}

struct Half {
    shared: Option<ObjectId>,
}

/// Copies a file, and checks it. Returns `None` if it does not exist.
fn copy(git: &Dir, name: &str, hash: HashKind, to: &Path) -> Result<Option<Half>, Error> {
    let Some((file, stat)) = regular(git, name.as_bytes())? else { return Ok(None) };
    let to = to.join(name);
    let io = |source| Error::Io { action: "write", path: to.clone(), source };
    if stat.size > MOST_BYTES {
        return Err(odd(name.as_bytes(), "is too large"));
    }
    let mut copy = by_path::create_new(&to, 0o600).map_err(io)?;
    // The file may grow meanwhile; one that is cut has another checksum.
    io::copy(&mut file.take(stat.size), &mut copy).map_err(unreadable(name.as_bytes()))?;
    let content = by_path::open(&to).and_then(|copy| Map::of(&copy)).map_err(io)?;
    let half = Small::parse(&content, hash).ok_or_else(|| odd(name.as_bytes(), "is damaged"))?;
    if half.path_bytes() > MOST_BYTES {
        return Err(odd(name.as_bytes(), "is too large"));
    }
    Ok(Some(Half { shared: half.shared_index() }))
}
