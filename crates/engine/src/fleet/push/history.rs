//! The pack of a new base: commits, trees, and blobs that do not travel as contents.

use std::collections::{HashMap, HashSet, VecDeque};

use format::{
    Kind, ObjectId,
    fleet::{DataFile, list, manifest::Pack},
    hash::Hasher,
    tree::TreeEntries,
};
use repo::{
    Links,
    objects::{Objects, Reader},
};
use store::objects::{PackOnAdd, Transaction};
use sys::by_path;

use super::{
    super::{
        Context, Error,
        scratch::{Scratch, ScratchFile},
        seconds, stock,
    },
    Parts, Report,
    plan::Known,
};

/// Git's default of `pack.compression`.
const LEVEL: i32 = 6;
/// A pack is copied in pieces of this many bytes.
const PIECE: usize = 1 << 20;

/// The history of a base.
pub(super) struct History {
    pub(super) packs: Vec<Pack>,
    /// The commits in the packs whose parents are not.
    pub(super) shallow: Vec<ObjectId>,
}

/// Sends a pack with what `known` lacks of the commit's history and of `blobs`.
pub(super) fn write(
    parts: Parts<'_>,
    commit: ObjectId,
    blobs: &[ObjectId],
    known: &Known,
    report: &mut Report,
) -> Result<History, Error> {
    let Parts { context, scratch, objects: source, .. } = parts;
    let objects = scratch.dir()?;
    let fsync = store::Fsync { disabled: true, ..store::Fsync::default() };
    let write_options = store::objects::Options {
        pack_level: Some(LEVEL),
        pack_on_add: PackOnAdd::From(1),
        reverse_index: false,
        ..store::objects::Options::new(&objects, &fsync)
    };
    let mut collector = Collector {
        context,
        source,
        reader: source.reader(),
        transaction: Transaction::new(write_options),
        known: &known.objects,
        names: Vec::new(),
        seen: HashSet::new(),
    };
    let (commits, shallow) = commits(parts, commit, &known.objects)?;
    let mut trees = VecDeque::new();
    for oid in &commits {
        let tree = collector.commit(oid)?;
        trees.push_back(tree);
    }
    while let Some(tree) = trees.pop_front() {
        collector.tree(&tree, &mut trees)?;
    }
    for blob in blobs {
        collector.object(blob, Kind::Blob, &mut |_| Ok(()))?;
    }
    let Collector { transaction, names, .. } = collector;
    let mut packs = known.packs.clone();
    if !names.is_empty() {
        report.objects = names.len() as u64;
        transaction.publish()?;
        let pack = only_pack(&objects, scratch)?;
        let list = list::encode(context.repo.hash(), names);
        context.check_interrupt()?;
        let (file, list_file) = (pack.named(), send_list(context, scratch, &list)?);
        context.remote.write(&file.digest, &pack.path)?;
        report.bytes += file.size + list_file.size;
        packs.push(Pack { file, list: list_file, renewed: seconds(std::time::SystemTime::now()) });
    }
    Ok(History { packs, shallow })
}

fn send_list(context: &Context<'_>, scratch: &Scratch, list: &[u8]) -> Result<DataFile, Error> {
    let mut aside = scratch.file()?;
    aside.write(list)?;
    context.remote.write(&aside.named().digest, &aside.path)?;
    stock::keep(context, scratch, list)
}

/// Returns a copy of the pack in an object directory.
fn only_pack(objects: &std::path::Path, scratch: &Scratch) -> Result<ScratchFile, Error> {
    let dir = objects.join("pack");
    let failed = |action, path: &std::path::Path| {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    };
    let names = by_path::list(&dir).map_err(failed("read", &dir))?;
    let is_pack =
        |name: &std::ffi::OsStr| std::path::Path::new(name).extension().is_some_and(|e| e == "pack");
    let pack = names.iter().find(|(name, _)| is_pack(name)).map(|(name, _)| dir.join(name));
    let path = pack.ok_or_else(|| failed("find", &dir)(std::io::ErrorKind::NotFound.into()))?;
    let mut file = by_path::open(&path).map_err(failed("open", &path))?;
    let (mut copy, mut piece) = (scratch.file()?, vec![0; PIECE]);
    loop {
        match std::io::Read::read(&mut file, &mut piece).map_err(failed("read", &path))? {
            0 => return Ok(copy),
            len => copy.write(&piece[..len])?,
        }
    }
}

