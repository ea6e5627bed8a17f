//! Removes the credentials that [`super::checkout`] has kept for a job.
//!
//! Order: the files with secrets, then the lines that include them, in the repository and in its
//! submodules. A clean-up that was killed is completed by the next one, and a checkout in the same
//! directory begins with one. Other settings and files are not touched.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice as _};
use sys::{FileType, by_path};

use super::{credentials, directory::cannot};
use crate::{Error, PlanError, RunError};

/// The worktree to clean up.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The worktree, absolute.
    pub dir: PathBuf,
}

/// The credentials that will be removed.
#[derive(Debug)]
pub struct Plan {
    /// The configuration files, and the files of credentials that each includes.
    configs: Vec<(PathBuf, Vec<BString>)>,
}

/// The result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of files with secrets that were removed.
    pub files: usize,
    /// The number of configuration files that no longer include one.
    pub configs: usize,
}

/// Looks for credentials. A directory without a repository has none.
pub fn plan(request: Request) -> Result<Plan, PlanError> {
    let mut configs = Vec::new();
    for git_dir in git_dirs(&request.dir)? {
        let path = git_dir.join("config");
        let included = credentials::included(&path)?;
        if !included.is_empty() {
            configs.push((path, included));
        }
    }
    Ok(Plan { configs })
}

impl Plan {
    /// Removes them.
    pub fn run(self) -> Result<Report, RunError> {
        let mut report = Report::default();
        for file in self.configs.iter().flat_map(|(_, included)| included) {
            report.files += usize::from(credentials::remove(file.as_bstr())?);
        }
        for (path, _) in self.configs {
            credentials::exclude(&path)?;
            report.configs += 1;
        }
        Ok(report)
    }
}

/// Returns the Git directories of a worktree and of its submodules.
pub(super) fn git_dirs(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let top = dir.join(".git");
    let stat = by_path::stat(&top).map_err(cannot("examine", &top))?;
    if !stat.is_some_and(|stat| stat.file_type == FileType::Directory) {
        return Ok(Vec::new());
    }
    let mut found = vec![top.clone()];
    let mut pending = vec![top.join("modules")];
    while let Some(dir) = pending.pop() {
        let entries = match by_path::list(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(cannot("read", &dir)(error)),
        };
        let dirs = entries.into_iter().filter(|(_, kind)| *kind == FileType::Directory);
        for inner in dirs.map(|(name, _)| dir.join(name)) {
            // The name of a submodule may have slashes.
            if by_path::stat(&inner.join("HEAD")).map_err(cannot("examine", &inner))?.is_some() {
                pending.push(inner.join("modules"));
                found.push(inner);
            } else {
                pending.push(inner);
            }
        }
    }
    Ok(found)
}
