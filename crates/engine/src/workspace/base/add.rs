//! Builds a base in a staged directory, and publishes it under its name.
//!
//! Order, under an exclusive lock of the base directory: write the files or the image; write the
//! index; write the record; sync everything; rename to the final name. A base that becomes durable
//! later ([`Persist::Later`]) is not synced, and its record has the boot.

use std::{
    io::{self, ErrorKind},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use format::{HashKind, ObjectId, index::Index};
use sys::{File, FileType, by_path};

use super::{
    super::boot::Boot,
    Base, Bases, Error, Kind, Wanted,
    alternates::is_below,
    append::{Appender, Publication},
    blobs::Blobs,
    directory, image, index, pending, proof,
    stored::{REMOVED, STAGED, Stored, Structure},
    users::User,
    view::View,
};
use crate::crew::Workers;

/// The file that a process locks while it builds or removes bases.
const LOCK: &str = "lock";
/// The file that importers and `gc` lock. Base directories that have this one as an alternate share
/// the lock.
const TRANSFERS: &str = "transfers";
/// The time between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(20);

/// The parts of a base that its record and its index need.
pub(super) struct Made {
    pub(super) index: Index,
    /// The devices of an image: paths that are relative to the base directory, or absolute.
    pub(super) devices: Vec<PathBuf>,
    /// The user id and group id that the index expects.
    pub(super) owner: (u32, u32),
    pub(super) view: Option<View>,
    /// The boot, if the base is not synced.
    pub(super) pending: Option<Boot>,
}

/// The time at which a new base is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Before it is published.
    Now,
    /// After [`Base::harden`]. The base directory must be on a disk of this machine: another one
    /// could not know whether this machine was started again.
    Later,
}

/// The options for building a base.
pub struct AddOptions<'a> {
    /// The number of workers.
    pub workers: Workers,
    /// Set by a signal handler; checked before each file.
    pub interrupt: &'a AtomicBool,
    /// Called with (done, total) from time to time, from any thread: files of the base.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
    /// The limit for files that are read into memory (`core.bigFileThreshold`), in bytes.
    pub big_file_threshold: u64,
    /// The facts about the commit that are passed to filters.
    pub metadata: repo::convert::Metadata,
    /// The sync policy. A base is synced unless syncing is disabled.
    pub fsync: &'a store::Fsync,
    /// `core.sharedRepository`
    pub shared: store::SharedRepository,
    /// When [`Bases::add`] makes a new base durable.
    pub persist: Persist,
}

impl AddOptions<'_> {
    /// Returns the boot to record if the new base is not synced.
    fn pending(&self) -> Option<Boot> {
        let is_later = self.persist == Persist::Later && !self.fsync.disabled;
        if is_later { Boot::current() } else { None }
    }

    /// Returns the durability of new contents.
    pub(super) fn publication(&self) -> Publication {
        match self.pending() {
            Some(boot) => Publication::Pending(boot),
            None if self.fsync.disabled => Publication::Unsynced,
            None => Publication::Synced,
        }
    }

    /// Returns true if files are synced as they are written.
    pub(super) fn syncs(&self) -> bool {
        self.publication() == Publication::Synced
    }
}

impl Bases {
    /// Returns the base for `wanted` from this directory or an alternate, if it is complete.
    /// Registers the repository as a user of bases.
    pub fn find(&self, wanted: &Wanted<'_>) -> Result<Option<Base>, Error> {
        self.find_named(wanted.name(), wanted)
    }

    /// Like [`Bases::find`], for a base that serves `wanted` under the name `name`.
    pub(super) fn find_named(&self, name: &str, wanted: &Wanted<'_>) -> Result<Option<Base>, Error> {
        let is_usable = |base: &Base| !base.is_lost() && (!self.is_alone || !self.borrows(base));
        let base = self.load(name)?.filter(is_usable);
        if let Some(dir) = base.as_ref().and_then(|base| base.dir.parent()) {
            // A failure is ignored: in a directory that cannot be written, nothing can be removed
            // either.
            let common = wanted.repo().real_common_dir();
            let _ = Bases::at(dir).register(User::Repository(&common), store::SharedRepository::Umask);
        }
        base.iter().for_each(Base::note_use);
        Ok(base)
    }

