//! Making way, before anything is created.
//!
//! What may go whatever it is ([`Premise::Anything`]) goes here, in a phase of its own: later it could be
//! this run's own work under another name of the same file. So could be the file that two entries
//! replace, when both of their names lead to it.
//!
//! On failure the step is settled as failed; what was in its way may be gone in part.

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
    round::again,
    subtree,
};
use crate::checkout::{Premise, Write};

/// Removes what stands in the way of steps that may have it removed, and settles those where that fails.
pub(super) fn clear(run: &Run<'_>, outcomes: &[OnceLock<Outcome>]) {
    let writes = &run.plan.writes;
    let twins = unchanged(run, twins(writes));
    let steps = (0..writes.len())
        .filter(|step| matches!(writes[*step].premise, Premise::Anything) || twins.contains(step));
    let layout = Layout::new(steps.map(|step| (step, run.write(step).2)));
    let directories = Directories::new(run.worktree, &layout, &run.made);
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
                let dir = match handles.existing(unit.dir) {
                    Err(Unreachable::Blocked) => Err(unblock(run.worktree, layout.dirs[unit.dir].path).err()),
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
                        Ok(dir) => clear_one(dir, name, run.write(step).1.mode.is_gitlink()),
                        Err(None) => Ok(()),
                        Err(Some(error)) => Err(again(error)),
                    };
                    if let Err(error) = cleared {
                        let set = outcomes[step].set(Outcome::Failed(Action::UnlinkOld.failed()(error)));
                        debug_assert!(set.is_ok(), "nothing was settled before");
                        run.finished();
                    }
                    done();
                }
            }
        },
    );
}

/// Directories found not to be there, by their place in the layout. Nothing is created meanwhile, and should somebody
/// else do so, the step finds it in its way.
struct Missing(Vec<AtomicBool>);

impl Missing {
    /// Whether `dir` or one above it is known to be missing.
    fn includes(&self, layout: &Layout<'_>, mut dir: usize) -> bool {
        while dir != 0 && !self.0[dir].load(Ordering::Relaxed) {
            dir = layout.dirs[dir].parent;
        }
        dir != 0
    }
}

/// Steps that replace one and the same file: on this file system their names are the same, or they are
/// hard links. Removing it under one name changes what is seen under the other.
fn twins(writes: &[Write]) -> BTreeSet<usize> {
    let mut seen: HashMap<FileId, usize> = HashMap::new();
    let mut twins = BTreeSet::new();
    for (step, write) in writes.iter().enumerate() {
        if let Premise::Unchanged(stat) = &write.premise
            && let Some(other) = seen.insert(file_id(stat), step)
        {
            twins.extend([other, step]);
        }
    }
    twins
}

/// Those whose premise holds. The others find out when it is their turn.
fn unchanged(run: &Run<'_>, mut steps: BTreeSet<usize>) -> BTreeSet<usize> {
    steps.retain(|&step| {
        let (write, _, path) = run.write(step);
        let found = run.worktree.stat(path).ok().flatten();
        found.is_some_and(|found| matches!(&write.premise, Premise::Unchanged(seen) if **seen == found))
    });
    steps
}

/// Removes the leading component that is no directory.
fn unblock(worktree: &sys::Dir, dir: &[u8]) -> io::Result<()> {
    match find_obstacle(worktree, dir)? {
        Some(Obstacle { len, stat }) if stat.file_type != FileType::Directory => {
            absent(worktree.remove_file(&dir[..len]))
        }
        _ => Ok(()),
    }
}

fn clear_one(dir: &sys::Dir, name: &[u8], gitlink: bool) -> io::Result<()> {
    let Err(error) = absent(dir.remove_file(name)) else { return Ok(()) };
    match dir.stat(name)? {
        Some(stat) if stat.file_type == FileType::Directory => match gitlink {
            true => Ok(()),
            false => {
                subtree::visit(&dir.open_dir(name)?, &mut subtree::remove)?;
                absent(dir.remove_dir(name))
            }
        },
        _ => Err(error),
    }
}

/// Somebody else was faster.
fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
