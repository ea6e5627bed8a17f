//! The bases of a remote, with their branches and leases.

use std::{collections::BTreeMap, fmt, time::SystemTime};

use base_store::{Address, Remote};
use bstr::{BString, ByteSlice as _};
use engine::base_transfer::{lease, records};
pub use format::base_files::Lease;
use format::base_files::{Branch, RecordKind};

use super::Access;
use crate::{Error, Events, PlanError, RunError};

/// The remote to list.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Its address; `None` for that of `sapwood.baseRemote`.
    pub remote: Option<BString>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The bases by the ids of their commits.
    pub bases: BTreeMap<String, Listed>,
}

/// A base of the remote.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The time of the last push; `None` if the remote does not know it.
    pub modified: Option<SystemTime>,
    /// The branches of which this is the newest base.
    pub branches: Vec<String>,
    /// The leases that hold.
    pub leases: Vec<Lease>,
}

/// A remote that can be listed.
pub struct Plan<'a> {
    access: Access<'a>,
    address: Address,
}

/// Parses the address. Contacts nobody.
pub fn plan<'a>(access: impl Into<Access<'a>>, request: Request) -> Result<Plan<'a>, PlanError> {
    let access = access.into();
    let address = access.address(request.remote.as_ref())?;
    Ok(Plan { access, address })
}

impl Plan<'_> {
    /// Reads the records of the remote.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        Ok(read(&self.access.open(self.address)?)?)
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "list the bases of {}", self.address)
    }
}

fn read(remote: &Remote) -> Result<Report, Error> {
    let mut bases: BTreeMap<String, Listed> = BTreeMap::new();
    for stored in remote.records(RecordKind::Commit)? {
        let listed = Listed { modified: stored.modified, ..Listed::default() };
        bases.insert(stored.name.id().to_owned(), listed);
    }
    for stored in remote.records(RecordKind::Branch)? {
        // The record is a hint. One that cannot be read names nothing.
        let Some(bytes) = remote.record(&stored.name)? else { continue };
        let Ok(branch) = Branch::parse(&bytes) else { continue };
        let name = records::branch_of(stored.name.id());
        let name = name.map_or_else(|| stored.name.id().to_owned(), |name| name.to_str_lossy().into_owned());
        let newest = branch.commits.iter().map(ToString::to_string).find(|commit| bases.contains_key(commit));
        if let Some(listed) = newest.and_then(|commit| bases.get_mut(&commit)) {
            listed.branches.push(name);
        }
    }
    for (_, lease) in lease::list(remote)? {
        if let Some(listed) =
            bases.get_mut(&lease.commit.to_string()).filter(|_| lease::holds(&lease, SystemTime::now()))
        {
            listed.leases.push(lease);
        }
    }
    Ok(Report { bases })
}
