//! Makes local objects promised that are reachable from a promisor pack.
//!
//! `gc` repacks promised objects separately from local ones, and its walk from refs covers only
//! local objects. A local object that is reachable only from promised objects would be lost. So
//! such objects are copied into a promisor pack of their own, as in Git's `index-pack --promisor`.
//! Like Git, it omits blobs.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use format::{Kind, Mode, ObjectId, tree::TreeEntries};
use repo::{
    Repository,
    objects::Objects,
    pack_indexing::{Observer, WholePack},
    tag_target,
};

use super::{Error, connected::PromisorPacks};

/// The size of a pack, in bytes, above which another pack is started.
const MUCH: usize = 32 << 20;

/// The objects to which arriving objects refer.
#[derive(Default)]
pub(super) struct Links(Mutex<HashSet<ObjectId>>);

impl Observer for Links {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], _: u64) {
        let hash = oid.kind();
        let add = |links: &mut dyn Iterator<Item = ObjectId>| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(links);
        };
        match kind {
            Kind::Blob => {}
            Kind::Tag => add(&mut tag_target(hash, content).into_iter()),
            Kind::Tree => {
                let entries = TreeEntries::new(hash, content).map_while(Result::ok);
                add(&mut entries.filter(|entry| entry.mode == Mode::TREE).map(|entry| entry.oid));
            }
            Kind::Commit => {
                let lines = content.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
                let link = |line: &[u8]| {
                    let hex = line.strip_prefix(b"tree ").or_else(|| line.strip_prefix(b"parent "));
                    hex.and_then(|hex| ObjectId::from_hex(hash, hex))
                };
                add(&mut lines.filter_map(link));
            }
        }
    }
}

impl Links {
    /// Packs the linked objects that are local, and passes the content of each pack to `keep`.
    /// `level` is the deflate level.
    pub(super) fn pack_local(
        self,
        repo: &Repository,
        level: i32,
        keep: &mut dyn FnMut(Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let objects = repo.stored_objects();
        let mut local = self.local(&objects);
        if local.is_empty() {
            return Ok(());
        }
        local.sort_unstable();
        let (mut reader, mut pack) = (objects.reader(), WholePack::new(level));
        for oid in &local {
            let (kind, content) = reader.read(oid)?;
            pack.add(kind, content).map_err(|error| Error::Local(*oid, error))?;
            if pack.len() > MUCH {
                keep(std::mem::replace(&mut pack, WholePack::new(level)).finish(repo.hash()))?;
            }
        }
        if pack.is_empty() { Ok(()) } else { keep(pack.finish(repo.hash())) }
    }

    /// Returns the linked objects that exist locally, but not in a promisor pack.
    fn local(self, objects: &Objects) -> Vec<ObjectId> {
        let links = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut promisor_packs = PromisorPacks::default();
        let is_local = |oid: &ObjectId| objects.contains_listed(oid) && !promisor_packs.contain(objects, oid);
        links.into_iter().filter(is_local).collect()
    }
}
