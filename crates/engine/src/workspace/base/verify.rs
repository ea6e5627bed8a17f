//! Verifies a base against its tree.
//!
//! Three checks: the entries of the index form the tree, the files are those of the index, and the
//! bytes of each file hash to the name of its blob. The bytes of a converted file differ from its
//! blob. They are compared with a conversion by the settings of the repository, if one is given.
//! The image of a base must also have the stat data that the index expects.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    erofs::{Place, read},
    hash::Hasher,
    index::{Entry, Flags, Index},
};
use repo::{Repository, convert::Converter, objects::Kind as ObjectKind};
use sys::{Dir, File, FileType, by_path};

use super::{Base, Error, Kind, blobs::BLOCK_BITS, contents::name_of, image, tree};
use crate::{crew::parallel, look::protect};

/// A path that differs from its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The path; empty for the whole base.
    pub path: BString,
    /// The difference.
    pub what: String,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of files.
    pub files: usize,
    /// The number of files with converted contents that could not be compared.
    pub unknown: usize,
    /// The differences.
    pub flaws: Vec<Flaw>,
}

/// The number of files in a batch.
const BATCH: usize = 128;

/// The location of the bytes of a file.
enum Source {
    /// In a blob file: its index, the offset and the size in bytes.
    Blob(usize, u64, u64),
    Link(BString),
    Empty,
    /// A directory of a submodule.
    Directory,
    /// On disk, in the layer with this number.
    Disk(usize),
}

/// The result for one entry.
enum Answer {
    Same,
    Unknown,
    Flaw(String),
}

impl Base {
    /// Verifies the base. `repo` provides the objects for files with converted contents.
    pub fn verify(&self, repo: Option<&Repository>, workers: usize) -> Result<Verified, Error> {
        let options = store::index::ReadOptions { verify: true, ..store::index::ReadOptions::default() };
        let index = self.load_index(&options)?;
        let mut verified = Verified { files: index.len(), ..Verified::default() };
        let mut flaw = |path: &BStr, what: &str| {
            verified.flaws.push(Flaw { path: path.into(), what: what.to_owned() });
        };
        if !self.is_index_of_tree(&index, repo)? {
            flaw(BStr::new(""), "its index does not make up its tree");
        }
        let sources = match self.kind {
            Kind::Image => self.sources_in_image(&index, &mut flaw)?,
            Kind::Directory => self.sources_on_disk(&index, &mut flaw)?,
        };
        let job = Job {
            index: &index,
            sources: &sources,
            devices: self.open_devices()?,
            files: match self.kind {
                Kind::Image => Vec::new(),
                Kind::Directory => self.open_bytes()?,
            },
            converter: repo.map(|repo| Converter::for_tree(repo, &index)).transpose()?,
            repo,
        };
        let batches: Vec<usize> = (0..index.len()).step_by(BATCH).collect();
        let mut states: Vec<State<'_>> =
            (0..parallel::threads(index.len(), BATCH, workers)).map(|_| State::of(&job)).collect();
        let answers = parallel::map(&batches, &mut states, |state, &first| {
            let range = first..(first + BATCH).min(index.len());
            range.map(|at| job.compare(at, state)).collect::<Result<Vec<_>, Error>>()
        })?;
        for (at, answer) in answers.into_iter().flatten().enumerate() {
            match answer {
                Answer::Same => {}
                Answer::Unknown => verified.unknown += 1,
                Answer::Flaw(what) => {
                    verified.flaws.push(Flaw { path: index.path_at(at).into(), what });
                }
            }
        }
        Ok(verified)
    }

    /// Returns true if the entries of the index are those of the tree. Without a repository, the
    /// tree's name is computed from the entries.
    fn is_index_of_tree(&self, index: &Index, repo: Option<&Repository>) -> Result<bool, Error> {
        let Some(repo) = repo else { return Ok(tree_of(index, 0..index.len(), 0) == Some(self.tree)) };
        let wanted = tree::index_of(repo.objects(), self.tree, protect(repo)?)?;
        let is_same = |at: usize| {
            let (one, other) = (index.entry(at), wanted.entry(at));
            (index.path_at(at), one.mode, one.oid) == (wanted.path_at(at), other.mode, other.oid)
        };
        Ok(index.len() == wanted.len() && (0..index.len()).all(is_same))
    }

    /// Loads the entries of the index. All entries of a whole base are in the shared half.
    pub fn load_index(&self, options: &store::index::ReadOptions) -> Result<Index, Error> {
        let (rest, shared, hash) = (self.rest_of_index(), self.shared_index(), self.tree.kind());
        let loaded = match self.parent {
            Some(_) => store::index::load_over(&rest, &shared, hash, options),
            None => store::index::load(&shared, hash, options),
        };
        loaded.map_err(|error| Error::Damaged { path: rest, what: error.to_string() })
    }

    fn open_devices(&self) -> Result<Vec<File>, Error> {
        self.all_devices()?.iter().map(|path| by_path::open(path).map_err(io("open", path))).collect()
    }

