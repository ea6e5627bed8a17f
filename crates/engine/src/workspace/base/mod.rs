//! Bases: read-only trees of files, shared by workspaces.
//!
//! - `wanted`: the requested files of a base, and the name derived from them;
//! - `add`: builds a base in a staged directory, and publishes it under its name;
//! - `image`, `directory`, `shared_blocks`: the files of both kinds;
//! - `elsewhere`: a checkout of the user as a base, where it lies;
//! - `tree`, `contents`, `filtered`: the index of a tree, the contents of its files, and those that
//!   external filters make;
//! - `blobs`, `append`, `import`: the blob files with the contents of all images, additions to
//!   them, and contents from outside the repository;
//! - `pending`, `harden`, `writeback`: contents and bases that are not on the disk yet;
//! - `alternates`, `blob_source`, `blob_pack`: other base directories, contents served as blobs of
//!   a partial clone, and blobs that are made from contents;
//! - `index`, `untracked_cache`: the index of a base, its untracked cache, and their installation
//!   in a workspace;
//! - `stored`: the stored facts about a base;
//! - `view`, `populate`: bases that show the contents of another user's base;
//! - `difference`, `changes`, `layer`: bases that hold only the differences from another base;
//! - `proof`: notices that somebody changed the directories of a base;
//! - `verify`: compares a base with its tree;
//! - `users`, `prune`: the workspaces that use bases, and the removal of unused bases.
//!
//! Promise: a base appears under its name only when it is complete. Afterwards it is never changed.
//! Its record says so while it is not synced; after a crash such a base is never used. A failed or
//! killed build leaves a directory whose name begins with a dot, which the next build removes.
//!
//! Design: docs/design/workspace-bases.md and workspace-images.md.

mod add;
mod alternates;
mod append;
mod blob_pack;
mod blob_source;
mod blobs;
mod changes;
mod contents;
mod difference;
mod directory;
mod elsewhere;
mod error;
mod filtered;
mod harden;
mod image;
mod import;
mod index;
mod layer;
mod pending;
pub(crate) mod populate;
mod proof;
mod prune;
mod shared_blocks;
mod stored;
mod tree;
mod untracked_cache;
mod users;
mod verify;
mod view;
mod wanted;
mod writeback;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use format::ObjectId;
use repo::Trust;
use sys::by_path;

use super::{backend::Door, boot::Boot};

pub use add::{AddOptions, Persist};
pub use alternates::Dependent;
pub use blob_pack::{Absent, BlobPack};
pub use blob_source::BlobSource;
pub use error::Error;
pub use harden::HARDEN;
pub use import::{Importer, Streamed};
pub use index::Monitor;
pub use prune::{Act, Freed};
pub(crate) use stored::parent_of;
pub(crate) use tree::{check_trees, index_of};
pub(crate) use verify::find_in;
pub use verify::{Flaw, Verified};
pub use view::{Form, View};
pub(crate) use wanted::OLDEST_BASE;
pub use wanted::{Named, Owner, Wanted};

/// The kind of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An EROFS image with only metadata. Contents are in blob files.
    Image,
    /// A plain checkout.
    Directory,
}

impl Kind {
    /// Returns the name used in records.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Image => "image",
            Kind::Directory => "directory",
        }
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &[u8]) -> Option<Kind> {
        [Kind::Image, Kind::Directory].into_iter().find(|kind| kind.name().as_bytes() == name)
    }
}

/// A complete base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The path `<base directory>/<name>`.
    pub dir: PathBuf,
    /// The name: a hash of everything that determines the files, in hexadecimal digits.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The tree.
    pub tree: ObjectId,
    /// The name of the shared half of the index.
    pub shared_index: ObjectId,
    /// The blob files that are extra devices of the image, in the image's order.
    pub devices: Vec<PathBuf>,
    /// The hash of everything that decides the bytes of the files, without their owner and
    /// permissions. Older bases lack it, and are not shared between users.
    pub contents: Option<String>,
    /// The user id and group id that the index expects. Older bases lack it.
    pub owner: Option<(u32, u32)>,
    /// The other base whose contents this one shows.
    pub view: Option<View>,
    /// The boot in which it was written, if it is not durable yet.
    pub pending: Option<Boot>,
    /// The directory of the base below this one, which then holds only the differences from it.
    pub parent: Option<PathBuf>,
}

impl Base {
    /// Returns true if the base must be built again before it is used. Either it was not durable
    /// when the machine stopped, so that its files may be damaged, or its files are gone.
    pub fn is_lost(&self) -> bool {
        self.pending.as_ref().is_some_and(|boot| !boot.is_current()) || self.lacks_files()
    }

    /// Returns true if somebody removed the image or the checkout. That of a view lies elsewhere,
    /// and may come back with its disk.
    pub fn lacks_files(&self) -> bool {
        let path = match self.kind {
            Kind::Image => self.image(),
            Kind::Directory => self.files(),
        };
        self.view.is_none() && matches!(by_path::stat(&path), Ok(None))
    }

