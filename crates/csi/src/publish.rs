//! Publishing and unpublishing: a volume that belongs to a target directory.
//!
//! Order of `publish`: the record; the commit in the repository of the node; the workspace, in a
//! directory of the service; a copy of its mounts at the target; the record says that it is ready.
//! Order of `unpublish`: the record says that it is not ready; the mounts at the target; the
//! workspace goes, or is kept; the target; the record. Each step looks at what is there, so a call
//! that was killed is repeated from its beginning.

use std::{io, path::Path};

use sys::{by_path, mount::Unmount};

use crate::{
    Error, Secrets, Unsaved, Volume, Volumes,
    repository::Repository,
    state::{Door, Record},
};

/// The size of a volume and of the file system that holds its changes.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes: available to a user, in all, used.
    pub bytes: (u64, u64, u64),
    /// Inodes, likewise.
    pub inodes: (u64, u64, u64),
}

impl Volumes {
    /// Shows the workspace of a volume at `target`. A second call with the same values changes
    /// nothing.
    pub fn publish(&self, id: &str, volume: Volume, secrets: &Secrets, target: &Path) -> Result<(), Error> {
        self.settings.check(&volume)?;
        let _claim = self.claim(Door::Csi, id)?;
        let parent = target.parent().unwrap_or(Path::new("/"));
        if !matches!(by_path::stat_followed(parent), Ok(Some(_))) {
            return Err(Error::Invalid(format!("there is no directory '{}'", parent.display())));
        }
        let (mut record, _) = self.begin(Door::Csi, id, volume, Some(target))?;
        if let Some(other) = record.target.as_ref().filter(|other| *other != target) {
            return Err(Error::Elsewhere { id: id.into(), target: other.clone() });
        }
        if record.is_ready && is_mounted(target)? {
            return Ok(());
        }
        let shown = self.show_at(&mut record, secrets, target);
        if shown.is_err() && !record.is_ready {
            // Nobody has seen it, and after most errors a kubelet forgets the volume.
            if let Err(error) = self.end(record) {
                self.log(&format!("volume '{id}' is left for the next call: {error}"));
            }
        }
        shown
    }

    fn show_at(&self, record: &mut Record, secrets: &Secrets, target: &Path) -> Result<(), Error> {
        self.fetch(record, secrets)?;
        self.show(record)?;
        self.attach(record, target)?;
        record.is_ready = true;
        self.state.write(record)
    }

    /// Removes a volume from `target`. One that does not exist is removed already.
    pub fn unpublish(&self, id: &str, target: &Path) -> Result<(), Error> {
        let _claim = self.claim(Door::Csi, id)?;
        match self.state.read(Door::Csi, id)? {
            Some(record) if record.target.as_deref() == Some(target) => self.end(record),
            // It is published elsewhere, or its record is lost. A mount here is of no use.
            Some(_) | None => {
                detach(target)?;
                remove_empty(target)
            }
        }
    }

