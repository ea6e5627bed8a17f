//! Bases of kind image: an EROFS image with metadata, and contents in the blob files.

use std::{
    collections::{HashMap, HashSet},
    io::ErrorKind,
    path::{Path, PathBuf},
    time::SystemTime,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    erofs::{self, Place, read, write},
    index::{Flags, Index, Stage, Stat},
};
use repo::convert::Converter;
use sys::File;

use super::{
    AddOptions, Base, Error, Owner, Wanted,
    append::Appender,
    blobs::{BLOCK_BITS, BlobFile, Content},
    contents::{self, Found},
    tree, untracked_cache,
};
use crate::look::protect;

/// Writes `<staged>/image`, and publishes missing contents. Returns the index, with stat data and
/// cache-tree, and the blob files that are devices of the image, as paths that are relative to the
/// base directory or absolute.
pub(super) fn build(
    wanted: &Wanted<'_>,
    appender: &Appender,
    staged: &Path,
    options: &AddOptions<'_>,
    messages: &mut Vec<String>,
) -> Result<(Index, Vec<PathBuf>), Error> {
    let repo = wanted.repo();
    let mut index = tree::index_of(repo.objects(), wanted.tree(), protect(repo)?)?;
    if let Some(patterns) = wanted.sparse() {
        let outside = patterns.outside(&index);
        let entries = index.entries_mut().iter_mut().zip(outside).filter(|(_, is_outside)| *is_outside);
        entries.for_each(|(entry, _)| entry.flags.insert(Flags::SKIP_WORKTREE));
    }
    let converter = Converter::for_tree(repo, &index)?.with_metadata(options.metadata.clone());
    let found = contents::settle(repo, &index, &converter, appender, options, messages)?;
    appender.publish(&options.publication())?;

    let files = files_of(&found);
    let devices: Vec<BlobFile> = files.iter().map(|&file| appender.blob_file(file)).collect();
    let parts = Parts { name: wanted.name(), hidden: &[], found: &found, files: &files, devices };
    assemble(wanted, index, parts, staged, options)
}

/// An image as it was written.
pub(super) struct Written {
    /// The stat data of each entry.
    pub(super) stats: Vec<Stat>,
    /// The stat data of each directory except the root.
    pub(super) dirs: HashMap<BString, Stat>,
    /// The devices: paths that are relative to the base directory, or absolute.
    pub(super) devices: Vec<PathBuf>,
}

/// Writes `<staged>/image` with the entries of `index` and whiteouts at `hidden`, which are sorted
/// paths, and publishes missing contents. `converter` knows the attributes of all entries.
pub(super) fn build_layer(
    wanted: &Wanted<'_>,
    (index, converter): (&Index, &Converter),
    hidden: &[BString],
    appender: &Appender,
    staged: &Path,
    options: &AddOptions<'_>,
    messages: &mut Vec<String>,
) -> Result<Written, Error> {
    let found = contents::settle(wanted.repo(), index, converter, appender, options, messages)?;
    appender.publish(&options.publication())?;
    let files = files_of(&found);
    let devices: Vec<BlobFile> = files.iter().map(|&file| appender.blob_file(file)).collect();
    let name = wanted.name_of_difference();
    let parts = Parts { name: &name, hidden, found: &found, files: &files, devices };
    write_image(wanted, index, parts, staged, options)
}

/// Returns the blob files that hold the contents, sorted.
fn files_of(found: &[Found]) -> Vec<u32> {
    let file = |found: &Found| match found {
        Found::File(Some(content)) => Some(content.file),
        _ => None,
    };
    let mut files: Vec<u32> = found.iter().filter_map(file).collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// The parts of an image, and the locations of their contents.
struct Parts<'a> {
    /// The name of the base.
    name: &'a str,
    /// The paths of whiteouts, sorted.
    hidden: &'a [BString],
    found: &'a [Found],
    /// The blob files that `found` names, sorted.
    files: &'a [u32],
    /// These blob files, with their paths.
    devices: Vec<BlobFile>,
}

