//! `base lease`: keeps a base on the remote for a time.

use std::time::Duration;

use bstr::{BString, ByteSlice as _};
use sapwood::base::lease;
use serde_json::json;

use super::{
    request::{LEASE, Request},
    site::{access, take_remote},
    time,
};
use crate::{
    commands::workspace::context::print_document,
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = LEASE.parse(args)?.store(&mut request)?;
    let place = run.open_any()?;
    let access = access(run, &place);
    let remote = take_remote(&access, &mut words);
    let (commit, time) = match (words.as_slice(), request.release) {
        ([name], true) => (name.clone(), None),
        ([name, time], false) => (name.clone(), Some(time::parse(time.as_bstr())?)),
        (_, true) => return Err(Failure::fatal("name the commit whose lease ends")),
        (_, false) => return Err(Failure::fatal("name the commit and a length of time such as 12h")),
    };
    let holder = request.holder.map(|name| name.to_str_lossy().into_owned());
    let done = lease::plan(access, lease::Request { remote, commit, holder, time })?.run(run)?;
    let lease::Report { commit, holder, end } = done;
    let Some(end) = end else { return Ok(0) };
    if request.json {
        print_document(json!({"commit": commit.to_string(), "holder": holder, "end": end}));
    } else if !request.quiet {
        let holder = holder.replace(char::is_control, "?");
        console::out(format!("{commit} is leased to {holder} until {}", shown(end)));
    }
    Ok(0)
}

/// Returns a time as people read it, in UTC.
pub(super) fn shown(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "for ever".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// Splits `12h=holder`. Without a holder, it is this host.
pub(super) fn parse(word: &BString) -> Result<(String, Duration), Failure> {
    let (time, name) = match word.split_once_str("=") {
        Some((time, name)) => (time, Some(name.to_str_lossy().into_owned())),
        None => (word.as_slice(), None),
    };
    Ok((name.unwrap_or_else(lease::this_host), time::parse(time.as_bstr())?))
}
