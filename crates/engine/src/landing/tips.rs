//! HEAD and the refs of a repository that nobody trusts.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read as _},
};

use bstr::{BString, ByteSlice as _};
use format::{
    HashKind, ObjectId,
    refname::{self, Levels},
};
use sys::{Dir, File, FileType, Stat};

use super::Error;

/// The most bytes of HEAD or a loose ref.
const REF_BYTES: u64 = 4 << 10;
/// The most bytes of packed-refs.
const PACKED_BYTES: u64 = 256 << 20;
/// The most refs that are listed, and the deepest directory.
const MOST_REFS: usize = 1 << 20;
const DEEPEST: usize = 64;

/// The value of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    /// The full name of the branch; `None` if HEAD is detached.
    pub branch: Option<BString>,
    /// The commit; `None` for a branch without one.
    pub commit: Option<ObjectId>,
}

/// Reads HEAD of the Git directory `git`.
pub fn tip(git: &Dir, hash: HashKind) -> Result<Tip, Error> {
    let content = small(git, b"HEAD", REF_BYTES)?.ok_or_else(|| odd(b"HEAD", "does not exist"))?;
    match content.strip_prefix(b"ref:") {
        None => Ok(Tip { branch: None, commit: Some(name(b"HEAD", &content, hash)?) }),
        Some(target) => {
            let target = target.trim().as_bstr();
            if !target.starts_with(b"refs/heads/") || refname::check(target, Levels::Two).is_err() {
                return Err(odd(b"HEAD", "does not name a branch"));
            }
            let commit = match small(git, target, REF_BYTES)? {
                Some(content) => Some(name(target, &content, hash)?),
                None => packed(git, hash)?.into_iter().find(|(name, _)| name == target).map(|(_, oid)| oid),
            };
            Ok(Tip { branch: Some(target.to_owned()), commit })
        }
    }
}

/// Returns the refs that only the workspace may have, and their objects, in the order of their
/// names: all but the remote-tracking ones.
pub fn all(git: &Dir, hash: HashKind) -> Result<Vec<(BString, ObjectId)>, Error> {
    const REMOTES: &[u8] = b"refs/remotes";
    let mut found: BTreeMap<BString, Option<ObjectId>> = BTreeMap::new();
    let mut pending = vec![(BString::from("refs"), 0)];
    while let Some((above, depth)) = pending.pop() {
        let dir = match git.open_dir(&above) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            dir => dir.map_err(unreadable(&above))?,
        };
        for (entry, kind) in dir.list().map_err(unreadable(&above))? {
            let path: BString = [&above[..], b"/", &entry].concat().into();
            if found.len() + pending.len() > MOST_REFS || depth > DEEPEST {
                return Err(odd(b"refs", "holds too many refs"));
            }
            match kind {
                FileType::Directory if path == REMOTES => {}
                FileType::Directory => pending.push((path, depth + 1)),
                _ if path.ends_with(b".lock") => {}
                _ => {
                    let content = small(git, &path, REF_BYTES)?;
                    let content = content.ok_or_else(|| odd(&path, "was removed meanwhile"))?;
                    // A ref that names another has no object of its own.
                    let is_symbolic = content.starts_with(b"ref:");
                    let oid = (!is_symbolic).then(|| name(&path, &content, hash)).transpose()?;
                    found.insert(path, oid);
                }
            }
        }
    }
    // A loose ref hides a packed one. Git packs a ref before it removes the loose one.
    for (name, oid) in packed(git, hash)? {
        if !name.strip_prefix(REMOTES).is_some_and(|rest| rest.starts_with(b"/")) {
            found.entry(name).or_insert(Some(oid));
        }
    }
    Ok(found.into_iter().filter_map(|(name, oid)| Some((name, oid?))).collect())
}

/// Reads the sparse patterns, if there are any.
pub fn sparse_patterns(git: &Dir) -> Result<Option<Vec<u8>>, Error> {
    small(git, b"info/sparse-checkout", PACKED_BYTES)
}

/// Reads packed-refs.
fn packed(git: &Dir, hash: HashKind) -> Result<Vec<(BString, ObjectId)>, Error> {
    let Some(content) = small(git, b"packed-refs", PACKED_BYTES)? else { return Ok(Vec::new()) };
    let mut refs = Vec::new();
    for line in content.lines().filter(|line| !line.starts_with(b"#") && !line.starts_with(b"^")) {
        let parts = line.split_once_str(" ");
        let one = parts.and_then(|(oid, name)| Some((name.into(), ObjectId::from_hex(hash, oid)?)));
        refs.push(one.ok_or_else(|| odd(b"packed-refs", "has a line that names no object"))?);
        if refs.len() > MOST_REFS {
            return Err(odd(b"packed-refs", "holds too many refs"));
        }
    }
    Ok(refs)
}

fn name(path: &[u8], content: &[u8], hash: HashKind) -> Result<ObjectId, Error> {
    let text = content.trim_end();
    ObjectId::from_hex(hash, text).ok_or_else(|| odd(path, "does not hold the name of an object"))
}

/// Reads a regular file of at most `most` bytes. Returns `None` if it does not exist.
fn small(git: &Dir, path: &[u8], most: u64) -> Result<Option<Vec<u8>>, Error> {
    let Some((file, _)) = regular(git, path)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content).map_err(unreadable(path))?;
    if content.len() as u64 > most { Err(odd(path, "is too large")) } else { Ok(Some(content)) }
}

/// Opens a regular file. Returns `None` if it does not exist.
pub(super) fn regular(git: &Dir, path: &[u8]) -> Result<Option<(File, Stat)>, Error> {
    let file = match git.open_file(path) {
        Err(error) if sys::is_missing(&error) => return Ok(None),
        opened => opened.map_err(unreadable(path))?,
    };
    let stat = sys::stat_of(&file).map_err(unreadable(path))?;
    if stat.file_type == FileType::File {
        Ok(Some((file, stat)))
    } else {
        Err(odd(path, "is not a regular file"))
    }
}

pub(super) fn odd(path: &[u8], what: &'static str) -> Error {
    Error::Odd { path: path.into(), what }
}

pub(super) fn unreadable(path: &[u8]) -> impl Fn(std::io::Error) -> Error + use<> {
    let path = BString::from(path);
    move |source| Error::Unreadable { path: path.clone(), source }
}
