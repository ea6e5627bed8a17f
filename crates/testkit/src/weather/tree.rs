//! The inodes that the kernel knows, and their places in the backing directory.
//!
//! A directory is accessed by a handle, which is open while the kernel knows the directory; a file
//! by its directory's handle and its name there, never by a longer path. So a rename cannot
//! redirect an access. A file that loses its last name while the kernel still knows it keeps a
//! handle of its own, so that its inode number is not reused.

use std::{
    borrow::Cow,
    collections::HashMap,
    ffi::{OsStr, OsString},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use bstr::BString;
use fuser::{FileAttr, FileType, INodeNo};
use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};

use super::{Names, contents::Handles, power::Power};

pub(super) type Result<T> = std::result::Result<T, Errno>;

/// The root's number for the kernel, whatever its number in the backing directory.
const ROOT: u64 = 1;

/// All served inodes.
pub(super) struct Tree {
    inodes: Mutex<HashMap<u64, Arc<Inode>>>,
    root: Arc<Inode>,
    /// The root's number in the backing directory.
    root_number: u64,
    names: Names,
    pub(super) power: Option<Power>,
    pub(super) handles: Handles,
}

/// An inode that the kernel knows.
pub(super) struct Inode {
    /// The inode number for the kernel and `stat`: that of the backing directory, except for the
    /// root.
    pub(super) number: u64,
    /// A directory's handle.
    dir: Option<OwnedFd>,
    /// The kernel's lookup count: the number of replies with this inode that the kernel has not
    /// forgotten.
    known: AtomicU64,
    /// Its place on a disk with an arm.
    pub(super) place: Place,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Its names that were looked up.
    links: Vec<(Arc<Inode>, OsString)>,
    /// A handle (`O_PATH`) of an inode that has lost its last name, or may lose it in a power cut.
    held: Option<Arc<OwnedFd>>,
    /// A directory's names by their folded spelling, once the directory was read.
    spellings: Option<HashMap<OsString, OsString>>,
}

/// A place on a disk, and the share of the disk over which the entries below it are spread. Entries
/// below one directory are close to it; the deeper the directory, the closer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) at: u64,
    span: u64,
}

impl Place {
    pub(super) fn below(self, name: &OsStr) -> Place {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let offset = (u128::from(hasher.finish()) * u128::from(self.span)) >> 64;
        Place { at: self.at.saturating_add(offset as u64), span: self.span / 16 }
    }
}

/// The access to an inode: by a handle of its own, or by a name in a directory.
pub(super) enum Way {
    Held(Arc<OwnedFd>),
    Dir(Arc<Inode>),
    Named(Arc<Inode>, OsString),
}

impl Way {
    /// Returns a path for system calls that accept only paths; it follows no link of the served
    /// tree.
    pub(super) fn path(&self) -> PathBuf {
        let of = |fd: BorrowedFd<'_>| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        match self {
            Way::Held(fd) => of(fd.as_fd()),
            Way::Dir(inode) => of(inode.fd()),
            Way::Named(dir, name) => of(dir.fd()).join(name),
        }
    }

    pub(super) fn stat(&self) -> Result<Stat> {
        match self {
            Way::Held(fd) => fstat(fd),
            Way::Dir(inode) => fstat(inode.fd()),
            Way::Named(dir, name) => statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            Way::Named(dir, name) => openat(dir.fd(), name, flags | OFlags::NOFOLLOW, Mode::empty()),
            Way::Held(_) | Way::Dir(_) => openat(CWD, self.path(), flags, Mode::empty()),
        }
    }
}

