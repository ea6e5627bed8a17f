//! Requests for objects by name. Each answer is a pack that stays.

use std::{path::Path, sync::atomic::Ordering};

use format::ObjectId;
use repo::{
    objects::Objects,
    wire::{self, Connection, Feature, Limits},
};

use super::{Caller, Error, Event, Fetch, incoming};
use crate::clone::server::Haves;

/// The most objects of one request. It stays below 1 MiB, the longest request that many http
/// servers take.
pub(super) const BATCH: usize = 16 << 10;

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Everything came.
    Came,
    /// The server does not send objects by name.
    Refused,
}

/// The trees and blobs that come with the named objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// None but those that are named.
    Named,
    /// All that the named objects lead to.
    Reachable,
}

/// A request for objects.
#[derive(Clone, Copy)]
struct Query<'a> {
    names: &'a [ObjectId],
    haves: &'a [ObjectId],
    /// The commits at which the history ends.
    ends: &'a [ObjectId],
    limits: &'a Limits,
}

/// A conversation.
pub(super) struct Requests<'a> {
    pub(super) fetch: &'a Fetch<'a>,
    /// The server can leave out what hangs below an object.
    pub(super) can_omit: bool,
    /// The commits at which the history ends.
    pub(super) ends: Vec<ObjectId>,
    connection: Option<Connection>,
    transfer: &'a Path,
    has_answered: bool,
}

impl<'a> Requests<'a> {
    pub(super) fn new(connection: Connection, transfer: &'a Path, fetch: &'a Fetch<'a>) -> Requests<'a> {
        let can_omit = connection.has(Feature::Filter);
        let connection = Some(connection);
        Requests { fetch, can_omit, ends: Vec::new(), connection, transfer, has_answered: false }
    }

    /// Returns the objects that are here.
    pub(super) fn objects(&self) -> Objects {
        Objects::new(self.transfer, self.fetch.packs.hash)
    }

    /// Returns the connection, unless an answer has ended it.
    pub(super) fn into_connection(self) -> Option<Connection> {
        self.connection
    }

    /// Asks where the history ends that is cut off, and for its commits. `haves` are tips that are
    /// here: the server does not send them, nor what is before them.
    pub(super) fn ask_for_ends(&mut self, tips: &[ObjectId], haves: &[ObjectId]) -> Result<Answer, Error> {
        self.request(Query { names: tips, haves, ends: &[], limits: &omitting(self.fetch.limits.clone()) })
    }

    /// Asks for blobs in batches. See [`Requests::ask`].
    pub(super) fn ask_all(&mut self, names: &[ObjectId]) -> Result<Answer, Error> {
        for batch in names.chunks(BATCH) {
            if self.ask(batch, &[], Scope::Reachable)? == Answer::Refused {
                return Ok(Answer::Refused);
            }
        }
        Ok(Answer::Came)
    }

    /// Asks for trees, of which the server may leave some out. It is an error if none comes.
    pub(super) fn ask_for_some(&mut self, names: &[ObjectId]) -> Result<Answer, Error> {
        let limits = omitting(Limits::default());
        let answer = self.request(Query { names, haves: &[], ends: &[], limits: &limits })?;
        let objects = self.objects();
        if answer == Answer::Refused || names.iter().any(|name| objects.contains_listed(name)) {
            Ok(answer)
        } else {
            Err(Error::Incomplete)
        }
    }

    /// Asks for objects by name. `haves` are commits whose history is complete. It is an error if
    /// one of the objects does not come.
    pub(super) fn ask(
        &mut self,
        names: &[ObjectId],
        haves: &[ObjectId],
        scope: Scope,
    ) -> Result<Answer, Error> {
        // Blobs lead to no history, and thousands of commits make a request too long.
        let (limits, ends) = match scope {
            Scope::Named => (omitting(Limits::default()), self.ends.clone()),
            Scope::Reachable => Default::default(),
        };
        let answer = self.request(Query { names, haves, ends: &ends, limits: &limits })?;
        let objects = self.objects();
        if answer == Answer::Refused || names.iter().all(|name| objects.contains_listed(name)) {
            Ok(answer)
        } else {
            Err(Error::Incomplete)
        }
    }

    fn request(&mut self, query: Query<'_>) -> Result<Answer, Error> {
        let Query { names, haves, ends, limits } = query;
        let (fetch, packs) = (self.fetch, self.fetch.packs);
        let Caller { events, interrupt, .. } = *packs.skeleton.caller;
        if interrupt.load(Ordering::Relaxed) {
            return Err(incoming::Error::Interrupted.into());
        }
        let texts = |text: &[u8]| events(Event::Remote(text));
        let (mut tips, mut is_second);
        is_second = false;
        let stream = loop {
            let connection = self.connection.take().map_or_else(|| fetch.connect(), Ok)?;
            tips = Haves::new(haves.to_vec());
            let mut request = wire::Request {
                wants: names,
                want_refs: &[],
                negotiator: &mut tips,
                shallow: ends,
                limits,
                include_tags: false,
                thin_pack: false,
                progress: false,
                uri_protocols: &[],
                texts: &texts,
            };
            match connection.fetch(&mut request) {
                Ok(stream) => break stream,
                // The server waited while the packs were read, and may have lost patience. If it
                // hangs up again, the request is the reason.
                Err(error) if is_hang_up(&error) && !self.has_answered && !is_second => is_second = true,
                Err(error) if is_hang_up(&error) && !self.has_answered => return Ok(Answer::Refused),
                Err(wire::Error::Remote(_) | wire::Error::Message(_) | wire::Error::Protocol(_)) => {
                    return Ok(Answer::Refused);
                }
                Err(error) => return Err(error.into()),
            }
        };
        if limits.deepens() {
            self.ends = stream.shallow().to_vec();
        } else if !stream.shallow().is_empty() {
            return Ok(Answer::Refused);
        }
        self.has_answered = true;
        for counter in [&fetch.options().receiving.deltas, &fetch.options().receiving.resolved] {
            counter.store(0, Ordering::Relaxed);
        }
        let (aborted, mut stream) = (stream.aborted(), stream);
        let store_options = packs.options(self.transfer, fetch.promisor_content());
        let stored = incoming::store_pack(&mut stream, &store_options);
        stored
            .map_err(|error| if aborted.load(Ordering::Relaxed) { Error::Aborted } else { error.into() })?;
        self.connection = stream.finish_and_reuse()?;
        events(Event::Received);
        Ok(Answer::Came)
    }
}

/// Adds the filter that leaves out every tree and blob that is not named.
fn omitting(limits: Limits) -> Limits {
    Limits { filter: Some("tree:0".into()), ..limits }
}

fn is_hang_up(error: &wire::Error) -> bool {
    use wire::{Error, HttpError};
    matches!(
        error,
        Error::HungUp | Error::HungUpAtContact | Error::Lost | Error::Io(_) | Error::Http(HttpError::Rpc(_))
    )
}
