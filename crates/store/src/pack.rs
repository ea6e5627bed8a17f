//! Publishes packs. All code that writes packs goes through [`Staged`].
//!
//! Order: the pack is written as `objects/pack/tmp_pack_*` ([`Staged::writer`]); its index and
//! reverse index are written as `tmp_idx_*` and `tmp_rev_*` ([`Staged::finish`]); all are synced;
//! then they are renamed, the index last; then the directory is synced ([`Complete::publish`]). No
//! reader uses a pack without an index.
//!
//! An existing file is never overwritten. If it has the same content, it counts as published; other
//! content is an error. A value that is dropped before it is published removes its files, unless
//! the pack is to be kept ([`Staged::keep`]). [`Staged::take_over`] continues a kept pack.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use format::{
    HashKind, ObjectId,
    hash::Hasher,
    idx_writer::{self, Form, Members},
    rev,
};
use sys::{File, by_path};

use crate::{
    Components, Error, Fsync, HashWriter, Hashing, SharedRepository, Truncate as _, lock::sync_parent,
    objects::make_directory, side_by_side, temp_file::TempFile,
};

mod beside;
mod output;

pub use beside::{Beside, write_beside};
pub use output::{Output, Writing};

/// The length of a pack's header.
const HEADER_LEN: u64 = format::pack::HEADER_LEN as u64;

/// The destination of a pack, and the options for publishing it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The object directory of a repository. Packs are in its `pack`.
    pub objects: &'a Path,
    /// The hash of the repository.
    pub hash: HashKind,
    /// `core.sharedRepository`
    pub shared: SharedRepository,
    /// The sync policy.
    pub fsync: &'a Fsync,
}

/// A [`Target`] with owned fields.
#[derive(Clone, Debug)]
struct Place {
    packs: PathBuf,
    hash: HashKind,
    shared: SharedRepository,
    fsync: Fsync,
}

/// Options for the companion files of a pack.
#[derive(Clone, Debug)]
pub struct FinishOptions {
    /// The format of the index.
    pub index: Form,
    /// `pack.writeReverseIndex`: also write a `.rev` file.
    pub reverse_index: bool,
}

impl Default for FinishOptions {
    fn default() -> Self {
        FinishOptions { index: Form::default(), reverse_index: true }
    }
}

/// One object of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The object's name.
    pub oid: ObjectId,
    /// The offset of its entry in the pack.
    pub offset: u64,
    /// The CRC-32 of its entry, header included.
    pub crc32: u32,
}

/// The objects of a pack, sorted by name.
#[derive(Debug)]
pub struct Entries(Vec<Entry>);

impl From<Vec<Entry>> for Entries {
    fn from(mut entries: Vec<Entry>) -> Entries {
        entries.sort_unstable_by_key(|entry| entry.oid);
        Entries(entries)
    }
}

impl Members for Entries {
    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("the header of a pack has 32 bits for it")
    }

    fn name(&self, n: u32) -> &[u8] {
        self.0[n as usize].oid.as_bytes()
    }

    fn offset(&self, n: u32) -> u64 {
        self.0[n as usize].offset
    }

    fn crc32(&self, n: u32) -> u32 {
        self.0[n as usize].crc32
    }
}

/// Writes the index of a pack to `out`, checksum included.
pub fn write_idx(out: &File, members: &dyn Members, pack_checksum: &ObjectId, form: &Form) -> io::Result<()> {
    let mut writer = HashWriter::new(out, pack_checksum.kind(), Hashing::Inline);
    let emit = &mut |piece: &[u8]| writer.write(piece);
    idx_writer::write_index(members, pack_checksum.as_bytes(), form, emit)?;
    writer.finish().map(drop)
}

/// Writes the reverse index of a pack to `out`, checksum included. `order` is as in
/// [`rev::encode`].
pub fn write_rev(out: &File, order: &[u32], hash: HashKind, pack_checksum: &[u8]) -> io::Result<()> {
    let mut writer = HashWriter::new(out, hash, Hashing::Inline);
    rev::encode(order, hash, pack_checksum, &mut |piece| writer.write(piece))?;
    writer.finish().map(drop)
}

/// The start of the name of a pack that is being written. Git's `gc` removes such files.
const TEMPORARY: &str = "tmp_pack_";

/// Returns the path of the first pack that a process writes in an object directory.
pub fn temporary_path(objects: &Path, process: u32) -> PathBuf {
    objects.join("pack").join(TempFile::name(TEMPORARY, process))
}

/// A pack that is being written.
pub struct Staged {
    place: Place,
    pack: TempFile,
    writer: HashWriter<Output>,
}

