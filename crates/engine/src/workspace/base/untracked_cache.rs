//! The untracked cache of a base, equal to Git's after the first `git status` in a new workspace:
//! every directory is recorded, and nothing is untracked.
//!
//! Two facts differ between workspaces, and are set when the index is installed: the path of the
//! worktree, and the object names of the ignore files outside of it. The stat data of the root
//! differ too, because its inode is that of the upper layer. They stay zero. With a monitor they
//! are not needed, and without one only the root is listed.

use std::collections::BTreeMap;

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Flags, Index, Stage, Stat, UntrackedCache, untracked::Listed},
};

use crate::look::untracked;

const RULES: &[u8] = b".gitignore";

/// Adds the cache to `index`. `stat` returns the stat data of a directory, given its path without a
/// slash at the end, or zeros if they are unknown.
pub(super) fn prefill(index: &mut Index, stat: &dyn Fn(&BStr) -> Stat) {
    let null = ObjectId::null(index.hash);
    let ident = untracked::cache::ident_of(b"");
    let mut cache = UntrackedCache::new(ident.as_bstr(), UntrackedCache::NORMAL, index.hash);
    cache.record([null; 2], directories(index, stat));
    index.untracked = Some(cache);
}

/// Returns the record of each directory that exists in a workspace.
fn directories(index: &Index, stat: &dyn Fn(&BStr) -> Stat) -> BTreeMap<BString, Listed> {
    let mut found = BTreeMap::from([(BString::default(), listed(Stat::default()))]);
    let mut last = BString::default();
    let present = |at: &usize| !index.entry(*at).flags.contains(Flags::SKIP_WORKTREE);
    for at in (0..index.len()).filter(present) {
        let path = index.path_at(at);
        let dir = &path[..path.rfind_byte(b'/').unwrap_or(0)];
        if last == dir {
            continue;
        }
        let mut above = BString::default();
        for end in dir.find_iter("/").chain([dir.len()]) {
            let below = dir[..end].as_bstr();
            if !found.contains_key(below) {
                found.insert(below.into(), listed(stat(below)));
                let name = below[below.rfind_byte(b'/').map_or(0, |slash| slash + 1)..].into();
                found.get_mut(&above).expect("recorded before").directories.push(name);
            }
            above = below.into();
        }
        last = dir.into();
    }
    for (dir, listed) in &mut found {
        listed.directories.sort();
        let rules = if dir.is_empty() { RULES.into() } else { [dir.as_slice(), b"/", RULES].concat() };
        // Outside of the sparse patterns, Git reads a `.gitignore` from the index.
        if let Ok(at) = index.position(rules.as_bstr(), Stage::Normal) {
            let entry = index.entry(at);
            listed.exclude = entry.mode.is_file().then_some(entry.oid);
        }
    }
    found
}

fn listed(stat: Stat) -> Listed {
    Listed {
        stat,
        untracked: Vec::new(),
        check_only: false,
        exclude: None,
        directories: Vec::new(),
        rules_changed: false,
    }
}
