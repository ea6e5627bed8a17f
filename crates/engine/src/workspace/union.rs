//! A union that the user mounted over a checkout: overlayfs, or unionfs-fuse. Its upper layer is
//! the monitor of the worktree, as in a workspace. sapwood neither mounts nor unmounts it.
//!
//! `<git directory>/sapwood/union/` contains the record and the snapshots. The record says how the
//! worktree was mounted when it was adopted. If it is mounted in another way now, every file is
//! examined.
//!
//! Promise: the layers are those of the mount. The kernel names them for overlayfs. For
//! unionfs-fuse they are in the command line of the process that serves the mount, and that process
//! is identified by its id and start time.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use bstr::{BString, ByteSlice as _};
use format::{HashKind, config::Edit, hash::Hasher};
use store::{Components, Fsync, Lock, LockOptions};
use sys::{Mount, by_path, namespace::Process};

use super::upper::{Form, Layer};

/// The reason why a union cannot be adopted or read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("'{}' is no mount point of an overlay or of unionfs-fuse", .0.display())]
    NoUnion(PathBuf),
    #[error("the union at '{}' has no writable layer", .0.display())]
    ReadOnly(PathBuf),
    #[error(
        "the union at '{}' was mounted with the relative path '{}': mount it with absolute paths",
        .dir.display(), .layer.display()
    )]
    Relative { dir: PathBuf, layer: PathBuf },
    #[error("cannot find the unionfs-fuse process that serves '{}': only its owner and root can", .0.display())]
    NoProcess(PathBuf),
    #[error("unionfs-fuse shows its own files in '{}': mount it with '-o hide_meta_files'", .0.display())]
    ShowsMetadata(PathBuf),
    #[error(transparent)]
    Read(#[from] repo::Error),
    #[error(transparent)]
    Write(#[from] store::config::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("the record '{}' is damaged: run 'sapwood workspace adopt' again", .0.display())]
    Damaged(PathBuf),
    #[error(
        "'{}' is not mounted as it was adopted: run 'sapwood workspace adopt' there again",
        .0.display()
    )]
    Other(PathBuf),
}

/// The union of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// The mount point, which is the root of the worktree.
    pub dir: PathBuf,
    /// The writable layer.
    pub upper: PathBuf,
    /// The layers below, from top to bottom.
    pub lower: Vec<PathBuf>,
    form: Form,
    /// The process that serves a FUSE mount.
    served_by: Option<Server>,
}

/// A process that serves a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    pid: u32,
    /// Its start time.
    start: u64,
    /// The identity of the mount, if the kernel has one that it never uses again. The process may
    /// still be ending when something else is mounted.
    mount: Option<u64>,
}

const SECTION: &str = "union";

/// Returns the directory of a worktree's record and snapshots.
fn state(git_dir: &Path) -> PathBuf {
    git_dir.join("sapwood").join("union")
}

impl Union {
    /// Returns the union that is mounted at `dir`.
    pub fn mounted_at(dir: &Path) -> Result<Union, Error> {
        let io = |source| Error::Io { action: "examine", path: dir.to_owned(), source };
        let dir = by_path::canonical(dir).map_err(io)?;
        let mount = sys::mount_at(&dir).map_err(io)?.ok_or_else(|| Error::NoUnion(dir.clone()))?;
        let union = if mount.file_system == "overlay" {
            overlay(dir, &mount)?
        } else if ["fuse.unionfs-fuse", "fuse.unionfs"].contains(&&*mount.file_system) {
            unionfs(&dir)?
        } else {
            return Err(Error::NoUnion(dir));
        };
        let layers = std::iter::once(&union.upper).chain(&union.lower);
        match layers.into_iter().find(|layer| !layer.is_absolute()) {
            Some(layer) => Err(Error::Relative { dir: union.dir.clone(), layer: layer.clone() }),
            None => Ok(union),
        }
    }

    /// Returns the adopted union of the worktree with this Git directory.
    pub fn of_git_dir(git_dir: &Path) -> Result<Option<Union>, Error> {
        let path = state(git_dir).join("record");
        let Some(pairs) = repo::settings_in(&path)? else { return Ok(None) };
        let all = |key: &str| -> Vec<&BString> {
            let wanted = format!("{SECTION}.{key}");
            pairs.iter().filter(|(found, _)| *found == wanted).map(|(_, value)| value).collect()
        };
        let path_of = |value: &&BString| PathBuf::from(sys::os_str(value));
        let one = |key: &str| all(key).last().copied();
        let number = |key: &str| one(key)?.to_str().ok()?.parse::<u64>().ok();
        let form = one("kind").and_then(|name| FORMS.iter().find(|(_, known)| name == known));
        let served_by = number("process").zip(number("started")).and_then(|(pid, start)| {
            Some(Server { pid: u32::try_from(pid).ok()?, start, mount: number("mount") })
        });
        let parts = (one("dir"), one("upper"), form);
        let (Some(dir), Some(upper), Some((form, _))) = parts else { return Err(Error::Damaged(path)) };
        Ok(Some(Union {
            dir: path_of(&dir),
            upper: path_of(&upper),
            lower: all("lower").iter().map(path_of).collect(),
            form: *form,
            served_by,
        }))
    }

