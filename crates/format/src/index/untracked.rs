//! The untracked cache (UNTR extension): for each directory the untracked names that `status` found
//! in it.
//!
//! A change of the index invalidates the directories that it may affect, as in Git. Directory walks
//! read and fill the cache through [`Directories`].

mod dirs;

use bstr::{BStr, BString, ByteSlice};

use super::{
    Stat,
    bytes::{Reader, STAT_SIZE, write_stat, write_varint},
    ewah::{self, Bitmap},
};
use crate::{HashKind, ObjectId};
pub use dirs::{Directories, Listed, Recorded};

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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrackedCache {
    /// The hosts and worktrees where the cache may be used, as NUL-terminated strings.
    ident: BString,
    info_exclude: PatternFile,
    excludes_file: PatternFile,
    dir_flags: u32,
    exclude_per_dir: BString,
    /// All directories, each before its subdirectories.
    dirs: Vec<Dir>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Dir {
    name: BString,
    untracked: Vec<BString>,
    /// The number of direct subdirectories, which follow this one.
    subdirs: usize,
    /// The number of all directories below.
    below: usize,
    /// The directory's stat fields, if the record is valid.
    valid: Option<Stat>,
    check_only: bool,
    exclude: Option<ObjectId>,
}

impl Dir {
    /// Clears all data except the directory's place in the tree.
    fn invalidate(&mut self) {
        self.valid = None;
        self.check_only = false;
        self.untracked.clear();
    }
}

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
            dirs: Vec::new(),
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
        self.directories().below(parent).find(|&at| self.dirs[at].name == name)
    }

    /// Reads the payload of an UNTR extension. Returns `None` if it is malformed; the cache is then
    /// rebuilt.
    pub(super) fn read(data: &[u8], hash: HashKind) -> Option<UntrackedCache> {
        let (0, data) = data.split_last().map(|(last, rest)| (*last, rest))? else {
            return None;
        };
        let mut reader = Reader(data);
        let ident_length = usize::try_from(reader.varint()?).ok()?;
        let ident = reader.take(ident_length)?.as_bstr().to_owned();
        let (info_stat, file_stat) = (reader.stat()?, reader.stat()?);
        let dir_flags = reader.u32()?;
        let (info_oid, file_oid) = (reader.oid(hash)?, reader.oid(hash)?);
        let exclude_per_dir = reader.string()?.to_owned();
        let dirs = read_dirs(&mut reader, hash)?;
        reader.0.is_empty().then_some(UntrackedCache {
            ident,
            info_exclude: PatternFile { stat: info_stat, oid: info_oid },
            excludes_file: PatternFile { stat: file_stat, oid: file_oid },
            dir_flags,
            exclude_per_dir,
            dirs,
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
        for dir in &self.dirs {
            write_varint(out, dir.untracked.len() as u64);
            write_varint(out, dir.subdirs as u64);
            for text in std::iter::once(&dir.name).chain(&dir.untracked) {
                out.extend_from_slice(text);
                out.push(0);
            }
        }
        let which = |test: fn(&Dir) -> bool| {
            self.dirs.iter().enumerate().filter(move |(_, dir)| test(dir)).map(|(position, _)| position)
        };
        ewah::write(out, which(|dir| dir.valid.is_some()));
        ewah::write(out, which(|dir| dir.check_only));
        ewah::write(out, which(|dir| dir.exclude.is_some()));
        self.dirs.iter().flat_map(|dir| &dir.valid).for_each(|stat| write_stat(out, stat));
        self.dirs.iter().flat_map(|dir| &dir.exclude).for_each(|oid| out.extend_from_slice(oid.as_bytes()));
        out.push(0);
    }
}

/// Sets [`Dir::below`], from the numbers of direct subdirectories.
fn count_below(dirs: &mut [Dir]) {
    // The open directories, each with the number of its subdirectories that are still to come.
    let mut open: Vec<(usize, usize)> = Vec::new();
    for at in 0..=dirs.len() {
        while open.last().is_some_and(|&(_, left)| left == 0) {
            let (ended, _) = open.pop().expect("there is a last one");
            dirs[ended].below = at - ended - 1;
        }
        if let Some(dir) = dirs.get(at) {
            if let Some((_, left)) = open.last_mut() {
                *left -= 1;
            }
            open.push((at, dir.subdirs));
        }
    }
}

/// Reads the directories, from their number to the end.
fn read_dirs(reader: &mut Reader<'_>, hash: HashKind) -> Option<Vec<Dir>> {
    if reader.0.is_empty() {
        return Some(Vec::new());
    }
    let count = usize::try_from(reader.varint()?).ok()?;
    let mut dirs = Vec::new();
    let mut announced = usize::from(count > 0);
    while announced > 0 {
        let untracked = reader.varint()?;
        let subdirs = usize::try_from(reader.varint()?).ok()?;
        announced = announced.checked_add(subdirs)? - 1;
        let name = reader.string()?.to_owned();
        // Reads the names one by one: a number alone must not allocate memory.
        let mut names = Vec::new();
        for _ in 0..untracked {
            names.push(reader.string()?.to_owned());
        }
        let (untracked, valid, check_only, exclude) = (names, None, false, None);
        dirs.push(Dir { name, untracked, subdirs, below: 0, valid, check_only, exclude });
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
    let mut positions = Vec::new();
    valid.for_each(count, |position| positions.push(position)).ok()?;
    if positions.len() * STAT_SIZE > reader.0.len() {
        return None;
    }
    for position in positions.drain(..) {
        dirs[position].valid = Some(reader.stat()?);
    }
    dirs.iter_mut().filter(|dir| dir.valid.is_none()).for_each(Dir::invalidate);
    with_exclude.for_each(count, |position| positions.push(position)).ok()?;
    for position in positions {
        dirs[position].exclude = Some(reader.oid(hash)?);
    }
    Some(dirs)
}
