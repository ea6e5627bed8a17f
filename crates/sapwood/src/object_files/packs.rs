//! The pack directory: the contents of the packs, and files that do not belong there.

use std::{ffi::OsString, path::Path};

use bstr::ByteSlice as _;
use format::idx::Idx;
use repo::Repository;
use sys::by_path;

use super::count::Report;
use crate::{Events, Notice};

/// The suffixes of a pack and its companion files.
const SUFFIXES: &[&str] = &[".idx", ".rev", ".pack", ".bitmap", ".keep", ".promisor", ".mtimes"];

/// Reports the files of a pack directory that do not belong there. The second path is for messages.
/// Returns the names of the packs that have an index, without suffix.
///
/// In Git's order: files with other suffixes as the directory lists them, then groups by name.
pub(super) fn find_garbage(
    counts: &mut Report,
    [dir, shown]: [&Path; 2],
    events: &dyn Events,
) -> Vec<Vec<u8>> {
    let mut of_packs = Vec::new();
    for (name, _) in by_path::list(dir).unwrap_or_default() {
        let bytes = name.as_encoded_bytes();
        if SUFFIXES.iter().any(|suffix| bytes.ends_with(suffix.as_bytes())) {
            of_packs.push(name);
        } else if !is_multi_pack_index(bytes) {
            counts.add_garbage("garbage found", &dir.join(&name), &shown.join(&name), events);
        }
    }
    of_packs.sort_unstable();
    let mut rest = of_packs.as_slice();
    while let Some(first) = rest.first() {
        // As in Git, `a.idx.pack` belongs to the group of `a.idx`.
        let stem = [stem(first), b"."].concat();
        let (group, others) =
            rest.split_at(rest.iter().take_while(|name| name.as_encoded_bytes().starts_with(&stem)).count());
        rest = others;
        let has = |suffix: &[u8]| group.iter().any(|name| &name.as_encoded_bytes()[stem.len()..] == suffix);
        let reason = match (has(b"pack"), has(b"idx")) {
            (true, true) => continue,
            (true, false) => "no corresponding .idx",
            (false, true) => "no corresponding .pack",
            (false, false) => "no corresponding .idx or .pack",
        };
        group.iter().for_each(|name| counts.add_garbage(reason, &dir.join(name), &shown.join(name), events));
    }
    let indexes = of_packs.iter().filter(|name| name.as_encoded_bytes().ends_with(b".idx"));
    let is_whole =
        |stem: &[u8]| of_packs.binary_search(&sys::os_str(&[stem, b".pack"].concat()).to_owned()).is_ok();
    indexes.map(stem).filter(|stem| is_whole(stem)).map(<[u8]>::to_vec).collect()
}

/// Counts the packs `stems` of a pack directory, whose second path is for messages.
pub(super) fn count(
    counts: &mut Report,
    repo: &Repository,
    dirs: [&Path; 2],
    stems: &[Vec<u8>],
    events: &dyn Events,
) {
    stems.iter().for_each(|stem| add_pack(counts, repo, dirs, stem, events));
}

fn is_multi_pack_index(name: &[u8]) -> bool {
    name == b"multi-pack-index"
        || name == b"multi-pack-index.d"
        || name.starts_with(b"multi-pack-index") && (name.ends_with(b".bitmap") || name.ends_with(b".rev"))
}

/// Returns the name without its suffix.
fn stem(name: &OsString) -> &[u8] {
    let name = name.as_encoded_bytes();
    &name[..name.rfind_byte(b'.').unwrap_or(name.len())]
}

/// Adds the pack `stem` of the pack directory, whose second path is for messages. Reports an index
/// that cannot be read, and does not count its pack.
fn add_pack(counts: &mut Report, repo: &Repository, dirs: [&Path; 2], stem: &[u8], events: &dyn Events) {
    let file = |dir: &Path, suffix: &[u8]| dir.join(sys::os_str(&[stem, suffix].concat()));
    let [dir, shown] = dirs;
    let (pack, index) = (file(dir, b".pack"), file(dir, b".idx"));
    let map = by_path::open(&index).and_then(|file| sys::Map::of(&file));
    let shown = file(shown, b".idx");
    let parsed = map
        .map_err(|error| format!("cannot read '{}': {}", shown.display(), sys::reason(&error)))
        .and_then(|map| Idx::parse(map, repo.hash()).map_err(|error| error.about(shown.display())));
    let objects = match parsed {
        Ok(index) => index.count(),
        Err(error) => {
            events.notice(Notice::UnreadableObjects(error.to_string()));
            return;
        }
    };
    let size = |path: &Path| by_path::stat_followed(path).ok().flatten().map_or(0, |stat| stat.size);
    counts.packs += 1;
    counts.packed += u64::from(objects);
    counts.pack_size += size(&pack) + size(&index);
}
