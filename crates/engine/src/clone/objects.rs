//! Where refs and objects come from: a repository's files, an `upload-pack` process, or a bundle.
//!
//! Promise: the new repository's `objects` goes from empty to complete in one step: by one rename of
//! the directory (files taken over), or by one pack index appearing (a pack). Order: [`Channel::open`]
//! learns hash and refs, [`Channel::take`] brings the objects.

use std::{
    collections::HashSet,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use bstr::ByteSlice;
use format::{
    HashKind, ObjectId, bundle, idx,
    refname::{self, Levels},
    rev,
};
use repo::{
    fetch::{self, Advertisement, Connection, RemoteRef},
    objects::Objects,
    pack,
};
use sys::by_path;

use super::{
    Event, Options,
    alternates::{self, Alternates},
    local,
    select::{Selection, Wishes, is_hidden},
    source::{Kind, Source},
};

/// Why the objects did not come. Messages are Git's, where Git has them.
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
    /// Two lines, by two programs of Git's.
    #[error("early EOF\nfatal: fetch-pack: invalid index-pack output")]
    Aborted,
    /// They came, but cannot be read.
    #[error(transparent)]
    Unreadable(repo::objects::Error),
    #[error("remote did not send all necessary objects")]
    Incomplete,
    #[error(transparent)]
    Alternates(#[from] alternates::Error),
    #[error(transparent)]
    Local(#[from] local::Error),
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    #[error(transparent)]
    Pack(#[from] pack::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error("cannot use pack index '{}': {reason}", .path.display())]
    Index { path: PathBuf, reason: String },
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
}

fn list(missing: &[ObjectId]) -> String {
    missing.iter().map(|oid| format!("{oid} ")).collect::<Vec<_>>().join("\n")
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// What is to be brought, and how.
pub(super) struct Wanted<'a> {
    pub(super) git_dir: &'a Path,
    pub(super) hash: HashKind,
    pub(super) selection: &'a Selection,
    pub(super) limits: &'a fetch::Limits,
    pub(super) references: Alternates,
    /// `--shared`
    pub(super) borrowed: bool,
    /// Permissions of the directories, alternates and copies, for which `--config` comes too late.
    pub(super) early: store::SharedRepository,
    /// Permissions of all else.
    pub(super) shared: store::SharedRepository,
    pub(super) linking: local::Linking,
    pub(super) workers: usize,
    pub(super) follow_tags: bool,
    pub(super) reject_shallow: bool,
    pub(super) remote_progress: bool,
    /// `pack.writeReverseIndex`
    pub(super) reverse_index: bool,
    pub(super) fsync: &'a store::Fsync,
}

/// An open source.
pub(super) struct Channel {
    refs: Advertisement,
    hash: HashKind,
    way: Way,
}

enum Way {
    /// The source's `objects`.
    Files(PathBuf),
    Process(Connection),
    Bundle {
        path: PathBuf,
        header: bundle::Header,
    },
}

impl Channel {
    /// Opens the source and learns its refs.
    pub(super) fn open(
        source: &Source,
        local: bool,
        options: &Options,
        wishes: &Wishes,
        events: &dyn Fn(Event<'_>),
    ) -> Result<Channel, Error> {
        match &source.kind {
            Kind::Repository { git_dir } if local => Channel::files(git_dir, options, events),
            Kind::Repository { git_dir: path } | Kind::File { path } => {
                let command = options
                    .upload_pack
                    .as_ref()
                    .map_or_else(|| "git-upload-pack".into(), |command| sys::os_str(command).to_owned());
                let tracer = options.tracer.as_ref().map(|tracer| std::sync::Arc::clone(&tracer.0));
                let mut connection = Connection::open(command.as_os_str(), path, &options.open.env, tracer)?;
                let refs = connection.list_refs(&wishes.ref_prefixes())?;
                Ok(Channel { refs, hash: connection.hash(), way: Way::Process(connection) })
            }
            Kind::Bundle { path } => Channel::bundle(path),
        }
    }

    fn files(git_dir: &Path, options: &Options, events: &dyn Fn(Event<'_>)) -> Result<Channel, Error> {
        let source = repo::Repository::open_source(&options.open, git_dir)?;
        for warning in source.warnings_while_found() {
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
            repo::Head::Nowhere => {}
        }
        let mut all = source.refs("refs/")?;
        // Git, too, leaves those.
        all.retain(|(name, _)| refname::check(name.as_bstr(), Levels::Two).is_ok());
        if let Some((name, _)) = all.iter().find(|(_, oid)| oid.is_null()) {
            return Err(repo::Error::new(format!("'{name}' has neither a valid OID nor a target")).into());
        }
        refs.refs
            .extend(all.into_iter().map(plain).filter(|theirs| !is_hidden(theirs.name.as_bstr(), &hidden)));
        let objects = source.common_dir().join("objects");
        Ok(Channel { refs, hash: source.hash(), way: Way::Files(objects) })
    }

    fn bundle(path: &Path) -> Result<Channel, Error> {
        let file = by_path::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let map = sys::Map::of(&file).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        let header = bundle::parse(&map).map_err(|source| Error::Bundle { path: path.to_owned(), source })?;
        if header.filter.is_some() {
            return Err(Error::FilteredBundle);
        }
        // Git puts each ref before those it read so far; the guess where HEAD is depends on it.
        let refs = header.refs.iter().rev();
        let refs = refs
            .map(|(name, oid)| RemoteRef { name: name.clone(), oid: *oid, symref: None, peeled: None })
            .collect();
        let refs = Advertisement { refs, unborn_head: None };
        Ok(Channel { refs, hash: header.hash, way: Way::Bundle { path: path.to_owned(), header } })
    }

    pub(super) fn advertisement(&self) -> &Advertisement {
        &self.refs
    }

    pub(super) fn hash(&self) -> HashKind {
        self.hash
    }

    /// Brings the objects and opens them.
    pub(super) fn take(
        self,
        wanted: &Wanted<'_>,
        events: &(dyn Fn(Event<'_>) + Sync),
        interrupt: &AtomicBool,
    ) -> Result<Objects, Error> {
        let objects = wanted.git_dir.join("objects");
        let reopen = || Objects::new(&objects, wanted.hash);
        match self.way {
            Way::Files(source) => {
                take_files(&source, &objects, wanted, events, interrupt)?;
                events(Event::Done);
                Ok(reopen())
            }
            Way::Process(connection) => {
                make_directories(&objects, wanted)?;
                wanted.references.write(&objects, wanted.early)?;
                if !wanted.selection.empty {
                    fetch(connection, &objects, wanted, events, interrupt)?;
                }
                complete(reopen(), wanted.selection)
            }
            Way::Bundle { path, header } => {
                make_directories(&objects, wanted)?;
                wanted.references.write(&objects, wanted.early)?;
                if !wanted.selection.empty {
                    unbundle(&path, &header, &objects, wanted, events, interrupt)?;
                }
                complete(reopen(), wanted.selection)
            }
        }
    }
}

/// Makes what every `objects` has.
fn make_directories(objects: &Path, wanted: &Wanted<'_>) -> Result<(), Error> {
    for name in ["pack", "info"] {
        let path = objects.join(name);
        wanted.early.create_dir_all(&path).map_err(io_error("mkdir", &path))?;
    }
    Ok(())
}

fn take_files(
    source: &Path,
    objects: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let mut alternates = wanted.references.clone();
    // Only what a template put there is in the way of a directory that appears whole.
    let is_empty = by_path::list(objects).map_err(io_error("opendir", objects))?.is_empty();
    let incoming = match is_empty {
        true => wanted.git_dir.join("objects.incoming"),
        false => objects.to_owned(),
    };
    make_directories(&incoming, wanted)?;
    if wanted.borrowed {
        alternates.add(std::os::unix::ffi::OsStrExt::as_bytes(source.as_os_str()).into());
    } else {
        let manner = local::Manner { linking: wanted.linking, shared: wanted.early };
        let taken = local::take_objects(source, &incoming, manner, wanted.workers, interrupt)?;
        for warning in alternates.add_lines(taken.alternates.as_bstr(), source) {
            events(Event::Warning(&warning));
        }
    }
    alternates.write(&incoming, wanted.early)?;
    match is_empty {
        true => by_path::rename(&incoming, objects).map_err(io_error("create", objects)),
        false => Ok(()),
    }
}

fn fetch(
    connection: Connection,
    objects: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    // In the order of the refs: the other side's pack depends on it.
    let mut asked = HashSet::new();
    let wants = wanted.selection.mapped.iter().map(|mapped| mapped.theirs.oid);
    let wants: Vec<ObjectId> = wants.filter(|oid| asked.insert(*oid)).collect();
    let texts = |text: &[u8]| events(Event::Remote(text));
    let options = fetch::FetchOptions {
        include_tags: wanted.follow_tags,
        texts: &texts,
        progress: wanted.remote_progress,
        limits: wanted.limits,
    };
    if wanted.limits.filter.is_some() && !connection.filters() {
        events(Event::Warning("filtering not recognized by server, ignoring"));
    }
    let stream = connection.fetch(&wants, options)?;
    let mut shallow = stream.shallow().to_vec();
    // Cut off as was asked for, or because the other side is shallow itself.
    let asked = wanted.limits.deepens();
    if !shallow.is_empty() && !asked && wanted.reject_shallow {
        return Err(Error::Shallow);
    }
    let aborted = stream.aborted();
    let mut stream = io::BufReader::with_capacity(1 << 17, stream);
    receive(&mut stream, objects, wanted, promised(wanted), events, interrupt).map_err(|error| {
        let theirs = aborted.load(std::sync::atomic::Ordering::Relaxed);
        if theirs { Error::Aborted } else { error }
    })?;
    stream.into_inner().finish()?;
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
    if !shallow.is_empty() {
        let path = wanted.git_dir.join("shallow");
        let content: String = shallow.iter().map(|oid| format!("{oid}\n")).collect();
        wanted
            .shared
            .create_new(&path, 0o666)
            .and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()))
            .map_err(io_error("write", &path))?;
    }
    Ok(())
}

/// What a pack that lacks objects says of itself: the refs it was made for. `None` if it lacks none.
fn promised(wanted: &Wanted<'_>) -> Option<Vec<u8>> {
    wanted.limits.filter.as_ref()?;
    let mut refs: Vec<_> = wanted.selection.mapped.iter().map(|mapped| &mapped.theirs).collect();
    refs.sort_by(|left, right| left.name.cmp(&right.name));
    refs.dedup_by(|left, right| left.name == right.name);
    let lines = refs.iter().map(|theirs| format!("{} {}\n", theirs.oid, theirs.name));
    Some(lines.collect::<String>().into_bytes())
}

fn unbundle(
    path: &Path,
    header: &bundle::Header,
    objects: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    if !header.prerequisites.is_empty() {
        let borrowed = Objects::new(objects, wanted.hash);
        let mut missing = Vec::new();
        for oid in &header.prerequisites {
            if !borrowed.has(oid).map_err(Error::Unreadable)? {
                missing.push(*oid);
            }
        }
        if !missing.is_empty() {
            return Err(Error::Prerequisites(missing));
        }
    }
    let place = objects.join("pack");
    let before = names(&place)?;
    loop {
        let mut file = by_path::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(header.pack_offset as u64))
            .map_err(io_error("read", path))?;
        let mut stream = io::BufReader::with_capacity(1 << 17, Watched { file, failed: None });
        let received = receive(&mut stream, objects, wanted, None, events, interrupt);
        match (received, stream.into_inner().failed) {
            // The bundle is there to be read once more. What was there before, of a clone that is gone on with, stays.
            (Err(Error::Pack(pack::Error::Again { .. })), None) => clear(&place, &before)?,
            (Err(Error::Pack(_)), Some(errno)) => {
                return Err(io_error("read", path)(io::Error::from_raw_os_error(errno)));
            }
            (received, _) => return received,
        }
    }
}

/// A file that remembers what the system said last when it could not be read: whoever reads may not tell it from his own troubles.
struct Watched {
    file: sys::File,
    failed: Option<i32>,
}

impl io::Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        by_path::uninterrupted(|| self.file.read(buffer))
            .inspect_err(|error| self.failed = error.raw_os_error())
    }
}

/// Removes what is in a directory and was not before.
fn clear(directory: &Path, before: &HashSet<OsString>) -> Result<(), Error> {
    for name in names(directory)?.difference(before) {
        let path = directory.join(name);
        by_path::remove_file(&path).map_err(io_error("unlink", &path))?;
    }
    Ok(())
}

/// The names in a directory, if there is one.
fn names(directory: &Path) -> Result<HashSet<OsString>, Error> {
    match by_path::list(directory) {
        Ok(found) => Ok(found.into_iter().map(|(name, _)| name).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
        Err(error) => Err(io_error("opendir", directory)(error)),
    }
}

fn receive(
    stream: &mut dyn io::BufRead,
    objects: &Path,
    wanted: &Wanted<'_>,
    promised: Option<Vec<u8>>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let directory = objects.join("pack");
    let received =
        pack::receive(stream, &directory, wanted.hash, interrupt, &|now| events(Event::Pack(now)))?;
    let Some(received) = received else { return Ok(()) };
    let files =
        [(&received.pack, store::Components::PACK), (&received.index, store::Components::PACK_METADATA)];
    for (path, component) in files {
        let finished = by_path::open(path).and_then(|file| {
            wanted.shared.adjust_file(&file).and_then(|()| wanted.fsync.file(component, &file))
        });
        finished.map_err(io_error("sync", path))?;
    }
    if let Some(content) = promised {
        let path = received.pack.with_extension("promisor");
        // As Git makes it: of no use to anybody else.
        by_path::create_new(&path, 0o600)
            .and_then(|mut file| io::Write::write_all(&mut file, &content))
            .map_err(io_error("write", &path))?;
    }
    if wanted.reverse_index {
        write_reverse_index(&received.index, wanted)?;
    }
    wanted.fsync.directory(store::Components::PACK, &directory).map_err(io_error("sync", &directory))
}

fn write_reverse_index(index: &Path, wanted: &Wanted<'_>) -> Result<(), Error> {
    let file = by_path::open(index).map_err(io_error("open", index))?;
    let map = sys::Map::of(&file).map_err(io_error("map", index))?;
    let idx = idx::Idx::parse(map, wanted.hash)
        .map_err(|error| Error::Index { path: index.to_owned(), reason: error.to_string() })?;
    let content = rev::of_index(&idx, wanted.hash)
        .ok_or_else(|| Error::Index { path: index.to_owned(), reason: "bad offset".into() })?;
    let path = index.with_extension("rev");
    let metadata = store::Components::PACK_METADATA;
    store::replace(&path, &content, &store::LockOptions::default(), wanted.fsync, metadata)?;
    by_path::open(&path)
        .and_then(|file| {
            sys::set_mode(&file, 0o444 & !sys::umask()).and_then(|()| wanted.shared.adjust_file(&file))
        })
        .map_err(io_error("set the mode of", &path))
}

/// Whether what was asked for is there.
fn complete(objects: Objects, selection: &Selection) -> Result<Objects, Error> {
    for mapped in &selection.mapped {
        if !objects.has(&mapped.theirs.oid).map_err(Error::Unreadable)? {
            return Err(Error::Incomplete);
        }
    }
    Ok(objects)
}
