//! The state directory: records of volumes, repositories, kept workspaces.
//!
//! A record is written before anything else of a volume is made, and removed after everything else
//! is gone. It is replaced atomically, so a kill leaves the old one or the new one.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sys::by_path;

use crate::{Error, Volume};

/// The facts about a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The id that the orchestrator gave, or the name that a user gave.
    pub(crate) id: String,
    /// The door through which it came.
    pub(crate) door: Door,
    /// Its attributes.
    pub(crate) volume: Volume,
    /// The directory that shows the files to a pod.
    pub(crate) target: Option<PathBuf>,
    /// The name of its workspace. A volume that gets the id of an earlier one has another name.
    pub(crate) workspace: String,
    /// True if the workspace was made completely. From then on its Git directory belongs to the
    /// user of the volume.
    pub(crate) is_made: bool,
    /// The id of its commit, from the moment at which it is known.
    pub(crate) commit: Option<String>,
    /// True if the files are shown. False while they begin or end.
    pub(crate) is_ready: bool,
    /// The containers that use a volume with a name.
    pub(crate) users: Vec<String>,
    /// The boot of the machine at which they began.
    pub(crate) boot: String,
}

/// The door through which a volume came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Door {
    /// Kubernetes: the volume ends with its pod.
    Csi,
    /// Docker or Podman: the volume ends when a user removes it.
    Plugin,
}

impl Door {
    /// Returns the name of a volume in the state directory. The doors have names of their own.
    fn key(self, id: &str) -> String {
        let door: &[u8] = match self {
            Door::Csi => b"csi",
            Door::Plugin => b"plugin",
        };
        digest([door, id.as_bytes()])[..32].to_owned()
    }
}

/// Returns the SHA-256 of `parts`, each with its length before it, in hexadecimal digits.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const CHILDREN: &str = "children";

/// Takes the lock at `path`, and waits for it as long as `patience`.
fn lock_alone(path: &Path, patience: Duration) -> Result<sys::File, Error> {
    let file = by_path::lock_file(path, 0o600).map_err(Error::io("open", path))?;
    let begun = Instant::now();
    while !sys::try_lock(&file).map_err(Error::io("lock", path))? {
        if begun.elapsed() > patience {
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, "another service uses it");
            return Err(Error::io("lock", path)(busy));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(file)
}

/// The state directory.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    /// Locked while the service runs.
    _lock: sys::File,
}

impl State {
    /// Opens the directory, and makes it if it is missing. Fails if another service has it.
    pub(crate) fn open(root: &Path) -> Result<State, Error> {
        by_path::create_dir_all(root).map_err(Error::io("make the directory", root))?;
        // Users of the machine see nothing of the volumes.
        for name in ["volumes", "repositories", "workspaces", "kept", "trash"] {
            let dir = root.join(name);
            match by_path::create_private_dir(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("make the directory", &dir)(error));
                }
                _ => {}
            }
        }
        // Git asks for access without capabilities. Each repository belongs to its owner alone.
        let repositories = root.join("repositories");
        by_path::set_mode(&repositories, 0o711).map_err(Error::io("open", &repositories))?;
        // A link on the way would make two paths of one directory.
        let root = by_path::canonical(root).map_err(Error::io("find", root))?;
        // A process that a killed service has just begun has the lock for a moment.
        let lock = lock_alone(&root.join("lock"), Duration::from_secs(2))?;
        // Processes of a killed service end soon. Until then they could work on any volume.
        drop(lock_alone(&root.join(CHILDREN), Duration::from_secs(60))?);
        Ok(State { root, _lock: lock })
    }

    /// Returns the file that child processes lock (shared) as long as they live.
    pub(crate) fn children(&self) -> PathBuf {
        self.root.join(CHILDREN)
    }

    /// Returns the directory of a repository. One with a cut history serves no volume that wants
    /// all of it.
    pub(crate) fn repository(&self, volume: &Volume) -> PathBuf {
        let is_cut = volume.depth.is_some() || volume.base.is_some();
        let ids = format!("{} {} {is_cut}", volume.uid, volume.gid);
        let key = digest([ids.as_bytes(), volume.repository.as_bytes()]);
        self.repositories().join(&key[..32])
    }

    /// Returns the directory of all repositories.
    pub(crate) fn repositories(&self) -> PathBuf {
        self.root.join("repositories")
    }

    /// Returns the directory of a workspace.
    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.root.join("workspaces").join(name)
    }

    /// Returns the directory of what is being deleted.
    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    fn path(&self, door: Door, id: &str) -> PathBuf {
        self.root.join("volumes").join(format!("{}.json", door.key(id)))
    }

    /// Reads the record of a volume.
    pub(crate) fn read(&self, door: Door, id: &str) -> Result<Option<Record>, Error> {
        read(&self.path(door, id))
    }

    /// Returns all records. One that is damaged is left out.
    pub(crate) fn all(&self) -> Result<Vec<Record>, Error> {
        let dir = self.root.join("volumes");
        let names = by_path::list(&dir).map_err(Error::io("list", &dir))?;
        let records = names.into_iter().filter(|(name, _)| name.as_encoded_bytes().ends_with(b".json"));
        Ok(records.filter_map(|(name, _)| read(&dir.join(name)).ok().flatten()).collect())
    }

    /// Writes the record of a volume.
    pub(crate) fn write(&self, record: &Record) -> Result<(), Error> {
        write(&self.path(record.door, &record.id), record)
    }

    /// Removes the record of a volume.
    pub(crate) fn remove(&self, record: &Record) -> Result<(), Error> {
        let path = self.path(record.door, &record.id);
        by_path::remove_file(&path).map_err(Error::io("remove", &path))?;
        sync_dir_of(&path)
    }

    /// Notes that the workspace of a volume was kept, for whoever looks for the work.
    pub(crate) fn keep(&self, record: &Record) -> Result<(), Error> {
        write(&self.root.join("kept").join(format!("{}.json", record.workspace)), record)
    }
}

fn read(path: &Path) -> Result<Option<Record>, Error> {
    let Some(bytes) = by_path::read(path).map_err(Error::io("read", path))? else { return Ok(None) };
    let damaged = |error| Error::io("read", path)(io::Error::new(io::ErrorKind::InvalidData, error));
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

fn write(path: &Path, record: &Record) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(record).expect("a record has only texts and numbers");
    let staged = path.with_extension("new");
    let replace = || {
        // A killed service left it. The record has one writer at a time.
        match by_path::remove_file(&staged) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = by_path::create_new(&staged, 0o600)?;
        file.write_all(&text)?;
        sys::sync_file(&file)?;
        by_path::rename(&staged, path)
    };
    replace().map_err(Error::io("write", path))?;
    sync_dir_of(path)
}

fn sync_dir_of(path: &Path) -> Result<(), Error> {
    let dir = path.parent().expect("a record lies in a directory");
    by_path::sync_dir(dir).map_err(Error::io("sync", dir))
}
