//! The file `proof` of a base of kind directory: the inode number and the change time of each of
//! its directories.
//!
//! Nobody may change a base, but its owner and root can. Whoever adds, removes, renames or replaces
//! a file changes the time of its directory. A mount compares these times. A write into a file, in
//! place, changes only the file's own time, which the index of the base has:
//! `update-index --really-refresh` compares it.
//!
//! The file holds a header, then for each directory: inode number, seconds, nanoseconds (8, 8 and 4
//! bytes), the path, and a NUL.

use std::{
    io::{IoSlice, Read as _},
    path::{Path, PathBuf},
};

use bstr::{BStr, ByteSlice as _};
use format::index::{Flags, Index};
use sys::{Dir, by_path};

use super::{Base, Error, Kind};

const NAME: &str = "proof";
const MAGIC: &[u8; 8] = b"swproof1";
const FIELDS: usize = 20;

/// Writes the proof of `<dir>/files`, which holds the files of `index`.
pub(super) fn write(dir: &Path, index: &Index) -> Result<(), Error> {
    write_of(dir, directories(index))
}

/// Writes the proof of `<dir>/files`, which has these directories, the root first.
pub(super) fn write_of<'p>(dir: &Path, directories: impl IntoIterator<Item = &'p BStr>) -> Result<(), Error> {
    let files = dir.join("files");
    let root = Dir::open(&files).map_err(io("open", &files))?;
    let mut bytes = MAGIC.to_vec();
    for path in directories {
        let stamp = stamp(&root, &files, path)?.ok_or_else(|| Error::Damaged {
            path: files.join(sys::os_str(path)),
            what: "it is no directory".to_owned(),
        })?;
        bytes.extend_from_slice(&stamp);
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    let path = dir.join(NAME);
    let file = by_path::create_new(&path, 0o666).map_err(io("create", &path))?;
    file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0).map_err(io("write", &path))
}

/// Copies the proof of the base at `from` to the base at `to`. An older base has none.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let (source, path) = (from.join(NAME), to.join(NAME));
    let Some(bytes) = by_path::read(&source).map_err(io("read", &source))? else { return Ok(()) };
    let file = by_path::create_new(&path, 0o666).map_err(io("create", &path))?;
    file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0).map_err(io("write", &path))
}

/// Returns the directories of the files of `index`, the root first.
pub(super) fn directories(index: &Index) -> Vec<&BStr> {
    let mut found = vec![BStr::new("")];
    let mut last = BStr::new("");
    for at in (0..index.len()).filter(|&at| !index.entry(at).flags.contains(Flags::SKIP_WORKTREE)) {
        let path = index.path_at(at);
        let dir = if index.mode_at(at).is_gitlink() {
            path
        } else {
            path[..path.rfind_byte(b'/').unwrap_or(0)].as_bstr()
        };
        let shared = common_directory(last, dir);
        let new = dir.find_iter("/").chain([dir.len()]).filter(|&end| end > shared);
        found.extend(new.map(|end| dir[..end].as_bstr()));
        last = dir;
    }
    found
}

/// Returns the length of the longest directory that contains both directories, or is one of them.
fn common_directory(one: &BStr, other: &BStr) -> usize {
    let same = one.iter().zip(other.iter()).take_while(|(one, other)| one == other).count();
    let ends = |path: &BStr| path.len() == same || path[same] == b'/';
    if ends(one) && ends(other) { same } else { other[..same].rfind_byte(b'/').unwrap_or(0) }
}

fn stamp(root: &Dir, files: &Path, path: &BStr) -> Result<Option<[u8; FIELDS]>, Error> {
    let found = if path.is_empty() { root.stat_self().map(Some) } else { root.stat(path) };
    let found = found.map_err(io("examine", &files.join(sys::os_str(path))))?;
    let found = found.filter(|stat| stat.file_type == sys::FileType::Directory);
    Ok(found.map(|stat| {
        let mut fields = [0; FIELDS];
        fields[..8].copy_from_slice(&stat.ino.to_le_bytes());
        fields[8..16].copy_from_slice(&stat.ctime.0.to_le_bytes());
        fields[16..].copy_from_slice(&stat.ctime.1.to_le_bytes());
        fields
    }))
}

impl Base {
    /// Returns a directory of the base that was changed after the base was built, or is gone.
    /// Returns `None` for an image, whose mount is compared with its UUID, and for an older base
    /// without a proof.
    ///
    /// On a file system of another machine, only the root is examined: each directory would cost an
    /// answer of the server.
    pub fn changed_directory(&self) -> Result<Option<PathBuf>, Error> {
        if self.kind == Kind::Image {
            return Ok(None);
        }
        if let Some(changed) =
            self.load_parent()?.map(|parent| parent.changed_directory()).transpose()?.flatten()
        {
            return Ok(Some(changed));
        }
        let path = self.dir.join(NAME);
        let bytes = match by_path::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => {
                let mut bytes = Vec::new();
                let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
                read.map_err(io("read", &path)).map(|_| bytes)?
            }
        };
        let damaged = || Error::Damaged { path: path.clone(), what: "it is no proof".to_owned() };
        let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let files = self.bytes();
        let root = match Dir::open(&files) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Some(files)),
            opened => opened.map_err(io("open", &files))?,
        };
        let is_near = !root.is_remote();
        while !rest.is_empty() {
            let (fields, after) = rest.split_at_checked(FIELDS).ok_or_else(damaged)?;
            let end = after.find_byte(0).ok_or_else(damaged)?;
            let dir = after[..end].as_bstr();
            rest = &after[end + 1..];
            if stamp(&root, &files, dir)?.is_none_or(|found| found != fields) {
                return Ok(Some(files.join(sys::os_str(dir))));
            }
            if !is_near {
                break;
            }
        }
        Ok(None)
    }
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use bstr::BString;
    use format::{
        HashKind, Mode, ObjectId,
        index::{NewEntry, Stage, Stat},
    };

    use super::*;

    #[test]
    fn each_directory_is_named_once() {
        let mut index = Index::empty(HashKind::Sha1);
        let paths = ["a", "d/e-f", "d/e/f", "d/e/g", "d/e2/f", "dd/e/f/g", "dd/e/h", "dd/f", "m", "z/y"];
        for path in paths {
            let mode = if path == "m" { Mode::GITLINK } else { Mode::FILE };
            let (stat, oid) = (Stat::default(), ObjectId::null(HashKind::Sha1));
            index
                .push(path.into(), NewEntry { stat, oid, mode, flags: Flags::empty(), stage: Stage::Normal });
        }
        let expected: Vec<BString> =
            ["", "d", "d/e", "d/e2", "dd", "dd/e", "dd/e/f", "m", "z"].map(BString::from).into();
        assert_eq!(directories(&index), expected);
    }
}
