//! Keeping workers out of each other's way on XFS.
//!
//! XFS creates one file at a time in an allocation group; whoever comes second sleeps, and is woken later than it could
//! go on. Directories are dealt to the groups in turn (a small file system has four), so that two workers in different parts of a
//! tree meet in every fourth file. Here all directories are made first, and each worker is given those of neighbouring inode
//! numbers, which is to say of groups of its own. Elsewhere that would be a phase more for nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    Run,
    directories::{Directories, Handles},
    layout::{Layout, Unit},
};

/// With fewer steps there is less to gain than the phase costs.
const FROM: usize = 1000;

/// Makes the layout's directories and puts its units in an order that [`crew`](crate::crew) divides by groups, if
/// that is of use. A directory that cannot be had is left to the steps that need it.
pub(super) fn arrange<'r>(run: &'r Run<'r>, layout: &mut Layout<'r>) {
    let workers = run.crew(layout.steps.len()).first;
    if layout.steps.len() < FROM || workers == 1 || !run.worktree.is_on_xfs() {
        return;
    }
    let inodes: Vec<AtomicU64> = layout.dirs.iter().map(|_| AtomicU64::new(0)).collect();
    let directories = Directories::new(run.worktree, layout, &run.made);
    run.crew(inodes.len()).run(
        "directory",
        inodes.iter().map(|_| 1),
        |_| Handles::new(&directories),
        |handles, dirs, done| {
            for dir in dirs {
                if run.interrupted() {
                    return;
                }
                if let Ok(Ok(stat)) = handles.made(dir).map(|handle| handle.stat_self()) {
                    inodes[dir].store(stat.ino, Ordering::Relaxed);
                }
                done();
            }
        },
    );
    layout.units = deal(&layout.units, |dir| inodes[dir].load(Ordering::Relaxed), workers);
}

/// The units in as many equal shares as there are workers, by inode number, and within each in the order of the index. That order
/// begins elsewhere in each share, or all workers would come to a tree's largest files, and hold them in memory, at once.
fn deal(units: &[Unit], inode: impl Fn(usize) -> u64, workers: usize) -> Vec<Unit> {
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
    fn shares_are_apart_on_the_disk_and_begin_apart_in_the_tree() {
        let units: Vec<Unit> = (0..8).map(|dir| Unit { dir, steps: dir * 10..dir * 10 + 10 }).collect();
        // Dealt in turn to four groups.
        let dealt = deal(&units, |dir| ((dir as u64 % 4) << 32) + dir as u64, 2);
        let dirs: Vec<usize> = dealt.iter().map(|unit| unit.dir).collect();
        assert_eq!(dirs, [0, 1, 4, 5, 6, 7, 2, 3]);
    }

    #[test]
    fn more_workers_than_units() {
        let units = [Unit { dir: 0, steps: 0..1 }, Unit { dir: 1, steps: 1..1000 }];
        assert_eq!(deal(&units, |_| 7, 8).len(), 2);
    }
}
