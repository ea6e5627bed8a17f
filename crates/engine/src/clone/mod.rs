//! Clone: `source -> skeleton -> objects -> refs -> worktree -> publish`.
//!
//! Promise: the result is that of `git clone`. At every moment the new Git directory is a
//! repository that opens and passes `git fsck`: it appears whole (`skeleton`), its objects appear
//! all at once (`objects`), and refs only after them (`refs`). Each stage is a type that is made
//! from the stage before it (`run`).
//!
//! With a [`Seed`], the base of a commit comes before the objects of the server, which then sends
//! what is newer (`ahead`).
//!
//! On failure or interruption every created file is removed (`junk`), unless much came of a
//! transfer that broke off (`salvage`). After [`Prepared::run`] has returned, the clone is kept.
//! The caller fills its worktree and publishes it. Running the command again resumes a clone that
//! was killed, and one whose transfer broke off (`resume`).
//!
//! Nothing is printed: [`Event`]s report what Git would print, in Git's order.

mod ahead;
mod alternates;
mod assembly;
mod channel;
mod configured;
mod decisions;
mod destination;
mod error;
mod filter;
pub mod init;
mod junk;
mod local;
mod marker;
mod naming;
mod objects;
mod options;
mod packs;
mod pipeline;
mod refs;
mod resume;
mod run;
mod salvage;
mod select;
mod server;
mod settings;
mod skeleton;
mod source;

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice};
use format::ObjectId;
use sys::by_path;

use repo::keys;

use crate::{checkout::Force, fetch::bundle_file::BundleFile};
use destination::Destination;

pub use alternates::{Error as AlternatesError, check_reference};
pub use error::Error;
pub use filter::{Error as FilterError, Filter};
pub use local::Error as LocalError;
pub use marker::{Error as ResumeError, is_ours};
pub use objects::Error as ObjectsError;
pub use options::{Brought, Caller, Event, HelperCommand, Options, Reference, Seed, Tracer, Unseeded};
pub use pipeline::Staged;
pub use refs::Error as RefsError;
pub use select::Error as SelectionError;
pub use settings::BadParameter;
pub use skeleton::Error as SkeletonError;
pub use source::{Error as SourceError, Kind, Source};

/// Returns true if a bundle can be read and contains its whole history.
pub fn is_complete_bundle(path: &Path) -> bool {
    BundleFile::open(path).is_ok_and(|bundle| bundle.header().prerequisites.is_empty())
}

/// Returns true if a clone supports this value of `remote.<name>.fetch`.
pub fn supports_refspec(refspec: &BStr) -> bool {
    select::Refspec::parse(refspec).is_ok()
}

/// A clone whose source and destination are checked. Nothing has been changed yet.
#[derive(Clone, Debug)]
pub struct Prepared {
    options: Options,
    source: Source,
    destination: Destination,
}

/// A clone that lacks its worktree.
#[derive(Debug)]
pub struct Cloned {
    /// The new Git directory, absolute.
    pub git_dir: PathBuf,
    /// `None` for a bare clone.
    pub work_tree: Option<PathBuf>,
    /// The work left for the worktree.
    pub worktree: Worktree,
    /// The treatment of files in the way. In a new clone they are the user's; in a resumed one they
    /// may be remnants of the killed clone.
    pub force: Force,
    /// The settings with which the new repository was opened. `None` for a resumed clone.
    pub settings: Option<repo::Settings>,
    /// Files of the worktree that were written while the objects arrived.
    pub staged: Option<Staged>,
    /// The lock of the clone: no other process resumes it until this value is dropped.
    claim: Option<marker::Claim>,
}

impl Cloned {
    /// Returns the rest of a clone whose linked worktree `work_tree` was not filled to its end.
    /// `git_dir` is the worktree's administrative directory.
    pub fn unfilled(git_dir: PathBuf, work_tree: PathBuf, worktree: Worktree) -> Cloned {
        let (work_tree, force) = (Some(work_tree), Force::Remnants);
        Cloned { git_dir, work_tree, worktree, force, settings: None, staged: None, claim: None }
    }

