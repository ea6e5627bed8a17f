//! A clone from a server: connecting, and fetching the objects.
//!
//! Order: connect, list refs; later one request for everything that was selected. The pack appears
//! before the file `shallow`, and both before any ref.

use std::{collections::HashSet, path::Path, sync::atomic::Ordering};

use format::ObjectId;
use repo::{
    keys,
    objects::Objects,
    wire::{self, Client, ConnectOptions, Connection, Negotiator, url::Url},
};
use sys::by_path;

use super::{
    Event, Options,
    ahead::Ahead,
    alternates::Alternates,
    assembly::Skeleton,
    objects::{Error, has_all, io_error},
    packs::Packs,
    salvage::{self, Outcome},
    select::{RefOptions, Selection},
};
use crate::fetch::promised_refs;

impl Skeleton<'_> {
    /// Connects to the server of a source.
    pub(super) fn connect(&self, url: &Url, ref_options: &RefOptions) -> Result<Connection, Error> {
        let (repo, options) = (&self.repo, &self.prepared.options);
        // An empty value clears the list.
        let configured = repo.config_all(&keys::remote::SERVER_OPTION.of(&ref_options.remote));
        let start = configured.iter().rposition(|value| value.is_empty()).map_or(0, |at| at + 1);
        let connect = ConnectOptions {
            program: options.upload_pack.clone(),
            server_options: options.server_options.clone(),
            configured_server_options: configured.into_iter().skip(start).collect(),
            family: options.family,
            version: None,
            progress: options.remote_progress,
            verbosity: options.verbosity,
            tracer: options.tracer.as_ref().map(|tracer| std::sync::Arc::clone(&tracer.0)),
            interrupt: options.interrupt.clone(),
            remote: Some(ref_options.remote.clone()),
            voice: options.voice,
        };
        Ok(Client::of(repo).in_dir(&options.open.cwd).connect(url, &connect)?)
    }
}

/// A transfer from a server.
pub(super) struct Fetch<'a> {
    pub(super) packs: &'a Packs<'a>,
    pub(super) ref_options: &'a RefOptions,
    pub(super) url: Url,
    pub(super) selection: &'a Selection,
    pub(super) limits: &'a wire::Limits,
    pub(super) references: &'a Alternates,
    pub(super) rejects_shallow: bool,
}

