//! A new, empty repository.
//!
//! Promise: the Git directory appears whole or not at all, as that of a clone. Directories of the
//! path that were created stay after a failure, as with Git.
//!
//! Order: the directory, the skeleton beside its path, the rename.

use std::path::{Path, PathBuf};

use bstr::BStr;
use repo::keys;
use sys::by_path;

use super::{
    junk::{Existed, Junk},
    skeleton::{self, Purpose, Template, Wanted},
};
use crate::look::shared;

/// The description of the repository.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Options<'a> {
    /// The worktree, or the Git directory of a bare repository; absolute.
    pub directory: &'a Path,
    pub bare: bool,
    /// The full name of the first branch.
    pub branch: &'a BStr,
    /// The directory of templates, and the path as messages name it.
    pub template: Option<(&'a Path, &'a Path)>,
    pub open: &'a repo::OpenOptions,
    /// The sync policy.
    pub fsync: &'a store::Fsync,
}

/// Creates the repository. Returns its Git directory, without symbolic links.
pub fn create(options: &Options<'_>) -> Result<PathBuf, skeleton::Error> {
    let Options { directory, bare, branch, template, open, fsync } = *options;
    let failed = |source| skeleton::Error::Io { what: "mkdir", path: directory.to_owned(), source };
    by_path::create_dir_all(directory).map_err(failed)?;
    let directory = by_path::canonical(directory).map_err(failed)?;
    let git_dir = if bare { directory.clone() } else { directory.join(".git") };
    // As in Git, `includeIf` does not apply while the template is copied.
    let settings = repo::StandaloneConfig::load(open)?;
    let wanted = Wanted {
        git_dir: &git_dir,
        existed: if bare { Existed::Yes } else { Existed::No },
        work_tree: (!bare).then_some(&*directory),
        name_work_tree: false,
        template: template.map(|(dir, given)| Template { dir, given, voice: open.message_sink }),
        config: &[],
        open,
        purpose: Purpose::Init { branch },
        fsync,
        shared: shared::of(settings.config_value(&keys::core::SHARED_REPOSITORY))?,
    };
    let assembly = wanted.assembly();
    let mut junk = Junk::default();
    let placed = |error: skeleton::Error| error.placed(&assembly, &git_dir);
    skeleton::begin(&assembly).map_err(placed)?;
    junk.add(&assembly, Existed::No);
    skeleton::create(&wanted, &assembly).map_err(placed)?;
    junk.keep();
    Ok(git_dir)
}
