//! Transfers the objects of mapped refs.
//!
//! Order: if all objects exist locally and are connected, nothing is requested. Otherwise negotiate
//! and receive the pack; update the file `shallow`; check that all objects reachable from the refs
//! exist.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::PathBuf,
    sync::atomic::Ordering,
};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{
    Repository,
    fsck::{Line, Rules},
    pack_indexing::{Meter, Observer},
    wire::{
        Advertisement, Client, Connection, Feature, HelperRequest, Limits, PackStream, Request, url::Url,
    },
};

use sys::by_path;

use crate::pack_indexing::incoming::{self, Keeping, Purpose, Settings, StoreOptions, Stored};

use super::{
    Context, Error, Event, Options,
    bundle::Bundle,
    connected::{self, Connected},
    local_links::Links,
    map::Mapping,
    negotiate::{Algorithm, Negotiation, Tips},
    shallow::{self, Shallow},
};

/// The connection of a fetch. Receiving the pack consumes it.
pub(super) struct Transfer<'a> {
    pub(super) context: Context<'a>,
    pub(super) options: &'a Options,
    pub(super) url: Url,
    /// The objects of all refs that the server lists.
    pub(super) theirs: Vec<ObjectId>,
    /// The open connection, unless it was consumed.
    connection: Option<Connection>,
    /// The bundle, if the remote is one.
    bundle: Option<Bundle>,
    /// The `.keep` files that protect new packs until refs point to their objects.
    kept: Vec<PathBuf>,
}

/// The result of a transfer.
#[derive(Default)]
pub(super) struct Transferred {
    /// The repository, reopened after a change of the file `shallow`.
    pub(super) reopened: Option<Repository>,
    /// True if objects were received.
    pub(super) has_new_objects: bool,
}

/// The scope of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// As given by the options.
    AsAsked,
    /// As given by the options, with the tags of fetched commits.
    FollowingTags,
    /// The tags of commits that have just arrived.
    Tags,
}

impl Drop for Transfer<'_> {
    /// After a failure, too, the `.keep` files are removed. Otherwise they would protect unneeded
    /// packs forever.
    fn drop(&mut self) {
        self.release();
    }
}

