//! Bases on disk: reads and writes their records, and finds bases by name.

use std::{
    io::{ErrorKind, IoSlice},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BString, ByteSlice as _};
use format::{HashKind, ObjectId, config::Edit};
use store::{Fsync, LockOptions};
use sys::{File, by_path};

use super::{
    super::boot::Boot,
    Base, Bases, Error, Kind,
    view::{Form, View},
};

const SECTION: &str = "base";

/// The prefix of the directory of an incomplete base.
pub(super) const STAGED: &str = ".new-";

/// The prefix of the directory of a base that is being removed.
pub(super) const REMOVED: &str = ".old-";

/// The stored facts about a base.
pub(super) struct Stored {
    pub(super) kind: Kind,
    pub(super) tree: ObjectId,
    /// The name of the shared half of the index.
    pub(super) shared_index: ObjectId,
    /// The blob files, as paths relative to the base directory, or absolute for alternates.
    pub(super) devices: Vec<PathBuf>,
    /// See [`Base::contents`].
    pub(super) contents: Option<String>,
    /// See [`Base::owner`].
    pub(super) owner: Option<(u32, u32)>,
    /// See [`Base::view`].
    pub(super) view: Option<View>,
    /// See [`Base::pending`].
    pub(super) pending: Option<Boot>,
    pub(super) structure: Structure,
}

/// The parts of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    /// All files of the tree.
    Whole,
    /// The files in which the tree differs from that of another base. The link [`PARENT`] leads to
    /// it.
    Difference,
}

/// The symbolic link in the directory of a difference that leads to the base below it.
pub(crate) const PARENT: &str = "parent";

/// Follows the kind in the record of a difference. An older version of sapwood knows no such kind,
/// and so refuses to show a difference as if it were the whole tree.
const DIFFERENCE: &str = "-difference";

impl Stored {
    /// Writes the record of the base at `dir`, and syncs it before it takes its name.
    pub(super) fn write_synced(&self, dir: &Path) -> Result<(), Error> {
        let (path, staged) = (dir.join("record"), dir.join("record.new"));
        let failed = |action| {
            let path = path.clone();
            move |source| Error::Io { action, path, source }
        };
        let bytes = format::config::edit(b"", &self.edits()).map_err(store::config::Error::Key)?;
        let _ = by_path::remove_file(&staged);
        let file = by_path::create_new(&staged, 0o666).map_err(failed("write"))?;
        file.write_pieces_at(&mut [IoSlice::new(&bytes)], 0).map_err(failed("write"))?;
        sys::sync_file(&file).map_err(failed("sync"))?;
        by_path::rename(&staged, &path).map_err(failed("rename"))?;
        by_path::sync_dir(dir).map_err(failed("sync"))
    }

    /// Writes the record of the base at `dir`.
    pub(super) fn write(&self, dir: &Path, fsync: &Fsync) -> Result<(), Error> {
        let edits = self.edits();
        let content = |_| format::config::edit(b"", &edits).map_err(store::config::Error::Key);
        Ok(store::config::rewrite(&dir.join("record"), &LockOptions::default(), fsync, content)?)
    }

