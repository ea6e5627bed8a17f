//! The untracked cache (UNTR extension): for each directory the untracked names that `status` found
//! in it.
//!
//! A change of the index invalidates the directories that it may affect, as in Git. Directory walks
//! read and fill the cache through [`Directories`].

mod dirs;

use std::num::NonZero;

use bstr::{BStr, BString, ByteSlice};

use super::{
    Stat,
    bytes::{Reader, STAT_SIZE, write_stat, write_varint},
    ewah::{self, Bitmap},
};
use crate::{HashKind, ObjectId};
pub use dirs::{Directories, Listed, Names, Recorded};

/// Git's `DIR_SHOW_OTHER_DIRECTORIES`: only the name of an untracked directory is shown, so a
/// directory's result depends on everything below it.
const SHOW_OTHER_DIRECTORIES: u32 = 1 << 1;

/// Git's `DIR_HIDE_EMPTY_DIRECTORIES`.
const HIDE_EMPTY_DIRECTORIES: u32 = 1 << 2;

/// A file of patterns that invalidates the whole cache when it changes: its stat fields, and the
/// object name of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PatternFile {
    stat: Stat,
    oid: ObjectId,
}

/// The untracked cache.
///
/// Names, stat fields and object names stay as bytes of the file until they are requested: a cache
/// of 100,000 directories would otherwise be 100,000 allocations.
#[derive(Clone, Debug)]
pub struct UntrackedCache {
    /// The hosts and worktrees where the cache may be used, as NUL-terminated strings.
    ident: BString,
    info_exclude: PatternFile,
    excludes_file: PatternFile,
    dir_flags: u32,
    exclude_per_dir: BString,
    hash: HashKind,
    /// All directories, each before its subdirectories.
    dirs: Vec<Dir>,
    /// The payload that was read, and behind it the data of newer records. The first byte belongs
    /// to no directory.
    bytes: Vec<u8>,
}

/// A directory. Its data are in [`UntrackedCache::bytes`].
#[derive(Clone, Copy, Debug)]
struct Dir {
    /// The offset of its name. A NUL follows, then its untracked names, each with a NUL.
    text: u32,
    /// The number of its untracked names.
    untracked: u32,
    /// The number of direct subdirectories, which follow this one.
    subdirs: u32,
    /// The number of all directories below.
    below: u32,
    /// The offset of its stat fields, if the record is valid.
    valid: Option<NonZero<u32>>,
    /// The offset of the object name of its ignore file, if it has one.
    exclude: Option<NonZero<u32>>,
    check_only: bool,
}

impl Dir {
    /// Clears all data except the directory's place in the tree.
    fn invalidate(&mut self) {
        self.valid = None;
        self.check_only = false;
        self.untracked = 0;
    }
}

impl PartialEq for UntrackedCache {
    fn eq(&self, other: &UntrackedCache) -> bool {
        let head = |cache: &UntrackedCache| {
            let UntrackedCache { ident, info_exclude, excludes_file, dir_flags, exclude_per_dir, .. } = cache;
            let excludes = [info_exclude.clone(), excludes_file.clone()];
            (ident.clone(), excludes, *dir_flags, exclude_per_dir.clone(), cache.dirs.len())
        };
        let dir = |cache: &UntrackedCache, at: usize| {
            let Dir { untracked, subdirs, check_only, .. } = cache.dirs[at];
            let (stat, exclude) = (cache.stat(at), cache.exclude(at));
            (cache.text(at).to_owned(), untracked, subdirs, check_only, stat, exclude)
        };
        head(self) == head(other) && (0..self.dirs.len()).all(|at| dir(self, at) == dir(other, at))
    }
}

impl Eq for UntrackedCache {}

impl UntrackedCache {
    /// The flags for every value of `status.showUntrackedFiles` but `all`, whose flags are 0.
    pub const NORMAL: u32 = SHOW_OTHER_DIRECTORIES | HIDE_EMPTY_DIRECTORIES;

    /// Creates a cache without directories. `ident` identifies the host and worktree where it may
    /// be used; `dir_flags` are Git's flags of the walks that fill it.
    pub fn new(ident: &BStr, dir_flags: u32, hash: HashKind) -> UntrackedCache {
        let exclude = PatternFile { stat: Stat::default(), oid: ObjectId::null(hash) };
        UntrackedCache {
            ident: [ident.as_bytes(), b"\0"].concat().into(),
            info_exclude: exclude.clone(),
            excludes_file: exclude,
            dir_flags,
            exclude_per_dir: ".gitignore".into(),
            hash,
            dirs: Vec::new(),
            bytes: vec![0],
        }
    }

