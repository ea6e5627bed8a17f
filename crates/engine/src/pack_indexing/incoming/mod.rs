//! Stores a pack that a server sends in an object database.
//!
//! Promise: objects appear only after the whole pack was read, every object was named, and the
//! trailer was verified. They are synced before, if the policy requires it. After an error no file
//! is left behind, unless the caller keeps the beginning of a pack.
//!
//! Order: the number of objects in the header decides between a pack and loose objects, as in Git.
//! A pack is stored by [`super::receive`]. Loose objects are stored in one transaction (`unpack`).

mod checked;
mod settings;
mod unpack;

use std::{
    io::{self, Read},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use format::{HashKind, ObjectId, pack};
use repo::{
    fsck::{Line, Rules},
    objects::Objects,
    pack_indexing::{self, Meter, Observer, Options, Source},
};
use store::pack::Target;
use sys::by_path::uninterrupted;

pub use settings::{Keeping, Purpose, Settings, threads};

use super::{Plan, receive};

/// The inputs of [`store_pack`].
pub struct StoreOptions<'a> {
    /// The object directory to store the objects in.
    pub objects: &'a Path,
    /// The hash of the object names.
    pub hash: HashKind,
    /// The settings for received packs.
    pub settings: &'a Settings,
    /// The sync policy.
    pub fsync: &'a store::Fsync,
    /// `core.sharedRepository`
    pub shared: store::SharedRepository,
    /// The existing objects. New objects are compared with them, and they provide the missing bases
    /// of a thin pack. `None` for a new repository.
    pub existing: Option<&'a Objects>,
    /// The content of the pack's `.promisor` file, for a pack from a promisor remote. Such objects
    /// always stay in their pack. If they would otherwise become loose, the file is empty and the
    /// pack gets no `.keep` file, as in Git.
    pub promisor: Option<Vec<u8>>,
    /// The content of the pack's `.keep` file, which protects the pack until refs point to its
    /// objects.
    pub keep: Option<Vec<u8>>,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
    /// Counts the work done so far.
    pub meter: &'a Meter,
    /// Gets each object after it is named.
    pub observer: Option<&'a dyn Observer>,
    /// The rules for checking objects. With rules, the objects stay in the pack.
    pub rules: Option<&'a Rules>,
    /// Called with each message of the object checks.
    pub say: &'a dyn Fn(&Line),
    /// True to keep the temporary file of an incomplete pack.
    pub keeps_partial: bool,
}

/// The result of storing a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The pack had no objects. No file was written.
    Nothing,
    /// The objects are in one pack.
    Pack {
        /// The pack's trailer, which names its files.
        checksum: ObjectId,
        /// The number of objects, without the bases that complete a thin pack.
        objects: u32,
        /// True if the `.keep` file is new. The caller removes it when refs point to the objects.
        is_kept: bool,
    },
    /// The objects are loose.
    Loose {
        /// The number of objects in the pack. Some may have existed before.
        objects: u32,
    },
}

/// The reason why no objects were stored. Messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    /// The pack or an object was rejected. The message's second line is that of the Git program
    /// that would read the pack.
    #[error("{}{cause}\nfatal: {}", complaint(.cause), .program.epilogue())]
    Refused { program: Program, cause: super::Error },
}

/// The program that reads the pack in Git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `index-pack`, which keeps the pack.
    IndexPack,
    /// `index-pack` after it has printed the name of the pack, or when `fetch-pack` does not read
    /// the name.
    NamedPack,
    /// `unpack-objects`, which writes loose objects.
    UnpackObjects,
}

impl Program {
    /// Returns the message of Git's `fetch-pack` when the program failed.
    fn epilogue(self) -> &'static str {
        match self {
            Program::IndexPack => "fetch-pack: invalid index-pack output",
            Program::NamedPack => "index-pack failed",
            Program::UnpackObjects => "unpack-objects failed",
        }
    }
}

/// Returns the text that Git prints before the error, up to `fatal: `.
fn complaint(error: &super::Error) -> String {
    match error {
        super::Error::Pack(error) => {
            error.complaint().map(|complaint| format!("error: {complaint}\nfatal: ")).unwrap_or_default()
        }
        _ => String::new(),
    }
}

impl Error {
    /// Returns true if the stream failed or ended early, so that another attempt may succeed.
    pub fn is_cut(&self) -> bool {
        use pack_indexing::Error::{Eof, Read};
        matches!(self, Error::Refused { cause: super::Error::Pack(Eof | Read(_)), .. })
    }

