//! Reads and rewrites the packed-refs file ([`format::packed_refs`]).
//!
//! A rewrite keeps the lines of other refs unchanged. The new header states only traits that the
//! old file had: if the old file lacks the peeled value of a ref, the new header does not state
//! that all are present.

use std::{
    io::{self, Write},
    ops::Deref,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    packed_refs::{HEADER, Malformed, PackedRefs},
};
use sys::{Map, Stat, by_path};

use super::{Error, Options, paths};
use crate::{Components, Lock, LockOptions, aside, lock::sync_parent};

/// The traits that Git supports, in its order.
const TRAITS: [&str; 3] = ["peeled", "fully-peeled", "sorted"];

/// One ref for [`write_packed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedRef {
    /// Full name.
    pub name: BString,
    /// The object that it points to.
    pub oid: ObjectId,
    /// The object that the tag finally points to; `None` if `oid` is not a tag.
    pub peeled: Option<ObjectId>,
}

/// A packed-refs file in the state in which it was loaded.
pub(super) struct Packed {
    /// Its path as it appears in messages.
    display_path: PathBuf,
    /// Empty if the file is missing.
    refs: PackedRefs<Content>,
    /// `None` if the file is missing.
    version: Option<Version>,
}

/// The inode, the size and the times of a file. The inode of a mapped file cannot be reused.
type Version = (u64, u64, (i64, u32), (i64, u32));

fn version_of(stat: &Stat) -> Version {
    (stat.ino, stat.size, stat.mtime, stat.ctime)
}

enum Content {
    Mapped(Map),
    Absent,
}

impl Deref for Content {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Content::Mapped(map) => map,
            Content::Absent => &[],
        }
    }
}

impl Packed {
    /// Loads the file. A missing file has no refs.
    pub(super) fn load(options: &Options) -> Result<Packed, Error> {
        let path = paths::packed(options);
        let display_path = paths::display_path(options, path.clone());
        let io = |source| Error::Io { what: "read", path: display_path.clone(), source };
        let (content, version) = match by_path::open(&path) {
            Ok(file) => {
                let version = version_of(&sys::stat_of(&file).map_err(io)?);
                (Content::Mapped(Map::of(&file).map_err(io)?), Some(version))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Content::Absent, None),
            Err(error) => return Err(io(error)),
        };
        let refs =
            PackedRefs::parse(content, options.hash).map_err(|problem| malformed(&display_path, problem))?;
        Ok(Packed { display_path, refs, version })
    }

    /// Returns true if the file has not changed since it was loaded.
    pub(super) fn is_current(&self, options: &Options) -> bool {
        let now = by_path::stat_followed(&paths::packed(options));
        now.is_ok_and(|stat| stat.as_ref().map(version_of) == self.version)
    }

    /// Returns the value of a ref.
    pub(super) fn find(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        self.refs.find(name).map_err(|problem| malformed(&self.display_path, problem))
    }

    /// Returns the first ref with a name below `name/`.
    pub(super) fn first_below(&self, name: &BStr) -> Result<Option<BString>, Error> {
        let prefix: BString = [name.as_bytes(), b"/"].concat().into();
        let first = self.refs.below(prefix.as_bstr()).next().transpose();
        let first = first.map_err(|problem| malformed(&self.display_path, problem))?;
        Ok(first.map(|record| record.name.to_owned()))
    }

    /// Returns the file's content without the refs in `removed` and with those in `added`, both
    /// sorted by name.
    fn changed(&self, removed: &[&BStr], added: &[PackedRef]) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(self.refs.len() + HEADER.len() + 100 + 100 * added.len());
        out.extend_from_slice(HEADER);
        out.push(b' ');
        let is_new = self.refs.traits().is_none() && self.refs.is_empty();
        for name in TRAITS {
            // The lines are written in order. Other traits are kept from the old file.
            if is_new || name == "sorted" || self.refs.has_trait(name) {
                out.extend_from_slice(name.as_bytes());
                out.push(b' ');
            }
        }
        out.push(b'\n');
        let mut added = added.iter().peekable();
        for record in self.refs.below("".into()) {
            let record = record.map_err(|problem| malformed(&self.display_path, problem))?;
            while let Some(new) = added.next_if(|new| new.name < *record.name) {
                push(&mut out, new);
            }
            let replaced = added.peek().is_some_and(|new| new.name == *record.name);
            if !replaced && removed.binary_search(&record.name).is_err() {
                out.extend_from_slice(record.lines);
            }
        }
        added.for_each(|new| push(&mut out, new));
        Ok(out)
    }
}