    /// Opens the directories with the bytes of the files, from top to bottom.
    fn open_bytes(&self) -> Result<Vec<Dir>, Error> {
        let below = self.load_parent()?.map(|parent| parent.bytes());
        let all = [self.bytes()].into_iter().chain(below);
        all.map(|dir| Dir::open(&dir).map_err(io("open", &dir))).collect()
    }

    /// Finds the location of each entry's bytes, and compares the image with the index.
    fn sources_in_image(
        &self,
        index: &Index,
        flaw: &mut dyn FnMut(&BStr, &str),
    ) -> Result<Vec<Option<Source>>, Error> {
        let mut sources: Vec<Option<Source>> = (0..index.len()).map(|_| None).collect();
        image::walk(self, &mut |path, inode, level| {
            let time = (level.time.0 as u32, level.time.1);
            let at = index.first_in(0..index.len(), path);
            if at == index.len() || index.path_at(at) != path {
                let is_above = inode.content == read::Content::Directory
                    && (path.is_empty() || !index.range_below(path).is_empty());
                if !is_above {
                    flaw(path, "it is in the image and not in the tree");
                }
                return;
            }
            let entry = index.entry(at);
            let stat = &entry.stat;
            let is_same = (stat.ino, stat.size, stat.mtime, stat.ctime, stat.uid, stat.gid)
                == (inode.nid as u32, inode.size as u32, time, time, inode.uid, inode.gid);
            if !is_same {
                flaw(path, "the index expects other stat data");
            }
            let source = match inode.content {
                read::Content::Directory => Source::Directory,
                read::Content::Symlink(target) => Source::Link(target.into()),
                read::Content::File(None) => Source::Empty,
                read::Content::File(Some(Place { device, block })) => {
                    let device = level.first_device + usize::from(device);
                    Source::Blob(device, u64::from(block) << BLOCK_BITS, inode.size)
                }
                read::Content::Whiteout => return,
            };
            let is_executable = inode.permissions & 0o100 != 0;
            if matches!(source, Source::Blob(..) | Source::Empty)
                && entry.mode.is_file()
                && is_executable != entry.mode.is_executable()
            {
                flaw(path, "its mode differs");
            }
            sources[at] = Some(source);
        })?;
        Ok(sources)
    }

    fn sources_on_disk(
        &self,
        index: &Index,
        flaw: &mut dyn FnMut(&BStr, &str),
    ) -> Result<Vec<Option<Source>>, Error> {
        let layers = self.layers();
        let opened = layers.iter().map(|dir| Dir::open(dir).map_err(io("open", dir)));
        let roots: Vec<Dir> = opened.collect::<Result<_, _>>()?;
        let mut sources = Vec::with_capacity(index.len());
        for entry in index.entries() {
            let path = index.path(entry);
            let found =
                find_in(&roots, path).map_err(io("examine", &self.files().join(sys::os_str(path))))?;
            sources.push(match found {
                None => None,
                Some((layer, stat)) => {
                    let (root, files) = (&roots[layer], &layers[layer]);
                    if entry.mode.is_file() && stat.is_executable() != entry.mode.is_executable() {
                        flaw(path, "its mode differs");
                    }
                    Some(match stat.file_type {
                        FileType::Directory => Source::Directory,
                        FileType::Symlink => Source::Link(
                            root.read_link(path).map_err(io("read", &files.join(sys::os_str(path))))?.into(),
                        ),
                        _ => Source::Disk(layer),
                    })
                }
            });
        }
        Ok(sources)
    }
}

/// A comparison in progress.
struct Job<'j> {
    index: &'j Index,
    sources: &'j [Option<Source>],
    devices: Vec<File>,
    /// The directories with the bytes of the files, from top to bottom.
    files: Vec<Dir>,
    converter: Option<Converter>,
    repo: Option<&'j Repository>,
}

/// The buffers of one thread.
struct State<'j> {
    convert: Option<repo::convert::Worker>,
    reader: Option<repo::objects::Reader<'j>>,
    buffer: Vec<u8>,
    converted: Vec<u8>,
}

