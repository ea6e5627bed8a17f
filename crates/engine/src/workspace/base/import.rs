//! Imports contents from outside the repository: from a remote for bases.
//!
//! An importer blocks `base gc` and other importers for its whole lifetime. So `base gc` removes
//! nothing between the arrival of contents and the creation of the base that needs them, and a
//! second pull finds the contents that the first one brought. Other processes may build bases
//! meanwhile: they add contents to another generation. Contents become durable with the next
//! [`Importer::publish`]. The caller has verified the bytes against their ids.

use std::{io, path::Path, sync::atomic::AtomicBool};

use format::{HashKind, ObjectId};
use store::{Fsync, SharedRepository};
use sys::File;

use super::{
    AddOptions, Base, Bases, Error, Kind, Wanted,
    append::{Appender, Publication},
    users::User,
};

/// Adds contents for bases of one directory. Several threads may share it.
pub struct Importer<'b> {
    bases: &'b Bases,
    // Dropped before the lock: the drop removes what was not published.
    appender: Appender,
    hash: HashKind,
    publication: Publication,
    shared: SharedRepository,
    _transfers: File,
}

/// The result of adding a content in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streamed {
    /// The content was added, or already existed.
    Whole,
    /// The pieces had another total size than promised. Nothing was added.
    OtherSize,
}

impl Bases {
    /// Starts an import: waits for other importers and for `gc`, and registers the repository with
    /// the common directory `common`.
    pub fn importer(
        &self,
        common: &Path,
        hash: HashKind,
        shared: SharedRepository,
        fsync: &Fsync,
        interrupt: &AtomicBool,
    ) -> Result<Importer<'_>, Error> {
        let transfers = self.lock_transfers(shared, interrupt)?;
        let _lock = self.lock(shared).map_err(|source| self.unlocked(source))?;
        self.register(User::Repository(common), shared)?;
        let appender = self.append(hash, shared)?;
        let publication = if fsync.disabled { Publication::Unsynced } else { Publication::Synced };
        Ok(Importer { bases: self, appender, hash, publication, shared, _transfers: transfers })
    }
}

impl Importer<'_> {
    fn is_here(&self, oid: &ObjectId) -> bool {
        *oid == ObjectId::empty_blob(self.hash) || self.appender.find(oid).is_some()
    }

    /// Returns the contents that do not exist yet, in the given order.
    pub fn missing(&self, contents: &[ObjectId]) -> Vec<ObjectId> {
        contents.iter().filter(|oid| !self.is_here(oid)).copied().collect()
    }

    /// Adds contents contiguously, in the given order. Existing contents are skipped.
    pub fn add(&self, contents: &[(ObjectId, &[u8])]) -> Result<(), Error> {
        let new: Vec<_> = contents.iter().filter(|(oid, _)| !self.is_here(oid)).copied().collect();
        self.appender.add(&new).map(drop)
    }

    /// Adds a content of `size` bytes, which `fill` provides in pieces. `fill` must return an error
    /// if the bytes have another id. Nothing is added then. It is not called if the content already
    /// exists.
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

    /// Publishes the contents added since the last call, so that an interruption does not lose
    /// them.
    pub fn publish(&self) -> Result<(), Error> {
        self.appender.publish(&self.publication)
    }

    /// Publishes the contents, and returns the base for `wanted`. If it does not exist, builds it
    /// as [`Bases::add`] does.
    pub fn add_base(
        &self,
        wanted: &Wanted<'_>,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Base, Error> {
        self.publish()?;
        let lock = self.bases.lock(self.shared).map_err(|source| self.bases.unlocked(source))?;
        if let Some(base) = self.bases.find(wanted)? {
            drop(lock);
            return base.kept(options);
        }
        self.bases.register(User::Repository(&wanted.repo().real_common_dir()), self.shared)?;
        let appender = (wanted.kind() == Kind::Image).then_some(&self.appender);
        self.bases.add_locked(wanted, appender, options, messages)
    }
}
