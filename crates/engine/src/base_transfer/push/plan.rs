//! The contents and objects of a commit, and those that the remote has.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, VecDeque},
};

use bstr::{BString, ByteSlice as _};
use format::{
    ObjectId,
    base_files::{
        Manifest, RecordKind,
        manifest::{Pack, Table},
        table,
    },
    index::Index,
};
use repo::{
    convert::{Class, Converter},
    objects::Objects,
};

use super::{
    super::{
        Context, Error, records,
        scratch::Scratch,
        stock::{Counter, Stock, are_there},
    },
    Options, Trust, history,
};
use crate::{look::protect, workspace::base::index_of};

/// The number of manifests that a push reads.
const MANIFESTS: usize = 4;
/// The number of commits among which a push looks for ancestors with a base.
const WALK: usize = 4096;
/// A base whose small segments are more than this gets one new segment for all of them.
const MAX_SMALL: usize = 32;
/// A segment below this many bytes is small.
const SMALL: u64 = 4 << 20;
/// The number of packs after which a push writes a full one.
const MAX_PACKS: usize = 16;

/// The name of files with attributes.
const ATTRIBUTES: &[u8] = b".gitattributes";

/// The stock of a remote, as far as newer bases tell.
#[derive(Default)]
pub(super) struct Known {
    tables: Vec<(Table, table::Table)>,
    /// Packs to which a new one can be added.
    pub(super) packs: Vec<Pack>,
    /// The objects in those packs.
    pub(super) objects: HashSet<ObjectId>,
    /// The tree of the base with those packs.
    pub(super) tree: Option<ObjectId>,
}

/// A content to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) oid: ObjectId,
    pub(super) size: u64,
    /// A file with it: the position of the entry.
    entry: usize,
}

/// The parts of a new base.
pub(super) struct Plan {
    /// The files.
    index: Index,
    /// Tables of contents that are there.
    pub(super) tables: Vec<Table>,
    /// Contents that are not, in the order of their paths.
    pub(super) contents: Vec<Content>,
    /// Blobs that travel in the pack.
    pub(super) objects: Vec<ObjectId>,
    /// The number of contents that are there.
    pub(super) known: u64,
}

/// Returns commits with a base at the remote that a push of `commit` can continue: its nearest
/// ancestors, then the newest others.
fn nearest(context: &Context<'_>, commit: ObjectId) -> Result<Vec<ObjectId>, Error> {
    let mut stored = context.remote.records(RecordKind::Commit)?;
    stored.sort_by_key(|stored| Reverse(stored.modified));
    let id = |text: &str| ObjectId::from_hex(commit.kind(), text.as_bytes());
    let newest: Vec<ObjectId> = stored.iter().filter_map(|stored| id(stored.name.id())).collect();
    let there: HashSet<ObjectId> = newest.iter().copied().collect();
    let mut found = Vec::new();
    let mut queue = VecDeque::from([commit]);
    let mut seen = HashSet::from([commit]);
    for _ in 0..if there.is_empty() { 0 } else { WALK } {
        let Some(next) = queue.pop_front().filter(|_| found.len() < MANIFESTS) else { break };
        context.check_interrupt()?;
        if next != commit && there.contains(&next) {
            found.push(next);
        }
        // The history of a shallow clone ends at a commit whose parents are missing.
        let Ok(links) = history::links(context.repo.objects(), &next) else { continue };
        queue.extend(links.parents.into_iter().filter(|parent| seen.insert(*parent)));
    }
    let more: Vec<ObjectId> = newest.into_iter().filter(|oid| !found.contains(oid)).take(MANIFESTS).collect();
    found.extend(more);
    Ok(found)
}