impl Staged {
    /// Creates the temporary file, and `objects/pack` if it is missing.
    pub fn create(target: Target<'_>, hashing: Hashing, writing: Writing) -> Result<Staged, Error> {
        let Target { objects, hash, shared, fsync } = target;
        let place = Place { packs: objects.join("pack"), hash, shared, fsync: *fsync };
        let create = || TempFile::create(&place.packs, TEMPORARY, 0o444, shared);
        let pack = match create() {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                if make_directory(&place.packs, shared)? {
                    sync_parent(fsync, Components::PACK, &place.packs)?;
                }
                create()?
            }
            created => created?,
        };
        let out = pack.file().try_clone().map_err(|source| pack.error("open", source))?;
        let writer = HashWriter::new(Output::new(out, writing), hash, hashing);
        Ok(Staged { place, pack, writer })
    }

    /// Continues the pack in `path`, keeping its first `len` bytes, which contain `count` objects.
    /// The file is changed in place, and stays if it is not published.
    pub fn take_over(target: Target<'_>, path: &Path, len: u64, count: u32) -> Result<Staged, Error> {
        let Target { objects, hash, shared, fsync } = target;
        let place = Place { packs: objects.join("pack"), hash, shared, fsync: *fsync };
        let pack = TempFile::take_over(path)?;
        let file = pack.file().try_clone().map_err(|source| pack.error("open", source))?;
        let mut out = Output::new(file, Writing::Direct);
        out.truncate(len).map_err(|source| pack.error("truncate", source))?;
        let writer = HashWriter::resume(out, Hasher::checksum(hash), len, hash, Hashing::Inline);
        Staged { place, pack, writer }.set_count(count)
    }

    /// Keeps the temporary file, with all data written so far, if the pack is not published.
    pub fn keep(&mut self) {
        self.pack.keep();
    }

    /// Returns the writer of the pack, which begins with the header.
    pub fn writer(&mut self) -> &mut HashWriter<Output> {
        &mut self.writer
    }

    /// Returns the pack's file for reads at an offset. It contains only data that the writer has
    /// flushed.
    pub fn file(&self) -> &File {
        self.pack.file()
    }

    /// Returns the path of the temporary file.
    pub fn path(&self) -> &Path {
        self.pack.path()
    }

    /// Returns an error with the path of the temporary file.
    pub fn error(&self, what: &'static str, source: io::Error) -> Error {
        self.pack.error(what, source)
    }

    /// Writes the number of objects into the header, and hashes all bytes so far again, from the
    /// file. For packs whose number of objects is known only at the end.
    pub fn set_count(self, count: u32) -> Result<Staged, Error> {
        let Staged { place, pack, writer } = self;
        let failed = |what| move |source| (what, source);
        let position = writer.position();
        let renewed = (|| {
            let file = writer.finish_without_trailer().and_then(Output::into_file);
            let file = file.map_err(failed("write"))?;
            let count = count.to_be_bytes();
            let written = file.write_pieces_at(&mut [io::IoSlice::new(&count)], HEADER_LEN - 4);
            written.map_err(failed("write"))?;
            let hasher = hash_of(&file, position, place.hash).map_err(failed("read"))?;
            Ok((file, hasher))
        })();
        let (file, hasher) = renewed.map_err(|(what, source)| pack.error(what, source))?;
        let out = Output::new(file, Writing::Direct);
        let writer = HashWriter::resume(out, hasher, position, place.hash, Hashing::Inline);
        Ok(Staged { place, pack, writer })
    }

    /// Writes the trailer, the index and the reverse index.
    pub fn finish(self, members: &dyn Members, options: &FinishOptions) -> Result<Complete, Error> {
        let Staged { place, pack, writer } = self;
        let ended = writer.finish().and_then(|(out, checksum)| {
            out.into_file()?;
            Ok(checksum)
        });
        let checksum = ended.map_err(|source| pack.error("write", source))?;
        let mut parts = vec![Part { file: pack, extension: "pack", component: Components::PACK }];
        let mut part = |prefix, extension, write: &dyn Fn(&File) -> io::Result<()>| {
            let file = TempFile::create(&place.packs, prefix, 0o444, place.shared)?;
            write(file.file()).map_err(|source| file.error("write", source))?;
            parts.push(Part { file, extension, component: Components::PACK_METADATA });
            Ok::<(), Error>(())
        };
        if options.reverse_index {
            part("tmp_rev_", "rev", &|out| {
                let mut writer = HashWriter::new(out, place.hash, Hashing::Inline);
                let emit = &mut |piece: &[u8]| writer.write(piece);
                idx_writer::write_reverse(members, checksum.as_bytes(), place.hash, emit)?;
                writer.finish().map(drop)
            })?;
        }
        part("tmp_idx_", "idx", &|out| write_idx(out, members, &checksum, &options.index))?;
        Ok(Complete { place, checksum, parts, marks: Vec::new() })
    }
}

/// Returns the hash state of the first `len` bytes.
fn hash_of(file: &File, len: u64, kind: HashKind) -> io::Result<Hasher> {
    const PIECE: usize = 256 << 10;
    let mut hasher = Hasher::checksum(kind);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < len {
        let some = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
        file.read_exact_at(&mut piece[..some], at)?;
        hasher.update(&piece[..some]);
        at += some as u64;
    }
    Ok(hasher)
}

