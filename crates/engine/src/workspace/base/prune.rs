//! Removes unused bases, and the contents that no base needs.
//!
//! Promise: a base that a workspace uses stays, and so do its contents. A base is renamed away in
//! one step. The records of unneeded contents are removed and synced first. Only then is their disk
//! space freed, as holes in the blob file. So no record ever refers to a hole, and the blocks of
//! all other contents stay at the locations to which images refer. Nothing is removed in an
//! alternate. If this directory is an alternate of others, the contents that their images need stay
//! too.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Duration,
};

use sys::{File, by_path, mount::Unmount};

use super::{
    Base, Bases, Error, Kind,
    add::remove_tree,
    blobs::{self, BLOCK_BITS, Blobs},
    pending,
    stored::{REMOVED, USE},
    users::Users,
};

/// Run or dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Remove.
    Remove,
    /// Only report what would be removed.
    DryRun,
}

/// The result of a removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// The names of removed bases.
    pub bases: Vec<String>,
    /// The numbers of removed generations.
    pub generations: Vec<u32>,
    /// The number of bytes freed.
    pub bytes: u64,
}

impl Bases {
    /// Removes the base with this name. Returns [`Error::InUse`] if a workspace uses it.
    pub fn remove(&self, name: &str, shared: store::SharedRepository) -> Result<(), Error> {
        let base = self.get(name)?;
        if base.dir.parent() != Some(&self.dir) {
            return Err(Error::InAlternate { name: base.name, dir: base.dir });
        }
        let _lock = self.lock(shared).map_err(|source| self.unlocked(source))?;
        self.remove_unused(&base, &self.users()?)
    }

    /// Removes all bases that no workspace uses, and then the contents that no base needs.
    pub fn prune(
        &self,
        shared: store::SharedRepository,
        act: Act,
        interrupt: &AtomicBool,
    ) -> Result<Freed, Error> {
        self.prune_older(shared, act, interrupt, Duration::ZERO)
    }

    /// Like [`Bases::prune`], but keeps bases that a command looked for within the last `unused`.
    pub fn prune_older(
        &self,
        shared: store::SharedRepository,
        act: Act,
        interrupt: &AtomicBool,
        unused: Duration,
    ) -> Result<Freed, Error> {
        let Some(_locks) = self.lock_to_remove(shared, interrupt)? else { return Ok(Freed::default()) };
        let (removed, kept) = self.sweep(act, &|base| base.was_used_within(unused))?;
        Ok(Freed { bases: removed, ..self.collect(&kept, act)? })
    }

    /// Removes the unused bases for which `keeps` returns false. Returns their names, and all other
    /// bases. The caller holds the lock.
    fn sweep(&self, act: Act, keeps: &dyn Fn(&Base) -> bool) -> Result<(Vec<String>, Vec<Base>), Error> {
        let mut all = self.own()?;
        if all.iter().all(keeps) {
            return Ok((Vec::new(), all));
        }
        let users = self.users()?;
        let mut removed = Vec::new();
        let mut kept = Vec::new();
        let mut views = self.views()?;
        // A base below an unused one can be removed after it.
        all.sort_by_key(|base| base.view.is_none() && base.parent.is_none());
        for base in all {
            if keeps(&base) {
                kept.push(base);
                continue;
            }
            let is_removed = refuse_shown(&base, &views).and_then(|()| match act {
                Act::DryRun => self.refuse_used(&base, &users).map(drop),
                Act::Remove => self.unmount_and_remove(&base, &users),
            });
            match is_removed {
                Ok(()) => {
                    views.retain(|view| view.dir != base.dir);
                    removed.push(base.name);
                }
                Err(Error::InUse { .. }) => kept.push(base),
                Err(error) => return Err(error),
            }
        }
        Ok((removed, kept))
    }

    /// Removes a base with a time of its own ([`Base::time`]) unless something uses it, and then
    /// the one below it likewise: no other workspace will want them. Does nothing while another
    /// process builds or removes bases. [`Bases::gc`] removes what is left.
    pub fn retire(&self, base: &Base, shared: store::SharedRepository) -> Result<(), Error> {
        let Some(_lock) = self.try_lock(shared).map_err(|source| self.unlocked(source))? else {
            return Ok(());
        };
        let mut next = self.load_own(&base.name)?;
        while let Some(base) = next.filter(|base| base.time().is_some()) {
            let below = base.parent.as_ref().filter(|dir| dir.parent() == Some(&self.dir));
            next = if below.is_some() { base.load_parent()? } else { None };
            match self.remove_unused(&base, &self.users()?) {
                Err(Error::InUse { .. }) => break,
                removed => removed?,
            }
        }
        Ok(())
    }

