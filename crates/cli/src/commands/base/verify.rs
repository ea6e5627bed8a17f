//! `base verify`: reads a base at the remote as a host does that has nothing, and keeps nothing.

use bstr::BString;
use sapwood::base::verify::{self, Verify};
use serde_json::json;

use super::{
    request::{Request, VERIFY},
    site::{Site, only_commit, take_remote},
};
use crate::{
    commands::workspace::context::print_document,
    session::invocation::Invocation,
    term::{console, failure::Failure, text::bytes::readable},
};

/// Runs the command. Returns its exit code: 1 if the base has a flaw.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = VERIFY.parse(args)?.store(&mut request)?;
    let site = Site::open(run)?;
    let access = site.access();
    let remote = take_remote(&access, &mut words);
    let commit = only_commit(words)?;
    let branch = request.only_branch("a pull takes one --branch")?;
    let asked = verify::Request { remote, commit, branch, progress: Some(request.shows_progress()) };
    let verified = Verify::prepare(&access, site.context(), asked)?.run(&access, site.context())?;
    let commit = verified.commit.to_string();
    let read = match verified.read {
        Ok(read) => read,
        Err(flaw) => {
            if request.json {
                print_document(json!({"commit": commit, "flaw": flaw.to_string()}))
            } else {
                console::out(flaw.to_string())
            }
            return Ok(1);
        }
    };
    if request.json {
        print_document(
            json!({"commit": commit, "flaw": null, "contents": read.contents, "bytes": read.bytes}),
        );
    } else if !request.quiet {
        let bytes = readable(read.bytes);
        console::out(format!("the base of {commit} is sound: {} contents, {bytes}", read.contents));
    }
    Ok(0)
}
