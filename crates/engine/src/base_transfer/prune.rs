//! Removes bases from a remote that nobody needs.
//!
//! Order: all records are read; the manifests of bases that are not kept are removed; then
//! data files that are old and that no manifest names. Data files are listed, with their times,
//! before the manifests are read again. So a file that a push uses again beside this is either
//! named by then, or has a new time.
//!
//! A base is kept if it is one of the newest of a branch, if a lease names its commit, or if it is
//! younger than the grace period. A record that cannot be read ends the prune before it removes
//! anything: one of a future version may name any file.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use base_store::{Remote, StoredRecord};
use bstr::ByteSlice as _;
use format::{
    HashKind, ObjectId,
    base_files::{Branch, DataFile, Digest, Manifest, RecordKind, manifest::split_signature},
};

use super::{
    Error, GRACE, lease,
    records::{address, malformed},
    seconds,
};

/// How bases are removed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of bases to keep of each branch.
    pub keep: usize,
    /// The age at which a base or a data file is old enough.
    pub grace: Duration,
    /// The time to count from.
    pub now: SystemTime,
    /// Report what would be removed, and remove nothing.
    pub dry_run: bool,
}

impl Options {
    /// Returns options with the usual grace period.
    pub fn new(keep: usize) -> Options {
        Options { keep, grace: GRACE, now: SystemTime::now(), dry_run: false }
    }
}

/// The work that a prune did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The commits whose bases were removed.
    pub commits: Vec<String>,
    /// The number of bases that stay.
    pub kept: u64,
    /// The number of leases that had ended and were removed.
    pub leases: u64,
    /// The number of data files that were removed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes bases; see the module.
pub fn prune(remote: &Remote, options: &Options, interrupt: &AtomicBool) -> Result<Report, Error> {
    let mut report = Report::default();
    let check = || if interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) };
    let (leased, ended) = leases(remote, options)?;
    let manifests = remote.records(RecordKind::Commit)?;
    let newest = newest(remote, &manifests, options.keep)?;
    let mut removed = HashSet::new();
    for stored in &manifests {
        check()?;
        let id = stored.name.id();
        if newest.contains(id) || leased.contains(id) || is_young(remote, stored, options)? {
            report.kept += 1;
        } else {
            removed.insert(id.to_owned());
        }
    }
    // A record that cannot be read is found before anything is gone.
    named(remote, &removed, &check)?;
    for stored in manifests.iter().filter(|stored| removed.contains(stored.name.id())) {
        check()?;
        if !options.dry_run {
            remote.remove_record(&stored.name)?;
        }
        report.commits.push(stored.name.id().to_owned());
    }
    for name in &ended {
        if !options.dry_run {
            remote.remove_record(name)?;
        }
        report.leases += 1;
    }
    let data = remote.data()?;
    let named = named(remote, &removed, &check)?;
    let is_old = |time: SystemTime| options.now.duration_since(time).is_ok_and(|age| age > options.grace);
    for stored in data {
        if named.contains(&stored.file.digest) || !is_old(stored.modified) {
            continue;
        }
        check()?;
        if !options.dry_run {
            remote.remove(&stored.file.digest)?;
        }
        report.files += 1;
        report.bytes += stored.file.size;
    }
    // A file on its way belongs to a running push or lease, whatever the grace period is.
    if !options.dry_run
        && let Some(time) = options.now.checked_sub(options.grace.max(GRACE))
    {
        remote.remove_leftovers(time)?;
    }
    Ok(report)
}

/// Returns the commits with leases that hold, and the leases that have ended.
fn leases(
    remote: &Remote,
    options: &Options,
) -> Result<(HashSet<String>, Vec<format::base_files::RecordName>), Error> {
    let (mut commits, mut ended) = (HashSet::new(), Vec::new());
    for (name, lease) in lease::list(remote)? {
        if lease::holds(&lease, options.now) {
            _ = commits.insert(lease.commit.to_string())
        } else {
            ended.push(name)
        }
    }
    Ok((commits, ended))
}

/// Returns the commits of the newest bases of all branches.
fn newest(remote: &Remote, manifests: &[StoredRecord], keep: usize) -> Result<HashSet<String>, Error> {
    let there: HashSet<&str> = manifests.iter().map(|stored| stored.name.id()).collect();
    let mut newest = HashSet::new();
    for stored in remote.records(RecordKind::Branch)? {
        let Some(bytes) = remote.record(&stored.name)? else { continue };
        let branch = Branch::parse(&bytes).map_err(malformed(remote, &stored.name))?;
        let commits = branch.commits.iter().map(ObjectId::to_string);
        newest.extend(commits.filter(|commit| there.contains(commit.as_str())).take(keep));
    }
    Ok(newest)
}

fn is_young(remote: &Remote, stored: &StoredRecord, options: &Options) -> Result<bool, Error> {
    let age = match stored.modified {
        Some(time) => options.now.duration_since(time).unwrap_or_default(),
        None => match read(remote, stored)? {
            Some(manifest) => Duration::from_secs(seconds(options.now).saturating_sub(manifest.time)),
            None => return Ok(false),
        },
    };
    Ok(age < options.grace)
}

fn read(remote: &Remote, stored: &StoredRecord) -> Result<Option<Manifest>, Error> {
    let Some(bytes) = remote.record(&stored.name)? else { return Ok(None) };
    let (signed, _) = split_signature(&bytes);
    let manifest = Manifest::parse(signed).map_err(malformed(remote, &stored.name))?;
    if manifest.commit.to_string() == stored.name.id() {
        return Ok(Some(manifest));
    }
    let reason = format!("it is about commit {}", manifest.commit);
    Err(Error::WrongRecord { remote: address(remote), name: stored.name.to_string(), reason })
}

/// Returns the data files that records name.
fn named(
    remote: &Remote,
    removed: &HashSet<String>,
    check: &dyn Fn() -> Result<(), Error>,
) -> Result<HashSet<Digest>, Error> {
    let mut named = HashSet::new();
    for stored in remote.records(RecordKind::Commit)? {
        check()?;
        if removed.contains(stored.name.id()) {
            continue;
        }
        if let Some(manifest) = read(remote, &stored)? {
            named.extend(manifest.files().map(|file: DataFile| file.digest));
        }
    }
    for stored in remote.records(RecordKind::Bundles)? {
        named.extend(digests(&remote.record(&stored.name)?.unwrap_or_default()));
    }
    Ok(named)
}

/// Returns everything in a bundle list that may be the name of a data file.
fn digests(text: &[u8]) -> impl Iterator<Item = Digest> + '_ {
    const LEN: usize = HashKind::Sha256.hex_len();
    let words = text.split(|byte| !byte.is_ascii_hexdigit()).filter(|word| word.len() == LEN);
    words.filter_map(|word| word.to_str().ok()?.parse().ok())
}
