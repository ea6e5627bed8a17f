//! The Git directory of a sealed workspace: a repository of its own, which needs no file outside.
//!
//! It has the objects of the repository as further names of the same files (or as clones or
//! copies), its own configuration, refs, reflogs and hooks. No file in it holds a path that Git
//! follows, except the address of `origin`.
//!
//! Order: the refs and `shallow` are read; the objects are shared (`objects.rs`); the refs are read
//! again, and those of the first reading are written. All objects of a ref that did not move were
//! there meanwhile. The copy is examined for the others: a `gc` may have removed what they needed.
//! If it lacks something, everything begins again. The caller removes what was made if it fails.
//!
//! Design: docs/design/sealed.md.

mod objects;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, ErrorKind, Write as _},
    ops::ControlFlow,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use bstr::BString;
use format::{HashKind, ObjectId, config::Edit};
use repo::{ListScope, Repository, Soundness, keys};
use store::{
    Fsync,
    refs::{Change, Expected, PackedRef},
};
use sys::{FileType, by_path};

use self::objects::Sharer;
use crate::{
    crew::Workers,
    fetch::connected::{self, Connected},
};

/// The way in which a workspace gets the objects of the repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Clones of the files where the file system can make them, else links.
    #[default]
    Auto,
    /// Only clones: a process that writes into them changes no file of the repository.
    Reflink,
    /// Further names of the same files, or copies where that is not possible.
    Link,
    /// Copies.
    Copy,
}

impl Sharing {
    /// Returns the way with this name.
    pub fn from_name(name: &[u8]) -> Option<Sharing> {
        match name {
            b"auto" => Some(Sharing::Auto),
            b"reflink" => Some(Sharing::Reflink),
            b"link" => Some(Sharing::Link),
            b"copy" => Some(Sharing::Copy),
            _ => None,
        }
    }
}

/// The hooks of a new workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hooks {
    /// Those that Git would run: a linked worktree has those of the repository, a sealed workspace
    /// has none.
    #[default]
    Default,
    /// None.
    None,
    /// Those of the repository.
    Repository,
    /// Those in this directory.
    Directory(PathBuf),
}

/// The reason why the Git directory was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("this file system cannot clone '{}': {}", .path.display(), sys::reason(.source))]
    NoClones { path: PathBuf, source: io::Error },
    #[error("the packs in '{}' change too often; try again", .0.display())]
    Busy(PathBuf),
    #[error("the object {0} is missing, which a branch, a tag or the commit of the workspace needs")]
    Missing(ObjectId),
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Repository(#[from] repo::Error),
    #[error(transparent)]
    Refs(#[from] store::refs::Error),
    #[error(transparent)]
    Config(#[from] store::config::Error),
}

impl Error {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}

/// The HEAD of a new workspace.
#[derive(Clone, Copy, Debug)]
pub enum Head<'a> {
    /// A branch with this full name.
    Branch(&'a BString),
    /// No branch.
    Detached,
}

/// The parts of a Git directory.
pub struct Parts<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// HEAD.
    pub head: Head<'a>,
    /// The commit of HEAD.
    pub commit: ObjectId,
    /// The way to get the objects.
    pub sharing: Sharing,
    /// The directory whose hooks are copied.
    pub hooks: Option<&'a Path>,
    /// Settings, in order.
    pub settings: &'a [(BString, BString)],
    /// The options for writing its refs. The directories in them are replaced.
    pub refs: store::refs::Options,
    /// The workers that examine the copy.
    pub workers: Workers,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
}

/// A Git directory that was written.
#[derive(Debug)]
pub struct Written {
    /// The form in which the objects came.
    pub shared: Shared,
    /// The files of objects that must be synced.
    pub objects: Vec<PathBuf>,
}

/// The part of the repository that says which objects are needed.
struct Tips {
    branches: Vec<(BString, ObjectId)>,
    tags: Vec<(BString, ObjectId)>,
    /// The objects to which tags finally point, as far as packed-refs has them.
    peeled: BTreeMap<ObjectId, ObjectId>,
    shallow: Option<Vec<u8>>,
}

impl Tips {
    fn of(repo: &Repository) -> Result<Tips, Error> {
        let shallow = shallow(repo)?;
        let mut peeled = BTreeMap::new();
        let mut listed = |prefix: &str| {
            let mut refs = Vec::new();
            let _ = repo.each_ref(ListScope::Below(prefix.into()), None, |found| {
                if found.soundness == Soundness::Sound {
                    refs.push((found.name.to_owned(), found.id));
                    peeled.extend(found.peeled.map(|peeled| (found.id, peeled)));
                }
                Ok::<_, repo::Error>(ControlFlow::Continue(()))
            })?;
            Ok::<_, Error>(refs)
        };
        let (branches, tags) = (listed("refs/heads/")?, listed("refs/tags/")?);
        Ok(Tips { branches, tags, peeled, shallow })
    }

    fn all(&self) -> impl Iterator<Item = &(BString, ObjectId)> {
        self.branches.iter().chain(&self.tags)
    }
}

/// The form in which the objects came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// They take no space on the disk.
    Free,
    /// Some files had to be copied.
    Copied,
}

