//! Removals: files first, then each directory as soon as its last child is removed, so the deepest
//! first.
//!
//! A missing path counts as removed: its directory may be empty now. A file that has appeared at
//! such a path stays. A path that cannot be removed stays, and the run does not fail. A directory
//! that still holds a file stays without a message. So do the worktree's root and the command's
//! current directory.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bstr::BStr;

use super::{
    Action, Outcome, Run, StepError,
    directories::{Directories, Handles, Unreachable},
    layout::Layout,
    round::into_outcomes,
};
use crate::{
    checkout::{Premise, Removal},
    files::{Failed, Removed},
    look::copy_error,
};

/// Performs the plan's removals.
pub(super) fn remove(run: &Run<'_>) -> Vec<Outcome> {
    let removals = &run.plan.removals;
    let layout =
        Layout::new(removals.iter().enumerate().map(|(step, removal)| (step, removal.path.as_slice())));
    let directories = Directories::new(run, &layout);
    let outcomes: Vec<OnceLock<Outcome>> = removals.iter().map(|_| OnceLock::new()).collect();
    let progress = RemovalProgress::new(&layout, run.options.original_cwd);
    run.crew(removals.len()).run(
        "removal",
        layout.weights(),
        |_| Handles::new(&directories),
        |handles, units, done| {
            for unit in &layout.units[units] {
                if run.interrupted() {
                    return;
                }
                let dir = handles.open(unit.dir);
                for &(step, name) in &layout.steps[unit.steps.clone()] {
                    if run.interrupted() {
                        return;
                    }
                    let outcome = match &dir {
                        Ok(dir) => {
                            remove_one(run, &removals[step], dir, name).unwrap_or_else(Outcome::Failed)
                        }
                        Err(Unreachable::Missing | Unreachable::Blocked) => Outcome::Kept,
                        Err(Unreachable::Failed(error)) => {
                            Outcome::Undeleted(Action::Unlink.failed()(copy_error(error)))
                        }
                    };
                    if dir.is_ok() {
                        progress.dirs[unit.dir].touched.store(true, Ordering::Relaxed);
                    }
                    let set = outcomes[step].set(outcome);
                    debug_assert!(set.is_ok(), "each removal is done once");
                    run.count_step();
                    done();
                }
                progress.finish_unit(run, unit.dir, handles);
            }
        },
    );
    into_outcomes(outcomes)
}

fn remove_one(run: &Run<'_>, removal: &Removal, dir: &sys::Dir, name: &[u8]) -> Result<Outcome, StepError> {
    let (action, premise) = if removal.gitlink {
        (Action::RemoveDirectory, &Premise::Directory)
    } else {
        (Action::Unlink, &removal.premise)
    };
    match run.within(dir).remove(name, premise, &run.unlinked) {
        Ok(Removed::Gone) => Ok(Outcome::Removed),
        Ok(Removed::Missing) => Ok(Outcome::Kept),
        Ok(Removed::Changed) => Ok(Outcome::Stale),
        Err(Failed::Examine(error)) => Err(Action::Examine.failed()(error)),
        Err(Failed::Change(error)) => Ok(Outcome::Undeleted(action.failed()(error))),
    }
}

/// Counts the unfinished children of each directory.
struct RemovalProgress<'r> {
    layout: &'r Layout<'r>,
    /// See [`super::ExecuteOptions::original_cwd`].
    cwd: Option<&'r BStr>,
    dirs: Vec<Count>,
}

#[derive(Default)]
struct Count {
    /// Number of units and subdirectories that are not finished.
    pending: AtomicUsize,
    /// True if an entry was removed, so that the directory may be empty now.
    touched: AtomicBool,
}

impl<'r> RemovalProgress<'r> {
    fn new(layout: &'r Layout<'r>, cwd: Option<&'r BStr>) -> Self {
        let mut dirs: Vec<Count> = layout.dirs.iter().map(|_| Count::default()).collect();
        let children = layout.dirs.iter().skip(1).map(|dir| dir.parent);
        for dir in children.chain(layout.units.iter().map(|unit| unit.dir)) {
            *dirs[dir].pending.get_mut() += 1;
        }
        RemovalProgress { layout, cwd, dirs }
    }

    /// Counts one finished unit of `dir`. The worker that finishes the last one removes the
    /// directory, then does the same for its parent.
    fn finish_unit(&self, run: &Run<'_>, mut dir: usize, handles: &mut Handles<'_>) {
        while dir != 0 && self.dirs[dir].pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let directory = &self.layout.dirs[dir];
            if self.dirs[dir].touched.load(Ordering::Relaxed)
                && self.cwd.is_none_or(|cwd| directory.path != cwd)
                && let Ok(parent) = handles.open(directory.parent)
                && run.within(&parent).remove_empty(directory.name()).is_ok()
            {
                self.dirs[directory.parent].touched.store(true, Ordering::Relaxed);
            }
            dir = directory.parent;
        }
    }
}
