//! Files that are there although their entries are marked as skipped.
//!
//! Whoever reads the index of a sparse worktree takes the mark off them first, as Git does: such a file is one like any
//! other, and its changes are not overlooked. Only the index in memory changes.

use bstr::BStr;
use format::index::{Flags, Index};
use sys::{Dir, FileType};

use crate::look::{
    LookError,
    facts::{self, Seen, Want},
};

/// Takes the skip-worktree mark off the entries whose files are there.
pub fn clear_present(worktree: &Dir, index: &mut Index) -> Result<(), LookError> {
    let there = present(worktree, index)?;
    clear(index, &there);
    Ok(())
}

/// The same for entries that were found already.
pub fn clear(index: &mut Index, there: &[usize]) {
    for &at in there {
        index.entries_mut()[at].flags.remove(Flags::SKIP_WORKTREE);
    }
}

/// The skipped entries at whose paths there is something, in order. Of a sparse index also directories.
pub fn present(worktree: &Dir, index: &Index) -> Result<Vec<usize>, LookError> {
    let skipped = |at: &usize| index.entries()[*at].flags.contains(Flags::SKIP_WORKTREE);
    let skipped: Vec<usize> = (0..index.entries().len()).filter(skipped).collect();
    let name = |at: usize| {
        let path = index.path_at(at);
        path.strip_suffix(b"/").map_or(path, BStr::new)
    };
    // Not by listing: where case does not count, what is there may be spelt otherwise.
    let questions: Vec<(&BStr, Want)> = skipped.iter().map(|&at| (name(at), Want::Stat)).collect();
    let seen = facts::probe(worktree, index, &questions)?;
    let there = |(at, seen): (usize, Seen)| {
        let there = match seen {
            // Git looks with the slash at the end, which only a directory answers to, or a link to one.
            Seen::There(stat) if index.path_at(at).ends_with(b"/") => {
                stat.file_type == FileType::Directory || worktree.is_present_through_links(index.path_at(at))
            }
            Seen::There(_) => true,
            // Git's look follows a link on the way.
            Seen::Blocked(_, stat) if stat.file_type == FileType::Symlink => {
                worktree.is_present_through_links(name(at))
            }
            _ => false,
        };
        there.then_some(at)
    };
    Ok(skipped.iter().copied().zip(seen).filter_map(there).collect())
}
