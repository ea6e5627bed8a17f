//! The transports of refs and objects: a repository's files, an `upload-pack` process, or a bundle.
//!
//! Promise: the new repository's `objects` directory goes from empty to complete in one step: by
//! one rename of the directory (copied files), or when one pack index appears (a pack). Order:
//! [`Channel::open`] learns hash and refs, [`Channel::take`] brings the objects.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use bstr::{BString, ByteSlice};
use format::{
    HashKind, ObjectId, bundle,
    refname::{self, Levels},
};
use repo::{
    fsck::{Line, Rules},
    indexing,
    objects::Objects,
    wire::{self, Advertisement, Connection, RemoteRef, url::Url},
};
use sys::by_path;

use super::{
    Event, Options,
    alternates::{self, Alternates},
    local,
    salvage::{self, Outcome},
    select::{RefOptions, Selection, is_hidden},
    server,
    source::{Kind, Source},
};
use crate::{
    crew::Meter,
    fetch::bundle_file::{BundleFile, Unusable},
    indexing::incoming::{self, StoreOptions},
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

/// The requested objects and the options of the transfer.
pub(super) struct Wanted<'a> {
    pub(super) git_dir: &'a Path,
    pub(super) hash: HashKind,
    pub(super) selection: &'a Selection,
    pub(super) limits: &'a wire::Limits,
    pub(super) references: Alternates,
    /// The settings with which borrowed repositories are opened.
    pub(super) open: &'a repo::OpenOptions,
    /// `--shared`
    pub(super) borrowed: bool,
    /// The permissions of directories, alternates and copies, which are created before `--config`
    /// takes effect.
    pub(super) base_shared: store::SharedRepository,
    /// The permissions of other files.
    pub(super) shared: store::SharedRepository,
    pub(super) linking: local::Linking,
    pub(super) workers: usize,
    pub(super) meter: Option<&'a Meter>,
    pub(super) follow_tags: bool,
    pub(super) reject_shallow: bool,
    pub(super) remote_progress: bool,
    /// How packs are received, and their counters.
    pub(super) pack_settings: &'a incoming::Settings,
    pub(super) receiving: &'a indexing::Meter,
    pub(super) fsync: &'a store::Fsync,
    /// The repository as bundles or a base have filled it, if some may have.
    pub(super) bundled: Option<&'a repo::Repository>,
    /// The commit of the base.
    pub(super) base: Option<ObjectId>,
    /// Sees the objects as they arrive.
    pub(super) observer: Option<&'a dyn indexing::Observer>,
    /// Objects that arrive are checked by these rules.
    pub(super) rules: Option<&'a Rules>,
    /// Packs of an earlier run are there.
    pub(super) is_resumed: bool,
    /// Connects to the server once more.
    pub(super) reconnect: &'a dyn Fn() -> Result<Connection, Error>,
}

/// The options of opening a source.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    /// The new repository, with its settings.
    pub(super) repo: &'a repo::Repository,
    pub(super) options: &'a Options,
    pub(super) ref_options: &'a RefOptions,
}

/// An open source.
pub(super) struct Channel {
    refs: Advertisement,
    hash: HashKind,
    transport: Transport,
}

enum Transport {
    /// The source's `objects` directory.
    Files(PathBuf),
    Server(Box<Connection>),
    Bundle(BundleFile),
}

/// Connects to the server of a source.
pub(super) fn connect(source: &Source, asking: &Asking<'_>) -> Result<Connection, Error> {
    let url = match &source.kind {
        Kind::Repository { git_dir } => {
            Url::of_path(std::os::unix::ffi::OsStrExt::as_bytes(git_dir.as_os_str()).as_bstr())
        }
        // `url.<base>.insteadOf` was applied once, when the source was located.
        Kind::Server | Kind::Bundle { .. } => Url::parse(source.url.as_bstr()),
    };
    server::connect(&url, asking)
}

