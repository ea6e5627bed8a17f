//! Volumes with names: those of Docker and Podman. A name lives until a user removes it, and the
//! workspace is mounted while containers use it.

use std::path::PathBuf;

use crate::{
    Error, Volume, Volumes,
    repository::Repository,
    state::{Door, Record},
};

/// A volume with a name.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its directory, which shows the files while a container uses it.
    pub path: PathBuf,
    /// Its attributes.
    pub volume: Volume,
    /// The id of its commit.
    pub commit: Option<String>,
    /// The containers that use it.
    pub users: Vec<String>,
}

impl Named {
    fn of(volumes: &Volumes, record: Record) -> Named {
        let Record { id, volume, workspace, commit, users, .. } = record;
        Named { name: id, path: volumes.state.workspace(&workspace), volume, commit, users }
    }
}

impl Volumes {
    /// Makes a volume: brings its commit to the node. No files are shown yet.
    pub fn create(&self, name: &str, volume: Volume) -> Result<(), Error> {
        self.settings.check(&volume)?;
        let _claim = self.claim(Door::Plugin, name)?;
        let (mut record, is_new) = self.begin(Door::Plugin, name, volume, None)?;
        let fetched = self.fetch(&mut record, self.no_secrets());
        if fetched.is_err() && is_new {
            self.state.remove(&record)?;
        }
        fetched
    }

    /// Shows the files of a volume to the container `user`. Returns its directory.
    pub fn mount(&self, name: &str, user: &str) -> Result<PathBuf, Error> {
        let _claim = self.claim(Door::Plugin, name)?;
        let mut record = self.named(name)?;
        if record.commit.is_none() {
            // The service was killed while it made the volume.
            self.fetch(&mut record, self.no_secrets())?;
        }
        forget_earlier_boot(&mut record);
        if !record.users.iter().any(|other| other == user) {
            record.users.push(user.to_owned());
        }
        self.show(&mut record)?;
        record.is_ready = true;
        self.state.write(&record)?;
        Ok(self.state.workspace(&record.workspace))
    }

    /// Ends the use of a volume by the container `user`. The last one unmounts the workspace.
    pub fn unmount(&self, name: &str, user: &str) -> Result<(), Error> {
        let _claim = self.claim(Door::Plugin, name)?;
        let mut record = self.named(name)?;
        forget_earlier_boot(&mut record);
        record.users.retain(|other| other != user);
        if record.users.is_empty() && record.is_ready {
            record.is_ready = false;
            let repository = Repository::of(self, &record.volume);
            let args = ["workspace", "unmount", "--quiet", &record.workspace];
            repository.sapwood("unmount the workspace", &args)?;
        }
        self.state.write(&record)
    }

    /// Removes a volume that no container uses.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let _claim = self.claim(Door::Plugin, name)?;
        let mut record = self.named(name)?;
        forget_earlier_boot(&mut record);
        if !record.users.is_empty() {
            return Err(Error::Used(name.to_owned()));
        }
        self.end(record)
    }

    /// Returns a volume.
    pub fn get(&self, name: &str) -> Result<Named, Error> {
        Ok(Named::of(self, self.named(name)?))
    }

    /// Returns all volumes with names.
    pub fn list(&self) -> Result<Vec<Named>, Error> {
        let records = self.state.all()?.into_iter().filter(|record| record.door == Door::Plugin);
        let mut all: Vec<Named> = records.map(|record| Named::of(self, record)).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    fn named(&self, name: &str) -> Result<Record, Error> {
        self.state.read(Door::Plugin, name)?.ok_or_else(|| Error::Missing(name.to_owned()))
    }
}

/// Forgets users that ended with an earlier boot of the machine, which told nobody.
fn forget_earlier_boot(record: &mut Record) {
    let now = boot();
    if record.boot != now {
        record.users.clear();
        record.boot = now;
    }
}

/// Returns the kernel's name of the current boot.
fn boot() -> String {
    let read = sys::by_path::read("/proc/sys/kernel/random/boot_id".as_ref());
    let bytes = read.ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