impl<'a> Transfer<'a> {
    pub(super) fn new(context: Context<'a>, options: &'a Options, url: Url) -> Transfer<'a> {
        let bundle = Bundle::at(context.repo, &url);
        if let Some(bundle) = &bundle {
            bundle.warn(&url.text, options, context.events);
        }
        Transfer { context, options, url, theirs: Vec::new(), connection: None, bundle, kept: Vec::new() }
    }

    /// Lists the refs that begin with one of `prefixes`. Without prefixes no request is sent.
    pub(super) fn list_refs(&mut self, prefixes: &[BString]) -> Result<Advertisement, Error> {
        if let Some(bundle) = &self.bundle {
            return Ok(bundle.advertisement());
        }
        let connection = self.connection()?;
        let theirs =
            if prefixes.is_empty() { Advertisement::default() } else { connection.list_refs(prefixes)? };
        self.theirs = theirs.refs.iter().map(|theirs| theirs.oid).collect();
        Ok(theirs)
    }

    /// Removes the `.keep` files, so that new packs may be repacked. Refs point to their objects
    /// now.
    pub(super) fn release(&mut self) {
        for path in self.kept.drain(..) {
            // A `.keep` file that stays only prevents the pack from being repacked.
            let _ = by_path::remove_file(&path);
        }
    }

    /// Connects, unless a connection is open.
    fn connection(&mut self) -> Result<&mut Connection, Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => Client::of(self.context.repo).connect(&self.url, &self.options.connect)?,
        };
        let (ours, theirs) = (self.context.repo.hash(), connection.hash());
        if ours != theirs {
            return Err(Error::Hash { ours: ours.name(), theirs: theirs.name() });
        }
        Ok(self.connection.insert(connection))
    }

    /// Transfers the objects of `refs` to `repo`, which must have been opened after the last change
    /// of the file `shallow`. `url` is the URL as shown to users.
    pub(super) fn take(
        &mut self,
        repo: &Repository,
        refs: &mut [Mapping],
        depth: Depth,
        url: &BString,
    ) -> Result<Transferred, Error> {
        let deepens = depth != Depth::Tags && self.bundle.is_none() && self.options.limits.deepens();
        if refs.is_empty() || !deepens && !self.options.refetch && self.has_everything(repo, refs)? {
            return Ok(Transferred::default());
        }
        let wants = self.wants(repo, refs, deepens)?;
        let mut done = Transferred::default();
        if !wants.is_empty() || deepens {
            self.request(repo, refs, &wants, depth, &mut done)?;
        }
        let repo = done.reopened.as_ref().unwrap_or(repo);
        let tips: Vec<ObjectId> =
            refs.iter().filter(|mapping| !mapping.rejected_shallow).map(|mapping| mapping.oid).collect();
        if !self.is_connected(repo, &tips)? {
            return Err(Error::Incomplete(url.clone()));
        }
        Ok(done)
    }

    fn has_everything(&self, repo: &Repository, refs: &[Mapping]) -> Result<bool, Error> {
        let objects = repo.objects();
        if !refs.iter().all(|mapping| objects.contains_listed(&mapping.oid)) {
            return Ok(false);
        }
        // A local ref that already has the value needs no check.
        let tips: Vec<ObjectId> =
            refs.iter().filter(|mapping| mapping.is_new()).map(|mapping| mapping.oid).collect();
        Ok(tips.is_empty() || self.is_connected(repo, &tips)?)
    }

    /// Returns true if all objects exist that are reachable from the tips and not from refs.
    fn is_connected(&self, repo: &Repository, tips: &[ObjectId]) -> Result<bool, Error> {
        let options = connected::Options { workers: self.context.workers, interrupt: self.context.interrupt };
        Ok(connected::check(repo, tips, options)? == Connected::Complete)
    }

    /// Returns the objects to request, in the order of the refs.
    fn wants(&self, repo: &Repository, refs: &[Mapping], deepens: bool) -> Result<Vec<ObjectId>, Error> {
        let mut asked = HashSet::new();
        let sought = sought(refs).into_iter().map(|mapping| mapping.oid);
        let wants: Vec<ObjectId> = sought.filter(|oid| asked.insert(*oid)).collect();
        if deepens || self.options.refetch {
            return Ok(wants);
        }
        let (listed, mut missing): (Vec<_>, Vec<_>) =
            wants.iter().copied().partition(|want| repo.objects().contains_listed(want));
        // Each check reads all refs, so the objects are checked one by one only if the joint check
        // fails.
        if !listed.is_empty() && !self.is_connected(repo, &listed)? {
            for want in listed {
                if !self.is_connected(repo, &[want])? {
                    missing.push(want);
                }
            }
        }
        let missing: HashSet<ObjectId> = missing.into_iter().collect();
        Ok(wants.into_iter().filter(|want| missing.contains(want)).collect())
    }

    fn request(
        &mut self,
        repo: &Repository,
        refs: &mut [Mapping],
        wants: &[ObjectId],
        depth: Depth,
        done: &mut Transferred,
    ) -> Result<(), Error> {
        let Context { events, .. } = self.context;
        if let Some(bundle) = &self.bundle {
            bundle.take(self.context)?;
            done.has_new_objects = true;
            return Ok(());
        }
        let mut limits = self.options.limits.clone();
        if depth == Depth::Tags {
            limits = Limits { filter: limits.filter, ..Limits::default() };
        }
        let before = Shallow::read(repo)?;
        let cut: Vec<ObjectId> = before.commits.iter().copied().collect();
        self.connection()?;
        let mut connection = self.connection.take().expect("it was just made");
        if connection.writes_objects() {
            return self.fetch_by_helper(connection, refs, &limits, depth, done);
        }
        if let Some(error) = self.unadvertised(&mut connection, refs)? {
            // Closing tells the server that no request follows.
            let _ = connection.close();
            return Err(error);
        }
        if limits.filter.is_some() && !connection.has(Feature::Filter) {
            events(Event::Warning("filtering not recognized by server, ignoring".into()));
            limits.filter = None;
        }
        let texts = |text: &[u8]| events(Event::Remote(text));
        let objects = repo.stored_objects();
        let (want_refs, wants) = if connection.has(Feature::RefInWant) {
            by_name(refs, wants)
        } else {
            (Vec::new(), wants.to_vec())
        };
        let algorithm = if self.options.refetch { Algorithm::Noop } else { Algorithm::load(repo)? };
        let tips = Tips {
            theirs: &self.theirs,
            given: self.options.negotiation_tips.as_deref(),
            deepens: limits.deepens(),
        };
        let mut negotiator = Negotiation::new(repo, &objects, algorithm, tips)?;
        negotiator.include(&self.options.negotiation_include, &objects);
        let mut request = Request {
            wants: &wants,
            want_refs: &want_refs,
            negotiator: &mut negotiator,
            shallow: &cut,
            limits: &limits,
            include_tags: depth == Depth::FollowingTags,
            thin_pack: true,
            progress: self.options.progress,
            uri_protocols: &[],
            texts: &texts,
        };
        let stream = connection.fetch(&mut request)?;
        for (oid, name) in stream.wanted_refs() {
            for mapping in refs.iter_mut().filter(|mapping| mapping.name == *name) {
                mapping.oid = *oid;
            }
        }
        let (new, gone) = (stream.shallow().to_vec(), stream.unshallow().to_vec());
        let known = complete_of(repo, &new)?;
        let (stored, links) = self.take_pack(repo, refs, stream)?;
        done.has_new_objects |= stored != Stored::Nothing;
        if let Stored::Pack { checksum, is_kept: true, .. } = stored {
            self.kept.push(repo.objects_dir().join("pack").join(format!("pack-{checksum}.keep")));
        }
        if let Some(links) = links {
            self.keep_links(links)?;
        }
        let mut commits = before.commits.clone();
        if limits.deepens() {
            commits.extend(new);
            commits.retain(|oid| !gone.contains(oid));
        } else {
            self.check_shallow(repo, refs, &new, &known, &mut commits)?;
        }
        if commits != before.commits {
            before.replace(repo, &commits, self.context.fsync, self.context.locks)?;
            done.reopened = Some(repo.open_again()?);
        }
        Ok(())
    }

    /// Stores the objects of the server, and ends its answer. Returns the links of promised
    /// objects, if there are any.
    fn take_pack(
        &self,
        repo: &Repository,
        refs: &[Mapping],
        stream: PackStream<'_>,
    ) -> Result<(Stored, Option<Links>), Error> {
        let aborted = stream.aborted();
        let mut stream = io::BufReader::with_capacity(1 << 17, stream);
        let links = Links::default();
        let promisor = self.promisor_content(refs);
        let observer = promisor.as_ref().map(|_| &links as &dyn Observer);
        let is_promised = promisor.is_some();
        let stored = self
            .store_pack(repo, &mut stream, promisor, observer)
            .map_err(|error| if aborted.load(Ordering::Relaxed) { Error::Aborted } else { error })?;
        (self.context.events)(Event::Received);
        stream.into_inner().finish()?;
        Ok((stored, is_promised.then_some(links)))
    }

    /// Fetches with a remote helper that writes objects itself, because it does not speak the
    /// packet protocol.
    fn fetch_by_helper(
        &mut self,
        connection: Connection,
        refs: &[Mapping],
        limits: &Limits,
        depth: Depth,
        done: &mut Transferred,
    ) -> Result<(), Error> {
        if self.options.negotiation_tips.is_some() {
            let text = "ignoring --negotiation-restrict because the protocol does not support it.";
            (self.context.events)(Event::Warning(text.into()));
        }
        let wanted: Vec<_> = refs.iter().map(|mapping| (mapping.oid, mapping.name.clone())).collect();
        let include_tags = depth == Depth::FollowingTags;
        let request = HelperRequest {
            refs: &wanted,
            limits,
            include_tags,
            cloning: false,
            from_promisor: limits.filter.is_some(),
            refetch: self.options.refetch,
        };
        let kept = connection.fetch_by_helper(&request)?;
        self.kept.extend(kept.into_iter().map(|path| PathBuf::from(sys::os_str(&path))));
        done.has_new_objects = true;
        Ok(())
    }

    /// Returns an error if an old server would refuse an object that the user requested by name.
    fn unadvertised(&self, connection: &mut Connection, refs: &[Mapping]) -> Result<Option<Error>, Error> {
        let may_name = connection.has(Feature::TipInWant) || connection.has(Feature::ReachableInWant);
        if may_name || !refs.iter().any(|mapping| mapping.is_object) {
            return Ok(None);
        }
        let theirs = connection.list_refs(&[])?.refs;
        let known: HashSet<ObjectId> = theirs.iter().map(|theirs| theirs.oid).collect();
        let named = refs.iter().filter(|mapping| mapping.is_object).map(|mapping| mapping.oid);
        let refused: Vec<ObjectId> = named.filter(|oid| !known.contains(oid)).collect();
        Ok((!refused.is_empty()).then_some(Error::Unadvertised(refused)))
    }

    /// Returns the content of the `.promisor` file. Returns `None` without a filter, because the
    /// pack then does not come from a promisor remote.
    fn promisor_content(&self, refs: &[Mapping]) -> Option<Vec<u8>> {
        self.options.limits.filter.as_ref()?;
        let sought = sought(refs).into_iter();
        Some(promised_refs(sought.map(|mapping| (&mapping.name, mapping.oid)).collect()))
    }

    /// Makes local objects promised that are reachable from promised objects.
    fn keep_links(&self, links: Links) -> Result<(), Error> {
        let Context { repo, interrupt, fsync, locks, .. } = self.context;
        let settings = Settings { keeping: Keeping::Packed, ..Settings::load(repo, Purpose::Fetch)? };
        links.pack_local(repo, settings.level, &mut |pack| {
            let store_options = StoreOptions {
                objects: repo.objects_dir(),
                hash: repo.hash(),
                settings: &settings,
                fsync,
                shared: locks.shared,
                existing: None,
                promisor: Some(Vec::new()),
                keep: None,
                interrupt,
                meter: &Meter::default(),
                observer: None,
                rules: None,
                say: &|_| {},
                keeps_partial: false,
            };
            incoming::store_pack(&mut pack.as_slice(), &store_options)?;
            Ok(())
        })
    }

    fn store_pack(
        &self,
        repo: &Repository,
        stream: &mut dyn io::Read,
        promisor: Option<Vec<u8>>,
        observer: Option<&dyn Observer>,
    ) -> Result<Stored, Error> {
        let Context { interrupt, meter, fsync, locks, .. } = self.context;
        let settings = &Settings::load(repo, Purpose::Fetch)?;
        let settings = if self.options.keep {
            &Settings { keeping: Keeping::Packed, ..settings.clone() }
        } else {
            settings
        };
        let events = self.context.events;
        let (rules, warnings) = repo.fetch_rules()?;
        // For promised objects, Git ignores the configured severities of fsck messages.
        let rules = rules.map(|rules| if promisor.is_some() { Rules::strict(repo.hash()) } else { rules });
        warnings.iter().for_each(|warning| events(Event::Warning(warning.as_bstr())));
        let store_options = StoreOptions {
            objects: repo.objects_dir(),
            hash: repo.hash(),
            settings,
            fsync,
            shared: locks.shared,
            existing: Some(repo.objects()),
            promisor,
            keep: Some(format!("fetch-pack {}\n", std::process::id()).into_bytes()),
            interrupt,
            meter,
            observer,
            rules: rules.as_ref(),
            say: &|line| match line {
                Line::Error(text) => events(Event::Error(text.as_bstr())),
                Line::Warning(text) => events(Event::Warning(text.as_bstr())),
            },
            keeps_partial: self.options.keeps_partial,
        };
        Ok(incoming::store_pack(stream, &store_options)?)
    }

    /// Handles a shallow history that the user did not request. Refs that need a new shallow commit
    /// are rejected. With `--update-shallow` the commit is added to the boundary instead.
    fn check_shallow(
        &self,
        repo: &Repository,
        refs: &mut [Mapping],
        theirs: &[ObjectId],
        known: &HashSet<ObjectId>,
        commits: &mut BTreeSet<ObjectId>,
    ) -> Result<(), Error> {
        let roots: HashSet<ObjectId> = theirs
            .iter()
            .filter(|oid| !commits.contains(oid) && !known.contains(oid) && repo.objects().contains(oid))
            .copied()
            .collect();
        if roots.is_empty() {
            return Ok(());
        }
        let tips: Vec<ObjectId> = refs.iter().map(|mapping| mapping.oid).collect();
        let met = shallow::met(&tips, &roots, &mut |oid| repo.parents_if_commit(oid))?;
        if self.options.update_shallow {
            commits.extend(met.into_values().flatten());
        } else {
            let needs_cut = |mapping: &&mut Mapping| met.contains_key(&mapping.oid);
            refs.iter_mut().filter(needs_cut).for_each(|mapping| mapping.rejected_shallow = true);
        }
        Ok(())
    }
}

