//! The packed-refs file: `<object name> SP <ref name>` lines sorted by name, each followed by
//! `^<object name>` if the ref points to a tag, with what the tag points to in the end. A header line names
//! traits of the file.
//!
//! When it is rewritten, lines of other refs are kept as they are, and the header claims no more than the
//! old one did: a file that does not say for every ref what it peels to does not begin to pretend so.

use std::{
    borrow::Cow,
    io::{self, Write},
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId};
use sys::{Map, by_path};

use super::{Error, Options, place};
use crate::{Components, Lock, LockOptions, SharedRepository, lock::sync_parent};

const HEADER: &[u8] = b"# pack-refs with:";
const ALL_TRAITS: &[u8] = b" peeled fully-peeled sorted ";

/// One ref for [`write_packed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedRef {
    /// Full name.
    pub name: BString,
    /// What it points to.
    pub oid: ObjectId,
    /// If that is a tag: what the tag points to, tags of tags followed. `None` otherwise.
    pub peeled: Option<ObjectId>,
}

/// A packed-refs file as it was when it was loaded.
pub(super) struct Packed {
    path: PathBuf,
    hash: HashKind,
    content: Content,
    /// Where the records begin.
    start: usize,
    /// What follows `# pack-refs with:`, if there is a header.
    traits: Option<BString>,
}

enum Content {
    Mapped(Map),
    /// No file, or one that was not sorted.
    Own(Vec<u8>),
}

/// One ref's lines.
struct Record<'a> {
    name: &'a BStr,
    oid: ObjectId,
    lines: &'a [u8],
}

impl Packed {
    /// A missing file has no refs.
    pub(super) fn load(path: &Path, hash: HashKind) -> Result<Packed, Error> {
        let io = |source| Error::Io { what: "read", path: path.to_owned(), source };
        let content = match by_path::open(path) {
            Ok(file) => Content::Mapped(Map::of(&file).map_err(io)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Content::Own(Vec::new()),
            Err(error) => return Err(io(error)),
        };
        let mut packed = Packed { path: path.to_owned(), hash, content, start: 0, traits: None };
        if packed.bytes().starts_with(b"#") {
            let line = packed.bytes().lines_with_terminator().next().unwrap_or_default();
            let traits = line.strip_suffix(b"\n").and_then(|line| line.strip_prefix(HEADER));
            let traits = traits.ok_or_else(|| packed.unexpected(0))?;
            (packed.start, packed.traits) = (line.len(), Some(traits.into()));
        }
        if !packed.has_trait("sorted") {
            packed.sort()?;
        }
        Ok(packed)
    }

    fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Mapped(map) => map,
            Content::Own(bytes) => bytes,
        }
    }

    fn has_trait(&self, wanted: &str) -> bool {
        let traits = self.traits.as_ref().map(|traits| traits.split_str(" "));
        traits.is_some_and(|mut traits| traits.any(|name| name == wanted.as_bytes()))
    }

    /// Files written before Git 2.15 do not promise an order.
    fn sort(&mut self) -> Result<(), Error> {
        let mut records = self.records().collect::<Result<Vec<_>, _>>()?;
        records.sort_by(|left, right| left.name.cmp(right.name));
        let sorted = records.iter().map(|record| record.lines).collect::<Vec<_>>().concat();
        self.content = Content::Own(sorted);
        self.start = 0;
        Ok(())
    }

    fn unexpected(&self, at: usize) -> Error {
        let line = self.bytes()[at..].lines().next().unwrap_or_default();
        Error::MalformedPackedRefs { path: self.path.clone(), line: line.into() }
    }

    /// The record whose first line begins at `at`.
    fn record(&self, at: usize) -> Result<Record<'_>, Error> {
        let bytes = &self.bytes()[at..];
        let parse = || {
            let end = bytes.find_byte(b'\n')?;
            let (hex, name) = bytes[..end].split_at_checked(self.hash.hex_len())?;
            let oid = ObjectId::from_hex(self.hash, hex)?;
            let name = name.strip_prefix(b" ").filter(|name| !name.is_empty())?;
            let mut len = end + 1;
            if bytes.get(len) == Some(&b'^') {
                len += bytes[len..].find_byte(b'\n')? + 1;
            }
            Some(Record { name: name.as_bstr(), oid, lines: &bytes[..len] })
        };
        parse().ok_or_else(|| self.unexpected(at))
    }

    fn records(&self) -> impl Iterator<Item = Result<Record<'_>, Error>> {
        let mut at = self.start;
        std::iter::from_fn(move || {
            if at >= self.bytes().len() {
                return None;
            }
            let record = self.record(at);
            at = record.as_ref().map_or(usize::MAX, |record| at + record.lines.len());
            Some(record)
        })
    }

    /// Where the first record named `name` or later begins: binary search on the bytes, so that one
    /// ref of a hundred thousand touches a few pages only.
    fn seek(&self, name: &BStr) -> Result<usize, Error> {
        let bytes = self.bytes();
        let (mut low, mut high) = (self.start, bytes.len());
        while low < high {
            let mut at = low + (high - low) / 2;
            // Back to a line that begins a record. The one at `low` does.
            loop {
                at = bytes[low..at].rfind_byte(b'\n').map_or(low, |newline| low + newline + 1);
                if at == low || bytes[at] != b'^' {
                    break;
                }
                at -= 1;
            }
            let record = self.record(at)?;
            if record.name < name {
                low = at + record.lines.len();
            } else {
                high = at;
            }
        }
        Ok(low)
    }

    /// The value of a ref.
    pub(super) fn find(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        let at = self.seek(name)?;
        if at == self.bytes().len() {
            return Ok(None);
        }
        let record = self.record(at)?;
        Ok((record.name == name).then_some(record.oid))
    }

    /// The first ref with a name below `name/`.
    pub(super) fn first_below(&self, name: &BStr) -> Result<Option<BString>, Error> {
        let prefix: BString = [name.as_bytes(), b"/"].concat().into();
        let at = self.seek(prefix.as_bstr())?;
        if at == self.bytes().len() {
            return Ok(None);
        }
        let record = self.record(at)?;
        Ok(record.name.starts_with(&prefix).then(|| record.name.to_owned()))
    }

    /// The file's content without and with some refs, both sorted by name.
    fn changed(&self, removed: &[&BStr], added: &[PackedRef]) -> Result<Vec<u8>, Error> {
        let mut out =
            Vec::with_capacity(self.bytes().len() + HEADER.len() + ALL_TRAITS.len() + 100 * added.len());
        let traits: Cow<'_, [u8]> = match &self.traits {
            Some(traits) if self.has_trait("sorted") => Cow::Borrowed(traits),
            Some(traits) => Cow::Owned([traits.as_slice(), b"sorted "].concat()),
            None if self.bytes().is_empty() => Cow::Borrowed(ALL_TRAITS),
            None => Cow::Borrowed(b" sorted "),
        };
        out.extend_from_slice(HEADER);
        out.extend_from_slice(&traits);
        out.push(b'\n');
        let mut added = added.iter().peekable();
        for record in self.records() {
            let record = record?;
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

fn push(out: &mut Vec<u8>, new: &PackedRef) {
    push_hex(out, new.oid);
    out.push(b' ');
    out.extend_from_slice(&new.name);
    out.push(b'\n');
    if let Some(peeled) = new.peeled {
        out.push(b'^');
        push_hex(out, peeled);
        out.push(b'\n');
    }
}

fn push_hex(out: &mut Vec<u8>, oid: ObjectId) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in oid.as_bytes() {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// `packed-refs.lock`, held.
pub(super) struct PackedLock<'a> {
    options: &'a Options,
    lock: Lock,
    staged: Option<Staged>,
}

/// `packed-refs.new`: the new content lies beside the lock, so that the lock can stay until loose
/// refs, too, are as they should be. Dropped unpublished, it is removed.
struct Staged {
    path: PathBuf,
    published: bool,
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.published {
            // Whoever locks next removes it, should this fail.
            let _ = by_path::remove_file(&self.path);
        }
    }
}

