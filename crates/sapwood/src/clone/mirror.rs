//! The repository of a mirror, by the operations of this crate.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use bstr::{BStr, BString};

use super::{Request, plan_with};
use crate::{
    Error, Events, Repository, RunError,
    base::mirror::Source,
    fetch,
    repository::{Environment, outside},
};

/// Clones and fetches for [`crate::base::mirror`].
pub struct ForMirror<'a, E> {
    /// The variables that Git would read.
    pub environment: Environment,
    /// Stops a transfer: [`crate::base::mirror::Plan::interrupt`].
    pub interrupt: Arc<AtomicBool>,
    /// Receives the reports.
    pub events: &'a E,
}

impl<E: Events> Source for ForMirror<'_, E> {
    type Error = RunError;

    fn clone(&self, url: &BStr, dir: &Path, settings: &[BString]) -> Result<(), RunError> {
        let request = Request {
            source: url.to_owned(),
            directory: Some(dir.as_os_str().as_encoded_bytes().into()),
            bare: true,
            no_tags: true,
            single_branch: Some(true),
            config: settings.to_vec(),
            ..Request::default()
        };
        let above = dir.parent().unwrap_or(dir).to_owned();
        let open = outside(above, self.environment.clone());
        let plan = plan_with(open, request, Arc::clone(&self.interrupt)).map_err(Error::from)?;
        plan.run(self.events).map(drop)
    }

    fn fetch(&self, dir: &Path, refspecs: &[BString]) -> Result<(), RunError> {
        let open = outside(dir.to_owned(), self.environment.clone());
        let inner = repo::Repository::open_owned(&open, dir).map_err(Error::from)?;
        let repository = Repository::of(inner, Arc::clone(&self.interrupt))?;
        let request = fetch::Request {
            remote: Some("origin".into()),
            refspecs: refspecs.to_vec(),
            tags: Some(fetch::Tags::None),
            prune: Some(true),
            fetch_head: fetch::FetchHeadPolicy::Leave,
            ..fetch::Request::default()
        };
        let fetched = fetch::plan(&repository, request).map_err(Error::from)?.run(self.events)?.fetched;
        if fetched.has_failures {
            return Err(Error::failed("some branches of the mirror could not be changed").into());
        }
        Ok(())
    }
}