    fn edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        let mut add = |key: &str, value: BString| {
            edits.push(Edit::Add { key: format!("{SECTION}.{key}").into(), value });
        };
        let suffix = if self.structure == Structure::Difference { DIFFERENCE } else { "" };
        add("kind", [self.kind.name(), suffix].concat().into());
        add("tree", self.tree.to_string().into());
        add("index", self.shared_index.to_string().into());
        self.devices.iter().for_each(|device| add("device", device.as_os_str().as_bytes().into()));
        if let Some(contents) = &self.contents {
            add("contents", contents.as_str().into());
        }
        if let Some((uid, gid)) = self.owner {
            add("uid", uid.to_string().into());
            add("gid", gid.to_string().into());
        }
        if let Some(view) = &self.view {
            add("viewOf", view.of.as_os_str().as_bytes().into());
            add("form", view.form.name().into());
        }
        if let Some(boot) = &self.pending {
            add("pending", boot.id().into());
        }
        edits
    }

    /// Reads the record of the base at `dir`. Returns `None` if no base exists there, or if a crash
    /// left its record empty: then the base was not durable.
    fn read(dir: &Path) -> Result<Option<Stored>, Error> {
        let path = dir.join("record");
        let pairs = match repo::settings_in(&path) {
            Ok(Some(pairs)) if !pairs.is_empty() => pairs,
            Ok(None) => return Ok(None),
            _ if is_torn(&path) => return Ok(None),
            read => read?.unwrap_or_default(),
        };
        let damaged = |what: &str| Error::Damaged { path: path.clone(), what: what.to_owned() };
        let one = |key: &str| {
            let wanted = format!("{SECTION}.{key}");
            pairs.iter().rev().find(|(found, _)| *found == wanted).map(|(_, value)| value.as_bstr())
        };
        let oid = |key: &str| {
            let text = one(key)?;
            let kinds = [HashKind::Sha1, HashKind::Sha256];
            kinds.into_iter().find_map(|kind| ObjectId::from_hex(kind, text))
        };
        let devices = pairs.iter().filter(|(key, _)| *key == format!("{SECTION}.device"));
        let number = |key: &str| one(key)?.to_str().ok()?.parse().ok();
        let owner = number("uid").zip(number("gid"));
        let kind = one("kind").ok_or_else(|| damaged("it names no kind"))?;
        let (kind, structure) = match kind.strip_suffix(DIFFERENCE.as_bytes()) {
            Some(kind) => (kind, Structure::Difference),
            None => (kind.as_bytes(), Structure::Whole),
        };
        Ok(Some(Stored {
            kind: Kind::from_name(kind).ok_or_else(|| damaged("it names no known kind"))?,
            structure,
            tree: oid("tree").ok_or_else(|| damaged("it names no tree"))?,
            shared_index: oid("index").ok_or_else(|| damaged("it names no index"))?,
            devices: devices.map(|(_, value)| PathBuf::from(sys::os_str(value))).collect(),
            contents: one("contents").map(ToString::to_string),
            owner,
            pending: one("pending").map(|boot| Boot::recorded(boot.to_string())),
            view: match (one("viewof"), one("form")) {
                (None, None) => None,
                (Some(of), Some(form)) => Some(View {
                    of: PathBuf::from(sys::os_str(of)),
                    form: owner
                        .and_then(|owner| Form::from_name(form, owner))
                        .ok_or_else(|| damaged("it names no known form"))?,
                }),
                _ => return Err(damaged("it names half a view")),
            },
        }))
    }
}

/// Returns true if a file has no byte but NULs: its name survived a crash, and its content did not.
pub(super) fn is_torn(path: &Path) -> bool {
    matches!(by_path::read(path), Ok(Some(bytes)) if bytes.iter().all(|byte| *byte == 0))
}

/// The time of the last use is not written more often than this.
pub(super) const USE: Duration = Duration::from_secs(60 * 60);

impl Base {
    /// Returns the time of the last use.
    pub(super) fn last_use(&self) -> Option<SystemTime> {
        let stat = by_path::stat(&self.dir.join("lock")).ok()??;
        Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.mtime.0).ok()?))
    }

    pub(super) fn was_used_within(&self, time: Duration) -> bool {
        let age = |used: SystemTime| SystemTime::now().duration_since(used);
        self.last_use().is_some_and(|used| age(used).is_ok_and(|age| age < time))
    }

    /// Notes that the base is used. A failure is ignored: the owner of the directory decides what
    /// is removed there.
    pub(super) fn note_use(&self) {
        if !self.was_used_within(USE) {
            let _ = by_path::touch(&self.dir.join("lock"));
        }
    }

    /// Prevents the removal of the base until the returned file is closed.
    pub fn hold(&self) -> Result<File, Error> {
        let path = self.dir.join("lock");
        let io = |source| Error::Io { action: "lock", path: path.clone(), source };
        let file = by_path::open(&path).map_err(io)?;
        if sys::try_lock_shared(&file).map_err(io)? {
            Ok(file)
        } else {
            Err(Error::Missing { dir: self.dir.clone(), name: self.name.clone() })
        }
    }
}