fn malformed(path: &Path, problem: Malformed) -> Error {
    Error::MalformedPackedRefs { path: path.to_owned(), problem }
}

fn push(out: &mut Vec<u8>, new: &PackedRef) {
    out.extend_from_slice(new.oid.hex_into(&mut [0; 64]));
    out.push(b' ');
    out.extend_from_slice(&new.name);
    out.push(b'\n');
    if let Some(peeled) = new.peeled {
        out.push(b'^');
        out.extend_from_slice(peeled.hex_into(&mut [0; 64]));
        out.push(b'\n');
    }
}

/// The held lock `packed-refs.lock`.
pub(super) struct PackedLock<'a> {
    options: &'a Options,
    lock: Lock,
    staged: Option<Staged>,
}

/// The file `packed-refs.new`. It is separate from the lock file, so that the lock can be held
/// until the loose refs have changed too. Dropping the value before it is published removes the
/// file.
struct Staged {
    path: PathBuf,
    published: bool,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.published {
            // If this fails, the next process that takes the lock removes the file.
            let _ = aside(|| by_path::remove_file(&self.path));
        }
    }
}

impl<'a> PackedLock<'a> {
    pub(super) fn take(options: &'a Options) -> Result<Self, Error> {
        let locks =
            LockOptions { wait: options.locks.packed, shared: options.locks.shared, record_pid: false };
        let mut lock = Lock::take(&paths::packed(options), &locks)?;
        lock.close()?;
        Ok(PackedLock { options, lock, staged: None })
    }

    /// Writes the new file without the refs in `removed` and with those in `added`, both sorted by
    /// name.
    pub(super) fn stage(
        &mut self,
        packed: &Packed,
        removed: &[&BStr],
        added: &[PackedRef],
    ) -> Result<(), Error> {
        let content = packed.changed(removed, added)?;
        aside(|| self.write(&content))
    }

    fn write(&mut self, content: &[u8]) -> Result<(), Error> {
        let mut path = self.lock.path().as_os_str().to_owned();
        path.push(".new");
        let path = PathBuf::from(path);
        let io = |what| {
            let path = path.clone();
            move |source| Error::Io { what, path, source }
        };
        // Only the holder of the lock uses this name. A killed process may have left a file behind.
        match by_path::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove")(error)),
            _ => {}
        }
        let file = by_path::create_new(&path, 0o666).map_err(io("create"))?;
        self.staged = Some(Staged { path: path.clone(), published: false });
        self.options.locks.shared.adjust_file(&file).map_err(io("fix permission bits on"))?;
        (&file).write_all(content).map_err(io("write"))?;
        self.options.fsync.file(Components::REFERENCE, &file).map_err(io("sync"))?;
        sys::close(file).map_err(io("close"))
    }

    /// Renames the staged file into place, if there is one. Keeps the lock.
    pub(super) fn publish(&mut self) -> Result<(), Error> {
        let Some(staged) = &mut self.staged else { return Ok(()) };
        let path = self.lock.path();
        by_path::rename(&staged.path, path).map_err(|source| Error::Io {
            what: "replace",
            path: path.to_owned(),
            source,
        })?;
        staged.published = true;
        Ok(sync_parent(&self.options.fsync, Components::REFERENCE, path)?)
    }
}

/// Writes many new refs into packed-refs at once, as a clone does, without reflogs. `refs` must be
/// sorted by name. A ref that is already packed is replaced. Loose refs of the same names would
/// override them, but are not checked: a new repository has none.
pub fn write_packed(options: &Options, refs: &[PackedRef]) -> Result<(), Error> {
    if let Some(pair) = refs.windows(2).find(|pair| pair[0].name >= pair[1].name) {
        return Err(Error::Duplicate { name: pair[1].name.clone() });
    }
    for new in refs {
        if !new.name.starts_with(b"refs/") || !paths::may_write(new.name.as_bstr()) {
            return Err(Error::BadName { name: new.name.clone() });
        }
    }
    // Sorting puts `a/b` after `a`, but not always directly after.
    let mut above: Vec<&BString> = Vec::new();
    for new in refs {
        above.retain(|name| new.name.starts_with(name.as_slice()));
        if let Some(name) = above.iter().find(|name| new.name.get(name.len()) == Some(&b'/')) {
            return Err(Error::Together { name: new.name.clone(), other: (*name).clone() });
        }
        above.push(&new.name);
    }
    let mut lock = PackedLock::take(options)?;
    let packed = Packed::load(options)?;
    lock.stage(&packed, &[], refs)?;
    lock.publish()
}
