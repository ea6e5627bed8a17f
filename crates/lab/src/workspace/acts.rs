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
    /// Write the files of a list.
    Build { list: PathBuf },
}

/// The size in bytes of a file that a build writes.
const PRODUCT: usize = 2000;

/// Does the work in the current directory.
pub(crate) fn act(act: &Act) -> Result<ExitCode, Error> {
    match act {
        Act::Edit { list, skip, count } => {
            for path in lines(list)?.iter().skip(*skip).take(*count) {
                let opened = fs::OpenOptions::new().append(true).open(path);
                let written = opened.and_then(|mut file| file.write_all(b"changed\n"));
                written.map_err(|source| Error::Io { what: "cannot change", path: path.clone(), source })?;
            }
        }
        Act::Build { list } => {
            let content = [b'o'; PRODUCT];
            for path in lines(list)? {
                fs::write(&path, content).map_err(|source| Error::Io {
                    what: "cannot write",
                    path,
                    source,
                })?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(list: &Path) -> Result<Vec<PathBuf>, Error> {
    let text = fs::read_to_string(list).map_err(|source| Error::Io {
        what: "cannot read",
        path: list.to_owned(),
        source,
    })?;
    Ok(text.lines().map(PathBuf::from).collect())
}
