//! The pack of a new base: commits, trees, and blobs that do not travel as contents.
//!
//! A tree is a delta against the tree at the same path of the base before, if that base's packs
//! have it. Such a pack is thin: it needs the packs before it.

use std::collections::{HashMap, HashSet, VecDeque};

use format::{
    HashKind, Kind, ObjectId,
    base_files::{DataFile, list, manifest::Pack},
    hash::Hasher,
    pack,
    tree::TreeEntries,
};
use repo::{
    Links,
    objects::{Objects, Reader},
};
use store::objects::Deflaters;

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
    let mut collector = Collector {
        context,
        source,
        reader: source.reader(),
        entries: scratch.file()?,
        deflaters: Deflaters::new(LEVEL),
        known: &known.objects,
        names: Vec::new(),
        seen: HashSet::new(),
    };
    let (commits, shallow) = commits(parts, commit, &known.objects)?;
    let mut trees = VecDeque::new();
    for oid in &commits {
        let tree = collector.commit(oid)?;
        trees.push_back(Versions { oid: tree, before: known.tree });
    }
    while let Some(tree) = trees.pop_front() {
        collector.tree(tree, &mut trees)?;
    }
    for blob in blobs {
        collector.object(blob, Kind::Blob)?;
    }
    let Collector { entries, names, .. } = collector;
    let mut packs = known.packs.clone();
    if !names.is_empty() {
        report.objects = names.len() as u64;
        let pack = pack_of(&entries, names.len(), context.repo.hash(), scratch)?;
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

/// Returns the pack of `count` entries.
fn pack_of(
    entries: &ScratchFile,
    count: usize,
    hash: HashKind,
    scratch: &Scratch,
) -> Result<ScratchFile, Error> {
    let (mut made, mut hasher) = (scratch.file()?, Hasher::checksum(hash));
    let count = u32::try_from(count).expect("far fewer objects fit into memory");
    let mut put = |bytes: &[u8]| {
        hasher.update(bytes);
        made.write(bytes)
    };
    put(&pack::encode_header(count))?;
    let (mut at, mut piece) = (0, vec![0; PIECE]);
    while at < entries.size() {
        let len = PIECE.min(usize::try_from(entries.size() - at).unwrap_or(PIECE));
        let read = entries.file.read_exact_at(&mut piece[..len], at);
        read.map_err(|source| Error::Io { action: "read", path: entries.path.clone(), source })?;
        put(&piece[..len])?;
        at += len as u64;
    }
    let sum = hasher.finish().expect("a checksum looks for no collision");
    made.write(sum.as_bytes())?;
    Ok(made)
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

/// A tree, and the one at its path in the base before.
struct Versions {
    oid: ObjectId,
    before: Option<ObjectId>,
}

/// Takes objects into the pack.
struct Collector<'c> {
    context: &'c Context<'c>,
    source: &'c Objects,
    reader: Reader<'c>,
    /// The entries of the pack.
    entries: ScratchFile,
    deflaters: Deflaters,
    known: &'c HashSet<ObjectId>,
    names: Vec<ObjectId>,
    seen: HashSet<ObjectId>,
}

impl Collector<'_> {
    /// Returns the content of an object that was not taken before and that no pack has.
    fn content(&mut self, oid: &ObjectId, kind: Kind) -> Result<Option<Vec<u8>>, Error> {
        if self.known.contains(oid) || !self.seen.insert(*oid) {
            return Ok(None);
        }
        self.context.check_interrupt()?;
        self.read(oid, kind).map(Some)
    }

    fn read(&mut self, oid: &ObjectId, kind: Kind) -> Result<Vec<u8>, Error> {
        let read = self.reader.read(oid);
        let (found, data) = read.map_err(|source| Error::Object { oid: *oid, source: Box::new(source) })?;
        let mut hasher = Hasher::object(oid.kind(), kind.name(), data.len() as u64);
        hasher.update(data);
        if found == kind && hasher.finish().ok() == Some(*oid) {
            Ok(data.to_vec())
        } else {
            Err(Error::Kind { oid: *oid, expected: kind.name() })
        }
    }

    fn append(&mut self, oid: &ObjectId, entry: &[u8]) -> Result<(), Error> {
        self.entries.write(entry)?;
        self.names.push(*oid);
        Ok(())
    }

    /// Takes an object.
    fn object(&mut self, oid: &ObjectId, kind: Kind) -> Result<(), Error> {
        let Some(content) = self.content(oid, kind)? else { return Ok(()) };
        let (entry, _) = self.deflaters.entry_of(kind, &content);
        self.append(oid, &entry)
    }

    /// Takes a commit, and returns its tree.
    fn commit(&mut self, oid: &ObjectId) -> Result<ObjectId, Error> {
        self.object(oid, Kind::Commit)?;
        let links = links(self.source, oid)?;
        Ok(links.tree)
    }

    /// Takes a tree, and adds those in it to `below`. A pack that has a tree has all below it.
    fn tree(&mut self, tree: Versions, below: &mut VecDeque<Versions>) -> Result<(), Error> {
        let Versions { oid, before } = tree;
        let Some(content) = self.content(&oid, Kind::Tree)? else { return Ok(()) };
        let before = before.and_then(|before| Some((before, self.earlier(&before)?)));
        let delta = before.as_ref().map(|(base, earlier)| (base, pack::encode_delta(earlier, &content)));
        let entry = match delta {
            Some((base, delta)) if delta.len() < content.len() / 2 => self.deflaters.delta_of(base, &delta),
            _ => self.deflaters.entry_of(Kind::Tree, &content).0,
        };
        self.append(&oid, &entry)?;
        let mut earlier = HashMap::new();
        if let Some((_, content)) = &before {
            let entries = TreeEntries::new(oid.kind(), content).map_while(Result::ok);
            earlier.extend(entries.filter(|entry| entry.mode.is_tree()).map(|entry| (entry.name, entry.oid)));
        }
        for entry in TreeEntries::new(oid.kind(), &content) {
            let entry = entry.map_err(|_| Error::Kind { oid, expected: "tree" })?;
            if entry.mode.is_tree() {
                below.push_back(Versions { oid: entry.oid, before: earlier.get(entry.name).copied() });
            }
        }
        Ok(())
    }

    /// Returns the content of a tree that the packs before have, if the repository has it too.
    fn earlier(&mut self, oid: &ObjectId) -> Option<Vec<u8>> {
        let is_there = self.known.contains(oid) && self.source.contains(oid);
        is_there.then(|| self.read(oid, Kind::Tree).ok()).flatten()
    }
}
