//! The index of a pack: of a file, or of a stream that becomes a pack of the repository
//! ([`receive`]).
//!
//! Order: the settings; the whole pack, and the checks of its objects; then the files are written
//! and renamed, the index last. After an error no new file is left behind.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, index_pack::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = Request { pack: "/tmp/some.pack".into(), ..Request::default() };
//! let report = index_pack::plan(&repository, request)?.run(&Silent)?;
//! println!("{:?}", report.checksum);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod indexing;
pub mod receive;
mod verify;

use bstr::BString;
use format::{HashKind, ObjectId};
pub use repo::pack_indexing::{Meter, Source};

pub use self::indexing::{Contents, Indexing, PackFile, Place};
use crate::{Context, Error, Events, Notice, PlanError, Repository, RunError, Silent, events::Notices};

/// How a pack is indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The number of threads; `None` to follow `pack.threads`.
    pub threads: Option<usize>,
    /// The version of the index, 1 or 2; `None` to follow `pack.indexVersion`.
    pub version: Option<u32>,
    /// Store offsets above this one with 64 bits.
    pub largest_short: Option<u64>,
    /// Write a reverse index; `None` to follow `pack.writeReverseIndex`.
    pub reverse: Option<bool>,
    /// The maximum length of the pack, in bytes.
    pub limit: Option<u64>,
    /// The hash of the object names; `None` for that of the repository.
    pub hash: Option<HashKind>,
    /// Check the objects. Each text sets severities, as in `missingEmail=ignore`.
    pub checks: Option<Vec<BString>>,
    /// With [`Options::checks`], also check that no object is missing.
    pub strict: bool,
}

/// The pack file.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The path of the pack.
    pub pack: BString,
    /// The path of the index; `None` for that of the pack with another suffix.
    pub index: Option<BString>,
    /// Write a file with the suffix `.keep` and this line.
    pub keep: Option<BString>,
    /// Write nothing, and compare the existing index with that of the pack.
    pub verify: bool,
    /// How it is indexed.
    pub options: Options,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The trailer of the pack.
    pub checksum: ObjectId,
    /// Files that the checks need and that exist nowhere. Each was reported.
    pub missing: Vec<ObjectId>,
}

/// A pack that was read.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    indexing: Indexing<'r>,
    pack: PackFile,
    contents: Contents,
    notices: Vec<Notice>,
}

/// Reads the pack, and checks its objects and an existing index.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    must_be_whole(repository)?;
    let notices = Notices::default();
    let indexing = Indexing::new(place(repository, &notices), &request.options)?;
    let pack = indexing.open(&request)?;
    let contents = indexing.read(&pack, &Meter::default())?;
    indexing.check(&pack)?;
    if request.verify {
        indexing.verify(&pack, &contents)?;
    }
    let indexing = indexing.at(place(repository, &Silent));
    Ok(Plan { repository, request, indexing, pack, contents, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, and writes the files.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, request, indexing, pack, contents, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let indexing = indexing.at(place(repository, events));
        if !request.verify {
            indexing.write(&pack, request.keep.as_ref(), &contents)?;
        }
        Ok(Report { checksum: contents.checksum, missing: indexing.finish()? })
    }
}

/// Returns the place of an operation.
fn place<'a>(repository: &'a Repository, events: &'a dyn Events) -> Place<'a> {
    let Context { repo, events, interrupt, .. } = repository.context(events);
    Place::of(repo, events, interrupt)
}

/// Refuses a partial clone, in which missing bases would have to be fetched.
fn must_be_whole(repository: &Repository) -> Result<(), PlanError> {
    let is_partial = repository.inner.objects().is_partial();
    if is_partial { Err(PlanError::Unsupported("packs of partial clones")) } else { Ok(()) }
}

/// Returns the error for a case that is left to Git.
fn unsupported(what: &'static str) -> Error {
    PlanError::Unsupported(what).into()
}
