//! Removing old bases from a remote.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use base_store::Address;
use bstr::BString;
use engine::base_transfer::prune;
pub use engine::base_transfer::{GRACE, prune::Report};

use super::Access;
use crate::{Error, Events, PlanError, RunError};

/// The bases to keep.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The address of the remote; `None` for that of `sapwood.baseRemote`.
    pub remote: Option<BString>,
    /// The number of bases to keep of each branch.
    pub keep: usize,
    /// The age from which a base or a file may go; `None` for [`GRACE`].
    pub grace: Option<Duration>,
    /// Find what would be removed, and remove nothing.
    pub dry_run: bool,
}

/// A remote whose old bases can be removed.
pub struct Plan<'a> {
    access: Access<'a>,
    address: Address,
    request: Request,
}

/// Parses the address. Contacts nobody.
pub fn plan<'a>(access: impl Into<Access<'a>>, request: Request) -> Result<Plan<'a>, PlanError> {
    let access = access.into();
    let address = access.address(request.remote.as_ref())?;
    Ok(Plan { access, address, request })
}

impl Plan<'_> {
    /// Removes the bases that are neither kept, leased nor young, and the files that no base needs.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        let Plan { access, address, request } = self;
        let remote = access.open(address)?;
        let options = prune::Options {
            keep: request.keep,
            grace: request.grace.unwrap_or(GRACE),
            now: SystemTime::now(),
            dry_run: request.dry_run,
        };
        let done = prune::prune(&remote, &options, access.interrupt());
        access.check_interrupt()?;
        Ok(done.map_err(Error::from)?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keep = self.request.keep;
        write!(formatter, "remove all but the newest {keep} bases of each branch from {}", self.address)
    }
}
