//! The Git directory of a sealed workspace: a repository of its own, which needs no file outside.
//!
//! It has the objects of the repository as further names of the same files (or as clones or
//! copies), its own configuration, refs, reflogs and hooks. No file in it holds a path that Git
//! follows, except the address of `origin`.
//!
//! Order: the commit-graph, the loose objects, the packs, then the refs. A `gc` that runs meanwhile
//! moves objects from left to right, so nothing that existed at the start is missed. The caller
//! removes what was made if it fails.
//!
//! Design: docs/design/sealed.md.

use std::{
    collections::BTreeSet,
    io::{self, ErrorKind, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::BString;
use format::{HashKind, ObjectId, config::Edit};
use repo::{Repository, keys};
use store::{
    Fsync,
    refs::{Change, Expected, PackedRef},
};
use sys::{FileType, by_path};

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
    pub fn write(&self, dir: &Path) -> Result<Shared, Error> {
        for name in
            ["objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags", "hooks", "info"]
        {
            let dir = dir.join(name);
            by_path::create_dir(&dir).map_err(Error::io("create", &dir))?;
        }
        self.write_config(dir)?;
        let shared = self.share_objects(&dir.join("objects"))?;
        if let Some(hooks) = self.hooks {
            copy_hooks(hooks, &dir.join("hooks"))?;
        }
        let shallow = self.repo.common_dir().join("shallow");
        if let Some(content) = by_path::read(&shallow).map_err(Error::io("read", &shallow))? {
            write(&dir.join("shallow"), &content)?;
        }
        self.write_refs(dir)?;
        Ok(shared)
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

    fn write_refs(&self, dir: &Path) -> Result<(), Error> {
        let options = store::refs::Options {
            git_dir: dir.to_owned(),
            common_dir: dir.to_owned(),
            display_dir: dir.to_owned(),
            // The caller syncs everything at the end.
            fsync: Fsync { disabled: true, ..self.refs.fsync },
            ..self.refs.clone()
        };
        let packed = |name: BString, oid| PackedRef { name, oid, peeled: None };
        let mut refs = Vec::new();
        for (name, oid) in self.repo.refs("refs/heads/")? {
            let short = name.strip_prefix(b"refs/heads/").unwrap_or(&name);
            refs.push(packed([b"refs/remotes/origin/", short].concat().into(), oid));
        }
        for (name, oid) in self.repo.refs("refs/tags/")? {
            let peeled = self.repo.peel_object(oid).map(|(peeled, _)| peeled).ok();
            refs.push(PackedRef { name, oid, peeled: peeled.filter(|peeled| *peeled != oid) });
        }
        store::refs::write_packed(&options, &refs)?;
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

    fn share_objects(&self, to: &Path) -> Result<Shared, Error> {
        let mut sharer = Sharer { sharing: self.sharing, shared: Shared::Free };
        for dir in self.repo.objects().directories() {
            sharer.commit_graph(&dir.join("info"), &to.join("info"))?;
        }
        for dir in self.repo.objects().directories() {
            sharer.loose(dir, to, self.repo.hash())?;
        }
        for dir in self.repo.objects().directories() {
            sharer.packs(&dir.join("pack"), &to.join("pack"))?;
        }
        Ok(sharer.shared)
    }
}

/// Makes a Git directory durable, which nobody else has changed yet. Objects that were linked are
/// durable already.
pub fn sync(dir: &Path, fsync: &Fsync) -> Result<(), Error> {
    let (mut files, mut dirs) = (Vec::new(), vec![dir.to_owned()]);
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

/// Gives files of one object directory to another.
struct Sharer {
    sharing: Sharing,
    shared: Shared,
}

impl Sharer {
    /// Shares one file. Returns false if it is gone.
    fn file(&mut self, from: &Path, to: &Path) -> Result<bool, Error> {
        if matches!(self.sharing, Sharing::Auto | Sharing::Reflink) {
            match cloned(from, to) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(source) if self.sharing == Sharing::Reflink => {
                    return Err(Error::NoClones { path: from.to_owned(), source });
                }
                Err(_) => self.sharing = Sharing::Link,
            }
        }
        if self.sharing == Sharing::Link {
            match by_path::hard_link(from, to) {
                Ok(()) => return Ok(true),
                // Two object directories have the same object.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                // Another disk, a file of another user, or too many links.
                Err(_) => self.shared = Shared::Copied,
            }
        }
        match copied(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("copy", from)(error)),
        }
    }

    fn commit_graph(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        self.file(&from.join("commit-graph"), &to.join("commit-graph"))?;
        let (from, to) = (from.join("commit-graphs"), to.join("commit-graphs"));
        let names = listed(&from)?;
        if names.is_empty() {
            return Ok(());
        }
        match by_path::create_dir(&to) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::io("create", &to)(error));
            }
            _ => {}
        }
        for (name, _) in names.into_iter().filter(|(name, _)| !name.as_bytes().ends_with(b".lock")) {
            self.file(&from.join(&name), &to.join(&name))?;
        }
        Ok(())
    }

    fn loose(&mut self, from: &Path, to: &Path, hash: HashKind) -> Result<(), Error> {
        let is_hex = |name: &[u8], len: usize| name.len() == len && name.iter().all(u8::is_ascii_hexdigit);
        for (name, _) in listed(from)?.into_iter().filter(|(name, _)| is_hex(name.as_bytes(), 2)) {
            let (from, to) = (from.join(&name), to.join(&name));
            let files = listed(&from)?;
            if files.is_empty() {
                continue;
            }
            match by_path::create_dir(&to) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(Error::io("create", &to)(error));
                }
                _ => {}
            }
            let is_object = |name: &[u8]| is_hex(name, hash.hex_len() - 2);
            for (name, _) in files.into_iter().filter(|(name, _)| is_object(name.as_bytes())) {
                // An object that is gone is in a pack by now.
                self.file(&from.join(&name), &to.join(&name))?;
            }
        }
        Ok(())
    }

    /// Shares all packs that have an index. If another process replaces a pack meanwhile, the list
    /// is read again.
    fn packs(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        const TRIES: usize = 8;
        let mut done = BTreeSet::new();
        for _ in 0..TRIES {
            let mut is_complete = true;
            for (name, _) in listed(from)? {
                let Some(stem) = name.as_bytes().strip_suffix(b".idx") else { continue };
                if stem.starts_with(b".") || stem.starts_with(b"tmp_") || done.contains(stem) {
                    continue;
                }
                if self.pack(from, to, stem)? {
                    done.insert(stem.to_owned());
                } else {
                    is_complete = false;
                }
            }
            if is_complete {
                return Ok(());
            }
        }
        Err(Error::Busy(from.to_owned()))
    }

    /// Shares one pack. Its index comes last, because Git looks for that. Returns false if one of
    /// its files is gone.
    fn pack(&mut self, from: &Path, to: &Path, stem: &[u8]) -> Result<bool, Error> {
        let named = |dir: &Path, end: &[u8]| dir.join(sys::os_str(&[stem, end].concat()));
        let one = |sharer: &mut Self, end: &[u8]| sharer.file(&named(from, end), &named(to, end));
        if !one(self, b".pack")? {
            return Ok(false);
        }
        one(self, b".rev")?;
        if one(self, b".idx")? {
            return Ok(true);
        }
        let _ = by_path::remove_file(&named(to, b".pack"));
        let _ = by_path::remove_file(&named(to, b".rev"));
        Ok(false)
    }
}

/// Returns the entries of a directory, none if it does not exist.
fn listed(dir: &Path) -> Result<Vec<(std::ffi::OsString, FileType)>, Error> {
    match by_path::list(dir) {
        Err(error) if sys::is_missing(&error) => Ok(Vec::new()),
        listed => listed.map_err(Error::io("read", dir)),
    }
}

fn cloned(from: &Path, to: &Path) -> io::Result<()> {
    filled(from, to, sys::reflink)
}

fn copied(from: &Path, to: &Path) -> io::Result<()> {
    filled(from, to, |source, made| {
        sys::copy(source, made)?;
        sys::sync_data(made)
    })
}

/// Creates `to` with the content of `from`. A failure leaves no file.
fn filled(from: &Path, to: &Path, fill: impl Fn(&sys::File, &sys::File) -> io::Result<()>) -> io::Result<()> {
    let source = by_path::open(from)?;
    let made = match by_path::create_new(to, 0o444) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    fill(&source, &made).inspect_err(|_| {
        let _ = by_path::remove_file(to);
    })
}
