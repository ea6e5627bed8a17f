//! Bundles that are taken before a server is asked: `--bundle-uri`, or the list that the server
//! suggests (`transfer.bundleURI`).

use std::sync::atomic::AtomicBool;

use bstr::{BString, ByteSlice as _};
use repo::{
    Repository,
    indexing::Meter,
    objects::Objects,
    wire::{ConnectOptions, Error as WireError, Negotiator},
};

use super::{Error, Event, Prepared, objects::Channel, source::Source};
use crate::{
    bundles::{self, Bundles, Outcome},
    checkout::Workers,
    fetch::{
        self,
        connected::{self, Connected},
        negotiate::{Algorithm, Negotiation, Tips},
    },
};

/// The parts that the clone works with.
pub(super) struct Scene<'a> {
    pub(super) repo: &'a Repository,
    pub(super) refs: &'a store::refs::Options,
    pub(super) fsync: &'a store::Fsync,
    pub(super) shared: store::SharedRepository,
    pub(super) events: &'a (dyn Fn(Event<'_>) + Sync),
    pub(super) interrupt: &'a AtomicBool,
}

impl Prepared {
    /// Returns true if there may be bundles.
    pub(super) fn takes_bundles(&self, repo: &Repository) -> Result<bool, Error> {
        let is_given = self.options.bundle_uri.is_some();
        Ok(is_given || repo.config_bool("transfer.bundleURI")?.unwrap_or(false))
    }

    /// Takes bundles. Returns the repository with their objects and refs, if there may be some.
    pub(super) fn take_bundles(
        &self,
        scene: &Scene<'_>,
        source: &Source,
        channel: &mut Channel,
    ) -> Result<Option<Repository>, Error> {
        let given = self.options.bundle_uri.as_ref();
        let suggested = match given {
            Some(_) => Vec::new(),
            None if scene.repo.config_bool("transfer.bundleURI")?.unwrap_or(false) => {
                channel.list_bundles().unwrap_or_else(|error| {
                    (scene.events)(Event::Error(&error.to_string()));
                    (scene.events)(Event::Error("could not retrieve server-advertised bundle-uri list"));
                    Vec::new()
                })
            }
            None => Vec::new(),
        };
        if given.is_none() && suggested.is_empty() {
            return Ok(None);
        }
        let says = |event: fetch::Event<'_>| match event {
            fetch::Event::Warning(text) => (scene.events)(Event::Warning(&text.to_str_lossy())),
            fetch::Event::Error(text) => (scene.events)(Event::Error(&text.to_str_lossy())),
            _ => {}
        };
        let context = fetch::Context {
            repo: scene.repo,
            refs: scene.refs,
            fsync: scene.fsync,
            locks: &store::LockOptions { shared: scene.shared, ..store::LockOptions::default() },
            interrupt: scene.interrupt,
            meter: &Meter::default(),
            hook: None,
            workers: self.workers(),
            events: &says,
        };
        let connect = ConnectOptions {
            family: self.options.family,
            interrupt: self.options.interrupt.clone(),
            ..ConnectOptions::default()
        };
        let bundles = Bundles { context, connect: &connect, dir: &self.options.open.cwd };
        let done = match given {
            Some(uri) => self.take_given(&bundles, uri, scene),
            None => bundles.fetch_list(&suggested, source.url.as_bstr()).inspect(|done| {
                if done.failed {
                    (scene.events)(Event::Warning("failed to fetch advertised bundles"));
                }
            }),
        };
        match done {
            Ok(_) => Ok(Some(scene.repo.open_again()?)),
            Err(bundles::Error::Interrupted) => Err(Error::Interrupted),
            Err(bundles::Error::Repo(error)) => Err(error.into()),
        }
    }

    fn take_given(
        &self,
        bundles: &Bundles<'_>,
        uri: &BString,
        scene: &Scene<'_>,
    ) -> Result<Outcome, bundles::Error> {
        let done = bundles.fetch(uri.as_bstr())?;
        if done.failed {
            let text = format!("failed to fetch objects from bundle URI '{uri}'");
            (scene.events)(Event::Warning(&text));
        } else if done.has_heuristic {
            bundles.record("fetch.bundleuri", uri.clone());
        }
        Ok(done)
    }

    pub(super) fn workers(&self) -> Workers {
        Workers::Fixed(self.options.workers.max(1))
    }
}

/// Returns the commits that bundles brought, to be offered to the server.
pub(super) fn haves<'a>(
    repo: &'a Repository,
    objects: &'a Objects,
    theirs: &[format::ObjectId],
) -> Result<Box<dyn Negotiator + 'a>, WireError> {
    let tips = Tips { theirs, ..Tips::default() };
    Ok(Box::new(Negotiation::new(repo, objects, Algorithm::load(repo)?, tips)?))
}

/// Returns true if bundles brought everything.
pub(super) fn has_all(
    repo: &Repository,
    wants: &[format::ObjectId],
    workers: Workers,
    interrupt: &AtomicBool,
) -> Result<bool, connected::Error> {
    let options = connected::Options { workers, interrupt };
    Ok(connected::check(repo, wants, options)? == Connected::Complete)
}
