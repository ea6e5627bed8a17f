//! Objects that come before the source is asked for the others: a base, or bundles
//! (`--bundle-uri`, or the list that the server suggests with `transfer.bundleURI`).
//!
//! A base brings a commit with its trees, and contents, which stay in the base directory. So the
//! new repository is a partial clone without blobs, and the server sends what is newer than that
//! commit. The history may end at the base: then the file `shallow` says so before the server is
//! asked.

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{
    Repository, keys,
    objects::Objects,
    pack_indexing::Meter,
    wire::{ConnectOptions, Negotiator},
};
use sys::by_path;

use super::{
    Brought, Caller, Error, Event, ObjectsError, Seed,
    assembly::{Skeleton, Writing},
    configured::Selected,
    error::io_error,
    junk::gone,
    refs,
    select::{NewHead, Selection},
    server::Haves,
};
use crate::{
    bundles::{self, Bundles, Outcome},
    fetch::{
        self,
        connected::{self, Connected},
        negotiate::{Algorithm, Negotiation, Tips},
        shallow::Shallow,
    },
};

/// The filter of a repository with a base.
pub(super) const FILTER: &str = "blob:none";

/// Objects of a base or of bundles.
pub(super) struct Ahead {
    /// The repository with these objects.
    pub(super) repo: Repository,
    /// The commit of the base; `None` for bundles.
    pub(super) base: Option<ObjectId>,
}

impl Ahead {
    /// Brings the base, or takes bundles. Returns `None` if nothing came.
    pub(super) fn bring(selected: &mut Selected<'_>) -> Result<Option<Ahead>, Error> {
        let refs = refs::options(&selected.skeleton, selected.channel.hash())?;
        let Some((seed, commit)) = selected.skeleton.caller.seed.zip(selected.base) else {
            return Ok(selected.take_bundles(&refs)?.map(|repo| Ahead { repo, base: None }));
        };
        let Skeleton { repo, writing, .. } = &selected.skeleton;
        let packs = repo.objects_dir().join("pack");
        writing.early_shared.create_dir_all(&packs).map_err(io_error("create", &packs))?;
        // The settings of the remote were written after the repository was opened.
        match seed.bring(&repo.open_again()?, &commit).map_err(|_| Error::Seed)? {
            Brought::Base => Ok(Some(Ahead { repo: repo.open_again()?, base: Some(commit) })),
            Brought::Nothing => remove_parts(repo).map(|()| None),
        }
    }

    /// Returns true if everything came that the server is asked for.
    pub(super) fn has_all(&self, wants: &[ObjectId], skeleton: &Skeleton<'_>) -> Result<bool, ObjectsError> {
        let (workers, interrupt) = (skeleton.prepared.options.workers(), skeleton.caller.interrupt);
        let checked = connected::check(&self.repo, wants, connected::Options { workers, interrupt });
        Ok(checked.map_err(ObjectsError::Connected)? == Connected::Complete)
    }

    /// Offers the commits that came to the server. `objects` are those of the repository.
    pub(super) fn negotiator<'a>(
        &'a self,
        objects: &'a Objects,
        theirs: &[ObjectId],
    ) -> Result<Box<dyn Negotiator + 'a>, ObjectsError> {
        if let Some(base) = self.base {
            return Ok(Box::new(Haves::new(vec![base])));
        }
        let (algorithm, tips) = (Algorithm::load(&self.repo)?, Tips { theirs, ..Tips::default() });
        Ok(Box::new(Negotiation::new(&self.repo, objects, algorithm, tips)?))
    }

    /// Returns the commits at which the history of the base ends.
    pub(super) fn boundary(&self) -> Result<Vec<ObjectId>, ObjectsError> {
        if self.base.is_none() {
            return Ok(Vec::new());
        }
        Ok(Shallow::read(&self.repo)?.commits.into_iter().collect())
    }

    /// Adds the commits at which the history that came ends, and removes those beyond which it
    /// came.
    pub(super) fn move_boundary(
        &self,
        shallow: &[ObjectId],
        deepened: &[ObjectId],
        writing: &Writing,
    ) -> Result<(), ObjectsError> {
        if shallow.is_empty() && deepened.is_empty() {
            return Ok(());
        }
        let known = Shallow::read(&self.repo)?;
        let mut commits = known.commits.clone();
        commits.retain(|oid| !deepened.contains(oid));
        commits.extend(shallow);
        Ok(known.replace(&self.repo, &commits, &writing.fsync, &writing.locks())?)
    }
}