impl<'j> State<'j> {
    fn of(job: &Job<'j>) -> State<'j> {
        State {
            convert: job.converter.as_ref().map(Converter::worker),
            reader: job.repo.map(|repo| repo.objects().reader()),
            buffer: Vec::new(),
            converted: Vec::new(),
        }
    }
}

impl Job<'_> {
    fn compare(&self, at: usize, state: &mut State<'_>) -> Result<Answer, Error> {
        let entry = self.index.entry(at);
        let path = self.index.path_at(at);
        let flaw = |what: &str| Ok(Answer::Flaw(what.to_owned()));
        let is_outside = entry.flags.contains(Flags::SKIP_WORKTREE);
        let hash = self.index.hash;
        let found = match (&self.sources[at], is_outside) {
            (None, true) => return Ok(Answer::Same),
            (Some(_), true) => return flaw("it is outside of the sparse patterns"),
            (None, false) => return flaw("it is missing"),
            (Some(source), false) => source,
        };
        let name = match found {
            Source::Directory if entry.mode.is_gitlink() => return Ok(Answer::Same),
            Source::Directory => return flaw("it is a directory"),
            _ if entry.mode.is_gitlink() => return flaw("it is no directory"),
            Source::Link(target) if entry.mode.is_symlink() => name_of(target, hash),
            Source::Link(_) => return flaw("it is a symbolic link"),
            Source::Empty => name_of(b"", hash),
            &Source::Blob(device, offset, size) => self.hash_blob(device, offset, size, state)?,
            &Source::Disk(layer) => {
                let files = &self.files[layer];
                state.buffer.clear();
                let read = files
                    .open_file(path)
                    .and_then(|mut file| std::io::Read::read_to_end(&mut file, &mut state.buffer));
                read.map_err(io("read", Path::new(sys::os_str(path))))?;
                name_of(&state.buffer, hash)
            }
        };
        match name {
            None => flaw("its content is a collision attack"),
            Some(name) if name == entry.oid => Ok(Answer::Same),
            // The bytes of an unconverted blob hash to its own name.
            Some(_) if matches!(found, Source::Link(_)) => flaw("it leads elsewhere"),
            Some(name) => self.compare_converted(path, &entry, name, state),
        }
    }

    fn hash_blob(
        &self,
        device: usize,
        offset: u64,
        size: u64,
        state: &mut State<'_>,
    ) -> Result<Option<ObjectId>, Error> {
        const PIECE: u64 = 1 << 20;
        let file = &self.devices[device];
        let mut hasher = Hasher::object(self.index.hash, "blob", size);
        let mut done = 0;
        while done < size {
            let length = PIECE.min(size - done);
            state.buffer.resize(length as usize, 0);
            let read = file.read_exact_at(&mut state.buffer, offset + done);
            read.map_err(io("read", &PathBuf::from(format!("blob file {device}"))))?;
            hasher.update(&state.buffer);
            done += length;
        }
        Ok(hasher.finish().ok())
    }

    /// Compares a file with the conversion of its blob.
    fn compare_converted(
        &self,
        path: &BStr,
        entry: &Entry,
        name: ObjectId,
        state: &mut State<'_>,
    ) -> Result<Answer, Error> {
        let State { convert, reader, converted, .. } = state;
        let (Some(convert), Some(reader)) = (convert, reader) else { return Ok(Answer::Unknown) };
        let blob = match reader.read(&entry.oid) {
            Ok((ObjectKind::Blob, blob)) => blob,
            Ok(_) => return Err(Error::NotABlob { path: path.into(), oid: entry.oid }),
            Err(source) => return Err(Error::Content { path: path.into(), source: Box::new(source) }),
        };
        let bytes = if entry.mode.is_symlink() {
            Ok(blob)
        } else {
            convert.to_worktree(path, entry.oid, blob, converted)
        };
        let bytes = bytes.map_err(|source| Error::Convert { path: path.into(), source: Box::new(source) })?;
        Ok(if name_of(bytes, self.index.hash) == Some(name) {
            Answer::Same
        } else {
            Answer::Flaw("its content differs".to_owned())
        })
    }
}

/// Returns the name of the tree that the entries in `range` form, or `None` for a SHA-1 collision
/// attack. Their paths share the first `prefix` bytes.
fn tree_of(index: &Index, range: std::ops::Range<usize>, prefix: usize) -> Option<ObjectId> {
    let mut content: Vec<u8> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let path = index.path_at(at);
        let name = &path[prefix..];
        let entry = index.entry(at);
        let (mode, name, oid, end) = match name.find_byte(b'/') {
            None => (entry.mode, name, entry.oid, at + 1),
            Some(slash) => {
                let end = index.end_of_prefix(at, prefix + slash + 1, range.end);
                (Mode::TREE, &name[..slash], tree_of(index, at..end, prefix + slash + 1)?, end)
            }
        };
        content.extend_from_slice(format!("{:o} ", mode.bits()).as_bytes());
        content.extend_from_slice(name);
        content.push(0);
        content.extend_from_slice(oid.as_bytes());
        at = end;
    }
    let mut hasher = Hasher::object(index.hash, "tree", content.len() as u64);
    hasher.update(&content);
    hasher.finish().ok()
}

/// Returns the layer that provides the file at `path`, and its stat data. `layers` are from top to
/// bottom.
pub(crate) fn find_in(layers: &[Dir], path: &BStr) -> std::io::Result<Option<(usize, sys::Stat)>> {
    for (number, layer) in layers.iter().enumerate() {
        match layer.stat(path)? {
            Some(stat) if stat.file_type == FileType::Other => return Ok(None),
            Some(stat) => return Ok(Some((number, stat))),
            None => {}
        }
        for above in path.find_iter("/").map(|end| path[..end].as_bstr()) {
            if layer.stat(above)?.is_some_and(|stat| stat.file_type != FileType::Directory) {
                return Ok(None);
            }
        }
    }
    Ok(None)
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { action, path, source }
}