    /// Records the union for the worktree with this Git directory.
    pub fn adopt(&self, git_dir: &Path, fsync: &Fsync) -> Result<(), Error> {
        if self.is_fuse() {
            self.probe()?;
        }
        let dir = state(git_dir);
        by_path::create_dir_all(&dir).map_err(|source| Error::Io {
            action: "create",
            path: dir.clone(),
            source,
        })?;
        let mut edits = Vec::new();
        let mut add = |key: &str, value: BString| {
            edits.push(Edit::Add { key: format!("{SECTION}.{key}").into(), value });
        };
        let bytes = |path: &Path| BString::from(path.as_os_str().as_bytes());
        let kind = FORMS.iter().find(|(form, _)| *form == self.form).expect("each union has such a form").1;
        add("dir", bytes(&self.dir));
        add("kind", kind.into());
        add("upper", bytes(&self.upper));
        self.lower.iter().for_each(|layer| add("lower", bytes(layer)));
        if let Some(Server { pid, start, mount }) = self.served_by {
            let mount = mount.map(|mount| ("mount", mount.to_string()));
            let process = [("process", pid.to_string()), ("started", start.to_string())];
            process.into_iter().chain(mount).for_each(|(key, value)| add(key, value.into()));
        }
        let content = format::config::edit(b"", &edits).map_err(store::config::Error::Key)?;
        let mut lock = Lock::take(&dir.join("record"), &LockOptions::default())?;
        lock.write(&content)?;
        Ok(lock.commit_synced(fsync, Components::all())?)
    }

    /// Returns an error unless a new file in the union appears in the upper layer.
    fn probe(&self) -> Result<(), Error> {
        let name = format!(".sapwood-probe-{}", std::process::id());
        let path = self.dir.join(&name);
        let io = |action| {
            let path = path.clone();
            move |source| Error::Io { action, path, source }
        };
        drop(by_path::create_new(&path, 0o600).map_err(io("create"))?);
        let seen = by_path::stat(&self.upper.join(&name));
        by_path::remove_file(&path).map_err(io("remove"))?;
        if matches!(seen, Ok(Some(_))) { Ok(()) } else { Err(Error::Other(self.dir.clone())) }
    }

    /// Returns the upper layer as a monitor. The monitor compares an overlay with the kernel's
    /// table itself.
    pub fn layer(&self, git_dir: &Path) -> Result<Layer, Error> {
        if self.form == Form::UnionFs && !self.is_served() {
            let now = Union::mounted_at(&self.dir)?;
            if (&now.upper, &now.lower) != (&self.upper, &self.lower) {
                return Err(Error::Other(self.dir.clone()));
            }
        }
        Ok(Layer {
            upper: self.upper.clone(),
            state: state(git_dir),
            base: self.name(),
            base_files: self.lower.last().cloned().into_iter().collect(),
            base_record: None,
            base_changed: None,
            lower: self.lower.clone(),
            dir: self.dir.clone(),
            form: self.form,
            rules: String::new(),
        })
    }

    /// Returns true for a FUSE mount.
    pub fn is_fuse(&self) -> bool {
        self.form == Form::UnionFs
    }

    /// Returns true if the mount is the one that was adopted, and the same process serves it.
    fn is_served(&self) -> bool {
        let Some(Server { pid, start, mount: Some(mount) }) = self.served_by else { return false };
        mount_of(&self.dir) == Some(mount)
            && matches!(Process::of(pid), Ok(Some(process)) if process.start == start)
    }