    /// Returns the size of the volume that is published at `target`.
    pub fn usage(&self, id: &str, target: &Path) -> Result<Usage, Error> {
        let missing = || Error::Missing(id.to_owned());
        let record = self.state.read(Door::Csi, id)?.ok_or_else(missing)?;
        if record.target.as_deref() != Some(target) || !is_mounted(target)? {
            return Err(missing());
        }
        let facts =
            rustix::fs::statvfs(target).map_err(|error| Error::io("examine", target)(error.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
        Ok(Usage {
            bytes: (
                bytes(facts.f_bavail),
                bytes(facts.f_blocks),
                bytes(facts.f_blocks.saturating_sub(facts.f_bfree)),
            ),
            inodes: (facts.f_favail, facts.f_files, facts.f_files.saturating_sub(facts.f_ffree)),
        })
    }

    /// Returns the record of a volume, and true if it is new. A new one is on the disk before
    /// anything else is made.
    pub(crate) fn begin(
        &self,
        door: Door,
        id: &str,
        volume: Volume,
        target: Option<&Path>,
    ) -> Result<(Record, bool), Error> {
        if let Some(record) = self.state.read(door, id)? {
            let is_same = record.volume == volume;
            return if is_same { Ok((record, false)) } else { Err(Error::Exists(id.to_owned())) };
        }
        let record = Record {
            id: id.to_owned(),
            door,
            volume,
            target: target.map(Path::to_owned),
            workspace: new_name(id)?,
            commit: None,
            is_made: false,
            is_ready: false,
            users: Vec::new(),
            boot: String::new(),
        };
        self.state.write(&record)?;
        Ok((record, true))
    }

    /// Brings the commit of a volume to the node.
    pub(crate) fn fetch(&self, record: &mut Record, secrets: &Secrets) -> Result<(), Error> {
        let repository = Repository::of(self, &record.volume);
        let commit = repository.prepare(record.commit.as_deref(), secrets)?;
        if record.commit.as_ref() != Some(&commit) {
            record.commit = Some(commit);
            self.state.write(record)?;
        }
        Ok(())
    }

    /// Makes or completes the workspace of a volume whose commit is here, and mounts it in the
    /// directory of the service.
    pub(crate) fn show(&self, record: &mut Record) -> Result<(), Error> {
        let repository = Repository::of(self, &record.volume);
        let name = record.workspace.clone();
        if repository.has_workspace(&name) {
            // A call was killed, or the machine started again.
            self.recover(&repository);
        }
        let dir = self.state.workspace(&name);
        if repository.has_workspace(&name) {
            repository.sapwood("mount the workspace", &["workspace", "mount", "--quiet", &name])?;
        } else {
            self.make(&repository, record, &dir)?;
        }
        if !record.is_made {
            // A workspace calls the repository of the node its origin. No container sees that.
            repository.set_origin(&name)?;
            record.is_made = true;
            self.state.write(record)?;
        }
        Ok(())
    }

    /// Makes the workspace of a volume.
    fn make(&self, repository: &Repository<'_>, record: &Record, dir: &Path) -> Result<(), Error> {
        let dir = dir.to_str().expect("the state directory has a plain name");
        let commit = record.commit.as_deref().expect("the commit was brought before");
        // Links would let a pod change the objects of all others.
        let create = |objects: &str| {
            let mut args =
                vec!["workspace", "create", "--quiet", "--sealed", "--detach", "--objects", objects];
            args.extend(["--dir", dir]);
            args.extend(record.volume.sparse.iter().flat_map(|dir| ["--sparse", dir]));
            args.extend(record.volume.quota.iter().flat_map(|quota| ["--quota", quota]));
            args.extend([record.workspace.as_str(), commit]);
            repository.sapwood("make the workspace", &args)
        };
        if self.settings.links_objects {
            return create("auto").map(drop);
        }
        match create("reflink") {
            Ok(_) => Ok(()),
            // The file system makes no clones of files.
            Err(_) if !repository.has_workspace(&record.workspace) => create("copy").map(drop),
            Err(error) => Err(error),
        }
    }

    /// Shows the mounted workspace at `target`. The mounts appear there at once, or not at all.
    fn attach(&self, record: &Record, target: &Path) -> Result<(), Error> {
        if is_mounted(target)? {
            return Ok(());
        }
        make_target(target)?;
        let dir = self.state.workspace(&record.workspace);
        let copy = sys::mount::copy_tree(&dir, record.volume.read_only).map_err(Error::io("show", &dir))?;
        copy.attach(target).map_err(Error::io("mount", target))
    }

    /// Completes or undoes what killed calls left in a repository. A failure is no failure of the
    /// volume: it may concern another one that ends meanwhile.
    fn recover(&self, repository: &Repository<'_>) {
        let gc = || repository.sapwood("recover workspaces", &["workspace", "gc", "--quiet"]);
        if let Err(error) = gc().or_else(|_| gc()) {
            self.log(&error.to_string());
        }
    }

    /// Removes or keeps the workspace of a volume, then its directory and its record.
    pub(crate) fn end(&self, mut record: Record) -> Result<(), Error> {
        let was_ready = std::mem::replace(&mut record.is_ready, false);
        if was_ready {
            self.state.write(&record)?;
        }
        if let Some(target) = &record.target {
            detach(target)?;
        }
        let repository = Repository::of(self, &record.volume);
        let name = record.workspace.as_str();
        if !was_ready && repository.has_workspace(name) {
            self.recover(&repository);
        }
        if repository.has_workspace(name) {
            match record.volume.unsaved {
                Unsaved::Discard => {
                    let args = ["workspace", "remove", "--force", "--quiet", name];
                    repository.sapwood("remove the workspace", &args)?;
                }
                Unsaved::Keep => self.remove_or_keep(&repository, &record)?,
            }
        }
        if !repository.has_workspace(name) {
            remove_marked(&self.state.workspace(name))?;
        }
        if let Some(target) = &record.target {
            remove_empty(target)?;
        }
        repository.touch();
        self.state.remove(&record)
    }

    /// Removes a workspace without unsaved work. Any other one is frozen: its files stay in the
    /// repository of the node, and `workspace thaw` shows them again.
    fn remove_or_keep(&self, repository: &Repository<'_>, record: &Record) -> Result<(), Error> {
        let name = record.workspace.as_str();
        let removed = repository.sapwood("remove the workspace", &["workspace", "remove", "--quiet", name]);
        let Err(refusal) = removed else { return Ok(()) };
        repository.sapwood("freeze the workspace", &["workspace", "freeze", "--quiet", name])?;
        self.state.keep(record)?;
        self.log(&format!("volume '{}' is kept as workspace {name}: {refusal}", record.id));
        Ok(())
    }
}

/// Makes the directory of a volume. Its owner matters only while nothing is mounted there.
fn make_target(target: &Path) -> Result<(), Error> {
    match by_path::create_dir(target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::io("make the directory", target)(error))
        }
        _ => Ok(()),
    }
}

