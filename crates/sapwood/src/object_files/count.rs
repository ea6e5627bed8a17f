//! The number of loose objects, and the content of the object directory.
//!
//! Order: files that linked worktrees should not have; loose objects; packs. As in Git, the first
//! loose object comes after the files in the pack directories that are not packs: Git looks for the
//! object there. Nothing is changed. A file that cannot be examined is garbage.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, object_files::count};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let report = count::plan(&repository, count::Request { verbose: true })?.run(&Silent)?;
//! println!("{} loose objects, {} packs", report.loose, report.packs);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use format::ObjectId;
use repo::Repository;
use sys::by_path;

use super::{Loose, packs};
use crate::{Error, Events, Notice, PlanError, RunError, events::Notices, settings, text};

/// The options of a count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Examine packs and garbage, too.
    pub verbose: bool,
}

/// The numbers, in Git's terms. Sizes are in bytes. Only [`Report::loose`] and its size are known
/// without [`Request::verbose`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Loose objects.
    pub loose: u64,
    /// The space that they take.
    pub loose_size: u64,
    /// Loose objects that a pack also contains.
    pub prunable: u64,
    /// Objects in packs.
    pub packed: u64,
    /// Packs.
    pub packs: u64,
    /// The size of packs and their indexes.
    pub pack_size: u64,
    /// Files that do not belong there.
    pub garbage: u64,
    /// Their size.
    pub garbage_size: u64,
}

/// Numbers to be reported.
pub struct Plan {
    report: Report,
    notices: Vec<Notice>,
}

/// Counts. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan, PlanError> {
    let notices = Notices::default();
    let readers = [settings::refused::Reader::Every, settings::refused::Reader::Repository];
    let checked = settings::refused::check(&repository.inner, &readers);
    checked.map_err(Error::from)?;
    let report = count(&repository.inner, request, &notices);
    Ok(Plan { report, notices: notices.into_vec() })
}

impl Plan {
    /// Reports the notices. Returns the numbers.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(self.report)
    }
}

/// Paths that Git reports as garbage in the Git directory of a linked worktree, in Git's order.
const SHARED_PATHS: &[&str] = &[
    "branches",
    "common",
    "hooks",
    "info",
    "info/sparse-checkout",
    "logs/refs/bisect",
    "logs/refs/rewritten",
    "logs/refs/worktree",
    "lost-found",
    "objects",
    "refs",
    "refs/bisect",
    "refs/rewritten",
    "refs/worktree",
    "remotes",
    "worktrees",
    "rr-cache",
    "svn",
    "config",
    "packed-refs",
    "shallow",
];

/// Counts the objects of a repository.
pub fn count(repo: &Repository, request: Request, events: &dyn Events) -> Report {
    let shown = repo.display_objects_dir();
    let mut report = Report::default();
    if !request.verbose {
        report.count_loose(repo, &shown, None, events);
        return report;
    }
    report.find_shared_paths(repo, events);
    let mut stores = Stores::of(repo, events);
    report.count_loose(repo, &shown, Some(&mut stores), events);
    stores.examine(&mut report, stores.dirs.len());
    let (dir, shown) = (repo.objects_dir().join("pack"), shown.join("pack"));
    packs::count(&mut report, repo, [&dir, &shown], &stores.packs, events);
    report
}

/// The object directories. Git examines one when it first looks for an object in its packs.
struct Stores<'a> {
    repo: &'a Repository,
    events: &'a dyn Events,
    /// The directories in Git's order, and their paths in messages.
    dirs: Vec<(PathBuf, PathBuf)>,
    /// The number of directories that were examined.
    examined: usize,
    /// The names of the packs in the first directory.
    packs: Vec<Vec<u8>>,
}

impl<'a> Stores<'a> {
    fn of(repo: &'a Repository, events: &'a dyn Events) -> Stores<'a> {
        let own = (repo.objects_dir().to_owned(), repo.display_objects_dir());
        let alternates = repo.objects().directories().skip(1).map(|dir| (dir.clone(), dir.clone()));
        let dirs = std::iter::once(own).chain(alternates).collect();
        Stores { repo, events, dirs, examined: 0, packs: Vec::new() }
    }

    /// Reports the garbage in the first `count` directories, unless this was done.
    fn examine(&mut self, report: &mut Report, count: usize) {
        while self.examined < count {
            let is_first = self.examined == 0;
            if is_first {
                crate::status::messages::about_objects(self.repo, self.events);
            }
            let (dir, shown) = &self.dirs[self.examined];
            let (dir, shown) = (dir.join("pack"), shown.join("pack"));
            let packs = packs::find_garbage(report, [&dir, &shown], self.events);
            if is_first {
                self.packs = packs;
            }
            self.examined += 1;
        }
    }

    /// Returns true if a pack has the object. Examines the directories that Git searches for it.
    fn is_packed(&mut self, report: &mut Report, object: &ObjectId) -> bool {
        let is_packed = self.repo.objects().locate_packed(object).is_some();
        if self.examined < self.dirs.len() {
            let files = if is_packed { self.repo.objects().files_of(object) } else { Vec::new() };
            let has = |dir: &Path| files.iter().any(|file| file.starts_with(dir.join("pack")));
            let found = self.dirs.iter().position(|(dir, _)| has(dir));
            self.examine(report, found.map_or(self.dirs.len(), |number| number + 1));
        }
        is_packed
    }
}

impl Report {
    fn find_shared_paths(&mut self, repo: &Repository, events: &dyn Events) {
        if repo.git_dir() == repo.common_dir() {
            return;
        }
        let present = |path: &PathBuf| !matches!(by_path::stat(path), Ok(None));
        let paths = SHARED_PATHS.iter().map(|name| repo.git_dir().join(name));
        paths.filter(present).for_each(|path| self.add_garbage("garbage found", &path, &path, events));
    }

    /// Counts the files in the directories of loose objects, and those that the `stores` also have
    /// in packs.
    fn count_loose(
        &mut self,
        repo: &Repository,
        shown: &Path,
        mut stores: Option<&mut Stores<'_>>,
        events: &dyn Events,
    ) {
        for number in super::directories(repo) {
            let Some(Loose { dir, shown, files }) = super::loose(repo, shown, number, events) else { return };
            let mut path = dir;
            for file in files {
                path.push(&file.name);
                match (file.object, by_path::uninterrupted(|| path.symlink_metadata())) {
                    (Some(object), Ok(found)) if found.is_file() => {
                        self.loose += 1;
                        self.loose_size += found.blocks() * 512;
                        if let Some(stores) = &mut stores {
                            let is_packed = stores.is_packed(self, &object);
                            self.prunable += u64::from(is_packed);
                        }
                    }
                    _ if stores.is_some() => {
                        self.add_garbage("garbage found", &path, &shown.join(&file.name), events);
                    }
                    _ => {}
                }
                path.pop();
            }
        }
    }

    /// Counts the file at `path`, which messages call `shown`.
    pub(super) fn add_garbage(&mut self, reason: &str, path: &Path, shown: &Path, events: &dyn Events) {
        if let Ok(found) = by_path::uninterrupted(|| path.metadata()) {
            self.garbage_size += found.len();
        }
        self.garbage += 1;
        events.notice(Notice::Garbage(text!(reason, ": ", shown.as_os_str().as_encoded_bytes())));
    }
}
