//! Reads one ref: a loose ref overrides packed-refs; symbolic refs are followed.
//!
//! Order: the loose file is opened first and packed-refs is searched afterwards. The latter is read
//! again if it has changed since it was last read, so a ref that another process packs meanwhile is
//! found in one of them. Only `ENOENT`, `ENOTDIR` and `ENAMETOOLONG` mean that a loose ref does not
//! exist. Any other failure is an error, because packed-refs may hold an older value. Cost: a loose
//! ref takes an open, a read and a close; any other ref takes one more stat of packed-refs.

use std::{
    io::{self, ErrorKind},
    ops::{ControlFlow, Deref},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, ObjectId,
    packed_refs::{Malformed, PackedRefs, Record},
    ref_file::{self, Value},
    refname::{self, Levels},
};
use sys::{
    Map, Stat,
    by_path::{self, Content},
};

use crate::{Attempt, Error, RefError};

/// The limit for a chain of symbolic refs, as in Git.
const MAX_DEPTH: usize = 5;

/// A file up to this size is read, a larger one is mapped.
const SMALL: u64 = 32 << 10;

/// The refs of a worktree.
pub(crate) struct Store {
    pub(crate) git_dir: PathBuf,
    pub(crate) packed: Arc<Packed>,
}

/// The refs that all worktrees share.
pub(crate) struct Packed {
    pub(crate) common_dir: PathBuf,
    pub(super) hash: HashKind,
    path: PathBuf,
    /// The file as messages print it.
    shown: PathBuf,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
}

/// The content of the file when it was read. `stat` is `None` if it did not exist.
pub(crate) struct Snapshot {
    stat: Option<Stat>,
    refs: PackedRefs<Bytes>,
}

enum Bytes {
    Read(Vec<u8>),
    Mapped(Map),
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Read(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }
}

/// The content of one ref; symbolic refs are not followed.
pub(crate) enum Raw {
    Missing,
    /// A ref of this name cannot exist: links form a loop, or the name is too long.
    Impossible,
    Id(ObjectId),
    /// The target of a symbolic ref, which may be an invalid name.
    Symbolic(BString),
    /// The content is neither an object name nor a target.
    Broken,
}

/// The end of a chain of refs.
pub(crate) enum End {
    Missing,
    /// A symbolic ref has no target, or the chain is too long.
    Dangling,
    /// The content of this ref, the requested one or one in its chain, is invalid.
    Broken(BString),
    Id(ObjectId),
}

/// A ref after following the chain.
pub(crate) struct Resolved {
    /// The last ref of the chain, if it differs from the requested one and is known.
    pub(crate) last: Option<BString>,
    pub(crate) end: End,
}

impl Store {
    /// Creates a store. `display_name` is the common directory as messages print it.
    pub(crate) fn new(git_dir: &Path, common_dir: &Path, hash: HashKind, display_name: &Path) -> Store {
        let path = common_dir.join("packed-refs");
        let shown = display_name.join("packed-refs");
        let packed =
            Packed { common_dir: common_dir.to_owned(), hash, path, shown, snapshot: Mutex::default() };
        Store { git_dir: git_dir.to_owned(), packed: Arc::new(packed) }
    }

    /// Returns the refs of the worktree with this Git directory.
    pub(crate) fn for_worktree(&self, git_dir: &Path) -> Store {
        Store { git_dir: git_dir.to_owned(), packed: Arc::clone(&self.packed) }
    }

    /// Reads one ref. The name must be valid, so that its path stays in the Git directory.
    pub(crate) fn raw(&self, name: &BStr) -> Result<Raw, Error> {
        let hash = self.packed.hash;
        let path = refname::file(&self.git_dir, &self.packed.common_dir, name);
        let says = |target: &Path| ref_file::is_symbolic_link(target.as_os_str().as_bytes().as_bstr());
        let content = match by_path::read_or_link(&path, hash.hex_len() as u64 + 1, says) {
            Ok(Content::Bytes(content)) => content,
            Ok(Content::Absent | Content::Directory) => return self.packed.raw(name),
            Ok(Content::Link(target)) => return Ok(Raw::Symbolic(target.into_os_string().into_vec().into())),
            Ok(Content::Dangling | Content::LinkedDirectory) => return Ok(Raw::Missing),
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(Raw::Missing),
            Err(error) if error.kind() == ErrorKind::InvalidFilename || sys::is_symlink_refused(&error) => {
                return Ok(Raw::Impossible);
            }
            Err(error) => {
                return Err(RefError::Loose { name: name.to_owned(), path, source: Arc::new(error) }.into());
            }
        };
        Ok(match ref_file::parse(hash, &content) {
            Some(Value::Id(id)) => Raw::Id(id),
            Some(Value::Symbolic(target)) => Raw::Symbolic(target),
            None => Raw::Broken,
        })
    }