    /// Publishes a clone whose worktree is complete: removes the marker, so that the same command
    /// does not resume it any more.
    pub fn publish(self) -> Result<(), Error> {
        let Cloned { git_dir, claim, .. } = self;
        marker::unmark(&git_dir).map_err(error::io_error("finish", &git_dir))?;
        drop(claim);
        Ok(())
    }
}

/// The work left for the worktree of a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worktree {
    /// None: the clone is bare, `--no-checkout` was given, or the source is empty.
    None,
    /// `warning: remote HEAD refers to nonexistent ref, unable to checkout`
    Nonexistent,
    /// HEAD is on a branch at this commit: check it out.
    Branch(ObjectId),
    /// HEAD is detached: check it out, with advice.
    Detached(ObjectId),
}

/// Examines the source and the destination. Changes nothing.
pub fn prepare(mut options: Options) -> Result<Prepared, Error> {
    if options.mirror {
        options.bare = true;
        options.no_tags = true;
    }
    if options.bare {
        options.no_checkout = true;
    }
    let source = source::locate(options.source.as_bstr(), &logical_directory(&options.open))?;
    if let Some(depth) = &options.depth {
        let digits = depth.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if depth[..digits].iter().all(|&byte| byte == b'0') {
            return Err(Error::Depth(depth.clone()));
        }
    }
    let destination = Destination::find(&options, &source)?;
    if let Err(error) = repo::check_committer_date(&options.open.env)
        && will_have_reflogs(&options)?
    {
        return Err(error.into());
    }
    Ok(Prepared { options, source, destination })
}

/// Returns true if the clone will have reflogs (`core.logAllRefUpdates`).
fn will_have_reflogs(options: &Options) -> Result<bool, Error> {
    let value = match options.parameter(keys::core::LOG_ALL_REF_UPDATES.name()) {
        Some(value) => Some(value),
        None => repo::StandaloneConfig::load(&options.open)?.config_str(&keys::core::LOG_ALL_REF_UPDATES),
    };
    Ok(match value {
        Some(value) => repo::parse_bool(Some(value.as_bstr())) != Some(false),
        None => !options.bare,
    })
}

/// Returns the current directory as the user sees it: `PWD`, if that names the same directory.
fn logical_directory(open: &repo::OpenOptions) -> PathBuf {
    let is_cwd = |path: &Path| {
        let [seen, real] = [path, &open.cwd].map(|path| by_path::stat_followed(path).ok().flatten());
        matches!((seen, real), (Some(seen), Some(real)) if (seen.dev, seen.ino) == (real.dev, real.ino))
    };
    let named = open.env.get(std::ffi::OsStr::new("PWD")).map(PathBuf::from);
    named.filter(|path| path.is_absolute() && is_cwd(path)).unwrap_or_else(|| open.cwd.clone())
}

impl Prepared {
    /// Returns the counters of a pack that is received.
    pub fn receiving(&self) -> &repo::pack_indexing::Meter {
        &self.options.receiving
    }

    /// Returns the source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the settings for the new repository (`--config`).
    pub fn config(&self) -> &[BString] {
        &self.options.config
    }

    /// Returns the destination as the user wrote it, or as it was guessed.
    pub fn directory(&self) -> &BStr {
        self.destination.directory.as_bstr()
    }

    /// Returns the absolute path of the future Git directory.
    pub fn git_dir(&self) -> &Path {
        &self.destination.git_dir
    }

    /// Returns the name of the new remote, from the options and the configuration.
    pub fn remote(&self, outside: &repo::StandaloneConfig) -> BString {
        let key = keys::clone::DEFAULT_REMOTE_NAME;
        let given = self.options.origin.clone().or_else(|| self.options.parameter(key.name()));
        given.unwrap_or_else(|| outside.config_text(&key))
    }

    /// Returns true if a killed clone is here that lacks only its worktree.
    pub fn lacks_only_worktree(&self) -> bool {
        self.destination.point == resume::Point::Worktree
    }

    /// Returns the absolute path of the future worktree, or `None` for a bare clone.
    pub fn work_tree(&self) -> Option<&Path> {
        self.destination.work_tree.as_deref()
    }
}