/// Reads the newest manifests, and their tables and lists.
pub(super) fn known(
    context: &Context<'_>,
    scratch: &Scratch,
    commit: ObjectId,
    options: &Options<'_>,
    trust: Trust,
) -> Result<Known, Error> {
    let mut known = Known::default();
    let branch = match &options.branch {
        Some(name) => match records::branch(context.remote, name.as_ref()) {
            Ok(branch) => branch.filter(|branch| branch.hash == commit.kind()),
            // A damaged record is a lost hint.
            Err(Error::Record { .. }) => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let of_branch = branch.map_or_else(Vec::new, |branch| branch.commits);
    // Without a record of the branch, other bases may have most of the contents.
    let others = if of_branch.is_empty() { nearest(context, commit)? } else { Vec::new() };
    let older = of_branch.into_iter().chain(options.after.iter().copied()).chain(others);
    // A base of the commit itself is of use if it lacks files or a signature.
    let own = (trust == Trust::Nothing).then_some(commit);
    let commits = own.into_iter().chain(older.filter(|other| *other != commit));
    let mut seen = HashSet::new();
    let mut names = HashSet::new();
    let mut manifests = 0;
    for other in commits.filter(|other| seen.insert(*other)) {
        if manifests == MANIFESTS {
            break;
        }
        let read = match records::manifest(context.remote, &other) {
            Ok(Some(read)) => read,
            // It is of no use here. A pull of that commit says why.
            Ok(None) | Err(Error::Record { .. } | Error::WrongRecord { .. }) => continue,
            Err(error) => return Err(error),
        };
        let stock = Stock { context, scratch, commit: other, requests: Counter::default() };
        let (mut manifest, mut tables) = (read.manifest, Vec::new());
        if trust == Trust::Nothing {
            leave_out_missing(context, &mut manifest)?;
        }
        for named in manifest.tables.iter().filter(|named| !names.contains(&named.file.digest)) {
            match stock.table(named) {
                Ok(table) => tables.push((*named, table)),
                Err(error) => skip(error)?,
            }
        }
        names.extend(tables.iter().map(|(named, _)| named.file.digest));
        known.tables.extend(tables);
        if known.packs.is_empty() && manifest.packs.len() < MAX_PACKS {
            match manifest.packs.iter().map(|pack| stock.list(pack)).collect::<Result<Vec<_>, _>>() {
                Ok(lists) => {
                    known.packs = manifest.packs;
                    known.objects = lists.into_iter().flatten().collect();
                    known.tree = Some(manifest.tree);
                }
                Err(error) => skip(error)?,
            }
        }
        manifests += 1;
    }
    known.tables.extend(super::journal::read(context, scratch, &names)?);
    Ok(known)
}

/// Takes out what lacks a file. A pack is of use only with all packs before it.
fn leave_out_missing(context: &Context<'_>, manifest: &mut Manifest) -> Result<(), Error> {
    let mut there = Vec::new();
    for table in &manifest.tables {
        there.push(are_there(context, vec![table.file, table.segment])?.is_none());
    }
    let mut kept = there.iter();
    manifest.tables.retain(|_| kept.next() == Some(&true));
    let packs = manifest.packs.iter().flat_map(|pack| [pack.file, pack.list]).collect();
    if are_there(context, packs)?.is_some() {
        manifest.packs.clear();
    }
    Ok(())
}

/// A file that is gone, damaged or too short counts as not there: the new base does not name it.
fn skip(error: Error) -> Result<(), Error> {
    match error {
        Error::Damaged { .. } | Error::Lacks { .. } | Error::Pruned { .. } => Ok(()),
        Error::Remote(base_store::Error::Wrong { .. }) => Ok(()),
        error => Err(error),
    }
}

/// Divides the files of `tree`.
pub(super) fn plan(
    context: &Context<'_>,
    objects: &Objects,
    commit: ObjectId,
    tree: ObjectId,
    known: &Known,
) -> Result<Plan, Error> {
    let repo = context.repo;
    let trees = |source| Error::Trees { commit, source: Box::new(source) };
    let protect = protect(repo).map_err(Error::from)?;
    let index = index_of(objects, tree, protect).map_err(trees)?;
    let converter = Converter::for_tree(repo, &index)?;
    let mut convert = converter.worker();
    let empty = ObjectId::empty_blob(index.hash);
    let mut seen = HashSet::from([empty]);
    let (mut blobs, mut wanted) = (Vec::new(), Vec::new());
    for (at, entry) in index.entries().iter().enumerate().filter(|(_, entry)| !entry.mode.is_gitlink()) {
        // A host reads attribute files before it knows which files it converts.
        let is_object = entry.mode.is_symlink()
            || index.path(entry).rsplit_str("/").next() == Some(ATTRIBUTES)
            || convert.class(index.path(entry), entry.mode)? != Class::None;
        if is_object {
            blobs.push(entry.oid);
        } else if seen.insert(entry.oid) {
            wanted.push((entry.oid, at));
        }
    }
    let tables = usable(known, wanted.iter().map(|(oid, _)| *oid).collect());
    let there: HashSet<ObjectId> =
        tables.iter().flat_map(|(_, table)| table.contents()).map(|content| content.oid).collect();
    let tables = tables.into_iter().map(|(named, _)| *named).collect();
    let new: Vec<_> = wanted.iter().filter(|(oid, _)| !there.contains(oid)).collect();
    let known = (wanted.len() - new.len()) as u64;
    let fetched = objects.fetch_missing(&mut new.iter().map(|(oid, _)| *oid));
    fetched.map_err(|source| Error::Object { oid: new[0].0, source: Box::new(source) })?;
    let (mut reader, mut contents) = (objects.reader(), Vec::with_capacity(new.len()));
    for &(oid, entry) in new {
        context.check_interrupt()?;
        let header = reader.header(&oid);
        match header.map_err(|source| Error::Object { oid, source: Box::new(source) })? {
            (repo::objects::Kind::Blob, size) => contents.push(Content { oid, size, entry }),
            _ => return Err(Error::Kind { oid, expected: "blob" }),
        }
    }
    Ok(Plan { index, tables, contents, objects: blobs, known })
}

impl Plan {
    /// Returns a path with this content.
    pub(super) fn path(&self, content: &Content) -> BString {
        self.index.path_at(content.entry).to_owned()
    }
}

/// Returns the tables that have some of the contents, each content from one table. Many small
/// segments are left out together: a host should not need a request for each.
fn usable(known: &Known, mut wanted: HashSet<ObjectId>) -> Vec<&(Table, table::Table)> {
    // Where two tables have a content, the one with more contents is likely named by more bases.
    let mut order: Vec<_> = known.tables.iter().collect();
    order.sort_by_key(|(named, table)| (std::cmp::Reverse(table.contents().len()), named.file.digest));
    let mut used: HashMap<_, usize> = HashMap::new();
    for (named, table) in &order {
        let count = table.contents().iter().filter(|content| wanted.remove(&content.oid)).count();
        if count > 0 {
            used.insert(named.file.digest, count);
        }
    }
    let is_small = |named: &Table| named.segment.size < SMALL;
    let mut tables: Vec<_> =
        known.tables.iter().filter(|(named, _)| used.contains_key(&named.file.digest)).collect();
    if tables.iter().filter(|(named, _)| is_small(named)).count() > MAX_SMALL {
        tables.retain(|(named, _)| !is_small(named));
    }
    tables
}