/// Returns the directory of the base below the difference in the directory `dir`. Returns `None`
/// for a base that is no difference.
pub(crate) fn parent_of(dir: &Path) -> std::io::Result<Option<PathBuf>> {
    let target = by_path::read_link(&dir.join(PARENT))?;
    Ok(target.map(|target| match target.strip_prefix("..") {
        Ok(name) => dir.with_file_name(name),
        Err(_) => target,
    }))
}

impl Bases {
    /// Returns the base with this name.
    pub fn get(&self, name: &str) -> Result<Base, Error> {
        self.load(name)?.ok_or_else(|| Error::Missing { dir: self.dir.clone(), name: name.to_owned() })
    }

    /// Returns all complete bases, sorted by name: first those of this directory, then those that
    /// only alternates have.
    pub fn list(&self) -> Result<Vec<Base>, Error> {
        let mut all = self.own()?;
        for dir in self.alternates()? {
            let more = Bases::at(&dir).own()?;
            let is_new = |base: &Base| !all.iter().any(|known| known.name == base.name);
            let more: Vec<Base> = more.into_iter().filter(is_new).collect();
            all.extend(more);
        }
        Ok(all)
    }

    /// Returns the complete bases of this directory, sorted by name.
    pub(super) fn own(&self) -> Result<Vec<Base>, Error> {
        let mut names = match by_path::list(&self.dir) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { action: "read", path: self.dir.clone(), source }),
        };
        names.retain(|(name, _)| !name.as_bytes().starts_with(b"."));
        names.sort_by(|one, other| one.0.cmp(&other.0));
        let names = names.iter().filter_map(|(name, _)| name.to_str());
        names.filter_map(|name| self.load_own(name).transpose()).collect()
    }

    /// Returns the complete bases of this directory whose records can be read.
    pub(super) fn readable(&self) -> Vec<Base> {
        let names = by_path::list(&self.dir).unwrap_or_default();
        let names = names.iter().filter_map(|(name, _)| name.to_str());
        let mut found: Vec<Base> = names.filter_map(|name| self.load_own(name).ok().flatten()).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Returns the base with this name from this directory or an alternate, if it exists.
    pub(super) fn load(&self, name: &str) -> Result<Option<Base>, Error> {
        if let Some(base) = self.load_own(name)? {
            return Ok(Some(base));
        }
        for dir in self.alternates()? {
            if let Some(base) = Bases::at(&dir).load_own(name)? {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }

    /// Returns the base with this name from this directory, if it exists.
    pub(super) fn load_own(&self, name: &str) -> Result<Option<Base>, Error> {
        // The name becomes part of a path, so it is validated.
        if name.is_empty() || !name.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let dir = self.dir.join(name);
        let Some(stored) = Stored::read(&dir)? else { return Ok(None) };
        let devices = stored.devices.iter().map(|device| self.dir.join(device)).collect();
        let parent = match stored.structure {
            Structure::Whole => None,
            Structure::Difference => {
                let parent = parent_of(&dir).map_err(|source| Error::Io {
                    action: "read",
                    path: dir.join(PARENT),
                    source,
                })?;
                let what = || "it has no link to the base below it".to_owned();
                Some(parent.ok_or_else(|| Error::Damaged { path: dir.clone(), what: what() })?)
            }
        };
        Ok(Some(Base {
            name: name.to_owned(),
            kind: stored.kind,
            tree: stored.tree,
            shared_index: stored.shared_index,
            devices,
            contents: stored.contents,
            owner: stored.owner,
            view: stored.view,
            pending: stored.pending,
            parent,
            dir,
        }))
    }
}
