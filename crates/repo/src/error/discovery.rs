//! Errors of finding a repository, and of its format.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use format::shell;

/// A directory or `.git` file does not lead to a repository that may be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// Discovery reached the root, or a directory of `GIT_CEILING_DIRECTORIES`.
    #[error("not a git repository (or any of the parent directories): .git")]
    NotFound,
    /// Discovery reached this mount point.
    #[error(
        "not a git repository (or any parent up to mount point {0})\n\
         Stopping at filesystem boundary (GIT_DISCOVERY_ACROSS_FILESYSTEM not set)."
    )]
    MountPoint(PathBuf),
    /// `GIT_DIR` or `--git-dir` names this path, which is not a repository.
    #[error("not a git repository: '{0}'")]
    NotARepository(PathBuf),
    /// A `.git` file names this path, which is not a repository.
    #[error("not a git repository: {0}")]
    GitfileTarget(PathBuf),
    /// This directory `.git` is not a repository.
    #[error("'{0}' not recognized as a git repository")]
    NotRecognized(PathBuf),
    /// `.git` is neither a directory nor a regular file.
    #[error("not a regular file: '{0}'")]
    NotAFile(PathBuf),
    /// The `.git` file is larger than 1 MiB.
    #[error("too large to be a .git file: '{0}'")]
    GitfileTooLarge(PathBuf),
    /// The `.git` file does not begin with `gitdir: `.
    #[error("invalid gitfile format: {0}")]
    GitfileFormat(PathBuf),
    /// The `.git` file names no path.
    #[error("no path in gitfile: {0}")]
    GitfileWithoutPath(PathBuf),
    /// The value of `GIT_DIR` is too long.
    #[error("'$GIT_DIR' too big")]
    GitDirTooLong,
    /// The file `commondir` is empty.
    #[error("failed to read {0}")]
    EmptyCommonDir(PathBuf),
    /// Another user owns the repository, and `safe.directory` does not name it.
    #[error(
        "detected dubious ownership in repository at '{0}'\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {quoted}",
        quoted = shell::quote_pretty(.0.as_os_str().as_bytes().as_bstr())
    )]
    DubiousOwner(PathBuf),
    /// Another user could change a directory or file that is no repository, and `safe.directory`
    /// does not name it.
    #[error(
        "detected dubious ownership in '{}': {}\n\
         To add an exception for this directory, call:\n\n\
         \tgit config --global --add safe.directory {quoted}",
        .dir.display(), .foreign.of(.part),
        quoted = shell::quote_pretty(.declared.as_os_str().as_bytes().as_bstr())
    )]
    Foreign {
        /// The directory or file.
        dir: PathBuf,
        /// The file, link or directory that another user could change.
        part: PathBuf,
        /// The reason.
        foreign: Foreign,
        /// The value for `safe.directory` that allows it.
        declared: PathBuf,
    },
    /// `safe.bareRepository` forbids a bare repository that is found by discovery.
    #[error("cannot use bare repository '{0}' (safe.bareRepository is 'explicit')")]
    BareForbidden(PathBuf),
}

/// The reason why another user could change a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// This user owns it.
    Owner(u32),
    /// This user made a symbolic link.
    Link(u32),
    /// Others than its owner may write there.
    Writable,
}

impl Foreign {
    fn of(self, part: &Path) -> String {
        let part = part.display();
        match self {
            Foreign::Owner(id) => format!("'{part}' belongs to the user {id}"),
            Foreign::Link(id) => format!("the link '{part}' belongs to the user {id}"),
            Foreign::Writable => format!("other users may write to '{part}'"),
        }
    }
}

/// `core.repositoryFormatVersion` or an extension is not supported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The version is newer than 1.
    #[error("Expected git repo version <= 1, found {0}")]
    Version(i32),
    /// A repository of version 1 has these extensions, which Git does not know.
    #[error("{}", listed("unknown repository extension", .0))]
    UnknownExtensions(Vec<BString>),
    /// A repository of version 0 has these extensions, which need version 1.
    #[error("{}", listed("repo version is 0, but v1-only extension", .0))]
    Version1Extensions(Vec<BString>),
    /// `extensions.refStorage` has this value.
    #[error("ref storage format '{0}' is not supported")]
    RefStorage(BString),
    /// `extensions.compatObjectFormat` is set.
    #[error("extensions.compatObjectFormat is not supported")]
    CompatibleHash,
    /// The file of grafts exists: Git reads other parents than those that the commits name.
    #[error(
        "'{}' is not supported by sapwood; 'git replace --convert-graft-file' makes replacements of it", .0.display()
    )]
    Grafts(PathBuf),
}

fn listed(what: &str, names: &[BString]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    let names: String = names.iter().map(|name| format!("\n\t{name}")).collect();
    format!("{what}{plural} found:{names}")
}
