//! Removing loose objects that packs also contain.
//!
//! Order: the loose objects, one directory after another; the pack directories, which are synced
//! before the first object is removed; then objects and empty directories. A directory that cannot
//! be listed ends the work, as in Git. An object is kept if its pack cannot be used.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, object_files::prune_packed};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let plan = prune_packed::plan(&repository)?;
//! println!("{} files are removed", plan.files().len());
//! plan.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use repo::{Repository, objects::Objects};
use store::{Components, Fsync};
use sys::by_path;

use super::Loose;
use crate::{Error, Events, Notice, PlanError, RunError, Silent, events::Notices, status::messages};

/// The number of directories of loose objects.
pub const DIRECTORIES: usize = 256;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The files that were removed, or would be, relative to the directory that was opened.
    pub files: Vec<PathBuf>,
}

/// Files that can be removed.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    report: Report,
    notices: Vec<Notice>,
}

/// Finds the files. Changes nothing.
pub fn plan(repository: &crate::Repository) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let repo = &repository.inner;
    repo.check_grafts().map_err(Error::from)?;
    let mut report = Report::default();
    let options = Options { fsync: repository.settings.fsync, dry_run: true };
    prune(repo, options, &repository.interrupt(), &Silent, &mut |step| report.add(step))?;
    messages::about_objects(repo, &notices);
    Ok(Plan { repository, report, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns the files.
    pub fn files(&self) -> &[PathBuf] {
        &self.report.files
    }

    /// Reports the notices, and removes the files whose objects are in packs by then.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        let mut report = Report::default();
        let options = Options { fsync: self.repository.settings.fsync, dry_run: false };
        let interrupt = self.repository.interrupt();
        prune(&self.repository.inner, options, &interrupt, events, &mut |step| report.add(step))?;
        Ok(report)
    }
}

/// The files, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report.files.iter().try_for_each(|file| writeln!(formatter, "{}", file.display()))
    }
}

impl Report {
    fn add(&mut self, step: Step<'_>) {
        if let Step::File(file) = step {
            self.files.push(file.to_owned());
        }
    }
}

/// A step of the work.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// This file is removed, or would be.
    File(&'a Path),
    /// This number of directories is done.
    Directories(usize),
}

/// The way of the work.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How packs become durable.
    pub fsync: Fsync,
    /// Remove nothing.
    pub dry_run: bool,
}

/// Removes the files. `heard` gets each step.
pub fn prune(
    repo: &Repository,
    options: Options,
    interrupt: &AtomicBool,
    events: &dyn Events,
    heard: &mut dyn FnMut(Step<'_>),
) -> Result<(), Error> {
    // Search the stored objects: a replacement does not stand for the object that it replaces.
    let objects = repo.stored_objects();
    let shown = repo.display_objects_dir();
    let mut pruning = Pruning { objects: &objects, options, events, are_packs_synced: false };
    for number in super::directories(repo) {
        if interrupt.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let Some(Loose { dir, shown, files }) = super::loose(repo, &shown, number, events) else { break };
        for file in files {
            if file.object.is_some_and(|object| objects.locate_packed(&object).is_some()) {
                let shown = shown.join(&file.name);
                if pruning.remove(&dir.join(&file.name), &shown)? {
                    heard(Step::File(&shown));
                }
            }
        }
        if !options.dry_run {
            // The removal fails, as intended, unless the directory is empty.
            let _ = by_path::remove_dir(&dir);
        }
        heard(Step::Directories(usize::from(number) + 1));
    }
    Ok(())
}

struct Pruning<'a> {
    objects: &'a Objects,
    options: Options,
    events: &'a dyn Events,
    are_packs_synced: bool,
}

impl Pruning<'_> {
    /// Returns true if the file is gone, or would be.
    fn remove(&mut self, path: &Path, shown: &Path) -> Result<bool, Error> {
        if self.options.dry_run {
            return Ok(true);
        }
        self.sync_packs()?;
        match by_path::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let failed = format!("unable to unlink '{}': {}", shown.display(), sys::reason(&error));
                self.events.notice(Notice::Undeleted(failed));
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// Makes the directory entries of the packs durable, once.
    fn sync_packs(&mut self) -> Result<(), Error> {
        if self.are_packs_synced {
            return Ok(());
        }
        for dir in self.objects.directories().map(|dir| dir.join("pack")) {
            match self.options.fsync.directory(Components::PACK, &dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let reason = sys::reason(&error);
                    return Err(Error::failed(format!("could not sync '{}': {reason}", dir.display())));
                }
                _ => {}
            }
        }
        self.are_packs_synced = true;
        Ok(())
    }
}