    /// Returns the base for `wanted`, and builds it if it does not exist, or was lost in a crash.
    /// If there are concurrent callers, one builds it and the others wait. Messages of conversions
    /// are appended to `messages`.
    pub fn add(
        &self,
        wanted: &Wanted<'_>,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Base, Error> {
        if let Some(base) = self.find(wanted)? {
            return base.kept(options);
        }
        let lock = self.lock(options.shared).map_err(|source| self.read_only(wanted, source))?;
        if let Some(base) = self.find(wanted)? {
            drop(lock);
            return base.kept(options);
        }
        self.register(User::Repository(&wanted.repo().real_common_dir()), options.shared)?;
        match wanted.kind() {
            Kind::Image => {
                let appender = self.append(wanted.repo().hash(), options.shared)?;
                self.add_locked(wanted, Some(&appender), options, messages)
            }
            Kind::Directory => self.add_locked(wanted, None, options, messages),
        }
    }

    /// Returns true if contents of a base lie outside of this directory.
    fn borrows(&self, base: &Base) -> bool {
        let own = by_path::canonical(&self.dir).unwrap_or_else(|_| self.dir.clone());
        base.devices.iter().chain(&base.parent).any(|part| !is_below(part, &own))
    }

    pub(super) fn read_only(&self, wanted: &Wanted<'_>, source: io::Error) -> Error {
        Error::ReadOnly { dir: self.dir.clone(), kind: wanted.kind(), tree: wanted.tree(), source }
    }

    /// Starts an addition of contents. The caller holds the lock.
    pub(super) fn append(&self, hash: HashKind, shared: store::SharedRepository) -> Result<Appender, Error> {
        self.append_for(hash, shared, &|_| true)
    }

    /// Like [`Bases::append`], for a caller that adds only contents for which `wanted` returns
    /// true.
    pub(super) fn append_for(
        &self,
        hash: HashKind,
        shared: store::SharedRepository,
        wanted: &dyn Fn(&ObjectId) -> bool,
    ) -> Result<Appender, Error> {
        let blobs = self.dir.join("blobs");
        match shared.create_dir(&blobs) {
            Err(source) if source.kind() != ErrorKind::AlreadyExists => {
                Err(Error::Io { action: "create", path: blobs, source })
            }
            _ => {
                let alternates = self.alternates()?;
                let kept = alternates.iter().filter_map(|dir| self.borrow_from(dir).transpose());
                let kept = kept.collect::<Result<_, _>>()?;
                Blobs::open_for(&self.dir, &alternates, hash, wanted)?.append(kept)
            }
        }
    }

    /// Registers this directory in an alternate, if that is writable. Blocks `gc` there until the
    /// returned file is closed. Returns `None` if the alternate cannot be locked.
    pub(super) fn borrow_from(&self, alternate: &Path) -> Result<Option<File>, Error> {
        let path = alternate.join(TRANSFERS);
        // Where the file cannot be created, nothing can be removed either.
        let _ = by_path::lock_file(&path, 0o666);
        let Ok(file) = by_path::open(&path) else { return Ok(None) };
        while !sys::try_lock_shared(&file).map_err(|source| Error::Io {
            action: "lock",
            path: path.clone(),
            source,
        })? {
            thread::sleep(PAUSE);
        }
        let own = by_path::canonical(&self.dir).unwrap_or_else(|_| self.dir.clone());
        let _ = Bases::at(alternate).register(User::Bases(&own), store::SharedRepository::Umask);
        Ok(Some(file))
    }

