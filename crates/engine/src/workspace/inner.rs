//! Submodules of a workspace that are mounted inside it: each is an overlay on a base of its own.
//!
//! `submodules/<number>/` beside the upper layer of the workspace holds the record, the upper and
//! the work directory of one of them, and the marker of its mount. The repository of the submodule
//! is below the administrative directory of the workspace, as Git has it. A submodule comes before
//! those inside it.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use format::{HashKind, ObjectId, config::Edit};
use store::{Fsync, LockOptions};
use sys::{FileType, by_path};

use super::{
    backend::{Layers, Site},
    base::Base,
    record::{BaseRef, Durability, Error, Workspace},
};

const SECTION: &str = "submodule";

/// A submodule that is mounted inside a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Its path in the workspace.
    pub path: BString,
    /// Its base.
    pub base: BaseRef,
    /// The commit of the base.
    pub commit: ObjectId,
    /// The repository that has the objects of the base: that of the main worktree's submodule.
    pub source: PathBuf,
    /// The directory with its layers.
    pub dir: PathBuf,
}

/// Returns the directory with the submodules of a workspace.
fn directory(workspace: &Workspace) -> PathBuf {
    workspace.upper().with_file_name("submodules")
}

impl Inner {
    /// Returns the submodules of a workspace, those that contain others first.
    pub fn all(workspace: &Workspace) -> Result<Vec<Inner>, Error> {
        let dir = directory(workspace);
        let names = match by_path::list(&dir) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { action: "read", path: dir, source }),
        };
        let mut numbers: Vec<u32> =
            names.iter().filter_map(|(name, _)| name.to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        let read = |number: u32| Inner::read(dir.join(number.to_string())).transpose();
        numbers.into_iter().filter_map(read).collect()
    }

    fn read(dir: PathBuf) -> Result<Option<Inner>, Error> {
        let path = dir.join("record");
        let Some(pairs) = repo::settings_in(&path)? else { return Ok(None) };
        let one = |key: &str| {
            let wanted = format!("{SECTION}.{key}");
            pairs.iter().find(|(found, _)| *found == wanted).map(|(_, value)| value)
        };
        let place = |key: &str| one(key).map(|value| PathBuf::from(sys::os_str(value)));
        let commit = one("commit").and_then(|text| {
            [HashKind::Sha1, HashKind::Sha256].into_iter().find_map(|kind| ObjectId::from_hex(kind, text))
        });
        let parts = (one("path"), place("basedir"), one("base"), commit, place("source"));
        let (Some(inner), Some(base_dir), Some(base), Some(commit), Some(source)) = parts else {
            return Err(Error::Damaged { path, what: "it is incomplete".to_owned() });
        };
        let base = BaseRef { dir: base_dir, name: base.to_string() };
        Ok(Some(Inner { path: inner.clone(), base, commit, source, dir }))
    }

    /// Adds a submodule to a workspace, with an empty upper layer. `dir` of the submodule is
    /// replaced by the next free one.
    pub fn add(mut self, workspace: &Workspace, fsync: &Fsync) -> Result<Inner, Error> {
        let all = directory(workspace);
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        by_path::create_dir_all(&all).map_err(io("create", &all))?;
        let last = by_path::list(&all).map_err(io("read", &all))?;
        let last = last.iter().filter_map(|(name, _)| name.to_str()?.parse::<u32>().ok()).max();
        self.dir = all.join(last.map_or(0, |last| last + 1).to_string());
        for dir in [self.dir.clone(), self.dir.join("upper"), self.dir.join("work")] {
            by_path::create_dir(&dir).map_err(io("create", &dir))?;
        }
        let bytes = |path: &Path| BString::from(path.as_os_str().as_bytes());
        let values = [
            ("path", self.path.clone()),
            ("baseDir", bytes(&self.base.dir)),
            ("base", self.base.name.as_str().into()),
            ("commit", self.commit.to_string().into()),
            ("source", bytes(&self.source)),
        ];
        let edit =
            |(key, value): (&str, BString)| Edit::Add { key: format!("{SECTION}.{key}").into(), value };
        let edits = values.map(edit);
        let content = |_| format::config::edit(b"", &edits).map_err(store::config::Error::Key);
        store::config::rewrite(&self.dir.join("record"), &LockOptions::default(), fsync, content)?;
        Ok(self)
    }

    /// Removes the record and the layers of a submodule that is not mounted.
    pub fn forget(&self) {
        let _ = by_path::set_mode(&self.dir.join("work").join("work"), 0o700);
        let _ = by_path::remove_dir_all(&self.dir);
    }

    /// Returns its directory in the workspace: the mount point.
    pub fn top(&self, workspace: &Workspace) -> PathBuf {
        workspace.record.dir.join(sys::os_str(&self.path))
    }

    /// Returns true if the workspace has a directory for it, and no part of its path leads
    /// elsewhere.
    pub fn has_place(&self, workspace: &Workspace) -> bool {
        let ends = self.path.find_iter("/").chain([self.path.len()]);
        ends.map(|end| workspace.record.dir.join(sys::os_str(&self.path[..end])))
            .all(|dir| matches!(by_path::stat(&dir), Ok(Some(stat)) if stat.file_type == FileType::Directory))
    }

    /// Returns its directories.
    pub fn site(&self, workspace: &Workspace) -> Site {
        Site {
            upper: self.dir.join("upper"),
            work: self.dir.join("work"),
            top: self.top(workspace),
            state: self.dir.clone(),
            git: None,
            door: workspace.record.door.clone(),
        }
    }

    /// Returns its layers on `base`.
    pub fn layers(&self, workspace: &Workspace, base: Base, durability: Durability) -> Layers {
        Layers { base, frozen: Vec::new(), site: self.site(workspace), durability }
    }
}
