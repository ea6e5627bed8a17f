//! The base of a commit comes from a remote.
//!
//! Order: the remote says which commit is meant; its commits, trees and contents come; the base is
//! added from them, for the backend that a workspace here will have. So
//! [`crate::workspace::create`] finds it.

use std::{fmt, path::PathBuf, time::Duration};

use base_store::Address;
use bstr::BString;
pub use engine::base_transfer::pull::Report as Received;
use engine::{
    base_transfer::Error as TransferError,
    workspace::{
        backend::{self, Backend, Visibility},
        base::{Base, Bases},
        record,
    },
};
use format::ObjectId;

pub use super::bring::Sharing;
use super::{Access, Site, bring::Bring, site::Wanted};
use crate::{
    Context, Error, Events, PlanError, Repository, RunError,
    workspace::{build::kind_of, places},
};

/// The options of a pull.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The address of the remote; `None` for that of `sapwood.baseRemote`.
    pub remote: Option<BString>,
    /// The commit; `None` for the newest of [`Request::branch`], else for HEAD's.
    pub commit: Option<BString>,
    /// The branch whose newest base is pulled. A commit without a base gives way to it.
    pub branch: Option<BString>,
    /// The holder and the time of a lease.
    pub lease: Option<(String, Duration)>,
    /// The contents of a shared directory.
    pub sharing: Sharing,
    /// The backend that will use the base; `None` for the best one.
    pub backend: Option<Backend>,
    /// The directory of the bases; `None` for `sapwood.baseDir`, else one in the repository.
    pub base_dir: Option<PathBuf>,
    /// Passed to [`Events::transferring`] and [`Events::adding_base`].
    pub progress: Option<bool>,
}

/// The result.
#[derive(Debug)]
pub struct Report {
    /// The address of the remote.
    pub remote: String,
    /// The commit.
    pub commit: ObjectId,
    /// The base.
    pub base: Base,
    /// The work that was done.
    pub received: Received,
}

/// A base that can be pulled.
pub struct Plan<'r> {
    repository: &'r Repository,
    pull: Pull,
}

/// Finds the commit, if it is one of this repository. Contacts nobody.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let access = Access::from(repository);
    let pull = Pull::prepare(&access, repository.context(&crate::Silent), request)?;
    Ok(Plan { repository, pull })
}

impl Plan<'_> {
    /// Brings the base and adds it.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let access = Access::from(self.repository);
        Ok(self.pull.run(&access, self.repository.context(events))?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "pull {} from {}", self.pull.wanted, self.pull.address)
    }
}

/// A pull that can run.
pub struct Pull {
    address: Address,
    wanted: Wanted,
    bases: Bases,
    request: Request,
}

impl Pull {
    /// Finds the commit, if it is one of this repository. Contacts nobody.
    pub fn prepare(access: &Access<'_>, context: Context<'_>, request: Request) -> Result<Pull, Error> {
        let address = access.address(request.remote.as_ref())?;
        let bases = places::bases(context.repo, request.base_dir.as_deref())?;
        let name = request.commit.as_ref().map(AsRef::as_ref);
        let wanted = Wanted::new(context.repo, name, request.branch.as_ref())?;
        Ok(Pull { address, wanted, bases, request })
    }

    /// Brings the base and adds it.
    pub fn run(self, access: &Access<'_>, context: Context<'_>) -> Result<Report, Error> {
        let Pull { address, wanted, bases, request } = self;
        let opened = access.open(address)?;
        let site = Site { context, bases: &bases, remote: &opened };
        let commit = wanted.commit(site)?;
        let remote = opened.address().to_string();
        if commit.kind() != context.repo.hash() {
            let (ours, theirs) = (context.repo.hash().name(), commit.kind().name());
            return Err(TransferError::Hash { remote, ours, theirs }.into());
        }
        let kind = kind_of(chosen(context.repo, &bases, request.backend)?);
        let Request { sharing, lease, progress, .. } = request;
        let (base, received) = Bring { site, sharing, manifest: None, lease, progress }.base(commit, kind)?;
        Ok(Report { remote, commit, base, received })
    }
}

/// Returns the backend of a workspace here.
fn chosen(repo: &repo::Repository, bases: &Bases, given: Option<Backend>) -> Result<Backend, Error> {
    let (upper, programs) = (record::directory(&repo.real_common_dir()), places::programs(repo));
    let service = places::mount_service(repo)?;
    let place = backend::Place {
        upper: &upper,
        bases: bases.dir(),
        top: &upper,
        programs: &programs,
        service: &service,
    };
    Ok(backend::choose(given, Visibility::Joined, &place)?)
}