    /// Returns the location where the cache may be used. Older versions of Git wrote several
    /// locations; only the first one is used.
    pub fn ident(&self) -> &BStr {
        self.ident.split(|&byte| byte == 0).next().unwrap_or_default().as_bstr()
    }

    /// Invalidates the directories that may change when `path` enters or leaves the index.
    pub fn invalidate(&mut self, path: &BStr) {
        if self.dirs.is_empty() {
            return;
        }
        let mut on_the_way = vec![0];
        let mut complete = true;
        let mut components: Vec<_> = path.split_str("/").collect();
        components.pop();
        for name in components {
            let parent = *on_the_way.last().expect("starts with the root");
            match self.subdir(parent, name) {
                Some(found) => on_the_way.push(found),
                None => {
                    complete = false;
                    break;
                }
            }
        }
        let affected = match (self.dir_flags & SHOW_OTHER_DIRECTORIES != 0, complete) {
            (true, _) => &on_the_way[..],
            (false, true) => &on_the_way[on_the_way.len() - 1..],
            (false, false) => &[],
        };
        for &dir in affected {
            self.dirs[dir].invalidate();
        }
    }

    /// Invalidates the directories that may change when something at `path` (without trailing
    /// slash), or below it, changes on disk.
    pub fn invalidate_on_disk(&mut self, path: &BStr) {
        self.invalidate(path);
        if self.dirs.is_empty() {
            return;
        }
        // A change in an unrecorded directory affects its parent.
        let mut at = 0;
        for name in path.split_str("/") {
            match self.subdir(at, name) {
                Some(found) => at = found,
                None => return self.dirs[at].invalidate(),
            }
        }
        let after = self.directories().after(at);
        self.dirs[at..after].iter_mut().for_each(Dir::invalidate);
    }

    /// Invalidates all directories.
    pub fn invalidate_all(&mut self) {
        self.dirs.iter_mut().for_each(Dir::invalidate);
    }

    fn subdir(&self, parent: usize, name: &[u8]) -> Option<usize> {
        self.directories().below(parent).find(|&at| self.name(at) == name)
    }

    /// Returns the bytes from the data at `offset` on.
    fn from(&self, offset: u32) -> Reader<'_> {
        Reader(&self.bytes[offset as usize..])
    }

    /// Returns the last component of the directory's path.
    fn name(&self, dir: usize) -> &BStr {
        self.from(self.dirs[dir].text).string().unwrap_or_default()
    }

    /// Returns the untracked names of the directory.
    fn untracked(&self, dir: usize) -> Names<'_> {
        let mut text = self.from(self.dirs[dir].text);
        text.string();
        Names::new(text, self.dirs[dir].untracked)
    }

    /// Returns the directory's name and its untracked names, each with its NUL.
    fn text(&self, dir: usize) -> &[u8] {
        let Dir { text, untracked, .. } = self.dirs[dir];
        let all = self.from(text);
        let mut rest = all;
        for _ in 0..=untracked {
            rest.string();
        }
        &all.0[..all.0.len() - rest.0.len()]
    }

    /// Returns the stat fields of a valid record.
    fn stat(&self, dir: usize) -> Option<Stat> {
        self.from(self.dirs[dir].valid?.get()).stat()
    }

    /// Returns the object name of the directory's ignore file, if it has one.
    fn exclude(&self, dir: usize) -> Option<ObjectId> {
        self.from(self.dirs[dir].exclude?.get()).oid(self.hash)
    }

    /// Reads the payload of an UNTR extension. Returns `None` if it is malformed; the cache is then
    /// rebuilt.
    pub(super) fn read(payload: Vec<u8>, hash: HashKind) -> Option<UntrackedCache> {
        u32::try_from(payload.len()).ok()?;
        let (0, data) = payload.split_last().map(|(last, rest)| (*last, rest))? else {
            return None;
        };
        let mut reader = Reader(data);
        let ident_length = usize::try_from(reader.varint()?).ok()?;
        let ident = reader.take(ident_length)?.as_bstr().to_owned();
        let (info_stat, file_stat) = (reader.stat()?, reader.stat()?);
        let dir_flags = reader.u32()?;
        let (info_oid, file_oid) = (reader.oid(hash)?, reader.oid(hash)?);
        let exclude_per_dir = reader.string()?.to_owned();
        let dirs = read_dirs(&mut reader, data.len(), hash)?;
        reader.0.is_empty().then_some(UntrackedCache {
            ident,
            info_exclude: PatternFile { stat: info_stat, oid: info_oid },
            excludes_file: PatternFile { stat: file_stat, oid: file_oid },
            dir_flags,
            exclude_per_dir,
            hash,
            dirs,
            bytes: payload,
        })
    }

    /// Appends the payload of an UNTR extension.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write_varint(out, self.ident.len() as u64);
        out.extend_from_slice(&self.ident);
        write_stat(out, &self.info_exclude.stat);
        write_stat(out, &self.excludes_file.stat);
        out.extend_from_slice(&self.dir_flags.to_be_bytes());
        out.extend_from_slice(self.info_exclude.oid.as_bytes());
        out.extend_from_slice(self.excludes_file.oid.as_bytes());
        out.extend_from_slice(&self.exclude_per_dir);
        out.push(0);
        write_varint(out, self.dirs.len() as u64);
        if self.dirs.is_empty() {
            // The NUL of the number is also the NUL that ends every such extension.
            return;
        }
        for (at, dir) in self.dirs.iter().enumerate() {
            write_varint(out, u64::from(dir.untracked));
            write_varint(out, u64::from(dir.subdirs));
            out.extend_from_slice(self.text(at));
        }
        let which = |test: fn(&Dir) -> bool| {
            self.dirs.iter().enumerate().filter(move |(_, dir)| test(dir)).map(|(position, _)| position)
        };
        ewah::write(out, which(|dir| dir.valid.is_some()));
        ewah::write(out, which(|dir| dir.check_only));
        ewah::write(out, which(|dir| dir.exclude.is_some()));
        let data = |offset: NonZero<u32>, length| &self.bytes[offset.get() as usize..][..length];
        let stats = self.dirs.iter().filter_map(|dir| dir.valid);
        stats.for_each(|stat| out.extend_from_slice(data(stat, STAT_SIZE)));
        let excludes = self.dirs.iter().filter_map(|dir| dir.exclude);
        excludes.for_each(|oid| out.extend_from_slice(data(oid, self.hash.len())));
        out.push(0);
    }
}

