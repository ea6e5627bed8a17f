//! `base prune`: removes old bases from a remote.

use bstr::{BString, ByteSlice as _};
use sapwood::base::prune;
use serde_json::json;

use super::{
    request::{PRUNE, Request},
    site::{access, refuse_more, take_remote},
    time,
};
use crate::{
    commands::workspace::context::print_document,
    session::invocation::Invocation,
    term::{console, failure::Failure, text::bytes::readable},
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = PRUNE.parse(args)?.store(&mut request)?;
    let keep = request.keep.as_ref().ok_or_else(|| Failure::fatal("say how many bases stay: --keep <n>"))?;
    let keep = keep.to_str().ok().and_then(|text| text.parse().ok());
    let keep = keep.ok_or_else(|| Failure::fatal("--keep needs a number"))?;
    let grace = request.grace.as_ref().map(|text| time::parse(text.as_bstr())).transpose()?;
    let place = run.open_any()?;
    let access = access(run, &place);
    let remote = take_remote(&access, &mut words);
    refuse_more("prune", &words)?;
    let asked = prune::Request { remote, keep, grace, dry_run: request.dry_run };
    let done = prune::plan(access, asked)?.run(run)?;
    if request.json {
        print_document(json!({
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
