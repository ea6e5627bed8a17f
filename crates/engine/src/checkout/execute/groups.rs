//! Assignment of directories to workers on XFS.
//!
//! XFS creates one file at a time in an allocation group. A second worker in the same group sleeps,
//! and wakes up later than necessary. XFS places directories in the groups in turn (a small file
//! system has four), so two workers in different parts of a tree use the same group for every
//! fourth file. Here all directories are created first. Each worker then gets directories with
//! neighbouring inode numbers, and thus allocation groups of its own. On other file systems the
//! extra phase has no benefit.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    Run,
    directories::{Directories, Handles},
    layout::{Layout, Unit},
};

/// Below this number of steps the phase costs more than it saves.
const MIN_STEPS: usize = 1000;

/// Creates the layout's directories, and sorts its units so that [`crew`](crate::crew) splits them
/// by allocation group, if that pays off. A directory that cannot be created is left to the steps
/// that need it.
pub(super) fn arrange<'r>(run: &'r Run<'r>, layout: &mut Layout<'r>) {
    let workers = run.crew(layout.steps.len()).first;
    if layout.steps.len() < MIN_STEPS || workers == 1 || !run.worktree.is_on_xfs() {
        return;
    }
    let inodes: Vec<AtomicU64> = layout.dirs.iter().map(|_| AtomicU64::new(0)).collect();
    let directories = Directories::new(run, layout);
    run.crew(inodes.len()).run(
        "directory",
        inodes.iter().map(|_| 1),
        |_| Handles::new(&directories),
        |handles, dirs, done| {
            for dir in dirs {
                if run.interrupted() {
                    return;
                }
                if let Ok(Ok(stat)) = handles.open_or_create(dir).map(|handle| handle.stat_self()) {
                    inodes[dir].store(stat.ino, Ordering::Relaxed);
                }
                done();
            }
        },
    );
    layout.units = assign_units(&layout.units, |dir| inodes[dir].load(Ordering::Relaxed), workers);
}

/// Splits the units into equal shares, one for each worker, by inode number. Within a share they
/// are in index order, rotated by a different amount in each share. Otherwise all workers would
/// reach the largest files of a tree at once and hold them in memory.
fn assign_units(units: &[Unit], inode: impl Fn(usize) -> u64, workers: usize) -> Vec<Unit> {
    let mut by_inode: Vec<usize> = (0..units.len()).collect();
    by_inode.sort_by_key(|&at| inode(units[at].dir));
    let total: usize = units.iter().map(|unit| unit.steps.len()).sum();
    let mut shares = vec![Vec::new(); workers];
    let mut before = 0;
    for at in by_inode {
        shares[before * workers / total.max(1)].push(at);
        before += units[at].steps.len();
    }
    for (worker, share) in shares.iter_mut().enumerate() {
        share.sort_unstable();
        let start = share.len() * worker / workers;
        share.rotate_left(start);
    }
    shares.into_iter().flatten().map(|at| units[at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_shares_on_disk_and_their_starts_in_the_tree() {
        let units: Vec<Unit> = (0..8).map(|dir| Unit { dir, steps: dir * 10..dir * 10 + 10 }).collect();
        // The file system places directories in four groups in turn.
        let assigned = assign_units(&units, |dir| ((dir as u64 % 4) << 32) + dir as u64, 2);
        let dirs: Vec<usize> = assigned.iter().map(|unit| unit.dir).collect();
        assert_eq!(dirs, [0, 1, 4, 5, 6, 7, 2, 3]);
    }

    #[test]
    fn copes_with_more_workers_than_units() {
        let units = [Unit { dir: 0, steps: 0..1 }, Unit { dir: 1, steps: 1..1000 }];
        assert_eq!(assign_units(&units, |_| 7, 8).len(), 2);
    }
}