/// Sets [`Dir::below`], from the numbers of direct subdirectories.
fn count_below(dirs: &mut [Dir]) {
    // The open directories, each with the number of its subdirectories that are still to come.
    let mut open: Vec<(usize, u32)> = Vec::new();
    for at in 0..=dirs.len() {
        while open.last().is_some_and(|&(_, left)| left == 0) {
            let (ended, _) = open.pop().expect("there is a last one");
            dirs[ended].below = (at - ended - 1) as u32;
        }
        if let Some(dir) = dirs.get(at) {
            if let Some((_, left)) = open.last_mut() {
                *left -= 1;
            }
            open.push((at, dir.subdirs));
        }
    }
}

/// Reads the directories, from their number to the end. The payload has `length` bytes.
fn read_dirs(reader: &mut Reader<'_>, length: usize, hash: HashKind) -> Option<Vec<Dir>> {
    if reader.0.is_empty() {
        return Some(Vec::new());
    }
    let offset = |reader: &Reader<'_>| (length - reader.0.len()) as u32;
    let count = usize::try_from(reader.varint()?).ok()?;
    // Two numbers and a NUL for each. A number alone must not allocate memory.
    let mut dirs = Vec::with_capacity(count.min(reader.0.len() / 3));
    let mut announced = usize::from(count > 0);
    while announced > 0 {
        let untracked = u32::try_from(reader.varint()?).ok()?;
        let subdirs = u32::try_from(reader.varint()?).ok()?;
        announced = announced.checked_add(subdirs as usize)? - 1;
        let text = offset(reader);
        for _ in 0..=untracked {
            reader.string()?;
        }
        let (valid, exclude, check_only) = (None, None, false);
        dirs.push(Dir { text, untracked, subdirs, below: 0, valid, exclude, check_only });
    }
    if dirs.len() != count {
        return None;
    }
    count_below(&mut dirs);
    if count == 0 {
        return Some(dirs);
    }
    let valid = Bitmap::read(reader)?;
    let check_only = Bitmap::read(reader)?;
    let with_exclude = Bitmap::read(reader)?;
    check_only.for_each(count, |position| dirs[position].check_only = true).ok()?;
    let mut next = u64::from(offset(reader));
    let mut place = |size: usize| {
        let place = u32::try_from(next).ok().and_then(NonZero::new);
        next += size as u64;
        place
    };
    valid.for_each(count, |position| dirs[position].valid = place(STAT_SIZE)).ok()?;
    with_exclude.for_each(count, |position| dirs[position].exclude = place(hash.len())).ok()?;
    reader.take(usize::try_from(next).ok()?.checked_sub(offset(reader) as usize)?)?;
    dirs.iter_mut().filter(|dir| dir.valid.is_none()).for_each(Dir::invalidate);
    Some(dirs)
}
