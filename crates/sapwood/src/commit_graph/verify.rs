//! The graph compared with the commits.

use std::io::ErrorKind;

use engine::commit_graph::{self, Found, Verdict};
use store::commit_graph::{chain_path, single_path};
use sys::by_path;

use super::{Place, unsupported};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, events::Notices, object_files::ObjectDir,
};

/// The options of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Check only the highest layer.
    pub shallow: bool,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The flaws; `None` if the files are no graph.
    pub verdict: Option<Verdict>,
    /// Some layers could not be read.
    pub is_incomplete: bool,
}

impl Report {
    /// Returns true if there are no flaws.
    pub fn is_sound(&self) -> bool {
        let is_sound = |verdict: &Verdict| verdict.code == 0 && verdict.fatal.is_none();
        !self.is_incomplete && self.verdict.as_ref().is_some_and(is_sound)
    }
}

/// A check to be reported.
pub struct Plan {
    report: Option<Report>,
    notices: Vec<Notice>,
}

/// Checks the graph. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let place = Place::of(context.repo, ObjectDir::own(context.repo)).map_err(Error::from)?;
    let report = check(context, &place, request, &mut |_, _| {})?;
    Ok(Plan { report, notices: notices.into_vec() })
}

impl Plan {
    /// Reports the notices. Returns `None` if there is no graph.
    pub fn run(self, events: &impl Events) -> Result<Option<Report>, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(self.report)
    }
}

/// Checks the graph of a place. `progress` receives the numbers of commits that are checked, and of
/// all. Reports flaws of the files.
pub fn check(
    context: Context<'_>,
    place: &Place,
    request: Request,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Option<Report>, PlanError> {
    let Some(Found { chain, notices, is_incomplete }) = file(context, place)? else { return Ok(None) };
    let mut report = Report { verdict: None, is_incomplete };
    if let Some(chain) = &chain {
        let layers = chain.layers.iter().rev().take(if request.shallow { 1 } else { usize::MAX });
        let total: usize = layers.map(|layer| layer.graph.count() as usize).sum();
        let (objects, mut show) = (context.repo.stored_objects(), |done| progress(done, total));
        let verdict = commit_graph::verify(&objects, chain, request.shallow, context.interrupt, &mut show);
        context.check_interrupt()?;
        if verdict.unreadable_commit {
            return Err(unsupported("damaged commits"));
        }
        report.verdict = Some(verdict);
    }
    notices.into_iter().for_each(|notice| context.events.notice(Notice::ObjectFile(notice)));
    Ok(Some(report))
}

/// Reads the graph of the chosen directory: the single file if it exists, else the chain.
fn file(context: Context<'_>, place: &Place) -> Result<Option<Found>, Error> {
    let (single, list) = (single_path(&place.dir.path), chain_path(&place.dir.path));
    match by_path::open(&single) {
        Ok(_) => return Ok(Some(place.sources.single(place.target))),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => {
            let (path, reason) = (single_path(&place.dir.shown), sys::reason(&error));
            let message = format!("Could not open commit-graph '{}': {reason}", path.display());
            return Err(Error::failed(message));
        }
    }
    let unreadable = |reason: &str| {
        let path = chain_path(&place.dir.shown);
        Error::failed(format!("could not open commit-graph chain '{}': {reason}", path.display()))
    };
    match by_path::read(&list) {
        Ok(None) => Ok(None),
        Ok(Some(content)) if content.is_empty() => Ok(None),
        Ok(Some(content)) if content.len() < place.sources.hash.hex_len() => {
            context.events.notice(Notice::CommitGraph("commit-graph chain file too small".to_owned()));
            Err(unreadable("Invalid argument"))
        }
        Ok(Some(_)) => Ok(Some(place.sources.chain(place.target))),
        Err(error) => Err(unreadable(&sys::reason(&error))),
    }
}
