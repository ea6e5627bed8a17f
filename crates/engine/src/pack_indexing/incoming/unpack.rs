//! Stores the objects of a small pack as loose objects, in one transaction.
//!
//! Order: write the pack to a temporary file; stage each object when it is named; publish all of
//! them. An object that already exists is not written again. The modification time of its file is
//! updated instead, so that `gc` does not prune it.

use std::{
    io::Read,
    sync::{Mutex, PoisonError, atomic::Ordering},
};

use format::{Kind, ObjectId};
use repo::{
    objects::Objects,
    pack_indexing::{self, Observer, Source},
};
use store::{
    Hashing,
    objects::{ObjectTransaction, Options, PackOnAdd, StreamError},
    pack::{Staged, Writing},
};

use super::{StoreOptions, Stored};
use crate::pack_indexing::{Error, verify_trailer};

/// An observer that stages all objects.
struct Unpacker<'a> {
    transaction: ObjectTransaction<'a>,
    existing: Option<&'a Objects>,
    next: Option<&'a dyn Observer>,
    failure: Mutex<Option<store::Error>>,
}

impl Unpacker<'_> {
    fn is_here(&self, oid: &ObjectId) -> bool {
        self.existing.is_some_and(|objects| objects.contains_listed(oid) && objects.freshen(oid))
    }

    fn fail(&self, error: store::Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }
}

impl Observer for Unpacker<'_> {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64) {
        if let Some(next) = self.next {
            next.object(oid, kind, content, offset);
        }
        if !self.is_here(oid)
            && let Err(error) = self.transaction.write(oid, kind, content)
        {
            self.fail(error);
        }
    }
}

/// Reads a pack, and publishes its objects as loose objects.
pub(super) fn unpack(source: Source<'_>, store_options: &StoreOptions<'_>) -> Result<Stored, Error> {
    let unpacker = Unpacker {
        transaction: ObjectTransaction::new(Options {
            shared: store_options.shared,
            level: store_options.settings.level,
            pack_on_add: PackOnAdd::Never,
            reverse_index: store_options.settings.reverse_index,
            ..Options::new(store_options.objects, store_options.fsync)
        }),
        existing: store_options.existing,
        next: store_options.observer,
        failure: Mutex::default(),
    };
    store_options.meter.unpacks.store(true, Ordering::Relaxed);
    let options = pack_indexing::Options { observer: Some(&unpacker), ..store_options.options() };
    let mut staged = Staged::create(store_options.target(), Hashing::Inline, Writing::Direct)?;
    let (mut pack, end) = pack_indexing::scan(source, &options, &mut |bytes| staged.writer().write(bytes))?;
    let hashed = staged.writer().checkpoint().map_err(pack_indexing::Error::Write)?;
    verify_trailer(&end, hashed.checksum().expect("a pack is always hashed"))?;
    let map = sys::Map::of(staged.file()).map_err(|source| staged.error("map", source))?;
    pack.resolve(&map, None)?;
    let objects = pack.count();
    if pack.unresolved() > 0 {
        // The missing bases exist locally, so they are not unpacked.
        pack.complete(&map, 0, &mut |_| Ok(()))?;
    }
    pack.each_large(&map, &mut |oid, kind, size, content| unpacker.large(oid, kind, size, content))?;
    pack.finish()?;
    drop((map, staged));
    if let Some(error) = unpacker.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error.into());
    }
    unpacker.transaction.publish()?;
    Ok(Stored::Loose { objects })
}

impl Unpacker<'_> {
    /// Stages an object that the first pass did not keep in memory.
    fn large(&self, oid: &ObjectId, kind: Kind, size: u64, content: &mut dyn Read) -> Result<(), Error> {
        if kind != Kind::Blob {
            let mut held = Vec::new();
            content.read_to_end(&mut held).map_err(|_| pack_indexing::Error::Inconsistent)?;
            self.object(oid, kind, &held, 0);
            return Ok(());
        }
        let exists = |oid: &ObjectId| self.is_here(oid);
        let written = self.transaction.write_stream_unless(oid.kind(), size, content, &exists);
        match written {
            Ok(_) => Ok(()),
            Err(StreamError::Store(error)) => Err(error.into()),
            Err(_) => Err(pack_indexing::Error::Inconsistent.into()),
        }
    }
}
