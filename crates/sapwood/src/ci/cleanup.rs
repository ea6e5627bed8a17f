//! Removes the credentials that [`super::checkout`] has kept for a job.
//!
//! Order: the files with secrets, then the lines that include them, in the repository and in its
//! submodules. A clean-up that was killed is completed by the next one, and a checkout in the same
//! directory begins with one. Other settings and files are not touched.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use sys::{FileType, by_path};

use super::{credentials, directory::cannot, inherited};
use crate::{Error, PlanError, RunError};

/// The worktree to clean up.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The worktree, absolute.
    pub dir: PathBuf,
    /// The directory for secrets of the runner. Without one, credentials are removed wherever they
    /// are: a user calls.
    pub secrets: Option<PathBuf>,
}

/// The credentials that will be removed.
#[derive(Debug, Default)]
pub struct Plan {
    /// The files with secrets.
    files: Vec<BString>,
    /// Files of killed checkouts that no configuration includes.
    abandoned: Vec<PathBuf>,
    /// The configuration files that include some.
    configs: Vec<PathBuf>,
    /// The configuration files that cannot be read.
    failures: Vec<Error>,
    /// The directory for secrets, if it cannot be read.
    unread: Option<Error>,
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
    /// An error for each file of a killed checkout that stays in the directory for secrets.
    pub abandoned: Vec<Error>,
}

impl Report {
    /// Returns the first failure in the repository as an error.
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
    // A job can include the credentials of another one that runs.
    if let Some(secrets) = &request.secrets {
        let is_here = |file: &BString| {
            let dir = Path::new(sys::os_str(file.as_bstr())).parent().map(by_path::realpath_forgiving);
            let places = git_dirs.iter().chain([secrets]);
            dir.is_some_and(|dir| {
                places.map(|place| by_path::realpath_forgiving(place)).any(|place| place == dir)
            })
        };
        plan.files.retain(is_here);
    }
    match git_dirs.first().map(|top| credentials::left_in(top)) {
        Some(Ok(left)) => plan.files.extend(left),
        Some(Err(error)) => plan.failures.push(error),
        None => {}
    }
    match request.secrets.as_deref().map(credentials::abandoned_in) {
        Some(Ok(abandoned)) => plan.abandoned = abandoned,
        Some(Err(error)) => plan.unread = Some(error),
        None => {}
    }
    Ok(plan)
}

impl Plan {
    /// Removes them. A failure is noted, and the rest is removed all the same.
    pub fn run(self) -> Result<Report, RunError> {
        let abandoned = self.unread.into_iter().collect();
        let mut report = Report { failures: self.failures, abandoned, ..Report::default() };
        for file in &self.files {
            match credentials::remove(file.as_bstr()) {
                Ok(removed) => report.files += removed,
                Err(error) => report.failures.push(error),
            }
        }
        for file in &self.abandoned {
            match by_path::remove_file(file) {
                Ok(()) => report.files += 1,
                // It lay beside a file of credentials.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => report.abandoned.push(cannot("remove", file)(error)),
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
        // A job may have put a link there.
        let stat = by_path::stat(&dir).map_err(cannot("examine", &dir))?;
        if !stat.is_some_and(|stat| stat.file_type == FileType::Directory) {
            continue;
        }
        let dirs = inherited::entries(&dir)?.into_iter().filter(|(_, kind)| *kind == FileType::Directory);
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
