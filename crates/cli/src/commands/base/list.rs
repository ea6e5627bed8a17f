//! `base list`: the bases of a remote, with their branches and leases.

use std::time::{SystemTime, UNIX_EPOCH};

use bstr::BString;
use sapwood::base::list::{self, Lease, Listed};
use serde_json::{Value, json};

use super::{
    lease::shown,
    request::{LIST, Request},
    site::{access, refuse_more, take_remote},
};
use crate::{
    commands::workspace::context::print_document,
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = LIST.parse(args)?.store(&mut request)?;
    let place = run.open_any()?;
    let access = access(run, &place);
    let remote = take_remote(&access, &mut words);
    refuse_more("list", &words)?;
    let bases = list::plan(access, list::Request { remote })?.run(run)?.bases;
    if request.json {
        print_document(bases.iter().map(|(commit, listed)| described(commit, listed)).collect());
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
