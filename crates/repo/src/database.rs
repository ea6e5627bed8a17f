//! Reads objects for walks of history and for name lookups: whole objects, and the objects whose
//! names begin with a prefix.
//!
//! All reads go through [`objects::Objects`].

use std::{collections::HashSet, io, path::PathBuf};

use bstr::{BStr, BString, ByteSlice};
use format::{ObjectId, hash::Prefix};
use objects::{Kind, Reader, signature_date};

use crate::{Attempt, Error, ObjectError, Repository, RevisionError, disk};

/// The fields of a commit that a walk of history needs.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) tree: ObjectId,
    pub(crate) parents: Vec<ObjectId>,
    /// The committer date in seconds since the epoch.
    pub(crate) date: i64,
    /// The `encoding` header: the encoding of the message, if it is not UTF-8.
    pub(crate) encoding: Option<BString>,
    /// The text after the headers.
    pub(crate) message: BString,
}

impl Repository {
    /// Reads a whole object.
    pub(crate) fn read_object(&self, id: &ObjectId) -> Result<(Kind, Vec<u8>), Error> {
        let mut reader = self.objects.reader();
        let (kind, data) = reader.read(id).map_err(ObjectError::from)?;
        Ok((kind, data.to_vec()))
    }

    /// Reads a commit. An object of another type is an error.
    pub(crate) fn read_commit(&self, id: &ObjectId) -> Result<Commit, Error> {
        self.read_commit_with(&mut self.objects.reader(), id)
    }

    /// Like [`Repository::read_commit`], with the caller's reader.
    pub(crate) fn read_commit_with(&self, reader: &mut Reader<'_>, id: &ObjectId) -> Result<Commit, Error> {
        match reader.read(id).map_err(ObjectError::from)? {
            (Kind::Commit, data) => self.parse_commit(id, data),
            _ => Err(ObjectError::NotACommit(*id).into()),
        }
    }

    fn parse_commit(&self, id: &ObjectId, data: &[u8]) -> Result<Commit, Error> {
        let bad = || ObjectError::BadCommit(*id);
        let mut tree = None;
        let mut parents = Vec::new();
        let mut date = 0;
        let mut encoding = None;
        let mut rest = data;
        while !rest.is_empty() && rest[0] != b'\n' {
            let end = rest.find_byte(b'\n').ok_or_else(bad)?;
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if let Some(hex) = line.strip_prefix(b"tree ") {
                tree = self.parse_hex(hex);
            } else if let Some(hex) = line.strip_prefix(b"parent ") {
                parents.push(self.parse_hex(hex).ok_or_else(bad)?);
            } else if let Some(who) = line.strip_prefix(b"committer ") {
                date = signature_date(who);
            } else if let Some(name) = line.strip_prefix(b"encoding ") {
                encoding = Some(name.into());
            }
        }
        let message = rest.strip_prefix(b"\n").unwrap_or(rest).into();
        // The parents of a commit at the boundary of a shallow clone are not in the repository.
        let parents = if self.shallow()?.contains(id) { Vec::new() } else { parents };
        Ok(Commit { tree: tree.ok_or_else(bad)?, parents, date, encoding, message })
    }

    /// Returns the commits at the boundary of a shallow clone.
    pub(crate) fn shallow(&self) -> Result<&HashSet<ObjectId>, Error> {
        self.shallow.get_or_init(|| self.read_shallow()).as_ref().map_err(Error::clone)
    }

    fn read_shallow(&self) -> Result<HashSet<ObjectId>, Error> {
        let file = self.layout.common_dir.join("shallow");
        let bytes = match disk::read_optional(&file) {
            Err(error) if error.kind() != io::ErrorKind::IsADirectory => {
                return Err(Attempt::ReadShallow.on(&file)(error));
            }
            read => read.ok().flatten().unwrap_or_default(),
        };
        let commit = |line: &[u8]| {
            let bad = || ObjectError::BadShallowLine(line.into()).into();
            line.get(..self.layout.hash.hex_len()).and_then(|hex| self.parse_hex(hex)).ok_or_else(bad)
        };
        bytes.lines_with_terminator().map(commit).collect()
    }

