//! Leases: a host promises itself that a base stays while it reads it.

use std::time::{Duration, SystemTime};

use base_store::Remote;
use format::{
    ObjectId,
    base_files::{Digest, Lease, RecordKind, RecordName},
};

use super::{
    Error,
    records::{address, malformed},
    seconds,
};

/// The longest holder that a name takes as it is: 120 characters less a SHA-256 and a dot.
const LONGEST: usize = 55;

/// Returns the name of a lease. A holder with other characters than a name may have is hashed.
pub fn name(commit: &ObjectId, holder: &str) -> RecordName {
    let id = |holder: &str| RecordName::new(RecordKind::Lease, format!("{commit}.{holder}"));
    let plain = Some(holder).filter(|holder| !holder.is_empty() && holder.len() <= LONGEST);
    plain.and_then(|holder| id(holder).ok()).unwrap_or_else(|| {
        let digits = Digest::of(holder.as_bytes()).to_string();
        id(&digits[..40]).expect("digits are allowed")
    })
}

/// Writes a lease that ends after `time`. A later one of the same holder replaces it.
pub fn write(remote: &Remote, commit: &ObjectId, holder: &str, time: Duration) -> Result<Lease, Error> {
    let end = seconds(SystemTime::now()).saturating_add(time.as_secs());
    let lease = Lease { commit: *commit, holder: holder.to_owned(), end };
    remote.set_record(&name(commit, holder), &lease.to_bytes(), &[])?;
    Ok(lease)
}

/// Ends a lease. One that is not there is no error.
pub fn end(remote: &Remote, commit: &ObjectId, holder: &str) -> Result<(), Error> {
    Ok(remote.remove_record(&name(commit, holder))?)
}

/// Returns all leases, also those that have ended, with their names.
pub fn list(remote: &Remote) -> Result<Vec<(RecordName, Lease)>, Error> {
    let mut leases = Vec::new();
    for stored in remote.records(RecordKind::Lease)? {
        // One that its holder ended just now is missing.
        let Some(bytes) = remote.record(&stored.name)? else { continue };
        let lease = Lease::parse(&bytes).map_err(malformed(remote, &stored.name))?;
        if !stored.name.id().starts_with(&lease.commit.to_string()) {
            let (remote, name) = (address(remote), stored.name.to_string());
            let reason = format!("it is about commit {}", lease.commit);
            return Err(Error::WrongRecord { remote, name, reason });
        }
        leases.push((stored.name, lease));
    }
    Ok(leases)
}

/// Returns true if the lease holds at `now`.
pub fn holds(lease: &Lease, now: SystemTime) -> bool {
    lease.end >= seconds(now)
}
