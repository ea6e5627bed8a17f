//! Makes a new workspace durable before its creation is reported: the administrative directory, the
//! branch, the links and the directory. The syncs are made in parallel, so the disk combines their
//! flushes. The record and the base are durable before.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use bstr::ByteSlice as _;
use engine::workspace::record::Workspace;
use store::Fsync;
use sys::{FileType, by_path};

use crate::Error;

/// The files and directories to sync.
#[derive(Default)]
struct Wanted {
    files: Vec<PathBuf>,
    dirs: BTreeSet<PathBuf>,
}

impl Wanted {
    /// Adds a file, if it exists, and the directories from it up to `root`.
    fn file(&mut self, path: PathBuf, root: &Path) {
        if !matches!(by_path::stat(&path), Ok(Some(stat)) if stat.file_type == FileType::File) {
            return;
        }
        let above = path.ancestors().skip(1).take_while(|dir| dir.starts_with(root));
        self.dirs.extend(above.map(Path::to_owned));
        self.files.push(path);
    }

    /// Adds all files below a directory.
    fn below(&mut self, dir: &Path, root: &Path) {
        for (name, kind) in by_path::list(dir).unwrap_or_default() {
            match kind {
                FileType::Directory => self.below(&dir.join(name), root),
                _ => self.file(dir.join(name), root),
            }
        }
        self.dirs.insert(dir.to_owned());
    }
}

/// Makes a new workspace durable, unless the user turned syncs off.
pub fn persist(common: &Path, admin: &Path, workspace: &Workspace, fsync: Fsync) -> Result<(), Error> {
    let mut wanted = Wanted::default();
    wanted.below(admin, common);
    wanted.file(common.join("config"), common);
    let head = by_path::read(&admin.join("HEAD")).ok().flatten().unwrap_or_default();
    if let Some(branch) = head.strip_prefix(b"ref: ") {
        let branch = Path::new(sys::os_str(branch.trim_end()));
        wanted.file(common.join(branch), common);
        wanted.file(common.join("logs").join(branch), common);
    }
    wanted.file(workspace.upper().join(".git"), &workspace.upper());
    // The mount covers the directory of the workspace. The file `.git` in it can be written again.
    wanted.dirs.extend(workspace.record.dir.parent().map(Path::to_owned));
    let dirs: Vec<PathBuf> = wanted.dirs.into_iter().collect();
    store::refs::sync(&fsync.for_recording(), &wanted.files, &dirs)
        .map_err(|error| Error::failed(error.to_string()))
}
