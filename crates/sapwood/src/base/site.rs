//! A repository, its base directory and a remote: the place of a transfer.

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use base_store::{CONNECTIONS, Remote};
use bstr::{BStr, BString};
use engine::{
    base_transfer::{self, Progress, records},
    workspace::base::Bases,
};
use format::ObjectId;

use super::access::{peeled, whole_id};
use crate::{BaseError, Context, Error, Events, events::Transfer};

/// The place of a transfer.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The repository, its settings, and the receiver of reports.
    pub context: Context<'a>,
    /// The base directory.
    pub bases: &'a Bases,
    /// The remote.
    pub remote: &'a Remote,
}

impl<'a> Site<'a> {
    /// Returns the parts that a transfer works with.
    pub(super) fn parts<'s>(&'s self, progress: &'s (dyn Fn(Progress) + Sync)) -> base_transfer::Context<'s> {
        let Context { repo, settings, interrupt, .. } = self.context;
        base_transfer::Context {
            repo,
            remote: self.remote,
            bases: self.bases,
            fsync: &settings.fsync,
            locks: &settings.locks,
            workers: settings.workers,
            connections: CONNECTIONS,
            interrupt,
            progress,
        }
    }

    /// Returns the error of a step: [`Error::Interrupted`] if the operation should stop, whatever
    /// failed because of that.
    pub(super) fn failed(&self, error: impl Into<Error>) -> Error {
        if self.context.interrupt.load(Ordering::Relaxed) { Error::Interrupted } else { error.into() }
    }
}

/// The display of a transfer, if the caller shows one.
pub(super) struct Shown(Option<Box<dyn Transfer>>);

impl Shown {
    pub(super) fn begin(events: &dyn Events, wanted: Option<bool>) -> Shown {
        Shown(events.transferring(wanted))
    }

    pub(super) fn step(&self, step: Progress) {
        self.0.iter().for_each(|shown| shown.step(step));
    }

    pub(super) fn end<T, E>(&self, outcome: &Result<T, E>) {
        self.0.iter().for_each(|shown| shown.end(outcome.is_ok()));
    }
}

/// The base of a request.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// That of a commit.
    Of(ObjectId),
    /// That of the commit if there is one, else the newest of the branch.
    Newest { branch: BString, or: Option<ObjectId> },
}

impl Wanted {
    /// Takes the commit called `name`, else the newest one of `branch`, else that of HEAD. A named
    /// commit without a base gives way to the newest of the branch.
    pub(super) fn new(
        repo: &repo::Repository,
        name: Option<&BStr>,
        branch: Option<&BString>,
    ) -> Result<Wanted, Error> {
        let named = match name {
            Some(name) => Some(match whole_id(name) {
                Some(commit) => commit,
                None => peeled(repo, name)?,
            }),
            None => None,
        };
        if let Some(branch) = branch {
            return Ok(Wanted::Newest { branch: branch.clone(), or: named });
        }
        let commit = if named.is_some() { named } else { repo.head()?.oid() };
        Ok(Wanted::Of(commit.ok_or(BaseError::NoHead)?))
    }

    /// Returns the commit. May ask the remote.
    pub(super) fn commit(&self, site: Site<'_>) -> Result<ObjectId, Error> {
        let (branch, named) = match self {
            Wanted::Of(commit) => return Ok(*commit),
            Wanted::Newest { branch, or } => (branch, or),
        };
        let nearest = records::nearest(site.remote, branch.as_ref(), named.as_ref());
        let nearest = nearest.map_err(|error| site.failed(error))?.map(|read| read.manifest.commit);
        let (remote, branch) = (site.remote.address().to_string(), branch.clone());
        Ok(nearest.ok_or(BaseError::NoBaseOfBranch { remote, branch })?)
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Of(commit) => write!(formatter, "the base of {commit}"),
            Wanted::Newest { branch, .. } => write!(formatter, "the newest base of '{branch}'"),
        }
    }
}

/// Returns a name for a directory that no other operation of this or another process uses.
pub(super) fn own_name(kind: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{kind}.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the conversion of an error about a path.
pub(super) fn cannot(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| BaseError::Io { action, path: path.clone(), source }.into()
}
