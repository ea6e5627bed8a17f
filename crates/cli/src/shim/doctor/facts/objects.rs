//! The object database: how it is stored, and whether the objects of HEAD and the index exist.

use std::{ffi::OsStr, path::Path};

use format::{
    ObjectId,
    index::{Flags, Index},
    midx::Midx,
};
use repo::Repository;
use sys::by_path;

/// The number of loose-object directories that are listed, out of 256.
const LISTED: usize = 16;

/// The number of index entries whose objects are looked up.
const LOOKUPS: usize = 64;

/// The object database.
#[derive(Debug, Default)]
pub(crate) struct ObjectFacts {
    pub(crate) packs: usize,
    pub(crate) pack_size: u64,
    /// Objects in packs, including those of alternates.
    pub(crate) packed: u64,
    /// Estimated from a few directories, if the repository has many loose objects.
    pub(crate) loose: usize,
    pub(crate) is_loose_exact: bool,
    /// The number of packs that a multi-pack-index covers; `None` without one.
    pub(crate) indexed_packs: Option<usize>,
    pub(crate) has_commit_graph: bool,
    pub(crate) alternates: usize,
    pub(crate) is_partial: bool,
    /// Descriptions of damaged or missing objects.
    pub(crate) damages: Vec<String>,
    /// Missing alternates, in Git's words.
    pub(crate) lost_alternates: Vec<String>,
}

impl ObjectFacts {
    pub(super) fn find(repo: &Repository, index: Option<&Index>) -> ObjectFacts {
        let own = repo.objects_dir();
        let (loose, is_loose_exact) = loose(repo, own);
        let mut facts = ObjectFacts {
            loose,
            is_loose_exact,
            alternates: repo.objects().directories().count().saturating_sub(1),
            is_partial: !crate::commands::obstacles::partial(repo).is_empty(),
            has_commit_graph: repo.objects().directories().any(|dir| has_commit_graph(dir)),
            indexed_packs: indexed_packs(repo, &own.join("pack")),
            ..ObjectFacts::default()
        };
        for (name, _) in by_path::list(&own.join("pack")).unwrap_or_default() {
            if name.as_encoded_bytes().ends_with(b".pack") {
                facts.packs += 1;
                let stat = by_path::stat_followed(&own.join("pack").join(&name)).ok().flatten();
                facts.pack_size += stat.map_or(0, |stat| stat.size);
            }
        }
        facts.lost_alternates.extend(repo.objects().errors().iter().map(ToString::to_string));
        match repo.objects().packed_count() {
            Ok(packed) => facts.packed = packed,
            Err((path, error)) => {
                facts.damages.push(format!("'{}' cannot be read: {}", path.display(), error.reason()));
            }
        }
        facts.damages.extend(damage_of_head(repo));
        if let Some(index) = index.filter(|_| !facts.is_partial) {
            facts.damages.extend(damage_of_index(repo, index));
        }
        facts
    }
}

/// Returns the number of loose objects, and true if it is exact because all directories were
/// listed.
fn loose(repo: &Repository, objects: &Path) -> (usize, bool) {
    let is_hex = |name: &OsStr, digits: usize| {
        let name = name.as_encoded_bytes();
        name.len() == digits && name.iter().all(u8::is_ascii_hexdigit)
    };
    let names = |dir: &Path, digits: usize| {
        let files = by_path::list(dir).unwrap_or_default().into_iter().map(|(name, _)| name);
        files.filter(|name| is_hex(name, digits)).collect::<Vec<_>>()
    };
    let mut dirs = names(objects, 2);
    dirs.sort_unstable();
    let step = dirs.len().div_ceil(LISTED).max(1);
    let listed = dirs.iter().step_by(step);
    let (count, found) = listed.fold((0, 0), |(count, found), dir| {
        (count + 1, found + names(&objects.join(dir), repo.hash().hex_len() - 2).len())
    });
    (found * dirs.len() / count.max(1), step == 1)
}

fn has_commit_graph(objects: &Path) -> bool {
    ["info/commit-graph", "info/commit-graphs/commit-graph-chain"]
        .iter()
        .any(|file| by_path::stat_followed(&objects.join(file)).is_ok_and(|found| found.is_some()))
}

/// Returns the number of packs in the multi-pack-index. A chain of them counts as covering all
/// packs.
fn indexed_packs(repo: &Repository, packs: &Path) -> Option<usize> {
    if let Ok(file) = by_path::open(&packs.join("multi-pack-index")) {
        let parsed = sys::Map::of(&file).ok().and_then(|map| Midx::parse(map, repo.hash()).ok());
        return parsed.map(|found| found.pack_names().len());
    }
    let chain = by_path::stat_followed(&packs.join("multi-pack-index.d/multi-pack-index-chain"));
    chain.ok().flatten().map(|_| usize::MAX)
}

/// Returns a message if the commit of HEAD, or its tree, is missing or damaged.
fn damage_of_head(repo: &Repository) -> Option<String> {
    let head = match repo.head() {
        Ok(head) => head.oid(),
        Err(error) => return Some(format!("HEAD cannot be read: {error}")),
    };
    let damage = |oid: ObjectId| match repo.tree_of(oid) {
        Ok(tree) => repo.objects().header(&tree).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    head.and_then(damage).map(|damage| format!("the commit of HEAD cannot be read: {damage}"))
}

fn damage_of_index(repo: &Repository, index: &Index) -> Option<String> {
    let positions = (0..index.len()).step_by(index.len().div_ceil(LOOKUPS).max(1));
    let entries = positions
        .map(|position| index.entry(position))
        .filter(|entry| !entry.mode.is_gitlink() && !entry.flags.contains(Flags::INTENT_TO_ADD));
    let (mut asked, mut missing) = (0, Vec::new());
    for entry in entries {
        asked += 1;
        if !repo.objects().contains(&entry.oid) {
            missing.push(entry.oid);
        }
    }
    let first = missing.first()?;
    Some(format!("{} of {asked} objects that the index names are missing, such as {first}", missing.len()))
}