impl Fetch<'_> {
    pub(super) fn options(&self) -> &Options {
        &self.packs.skeleton.prepared.options
    }

    pub(super) fn connect(&self) -> Result<Connection, Error> {
        self.packs.skeleton.connect(&self.url, self.ref_options)
    }

    /// Completes the packs of an interrupted transfer, or begins anew if they are of no use.
    pub(super) fn resume(&self, connection: Connection) -> Result<(), Error> {
        if self.selection.empty {
            return self.begin(connection);
        }
        match salvage::go_on(connection, self)? {
            Outcome::Finished(mut ends) => {
                salvage::install(self.packs)?;
                ends.sort();
                ends.dedup();
                self.packs.write_shallow(&ends)
            }
            Outcome::Useless(connection) => {
                salvage::discard(self.packs.skeleton.git_dir())?;
                self.begin(connection.map_or_else(|| self.connect(), Ok)?)
            }
        }
    }

    /// Fetches the selected refs in one pack.
    pub(super) fn begin(&self, connection: Connection) -> Result<(), Error> {
        if self.selection.empty {
            // Nothing was asked for, so a failure loses nothing.
            let _ = connection.close();
            return salvage::discard(self.packs.skeleton.git_dir());
        }
        // The pack of the other side depends on this order, so it follows the order of the refs.
        let mut asked = HashSet::new();
        let wants = self.selection.mapped.iter().map(|mapped| mapped.theirs.oid);
        let wants: Vec<ObjectId> = wants.filter(|oid| asked.insert(*oid)).collect();
        if self.borrows_all(&wants)? || self.has_all_ahead(&wants)? {
            // A server that fails now takes nothing away.
            let _ = connection.close();
            return Ok(());
        }
        if connection.writes_objects() {
            return self.fetch_by_helper(connection);
        }
        self.fetch(connection, &wants)
    }

    fn fetch(&self, connection: Connection, wants: &[ObjectId]) -> Result<(), Error> {
        let Fetch { packs, limits, .. } = *self;
        let Packs { skeleton: Skeleton { prepared, caller, .. }, ahead, .. } = *packs;
        let texts = |text: &[u8]| (caller.events)(Event::Remote(text));
        let stored = ahead.map(|ahead| ahead.repo.stored_objects());
        let mut negotiator = match ahead.zip(stored.as_ref()) {
            Some((ahead, stored)) => ahead.negotiator(stored, wants)?,
            None => Box::new(Haves::new(self.references.tips(&prepared.options.open, packs.hash))),
        };
        let boundary = ahead.map(Ahead::boundary).transpose()?.unwrap_or_default();
        let mut request = wire::Request {
            wants,
            want_refs: &[],
            negotiator: &mut *negotiator,
            shallow: &boundary,
            limits,
            include_tags: prepared.options.single_branch,
            thin_pack: ahead.is_some(),
            progress: prepared.options.remote_progress,
            uri_protocols: &[],
            texts: &texts,
        };
        if limits.filter.is_some() && !connection.has(wire::Feature::Filter) {
            (caller.events)(Event::Warning("filtering not recognized by server, ignoring"));
        }
        let mut stream = connection.fetch(&mut request)?;
        let mut shallow = stream.shallow().to_vec();
        // The history ends early because the user asked for it, or because the other side is
        // shallow.
        if !shallow.is_empty() && !limits.deepens() && self.rejects_shallow {
            return Err(Error::Shallow);
        }
        let (deepened, aborted) = (stream.unshallow().to_vec(), stream.aborted());
        packs
            .receive(&mut stream, self.promisor_content())
            .map_err(|error| if aborted.load(Ordering::Relaxed) { Error::Aborted } else { error })?;
        stream.finish()?;
        if limits.deepens() {
            shallow.sort();
            shallow.dedup();
        } else if !shallow.is_empty() {
            let arrived = Objects::new(&packs.objects, packs.hash);
            for oid in std::mem::take(&mut shallow) {
                if arrived.has(&oid).map_err(Error::Unreadable)? {
                    shallow.push(oid);
                }
            }
        }
        match ahead.filter(|ahead| ahead.base.is_some()) {
            Some(base) => base.move_boundary(&shallow, &deepened, &packs.skeleton.writing),
            None => packs.write_shallow(&shallow),
        }
    }

    /// Lets a remote helper write the objects.
    fn fetch_by_helper(&self, connection: Connection) -> Result<(), Error> {
        let refs = self.selection.mapped.iter();
        let refs: Vec<_> = refs.map(|mapped| (mapped.theirs.oid, mapped.theirs.name.clone())).collect();
        let request = wire::HelperRequest {
            refs: &refs,
            limits: self.limits,
            include_tags: self.options().single_branch,
            cloning: true,
            from_promisor: self.limits.filter.is_some(),
            refetch: false,
        };
        for keep in connection.fetch_by_helper(&request)? {
            // Nobody repacks an unfinished clone, so its packs need no protection.
            let path = Path::new(sys::os_str(&keep));
            by_path::remove_file(path).map_err(io_error("unlink", path))?;
        }
        Ok(())
    }

    /// Returns true if repositories to borrow from have everything.
    fn borrows_all(&self, wants: &[ObjectId]) -> Result<bool, Error> {
        if self.limits.deepens() || self.limits.filter.is_some() || self.references.is_empty() {
            return Ok(false);
        }
        has_all(&Objects::new(&self.packs.objects, self.packs.hash), wants.iter())
    }

    /// Returns true if bundles or a base have everything.
    fn has_all_ahead(&self, wants: &[ObjectId]) -> Result<bool, Error> {
        let is_enough = |ahead: &&Ahead| ahead.base.is_some() || !self.limits.deepens();
        let ahead = self.packs.ahead.filter(is_enough);
        ahead.map_or(Ok(false), |ahead| ahead.has_all(wants, self.packs.skeleton))
    }

    /// Returns the content of a pack's `.promisor` file: the refs for which a filtered pack was
    /// sent. Returns `None` without a filter.
    pub(super) fn promisor_content(&self) -> Option<Vec<u8>> {
        self.limits.filter.as_ref()?;
        let refs = self.selection.mapped.iter().map(|mapped| (&mapped.theirs.name, mapped.theirs.oid));
        Some(promised_refs(refs.collect()))
    }
}

/// Offers commits that are complete: the tips of borrowed repositories.
pub(super) struct Haves(std::vec::IntoIter<ObjectId>);

impl Haves {
    pub(super) fn new(tips: Vec<ObjectId>) -> Haves {
        Haves(tips.into_iter())
    }
}

impl Negotiator for Haves {
    fn next_have(&mut self) -> Result<Option<ObjectId>, wire::Error> {
        Ok(self.0.next())
    }

    fn acknowledge(&mut self, _: &ObjectId) -> Result<bool, wire::Error> {
        // Each tip is offered once.
        Ok(false)
    }
}
