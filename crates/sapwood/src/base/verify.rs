//! Reads a base at the remote as a host does that has nothing, and keeps nothing.
//!
//! Order: an empty repository and an empty base directory are made in the repository; the base is
//! pulled into them, which compares every file with its digest, and every object and content with
//! its id; both are removed.

use std::{fmt, path::PathBuf};

use base_store::Address;
use bstr::BString;
pub use engine::base_transfer::{Error as Flaw, pull::Report as Read};
use engine::{
    base_transfer::{self, pull},
    clone::init,
    workspace::base::Bases,
};
use format::{HashKind, ObjectId, config::Edit};
use repo::{OpenOptions, keys};
use store::Fsync;
use sys::by_path;

use super::{
    Access, Site,
    signature::Signers,
    site::{Shown, Wanted, cannot, own_name},
};
use crate::{BaseError, Context, Error, Events, PlanError, Repository, RunError, workspace::places};

/// The base to verify.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The address of the remote; `None` for that of `sapwood.baseRemote`.
    pub remote: Option<BString>,
    /// The commit; `None` for the newest of [`Request::branch`], else for HEAD's.
    pub commit: Option<BString>,
    /// The branch whose newest base is verified. A commit without a base gives way to it.
    pub branch: Option<BString>,
    /// Passed to [`Events::transferring`].
    pub progress: Option<bool>,
}

/// The result.
#[derive(Debug)]
pub struct Report {
    /// The commit.
    pub commit: ObjectId,
    /// The work that was done, or the flaw of the base.
    pub read: Result<Read, Flaw>,
}

/// A base that can be verified.
pub struct Plan<'r> {
    repository: &'r Repository,
    verify: Verify,
}

/// Finds the commit, if it is one of this repository. Contacts nobody.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let access = Access::from(repository);
    let verify = Verify::prepare(&access, repository.context(&crate::Silent), request)?;
    Ok(Plan { repository, verify })
}

impl Plan<'_> {
    /// Reads the base. A flaw of it is no error.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let access = Access::from(self.repository);
        Ok(self.verify.run(&access, self.repository.context(events))?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "verify {} at {}", self.verify.wanted, self.verify.address)
    }
}

/// A check that can run.
pub struct Verify {
    address: Address,
    wanted: Wanted,
    progress: Option<bool>,
}

impl Verify {
    /// Finds the commit, if it is one of this repository. Contacts nobody.
    pub fn prepare(access: &Access<'_>, context: Context<'_>, request: Request) -> Result<Verify, Error> {
        let address = access.address(request.remote.as_ref())?;
        let name = request.commit.as_ref().map(AsRef::as_ref);
        let wanted = Wanted::new(context.repo, name, request.branch.as_ref())?;
        Ok(Verify { address, wanted, progress: request.progress })
    }

    /// Reads the base.
    pub fn run(self, access: &Access<'_>, context: Context<'_>) -> Result<Report, Error> {
        let remote = access.open(self.address)?;
        let bases = places::bases(context.repo, None)?;
        let site = Site { context, bases: &bases, remote: &remote };
        let commit = self.wanted.commit(site)?;
        Ok(Report { commit, read: read(site, commit, self.progress)? })
    }
}

/// Reads the base. Returns its flaw if it has one, and fails if it could not be read.
fn read(site: Site<'_>, commit: ObjectId, progress: Option<bool>) -> Result<Result<Read, Flaw>, Error> {
    let context = site.context;
    let room = Room::new(context.repo)?;
    let repo = room.repository(context.repo)?;
    let bases = Bases::at(&room.dir.join("bases"));
    let signers = Signers::configured(context)?;
    let verify = |manifest: &[u8], signature: Option<&[u8]>| match &signers {
        Some(signers) => signers.check(manifest, signature),
        None => Ok(()),
    };
    let options = pull::Options { verify: Some(&verify), lists: true, ..pull::Options::default() };
    let shown = Shown::begin(context.events, progress);
    let step = |step| shown.step(step);
    let fsync = Fsync { disabled: true, ..Fsync::default() };
    let inside = Site { context: Context { repo: &repo, ..context }, bases: &bases, ..site };
    let parts = base_transfer::Context { fsync: &fsync, ..inside.parts(&step) };
    let pulled = pull::pull(&parts, commit, &options).map(|pulled| pulled.report);
    shown.end(&pulled);
    match pulled {
        Err(error) if !error.is_flaw() => Err(site.failed(error)),
        read => Ok(read),
    }
}

/// A directory that goes away with this value.
struct Room {
    dir: PathBuf,
}

impl Room {
    fn new(repo: &repo::Repository) -> Result<Room, Error> {
        let above = repo.real_common_dir().join("sapwood");
        let dir = above.join(own_name("verify"));
        let _ = by_path::remove_dir_all(&dir);
        let made = by_path::create_dir_all(&above).and_then(|()| by_path::create_dir(&dir));
        made.map_err(cannot("create", &dir))?;
        Ok(Room { dir })
    }

    /// Makes an empty repository with the settings of the user, and the hash of `like`.
    fn repository(&self, like: &repo::Repository) -> Result<repo::Repository, Error> {
        let dir = self.dir.join("repository");
        let fsync = Fsync { disabled: true, ..Fsync::default() };
        let git_dir = init::create(&init::Options {
            directory: &dir,
            bare: true,
            branch: "refs/heads/none".into(),
            template: None,
            open: &like.options_at(&self.dir),
            fsync: &fsync,
        })
        .map_err(BaseError::Create)?;
        if like.hash() != HashKind::Sha1 {
            let edits = [
                (keys::core::REPOSITORY_FORMAT_VERSION.name(), "1"),
                (keys::extensions::OBJECT_FORMAT.name(), like.hash().name()),
            ];
            let edits = edits.map(|(key, value)| Edit::Set { key: key.into(), value: value.into() });
            store::config::edit(&git_dir.join("config"), &edits, &store::LockOptions::default(), &fsync)?;
        }
        Ok(repo::Repository::open(&OpenOptions { git_dir: Some(git_dir), ..like.options_at(&self.dir) })?)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = by_path::remove_dir_all(&self.dir);
    }
}