/// Returns the refs that change. If none changes, returns all, because the fetch may deepen their
/// history.
fn sought(refs: &[Mapping]) -> Vec<&Mapping> {
    let changed: Vec<&Mapping> = refs.iter().filter(|mapping| mapping.is_new()).collect();
    if changed.is_empty() { refs.iter().collect() } else { changed }
}

/// Returns the content of a `.promisor` file for these refs.
pub(crate) fn promised_refs(mut refs: Vec<(&BString, ObjectId)>) -> Vec<u8> {
    refs.sort_by_key(|(name, _)| *name);
    refs.dedup_by_key(|(name, _)| *name);
    refs.iter().flat_map(|(name, oid)| format!("{oid} {name}\n").into_bytes()).collect()
}

/// Returns those of the commits whose parents are here. A commit may exist without them, from an
/// earlier fetch that was rejected; it counts as incomplete.
fn complete_of(repo: &Repository, commits: &[ObjectId]) -> Result<HashSet<ObjectId>, Error> {
    let mut known = HashSet::new();
    for oid in commits.iter().filter(|oid| repo.objects().contains(oid)) {
        if repo.parents_if_commit(oid)?.iter().all(|parent| repo.objects().contains(parent)) {
            known.insert(*oid);
        }
    }
    Ok(known)
}

/// Splits `wants` into ref names, and objects that the user requested by name. For a ref that moves
/// meanwhile, the server sends its current value.
fn by_name(refs: &[Mapping], wants: &[ObjectId]) -> (Vec<BString>, Vec<ObjectId>) {
    let wanted: HashSet<&ObjectId> = wants.iter().collect();
    let sought = sought(refs).into_iter().filter(|mapping| wanted.contains(&mapping.oid));
    let (objects, named): (Vec<&Mapping>, Vec<&Mapping>) = sought.partition(|mapping| mapping.is_object);
    let names: BTreeSet<&BString> = named.into_iter().map(|mapping| &mapping.name).collect();
    let mut asked = HashSet::new();
    let objects = objects.into_iter().map(|mapping| mapping.oid).filter(|oid| asked.insert(*oid));
    (names.into_iter().cloned().collect(), objects.collect())
}

/// Returns the URL as shown to users: without user and password, and without trailing slashes and
/// `.git`.
pub fn shown_url(url: &Url) -> BString {
    let mut text = url.shown();
    while text.ends_with(b"/") {
        text.pop();
    }
    match text.strip_suffix(b".git") {
        Some(stem) if !stem.is_empty() => stem.into(),
        _ => text,
    }
}
