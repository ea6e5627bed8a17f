//! Takes the pack that a server sends into an object database.
//!
//! Promise: objects appear only after the whole pack was read, every object was named, and the
//! trailer was compared; they are synced first, as the policy says. After an error nothing is left
//! behind, unless the caller keeps the beginning of a pack.
//!
//! Order: the header decides between a pack and loose objects, as in Git. A pack goes through
//! [`super::receive`]. Loose objects are one transaction (`unpack`).

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
    indexing::{self, Meter, Observer, Options, Source},
    objects::Objects,
};
use store::pack::Target;
use sys::by_path::uninterrupted;

pub use settings::{Keeping, Purpose, Settings, threads};

use super::{Plan, receive};

/// A pack that arrives.
pub struct Arrival<'a> {
    /// The object directory that gets the objects.
    pub objects: &'a Path,
    /// The hash of the names.
    pub hash: HashKind,
    /// How packs are received.
    pub settings: &'a Settings,
    /// The sync policy.
    pub fsync: &'a store::Fsync,
    /// `core.sharedRepository`
    pub shared: store::SharedRepository,
    /// The objects that are there already. New ones are compared with them, and they complete a
    /// thin pack. `None` for a new repository.
    pub existing: Option<&'a Objects>,
    /// The content of the pack's `.promisor` file, for a pack from a promisor remote. Such objects
    /// always stay in their pack. If they would otherwise be loose, the file is empty and nothing
    /// keeps the pack, as in Git.
    pub promisor: Option<Vec<u8>>,
    /// The content of the pack's `.keep` file, which protects the pack until refs name its objects.
    pub keep: Option<Vec<u8>>,
    /// Set to stop.
    pub interrupt: &'a AtomicBool,
    /// Counts the work done so far.
    pub meter: &'a Meter,
    /// Sees the objects as they are named.
    pub observer: Option<&'a dyn Observer>,
    /// Objects are checked by these rules. They stay in the pack then.
    pub rules: Option<&'a Rules>,
    /// Called with each flaw that is found.
    pub say: &'a dyn Fn(&Line),
    /// Leave a pack that broke off in its temporary file.
    pub keeps_beginning: bool,
}

/// The result of an arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// The pack had no objects. No file was written.
    Nothing,
    /// The objects are in one pack.
    Pack {
        /// The pack's trailer, which names its files.
        checksum: ObjectId,
        /// The number of objects, without the bases that were added.
        objects: u32,
        /// The `.keep` file is new. The caller removes it when refs name the objects.
        is_kept: bool,
    },
    /// The objects are loose.
    Loose {
        /// The number of objects in the pack, of which some may have been there already.
        objects: u32,
    },
}

/// The reason why nothing arrived. Messages are Git's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    /// The second line comes from the program that reads the pack in Git.
    #[error("{}{cause}\nfatal: {}", complaint(.cause), .program.epilogue())]
    Refused { program: Program, cause: super::Error },
}

/// The program to which Git gives a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// It keeps the pack.
    IndexPack,
    /// Like `IndexPack`, after it has told the name of the pack, or if nobody asks for the name.
    NamedPack,
    /// It writes loose objects.
    UnpackObjects,
}

impl Program {
    /// Returns the words of Git's `fetch-pack` when the program failed.
    fn epilogue(self) -> &'static str {
        match self {
            Program::IndexPack => "fetch-pack: invalid index-pack output",
            Program::NamedPack => "index-pack failed",
            Program::UnpackObjects => "unpack-objects failed",
        }
    }
}

/// Returns what Git prints before the error, up to the word `fatal`.
fn complaint(error: &super::Error) -> String {
    match error {
        super::Error::Pack(error) => {
            error.complaint().map(|complaint| format!("error: {complaint}\nfatal: ")).unwrap_or_default()
        }
        _ => String::new(),
    }
}

impl Error {
    /// Returns true if the stream failed or ended early: another attempt may succeed.
    pub fn is_cut(&self) -> bool {
        use indexing::Error::{Eof, Read};
        matches!(self, Error::Refused { cause: super::Error::Pack(Eof | Read(_)), .. })
    }

    /// Returns true if the disk is full.
    pub fn is_full_disk(&self) -> bool {
        use super::Error::{Io, Pack, Store};
        let Error::Refused { cause, .. } = self else { return false };
        let source = match cause {
            Pack(indexing::Error::Write(source)) | Io { source, .. } => source,
            Store(store::Error::Io { source, .. }) => source,
            _ => return false,
        };
        matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

/// Reads one pack from `stream` and keeps its objects.
pub fn take(stream: &mut dyn Read, arrival: &Arrival<'_>) -> Result<Arrived, Error> {
    let mut before = [0; pack::HEADER_LEN];
    let len = fill(stream, &mut before, arrival.interrupt);
    let failed = |program| move |cause| refused(arrival, program, cause);
    let before = &before[..len.map_err(failed(Program::IndexPack))?];
    // The indexer finds the flaws of a header.
    let count = pack::parse_header(before).unwrap_or(u32::MAX);
    let source = Source { stream, is_file: false, before };
    if arrival.rules.is_some() {
        checked::take(source, arrival, count)
    } else if arrival.is_packed(count) {
        keep_pack(source, arrival, count, &arrival.options(), &|| Ok(())).map_err(failed(Program::IndexPack))
    } else {
        unpack::unpack(source, arrival).map_err(failed(Program::UnpackObjects))
    }
}

fn refused(arrival: &Arrival<'_>, program: Program, cause: super::Error) -> Error {
    match cause {
        super::Error::Pack(indexing::Error::Interrupted) => Error::Interrupted,
        _ if arrival.interrupt.load(Ordering::Relaxed) => Error::Interrupted,
        cause => Error::Refused { program, cause },
    }
}

fn keep_pack(
    source: Source<'_>,
    arrival: &Arrival<'_>,
    count: u32,
    options: &Options<'_>,
    judge: &dyn Fn() -> Result<(), super::Error>,
) -> Result<Arrived, super::Error> {
    let is_small = !arrival.settings.keeping.keeps(count);
    let keep = arrival.keep.as_ref().filter(|_| !is_small);
    let mut marks: Vec<_> = keep.iter().map(|content| ("keep", (*content).clone())).collect();
    let content = |content: &Vec<u8>| if is_small { Vec::new() } else { content.clone() };
    marks.extend(arrival.promisor.iter().map(|promisor| ("promisor", content(promisor))));
    let plan = Plan {
        target: arrival.target(),
        finish: &arrival.settings.finish(),
        complete: arrival.existing.map(|_| arrival.settings.level),
        marks,
        on_end: &|| {},
        judge,
        keeps_beginning: arrival.keeps_beginning,
    };
    if count == 0 {
        indexing::scan(source, options, &mut |_| Ok(()))?;
        return Ok(Arrived::Nothing);
    }
    let received = receive(source, options, plan)?;
    let is_kept = keep.is_some() && received.marked;
    Ok(Arrived::Pack { checksum: received.checksum, objects: received.objects, is_kept })
}

impl<'a> Arrival<'a> {
    /// Returns true if a pack of `count` objects stays a pack.
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

/// Reads until `room` is full or the stream ends. Returns the number of bytes.
fn fill(stream: &mut dyn Read, room: &mut [u8], interrupt: &AtomicBool) -> Result<usize, super::Error> {
    let mut len = 0;
    while len < room.len() {
        if interrupt.load(Ordering::Relaxed) {
            return Err(indexing::Error::Interrupted.into());
        }
        match uninterrupted(|| stream.read(&mut room[len..])) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(indexing::Error::Read(error).into()),
        }
    }
    Ok(len)
}
