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
#[derive(Debug, Default)]
pub struct Plan {
    /// The files with secrets.
    files: Vec<BString>,
    /// The configuration files that include some.
    configs: Vec<PathBuf>,
    /// The configuration files that cannot be read.
    failures: Vec<Error>,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of files with secrets that were removed.
    pub files: usize,
    /// The number of configuration files that no longer include one.
    pub configs: usize,
    /// An error for each file that was not removed or changed.
    pub failures: Vec<Error>,
}

impl Report {
    /// Returns the first failure as an error.
    pub(super) fn complete(self) -> Result<(), Error> {
        self.failures.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Looks for credentials. A directory without a repository has none.
pub fn plan(request: Request) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let git_dirs = git_dirs(&request.dir)?;
    // One file that cannot be read hides no secret in the others.
    for path in git_dirs.iter().map(|git_dir| git_dir.join("config")) {
        match credentials::included(&path) {
            Ok(included) if included.is_empty() => {}
            Ok(included) => {
                plan.files.extend(included);
                plan.configs.push(path);
            }
            Err(error) => plan.failures.push(error),
        }
    }
    match git_dirs.first().map(|top| credentials::left_in(top)) {
        Some(Ok(left)) => plan.files.extend(left),
        Some(Err(error)) => plan.failures.push(error),
        None => {}
    }
    Ok(plan)
}

impl Plan {
    /// Removes them. A failure is noted, and the rest is removed all the same.
    pub fn run(self) -> Result<Report, RunError> {
        let mut report = Report { failures: self.failures, ..Report::default() };
        for file in &self.files {
            match credentials::remove(file.as_bstr()) {
                Ok(removed) => report.files += removed,
                Err(error) => report.failures.push(error),
            }
        }
        for path in &self.configs {
            match credentials::exclude(path) {
                Ok(()) => report.configs += 1,
                Err(error) => report.failures.push(error),
            }
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