fn assemble(
    wanted: &Wanted<'_>,
    mut index: Index,
    parts: Parts<'_>,
    staged: &Path,
    options: &AddOptions<'_>,
) -> Result<(Index, Vec<PathBuf>), Error> {
    let Written { stats, dirs, devices } = write_image(wanted, &index, parts, staged, options)?;
    for (entry, stat) in index.entries_mut().iter_mut().zip(stats) {
        entry.stat = stat;
    }
    untracked_cache::prefill(&mut index, &|dir| dirs.get(dir).copied().unwrap_or_default());
    Ok((index, devices))
}

fn write_image(
    wanted: &Wanted<'_>,
    index: &Index,
    parts: Parts<'_>,
    staged: &Path,
    options: &AddOptions<'_>,
) -> Result<Written, Error> {
    let time = wanted.time();
    let Parts { name, hidden, found, files, devices } = parts;
    let blocks = devices.iter().map(|device| u32::try_from(device.blocks));
    let image = write::Image::new(
        write::Options {
            block_bits: BLOCK_BITS,
            uuid: uuid(name),
            time,
            uid: wanted.owner().uid,
            gid: wanted.owner().gid,
            devices: blocks
                .collect::<Result<_, _>>()
                .map_err(|_| Error::Image("the contents take more than 2 TiB".into()))?,
        },
        permissions(0o777, wanted.owner()),
    );
    let mut made = Made { image, owner: wanted.owner(), dirs: vec![(0, 0)], all: Vec::new() };
    let nodes = made.add_all(index, found, files, hidden)?;
    let layout = made.image.lay_out().map_err(|error| Error::Image(error.to_string()))?;
    emit(&layout, &staged.join("image"), options)?;

    let stat = |node| stat_of(&layout, node, wanted.owner(), time);
    let stats = nodes.into_iter().map(|node| node.map_or_else(Stat::default, stat)).collect();
    let dirs = made.all.into_iter().map(|(path, node)| (path, stat(node))).collect();
    // The mount point of the image.
    create_dir(&staged.join("files"), options)?;
    Ok(Written { stats, dirs, devices: devices.into_iter().map(|device| device.path).collect() })
}

/// Writes `<staged>/image` with the contents of the image of `other`, for the owner of `wanted`.
/// `index` is that of `other`, and `devices` are its blob files. Returns like [`build`].
pub(super) fn derive(
    wanted: &Wanted<'_>,
    other: &Base,
    index: Index,
    devices: Vec<PathBuf>,
    staged: &Path,
    options: &AddOptions<'_>,
) -> Result<(Index, Vec<PathBuf>), Error> {
    let path = other.image();
    let damaged = |what: String| Error::Damaged { path: path.clone(), what };
    let mut found = vec![Found::Nothing; index.len()];
    let sizes = walk(other, &mut |path, inode, level| {
        if let Ok(at) = index.position(path, Stage::Normal) {
            found[at] = match inode.content {
                read::Content::Directory => Found::Submodule,
                read::Content::Symlink(target) => Found::Link(target.into()),
                read::Content::File(place) => Found::File(place.map(|place| Content {
                    file: (level.first_device + usize::from(place.device)) as u32,
                    block: place.block,
                    size: inode.size,
                })),
                read::Content::Whiteout => Found::Nothing,
            };
        }
    })?;
    let is_missing =
        |at: &usize| found[*at] == Found::Nothing && !index.entry(*at).flags.contains(Flags::SKIP_WORKTREE);
    if let Some(at) = (0..index.len()).find(is_missing) {
        return Err(damaged(format!("it lacks '{}'", index.path_at(at))));
    }
    if sizes.len() != devices.len() {
        return Err(damaged("it names other blob files".to_owned()));
    }
    let sizes = sizes.iter().map(|&blocks| u64::from(blocks));
    let devices: Vec<BlobFile> =
        devices.into_iter().zip(sizes).map(|(path, blocks)| BlobFile { path, blocks }).collect();
    let files: Vec<u32> = (0..devices.len() as u32).collect();
    let parts = Parts { name: wanted.name(), hidden: &[], found: &found, files: &files, devices };
    assemble(wanted, index, parts, staged, options)
}

