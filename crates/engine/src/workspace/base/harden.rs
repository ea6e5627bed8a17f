//! Makes a base durable that was published before it was on the disk.
//!
//! Order: sync the contents, the files of the base, and the directories that name them; then, under
//! the lock of the base directory, move the records of pending contents to the index of their
//! generation; at last replace the record of the base by one that names no boot. The long part
//! needs no lock, so other commands do not wait for the disk.

use std::{io::ErrorKind, path::Path};

use sys::by_path;

use super::{
    super::boot::Boot,
    AddOptions, Base, Bases, Error, Kind, Persist, blobs, pending,
    stored::{self, Stored, Structure},
};

/// The internal command of sapwood, below `workspace`, that runs [`Base::harden`] in the
/// background.
pub const HARDEN: &str = "harden-base";

/// The boot of a base whose bytes the disk did not take.
const LOST: &str = "lost";

impl Base {
    /// Returns the base, durable if the options ask for that.
    pub(super) fn kept(self, options: &AddOptions<'_>) -> Result<Base, Error> {
        let is_needed = self.pending.is_some() && options.persist == Persist::Now;
        if is_needed && !options.fsync.disabled { self.harden() } else { Ok(self) }
    }

    /// Makes the base durable, unless it is. If the disk refuses its bytes, the base counts as
    /// lost: the next command that needs it builds it again.
    pub fn harden(&self) -> Result<Base, Error> {
        let bases = Bases::at(self.dir.parent().unwrap_or(Path::new("/")));
        if self.pending.is_none() {
            return Ok(self.clone());
        }
        if let Err(error) = self.sync() {
            if matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound) {
                // The base was removed meanwhile.
                return Err(error);
            }
            let _ = self.rewrite(Some(Boot::recorded(LOST.to_owned())));
            let own = blobs::generations(&bases.dir).unwrap_or_default();
            own.into_iter().for_each(|generation| drop(pending::remove(&bases.dir, generation)));
            return Err(error);
        }
        let lock = bases.lock(store::SharedRepository::Umask).map_err(|source| bases.unlocked(source))?;
        let missing = || Error::Missing { dir: bases.dir.clone(), name: self.name.clone() };
        let now = bases.load_own(&self.name)?.ok_or_else(missing)?;
        // Another process may have replaced it.
        if now.pending != self.pending || now.shared_index != self.shared_index {
            drop(lock);
            return if now.pending.is_none() { Ok(now) } else { Err(missing()) };
        }
        for generation in blobs::generations(&bases.dir)? {
            if self.devices.contains(&blobs::data_file(&bases.dir, generation)) {
                pending::promote(&bases.dir, generation)?;
            }
        }
        self.rewrite(None)?;
        Ok(Base { pending: None, ..now })
    }

    fn sync(&self) -> Result<(), Error> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action: "sync", path, source }
        };
        match self.kind {
            Kind::Image => {
                self.devices.iter().try_for_each(|device| pending::sync_device(device))?;
                for path in [self.image(), self.shared_index(), self.rest_of_index()] {
                    by_path::open(&path).and_then(sys::sync_file).map_err(io(&path))?;
                }
            }
            Kind::Directory => {
                by_path::open(&self.files()).and_then(sys::sync_file_system).map_err(io(&self.files()))?;
            }
        }
        let dirs = [Some(&*self.dir), self.dir.parent()];
        dirs.into_iter().flatten().try_for_each(|dir| by_path::sync_dir(dir).map_err(io(dir)))
    }

    fn rewrite(&self, pending: Option<Boot>) -> Result<(), Error> {
        let dir = self.dir.parent().unwrap_or(Path::new("/"));
        let inside = |device: &Path| device.strip_prefix(dir).unwrap_or(device).to_owned();
        let record = Stored {
            kind: self.kind,
            tree: self.tree,
            shared_index: self.shared_index,
            devices: self.devices.iter().map(|device| inside(device)).collect(),
            contents: self.contents.clone(),
            owner: self.owner,
            view: self.view.clone(),
            pending,
            structure: if self.parent.is_some() { Structure::Difference } else { Structure::Whole },
        };
        record.write_synced(&self.dir)
    }
}

impl Bases {
    /// Returns true if a base with this name was not durable when the machine stopped, or if a
    /// process was killed while it replaced such a base.
    pub fn has_lost(&self, name: &str) -> Result<bool, Error> {
        if let Some(base) = self.load(name)? {
            return Ok(base.is_lost());
        }
        let away = self.dir.join(format!("{}{name}", stored::REMOVED));
        let is_there = matches!(by_path::stat(&away), Ok(Some(_)));
        Ok(is_there || stored::is_torn(&self.dir.join(name).join("record")))
    }
}