    /// Follows a ref. An invalid name is not a ref.
    pub(crate) fn resolve(&self, name: &BStr) -> Result<Resolved, Error> {
        match refname::check(name, Levels::One) {
            Ok(()) => self.follow(name, self.raw(name)?),
            Err(_) => Ok(Resolved { last: None, end: End::Missing }),
        }
    }

    /// Follows a ref whose content `raw` is known.
    pub(crate) fn follow(&self, name: &BStr, mut raw: Raw) -> Result<Resolved, Error> {
        let mut last: Option<BString> = None;
        for depth in 1..=MAX_DEPTH {
            let at = last.as_ref().map_or(name, |last| last.as_bstr());
            let end = match raw {
                Raw::Symbolic(target) if refname::check(target.as_bstr(), Levels::One).is_ok() => {
                    if depth == MAX_DEPTH {
                        break;
                    }
                    raw = self.raw(target.as_bstr())?;
                    last = Some(target);
                    continue;
                }
                Raw::Impossible if last.is_none() => End::Missing,
                Raw::Symbolic(_) | Raw::Impossible => break,
                Raw::Missing if last.is_some() => End::Dangling,
                Raw::Missing => End::Missing,
                Raw::Broken => End::Broken(at.to_owned()),
                Raw::Id(id) => End::Id(id),
            };
            return Ok(Resolved { last, end });
        }
        Ok(Resolved { last: None, end: End::Dangling })
    }
}

impl Packed {
    fn raw(&self, name: &BStr) -> Result<Raw, Error> {
        // Only refs below `refs/` are packed.
        if !name.starts_with(b"refs/") {
            return Ok(Raw::Missing);
        }
        let snapshot = self.snapshot()?;
        Ok(self.find_in(&snapshot, name)?.map_or(Raw::Missing, Raw::Id))
    }

    /// Searches one snapshot of the file.
    pub(crate) fn find_in(&self, snapshot: &Snapshot, name: &BStr) -> Result<Option<ObjectId>, Error> {
        self.look(snapshot, |refs| refs.find(name))
    }

    /// Visits all packed refs with a prefix, in order. A ref with an invalid name has the null
    /// object name. Ends when `visit` breaks or fails.
    pub(super) fn each_below<E: From<Error>>(
        &self,
        prefix: &BStr,
        mut visit: impl FnMut(&Record<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let snapshot = self.snapshot()?;
        let mut failure = None;
        let flow = self.look(&snapshot, |refs| {
            for record in refs.below(prefix) {
                match visit(&record?) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
                    Err(error) => {
                        failure = Some(error);
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        failure.map_or(Ok(flow), Err)
    }

    /// Searches the file. Returns an error if the search reaches a malformed line or a page that
    /// cannot be read.
    fn look<'s, T>(
        &self,
        snapshot: &'s Snapshot,
        look: impl FnOnce(&'s PackedRefs<Bytes>) -> Result<T, Malformed>,
    ) -> Result<T, Error> {
        let unreadable = sys::unreadable_page_count();
        let answer = look(&snapshot.refs);
        match sys::unreadable_map().filter(|_| sys::unreadable_page_count() > unreadable) {
            Some((_, error)) => Err(Attempt::ReadPackedRefs.on(&self.shown)(error)),
            None => answer.map_err(|problem| self.malformed(problem)),
        }
    }

    fn malformed(&self, problem: Malformed) -> Error {
        RefError::Packed { file: self.shown.clone(), problem }.into()
    }

    /// Returns the current content of the file.
    pub(crate) fn snapshot(&self) -> Result<Arc<Snapshot>, Error> {
        let mut held = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = &*held {
            let now = by_path::stat_followed(&self.path).map_err(Attempt::StatPackedRefs.on(&self.shown))?;
            if now == snapshot.stat {
                return Ok(Arc::clone(snapshot));
            }
        }
        let snapshot = Arc::new(self.load()?);
        *held = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    fn load(&self) -> Result<Snapshot, Error> {
        let (stat, bytes) = match self.read() {
            Ok((stat, bytes)) => (Some(stat), bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => (None, Bytes::Read(Vec::new())),
            Err(error) => return Err(Attempt::ReadPackedRefs.on(&self.shown)(error)),
        };
        let unreadable = sys::unreadable_page_count();
        let refs = PackedRefs::parse(bytes, self.hash);
        if let Some((_, error)) = sys::unreadable_map().filter(|_| sys::unreadable_page_count() > unreadable)
        {
            return Err(Attempt::ReadPackedRefs.on(&self.shown)(error));
        }
        let refs = refs.map_err(|problem| self.malformed(problem))?;
        Ok(Snapshot { stat, refs })
    }

    fn read(&self) -> io::Result<(Stat, Bytes)> {
        let file = by_path::open(&self.path)?;
        let stat = sys::stat_of(&file)?;
        if stat.size > SMALL {
            return Ok((stat, Bytes::Mapped(Map::of(&file)?)));
        }
        let mut bytes = Vec::new();
        sys::read_to_end(&file, stat.size, &mut bytes)?;
        Ok((stat, Bytes::Read(bytes)))
    }
}
