//! The objects of a clone: files that are linked or copied, or a pack of a server or a bundle.
//!
//! Promise: the new repository's `objects` directory goes from empty to complete in one step: by
//! one rename of the directory (copied files), or when one pack index appears (a pack).

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::ByteSlice;
use format::{HashKind, ObjectId, bundle};
use repo::{objects::Objects, wire};
use sys::by_path;

use super::{
    Event,
    alternates::{self, Alternates},
    assembly::Skeleton,
    channel::Transport,
    configured::{Configured, Selected},
    local::{self, CopyOptions, Linking},
    packs::{Packs, Watchers},
    pipeline::Pipeline,
    salvage,
    select::{NewHead, RefOptions, Selection},
    server::Fetch,
};
use crate::{
    fetch::connected::{self, Connected, Links},
    pack_indexing::incoming::{self, Purpose, Settings},
};

/// The reason why the objects did not arrive. Messages are Git's, where Git has them.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("could not open '{}'", .path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("'{}' {source}", .path.display())]
    Bundle { path: PathBuf, source: bundle::Error },
    #[error("cannot clone from filtered bundle")]
    FilteredBundle,
    #[error("Repository lacks these prerequisite commits:\n{}", list(.0))]
    Prerequisites(Vec<ObjectId>),
    #[error("source repository is shallow, reject to clone.")]
    Shallow,
    /// The two lines come from two of Git's programs.
    #[error("early EOF\nfatal: fetch-pack: invalid index-pack output")]
    Aborted,
    /// The objects arrived but cannot be read.
    #[error(transparent)]
    Unreadable(repo::objects::Error),
    #[error("remote did not send all necessary objects")]
    Incomplete,
    #[error(transparent)]
    Alternates(#[from] alternates::Error),
    #[error(transparent)]
    Local(#[from] local::Error),
    #[error(transparent)]
    Connected(crate::fetch::connected::Error),
    #[error(transparent)]
    Boundary(#[from] crate::fetch::shallow::Error),
    #[error(transparent)]
    Wire(#[from] wire::Error),
    #[error(transparent)]
    StorePack(#[from] incoming::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

impl Error {
    /// See [`super::Error::is_interrupted_transfer`].
    pub(super) fn is_interrupted_transfer(&self) -> bool {
        match self {
            Error::Aborted | Error::Wire(_) | Error::StorePack(incoming::Error::Interrupted) => true,
            Error::StorePack(error) => error.is_cut() || error.is_full_disk(),
            _ => false,
        }
    }
}

fn list(missing: &[ObjectId]) -> String {
    missing.iter().map(|oid| format!("{oid} ")).collect::<Vec<_>>().join("\n")
}

pub(super) fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// A repository with all its objects.
pub(super) struct Populated<'a> {
    /// Writes files of HEAD. Dropped first: its threads end before the lock of the skeleton does.
    pub(super) pipeline: Option<Pipeline>,
    pub(super) skeleton: Skeleton<'a>,
    pub(super) ref_options: RefOptions,
    pub(super) selection: Selection,
    pub(super) objects: Objects,
    pub(super) hash: HashKind,
}

impl<'a> Populated<'a> {
    /// Brings all objects. Packs of an interrupted transfer are completed.
    pub(super) fn of(configured: Configured<'a>) -> Result<Populated<'a>, super::Error> {
        let begun = (configured.pipeline(), configured.links());
        let Configured { selected, ahead } = configured;
        let Selected { skeleton, channel, ref_options, selection, references, limits, rules, .. } = selected;
        // Dropped before the skeleton: no file is written after the lock on its marker has ended.
        let (pipeline, links) = begun;
        let hash = channel.hash();
        let rejects_shallow = skeleton.prepared.rejects_shallow(&skeleton.repo)?;
        let packs = Packs {
            skeleton: &skeleton,
            objects: skeleton.git_dir().join("objects"),
            hash,
            settings: Settings::load(&skeleton.repo, Purpose::Clone)?,
            rules: rules.as_ref(),
            ahead: ahead.as_ref(),
            observer: &Watchers { pipeline: pipeline.as_ref(), links: links.as_ref() },
        };
        let is_copy = channel.copies_files();
        if skeleton.transfer.is_some() && !matches!(channel.transport, Transport::Server(..)) {
            salvage::discard(skeleton.git_dir())?;
        }
        match channel.transport {
            Transport::Files(source) => skeleton.copy_files(&source, references)?,
            Transport::Server(connection, url) => {
                skeleton.borrow(&packs.objects, &references)?;
                let fetch = Fetch {
                    packs: &packs,
                    ref_options: &ref_options,
                    url,
                    selection: &selection,
                    limits: &limits,
                    references: &references,
                    rejects_shallow,
                };
                match &skeleton.transfer {
                    Some(_) => fetch.resume(*connection)?,
                    None => fetch.begin(*connection)?,
                }
            }
            Transport::Bundle(bundle) => {
                skeleton.borrow(&packs.objects, &references)?;
                if !selection.empty {
                    packs.unbundle(&bundle)?;
                }
            }
        }
        let objects = Objects::new(&packs.objects, hash);
        if !is_copy && !has_all(&objects, selection.mapped.iter().map(|mapped| &mapped.theirs.oid))? {
            return Err(Error::Incomplete.into());
        }
        skeleton.caller.check_interrupt()?;
        if !is_copy && !selection.empty {
            skeleton.check_connected(&selection, links.as_ref())?;
        }
        Ok(Populated { pipeline, skeleton, ref_options, selection, objects, hash })
    }
}

impl<'a> Configured<'a> {
    /// Begins to write files while objects arrive.
    fn pipeline(&self) -> Option<Pipeline> {
        let Selected { skeleton, channel, selection, limits, .. } = &self.selected;
        let options = &skeleton.prepared.options;
        let lacks_files = options.no_checkout || options.sparse || limits.filter.is_some();
        if channel.copies_files() || lacks_files || self.ahead.is_some() || skeleton.transfer.is_some() {
            return None;
        }
        match &selection.head {
            NewHead::Branch(theirs) | NewHead::Tag(theirs) | NewHead::Detached(theirs) => {
                Pipeline::begin(&skeleton.repo, skeleton.git_dir(), theirs.oid)
            }
            NewHead::Unborn(_) => None,
        }
    }

    /// Begins to collect the links between objects that arrive. Clones that lack objects on
    /// purpose, or have some already, have none.
    fn links(&self) -> Option<Links<'a>> {
        let Selected { skeleton, channel, references, limits, .. } = &self.selected;
        let is_whole = !channel.copies_files()
            && self.ahead.is_none()
            && skeleton.transfer.is_none()
            && references.is_empty()
            && !limits.deepens()
            && limits.filter.is_none();
        is_whole.then(|| Links::new(&skeleton.prepared.options.receiving))
    }
}

impl Skeleton<'_> {
    /// Creates the subdirectories that every `objects` directory has, and names borrowed objects.
    fn borrow(&self, objects: &Path, references: &Alternates) -> Result<(), Error> {
        self.make_directories(objects)?;
        Ok(references.write(objects, self.writing.early_shared)?)
    }

    fn make_directories(&self, objects: &Path) -> Result<(), Error> {
        for name in ["pack", "info"] {
            let path = objects.join(name);
            self.writing.early_shared.create_dir_all(&path).map_err(io_error("mkdir", &path))?;
        }
        Ok(())
    }

    /// Links, copies or borrows the files of the source's `objects` directory.
    fn copy_files(&self, source: &Path, mut alternates: Alternates) -> Result<(), Error> {
        let (options, shared) = (&self.prepared.options, self.writing.early_shared);
        let objects = self.git_dir().join("objects");
        // Only files from a template keep the directory from appearing in one rename.
        let is_empty = by_path::list(&objects).map_err(io_error("opendir", &objects))?.is_empty();
        let incoming = if is_empty { self.git_dir().join("objects.incoming") } else { objects.clone() };
        self.make_directories(&incoming)?;
        if options.shared {
            alternates.add(source.as_os_str().as_encoded_bytes().into());
        } else {
            let linking = match options.local {
                _ if options.no_hardlinks => Linking::Never,
                Some(true) => Linking::Required,
                _ => Linking::Preferred,
            };
            let copy = CopyOptions { linking, shared, meter: options.meter.as_deref() };
            let interrupt = self.caller.interrupt;
            let copied = local::copy_objects(source, &incoming, copy, options.workers, interrupt)?;
            for warning in alternates.add_lines(copied.alternates.as_bstr(), source) {
                (self.caller.events)(Event::Warning(&warning));
            }
        }
        alternates.write(&incoming, shared)?;
        if is_empty {
            by_path::rename(&incoming, &objects).map_err(io_error("create", &objects))?;
        }
        (self.caller.events)(Event::Done);
        Ok(())
    }

    /// Returns an error unless everything that the new refs need is here.
    fn check_connected(&self, selection: &Selection, links: Option<&Links<'_>>) -> Result<(), super::Error> {
        let tips: Vec<ObjectId> = selection.mapped.iter().map(|mapped| mapped.theirs.oid).collect();
        if links.is_some_and(|links| links.are_complete(&tips)) {
            return Ok(());
        }
        let options =
            connected::Options { workers: self.prepared.options.workers(), interrupt: self.caller.interrupt };
        // The commits at which a shallow history ends are known now.
        match connected::check(&self.repo.open_again()?, &tips, options)? {
            Connected::Complete => Ok(()),
            Connected::Missing(_) => Err(Error::Incomplete.into()),
        }
    }
}

/// Returns true if all of the objects are here.
pub(super) fn has_all<'a>(
    objects: &Objects,
    oids: impl Iterator<Item = &'a ObjectId>,
) -> Result<bool, Error> {
    for oid in oids {
        if !objects.has(oid).map_err(Error::Unreadable)? {
            return Ok(false);
        }
    }
    Ok(true)
}
