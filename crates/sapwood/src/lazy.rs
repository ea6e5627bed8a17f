//! Fetching objects that a partial clone lacks, when an operation reads them. The contents of bases
//! are tried first.
//!
//! A reader of objects may be any thread, so nothing is reported: the reader's error names the
//! object that did not come.

use std::sync::{Arc, atomic::AtomicBool};

use engine::{
    fetch::{self, Options, remote},
    workspace::base::{Bases, BlobSource},
};
use repo::{
    LazyFetch, OpenOptions, Place, Promised, Repository, keys, objects::Contents, pack_indexing::Meter,
    wire::ConnectOptions,
};

use crate::{Context, Error, Silent, refs, settings::Settings};

/// Fetches missing objects. The flag stops a transfer.
#[derive(Debug)]
struct Fetcher(Arc<AtomicBool>);

/// Returns the options of a repository whose missing objects are fetched.
pub(crate) fn lazy(open: OpenOptions, interrupt: &Arc<AtomicBool>) -> OpenOptions {
    OpenOptions { lazy_fetch: Some(Arc::new(Fetcher(Arc::clone(interrupt)))), ..open }
}

/// Returns the contents of the bases of a repository.
pub fn contents(place: &Place<'_>) -> Box<dyn Contents> {
    let configured = (place.setting)(&keys::sapwood::BASE_DIR);
    let bases = configured.unwrap_or_else(|| place.common.join("sapwood").join("bases"));
    Box::new(BlobSource::of(Bases::at(&bases), place.hash))
}

impl LazyFetch for Fetcher {
    fn contents(&self, place: &Place<'_>) -> Option<Box<dyn Contents>> {
        Some(contents(place))
    }

    fn fetch(&self, wanted: &Promised<'_>) -> bool {
        self.fetch_all(wanted).is_ok()
    }
}

impl Fetcher {
    fn fetch_all(&self, wanted: &Promised<'_>) -> Result<(), Error> {
        let repo = Repository::open(wanted.open)?;
        let settings = Settings::read(&repo, &Silent)?;
        let context = Context {
            repo: &repo,
            settings: &settings,
            events: &Silent,
            interrupt: &self.0,
            hands_over: false,
        };
        let remote = remote::Remote::load(&repo, wanted.remote).map_err(|error| match error {
            remote::Error::Repo(error) => error.into(),
            remote::Error::Refspec(error) => Error::failed(error.to_string()),
        })?;
        let connect = ConnectOptions {
            interrupt: Some(Arc::clone(&self.0)),
            remote: remote.is_configured.then(|| remote.name.clone()),
            ..ConnectOptions::default()
        };
        let options = Options { connect, quiet: true, ..Options::default() };
        // No ref changes, so there is nothing to tell a hook.
        let engine = fetch::Context {
            repo: &repo,
            refs: &refs::options(context)?,
            fsync: &settings.fsync,
            locks: &settings.locks,
            interrupt: &self.0,
            meter: &Meter::default(),
            hook: None,
            workers: settings.workers,
            events: &|_| {},
        };
        let done = fetch::promised(engine, &remote, wanted.objects, &options);
        done.map_err(|error| Error::Fetch(Box::new(error)))
    }
}
