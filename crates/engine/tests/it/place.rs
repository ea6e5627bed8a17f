//! Base directories on a disk from which the kernel mounts images, and bases in them.

use std::{
    path::Path,
    sync::{LazyLock, atomic::AtomicBool},
};

use bstr::ByteSlice as _;
use engine::{
    crew::Workers,
    workspace::base::{AddOptions, Base, Bases, Error, Persist, Wanted},
};
use format::{HashKind, ObjectId};
use store::{Fsync, SharedRepository};
use testkit::{Repo, disk::NoMountsBelow};

/// A directory for base directories.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    _mounts: NoMountsBelow,
}

impl Place {
    pub(crate) fn new() -> Place {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for tests");
        let _mounts = NoMountsBelow::new(dir.path());
        Place { dir, _mounts }
    }

    /// The only base directory of a test.
    pub(crate) fn bases(&self) -> Bases {
        self.named("bases")
    }

    pub(crate) fn named(&self, name: &str) -> Bases {
        Bases::at(&self.path().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

/// Tests do not wait for the disk.
pub(crate) static UNSYNCED: LazyLock<Fsync> = LazyLock::new(|| Fsync { disabled: true, ..Fsync::default() });

pub(crate) fn add_options() -> AddOptions<'static> {
    AddOptions {
        workers: Workers::Fixed(2),
        interrupt: &NEVER,
        progress: &|_, _| {},
        big_file_threshold: 3 << 20,
        metadata: repo::convert::Metadata::default(),
        fsync: &UNSYNCED,
        shared: SharedRepository::Umask,
        persist: Persist::Now,
    }
}

pub(crate) fn add(bases: &Bases, wanted: &Wanted<'_>, options: &AddOptions<'_>) -> Result<Base, Error> {
    bases.add(wanted, options, &mut Vec::new())
}

/// The object that a name means.
pub(crate) fn oid(repo: &Repo<'_>, name: &str) -> ObjectId {
    let hex = repo.git(&["rev-parse", name]).stdout;
    ObjectId::from_hex(HashKind::Sha1, hex.trim()).expect("an object")
}