impl Parts<'_> {
    /// Writes the Git directory `dir`, which must be empty, without its index.
    pub fn write(&self, dir: &Path) -> Result<Written, Error> {
        for name in
            ["objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "hooks", "info"]
        {
            let dir = dir.join(name);
            by_path::create_dir(&dir).map_err(Error::io("create", &dir))?;
        }
        self.write_config(dir)?;
        if let Some(hooks) = self.hooks {
            copy_hooks(hooks, &dir.join("hooks"))?;
        }
        self.copy(dir)
    }

    /// Gives the directory the objects and the refs of one moment.
    fn copy(&self, dir: &Path) -> Result<Written, Error> {
        const TRIES: usize = 8;
        let mut sharer = Sharer::new(self.sharing);
        let mut tips = Tips::of(self.repo)?;
        let mut missing = None;
        for _ in 0..TRIES {
            sharer.share(self.repo, &dir.join("objects"))?;
            let now = Tips::of(self.repo)?;
            let doubtful = self.doubtful(&tips, &now);
            missing = self.missing(dir, &tips, &doubtful)?;
            if missing.is_none() && tips.shallow == now.shallow {
                self.write_packed(dir, &tips, &BTreeSet::new())?;
                self.write_head(dir)?;
                return Ok(Written { shared: sharer.shared, objects: sharer.made });
            }
            tips = now;
        }
        let objects = || Error::Busy(self.repo.objects_dir().to_owned());
        Err(missing.map_or_else(objects, Error::Missing))
    }

    /// Returns the tips that may have lost objects before these were shared: those that are no refs
    /// any more, and the commit of the workspace.
    fn doubtful(&self, tips: &Tips, now: &Tips) -> BTreeSet<ObjectId> {
        let kept: BTreeSet<&(BString, ObjectId)> = now.all().collect();
        let (sure, mut doubtful): (BTreeSet<_>, BTreeSet<_>) = tips.all().partition(|tip| kept.contains(tip));
        let commit = (BString::default(), self.commit);
        doubtful.insert(&commit);
        let sure: BTreeSet<ObjectId> = sure.into_iter().map(|(_, oid)| *oid).collect();
        doubtful.into_iter().map(|(_, oid)| *oid).filter(|oid| !sure.contains(oid)).collect()
    }

    /// Returns an object that the copy lacks, and that one of the `doubtful` tips needs. The others
    /// are complete.
    fn missing(
        &self,
        dir: &Path,
        tips: &Tips,
        doubtful: &BTreeSet<ObjectId>,
    ) -> Result<Option<ObjectId>, Error> {
        if doubtful.is_empty() {
            return Ok(None);
        }
        self.write_packed(dir, tips, doubtful)?;
        // Without HEAD, it is no repository.
        let head = dir.join("HEAD");
        write(&head, b"ref: refs/heads/none\n")?;
        let copy = self.repo.open_git_dir(dir)?;
        let options = connected::Options { workers: self.workers, interrupt: self.interrupt };
        let doubtful: Vec<ObjectId> = doubtful.iter().copied().collect();
        let found = connected::check(&copy, &doubtful, options);
        by_path::remove_file(&head).map_err(Error::io("remove", &head))?;
        match found {
            Ok(Connected::Complete) => Ok(None),
            Ok(Connected::Missing(oid)) => Ok(Some(oid)),
            Err(connected::Error::Interrupted) => Err(Error::Interrupted),
            Err(connected::Error::Repo(error)) => Err(error.into()),
        }
    }

    fn write_config(&self, dir: &Path) -> Result<(), Error> {
        let is_sha256 = self.repo.hash() == HashKind::Sha256;
        let mut edits = Vec::new();
        let mut add = |key: BString, value: &[u8]| edits.push(Edit::Add { key, value: value.into() });
        let version: &[u8] = if is_sha256 { b"1" } else { b"0" };
        add(keys::core::REPOSITORY_FORMAT_VERSION.name().into(), version);
        add(keys::core::BARE.name().into(), b"false");
        add(keys::core::LOG_ALL_REF_UPDATES.name().into(), b"true");
        if is_sha256 {
            add(keys::extensions::OBJECT_FORMAT.name().into(), b"sha256");
        }
        self.settings.iter().for_each(|(key, value)| add(key.clone(), value));
        add(keys::remote::URL.with(b"origin"), self.repo.real_common_dir().as_os_str().as_bytes());
        add(keys::remote::FETCH.with(b"origin"), b"+refs/heads/*:refs/remotes/origin/*");
        let content = format::config::edit(b"", &edits).map_err(store::config::Error::Key)?;
        write(&dir.join("config"), &content)
    }

    /// Returns the options for writing refs in the directory.
    fn refs_in(&self, dir: &Path) -> store::refs::Options {
        store::refs::Options {
            git_dir: dir.to_owned(),
            common_dir: dir.to_owned(),
            display_dir: dir.to_owned(),
            // The caller syncs everything at the end.
            fsync: Fsync { disabled: true, ..self.refs.fsync },
            ..self.refs.clone()
        }
    }

    /// Writes `shallow`, and the branches and tags without those at `left_out`.
    fn write_packed(&self, dir: &Path, tips: &Tips, left_out: &BTreeSet<ObjectId>) -> Result<(), Error> {
        for name in ["packed-refs", "shallow"] {
            let path = dir.join(name);
            match by_path::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        if let Some(shallow) = &tips.shallow {
            write(&dir.join("shallow"), shallow)?;
        }
        let is_wanted = |tip: &&(BString, ObjectId)| !left_out.contains(&tip.1);
        let mut refs = Vec::new();
        for (name, oid) in tips.branches.iter().filter(is_wanted) {
            let short = name.strip_prefix(b"refs/heads/").unwrap_or(name);
            let name = [b"refs/remotes/origin/", short].concat().into();
            refs.push(PackedRef { name, oid: *oid, peeled: None });
        }
        for (name, oid) in tips.tags.iter().filter(is_wanted) {
            let known = tips.peeled.get(oid).copied();
            let peeled = known.or_else(|| self.repo.peel_object(*oid).map(|(peeled, _)| peeled).ok());
            let peeled = peeled.filter(|peeled| peeled != oid);
            refs.push(PackedRef { name: name.clone(), oid: *oid, peeled });
        }
        Ok(store::refs::write_packed(&self.refs_in(dir), &refs)?)
    }

    fn write_head(&self, dir: &Path) -> Result<(), Error> {
        let options = self.refs_in(dir);
        let (new, message) = (self.commit, BString::from("workspace: created"));
        let expected = Expected::Any;
        let mut changes = Vec::new();
        match self.head {
            Head::Branch(name) => {
                let update = Change::Update { name: name.clone(), new, expected, message: message.clone() };
                changes.push(update);
                store::refs::apply(&options, changes)?;
                let (name, target) = ("HEAD".into(), name.clone());
                let head =
                    Change::Symbolic { name, target, message: Some(message), old: None, new: Some(new) };
                store::refs::apply(&options, vec![head])?;
            }
            Head::Detached => {
                changes.push(Change::Update { name: "HEAD".into(), new, expected, message });
                store::refs::apply(&options, changes)?;
            }
        }
        Ok(())
    }
}

fn shallow(repo: &Repository) -> Result<Option<Vec<u8>>, Error> {
    let path = repo.common_dir().join("shallow");
    by_path::read(&path).map_err(Error::io("read", &path))
}

/// Makes a Git directory durable, which nobody else has changed yet. The objects in `made` are
/// synced; a link is as durable as the file in the repository.
pub fn sync(dir: &Path, made: Vec<PathBuf>, fsync: &Fsync) -> Result<(), Error> {
    let (mut files, mut dirs) = (made, vec![dir.to_owned()]);
    let mut pending = vec![dir.to_owned()];
    while let Some(above) = pending.pop() {
        for (name, kind) in by_path::list(&above).map_err(Error::io("read", &above))? {
            let path = above.join(name);
            match kind {
                FileType::Directory => {
                    dirs.push(path.clone());
                    pending.push(path);
                }
                _ if above.starts_with(dir.join("objects")) => {}
                _ => files.push(path),
            }
        }
    }
    dirs.extend(dir.parent().map(Path::to_owned));
    Ok(store::refs::sync(&fsync.for_recording(), &files, &dirs)?)
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let written = by_path::create_new(path, 0o666).and_then(|mut file| file.write_all(content));
    written.map_err(Error::io("write", path))
}

/// Copies the files of a directory of hooks with their permissions.
fn copy_hooks(from: &Path, to: &Path) -> Result<(), Error> {
    let names = match by_path::list(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        names => names.map_err(Error::io("read", from))?,
    };
    for (name, _) in names {
        let (from, to) = (from.join(&name), to.join(&name));
        let stat = by_path::stat_followed(&from).map_err(Error::io("examine", &from))?;
        let Some(stat) = stat.filter(|stat| stat.file_type == FileType::File) else { continue };
        let source = by_path::open(&from).map_err(Error::io("read", &from))?;
        let copied = by_path::create_new(&to, stat.mode & 0o777).and_then(|made| sys::copy(&source, &made));
        copied.map_err(Error::io("write", &to))?;
    }
    Ok(())
}
