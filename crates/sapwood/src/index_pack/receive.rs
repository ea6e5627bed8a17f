//! A stream that becomes a pack of the repository.

use std::io::Read;

use bstr::BString;
pub use engine::pack_indexing::Received;
use format::ObjectId;

use super::{Indexing, Meter, Options, Source, must_be_whole, place};
use crate::{Events, Notice, PlanError, Repository, RunError, Silent, events::Notices};

/// How the stream is read.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Add the missing bases of deltas.
    pub fix_thin: bool,
    /// Write a file with the suffix `.keep` and this line.
    pub keep: Option<BString>,
    /// How the pack is indexed. Its hash is that of the repository.
    pub options: Options,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The new pack, and the bytes after it.
    pub received: Received,
    /// Files that the checks need and that exist nowhere. Each was reported.
    pub missing: Vec<ObjectId>,
}

/// A repository that may get a pack.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    indexing: Indexing<'r>,
    notices: Vec<Notice>,
}

/// Reads the settings.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    must_be_whole(repository)?;
    let notices = Notices::default();
    let indexing = Indexing::new(place(repository, &notices), &request.options)?;
    let indexing = indexing.at(place(repository, &Silent));
    Ok(Plan { repository, request, indexing, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, reads one pack from `stream`, and publishes it.
    pub fn run(self, events: &impl Events, stream: &mut dyn Read) -> Result<Report, RunError> {
        let Plan { repository, request, indexing, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let indexing = indexing.at(place(repository, events));
        let source = Source { stream, is_file: false, before: &[] };
        let received = indexing.receive(&request, source, &|| {}, &Meter::default())?;
        Ok(Report { received, missing: indexing.finish()? })
    }
}