/// A pack whose files are written and not yet renamed to their final names.
#[derive(Debug)]
pub struct Complete {
    place: Place,
    checksum: ObjectId,
    /// The files in the order in which they are published.
    parts: Vec<Part>,
    marks: Vec<(&'static str, Vec<u8>)>,
}

#[derive(Debug)]
struct Part {
    file: TempFile,
    extension: &'static str,
    component: Components,
}

impl Complete {
    /// Returns the pack's trailer, which also names its files.
    pub fn checksum(&self) -> ObjectId {
        self.checksum
    }

    /// Adds a file such as `.keep` or `.promisor`, which is published before the pack. An existing
    /// file is left unchanged.
    pub fn mark(&mut self, extension: &'static str, content: Vec<u8>) {
        self.marks.push((extension, content));
    }

    /// Syncs the files, renames them to `objects/pack/pack-<checksum>.*`, and syncs the directory.
    pub fn publish(self) -> Result<ObjectId, Error> {
        let stem = self.stem();
        self.publish_at(&stem)
    }

    /// Like [`Complete::publish`], with the caller's file name `stem`, to which the extensions are
    /// added.
    pub fn publish_at(self, stem: &Path) -> Result<ObjectId, Error> {
        let fsync = self.place.fsync;
        let files: Vec<_> = self.files().collect();
        side_by_side::for_each(&files, |(file, component)| file.sync(&fsync, *component))?;
        let checksum = self.checksum;
        let dir = self.install(stem)?;
        let io = |source| Error::Io { what: "sync", path: dir.clone(), source };
        fsync.directory(Components::PACK | Components::PACK_METADATA, &dir).map_err(io)?;
        Ok(checksum)
    }

    /// Returns the files to sync before [`Complete::install`].
    pub(crate) fn files(&self) -> impl Iterator<Item = (&TempFile, Components)> {
        self.parts.iter().map(|part| (&part.file, part.component))
    }

    /// Returns the standard path without an extension.
    pub(crate) fn stem(&self) -> PathBuf {
        self.place.packs.join(format!("pack-{}", self.checksum))
    }

    /// Renames the files, which must be synced. Returns the directory that the caller must sync.
    /// After an error, the files that were renamed are removed again.
    pub(crate) fn install(mut self, stem: &Path) -> Result<PathBuf, Error> {
        let mut made = Made { paths: Vec::new(), idx: with_extension(stem, "idx"), kept: false };
        for (extension, content) in &self.marks {
            let path = with_extension(stem, extension);
            let marked = mark(&path, content, &self.place.fsync, &mut made);
            marked.map_err(|source| Error::Io { what: "write", path, source })?;
        }
        for part in &mut self.parts {
            let path = with_extension(stem, part.extension);
            if part.file.rename_new(&path)? {
                made.paths.push(path);
            } else {
                keep(&path, &self.place.fsync, part.component).map_err(|source| Error::Io {
                    what: "sync",
                    path,
                    source,
                })?;
            }
        }
        // A cruft pack may have the same bytes. It becomes an ordinary pack, because `gc` prunes
        // the objects of a cruft pack by their old times.
        let mtimes = with_extension(stem, "mtimes");
        match by_path::remove_file(&mtimes) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::Io { what: "remove", path: mtimes, source });
            }
            _ => {}
        }
        made.kept = true;
        let dir = stem.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
        Ok(dir.to_owned())
    }
}

/// Makes a file of another process durable, because that process may not have synced it. Also
/// updates its modification time: `gc` removes files that are unused and old.
fn keep(path: &Path, fsync: &Fsync, component: Components) -> io::Result<()> {
    let file = by_path::open(path)?;
    let _ = file.set_modified(SystemTime::now());
    fsync.file(component, &file)
}

/// Writes a companion file such as `.keep`, readable only by its owner as in Git.
fn mark(path: &Path, content: &[u8], fsync: &Fsync, made: &mut Made) -> io::Result<()> {
    let mut file = match by_path::create_new(path, 0o600) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        file => file?,
    };
    made.paths.push(path.to_owned());
    io::Write::write_all(&mut file, content)?;
    fsync.file(Components::PACK_METADATA, &file)?;
    sys::close(file)
}

/// The files renamed so far. Dropping the value removes them unless all files were renamed.
struct Made {
    paths: Vec<PathBuf>,
    idx: PathBuf,
    kept: bool,
}

impl Drop for Made {
    fn drop(&mut self) {
        // If an index exists, another process has published the same pack and depends on these
        // files.
        if self.kept || !matches!(by_path::stat(&self.idx), Ok(None)) {
            return;
        }
        for path in self.paths.iter().rev() {
            let _ = by_path::remove_file(path);
        }
    }
}

/// Appends an extension. The name may have dots of its own.
fn with_extension(stem: &Path, extension: &str) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    path.into()
}

#[cfg(test)]
mod tests;
