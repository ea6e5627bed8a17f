//! Removal of files in the way, before anything is created.
//!
//! Steps whose premise is [`Premise::Anything`] remove the old file in this phase. A later removal
//! could delete a file that this run wrote under another name that the file system treats as equal.
//! The phase also removes a file that two entries replace because both of their names refer to it.
//!
//! On failure the step fails; the files in its way may be partly removed.

use std::{
    collections::{BTreeSet, HashMap},
    io,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use sys::FileType;

use super::{
    Action, Outcome, Run,
    collide::{Obstacle, find_obstacle},
    directories::{Directories, FileId, Handles, Unreachable, file_id},
    layout::Layout,
};
use crate::{
    checkout::{Premise, Write},
    files::Proof,
    look::copy_error,
};

/// Removes old files that may be removed in any state. Sets the outcome of each step whose removal
/// fails.
pub(super) fn clear(run: &Run<'_>, outcomes: &[OnceLock<Outcome>]) {
    let writes = &run.plan.writes;
    let shared_files = retain_unchanged(run, shared_files(writes));
    let steps = (0..writes.len())
        .filter(|step| matches!(writes[*step].premise, Premise::Anything) || shared_files.contains(step));
    let layout = Layout::new(steps.map(|step| (step, run.write(step).2)));
    let directories = Directories::new(run, &layout);
    let missing = Missing(layout.dirs.iter().map(|_| AtomicBool::new(false)).collect());
    run.crew(layout.steps.len()).run(
        "clear",
        layout.weights(),
        |_| Handles::new(&directories),
        |handles, units, done| {
            for unit in &layout.units[units] {
                if run.interrupted() {
                    return;
                }
                if missing.includes(&layout, unit.dir) {
                    unit.steps.clone().for_each(|_| done());
                    continue;
                }
                let dir = match handles.open(unit.dir) {
                    Err(Unreachable::Blocked) => Err(unblock(run, layout.dirs[unit.dir].path).err()),
                    Err(Unreachable::Missing) => {
                        missing.0[unit.dir].store(true, Ordering::Relaxed);
                        Err(None)
                    }
                    Err(Unreachable::Failed(error)) => Err(Some(error)),
                    Ok(dir) => Ok(dir),
                };
                for &(step, name) in &layout.steps[unit.steps.clone()] {
                    if run.interrupted() {
                        return;
                    }
                    let cleared = match &dir {
                        Ok(dir) => clear_one(run, dir, name, step),
                        Err(None) => Ok(()),
                        Err(Some(error)) => Err(copy_error(error)),
                    };
                    if let Err(error) = cleared {
                        let set = outcomes[step].set(Outcome::Failed(Action::UnlinkOld.failed()(error)));
                        debug_assert!(set.is_ok(), "nothing was settled before");
                        run.count_step();
                    }
                    done();
                }
            }
        },
    );
}

/// Directories found missing, by their index in the layout. This phase creates nothing. If another
/// process creates such a directory, the step later reports its path as blocked.
struct Missing(Vec<AtomicBool>);

impl Missing {
    /// Returns true if `dir` or a directory above it is known to be missing.
    fn includes(&self, layout: &Layout<'_>, mut dir: usize) -> bool {
        while dir != 0 && !self.0[dir].load(Ordering::Relaxed) {
            dir = layout.dirs[dir].parent;
        }
        dir != 0
    }
}

/// Returns the steps that replace the same file: their names are equal on this file system, or they
/// are hard links. Removing the file under one name affects the other name.
fn shared_files(writes: &[Write]) -> BTreeSet<usize> {
    let mut seen: HashMap<FileId, usize> = HashMap::new();
    let mut shared_files = BTreeSet::new();
    for (step, write) in writes.iter().enumerate() {
        if let Premise::Unchanged(stat) = &write.premise
            && let Some(other) = seen.insert(file_id(stat), step)
        {
            shared_files.extend([other, step]);
        }
    }
    shared_files
}

/// Keeps the steps whose premise holds. The other steps fail later, when they are executed.
fn retain_unchanged(run: &Run<'_>, mut steps: BTreeSet<usize>) -> BTreeSet<usize> {
    steps.retain(|&step| {
        let (write, _, path) = run.write(step);
        let found = run.worktree.stat(path).ok().flatten();
        found.is_some_and(|found| match &write.premise {
            Premise::Unchanged(seen) => run.unlinked.is_unchanged(seen, &found),
            _ => false,
        })
    });
    steps
}

/// Removes the leading component of `dir` that is not a directory.
fn unblock(run: &Run<'_>, dir: &[u8]) -> io::Result<()> {
    match find_obstacle(run.worktree, dir)? {
        Some(Obstacle { len, stat }) if stat.file_type != FileType::Directory => {
            run.unlinked.mark(&stat);
            let Some(proof) = Proof::of(&Premise::Anything, &stat, &run.unlinked) else { return Ok(()) };
            ignore_missing(run.within(run.worktree).remove_proven(&dir[..len], proof))
        }
        _ => Ok(()),
    }
}

fn clear_one(run: &Run<'_>, dir: &sys::Dir, name: &[u8], step: usize) -> io::Result<()> {
    let (write, entry, _) = run.write(step);
    // A file that has changed stays. Its step fails later.
    let Err(failed) = run.within(dir).remove(name, &write.premise, &run.unlinked) else { return Ok(()) };
    match dir.stat(name)? {
        Some(stat) if stat.file_type == FileType::Directory && entry.mode.is_gitlink() => Ok(()),
        Some(stat) if stat.file_type == FileType::Directory => {
            ignore_missing(run.within(dir).remove_tree(name, &write.premise, &run.unlinked))
        }
        _ => Err(failed.into_source()),
    }
}

/// Ignores the removal of a file that another process has removed.
fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