    /// Builds a base that does not exist. The caller holds the lock. For an image, `appender`
    /// provides the blob files.
    pub(super) fn add_locked(
        &self,
        wanted: &Wanted<'_>,
        appender: Option<&Appender>,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Base, Error> {
        // [`Bases::find`] found it useless. Publishing replaces one that was lost.
        if let Some(base) = self.load_own(wanted.name())?.filter(|base| !base.is_lost()) {
            self.unmount_and_remove(&base, &self.users()?)?;
        }
        let pending = options.pending();
        self.add_staged(wanted.name(), wanted, options, |staged| {
            let owner = wanted.owner();
            match appender {
                Some(appender) => {
                    let (index, devices) = image::build(wanted, appender, staged, options, messages)?;
                    Ok(Made { index, devices, owner: (owner.uid, owner.gid), view: None, pending })
                }
                None => {
                    let index = directory::build(wanted, staged, options, messages)?;
                    proof::write(staged, &index)?;
                    let owner = owner_of_files(staged)?;
                    Ok(Made { index, devices: Vec::new(), owner, view: None, pending })
                }
            }
        })
    }

    /// Builds a base under the name `name`, from what `make` writes to a staged directory. The
    /// caller holds the lock.
    pub(super) fn add_staged(
        &self,
        name: &str,
        wanted: &Wanted<'_>,
        options: &AddOptions<'_>,
        make: impl FnOnce(&Path) -> Result<Made, Error>,
    ) -> Result<Base, Error> {
        self.remove_staged();
        let staged = self.dir.join(format!("{STAGED}{name}"));
        options.shared.create_dir(&staged).map_err(|source| Error::Io {
            action: "create",
            path: staged.clone(),
            source,
        })?;
        let built = make(&staged).and_then(|made| {
            let fsync = match made.pending {
                None => *options.fsync,
                Some(_) => store::Fsync { disabled: true, ..*options.fsync },
            };
            if !fsync.disabled {
                made.devices.iter().try_for_each(|device| pending::sync_device(&self.dir.join(device)))?;
            }
            self.describe(name, wanted, &staged, made, &fsync)?;
            self.publish(name, &staged, &fsync)
        });
        if built.is_err() {
            let _ = remove_tree(&staged);
        }
        built?;
        self.load(name)?.ok_or_else(|| Error::Missing { dir: self.dir.clone(), name: name.to_owned() })
    }

    /// Writes index and record of a staged base. Returns the name of the shared half of the index.
    pub(super) fn describe(
        &self,
        name: &str,
        wanted: &Wanted<'_>,
        staged: &Path,
        made: Made,
        fsync: &store::Fsync,
    ) -> Result<ObjectId, Error> {
        let shared_index = index::write(staged, name, made.index, fsync)?;
        let record = Stored {
            kind: wanted.kind(),
            tree: wanted.tree(),
            shared_index,
            devices: made.devices,
            contents: Some(wanted.contents().to_owned()),
            owner: Some(made.owner),
            view: made.view,
            pending: made.pending,
            structure: Structure::Whole,
        };
        record.write(staged, fsync)?;
        Ok(shared_index)
    }

    /// Syncs a staged base, and renames it to its name.
    pub(super) fn publish(&self, name: &str, staged: &Path, fsync: &store::Fsync) -> Result<(), Error> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        let lock = staged.join("lock");
        let lock = by_path::create_new(&lock, 0o666).map_err(io("create", &lock))?;
        if !fsync.disabled {
            sys::sync_file_system(&lock).map_err(io("sync", staged))?;
        }
        let place = self.dir.join(name);
        let lost = self.dir.join(format!("{REMOVED}{name}"));
        // A base that did not survive a crash whole, or that the disk did not take. After a crash
        // nothing shows it.
        let is_replaced = by_path::stat(&place).map_err(io("examine", &place))?.is_some();
        if is_replaced {
            let files = by_path::realpath_forgiving(&place.join("files"));
            let mounts = sys::mounts().map_err(io("examine", &files))?;
            let shows = |mount: &sys::Mount| mount.point == files || mount.lower_layers().contains(&files);
            if mounts.iter().any(shows) {
                return Err(Error::InUse { name: name.to_owned(), by: files });
            }
            let _ = remove_tree(&lost);
            by_path::rename(&place, &lost).map_err(io("rename", &place))?;
        }
        by_path::rename(staged, &place).map_err(io("rename", staged))?;
        if is_replaced {
            let _ = remove_tree(&lost);
        }
        if fsync.disabled { Ok(()) } else { by_path::sync_dir(&self.dir).map_err(io("sync", &self.dir)) }
    }