/// Ends the mounts at `target`. Fails while a process uses them.
fn detach(target: &Path) -> Result<(), Error> {
    for path in [target.join(".git"), target.to_owned()] {
        if is_mounted(&path)? {
            sys::mount::unmount(&path, Unmount::Plain).map_err(Error::io("unmount", &path))?;
        }
    }
    Ok(())
}

/// Returns true if something is mounted at `path`.
fn is_mounted(path: &Path) -> Result<bool, Error> {
    Ok(sys::mount_id(path).map_err(Error::io("examine", path))?.is_some_and(|(_, is_top)| is_top))
}

/// Removes the directory of a workspace whose state is gone: a removal was killed between the two.
/// It has at most the file `.git` that says that nothing is mounted.
fn remove_marked(dir: &Path) -> Result<(), Error> {
    detach(dir)?;
    let marker = dir.join(".git");
    match by_path::remove_file(&marker) {
        Err(error) if !sys::is_missing(&error) => Err(Error::io("remove", &marker)(error)),
        _ => remove_empty(dir),
    }
}

/// Removes the directory of a volume. Never one with content: what is in it is not the volume's.
fn remove_empty(target: &Path) -> Result<(), Error> {
    match by_path::remove_dir(target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", target)(error)),
        _ => Ok(()),
    }
}

/// Returns a new name for a workspace.
fn new_name(id: &str) -> Result<String, Error> {
    let mut random = [0_u8; 8];
    let source = Path::new("/dev/urandom");
    let mut read = || io::Read::read_exact(&mut by_path::open(source)?, &mut random);
    read().map_err(Error::io("read", source))?;
    let name = crate::state::digest([id.as_bytes(), &random]);
    Ok(format!("volume-{}", &name[..24]))
}
