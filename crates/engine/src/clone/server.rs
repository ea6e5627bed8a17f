//! A clone from a server: connecting, and fetching the objects.
//!
//! Order: connect, list refs; later one request for everything that was selected. The pack appears
//! before the file `shallow`, and both before any ref.

use std::{collections::HashSet, io, path::Path, sync::atomic::AtomicBool};

use format::ObjectId;
use repo::{
    objects::Objects,
    wire::{self, Client, ConnectOptions, Connection, Negotiator, url::Url},
};

use sys::by_path;

use crate::checkout::Workers;

use super::{
    Event, bundles,
    objects::{Asking, Error, Wanted, io_error, receive},
    seeding,
};

/// Connects.
pub(super) fn connect(url: &Url, asking: &Asking<'_>) -> Result<Connection, Error> {
    let Asking { repo, options, ref_options } = *asking;
    // An empty value clears the list.
    let configured = repo.config_all(&format!("remote.{}.serverOption", ref_options.remote));
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

/// Fetches the selected refs in one pack.
pub(super) fn fetch(
    connection: Connection,
    objects: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    // The pack of the other side depends on this order, so it follows the order of the refs.
    let mut asked = HashSet::new();
    let wants = wanted.selection.mapped.iter().map(|mapped| mapped.theirs.oid);
    let wants: Vec<ObjectId> = wants.filter(|oid| asked.insert(*oid)).collect();
    let texts = |text: &[u8]| events(Event::Remote(text));
    if !wanted.limits.deepens() && wanted.limits.filter.is_none() && has_all(objects, &wants, wanted)? {
        // The borrowed repositories have everything. A server that fails now takes nothing away.
        let _ = connection.close();
        return Ok(());
    }
    if let Some(repo) = wanted.bundled.filter(|_| wanted.base.is_some() || !wanted.limits.deepens()) {
        let workers = Workers::Fixed(wanted.workers.max(1));
        if bundles::has_all(repo, &wants, workers, interrupt).map_err(Error::Connected)? {
            let _ = connection.close();
            return Ok(());
        }
    }
    if connection.writes_objects() {
        return fetch_by_helper(connection, wanted);
    }
    let stored = wanted.bundled.map(repo::Repository::stored_objects);
    let mut negotiator: Box<dyn Negotiator> = match wanted.bundled.zip(stored.as_ref()) {
        Some(_) if wanted.base.is_some() => Box::new(Tips::new(wanted.base.into_iter().collect())),
        Some((repo, stored)) => bundles::haves(repo, stored, &wants)?,
        None => Box::new(Tips::new(wanted.references.tips(wanted.open, wanted.hash))),
    };
    let boundary = match wanted.bundled.filter(|_| wanted.base.is_some()) {
        Some(repo) => seeding::boundary(repo)?,
        None => Vec::new(),
    };
    let mut request = wire::Request {
        wants: &wants,
        want_refs: &[],
        negotiator: &mut *negotiator,
        shallow: &boundary,
        limits: wanted.limits,
        include_tags: wanted.follow_tags,
        thin_pack: wanted.bundled.is_some(),
        progress: wanted.remote_progress,
        uri_protocols: &[],
        texts: &texts,
    };
    if wanted.limits.filter.is_some() && !connection.has(wire::Feature::Filter) {
        events(Event::Warning("filtering not recognized by server, ignoring"));
    }
    let stream = connection.fetch(&mut request)?;
    let mut shallow = stream.shallow().to_vec();
    // The history ends early because the user asked for it, or because the other side is shallow.
    let asked = wanted.limits.deepens();
    if !shallow.is_empty() && !asked && wanted.reject_shallow {
        return Err(Error::Shallow);
    }
    let deepened = stream.unshallow().to_vec();
    let aborted = stream.aborted();
    let mut stream = stream;
    receive(&mut stream, objects, wanted, promisor_content(wanted), events, interrupt).map_err(|error| {
        let theirs = aborted.load(std::sync::atomic::Ordering::Relaxed);
        if theirs { Error::Aborted } else { error }
    })?;
    stream.finish()?;
    if asked {
        shallow.sort();
        shallow.dedup();
    } else if !shallow.is_empty() {
        let arrived = Objects::new(objects, wanted.hash);
        for oid in std::mem::take(&mut shallow) {
            if arrived.has(&oid).map_err(Error::Unreadable)? {
                shallow.push(oid);
            }
        }
    }
    if let Some(repo) = wanted.bundled.filter(|_| wanted.base.is_some()) {
        return seeding::move_boundary(repo, &shallow, &deepened, wanted);
    }
    write_shallow(&shallow, wanted)
}

/// Writes the commits at which the history ends, if there are some.
pub(super) fn write_shallow(ends: &[ObjectId], wanted: &Wanted<'_>) -> Result<(), Error> {
    if ends.is_empty() {
        return Ok(());
    }
    let path = wanted.git_dir.join("shallow");
    let content: String = ends.iter().map(|oid| format!("{oid}\n")).collect();
    let file = wanted.shared.create_new(&path, 0o666);
    let written = file.and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()));
    written.map_err(io_error("write", &path))
}

/// Lets a remote helper write the objects.
fn fetch_by_helper(connection: Connection, wanted: &Wanted<'_>) -> Result<(), Error> {
    let refs = wanted.selection.mapped.iter().map(|mapped| (mapped.theirs.oid, mapped.theirs.name.clone()));
    let refs: Vec<_> = refs.collect();
    let request = wire::HelperRequest {
        refs: &refs,
        limits: wanted.limits,
        include_tags: wanted.follow_tags,
        cloning: true,
        from_promisor: wanted.limits.filter.is_some(),
        refetch: false,
    };
    for keep in connection.fetch_by_helper(&request)? {
        // Nobody repacks a clone that is not published, so its packs need no protection.
        let path = Path::new(sys::os_str(&keep));
        by_path::remove_file(path).map_err(io_error("unlink", path))?;
    }
    Ok(())
}

/// Returns true if nothing has to be sent, because repositories to borrow from are there.
fn has_all(objects: &Path, wants: &[ObjectId], wanted: &Wanted<'_>) -> Result<bool, Error> {
    if wanted.references.is_empty() {
        return Ok(false);
    }
    let borrowed = Objects::new(objects, wanted.hash);
    for oid in wants {
        if !borrowed.has(oid).map_err(Error::Unreadable)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Offers commits that are complete: the tips of borrowed repositories.
pub(super) struct Tips(std::vec::IntoIter<ObjectId>);

impl Tips {
    pub(super) fn new(tips: Vec<ObjectId>) -> Tips {
        Tips(tips.into_iter())
    }
}

impl Negotiator for Tips {
    fn next_have(&mut self) -> Result<Option<ObjectId>, wire::Error> {
        Ok(self.0.next())
    }

    fn acknowledge(&mut self, _: &ObjectId) -> Result<bool, wire::Error> {
        // Each tip is offered once.
        Ok(false)
    }
}

/// Returns the content of a pack's `.promisor` file: the refs for which a filtered pack was sent.
/// Returns `None` without a filter.
pub(super) fn promisor_content(wanted: &Wanted<'_>) -> Option<Vec<u8>> {
    wanted.limits.filter.as_ref()?;
    let mut refs: Vec<_> = wanted.selection.mapped.iter().map(|mapped| &mapped.theirs).collect();
    refs.sort_by(|left, right| left.name.cmp(&right.name));
    refs.dedup_by(|left, right| left.name == right.name);
    let lines = refs.iter().map(|theirs| format!("{} {}\n", theirs.oid, theirs.name));
    Some(lines.collect::<String>().into_bytes())
}
