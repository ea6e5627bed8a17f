//! `FETCH_HEAD`: the refs of the last fetch, starting with those to merge.
//!
//! Format: git-fetch(1), "OUTPUT"; a line is `<object> TAB [not-for-merge] TAB <description>`.

use std::{io, io::Write as _, path::PathBuf};

use bstr::{BStr, BString, ByteSlice};
use repo::Repository;
use sys::by_path;

use super::map::{Mapping, Merge};

/// The file `FETCH_HEAD` of a repository.
#[derive(Clone, Debug)]
pub struct FetchHead {
    path: PathBuf,
    display: PathBuf,
    shared: store::SharedRepository,
}

/// `FETCH_HEAD` cannot be written. The message is Git's.
#[derive(Debug, thiserror::Error)]
#[error("cannot open '{}': {}", .path.display(), sys::reason(.source))]
pub struct Error {
    /// The file's path as Git prints it.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

impl FetchHead {
    /// Returns the `FETCH_HEAD` of a repository. Does not create the file.
    pub fn of(repo: &Repository, shared: store::SharedRepository) -> FetchHead {
        let path = repo.git_dir().join("FETCH_HEAD");
        let display = if repo.git_dir() == repo.common_dir() {
            repo.display_common_file("FETCH_HEAD")
        } else {
            path.clone()
        };
        FetchHead { path, display, shared }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error { path: self.display.clone(), source }
    }

    /// Truncates the file to zero bytes, or creates it.
    pub fn truncate(&self) -> Result<(), Error> {
        let opened = match by_path::open_to_rewrite(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.shared.create_new(&self.path, 0o666).map(drop)
            }
            opened => opened.map(drop),
        };
        opened.map_err(|source| self.failed(source))
    }

    /// Appends lines.
    pub fn append(&self, lines: &[u8]) -> Result<(), Error> {
        let written = by_path::append(&self.path, true, 0o666).and_then(|mut file| file.write_all(lines));
        written.map_err(|source| self.failed(source))
    }
}

/// Returns the line of a ref. `url` is the URL as shown to users.
pub fn line(mapping: &Mapping, url: &BStr) -> BString {
    let note = match mapping.merge {
        Merge::Merged => "",
        Merge::NotMerged => "not-for-merge",
        Merge::Ignored => return BString::default(),
    };
    let (kind, name) = describe(mapping.name.as_bstr());
    let mut line = BString::from(format!("{}\t{note}\t", mapping.oid));
    if !name.is_empty() {
        if !kind.is_empty() {
            line.extend_from_slice(kind.as_bytes());
            line.push(b' ');
        }
        line.extend_from_slice(&[b"'", name.as_bytes(), b"' of "].concat());
    }
    line.extend_from_slice(&url.replace(b"\n", b"\\n"));
    line.push(b'\n');
    line
}

/// Returns the kind of a remote ref (`branch`, `tag` or others), and its short name.
pub fn describe(name: &BStr) -> (&'static str, &BStr) {
    if name == "HEAD" {
        return ("", "".into());
    }
    let kinds =
        [("refs/heads/", "branch"), ("refs/tags/", "tag"), ("refs/remotes/", "remote-tracking branch")];
    let short =
        |(before, kind): (&str, &'static str)| Some((kind, name.strip_prefix(before.as_bytes())?.as_bstr()));
    kinds.into_iter().find_map(short).unwrap_or(("", name))
}