/// Returns the commits of the pack and the boundary of the history. History goes on into packs that
/// are there already, however deep they are.
fn commits(
    parts: Parts<'_>,
    tip: ObjectId,
    known: &HashSet<ObjectId>,
) -> Result<(Vec<ObjectId>, Vec<ObjectId>), Error> {
    let Parts { context, objects, .. } = parts;
    let depth = parts.depth.map_or(u32::MAX, std::num::NonZeroU32::get);
    let (mut commits, mut shallow) = (Vec::new(), Vec::new());
    let mut depths = HashMap::from([(tip, 1_u32)]);
    let mut pending = VecDeque::from([tip]);
    // Breadth first, so the first visit of a commit has its smallest depth.
    while let Some(oid) = pending.pop_front() {
        context.check_interrupt()?;
        let own = depths[&oid];
        let links = links(objects, &oid)?;
        commits.push(oid);
        let is_cut = context.repo.is_shallow(&oid)?;
        let follows = |parent: &ObjectId| own < depth || known.contains(parent);
        if links.parents.is_empty() {
            continue;
        }
        if is_cut || !links.parents.iter().all(follows) {
            shallow.push(oid);
            continue;
        }
        for parent in links.parents {
            depths.entry(parent).or_insert_with(|| {
                pending.push_back(parent);
                own.saturating_add(1)
            });
        }
    }
    shallow.sort_unstable();
    Ok((commits, shallow))
}

/// Returns the links of a commit as it is stored.
pub(super) fn links(objects: &Objects, oid: &ObjectId) -> Result<Links, Error> {
    let mut reader = objects.reader();
    let read = reader.read(oid);
    let links = match read.map_err(|source| Error::Object { oid: *oid, source: Box::new(source) })? {
        (Kind::Commit, data) => Links::parse(oid.kind(), data),
        _ => None,
    };
    links.ok_or(Error::Kind { oid: *oid, expected: "commit" })
}

/// Takes objects into the pack.
struct Collector<'c> {
    context: &'c Context<'c>,
    source: &'c Objects,
    reader: Reader<'c>,
    transaction: Transaction<'c>,
    known: &'c HashSet<ObjectId>,
    names: Vec<ObjectId>,
    seen: HashSet<ObjectId>,
}

impl Collector<'_> {
    /// Takes an object, and shows its content, unless it was taken or is known.
    fn object(
        &mut self,
        oid: &ObjectId,
        kind: Kind,
        show: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.known.contains(oid) || !self.seen.insert(*oid) {
            return Ok(());
        }
        self.context.check_interrupt()?;
        let read = self.reader.read(oid);
        let (found, data) = read.map_err(|source| Error::Object { oid: *oid, source: Box::new(source) })?;
        let mut hasher = Hasher::object(oid.kind(), kind.name(), data.len() as u64);
        hasher.update(data);
        if found != kind || hasher.finish().ok() != Some(*oid) {
            return Err(Error::Kind { oid: *oid, expected: kind.name() });
        }
        self.transaction.write(oid, kind, data)?;
        self.names.push(*oid);
        show(data)
    }

    /// Takes a commit, and returns its tree.
    fn commit(&mut self, oid: &ObjectId) -> Result<ObjectId, Error> {
        self.object(oid, Kind::Commit, &mut |_| Ok(()))?;
        let links = links(self.source, oid)?;
        Ok(links.tree)
    }

    /// Takes a tree, and adds those in it to `below`. A pack that has a tree has all below it.
    fn tree(&mut self, oid: &ObjectId, below: &mut VecDeque<ObjectId>) -> Result<(), Error> {
        let hash = oid.kind();
        self.object(oid, Kind::Tree, &mut |data| {
            for entry in TreeEntries::new(hash, data) {
                let entry = entry.map_err(|_| Error::Kind { oid: *oid, expected: "tree" })?;
                if entry.mode.is_tree() {
                    below.push_back(entry.oid);
                }
            }
            Ok(())
        })
    }
}