impl<'a> PackedLock<'a> {
    pub(super) fn take(options: &'a Options) -> Result<Self, Error> {
        let locks =
            LockOptions { wait: options.locks.packed, shared: options.locks.shared, record_pid: false };
        let mut lock = Lock::take(&place::packed(options), &locks)?;
        lock.close()?;
        Ok(PackedLock { options, lock, staged: None })
    }

    /// Writes the file as it will be without and with some refs, both sorted by name.
    pub(super) fn stage(
        &mut self,
        packed: &Packed,
        removed: &[&BStr],
        added: &[PackedRef],
    ) -> Result<(), Error> {
        let content = packed.changed(removed, added)?;
        let mut path = self.lock.path().as_os_str().to_owned();
        path.push(".new");
        let path = PathBuf::from(path);
        let io = |what| {
            let path = path.clone();
            move |source| Error::Io { what, path, source }
        };
        // Whoever holds the lock owns this name; a file here was left by a process that was killed.
        match by_path::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io("remove")(error)),
            _ => {}
        }
        let file = by_path::create_new(&path, 0o666).map_err(io("create"))?;
        self.staged = Some(Staged { path: path.clone(), published: false });
        let shared = self.options.locks.shared;
        if shared != SharedRepository::Umask {
            let mode = sys::stat_of(&file).map_err(io("examine"))?.mode & 0o7777;
            sys::set_mode(&file, shared.file_mode(mode)).map_err(io("fix permission bits on"))?;
        }
        (&file).write_all(&content).map_err(io("write"))?;
        self.options.fsync.file(Components::REFERENCE, &file).map_err(io("sync"))?;
        sys::close(file).map_err(io("close"))
    }

    /// Renames what was staged, if anything, into place. The lock stays.
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

/// Writes many new refs at once into packed-refs, as a clone does, without reflogs. `refs` must be sorted by
/// name; one that is packed already is replaced. Loose refs of the same names, which would hide
/// them, are not looked for: in a new repository there are none.
pub fn write_packed(options: &Options, refs: &[PackedRef]) -> Result<(), Error> {
    if let Some(pair) = refs.windows(2).find(|pair| pair[0].name >= pair[1].name) {
        return Err(Error::Duplicate { name: pair[1].name.clone() });
    }
    for new in refs {
        if !new.name.starts_with(b"refs/") || !place::may_write(new.name.as_bstr()) {
            return Err(Error::BadName { name: new.name.clone() });
        }
    }
    // Sorted names put `a/b` after `a`, though not always right after.
    let mut above: Vec<&BString> = Vec::new();
    for new in refs {
        above.retain(|name| new.name.starts_with(name.as_slice()));
        if let Some(name) = above.iter().find(|name| new.name.get(name.len()) == Some(&b'/')) {
            return Err(Error::Together { name: new.name.clone(), other: (*name).clone() });
        }
        above.push(&new.name);
    }
    let mut lock = PackedLock::take(options)?;
    let packed = Packed::load(&place::packed(options), options.hash)?;
    lock.stage(&packed, &[], refs)?;
    lock.publish()
}
