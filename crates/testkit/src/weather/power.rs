//! The state of a disk after a power cut.
//!
//! Programs see the backing directory. A separate record contains the durable state: for each inode
//! its content or names at the last sync. Changes since then are only a list of inode numbers; a
//! sync copies the state from the backing directory. After a cut, the backing directory is rebuilt
//! from the durable state.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsString,
    fs,
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    io::{self, Read as _},
    os::unix::fs::{DirEntryExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use fuser::{FileType, INodeNo};
use rustix::fs::OFlags;

use super::{
    Journal,
    tree::{Result, Tree, Way, kind},
};

/// The unsynced data that survive a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// No unsynced data.
    None,
    /// Each changed inode by a pseudo-random choice that depends on the seed; with
    /// [`Journal::Ordered`] all of them or none. Disks may write data before a sync.
    Some {
        /// Any number.
        seed: u64,
    },
}

/// See the module.
pub(super) struct Power {
    journal: Journal,
    state: Mutex<State>,
}

struct State {
    durable: HashMap<u64, Node>,
    changed: BTreeSet<u64>,
}

enum Node {
    File { content: Vec<u8>, mode: u32, modified: SystemTime },
    Dir { names: BTreeMap<OsString, u64>, mode: u32 },
    Link { target: PathBuf },
}

impl Power {
    /// Records the current content of the backing directory as durable.
    pub(super) fn new(backing: &Path, journal: Journal) -> io::Result<Power> {
        let mut durable = HashMap::new();
        read_all(backing, INodeNo::ROOT.0, &mut durable)?;
        Ok(Power { journal, state: Mutex::new(State { durable, changed: BTreeSet::new() }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changed(&self, number: u64) {
        self.state().changed.insert(number);
    }

    pub(super) fn sync(&self, tree: &Tree, number: u64) -> Result<()> {
        let mut state = self.state();
        match self.journal {
            Journal::Strict => {
                state.changed.remove(&number);
                state.remember(tree, number)
            }
            Journal::Ordered => std::mem::take(&mut state.changed)
                .into_iter()
                .try_for_each(|number| state.remember(tree, number)),
        }
    }

    /// Makes some unsynced data durable, as if the disk had written them before the cut.
    pub(super) fn spare(&self, tree: &Tree, survivors: Survivors) -> Result<()> {
        let Survivors::Some { seed } = survivors else { return Ok(()) };
        let mut state = self.state();
        for number in std::mem::take(&mut state.changed) {
            let tossed = match self.journal {
                Journal::Strict => (seed, number),
                Journal::Ordered => (seed, 0),
            };
            if BuildHasherDefault::<DefaultHasher>::default().hash_one(tossed) % 2 == 0 {
                state.remember(tree, number)?;
            }
        }
        Ok(())
    }

    /// Creates the durable state at `place`, which must not exist.
    pub(super) fn restore(&self, place: &Path) -> io::Result<()> {
        self.state().restore(INodeNo::ROOT.0, place, &mut HashMap::new())
    }
}

impl State {
    /// Makes the current state of an inode durable. For a directory this means its names; the
    /// content of its files is durable only if they were synced.
    fn remember(&mut self, tree: &Tree, number: u64) -> Result<()> {
        // A disk with power cuts keeps every inode, so an unknown inode was never used.
        let Ok(inode) = tree.find(INodeNo(number)) else { return Ok(()) };
        let way = tree.way(&inode)?;
        let stat = way.stat()?;
        let node = match (&way, kind(&stat)) {
            (Way::Dir(_), _) => {
                let mut names = BTreeMap::new();
                for name in tree.names_in(&inode)?.into_iter().filter(|name| !name.is_dots()) {
                    if !self.durable.contains_key(&name.number) {
                        self.newborn(tree, name.number)?;
                    }
                    names.insert(name.name, name.number);
                }
                Node::Dir { names, mode: stat.st_mode }
            }
            (_, FileType::RegularFile) => {
                let mut content = Vec::new();
                let mut file = fs::File::from(way.open(OFlags::RDONLY)?);
                file.read_to_end(&mut content).map_err(|error| raw(&error))?;
                Node::File { content, mode: stat.st_mode, modified: tree.attributes(&stat).mtime }
            }
            _ => return self.newborn(tree, number),
        };
        self.durable.insert(number, node);
        Ok(())
    }

    /// Records an inode whose name is durable and whose content is not.
    fn newborn(&mut self, tree: &Tree, number: u64) -> Result<()> {
        let Ok(inode) = tree.find(INodeNo(number)) else { return Ok(()) };
        let stat = tree.way(&inode)?.stat()?;
        let (mode, modified) = (stat.st_mode, tree.attributes(&stat).mtime);
        let node = match kind(&stat) {
            FileType::Directory => Node::Dir { names: BTreeMap::new(), mode },
            FileType::Symlink => {
                use std::os::unix::ffi::OsStringExt as _;
                let target = OsString::from_vec(tree.readlink(INodeNo(number))?);
                Node::Link { target: target.into() }
            }
            _ => Node::File { content: Vec::new(), mode, modified },
        };
        self.durable.insert(number, node);
        Ok(())
    }

    fn restore(&self, number: u64, place: &Path, made: &mut HashMap<u64, PathBuf>) -> io::Result<()> {
        match self.durable.get(&number) {
            Some(Node::Dir { names, mode }) => {
                // A directory may have two names if one of its renames was lost. The first one is
                // used.
                if made.insert(number, place.to_owned()).is_some() {
                    return Ok(());
                }
                fs::create_dir(place)?;
                for (name, below) in names {
                    self.restore(*below, &place.join(name), made)?;
                }
                fs::set_permissions(place, fs::Permissions::from_mode(mode & 0o7777))
            }
            Some(Node::File { content, mode, modified }) => {
                if let Some(other) = made.get(&number) {
                    return fs::hard_link(other, place);
                }
                made.insert(number, place.to_owned());
                fs::write(place, content)?;
                fs::File::options().write(true).open(place)?.set_modified(*modified)?;
                fs::set_permissions(place, fs::Permissions::from_mode(mode & 0o7777))
            }
            Some(Node::Link { target }) => symlink(target, place),
            None => Ok(()),
        }
    }
}

fn read_all(path: &Path, number: u64, durable: &mut HashMap<u64, Node>) -> io::Result<()> {
    let stat = fs::symlink_metadata(path)?;
    let node = if stat.is_dir() {
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            read_all(&entry.path(), entry.ino(), durable)?;
            names.insert(entry.file_name(), entry.ino());
        }
        Node::Dir { names, mode: stat.mode() }
    } else if stat.is_symlink() {
        Node::Link { target: fs::read_link(path)? }
    } else {
        Node::File { content: fs::read(path)?, mode: stat.mode(), modified: stat.modified()? }
    };
    durable.insert(number, node);
    Ok(())
}

fn raw(error: &io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}
