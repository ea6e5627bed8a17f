//! Leases: a host keeps a base on the remote for a time.

use std::{fmt, time::Duration};

use base_store::Address;
use bstr::{BString, ByteSlice as _};
use engine::base_transfer::lease;
use format::ObjectId;

use super::Access;
use crate::{Error, Events, PlanError, RunError};

/// The lease to write or to end.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The address of the remote; `None` for that of `sapwood.baseRemote`.
    pub remote: Option<BString>,
    /// The commit.
    pub commit: BString,
    /// The name of the lease; `None` for the name of this host.
    pub holder: Option<String>,
    /// The length of time from now on; `None` to end the lease.
    pub time: Option<Duration>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The commit.
    pub commit: ObjectId,
    /// The name of the lease.
    pub holder: String,
    /// The end of the lease in seconds since the epoch; `None` if it has ended.
    pub end: Option<u64>,
}

/// A lease that can be written or ended.
pub struct Plan<'a> {
    access: Access<'a>,
    address: Address,
    commit: ObjectId,
    holder: String,
    time: Option<Duration>,
}

/// Finds the commit. Contacts nobody.
pub fn plan<'a>(access: impl Into<Access<'a>>, request: Request) -> Result<Plan<'a>, PlanError> {
    let access = access.into();
    let address = access.address(request.remote.as_ref())?;
    let commit = access.commit(request.commit.as_bstr())?;
    let holder = request.holder.unwrap_or_else(this_host);
    Ok(Plan { access, address, commit, holder, time: request.time })
}

impl Plan<'_> {
    /// Writes the lease, or ends it.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        let Plan { access, address, commit, holder, time } = self;
        let remote = access.open(address)?;
        let end = match time {
            Some(time) => Some(lease::write(&remote, &commit, &holder, time).map_err(Error::from)?.end),
            None => {
                lease::end(&remote, &commit, &holder).map_err(Error::from)?;
                None
            }
        };
        Ok(Report { commit, holder, end })
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { address, commit, holder, time, .. } = self;
        match time {
            Some(time) => {
                write!(formatter, "lease {commit} at {address} to {holder} for {}s", time.as_secs())
            }
            None => write!(formatter, "end the lease of {commit} at {address} to {holder}"),
        }
    }
}

/// Returns the name of this host, by which it holds leases.
pub fn this_host() -> String {
    sys::user::host_name().to_str_lossy().into_owned()
}
