//! The file of a record.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use format::{HashKind, ObjectId, config::Edit};
use store::{Components, Fsync, Lock, LockOptions};

use super::{Activity, BaseRef, Durability, Error, Landed, Record, Sealed, Workspace, directory};
use crate::workspace::backend::{Backend, Door};

/// Returns the workspace with this name, if there is one.
pub(super) fn load(common: &Path, name: &OsStr) -> Result<Option<Workspace>, Error> {
    let state = directory(common).join(name);
    let path = state.join("record");
    let Some(pairs) = repo::settings_in(&path)? else { return Ok(None) };
    let damaged = |what: &str| Error::Damaged { path: path.clone(), what: what.to_owned() };
    let all = |key: &str| -> Vec<&BString> {
        let wanted = format!("{SECTION}.{key}");
        pairs.iter().filter(|(found, _)| *found == wanted).map(|(_, value)| value).collect()
    };
    let one = |key: &str| all(key).last().copied();
    if let Some(version) = one("version").filter(|version| *version != VERSION) {
        return Err(Error::Newer { path: path.clone(), version: version.to_string() });
    }
    let path_of = |value: &BString| PathBuf::from(sys::os_str(value));
    let process = |pid: &BString| {
        let pid = pid.to_str().ok().and_then(|pid| pid.parse().ok());
        pid.ok_or_else(|| damaged("it names no process"))
    };
    let dir = one("dir").map(path_of).filter(|dir| dir.is_absolute());
    let backend = one("backend").and_then(|name| Backend::from_name(name));
    let base = match (one("basedir"), one("base")) {
        (Some(dir), Some(name)) => Some(BaseRef { dir: path_of(dir), name: name.to_string() }),
        (None, None) => None,
        _ => return Err(damaged("it names half a base")),
    };
    let record = Record {
        dir: dir.ok_or_else(|| damaged("it names no directory"))?,
        backend: backend.ok_or_else(|| damaged("it names no known backend"))?,
        base,
        layers: all("layer").into_iter().map(path_of).collect(),
        place: one("place").map(path_of),
        durability: one("volatile").map(|_| Durability::Volatile),
        activity: match (one("frozen"), one("begun"), one("check")) {
            (Some(_), ..) => Activity::Frozen,
            (None, Some(pid), _) => Activity::Begun(process(pid)?),
            (None, None, Some(pid)) => Activity::Check(process(pid)?),
            (None, None, None) => Activity::Active,
        },
        sealed: match one("sealed") {
            Some(commit) => {
                let object = |hex: &BString| {
                    let mut kinds = [HashKind::Sha1, HashKind::Sha256].into_iter();
                    let oid = kinds.find_map(|kind| ObjectId::from_hex(kind, hex));
                    oid.ok_or_else(|| damaged("it names no commit"))
                };
                let branch = one("branch").cloned().ok_or_else(|| damaged("it names no branch"))?;
                let landed = match (one("landed"), one("as")) {
                    (Some(tip), Some(new)) => Some(Landed { tip: object(tip)?, new: object(new)? }),
                    _ => None,
                };
                Some(Sealed { branch, commit: object(commit)?, landed })
            }
            None => None,
        },
        door: one("service").map_or(Door::Own, |socket| Door::Service(path_of(socket))),
        project: match one("project").map(|id| id.to_str().ok().and_then(|id| id.parse().ok())) {
            Some(None) => return Err(damaged("it names no project")),
            found => found.flatten(),
        },
    };
    Ok(Some(Workspace { name: name.to_owned(), state, record }))
}

const SECTION: &str = "workspace";
/// The version of the format. A record of this version does not name it.
pub(super) const VERSION: &str = "1";

pub(super) fn write(state: &Path, record: &Record, fsync: &Fsync) -> Result<(), Error> {
    let bytes = |path: &Path| BString::from(path.as_os_str().as_bytes());
    let mut edits = Vec::new();
    let mut add = |key: &str, value: BString| {
        edits.push(Edit::Add { key: format!("{SECTION}.{key}").into(), value });
    };
    add("dir", bytes(&record.dir));
    add("backend", record.backend.name().into());
    if let Some(base) = &record.base {
        add("baseDir", bytes(&base.dir));
        add("base", base.name.as_str().into());
    }
    record.layers.iter().for_each(|layer| add("layer", bytes(layer)));
    if let Some(place) = &record.place {
        add("place", bytes(place));
    }
    if record.durability == Some(Durability::Volatile) {
        add("volatile", "true".into());
    }
    match record.activity {
        Activity::Active => {}
        Activity::Frozen => add("frozen", "true".into()),
        Activity::Begun(pid) => add("begun", pid.to_string().into()),
        Activity::Check(pid) => add("check", pid.to_string().into()),
    }
    if let Some(Sealed { branch, commit, landed }) = &record.sealed {
        add("sealed", commit.to_string().into());
        add("branch", branch.clone());
        if let Some(Landed { tip, new }) = landed {
            add("landed", tip.to_string().into());
            add("as", new.to_string().into());
        }
    }
    if let Door::Service(socket) = &record.door {
        add("service", bytes(socket));
    }
    if let Some(project) = record.project {
        add("project", project.to_string().into());
    }
    let content = format::config::edit(b"", &edits).map_err(store::config::Error::Key)?;
    let mut lock = Lock::take(&state.join("record"), &LockOptions::default())?;
    lock.write(&content)?;
    Ok(lock.commit_synced(&hardened(fsync), Components::all())?)
}

/// Returns the sync policy for records: they are synced unless syncing is disabled. If a user syncs
/// a file in the upper layer, the record that leads to it must be durable too.
pub(super) fn hardened(fsync: &Fsync) -> Fsync {
    Fsync { components: Components::all(), ..*fsync }
}
