//! `base prune`: removes old bases from a remote.

use std::time::SystemTime;

use bstr::{BString, ByteSlice as _};
use engine::base_transfer::{self, prune};
use repo::wire::url::without_credentials;
use serde_json::json;

use super::{
    request::{PRUNE, Request},
    site::RemoteSite,
    time,
};
use crate::{
    commands::workspace::context::print_json,
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        text::bytes::readable,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = PRUNE.parse(args)?.store(&mut request)?;
    let keep = request.keep.as_ref().ok_or_else(|| Failure::fatal("say how many bases stay: --keep <n>"))?;
    let keep = keep.to_str().ok().and_then(|text| text.parse().ok());
    let keep = keep.ok_or_else(|| Failure::fatal("--keep needs a number"))?;
    let grace = request.grace.as_ref().map(|text| time::parse(text.as_bstr())).transpose()?;
    let site = RemoteSite::open(run, &mut words)?;
    if let Some(extra) = words.first() {
        let extra = without_credentials(extra.as_bstr());
        return Err(Failure::fatal(text!("prune takes one remote, and so not '", extra, "'")));
    }
    let options = prune::Options {
        keep,
        grace: grace.unwrap_or(base_transfer::GRACE),
        now: SystemTime::now(),
        dry_run: request.dry_run,
    };
    let done = prune::prune(&site.remote, &options, run.interrupt.flag());
    run.interrupt.check()?;
    let done = done?;
    if request.json {
        print_json(&json!({
            "commits": done.commits, "kept": done.kept, "leases": done.leases, "files": done.files,
            "bytes": done.bytes, "dryRun": request.dry_run,
        }));
    } else if !request.quiet {
        let what = if request.dry_run { "would remove" } else { "removed" };
        done.commits.iter().for_each(|commit| console::out(format!("{what} the base of {commit}")));
        console::out(format!(
            "{what} {} data files, {}; {} bases stay",
            done.files,
            readable(done.bytes),
            done.kept
        ));
    }
    Ok(0)
}