    /// Returns the modification time that a rebase gave to all files ([`Wanted::with_time`]). Such
    /// a base belongs to one workspace.
    pub fn time(&self) -> Option<(u64, u32)> {
        wanted::time_in(&self.name)
    }

    /// Returns the EROFS image (kind image).
    pub fn image(&self) -> PathBuf {
        self.dir.join("image")
    }

    /// Returns the checkout, or the mount point of the image.
    pub fn files(&self) -> PathBuf {
        self.dir.join("files")
    }

    /// Returns the checkout that holds the bytes of the files (kind directory).
    pub fn bytes(&self) -> PathBuf {
        self.view.as_ref().map_or_else(|| self.files(), |view| view.of.clone())
    }

    /// Returns the checkout that an overlay needs below [`Base::files`] as a layer of data only.
    pub fn data_layer(&self) -> Option<&Path> {
        let view = self.view.as_ref().filter(|view| view.form == Form::StandIns)?;
        Some(&view.of)
    }

    /// Returns the directories that show the files, from top to bottom.
    pub fn layers(&self) -> Vec<PathBuf> {
        [self.files()].into_iter().chain(self.parent.iter().map(|parent| parent.join("files"))).collect()
    }

    /// Returns the extra devices of the image, and then those of the image below it.
    fn all_devices(&self) -> Result<Vec<PathBuf>, Error> {
        let below = self.load_parent()?.map(|parent| parent.devices);
        Ok(self.devices.iter().cloned().chain(below.unwrap_or_default()).collect())
    }

    /// Returns the base below this one.
    pub fn load_parent(&self) -> Result<Option<Base>, Error> {
        let Some(dir) = &self.parent else { return Ok(None) };
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let bases = Bases::at(dir.parent().unwrap_or(dir)).alone();
        let missing = || Error::Missing { dir: bases.dir.clone(), name: name.to_owned() };
        bases.load_own(name)?.ok_or_else(missing).map(Some)
    }

    /// Returns the shared half of the split index.
    pub fn shared_index(&self) -> PathBuf {
        self.parent.as_ref().unwrap_or(&self.dir).join("index")
    }

    /// Returns the small half of the split index: a complete index file that refers to the shared
    /// half.
    pub fn rest_of_index(&self) -> PathBuf {
        self.dir.join("rest")
    }
}

/// A directory with bases.
#[derive(Clone, Debug)]
pub struct Bases {
    dir: PathBuf,
    /// Bases and contents of alternates are not used.
    is_alone: bool,
    /// The users who may own the directory and its alternates. `None` for a directory whose bytes
    /// are verified wherever they are used, or that this command made.
    trust: Option<Arc<Trust>>,
    /// The maker of the mounts of its images, if this process may not mount.
    door: Door,
}

impl Bases {
    /// Opens the base directory at `dir`, which need not exist, whoever owns it. No base in it may
    /// be mounted.
    pub fn at(dir: &Path) -> Bases {
        Bases { dir: dir.to_owned(), is_alone: false, trust: None, door: Door::of_machine() }
    }

    /// Returns the same directory without its alternates: bases and contents that lie there count
    /// as missing.
    pub fn alone(&self) -> Bases {
        Bases { is_alone: true, ..self.clone() }
    }

    /// Opens the base directory at `dir`, which need not exist. Refuses one that another user could
    /// change: files of its bases appear in workspaces, and the kernel parses its images.
    pub fn trusted(dir: &Path, trust: Trust) -> Result<Bases, Error> {
        let bases = Bases { trust: Some(Arc::new(trust)), ..Bases::at(dir) };
        bases.check(dir)?;
        Ok(bases)
    }

    /// Returns the same directory. The mount service at this socket unmounts its images.
    pub fn served_by(self, service: PathBuf) -> Bases {
        Bases { door: Door::Service(service), ..self }
    }

    /// Refuses a directory that another user could change.
    fn check(&self, dir: &Path) -> Result<(), Error> {
        Ok(self.trust.iter().try_for_each(|trust| trust.check_dir(dir))?)
    }

    /// Returns a base that may be mounted: none of its parts is in a base directory that another
    /// user could change.
    pub fn to_mount(&self, name: &str) -> Result<Base, Error> {
        let base = self.get(name)?;
        let of_device = |device: &'_ PathBuf| device.ancestors().nth(2).map(Path::to_owned);
        let parent = base.load_parent()?;
        let below = parent.iter().flat_map(|parent| parent.devices.iter().filter_map(of_device));
        let below = below.chain(base.parent.iter().filter_map(|dir| dir.parent().map(Path::to_owned)));
        let shown = base.view.iter().filter_map(|view| {
            if view.of.ends_with("files") {
                view.of.ancestors().nth(2).map(Path::to_owned)
            } else {
                Some(view.of.clone())
            }
        });
        let dirs = base.devices.iter().filter_map(of_device).chain(shown).chain(below);
        let dirs = dirs.chain(base.dir.parent().map(Path::to_owned));
        dirs.filter(|dir| *dir != self.dir).try_for_each(|dir| self.check(&dir))?;
        Ok(base)
    }

    /// Returns its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