    /// Returns the name of what lies below: it changes when another commit is checked out there, or
    /// when an entry of the root directory appears or vanishes.
    fn name(&self) -> String {
        let mut hasher = Hasher::checksum(HashKind::Sha1);
        for layer in &self.lower {
            hasher.update(layer.as_os_str().as_bytes());
            for below in ["", ".git/HEAD", ".git/index", ".git/logs/HEAD"] {
                let stat = by_path::stat(&layer.join(below)).ok().flatten();
                let known = stat.map(|stat| format!("{} {} {:?}", stat.ino, stat.size, stat.ctime));
                hasher.update(known.unwrap_or_default().as_bytes());
                hasher.update(b"\0");
            }
        }
        format!("union-{}", hasher.finish().expect("a checksum looks for no collisions"))
    }
}

/// The forms of the upper layers of unions, by their names in records.
const FORMS: [(Form, &str); 3] =
    [(Form::Trusted, "overlay"), (Form::User, "overlay-user"), (Form::UnionFs, "unionfs-fuse")];

fn overlay(dir: PathBuf, mount: &Mount) -> Result<Union, Error> {
    let upper = mount.upper_layer().ok_or_else(|| Error::ReadOnly(dir.clone()))?;
    let form = if mount.has_option("userxattr") { Form::User } else { Form::Trusted };
    Ok(Union { dir, upper, lower: mount.lower_layers(), form, served_by: None })
}

/// Finds the process that serves the mount, and reads the layers from its command line. The process
/// of an earlier mount at this place may still be ending.
fn unionfs(dir: &Path) -> Result<Union, Error> {
    const TRIES: u32 = 50;
    for _ in 0..TRIES {
        match &servers(dir)?[..] {
            [] => break,
            [(pid, words)] => return of_command_line(dir, *pid, words),
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    Err(Error::NoProcess(dir.to_owned()))
}

/// Returns the processes of unionfs-fuse whose command line names the mount point.
fn servers(dir: &Path) -> Result<Vec<(u32, Vec<OsString>)>, Error> {
    let ids = sys::namespace::process_ids().map_err(|source| Error::Io {
        action: "read",
        path: "/proc".into(),
        source,
    })?;
    let is_server = |words: &[OsString]| {
        let name = words.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
        let is_point = |word: &OsString| {
            let path = Path::new(word);
            path.is_absolute() && by_path::canonical(path).is_ok_and(|at| at == dir)
        };
        (name == "unionfs-fuse" || name == "unionfs") && words.iter().any(is_point)
    };
    // Another user could start a process with any name and words.
    let users = [0, sys::user::effective_uid()];
    let is_trusted = |pid: &u32| {
        let stat = by_path::stat(Path::new(&format!("/proc/{pid}")));
        matches!(stat, Ok(Some(stat)) if users.contains(&stat.uid))
    };
    let ids = ids.into_iter().filter(is_trusted);
    let found = ids.filter_map(|pid| Some((pid, command_line(pid)?)));
    Ok(found.filter(|(_, words)| is_server(words)).collect())
}

fn of_command_line(dir: &Path, pid: u32, words: &[OsString]) -> Result<Union, Error> {
    if !words.iter().any(|word| word.as_bytes().contains_str("hide_meta_files")) {
        return Err(Error::ShowsMetadata(dir.to_owned()));
    }
    let process = Process::of(pid).ok().flatten().ok_or_else(|| Error::NoProcess(dir.to_owned()))?;
    let branches = words.iter().find(|word| word.as_bytes().contains_str("=RW"));
    let branches = branches.ok_or_else(|| Error::ReadOnly(dir.to_owned()))?;
    let mut layers = Vec::new();
    for (number, branch) in branches.as_bytes().split_str(":").enumerate() {
        let writable = branch.strip_suffix(b"=RW");
        // A second writable branch takes changes too.
        if writable.is_some() != (number == 0) {
            return Err(Error::NoUnion(dir.to_owned()));
        }
        let path = writable.or_else(|| branch.strip_suffix(b"=RO")).unwrap_or(branch);
        layers.push(PathBuf::from(sys::os_str(path)));
    }
    let upper = layers.remove(0);
    let served_by = Some(Server { pid, start: process.start, mount: mount_of(dir) });
    Ok(Union { dir: dir.to_owned(), upper, lower: layers, form: Form::UnionFs, served_by })
}

/// Returns the identity of the mount at `dir`; `None` before Linux 6.8.
fn mount_of(dir: &Path) -> Option<u64> {
    sys::unique_mount(by_path::open(dir).ok()?, c"").ok().map(|mount| mount.id)
}

/// Returns the words of a process's command line.
fn command_line(pid: u32) -> Option<Vec<OsString>> {
    let bytes = by_path::read(Path::new(&format!("/proc/{pid}/cmdline"))).ok()??;
    Some(bytes.split(|byte| *byte == 0).map(|word| sys::os_str(word).to_owned()).collect())
}
