//! Requests for objects by name. Each answer is a pack that stays.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use format::ObjectId;
use repo::{
    objects::Objects,
    wire::{self, Connection, Limits},
};

use super::{Error, Event, Wanted, incoming, store_options};
use crate::clone::server::Tips;

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
    pub(super) wanted: &'a Wanted<'a>,
    pub(super) interrupt: &'a AtomicBool,
    /// The commits at which the history ends.
    pub(super) ends: Vec<ObjectId>,
    connection: Option<Connection>,
    transfer: &'a Path,
    events: &'a (dyn Fn(Event<'_>) + Sync),
    has_answered: bool,
}

impl<'a> Requests<'a> {
    pub(super) fn new(
        connection: Connection,
        transfer: &'a Path,
        wanted: &'a Wanted<'a>,
        events: &'a (dyn Fn(Event<'_>) + Sync),
        interrupt: &'a AtomicBool,
    ) -> Requests<'a> {
        let connection = Some(connection);
        let (ends, has_answered) = (Vec::new(), false);
        Requests { wanted, interrupt, ends, connection, transfer, events, has_answered }
    }

    /// Returns the objects that are here.
    pub(super) fn objects(&self) -> Objects {
        Objects::new(self.transfer, self.wanted.hash)
    }

    /// Returns the connection, unless an answer has ended it.
    pub(super) fn into_connection(self) -> Option<Connection> {
        self.connection
    }

    /// Asks where the history ends that is cut off, and for its commits. `haves` are tips that are
    /// here: the server does not send them, nor what is before them.
    pub(super) fn ask_for_ends(&mut self, tips: &[ObjectId], haves: &[ObjectId]) -> Result<Answer, Error> {
        self.request(Query { names: tips, haves, ends: &[], limits: &omitting(self.wanted.limits.clone()) })
    }

    /// Asks for blobs in batches. See [`Requests::ask`].
    pub(super) fn ask_all(&mut self, names: &[ObjectId]) -> Result<Answer, Error> {
        for batch in names.chunks(BATCH) {
            if self.ask(batch, &[], false)? == Answer::Refused {
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
        match answer == Answer::Refused || names.iter().any(|name| objects.contains_listed(name)) {
            true => Ok(answer),
            false => Err(Error::Incomplete),
        }
    }

    /// Asks for objects by name. With `omits`, no tree and no blob comes but those that are named;
    /// `haves` are commits whose history is complete. It is an error if one of the objects does not
    /// come.
    pub(super) fn ask(
        &mut self,
        names: &[ObjectId],
        haves: &[ObjectId],
        omits: bool,
    ) -> Result<Answer, Error> {
        // Blobs lead to no history, and thousands of commits make a request too long.
        let (limits, ends) = match omits {
            true => (omitting(Limits::default()), self.ends.clone()),
            false => Default::default(),
        };
        let answer = self.request(Query { names, haves, ends: &ends, limits: &limits })?;
        let objects = self.objects();
        match answer == Answer::Refused || names.iter().all(|name| objects.contains_listed(name)) {
            true => Ok(answer),
            false => Err(Error::Incomplete),
        }
    }

    fn request(&mut self, query: Query<'_>) -> Result<Answer, Error> {
        let Query { names, haves, ends, limits } = query;
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(incoming::Error::Interrupted.into());
        }
        let (events, wanted) = (self.events, self.wanted);
        let texts = |text: &[u8]| events(Event::Remote(text));
        let (mut tips, mut is_second);
        is_second = false;
        let stream = loop {
            let connection = self.connection.take().map_or_else(wanted.reconnect, Ok)?;
            tips = Tips::new(haves.to_vec());
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
        for counter in [&wanted.receiving.deltas, &wanted.receiving.resolved] {
            counter.store(0, Ordering::Relaxed);
        }
        let (aborted, mut stream) = (stream.aborted(), stream);
        let store_options = store_options(self.transfer, wanted, self.interrupt);
        let stored = incoming::store_pack(&mut stream, &store_options);
        stored.map_err(|error| match aborted.load(Ordering::Relaxed) {
            true => Error::Aborted,
            false => error.into(),
        })?;
        self.connection = stream.finish_and_reuse()?;
        (self.events)(Event::Received);
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
