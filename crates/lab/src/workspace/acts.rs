//! The work of an editor and of a build, as measurable programs.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::Error;

/// Work in a worktree.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Act {
    /// Append a line to `count` files of a list, after the first `skip` ones.
    Edit { list: PathBuf, skip: usize, count: usize },
    /// Replace `count` files of a list, after the first `skip` ones, as an editor does: write a new
    /// file, and rename it.
    Replace { list: PathBuf, skip: usize, count: usize },
    /// Write `count` files of a list, after the first `skip` ones.
    Build { list: PathBuf, skip: usize, count: usize },
    /// Call `lstat` for `count` files of a list, after the first `skip` ones.
    Stat { list: PathBuf, skip: usize, count: usize },
    /// Read `count` files of a list, after the first `skip` ones.
    Read { list: PathBuf, skip: usize, count: usize },
}

/// The size in bytes of a file that a build writes.
const PRODUCT: usize = 2000;

/// Does the work in the current directory.
pub(crate) fn act(act: &Act) -> Result<ExitCode, Error> {
    let (Act::Edit { list, skip, count }
    | Act::Replace { list, skip, count }
    | Act::Build { list, skip, count }
    | Act::Stat { list, skip, count }
    | Act::Read { list, skip, count }) = act;
    let content = [b'o'; PRODUCT];
    for path in lines(list)?.iter().skip(*skip).take(*count) {
        let done = match act {
            Act::Edit { .. } => {
                let opened = fs::OpenOptions::new().append(true).open(path);
                opened.and_then(|mut file| file.write_all(b"changed\n"))
            }
            Act::Replace { .. } => replace(path),
            Act::Build { .. } => fs::write(path, content),
            Act::Stat { .. } => fs::symlink_metadata(path).map(drop),
            Act::Read { .. } => fs::read(path).map(drop),
        };
        done.map_err(|source| Error::Io { what: "cannot work on", path: path.clone(), source })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn replace(path: &Path) -> std::io::Result<()> {
    let mut content = fs::read(path)?;
    content.extend_from_slice(b"changed\n");
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    fs::write(&new, content)?;
    fs::rename(new, path)
}

fn lines(list: &Path) -> Result<Vec<PathBuf>, Error> {
    let text = fs::read_to_string(list).map_err(|source| Error::Io {
        what: "cannot read",
        path: list.to_owned(),
        source,
    })?;
    Ok(text.lines().map(PathBuf::from).collect())
}