/// Returns the commit whose base comes first; `None` for an ordinary clone.
pub(super) fn find_base(seed: &dyn Seed, selection: &Selection) -> Result<Option<ObjectId>, Error> {
    let found = match &selection.head {
        _ if selection.empty => Ok(None),
        NewHead::Branch(theirs) => seed.find(Some(theirs.name.as_ref()), &theirs.oid),
        NewHead::Tag(theirs) | NewHead::Detached(theirs) => {
            seed.find(None, &theirs.peeled.unwrap_or(theirs.oid))
        }
        NewHead::Unborn(_) => Ok(None),
    };
    found.map_err(|_| Error::Seed)
}

/// Removes the objects and notes of a base that came in part, so that the server sends everything.
fn remove_parts(repo: &Repository) -> Result<(), Error> {
    let (packs, common) = (repo.objects_dir().join("pack"), repo.real_common_dir());
    for (name, _) in by_path::list(&packs).map_err(io_error("remove", &packs))? {
        let pack = packs.join(name);
        by_path::remove_file(&pack).map_err(io_error("remove", &pack))?;
    }
    let (shallow, notes) = (common.join("shallow"), common.join("sapwood/pulled"));
    gone(by_path::remove_file(&shallow)).map_err(io_error("remove", &shallow))?;
    gone(by_path::remove_dir_all(&notes)).map_err(io_error("remove", &notes))
}

impl Selected<'_> {
    /// Returns true if there may be bundles.
    pub(super) fn takes_bundles(&self) -> Result<bool, Error> {
        let Skeleton { prepared, repo, .. } = &self.skeleton;
        let is_given = prepared.options.bundle_uri.is_some();
        Ok(is_given || repo.config(&keys::transfer::BUNDLE_URI)?)
    }

    /// Takes bundles. Returns the repository with their objects and refs, if there may be some.
    fn take_bundles(&mut self, refs: &store::refs::Options) -> Result<Option<Repository>, Error> {
        let Selected { skeleton, source, channel, .. } = self;
        let Skeleton { prepared, repo, caller, writing, .. } = skeleton;
        let (options, events) = (&prepared.options, caller.events);
        let given = options.bundle_uri.as_ref();
        let suggested = match given {
            Some(_) => Vec::new(),
            None if repo.config(&keys::transfer::BUNDLE_URI)? => {
                channel.list_bundles().unwrap_or_else(|error| {
                    events(Event::Error(&error.to_string()));
                    events(Event::Error("could not retrieve server-advertised bundle-uri list"));
                    Vec::new()
                })
            }
            None => Vec::new(),
        };
        if given.is_none() && suggested.is_empty() {
            return Ok(None);
        }
        let says = |event: fetch::Event<'_>| match event {
            fetch::Event::Warning(text) => events(Event::Warning(&text.to_str_lossy())),
            fetch::Event::Error(text) => events(Event::Error(&text.to_str_lossy())),
            _ => {}
        };
        let context = fetch::Context {
            repo,
            refs,
            fsync: &writing.fsync,
            locks: &writing.locks(),
            interrupt: caller.interrupt,
            meter: &Meter::default(),
            hook: None,
            workers: options.workers(),
            events: &says,
        };
        let connect = ConnectOptions {
            family: options.family,
            interrupt: options.interrupt.clone(),
            ..ConnectOptions::default()
        };
        let bundles = Bundles { context, connect: &connect, dir: &options.open.cwd };
        let done = match given {
            Some(uri) => take_given(&bundles, uri, caller),
            None => bundles.fetch_list(&suggested, source.url.as_bstr()).inspect(|done| {
                if done.failed {
                    events(Event::Warning("failed to fetch advertised bundles"));
                }
            }),
        };
        match done {
            Ok(_) => Ok(Some(repo.open_again()?)),
            Err(bundles::Error::Interrupted) => Err(Error::Interrupted),
            Err(bundles::Error::Repo(error)) => Err(error.into()),
        }
    }
}

/// Takes the bundles of `--bundle-uri`.
fn take_given(bundles: &Bundles<'_>, uri: &BString, caller: &Caller<'_>) -> Result<Outcome, bundles::Error> {
    let done = bundles.fetch(uri.as_bstr())?;
    if done.failed {
        let text = format!("failed to fetch objects from bundle URI '{uri}'");
        (caller.events)(Event::Warning(&text));
    } else if done.has_heuristic {
        bundles.record(&keys::fetch::BUNDLE_URI.lower(), uri.clone());
    }
    Ok(done)
}