    fn remove_unused(&self, base: &Base, users: &Users) -> Result<(), Error> {
        refuse_shown(base, &self.views()?)?;
        self.unmount_and_remove(base, users)
    }

    /// Removes the leftovers of killed commands, the bases that only a removed workspace wanted,
    /// and the contents that no base needs.
    pub fn gc(
        &self,
        shared: store::SharedRepository,
        act: Act,
        interrupt: &AtomicBool,
    ) -> Result<Freed, Error> {
        let Some(_locks) = self.lock_to_remove(shared, interrupt)? else { return Ok(Freed::default()) };
        if act == Act::Remove {
            self.remove_staged();
        }
        // A rebase that has just made such a base does not use it yet.
        let keeps = |base: &Base| base.time().is_none() || base.was_used_within(USE);
        // The contents can be examined although a repository that uses bases is away.
        let removed = self.sweep(act, &keeps).map(|(removed, _)| removed).unwrap_or_default();
        Ok(Freed { bases: removed, ..self.collect(&self.own()?, act)? })
    }

    /// Takes the locks against importers and builders. Returns `None` if the directory does not
    /// exist.
    fn lock_to_remove(
        &self,
        shared: store::SharedRepository,
        interrupt: &AtomicBool,
    ) -> Result<Option<[File; 2]>, Error> {
        let stat = by_path::stat_followed(&self.dir);
        let failed = |source| Error::Io { action: "examine", path: self.dir.clone(), source };
        if stat.map_err(failed)?.is_none() {
            return Ok(None);
        }
        let transfers = self.lock_transfers(shared, interrupt)?;
        let lock = self.lock(shared).map_err(|source| self.unlocked(source))?;
        Ok(Some([transfers, lock]))
    }

    pub(super) fn unlocked(&self, source: std::io::Error) -> Error {
        Error::Io { action: "lock", path: self.dir.join("lock"), source }
    }

    /// Returns the bases of this directory and its borrowers that show other bases, or differences
    /// from them.
    fn views(&self) -> Result<Vec<Base>, Error> {
        let mut views = self.own()?;
        for borrower in self.borrowers()? {
            views.extend(borrower.own()?);
        }
        views.retain(|base| base.view.is_some() || base.parent.is_some());
        Ok(views)
    }

    /// Returns the lock of the base, or [`Error::InUse`].
    fn refuse_used(&self, base: &Base, users: &Users) -> Result<sys::File, Error> {
        let in_use = |by: PathBuf| Error::InUse { name: base.name.clone(), by };
        if let Some(by) = users.get(&base.name) {
            return Err(in_use(by.clone()));
        }
        let path = base.dir.join("lock");
        let io = |source| Error::Io { action: "lock", path: path.clone(), source };
        let file = by_path::lock_file(&path, 0o666).map_err(io)?;
        if sys::try_lock(&file).map_err(io)? { Ok(file) } else { Err(in_use(path)) }
    }

    pub(super) fn unmount_and_remove(&self, base: &Base, users: &Users) -> Result<(), Error> {
        let _alone = self.refuse_used(base, users)?;
        let files = base.files();
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        if sys::mount_at(&files).map_err(io("examine", &files))?.is_some() {
            self.door.unmount(&files, Unmount::Plain).map_err(|source| match source.kind() {
                std::io::ErrorKind::ResourceBusy => {
                    Error::InUse { name: base.name.clone(), by: files.clone() }
                }
                _ => io("unmount", &files)(source),
            })?;
        }
        let away = self.dir.join(format!("{REMOVED}{}", base.name));
        by_path::rename(&base.dir, &away).map_err(io("remove", &base.dir))?;
        by_path::sync_dir(&self.dir).map_err(io("sync", &self.dir))?;
        remove_tree(&away).map_err(io("remove", &away))
    }

    /// Frees the contents that are not needed by `bases`, which are all remaining bases, or by
    /// borrowers.
    fn collect(&self, bases: &[Base], act: Act) -> Result<Freed, Error> {
        let mut live: BTreeMap<PathBuf, Vec<(u32, u64)>> = BTreeMap::new();
        if act == Act::Remove {
            // A pending record must not name a hole.
            let own = blobs::generations(&self.dir)?;
            own.into_iter().try_for_each(|generation| pending::promote(&self.dir, generation))?;
        }
        for base in bases.iter().filter(|base| base.kind == Kind::Image) {
            add_live(base, &base.devices, &mut live)?;
        }
        let own = blobs::generations(&self.dir)?;
        let own: Vec<PathBuf> = own.into_iter().map(|number| blobs::data_file(&self.dir, number)).collect();
        for borrower in self.borrowers()? {
            let images = borrower.own()?.into_iter().filter(|base| base.kind == Kind::Image);
            for base in images {
                let devices: Vec<PathBuf> = base.devices.iter().map(|path| as_here(path, &own)).collect();
                add_live(&base, &devices, &mut live)?;
            }
        }
        let mut freed = Freed::default();
        for generation in blobs::generations(&self.dir)? {
            let path = blobs::data_file(&self.dir, generation);
            match live.remove(&path) {
                None => {
                    freed.bytes += blobs::disk_usage(&path)?;
                    freed.generations.push(generation);
                    if act == Act::Remove {
                        blobs::remove(&self.dir, generation)?;
                    }
                }
                Some(ranges) => {
                    let dead = dead_ranges(ranges, blobs::length(&path)?);
                    freed.bytes += Blobs::punch_holes(&self.dir, generation, &dead, act == Act::Remove)?;
                }
            }
        }
        Ok(freed)
    }
}

