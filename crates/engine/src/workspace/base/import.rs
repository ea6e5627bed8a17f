//! Contents that come from elsewhere than the repository: a remote for bases.
//!
//! An importer holds the lock of the base directory from its beginning to its end. So `base gc`
//! drops nothing between the arrival of contents and the base that needs them. Contents count as
//! present from the next [`Importer::publish`] on, also after a crash. The caller has compared the
//! bytes with their ids.

use std::{io, path::Path};

use format::{HashKind, ObjectId};
use store::{Fsync, SharedRepository};
use sys::File;

use super::{AddOptions, Base, Bases, Error, Kind, Wanted, append::Appender, users::User};

/// Takes contents in, for bases of one directory. Several threads may share it.
pub struct Importer<'b> {
    bases: &'b Bases,
    // Dropped before the lock: it takes back what was not published.
    appender: Appender,
    hash: HashKind,
    sync: bool,
    shared: SharedRepository,
    _lock: File,
}

/// The result of a content that came in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// It was added, or was there already.
    Whole,
    /// The pieces were more or fewer than promised. Nothing was added.
    OtherSize,
}

impl Bases {
    /// Begins to take contents in: waits for others that add or remove, and registers the
    /// repository with the common directory `common`.
    pub fn importer(
        &self,
        common: &Path,
        hash: HashKind,
        shared: SharedRepository,
        fsync: &Fsync,
    ) -> Result<Importer<'_>, Error> {
        let failed = |source| Error::Io { action: "lock", path: self.dir().to_owned(), source };
        let lock = self.lock(shared).map_err(failed)?;
        self.register(User::Repository(common), shared)?;
        let appender = self.append(hash, shared)?;
        Ok(Importer { bases: self, appender, hash, sync: !fsync.disabled, shared, _lock: lock })
    }
}

impl Importer<'_> {
    fn is_here(&self, oid: &ObjectId) -> bool {
        *oid == ObjectId::empty_blob(self.hash) || self.appender.find(oid).is_some()
    }

    /// Returns the contents that are not here, in the given order.
    pub fn missing(&self, contents: &[ObjectId]) -> Vec<ObjectId> {
        contents.iter().filter(|oid| !self.is_here(oid)).copied().collect()
    }

    /// Adds contents that lie together, in the given order. Those that are here are left out.
    pub fn add(&self, contents: &[(ObjectId, &[u8])]) -> Result<(), Error> {
        let new: Vec<_> = contents.iter().filter(|(oid, _)| !self.is_here(oid)).copied().collect();
        self.appender.add(&new).map(drop)
    }

    /// Adds a content of `size` bytes that `fill` passes on in pieces. `fill` fails if their bytes
    /// have another id; then nothing is added. It is not called if the content is here.
    pub fn stream<E>(
        &self,
        oid: ObjectId,
        size: u64,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), E>,
    ) -> Result<Result<Streamed, E>, Error> {
        if self.is_here(&oid) {
            return Ok(Ok(Streamed::Whole));
        }
        let streamed = self.appender.stream(oid, size, fill)?;
        Ok(streamed.map(|place| match place {
            Some(_) => Streamed::Whole,
            None => Streamed::OtherSize,
        }))
    }

    /// Makes the contents that arrived last, so that an interruption does not lose them.
    pub fn publish(&self) -> Result<(), Error> {
        self.appender.publish(self.sync)
    }

    /// Returns the base for `wanted`, and builds it from the contents if it is missing, as
    /// [`Bases::add`] does.
    pub fn add_base(
        &self,
        wanted: &Wanted<'_>,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Base, Error> {
        self.publish()?;
        if let Some(base) = self.bases.find(wanted)? {
            return Ok(base);
        }
        self.bases.register(User::Repository(&wanted.repo().real_common_dir()), self.shared)?;
        let appender = (wanted.kind() == Kind::Image).then_some(&self.appender);
        self.bases.add_locked(wanted, appender, options, messages)
    }
}
