//! `base list`: the bases of a remote, with their branches and leases.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BString, ByteSlice as _};
use engine::base_transfer::{lease, records};
use format::base_files::{Branch, Lease, RecordKind};
use repo::wire::url::without_credentials;
use serde_json::{Value, json};

use super::{
    lease::shown,
    request::{LIST, Request},
    site::RemoteSite,
};
use crate::{
    commands::workspace::context::print_json,
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// A base of the remote.
#[derive(Default)]
struct Listed {
    modified: Option<SystemTime>,
    /// The branches of which this is the newest base.
    branches: Vec<String>,
    leases: Vec<Lease>,
}

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = LIST.parse(args)?.store(&mut request)?;
    let site = RemoteSite::open(run, &mut words)?;
    if let Some(extra) = words.first() {
        let extra = without_credentials(extra.as_bstr());
        return Err(Failure::fatal(text!("list takes one remote, and so not '", extra, "'")));
    }
    let remote = &site.remote;
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
    if request.json {
        print_json(&bases.iter().map(|(commit, listed)| described(commit, listed)).collect())
    } else {
        bases.iter().for_each(|(commit, listed)| line(commit, listed))
    }
    Ok(0)
}

fn described(commit: &str, listed: &Listed) -> Value {
    let lease = |lease: &Lease| json!({"holder": lease.holder, "end": lease.end});
    json!({
        "commit": commit, "modified": listed.modified.map(seconds), "branches": listed.branches,
        "leases": Value::from_iter(listed.leases.iter().map(lease)),
    })
}

fn line(commit: &str, listed: &Listed) {
    let mut line = commit.to_owned();
    if let Some(time) = listed.modified {
        line += &format!("  {}", shown(seconds(time)));
    }
    if !listed.branches.is_empty() {
        line += &format!("  {}", listed.branches.join(", "));
    }
    for lease in &listed.leases {
        line += &format!("  leased to {} until {}", lease.holder, shown(lease.end));
    }
    // Branches and holders are names that others chose.
    console::out(line.replace(char::is_control, "?"));
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
