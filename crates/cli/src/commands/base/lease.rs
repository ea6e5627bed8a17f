//! `base lease`: keeps a base on the remote for a time.

use std::time::Duration;

use bstr::{BString, ByteSlice as _};
use engine::base_transfer::lease;
use serde_json::json;

use super::{
    request::{LEASE, Request},
    site::{RemoteSite, commit_of},
    time,
};
use crate::{
    commands::workspace::context::print_json,
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = LEASE.parse(args)?.store(&mut request)?;
    let site = RemoteSite::open(run, &mut words)?;
    let (name, time) = match (words.as_slice(), request.release) {
        ([name], true) => (name, None),
        ([name, time], false) => (name, Some(time::parse(time.as_bstr())?)),
        (_, true) => return Err(Failure::fatal("name the commit whose lease ends")),
        (_, false) => return Err(Failure::fatal("name the commit and a length of time such as 12h")),
    };
    let commit = commit_of(&site, name.as_bstr())?;
    let holder = holder(request.holder.as_ref());
    match time {
        None => lease::end(&site.remote, &commit, &holder)?,
        Some(time) => {
            let lease = lease::write(&site.remote, &commit, &holder, time)?;
            if request.json {
                print_json(&json!({"commit": commit.to_string(), "holder": holder, "end": lease.end}));
            } else if !request.quiet {
                let holder = holder.replace(char::is_control, "?");
                console::out(format!("{commit} is leased to {holder} until {}", shown(lease.end)));
            }
        }
    }
    Ok(0)
}

/// The holder of a lease: the given name, else this host.
pub(super) fn holder(given: Option<&BString>) -> String {
    match given {
        Some(name) => name.to_str_lossy().into_owned(),
        None => sys::user::host_name().to_str_lossy().into_owned(),
    }
}

/// Returns a time as people read it, in UTC.
pub(super) fn shown(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "for ever".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Splits `12h=holder`.
pub(super) fn parse(word: &BString) -> Result<(String, Duration), Failure> {
    let (time, name) = match word.split_once_str("=") {
        Some((time, name)) => (time, Some(BString::from(name))),
        None => (word.as_slice(), None),
    };
    Ok((holder(name.as_ref()), time::parse(time.as_bstr())?))
}
