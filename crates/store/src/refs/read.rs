//! Reads refs for a transaction: one name at a time, loose before packed.

use std::{
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    ref_file::{self, Value},
    refname,
};
use sys::{
    FileType,
    by_path::{self, Content},
};

use super::{Error, Options, packed::Packed, paths};

/// The maximum length of a chain of symbolic refs.
pub(super) const MAX_DEPTH: usize = 5;

/// The stored value of a ref name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raw {
    /// No such ref.
    Missing,
    /// The ref does not exist, but there is a loose directory of that name, or a link to one.
    Directory,
    /// The name of an object.
    Direct(ObjectId),
    /// The name of another ref.
    Symbolic(BString),
    /// A file with neither form.
    Broken,
}

/// The end of a chain of refs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Id(ObjectId),
    /// The last ref does not exist.
    Dangling,
    /// The chain is too long, or its end is not a ref.
    Broken,
}

/// Refs as stored on disk. The packed refs are read again only if they have changed.
pub(super) struct Reader<'a> {
    options: &'a Options,
    packed: Option<Packed>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(options: &'a Options) -> Self {
        Reader { options, packed: None }
    }

    /// Returns the current packed refs: another process may have packed a loose ref that no longer
    /// exists.
    pub(super) fn packed(&mut self) -> Result<&Packed, Error> {
        if self.packed.as_ref().is_none_or(|packed| !packed.is_current(self.options)) {
            self.packed = Some(Packed::load(self.options)?);
        }
        Ok(self.packed.as_ref().expect("it was just loaded"))
    }

    /// Drops the packed refs, so that the next use reads them again.
    pub(super) fn forget_packed(&mut self) {
        self.packed = None;
    }

    /// Reads one ref without following it.
    pub(super) fn raw(&mut self, name: &BStr) -> Result<Raw, Error> {
        let path = paths::loose(self.options, name);
        let io = |source| Error::Io { what: "read", path: path.clone(), source };
        let hash = self.options.hash;
        let is_symbolic = |target: &Path| ref_file::is_symbolic_link(target.as_os_str().as_bytes().as_bstr());
        let content = match by_path::read_or_link(&path, hash.hex_len() as u64 + 1, is_symbolic) {
            Ok(Content::Bytes(content)) => content,
            Ok(Content::Absent) => return self.packed_or(name, Raw::Missing),
            Ok(Content::Directory) => return self.packed_or(name, Raw::Directory),
            Ok(Content::Link(target)) => return Ok(Raw::Symbolic(target.into_os_string().into_vec().into())),
            Ok(Content::Dangling) => return Ok(Raw::Missing),
            Ok(Content::LinkedDirectory) => return Ok(Raw::Directory),
            // A component of the path is a loose ref.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return self.packed_or(name, Raw::Missing);
            }
            Err(error) => return Err(io(error)),
        };
        Ok(match ref_file::parse(hash, &content) {
            Some(Value::Id(oid)) => Raw::Direct(oid),
            Some(Value::Symbolic(target)) => Raw::Symbolic(target),
            None => Raw::Broken,
        })
    }

    fn packed_or(&mut self, name: &BStr, otherwise: Raw) -> Result<Raw, Error> {
        // Root refs are never packed.
        if refname::is_root(name) {
            return Ok(otherwise);
        }
        Ok(self.packed()?.find(name)?.map_or(otherwise, Raw::Direct))
    }

    /// Returns the object that a ref finally leads to, or `None` if the chain does not end at an
    /// object.
    pub(super) fn resolve(&mut self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        Ok(match self.end(name)? {
            End::Id(oid) => Some(oid),
            End::Dangling | End::Broken => None,
        })
    }

    /// Returns the target of a symbolic ref; `None` for other refs.
    pub(super) fn target(&mut self, name: &BStr) -> Result<Option<BString>, Error> {
        if !paths::is_valid(name) {
            return Ok(None);
        }
        match self.raw(name) {
            Ok(Raw::Symbolic(target)) => Ok(Some(target)),
            Ok(_) => Ok(None),
            Err(Error::Io { source, .. }) if sys::is_symlink_refused(&source) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Follows a ref to its end.
    pub(super) fn end(&mut self, name: &BStr) -> Result<End, Error> {
        let mut name = name.to_owned();
        // A symbolic ref may contain any name.
        if !paths::is_valid(name.as_bstr()) {
            return Ok(End::Broken);
        }
        for _ in 0..MAX_DEPTH {
            let raw = match self.raw(name.as_bstr()) {
                // The ref is a symbolic link that leads to itself.
                Err(Error::Io { source, .. }) if sys::is_symlink_refused(&source) => return Ok(End::Broken),
                raw => raw?,
            };
            match raw {
                Raw::Direct(oid) => return Ok(End::Id(oid)),
                Raw::Symbolic(target) if paths::is_valid(target.as_bstr()) => name = target,
                Raw::Missing | Raw::Directory => return Ok(End::Dangling),
                Raw::Symbolic(_) | Raw::Broken => return Ok(End::Broken),
            }
        }
        Ok(End::Broken)
    }

    /// Returns the first loose or packed ref with a name below `name/`, in the order of names.
    pub(super) fn any_below(&mut self, name: &BStr) -> Result<Option<BString>, Error> {
        let loose = self.loose_below(name.to_owned())?;
        let packed = self.packed()?.first_below(name)?;
        Ok(loose.into_iter().chain(packed).min())
    }

    fn loose_below(&mut self, dir: BString) -> Result<Option<BString>, Error> {
        let path = paths::loose(self.options, dir.as_bstr());
        let mut entries = match by_path::list(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(source) => return Err(Error::Io { what: "read", path, source }),
        };
        // The names below a directory continue with a slash.
        entries.sort_by_cached_key(|(name, file_type)| {
            let slash: &[u8] = if *file_type == FileType::Directory { b"/" } else { b"" };
            [name.as_bytes(), slash].concat()
        });
        for (name, file_type) in entries {
            let below: BString = [dir.as_slice(), b"/", name.as_bytes()].concat().into();
            let found = match file_type {
                FileType::Directory => self.loose_below(below)?,
                _ if name.as_bytes().ends_with(b".lock") => None,
                _ => Some(below),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use format::HashKind;

    use super::*;
    use crate::{
        Fsync,
        refs::{Locks, LogPolicy, PackedRef, write_packed},
    };

    #[test]
    fn sees_refs_that_others_pack_meanwhile() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let options = Options {
            git_dir: dir.path().to_owned(),
            common_dir: dir.path().to_owned(),
            display_dir: dir.path().to_owned(),
            hash: HashKind::Sha1,
            committer: Err("nobody".to_owned()),
            log: LogPolicy::Never,
            fsync: Fsync::default(),
            locks: Locks::default(),
        };
        let oid = ObjectId::from_bytes(HashKind::Sha1, &[1; 20]).expect("20 bytes");
        let mut reader = Reader::new(&options);
        for name in ["refs/heads/a", "refs/heads/b"] {
            assert_eq!(reader.raw(name.into()).expect("it can be read"), Raw::Missing);
            let packed = PackedRef { name: name.into(), oid, peeled: None };
            write_packed(&options, &[packed]).expect("it can be written");
            assert_eq!(reader.raw(name.into()).expect("it can be read"), Raw::Direct(oid));
        }
    }
}