    /// Takes the exclusive lock of the base directory. Waits for other processes that build or
    /// remove bases.
    pub(super) fn lock(&self, shared: store::SharedRepository) -> io::Result<File> {
        let file = self.lock_file(LOCK, shared)?;
        sys::lock(&file)?;
        Ok(file)
    }

    /// Like [`Bases::lock`], but returns `None` if another process holds the lock.
    pub(super) fn try_lock(&self, shared: store::SharedRepository) -> io::Result<Option<File>> {
        let file = self.lock_file(LOCK, shared)?;
        Ok(sys::try_lock(&file)?.then_some(file))
    }

    /// Takes the lock against `gc` and other importers, and waits for them. Other processes may
    /// build bases meanwhile. A caller that needs [`Bases::lock`] too takes this one first.
    pub(super) fn lock_transfers(
        &self,
        shared: store::SharedRepository,
        interrupt: &AtomicBool,
    ) -> Result<File, Error> {
        let failed = |source| Error::Io { action: "lock", path: self.dir.join(TRANSFERS), source };
        let file = self.lock_file(TRANSFERS, shared).map_err(failed)?;
        while !sys::try_lock(&file).map_err(failed)? {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            thread::sleep(PAUSE);
        }
        Ok(file)
    }

    fn lock_file(&self, name: &str, shared: store::SharedRepository) -> io::Result<File> {
        match shared.create_dir_all(&self.dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Another user may have made a directory that was missing before.
        self.check(&self.dir).map_err(io::Error::other)?;
        by_path::lock_file(&self.dir.join(name), 0o666)
    }

    /// Removes the leftovers of killed processes. The caller holds the lock, so no other process is
    /// building.
    pub(super) fn remove_staged(&self) {
        for (name, _) in by_path::list(&self.dir).unwrap_or_default() {
            let prefixes = [STAGED, REMOVED].map(str::as_bytes);
            if prefixes.iter().any(|prefix| name.as_bytes().starts_with(prefix)) {
                let _ = remove_tree(&self.dir.join(name));
            }
        }
    }
}

/// Returns the owner of the files of a base of kind directory.
pub(super) fn owner_of_files(staged: &Path) -> Result<(u32, u32), Error> {
    let files = staged.join("files");
    let io = |source| Error::Io { action: "examine", path: files.clone(), source };
    let stat = by_path::stat_followed(&files).map_err(io)?.ok_or_else(|| io(ErrorKind::NotFound.into()))?;
    Ok((stat.uid, stat.gid))
}

/// Removes a base's directory, in which the checkout may be a read-only subvolume.
pub(super) fn remove_tree(dir: &Path) -> io::Result<()> {
    let files = dir.join("files");
    // A link leads to a checkout of the user, or to the files of another base.
    let is_ours = by_path::stat(&files)?.is_some_and(|stat| stat.file_type == FileType::Directory);
    if is_ours && sys::volume::is_subvolume(&files).unwrap_or(false) {
        let _ = sys::volume::set_read_only(&files, false);
        let _ = sys::volume::remove_subvolume(&files);
    }
    by_path::remove_dir_all(dir)
}