/// The image that an inode lies in.
pub(super) struct Level {
    /// The position of the image's first device in [`Base::all_devices`].
    pub(super) first_device: usize,
    /// The time of all files of the image.
    pub(super) time: (u64, u32),
}

/// Calls `visit` for each visible inode of the image of a base, and then for each of the image
/// below it that is still visible. Returns the number of blocks of each of [`Base::all_devices`].
pub(super) fn walk(
    base: &Base,
    visit: &mut dyn FnMut(&BStr, &read::Inode<'_>, &Level),
) -> Result<Vec<u32>, Error> {
    let parent = base.load_parent()?;
    let mut sizes = Vec::new();
    // Paths of the upper image: directories, and everything that hides what is below.
    let (mut merged, mut hiding): (HashSet<BString>, HashSet<BString>) = Default::default();
    for (number, base) in [base].into_iter().chain(&parent).enumerate() {
        let path = base.image();
        let damaged = |error: read::Error| Error::Damaged { path: path.clone(), what: error.to_string() };
        let failed = |source| Error::Io { action: "read", path: path.clone(), source };
        let file = sys::by_path::open(&path).map_err(failed)?;
        let map = sys::Map::of(&file).map_err(failed)?;
        let image = read::Image::open(&map).map_err(damaged)?;
        let level = Level { first_device: sizes.len(), time: image.time };
        let walked = image.walk::<read::Error>(&mut |path, inode| {
            if number > 0 {
                let ends = path.find_iter("/").chain([path.len()]);
                let is_hidden = || ends.map(|end| path[..end].as_bstr()).any(|part| hiding.contains(part));
                if merged.contains(path) || is_hidden() {
                    return Ok(());
                }
            } else if inode.content == read::Content::Directory {
                merged.insert(path.into());
            } else {
                hiding.insert(path.into());
            }
            if inode.content != read::Content::Whiteout {
                visit(path, inode, &level);
            }
            Ok(())
        });
        walked.map_err(damaged)?;
        sizes.extend(image.devices);
    }
    Ok(sizes)
}

fn create_dir(path: &Path, options: &AddOptions<'_>) -> Result<(), Error> {
    match options.shared.create_dir(path) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            Err(Error::Io { action: "create", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Returns the stat data of a node as a workspace will report them.
fn stat_of(layout: &write::Layout, node: write::Node, owner: Owner, time: (u64, u32)) -> Stat {
    let time = (time.0 as u32, time.1);
    Stat {
        ctime: time,
        mtime: time,
        dev: 0,
        ino: layout.nid(node) as u32,
        uid: owner.uid,
        gid: owner.gid,
        size: layout.size(node) as u32,
    }
}

fn permissions(all: u16, owner: Owner) -> u16 {
    all & !(owner.umask as u16)
}

/// Returns the UUID of an image, derived from the base's name and the present time. A base that is
/// removed and rebuilt gets another UUID, because its contents may lie in other places.
fn uuid(name: &str) -> [u8; 16] {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut hasher = format::hash::Hasher::checksum(format::HashKind::Sha256);
    hasher.update(name.as_bytes());
    hasher.update(&now.as_nanos().to_le_bytes());
    hasher.update(&std::process::id().to_le_bytes());
    let hash = hasher.finish().expect("a checksum looks for no collision");
    let mut uuid: [u8; 16] = hash.as_bytes()[..16].try_into().expect("it has 32 bytes");
    // RFC 9562, version 8: all other bits are free.
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

fn emit(layout: &write::Layout, path: &Path, options: &AddOptions<'_>) -> Result<(), Error> {
    let failed = |action| move |source| Error::Io { action, path: path.to_owned(), source };
    let file: File = options.shared.create_new(path, 0o444).map_err(failed("create"))?;
    let mut offset = 0;
    layout
        .emit(&mut |piece| {
            offset += piece.len() as u64;
            file.write_pieces_at(&mut [std::io::IoSlice::new(piece)], offset - piece.len() as u64)
        })
        .map_err(failed("write"))?;
    if options.syncs() {
        sys::sync_file(&file).map_err(failed("sync"))?;
    }
    sys::close(file).map_err(failed("write"))
}

/// An image under construction.
struct Made {
    image: write::Image,
    owner: Owner,
    /// The directories of the last path: the length of its path, and its node.
    dirs: Vec<(usize, write::Node)>,
    /// All directories except the root.
    all: Vec<(BString, write::Node)>,
}

impl Made {
    /// Adds all entries, the whiteouts at `hidden`, and their directories. Returns the node of each
    /// entry that has a file.
    fn add_all(
        &mut self,
        index: &Index,
        found: &[Found],
        files: &[u32],
        hidden: &[BString],
    ) -> Result<Vec<Option<write::Node>>, Error> {
        let mut nodes = Vec::with_capacity(found.len());
        let mut last = BStr::new("");
        let mut hidden = hidden.iter().map(|path| path.as_bstr()).peekable();
        for (entry, found) in index.entries().iter().zip(found) {
            if *found == Found::Nothing {
                nodes.push(None);
                continue;
            }
            let path = index.path(entry);
            while let Some(whiteout) = hidden.next_if(|hidden| *hidden < path) {
                last = self.hide(last, whiteout)?;
            }
            let refused = |error: write::Error| Error::Image(format!("'{path}': {error}"));
            let parent = self.enter(last, path).map_err(refused)?;
            last = path;
            let name = name_in(path);
            let node = match found {
                Found::Nothing => unreachable!("handled above"),
                Found::Submodule => self.image.add_directory(parent, name, permissions(0o777, self.owner)),
                Found::Link(target) => self.image.add_symlink(parent, name, target.as_bstr()),
                Found::File(content) => {
                    let all = if entry.mode.is_executable() { 0o777 } else { 0o666 };
                    let place = content.map(|content| Place {
                        device: files.binary_search(&content.file).expect("collected above") as u16,
                        block: content.block,
                    });
                    let size = content.map_or(0, |content| content.size);
                    self.image.add_file(parent, name, permissions(all, self.owner), size, place)
                }
            };
            nodes.push(Some(node.map_err(refused)?));
        }
        for whiteout in hidden {
            last = self.hide(last, whiteout)?;
        }
        Ok(nodes)
    }

    /// Adds a whiteout. `last` is the previous path. Returns the path.
    fn hide<'p>(&mut self, last: &BStr, path: &'p BStr) -> Result<&'p BStr, Error> {
        let refused = |error: write::Error| Error::Image(format!("'{path}': {error}"));
        let parent = self.enter(last, path).map_err(refused)?;
        self.image.add_whiteout(parent, name_in(path)).map_err(refused)?;
        Ok(path)
    }

    /// Returns the directory of `path`, and creates it if needed. `last` is the previous path.
    fn enter(&mut self, last: &BStr, path: &BStr) -> Result<write::Node, erofs::write::Error> {
        let same = last.iter().zip(path.iter()).take_while(|(one, other)| one == other).count();
        // Two paths share a directory if they share the slash after it.
        while self.dirs.last().is_some_and(|(length, _)| *length > 0 && *length >= same) {
            self.dirs.pop();
        }
        let known = self.dirs.last().map_or(0, |(length, _)| if *length == 0 { 0 } else { length + 1 });
        for end in path[known..].find_iter("/").map(|at| known + at) {
            let (above, parent) = *self.dirs.last().expect("the root stays");
            let name = path[if above == 0 { 0 } else { above + 1 }..end].as_bstr();
            let node = self.image.add_directory(parent, name, permissions(0o777, self.owner))?;
            self.dirs.push((end, node));
            self.all.push((path[..end].into(), node));
        }
        Ok(self.dirs.last().expect("the root stays").1)
    }
}

/// Returns the last component of a path.
fn name_in(path: &BStr) -> &BStr {
    path[path.rfind_byte(b'/').map_or(0, |slash| slash + 1)..].as_bstr()
}
