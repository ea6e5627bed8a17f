//! The contents that are missing here, and the ranges of segments that hold them.

use std::{
    collections::HashMap,
    iter,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use format::{
    ObjectId,
    base_files::{Digest, Manifest, table::Table},
    index::{Flags, Index},
};
use repo::convert::{Class, Converter};

use repo::keys;

use super::{
    super::{
        Error, Phase,
        records::address,
        stock::{RANGE, Stock},
    },
    Report,
};
use crate::{crew::parallel, workspace::base::Importer};

/// Groups with less than this many unwanted bytes between them are fetched in one request.
const GAP: u64 = 64 << 10;

/// The work to do.
pub(super) struct Plan {
    /// Tables with wanted contents, and the segments that they describe.
    pub(super) tables: Vec<(Digest, Table)>,
    /// In the order of tables and segments.
    pub(super) jobs: Vec<Job>,
    /// The number of contents that are missing.
    pub(super) missing: u64,
    /// The bytes of all ranges.
    pub(super) bytes: u64,
}

/// One range of a segment.
#[derive(Debug)]
pub(super) struct Job {
    /// The position of the table.
    pub(super) table: usize,
    /// The wanted groups of the table in this range, ascending.
    pub(super) groups: Vec<usize>,
    /// The bytes of the segment.
    pub(super) range: Range<u64>,
}

/// Finds the missing contents in the tables of the manifest, the newest first.
pub(super) fn plan(
    stock: &Stock<'_>,
    manifest: &Manifest,
    index: &Index,
    importer: &Importer<'_>,
    report: &mut Report,
) -> Result<Plan, Error> {
    let mut missing = missing(stock, index, importer, report)?;
    let mut plan = Plan { tables: Vec::new(), jobs: Vec::new(), missing: missing.len() as u64, bytes: 0 };
    let (total, done) = (manifest.tables.len() as u64, AtomicU64::new(0));
    let newest: Vec<_> = manifest.tables.iter().rev().collect();
    // A host that has the base before needs one table, so others are not fetched beside it.
    let (first, others) = newest.split_at(newest.len().min(1));
    for named in iter::once(first).chain(others.chunks(stock.context.connections.max(1))) {
        if missing.is_empty() {
            break;
        }
        let tables = parallel::map(named, &mut vec![(); named.len()], |(), named| {
            let table = stock.table(named);
            stock.context.report(Phase::Tables, done.fetch_add(1, Ordering::Relaxed) + 1, total);
            table
        })?;
        for (named, table) in named.iter().zip(tables) {
            plan.add(named.segment.digest, table, &mut missing);
        }
    }
    if let Some((oid, entry)) = missing.iter().min_by_key(|(_, entry)| **entry)
        && !stock.context.repo.objects().is_partial()
    {
        let (remote, commit) = (address(stock.context.remote), manifest.commit);
        return Err(Error::NoContent { remote, commit, path: index.path_at(*entry).to_owned(), oid: *oid });
    }
    // A promisor remote has those that no table names.
    plan.missing -= missing.len() as u64;
    plan.bytes = plan.jobs.iter().map(|job| job.range.end - job.range.start).sum();
    Ok(plan)
}

/// Brings tables that [`plan`] will read: all of them for a host that has no base of the remote
/// yet, else the newest. [`plan`] reports failures.
pub(super) fn prefetch(stock: &Stock<'_>, manifest: &Manifest, is_first: bool) {
    let count = if is_first { manifest.tables.len() } else { 1 };
    let named: Vec<_> = manifest.tables.iter().rev().take(count).collect();
    let threads = parallel::threads(named.len(), 1, stock.context.connections);
    let fetched = parallel::map(&named, &mut vec![(); threads], |(), named| stock.table(named).map(drop));
    drop(fetched);
}

/// Returns the contents that neither the base directory nor the repository has. Files that are
/// converted here are made from objects.
fn missing(
    stock: &Stock<'_>,
    index: &Index,
    importer: &Importer<'_>,
    report: &mut Report,
) -> Result<HashMap<ObjectId, usize>, Error> {
    let repo = stock.context.repo;
    let converter = Converter::for_tree(repo, index)?;
    let mut convert = converter.worker();
    let objects = repo.stored_objects();
    let empty = ObjectId::empty_blob(index.hash);
    let has_links = repo.config(&keys::core::SYMLINKS)?;
    let mut wanted = HashMap::new();
    for (at, entry) in index.entries().iter().enumerate() {
        let is_link = entry.mode.is_symlink();
        if entry.flags.contains(Flags::SKIP_WORKTREE)
            || entry.mode.is_gitlink()
            || is_link && has_links
            || entry.oid == empty
        {
            continue;
        }
        let path = index.path(entry);
        if is_link || convert.class(path, entry.mode)? == Class::None {
            wanted.entry(entry.oid).or_insert(at);
        }
    }
    let names: Vec<ObjectId> = wanted.keys().copied().collect();
    let mut missing = importer.missing(&names);
    missing.retain(|oid| !objects.contains_listed(oid));
    report.known = (names.len() - missing.len()) as u64;
    Ok(missing.into_iter().map(|oid| (oid, wanted[&oid])).collect())
}

impl Plan {
    /// Takes those contents of a table that are missing.
    fn add(&mut self, segment: Digest, table: Table, missing: &mut HashMap<ObjectId, usize>) {
        let number = self.tables.len();
        let before = self.jobs.len();
        for (at, group) in table.groups().iter().enumerate() {
            let mut contents = table.contents()[group.contents.clone()].iter();
            // Each is taken from one table.
            if contents.by_ref().filter(|content| missing.remove(&content.oid).is_some()).count() == 0 {
                continue;
            }
            let range = group.offset..group.offset + group.len;
            match self.jobs[before..].last_mut() {
                Some(last)
                    if range.start - last.range.end <= GAP && range.end - last.range.start <= RANGE =>
                {
                    last.range.end = range.end;
                    last.groups.push(at);
                }
                _ => self.jobs.push(Job { table: number, groups: vec![at], range }),
            }
        }
        if self.jobs.len() > before {
            self.tables.push((segment, table));
        }
    }
}