impl Channel {
    /// Opens the source and learns its refs.
    pub(super) fn open(
        source: &Source,
        local: bool,
        asking: &Asking<'_>,
        events: &dyn Fn(Event<'_>),
    ) -> Result<Channel, Error> {
        match &source.kind {
            Kind::Repository { git_dir } if local => Channel::files(git_dir, asking.options, events),
            Kind::Repository { .. } | Kind::Server => {
                let mut connection = connect(source, asking)?;
                let refs = connection.list_refs(&asking.ref_options.ref_prefixes())?;
                Ok(Channel::to_server(refs, connection))
            }
            Kind::Bundle { path } => Channel::bundle(path),
        }
    }

    /// Returns a channel to a server whose refs are known.
    fn to_server(refs: Advertisement, connection: Connection) -> Channel {
        Channel { refs, hash: connection.hash(), transport: Transport::Server(Box::new(connection)) }
    }

    fn files(git_dir: &Path, options: &Options, events: &dyn Fn(Event<'_>)) -> Result<Channel, Error> {
        let source = repo::Repository::open_source(&options.open, git_dir)?;
        for warning in source.discovery_warnings() {
            events(Event::Warning(&warning.to_str_lossy()));
        }
        let mut hidden = source.config_all("transfer.hideRefs");
        hidden.extend(source.config_all("uploadpack.hideRefs"));
        let plain = |(name, oid)| RemoteRef { name, oid, symref: None, peeled: None };
        let mut refs = Advertisement::default();
        match source.head()? {
            repo::Head::Branch { name, oid } => {
                refs.refs.push(RemoteRef { symref: Some(name), ..plain(("HEAD".into(), oid)) });
            }
            repo::Head::Detached { oid } => refs.refs.push(plain(("HEAD".into(), oid))),
            repo::Head::Unborn { name } => refs.unborn_head = Some(name),
            repo::Head::Unresolvable => {}
        }
        let mut all = source.refs("refs/")?;
        // Git also skips malformed names.
        all.retain(|(name, _)| refname::check(name.as_bstr(), Levels::Two).is_ok());
        if let Some((name, _)) = all.iter().find(|(_, oid)| oid.is_null()) {
            return Err(repo::Error::new(format!("'{name}' has neither a valid OID nor a target")).into());
        }
        refs.refs
            .extend(all.into_iter().map(plain).filter(|theirs| !is_hidden(theirs.name.as_bstr(), &hidden)));
        let objects = source.common_dir().join("objects");
        Ok(Channel { refs, hash: source.hash(), transport: Transport::Files(objects) })
    }

    fn bundle(path: &Path) -> Result<Channel, Error> {
        let bundle = BundleFile::open(path).map_err(|unusable| match unusable {
            Unusable::Read(source) => Error::Open { path: path.to_owned(), source },
            Unusable::Header(source) => Error::Bundle { path: path.to_owned(), source },
        })?;
        if bundle.header().filter.is_some() {
            return Err(Error::FilteredBundle);
        }
        Ok(Channel {
            refs: bundle.advertisement(),
            hash: bundle.header().hash,
            transport: Transport::Bundle(bundle),
        })
    }

    pub(super) fn advertisement(&self) -> &Advertisement {
        &self.refs
    }

    pub(super) fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the list of bundles that a server suggests, as keys and values.
    pub(super) fn list_bundles(&mut self) -> Result<Vec<(BString, BString)>, wire::Error> {
        match &mut self.transport {
            Transport::Server(connection) if connection.has(wire::Feature::BundleUri) => {
                connection.list_bundles()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Brings the objects and opens them.
    pub(super) fn take(
        self,
        wanted: &Wanted<'_>,
        events: &(dyn Fn(Event<'_>) + Sync),
        interrupt: &AtomicBool,
    ) -> Result<Objects, Error> {
        let objects = wanted.git_dir.join("objects");
        if wanted.is_resumed && !matches!(self.transport, Transport::Server(_)) {
            salvage::discard(wanted)?;
        }
        let reopen = || Objects::new(&objects, wanted.hash);
        match self.transport {
            Transport::Files(source) => {
                copy_files(&source, &objects, wanted, events, interrupt)?;
                events(Event::Done);
                Ok(reopen())
            }
            Transport::Server(connection) => {
                make_directories(&objects, wanted)?;
                wanted.references.write(&objects, wanted.base_shared)?;
                if wanted.selection.empty {
                    // Nothing was asked for, so a failure loses nothing.
                    let _ = connection.close();
                    salvage::discard(wanted)?;
                } else if wanted.is_resumed {
                    match salvage::go_on(*connection, wanted, events, interrupt)? {
                        Outcome::Finished(mut ends) => {
                            salvage::install(&objects, wanted)?;
                            ends.sort();
                            ends.dedup();
                            server::write_shallow(&ends, wanted)?;
                        }
                        Outcome::Useless(connection) => {
                            salvage::discard(wanted)?;
                            let connection = connection.map_or_else(wanted.reconnect, Ok)?;
                            server::fetch(connection, &objects, wanted, events, interrupt)?;
                        }
                    }
                } else {
                    server::fetch(*connection, &objects, wanted, events, interrupt)?;
                }
                check_complete(reopen(), wanted.selection)
            }
            Transport::Bundle(bundle) => {
                make_directories(&objects, wanted)?;
                wanted.references.write(&objects, wanted.base_shared)?;
                if !wanted.selection.empty {
                    unbundle(&bundle, &objects, wanted, events, interrupt)?;
                }
                check_complete(reopen(), wanted.selection)
            }
        }
    }
}

/// Creates the subdirectories that every `objects` directory has.
fn make_directories(objects: &Path, wanted: &Wanted<'_>) -> Result<(), Error> {
    for name in ["pack", "info"] {
        let path = objects.join(name);
        wanted.base_shared.create_dir_all(&path).map_err(io_error("mkdir", &path))?;
    }
    Ok(())
}

fn copy_files(
    source: &Path,
    objects: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let mut alternates = wanted.references.clone();
    // Only files from a template keep the directory from appearing in one rename.
    let is_empty = by_path::list(objects).map_err(io_error("opendir", objects))?.is_empty();
    let incoming = match is_empty {
        true => wanted.git_dir.join("objects.incoming"),
        false => objects.to_owned(),
    };
    make_directories(&incoming, wanted)?;
    if wanted.borrowed {
        alternates.add(std::os::unix::ffi::OsStrExt::as_bytes(source.as_os_str()).into());
    } else {
        let copy_options =
            local::CopyOptions { linking: wanted.linking, shared: wanted.base_shared, meter: wanted.meter };
        let copied = local::copy_objects(source, &incoming, copy_options, wanted.workers, interrupt)?;
        for warning in alternates.add_lines(copied.alternates.as_bstr(), source) {
            events(Event::Warning(&warning));
        }
    }
    alternates.write(&incoming, wanted.base_shared)?;
    match is_empty {
        true => by_path::rename(&incoming, objects).map_err(io_error("create", objects)),
        false => Ok(()),
    }
}

fn unbundle(
    bundle: &BundleFile,
    objects: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let needed = &bundle.header().prerequisites;
    if !needed.is_empty() {
        let borrowed = Objects::new(objects, wanted.hash);
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
    let received = receive(&mut stream, objects, wanted, None, events, interrupt);
    match (received, stream.failed) {
        (Err(Error::StorePack(_)), Some(errno)) => {
            Err(io_error("read", path)(io::Error::from_raw_os_error(errno)))
        }
        (received, _) => received,
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

/// Keeps the pack of a stream.
pub(super) fn receive(
    stream: &mut dyn io::Read,
    objects: &Path,
    wanted: &Wanted<'_>,
    promisor: Option<Vec<u8>>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    // Borrowed objects complete nothing: the pack is whole. Those of bundles complete it.
    let store_options = StoreOptions {
        objects,
        hash: wanted.hash,
        settings: wanted.pack_settings,
        fsync: wanted.fsync,
        shared: wanted.shared,
        existing: wanted.bundled.map(repo::Repository::objects),
        promisor,
        keep: None,
        interrupt,
        meter: wanted.receiving,
        observer: wanted.observer,
        rules: wanted.rules,
        say: &|line| say(line, events),
        // A clone that is not kept is removed as a whole.
        keeps_partial: true,
    };
    incoming::store_pack(stream, &store_options)?;
    events(Event::Received);
    Ok(())
}

/// Shows a flaw of an object.
pub(super) fn say(line: &Line, events: &(dyn Fn(Event<'_>) + Sync)) {
    match line {
        Line::Error(text) => events(Event::Error(&text.to_str_lossy())),
        Line::Warning(text) => events(Event::Warning(&text.to_str_lossy())),
    }
}

/// Returns an error if a requested object is missing.
fn check_complete(objects: Objects, selection: &Selection) -> Result<Objects, Error> {
    for mapped in &selection.mapped {
        if !objects.has(&mapped.theirs.oid).map_err(Error::Unreadable)? {
            return Err(Error::Incomplete);
        }
    }
    Ok(objects)
}