    /// Returns true if the pack has deltas whose bases are neither in it nor here.
    pub fn lacks_base(&self) -> bool {
        use pack_indexing::Error::Unresolved;
        matches!(self, Error::Refused { cause: super::Error::Pack(Unresolved(_)), .. })
    }

    /// Returns true if the disk or the user's quota is full.
    pub fn is_full_disk(&self) -> bool {
        use super::Error::{Io, Pack, Store};
        let Error::Refused { cause, .. } = self else { return false };
        let source = match cause {
            Pack(pack_indexing::Error::Write(source)) | Io { source, .. } => source,
            Store(store::Error::Io { source, .. }) => source,
            _ => return false,
        };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Reads one pack from `stream` and stores its objects.
pub fn store_pack(stream: &mut dyn Read, store_options: &StoreOptions<'_>) -> Result<Stored, Error> {
    let mut before = [0; pack::HEADER_LEN];
    let len = fill(stream, &mut before, store_options.interrupt);
    let failed = |program| move |cause| refused(store_options, program, cause);
    let before = &before[..len.map_err(failed(Program::IndexPack))?];
    // An invalid header is reported by the indexer.
    let count = pack::parse_header(before).unwrap_or(u32::MAX);
    let source = Source { stream, is_file: false, before };
    if store_options.rules.is_some() {
        checked::store_pack(source, store_options, count)
    } else if store_options.is_packed(count) {
        keep_pack(source, store_options, count, &store_options.options(), &|| Ok(()))
            .map_err(failed(Program::IndexPack))
    } else {
        unpack::unpack(source, store_options).map_err(failed(Program::UnpackObjects))
    }
}

pub(crate) fn refused(store_options: &StoreOptions<'_>, program: Program, cause: super::Error) -> Error {
    match cause {
        super::Error::Pack(pack_indexing::Error::Interrupted) => Error::Interrupted,
        _ if store_options.interrupt.load(Ordering::Relaxed) => Error::Interrupted,
        cause => Error::Refused { program, cause },
    }
}

fn keep_pack(
    source: Source<'_>,
    store_options: &StoreOptions<'_>,
    count: u32,
    options: &Options<'_>,
    validate: &dyn Fn() -> Result<(), super::Error>,
) -> Result<Stored, super::Error> {
    let is_small = !store_options.settings.keeping.keeps(count);
    let keep = store_options.keep.as_ref().filter(|_| !is_small);
    let mut companion_files: Vec<_> = keep.iter().map(|content| ("keep", (*content).clone())).collect();
    let content = |content: &Vec<u8>| if is_small { Vec::new() } else { content.clone() };
    companion_files.extend(store_options.promisor.iter().map(|promisor| ("promisor", content(promisor))));
    let plan = Plan {
        target: store_options.target(),
        finish: &store_options.settings.finish(),
        complete: store_options.existing.map(|_| store_options.settings.level),
        companion_files,
        on_end: &|| {},
        validate,
        keeps_partial: store_options.keeps_partial,
    };
    if count == 0 {
        pack_indexing::scan(source, options, &mut |_| Ok(()))?;
        return Ok(Stored::Nothing);
    }
    let received = receive(source, options, plan)?;
    let is_kept = keep.is_some() && received.is_first_companion_new;
    Ok(Stored::Pack { checksum: received.checksum, objects: received.objects, is_kept })
}

impl<'a> StoreOptions<'a> {
    /// Returns true if the objects of a pack of `count` objects stay in the pack.
    fn is_packed(&self, count: u32) -> bool {
        self.promisor.is_some() || self.settings.keeping.keeps(count)
    }

    pub(crate) fn target(&self) -> Target<'a> {
        Target { objects: self.objects, hash: self.hash, shared: self.shared, fsync: self.fsync }
    }

    pub(crate) fn options(&self) -> Options<'a> {
        Options {
            hash: self.hash,
            threads: self.settings.threads,
            big_file_threshold: self.settings.big_file_threshold,
            base_cache: self.settings.base_cache,
            limit: self.settings.limit,
            existing: self.existing,
            interrupt: self.interrupt,
            meter: self.meter,
            observer: self.observer,
        }
    }
}

/// Reads until `room` is full or the stream ends. Returns the number of bytes read.
fn fill(stream: &mut dyn Read, room: &mut [u8], interrupt: &AtomicBool) -> Result<usize, super::Error> {
    let mut len = 0;
    while len < room.len() {
        if interrupt.load(Ordering::Relaxed) {
            return Err(pack_indexing::Error::Interrupted.into());
        }
        match uninterrupted(|| stream.read(&mut room[len..])) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(pack_indexing::Error::Read(error).into()),
        }
    }
    Ok(len)
}
