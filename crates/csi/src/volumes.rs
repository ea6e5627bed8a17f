//! The core that both doors use: what is running, and what was agreed.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use sys::by_path;

use crate::{
    Error, Secrets, Settings,
    state::{Door, State},
};

/// All volumes of this node. Its calls take as long as the work takes, from any thread.
pub struct Volumes {
    pub(crate) settings: Settings,
    pub(crate) state: State,
    /// The volumes that a call works on.
    pending: Mutex<HashSet<(bool, String)>>,
    /// A lock for each repository, by its directory.
    repositories: Mutex<HashMap<PathBuf, Arc<Mutex<()>>>>,
    /// When a server gave a repository to some credentials.
    consents: Mutex<HashMap<String, Instant>>,
    nothing: Secrets,
}

impl Volumes {
    /// Opens the state directory. Repeated calls complete the work of an earlier service.
    pub fn open(settings: Settings) -> Result<Volumes, Error> {
        let state = State::open(&settings.state)?;
        if settings.state.to_str().is_none() {
            return Err(Error::Invalid("the state directory has no plain name".into()));
        }
        // Secrets of a service that was killed.
        match by_path::remove_dir_all(&settings.run) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &settings.run)(error));
            }
            _ => {}
        }
        if let Some(parent) = settings.run.parent() {
            by_path::create_dir_all(parent).map_err(Error::io("make the directory", parent))?;
        }
        by_path::create_private_dir(&settings.run).map_err(Error::io("make the directory", &settings.run))?;
        // Children with other ids reach their own files in it.
        by_path::set_mode(&settings.run, 0o711).map_err(Error::io("open", &settings.run))?;
        Ok(Volumes {
            settings,
            state,
            pending: Mutex::default(),
            repositories: Mutex::default(),
            consents: Mutex::default(),
            nothing: Secrets::default(),
        })
    }

    /// Claims a volume for one call. An orchestrator repeats the others.
    pub(crate) fn claim(&self, door: Door, id: &str) -> Result<Claim<'_>, Error> {
        let key = (door == Door::Csi, id.to_owned());
        if held(&self.pending).insert(key.clone()) {
            Ok(Claim { volumes: self, key })
        } else {
            Err(Error::Pending(id.to_owned()))
        }
    }

    /// Returns the lock of a repository.
    pub(crate) fn lock_of(&self, repository: &Path) -> Arc<Mutex<()>> {
        Arc::clone(held(&self.repositories).entry(repository.to_owned()).or_default())
    }

    /// Returns when servers gave repositories to credentials.
    pub(crate) fn consents(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        held(&self.consents)
    }

    /// Returns the secrets of a process that needs none.
    pub(crate) fn no_secrets(&self) -> &Secrets {
        &self.nothing
    }

    /// Returns the name of this node.
    pub(crate) fn node(&self) -> &str {
        &self.settings.node
    }

    /// Writes a line to the log.
    pub fn log(&self, line: &str) {
        use io::Write as _;
        let _ = writeln!(io::stderr(), "sapwood-csi: {line}");
    }
}

/// A panic leaves these collections whole: each change is one call.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A volume that a call works on. The claim ends with the value.
pub(crate) struct Claim<'a> {
    volumes: &'a Volumes,
    key: (bool, String),
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        held(&self.volumes.pending).remove(&self.key);
    }
}
