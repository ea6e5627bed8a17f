//! Finds files that exist although their entries have the skip-worktree flag.
//!
//! Like Git, every reader of a sparse worktree's index first clears these flags, so that changes to
//! such files are detected. Only the index in memory is changed.

use bstr::BStr;
use format::index::{Flags, Index};
use sys::{Dir, FileType};

use crate::look::{
    LookError,
    facts::{self, QueryKind, Seen},
};

/// Clears the skip-worktree flag of entries whose files exist.
pub fn clear_present(worktree: &Dir, index: &mut Index) -> Result<(), LookError> {
    let there = present(worktree, index)?;
    clear(index, &there);
    Ok(())
}

/// Clears the skip-worktree flag of the entries at these positions.
pub fn clear(index: &mut Index, there: &[usize]) {
    for &at in there {
        index.update(at, |entry| entry.flags.remove(Flags::SKIP_WORKTREE));
    }
}

/// Returns the positions of skipped entries whose paths exist, in order. In a sparse index these
/// may be directory entries.
pub fn present(worktree: &Dir, index: &Index) -> Result<Vec<usize>, LookError> {
    let skipped = |at: &usize| index.entry(*at).flags.contains(Flags::SKIP_WORKTREE);
    let len = if index.may_have(Flags::SKIP_WORKTREE) { index.len() } else { 0 };
    let skipped: Vec<usize> = (0..len).filter(skipped).collect();
    let name = |at: usize| {
        let path = index.path_at(at);
        path.strip_suffix(b"/").map_or(path, BStr::new)
    };
    // Listing the directories is not sufficient: if case is ignored, the existing name may be
    // spelled differently.
    let queries: Vec<(&BStr, QueryKind)> = skipped.iter().map(|&at| (name(at), QueryKind::Stat)).collect();
    let seen = facts::probe(worktree, index, &queries)?;
    let there = |(at, seen): (usize, Seen)| {
        let there = match seen {
            // Git passes the path with its slash to `lstat`, which matches only a directory or a
            // link to one.
            Seen::There(stat) if index.path_at(at).ends_with(b"/") => {
                stat.file_type == FileType::Directory || worktree.is_present_through_links(index.path_at(at))
            }
            Seen::There(_) => true,
            // Git's `lstat` follows links in leading components.
            Seen::Blocked(_, stat) if stat.file_type == FileType::Symlink => {
                worktree.is_present_through_links(name(at))
            }
            _ => false,
        };
        there.then_some(at)
    };
    Ok(skipped.iter().copied().zip(seen).filter_map(there).collect())
}
