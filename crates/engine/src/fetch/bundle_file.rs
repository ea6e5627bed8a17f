//! A bundle file: refs, prerequisite commits, and one pack.

use std::{
    io::{self, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use bstr::BString;
use format::{
    ObjectId,
    bundle::{self, Header},
};
use repo::{
    Repository,
    fsck::{Line, Rules},
    objects::Objects,
    pack_indexing::Meter,
    wire::{Advertisement, RemoteRef},
};
use sys::by_path;

use super::{
    Context, Event,
    connected::{self, Connected},
};
use crate::pack_indexing::incoming::{self, Keeping, Purpose, Settings, StoreOptions};

/// An open bundle whose header was parsed.
#[derive(Debug)]
pub(crate) struct BundleFile {
    path: PathBuf,
    header: Header,
}

/// The reason why a file cannot be used as a bundle.
#[derive(Debug)]
pub(crate) enum Unusable {
    Read(io::Error),
    Header(bundle::Error),
}

/// The state of a bundle's prerequisites.
pub(crate) enum Prerequisites {
    /// All exist, with their complete history.
    Complete,
    Missing(Vec<ObjectId>),
    /// All exist, but some of their history is missing.
    Unconnected,
}

/// The settings for receiving the objects of a bundle.
pub(crate) struct Receiving {
    settings: Settings,
    rules: Option<Rules>,
    /// Messages about settings that were ignored.
    pub(crate) warnings: Vec<BString>,
}

impl Receiving {
    pub(crate) fn load(repo: &Repository) -> Result<Receiving, repo::Error> {
        let settings = Settings { keeping: Keeping::Packed, ..Settings::load(repo, Purpose::Fetch)? };
        let (rules, warnings) = repo.fetch_rules()?;
        Ok(Receiving { settings, rules, warnings })
    }
}

impl BundleFile {
    /// Opens a bundle file, and parses its header.
    pub(crate) fn open(path: &Path) -> Result<BundleFile, Unusable> {
        let map = by_path::open(path).and_then(|file| sys::Map::of(&file)).map_err(Unusable::Read)?;
        let header = bundle::parse(&map).map_err(Unusable::Header)?;
        Ok(BundleFile { path: path.to_owned(), header })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the refs in the reverse order of the header, because Git prepends each ref that it
    /// reads. The guess of HEAD's branch depends on this order.
    pub(crate) fn advertisement(&self) -> Advertisement {
        let plain = |(name, oid): &(BString, ObjectId)| RemoteRef {
            name: name.clone(),
            oid: *oid,
            symref: None,
            peeled: None,
        };
        let refs = self.header.refs.iter().rev().map(plain).collect();
        Advertisement { refs, ..Advertisement::default() }
    }

    /// Opens the file, positioned at its pack.
    pub(crate) fn pack(&self) -> io::Result<sys::File> {
        let mut file = by_path::open(&self.path)?;
        file.seek(SeekFrom::Start(self.header.pack_offset as u64))?;
        Ok(file)
    }

    /// Checks the prerequisites of the bundle.
    pub(crate) fn prerequisites(&self, context: Context<'_>) -> Result<Prerequisites, connected::Error> {
        let needed = &self.header.prerequisites;
        let objects = context.repo.stored_objects();
        let missing = self.missing(&objects);
        if !missing.is_empty() {
            return Ok(Prerequisites::Missing(missing));
        }
        let options = connected::Options { workers: context.workers, interrupt: context.interrupt };
        if needed.is_empty() || connected::check(context.repo, needed, options)? == Connected::Complete {
            Ok(Prerequisites::Complete)
        } else {
            Ok(Prerequisites::Unconnected)
        }
    }

    fn missing(&self, objects: &Objects) -> Vec<ObjectId> {
        self.header.prerequisites.iter().filter(|oid| !objects.contains(oid)).copied().collect()
    }

    /// Stores all objects of `pack`, a file from [`BundleFile::pack`].
    pub(crate) fn take(
        &self,
        mut pack: sys::File,
        context: Context<'_>,
        meter: &Meter,
        receiving: &Receiving,
    ) -> Result<(), incoming::Error> {
        let Context { repo, interrupt, fsync, locks, events, .. } = context;
        let store_options = StoreOptions {
            objects: repo.objects_dir(),
            hash: repo.hash(),
            settings: &receiving.settings,
            fsync,
            shared: locks.shared,
            existing: Some(repo.objects()),
            promisor: self.header.filter.as_ref().map(|_| b"from-bundle\n".to_vec()),
            keep: None,
            interrupt,
            meter,
            observer: None,
            rules: receiving.rules.as_ref(),
            say: &|line| match line {
                Line::Error(text) => events(Event::Error(text.as_ref())),
                Line::Warning(text) => events(Event::Warning(text.as_ref())),
            },
            keeps_partial: false,
        };
        incoming::store_pack(&mut pack, &store_options).map(drop)
    }
}