    pub(crate) fn parse_hex(&self, hex: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(self.layout.hash, hex)
    }

    /// Returns the target of a tag.
    pub(crate) fn tag_target(&self, id: &ObjectId, data: &[u8]) -> Result<ObjectId, Error> {
        data.lines()
            .next()
            .and_then(|line| line.strip_prefix(b"object "))
            .and_then(|hex| self.parse_hex(hex))
            .ok_or_else(|| ObjectError::BadTag(*id).into())
    }

    /// Follows tags to an object that is not a tag.
    pub(crate) fn peel_tags(&self, id: ObjectId) -> Result<(ObjectId, Kind, Vec<u8>), Error> {
        let mut id = id;
        loop {
            match self.read_object(&id)? {
                (Kind::Tag, data) => id = self.tag_target(&id, &data)?,
                (kind, data) => return Ok((id, kind, data)),
            }
        }
    }

    /// Returns the commit that an object is, or that a tag leads to; `None` for other objects.
    pub fn peel_to_commit(&self, id: ObjectId) -> Result<Option<ObjectId>, Error> {
        let (id, kind, _) = self.peel_tags(id)?;
        Ok((kind == Kind::Commit).then_some(id))
    }

    /// Like [`Repository::peel_to_commit`], but returns `None` for a missing object too. An object
    /// that is damaged or that the disk cannot read is an error.
    pub fn commit_if_there(&self, id: ObjectId) -> Result<Option<ObjectId>, Error> {
        match self.peel_to_commit(id) {
            Err(error) if error.is_unreadable() || self.objects.header(&id).is_ok() => Err(error),
            Err(_) => Ok(None),
            commit => commit,
        }
    }

    /// Returns the parents of the commit that an object is or leads to; none for other objects.
    pub fn parents_if_commit(&self, id: &ObjectId) -> Result<Vec<ObjectId>, Error> {
        match self.peel_tags(*id)? {
            (id, Kind::Commit, data) => Ok(self.parse_commit(&id, &data)?.parents),
            _ => Ok(Vec::new()),
        }
    }

    /// Follows tags; returns the object and its type.
    pub fn peel_object(&self, id: ObjectId) -> Result<(ObjectId, Kind), Error> {
        self.peel_tags(id).map(|(id, kind, _)| (id, kind))
    }

    /// Returns the tree that an object leads to.
    pub fn tree_of(&self, id: ObjectId) -> Result<ObjectId, Error> {
        match self.peel_tags(id)? {
            (id, Kind::Tree, _) => Ok(id),
            (id, Kind::Commit, data) => Ok(self.parse_commit(&id, &data)?.tree),
            _ => Err(ObjectError::NotATree(id).into()),
        }
    }

    /// Returns the objects whose names begin with `hex`, sorted.
    pub(crate) fn with_prefix(&self, hex: &BStr) -> Result<Vec<ObjectId>, Error> {
        let prefix = Prefix::from_hex(self.layout.hash, hex)
            .ok_or_else(|| RevisionError::Abbreviation(hex.to_owned()))?;
        self.objects_with_prefix(prefix)
    }

    /// Returns the objects whose names begin with `prefix`, sorted.
    pub(crate) fn objects_with_prefix(&self, prefix: Prefix) -> Result<Vec<ObjectId>, Error> {
        let failed = |(pack, source)| ObjectError::Lookup { prefix, pack, source }.into();
        self.objects.with_prefix(prefix).map_err(failed)
    }

    /// Returns `GIT_OBJECT_DIRECTORY`, or the repository's own directory.
    pub fn objects_dir(&self) -> &std::path::Path {
        &self.layout.objects_dir
    }

    /// Returns [`Repository::objects_dir`] as Git prints it in messages.
    pub fn display_objects_dir(&self) -> PathBuf {
        match self.objects_dir().strip_prefix(self.common_dir()) {
            Ok(below) => self.display_common_dir().join(below),
            Err(_) => self.objects_dir().to_owned(),
        }
    }

    /// Returns true if the repository is a shallow clone.
    pub fn is_shallow_clone(&self) -> bool {
        !matches!(sys::by_path::stat(&self.layout.common_dir.join("shallow")), Ok(None))
    }
}
