//! The layer of a difference of kind directory: the changed files of a checkout, and whiteouts.

use std::{
    collections::BTreeSet,
    io::{ErrorKind, Write as _},
    path::Path,
    sync::atomic::Ordering,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::{Entry, Flags, Index, Stat};
use repo::{
    convert::{self, Class, Converter},
    keys,
    objects::{self, Reader},
};
use sys::{DirMut, by_path};

use super::{AddOptions, Error, Wanted, proof};
use crate::{files::own, look::stat::index_stat};

/// Writes the files of `index` and whiteouts at `hidden`, which are sorted paths, to
/// `<staged>/files`, which must not exist, and the proof. `converter` knows the attributes of all
/// entries. Returns the stat data of each entry. Returns `None` if the file system or the kernel
/// makes no whiteouts.
pub(super) fn build(
    wanted: &Wanted<'_>,
    (index, converter): (&Index, &Converter),
    hidden: &[BString],
    staged: &Path,
    options: &AddOptions<'_>,
    messages: &mut Vec<String>,
) -> Result<Option<Vec<Stat>>, Error> {
    let (repo, files) = (wanted.repo(), staged.join("files"));
    by_path::create_dir(&files).map_err(failed("create", &files, BStr::new("")))?;
    let root = own::open(&files).map_err(failed("open", &files, BStr::new("")))?;
    let present = |entry: &&Entry| !entry.flags.contains(Flags::SKIP_WORKTREE);
    let blobs = index.entries().iter().filter(present).filter(|entry| !entry.mode.is_gitlink());
    repo.objects().fetch_to_read(&mut blobs.map(|entry| entry.oid))?;
    let paths =
        index.entries().iter().filter(present).map(|entry| (index.path(entry), entry.mode.is_gitlink()));
    let dirs = directories(paths.chain(hidden.iter().map(|path| (path.as_bstr(), false))));
    for dir in &dirs {
        root.create_dir(dir).map_err(failed("create", &files, dir))?;
    }
    let time = (i64::try_from(wanted.time().0).expect("it is a time of this century"), wanted.time().1);
    let mut writer = Writer {
        root: &root,
        time,
        files: &files,
        reader: repo.objects().reader(),
        convert: converter.worker(),
        has_links: repo.config(&keys::core::SYMLINKS)?,
        limit: options.big_file_threshold,
        converted: Vec::new(),
    };
    let mut stats = Vec::with_capacity(index.len());
    for entry in index.entries() {
        if options.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        stats.push(if present(&entry) { writer.write(index.path(entry), entry)? } else { Stat::default() });
    }
    messages.append(&mut writer.convert.take_messages());
    for path in hidden {
        let at = files.join(sys::os_str(path));
        match by_path::create_whiteout(&at) {
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
                return Ok(None);
            }
            made => made.map_err(failed("create", &files, path.as_bstr()))?,
        }
    }
    for dir in &dirs {
        root.set_modified(dir, time).map_err(failed("change the time of", &files, dir))?;
    }
    by_path::set_modified(&files, time).map_err(failed("change the time of", &files, BStr::new("")))?;
    proof::write_of(staged, [BStr::new("")].into_iter().chain(dirs.iter().copied()))?;
    Ok(Some(stats))
}

/// Returns the directories above the paths, and those paths that are directories, each after its
/// parent.
fn directories<'p>(paths: impl Iterator<Item = (&'p BStr, bool)>) -> BTreeSet<&'p BStr> {
    let mut dirs: BTreeSet<&BStr> = BTreeSet::new();
    for (path, is_directory) in paths {
        let slashes = path.find_iter("/").map(|slash| path[..slash].as_bstr());
        dirs.extend(slashes.chain(is_directory.then_some(path)));
    }
    dirs
}

fn failed(action: &'static str, files: &Path, path: &BStr) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = if path.is_empty() { files.to_owned() } else { files.join(sys::os_str(path)) };
    move |source| Error::Io { action, path, source }
}

struct Writer<'a> {
    root: &'a DirMut,
    files: &'a Path,
    /// The modification time of all files.
    time: (i64, u32),
    reader: Reader<'a>,
    convert: convert::Worker,
    has_links: bool,
    /// Larger unconverted files are not read into memory.
    limit: u64,
    converted: Vec<u8>,
}

impl Writer<'_> {
    /// Writes one entry. Returns its stat data.
    fn write(&mut self, path: &BStr, entry: &Entry) -> Result<Stat, Error> {
        let (root, files) = (self.root, self.files);
        let io = |action| failed(action, files, path);
        if !entry.mode.is_gitlink() {
            let class = self.convert.class(path, entry.mode)?;
            let limit = if class == Class::None && !entry.mode.is_symlink() { self.limit } else { u64::MAX };
            let unreadable = |source| Error::Content { path: path.into(), source: Box::new(source) };
            let not_a_blob = || Error::NotABlob { path: path.into(), oid: entry.oid };
            match self.reader.read_located(&entry.oid, None, limit).map_err(unreadable)? {
                objects::Content::Large(objects::Kind::Blob, _) => {
                    let mut file = root.create_new(path, entry.mode.is_executable()).map_err(io("create"))?;
                    let streamed = self.reader.stream(&entry.oid, &mut |piece| file.write_all(piece));
                    streamed.map_err(unreadable)?;
                }
                objects::Content::Whole(objects::Kind::Blob, blob)
                    if entry.mode.is_symlink() && self.has_links =>
                {
                    // The kernel ends the target of a link at its first NUL.
                    let end = blob.find_byte(0).unwrap_or(blob.len());
                    root.symlink(&blob[..end], path).map_err(io("create"))?;
                }
                objects::Content::Whole(objects::Kind::Blob, blob) => {
                    let bytes = match class {
                        Class::None => Ok(blob),
                        Class::InProcess | Class::External => {
                            self.convert.to_worktree(path, entry.oid, blob, &mut self.converted)
                        }
                    };
                    let wrong = |source| Error::Convert { path: path.into(), source: Box::new(source) };
                    let bytes = bytes.map_err(wrong)?;
                    let mut file = root.create_new(path, entry.mode.is_executable()).map_err(io("create"))?;
                    file.write_all(bytes).map_err(io("write"))?;
                }
                _ => return Err(not_a_blob()),
            }
        }
        if !entry.mode.is_gitlink() {
            root.set_modified(path, self.time).map_err(io("change the time of"))?;
        }
        let stat = root.stat(path).map_err(io("examine"))?;
        Ok(stat.as_ref().map(index_stat).unwrap_or_default())
    }
}