/// Returns [`Error::InUse`] if one of `views` shows the base, or lies over it. The name decides:
/// the same directory may be seen through several mounts.
fn refuse_shown(base: &Base, views: &[Base]) -> Result<(), Error> {
    let is_shown = |view: &&Base| {
        let shown = view.view.as_ref().and_then(|view| view.of.parent());
        let below = shown.into_iter().chain(view.parent.as_deref()).filter_map(Path::file_name);
        below.into_iter().any(|name| *name == *base.name) && view.dir != base.dir
    };
    match views.iter().find(is_shown) {
        Some(view) => Err(Error::InUse { name: base.name.clone(), by: view.dir.clone() }),
        None => Ok(()),
    }
}

/// Maps a device of another directory's image to the same blob file of this directory. If the path
/// does not exist here, it may be seen through another mount, so the file name decides.
fn as_here(device: &Path, own: &[PathBuf]) -> PathBuf {
    let id = |path: &Path| by_path::stat_followed(path).ok().flatten().map(|stat| (stat.dev, stat.ino));
    let found = id(device);
    let is_it = |path: &&PathBuf| match found {
        Some(_) => id(path) == found,
        None => device.file_name() == path.file_name(),
    };
    own.iter().find(is_it).cloned().unwrap_or_else(|| device.to_owned())
}

/// Adds the ranges of blocks to which an image refers, by blob file: first block and number of
/// blocks. `devices` are the paths of the blob files.
fn add_live(
    base: &Base,
    devices: &[PathBuf],
    live: &mut BTreeMap<PathBuf, Vec<(u32, u64)>>,
) -> Result<(), Error> {
    use format::erofs::read::{Content, Error as ReadError, Image};
    let path = base.image();
    let damaged = |error: ReadError| Error::Damaged { path: path.clone(), what: error.to_string() };
    let failed = |source| Error::Io { action: "read", path: path.clone(), source };
    if base.lacks_files() {
        // A backup may bring the image back: all that it could name stays.
        for device in devices {
            let blocks = blobs::length(device)?.div_ceil(1 << BLOCK_BITS);
            live.entry(device.clone()).or_default().push((0, blocks));
        }
        return Ok(());
    }
    if base.is_lost() {
        // It is built again before it is used, with the contents that are there then.
        return Ok(());
    }
    let file = by_path::open(&path).map_err(failed)?;
    let map = sys::Map::of(&file).map_err(failed)?;
    let image = Image::open(&map).map_err(damaged)?;
    if image.devices.len() != devices.len() {
        return Err(damaged(ReadError::Superblock("it names other blob files")));
    }
    for device in devices {
        live.entry(device.clone()).or_default();
    }
    image
        .walk::<ReadError>(&mut |_, inode| {
            if let Content::File(Some(place)) = inode.content {
                let ranges = live.entry(devices[usize::from(place.device)].clone()).or_default();
                ranges.push((place.block, inode.size.div_ceil(1 << BLOCK_BITS)));
            }
            Ok(())
        })
        .map_err(damaged)
}

/// Returns the byte ranges of a file of `length` bytes that no live range covers.
fn dead_ranges(mut live: Vec<(u32, u64)>, length: u64) -> Vec<std::ops::Range<u64>> {
    live.sort_unstable();
    let (mut dead, mut next) = (Vec::new(), 0);
    for (block, blocks) in live {
        let start = u64::from(block) << BLOCK_BITS;
        if start > next {
            dead.push(next..start);
        }
        next = next.max(start + (blocks << BLOCK_BITS));
    }
    if length > next {
        dead.push(next..length);
    }
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_lies_between_live_contents() {
        assert_eq!(dead_ranges(vec![], 100), std::iter::once(0..100).collect::<Vec<_>>());
        let dead = dead_ranges(vec![(4, 1), (0, 2), (4, 1), (5, 1)], 4096);
        assert_eq!(dead, [1024..2048, 3072..4096]);
        assert_eq!(dead_ranges(vec![(0, 8)], 4096), Vec::<std::ops::Range<u64>>::new());
    }
}
