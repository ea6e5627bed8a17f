//! One index for all packs.
//!
//! Order of a change: the lock on the file; the old file; the packs; the new file, which is on disk
//! before anything is removed. A file that is up to date is kept, even if the lock is held. Bitmaps
//! and incremental files are Unsupported.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, multi_pack_index::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let report = multi_pack_index::plan(&repository, Request::default())?.run(&Silent)?;
//! println!("{} packs", report.pack_count);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod expire;
mod prepare;
pub mod verify;

use bstr::BString;
pub use engine::midx::{Error as FileError, PackDir};
use repo::{Repository, keys};

pub use self::prepare::{Prepared, prepare};
use crate::{
    Context, Error, Events, Notice, PlanError, RunError, Silent, events::Notices, object_files::ObjectDir,
};

/// The packs of a new file.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The packs with these index files; `None` for all packs.
    pub packs: Option<Vec<BString>>,
    /// Prefer the copies of this pack. The name ends in `.pack` or `.idx`.
    pub preferred: Option<BString>,
}

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of packs in the new file; 0 if none was written.
    pub pack_count: usize,
    /// The number of objects in the new file.
    pub object_count: usize,
}

/// A step of planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The objects of the old file were counted.
    Counted(usize),
    /// This number of packs was found so far.
    Found(usize),
    /// All of them were found.
    FoundAll(usize),
}

/// A new file, with its lock.
pub struct Plan<'r> {
    repository: &'r crate::Repository,
    prepared: Option<Prepared<'r>>,
    notices: Vec<Notice>,
}

/// Merges the objects of the packs.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let pack_dir = pack_dir(context.repo, &ObjectDir::own(context.repo))?;
    let version = version(context.repo)?;
    let prepared = prepare(context, &pack_dir, version, &request, &mut |_| {})?;
    let prepared = prepared.map(|prepared| prepared.with_context(repository.context(&Silent)));
    Ok(Plan { repository, prepared, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Returns true if the file is missing or out of date.
    pub fn is_needed(&self) -> bool {
        self.prepared.is_some()
    }

    /// Reports the notices, and writes the file.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, prepared, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        match prepared {
            Some(prepared) => Ok(prepared.with_context(repository.context(events)).write()?),
            None => Ok(Report::default()),
        }
    }
}

/// Returns the pack directory of an object directory.
pub fn pack_dir(repo: &Repository, dir: &ObjectDir) -> Result<PackDir, PlanError> {
    let pack_dir = PackDir { path: dir.path.join("pack"), shown: dir.shown.join("pack"), hash: repo.hash() };
    if pack_dir.has_companions() {
        return Err(unsupported("bitmaps and layers of multi-pack-indexes"));
    }
    Ok(pack_dir)
}

/// Creates a pack directory, unless it exists.
pub fn create(context: Context<'_>, pack_dir: &PackDir) -> Result<(), Error> {
    context.settings.locks.shared.create_dir_all(&pack_dir.path).map_err(|error| {
        let (path, reason) = (pack_dir.shown.join("multi-pack-index"), sys::reason(&error));
        Error::failed(format!("unable to create leading directories of {}: {reason}", path.display()))
    })
}

/// Returns the version of a new file: `midx.version`.
pub fn version(repo: &Repository) -> Result<u8, Error> {
    match repo.config(&keys::midx::VERSION)? {
        None => Ok(1),
        Some(version @ (1 | 2)) => Ok(version as u8),
        Some(version) => Err(Error::failed(format!("unknown MIDX version: {version}"))),
    }
}

/// Returns the error for a case that is left to Git.
fn unsupported(what: &'static str) -> PlanError {
    PlanError::Unsupported(what)
}