impl Inode {
    fn new(number: u64, dir: Option<OwnedFd>, place: Place) -> Inode {
        Inode { number, dir, known: AtomicU64::new(0), place, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a directory's handle.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_ref().expect("asked of directories only").as_fd()
    }

    fn link(&self, dir: &Arc<Inode>, name: &OsStr) {
        let mut state = self.state();
        if !state.links.iter().any(|(at, called)| Arc::ptr_eq(at, dir) && called == name) {
            if self.dir.is_some() {
                state.links.clear();
            }
            state.links.push((Arc::clone(dir), name.to_owned()));
        }
    }

    fn unlink(&self, dir: &Arc<Inode>, name: &OsStr) {
        self.state().links.retain(|(at, called)| !(Arc::ptr_eq(at, dir) && called == name));
    }

    /// Returns its path from the root, by the name that was looked up first.
    fn path(&self) -> BString {
        let above = self.state().links.first().cloned();
        above.map_or_else(BString::default, |(dir, name)| dir.path_of(&name))
    }

    /// Returns the path of an entry below.
    pub(super) fn path_of(&self, name: &OsStr) -> BString {
        let mut path = self.path();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        path
    }

    /// Returns all its known paths.
    pub(super) fn paths(&self) -> Vec<BString> {
        let links = self.state().links.clone();
        if links.is_empty() {
            return vec![BString::default()];
        }
        links.iter().map(|(dir, name)| dir.path_of(name)).collect()
    }
}

impl Tree {
    pub(super) fn new(backing: &Path, names: Names, power: Option<Power>) -> Result<Tree> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, backing, flags, Mode::empty())?;
        let root_number = number(&fstat(&fd)?);
        let root = Arc::new(Inode::new(ROOT, Some(fd), Place { at: 0, span: u64::MAX }));
        root.known.store(1, Ordering::Relaxed);
        let inodes = Mutex::new(HashMap::from([(ROOT, Arc::clone(&root))]));
        Ok(Tree { inodes, root, root_number, names, power, handles: Handles::default() })
    }

    pub(super) fn root(&self) -> &Arc<Inode> {
        &self.root
    }

    fn inodes(&self) -> MutexGuard<'_, HashMap<u64, Arc<Inode>>> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, number: INodeNo) -> Result<Arc<Inode>> {
        self.inodes().get(&number.0).cloned().ok_or(Errno::STALE)
    }

    pub(super) fn find_dir(&self, number: INodeNo) -> Result<Arc<Inode>> {
        let inode = self.find(number)?;
        if inode.dir.is_some() { Ok(inode) } else { Err(Errno::NOTDIR) }
    }

    /// Adds `name` in `dir` for a reply to the kernel, and increments the lookup count.
    pub(super) fn enter(&self, dir: &Arc<Inode>, name: &OsStr, stat: &Stat) -> Result<Arc<Inode>> {
        let number = self.number(stat);
        let mut inodes = self.inodes();
        let inode = match inodes.get(&number) {
            Some(inode) => Arc::clone(inode),
            None => {
                let way = Way::Named(Arc::clone(dir), name.to_owned());
                let handle = match kind(stat) {
                    FileType::Directory => Some(way.open(OFlags::RDONLY | OFlags::DIRECTORY)?),
                    _ => None,
                };
                let inode = Arc::new(Inode::new(number, handle, dir.place.below(name)));
                if self.power.is_some() && inode.dir.is_none() {
                    inode.state().held = Some(Arc::new(way.open(OFlags::PATH)?));
                }
                inodes.insert(number, Arc::clone(&inode));
                inode
            }
        };
        inode.known.fetch_add(1, Ordering::Relaxed);
        drop(inodes);
        inode.link(dir, name);
        Ok(inode)
    }

    /// Reduces the lookup count by `times`.
    pub(super) fn forget(&self, number: INodeNo, times: u64) {
        let mut inodes = self.inodes();
        let Some(inode) = inodes.get(&number.0) else { return };
        let left = inode.known.load(Ordering::Relaxed).saturating_sub(times);
        inode.known.store(left, Ordering::Relaxed);
        // An inode that a power cut may bring back keeps its number.
        if left == 0 && number.0 != ROOT && self.power.is_none() {
            inodes.remove(&number.0);
        }
    }

    /// Returns the access to an inode.
    pub(super) fn way(&self, inode: &Arc<Inode>) -> Result<Way> {
        if inode.dir.is_some() {
            return Ok(Way::Dir(Arc::clone(inode)));
        }
        let state = inode.state();
        match (&state.held, state.links.first()) {
            (Some(held), _) => Ok(Way::Held(Arc::clone(held))),
            (None, Some((dir, name))) => Ok(Way::Named(Arc::clone(dir), name.clone())),
            (None, None) => Err(Errno::STALE),
        }
    }

    /// Returns the existing name in `dir` that `name` matches: another spelling if names are
    /// folded.
    pub(super) fn spelled<'a>(&self, dir: &Inode, name: &'a OsStr) -> Result<Cow<'a, OsStr>> {
        if self.names == Names::Exact {
            return Ok(Cow::Borrowed(name));
        }
        let mut state = dir.state();
        let spellings = match &mut state.spellings {
            Some(spellings) => spellings,
            empty => empty.insert(read_spellings(dir)?),
        };
        let spelled = spellings.get(&folded(name)).cloned();
        Ok(spelled.map_or(Cow::Borrowed(name), Cow::Owned))
    }

    /// Records that `name` was added to `dir`.
    pub(super) fn added(&self, dir: &Arc<Inode>, name: &OsStr) {
        if let Some(spellings) = &mut dir.state().spellings {
            spellings.insert(folded(name), name.to_owned());
        }
        self.changed(dir.number);
    }

    /// Returns the inode of `name` in `dir`, if the kernel knows it.
    pub(super) fn known(&self, dir: &Inode, name: &OsStr) -> Result<Option<Arc<Inode>>> {
        let stat = statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(self.inodes().get(&self.number(&stat)).cloned())
    }

    /// Like [`Tree::known`], for an inode that will lose this name. If the name is its last, a
    /// handle is kept.
    pub(super) fn losing(&self, dir: &Inode, name: &OsStr) -> Result<Option<Arc<Inode>>> {
        let stat = statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        let inode = self.inodes().get(&self.number(&stat)).cloned();
        if let Some(inode) = &inode {
            let mut state = inode.state();
            if inode.dir.is_none() && state.held.is_none() && stat.st_nlink == 1 {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                state.held = Some(Arc::new(openat(dir.fd(), name, flags, Mode::empty())?));
            }
        }
        Ok(inode)
    }

    /// Records that `name` was removed from `dir`; it was `inode`, if the kernel knew that.
    pub(super) fn lost(&self, dir: &Arc<Inode>, name: &OsStr, inode: Option<&Arc<Inode>>) {
        if let Some(spellings) = &mut dir.state().spellings {
            spellings.remove(&folded(name));
        }
        if let Some(inode) = inode {
            inode.unlink(dir, name);
        }
        self.changed(dir.number);
    }

    /// Records that `name` in `dir` is now `inode`.
    pub(super) fn linked(&self, dir: &Arc<Inode>, name: &OsStr, inode: Option<&Arc<Inode>>) {
        if let Some(inode) = inode {
            inode.link(dir, name);
        }
        self.added(dir, name);
    }

    /// Records a change, which a power cut undoes unless it is synced.
    pub(super) fn changed(&self, number: u64) {
        if let Some(power) = &self.power {
            power.changed(number);
        }
    }

    /// Returns the kernel's number of an inode of the backing directory.
    pub(super) fn number(&self, stat: &Stat) -> u64 {
        self.presented(number(stat))
    }

    pub(super) fn presented(&self, number: u64) -> u64 {
        if number == self.root_number { ROOT } else { number }
    }

    /// Returns the attributes in the kernel's format.
    pub(super) fn attributes(&self, stat: &Stat) -> FileAttr {
        // The types differ between architectures.
        #[allow(clippy::unnecessary_cast)]
        FileAttr {
            ino: INodeNo(self.number(stat)),
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime as i64, stat.st_atime_nsec as u32),
            mtime: time(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ctime: time(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            crtime: SystemTime::UNIX_EPOCH,
            kind: kind(stat),
            perm: (stat.st_mode & 0o7777) as u16,
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u32,
            blksize: stat.st_blksize as u32,
            flags: 0,
        }
    }
}

#[allow(clippy::unnecessary_cast)]
fn number(stat: &Stat) -> u64 {
    stat.st_ino as u64
}

pub(super) fn kind(stat: &Stat) -> FileType {
    kind_of(rustix::fs::FileType::from_raw_mode(stat.st_mode))
}

pub(super) fn kind_of(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        rustix::fs::FileType::RegularFile | rustix::fs::FileType::Unknown => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { SystemTime::UNIX_EPOCH - whole } else { SystemTime::UNIX_EPOCH + whole };
    second + Duration::from_nanos(nanoseconds.into())
}

fn read_spellings(dir: &Inode) -> Result<HashMap<OsString, OsString>> {
    let mut spellings = HashMap::new();
    for entry in Dir::read_from(dir.fd())? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        spellings.insert(folded(name), name.to_owned());
    }
    Ok(spellings)
}

/// Returns the common form of all spellings of a name.
fn folded(name: &OsStr) -> OsString {
    match name.to_str() {
        Some(text) => text.to_lowercase().into(),
        None => OsString::from(OsStr::from_bytes(&name.as_bytes().to_ascii_lowercase())),
    }
}
