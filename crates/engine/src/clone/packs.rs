//! Packs that arrive, from a server or a bundle.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::ByteSlice;
use format::{HashKind, Kind, ObjectId};
use repo::{
    fsck::{Line, Rules},
    objects::Objects,
    pack_indexing::{Large, Observer, Wanted},
};
use sys::by_path;

use super::{
    Event,
    ahead::Ahead,
    assembly::Skeleton,
    objects::{Error, io_error},
    pipeline::Pipeline,
};
use crate::{
    fetch::{bundle_file::BundleFile, connected::Links},
    pack_indexing::incoming::{self, Settings, StoreOptions},
};

/// How packs that arrive are stored.
pub(super) struct Packs<'a> {
    pub(super) skeleton: &'a Skeleton<'a>,
    /// The `objects` directory.
    pub(super) objects: PathBuf,
    pub(super) hash: HashKind,
    pub(super) settings: Settings,
    /// Objects that arrive are checked by these rules.
    pub(super) rules: Option<&'a Rules>,
    pub(super) ahead: Option<&'a Ahead>,
    /// Sees the objects as they arrive.
    pub(super) observer: &'a Watchers<'a>,
}

impl Packs<'_> {
    /// Returns how a pack is stored in `objects`. `promisor` is the content of its `.promisor`
    /// file.
    pub(super) fn options<'s>(&'s self, objects: &'s Path, promisor: Option<Vec<u8>>) -> StoreOptions<'s> {
        let Skeleton { prepared, caller, writing, .. } = self.skeleton;
        StoreOptions {
            objects,
            hash: self.hash,
            settings: &self.settings,
            fsync: &writing.fsync,
            shared: writing.shared,
            existing: None,
            promisor,
            keep: None,
            interrupt: caller.interrupt,
            meter: &prepared.options.receiving,
            observer: None,
            rules: None,
            say: &|_| {},
            // A clone that is not kept is removed as a whole.
            keeps_partial: true,
        }
    }

    /// Keeps the pack of a stream.
    pub(super) fn receive(&self, stream: &mut dyn io::Read, promisor: Option<Vec<u8>>) -> Result<(), Error> {
        let store_options = StoreOptions {
            // Borrowed objects complete nothing: the pack is whole. Those of bundles complete it.
            existing: self.ahead.map(|ahead| ahead.repo.objects()),
            observer: Some(self.observer),
            rules: self.rules,
            say: &|line| self.say(line),
            ..self.options(&self.objects, promisor)
        };
        incoming::store_pack(stream, &store_options)?;
        (self.skeleton.caller.events)(Event::Received);
        Ok(())
    }

    /// Keeps the pack of a bundle, whose prerequisites must be borrowed.
    pub(super) fn unbundle(&self, bundle: &BundleFile) -> Result<(), Error> {
        let needed = &bundle.header().prerequisites;
        if !needed.is_empty() {
            let borrowed = Objects::new(&self.objects, self.hash);
            let mut missing = Vec::new();
            for oid in needed {
                if !borrowed.has(oid).map_err(Error::Unreadable)? {
                    missing.push(*oid);
                }
            }
            if !missing.is_empty() {
                return Err(Error::Prerequisites(missing));
            }
        }
        let path = bundle.path();
        let file = bundle.pack().map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let mut stream = ErrorRecorder { file, failed: None };
        let received = self.receive(&mut stream, None);
        match (received, stream.failed) {
            (Err(Error::StorePack(_)), Some(errno)) => {
                Err(io_error("read", path)(io::Error::from_raw_os_error(errno)))
            }
            (received, _) => received,
        }
    }

    /// Writes the commits at which the history ends, if there are some.
    pub(super) fn write_shallow(&self, ends: &[ObjectId]) -> Result<(), Error> {
        if ends.is_empty() {
            return Ok(());
        }
        let path = self.skeleton.git_dir().join("shallow");
        let content: String = ends.iter().map(|oid| format!("{oid}\n")).collect();
        let file = self.skeleton.writing.shared.create_new(&path, 0o666);
        let written = file.and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()));
        written.map_err(io_error("write", &path))
    }

    /// Shows a flaw of an object.
    pub(super) fn say(&self, line: &Line) {
        let events = self.skeleton.caller.events;
        match line {
            Line::Error(text) => events(Event::Error(&text.to_str_lossy())),
            Line::Warning(text) => events(Event::Warning(&text.to_str_lossy())),
        }
    }
}

/// A file that records the last system error of a read, so that it can be told from the reader's
/// own errors.
struct ErrorRecorder {
    file: sys::File,
    failed: Option<i32>,
}

impl io::Read for ErrorRecorder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        by_path::uninterrupted(|| self.file.read(buffer))
            .inspect_err(|error| self.failed = error.raw_os_error())
    }
}

/// Those who see the objects of a pack as they arrive: the pipeline, and the check that nothing is
/// missing.
pub(super) struct Watchers<'a> {
    pub(super) pipeline: Option<&'a Pipeline>,
    pub(super) links: Option<&'a Links<'a>>,
}

impl Observer for Watchers<'_> {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64) {
        if let Some(links) = self.links {
            links.object(oid, kind, content, offset);
        }
        if let Some(pipeline) = self.pipeline {
            pipeline.object(oid, kind, content, offset);
        }
    }

    fn large(&self, object: &Large) -> Wanted {
        self.links.map_or(Wanted::Name, |links| links.large(object))
    }

    fn is_in_hurry(&self) -> bool {
        self.pipeline.is_some_and(Pipeline::is_in_hurry)
    }
}
