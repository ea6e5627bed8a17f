//! `base push`: a commit's contents and history go to a remote.

use bstr::{BString, ByteSlice as _};
use sapwood::{
    BaseError, ObjectId,
    base::push::{self, Depth, Options, Push, Sent},
};
use serde_json::{Value, json};

use super::{
    request::{PUSH, Request},
    site::{Site, only_commit, take_remote},
};
use crate::{
    commands::workspace::context::print_document,
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
    let mut words = PUSH.parse(args)?.store(&mut request)?;
    let site = Site::open(run)?;
    let access = site.access();
    let remote = take_remote(&access, &mut words);
    let commit = only_commit(words)?;
    let branch = request.only_branch("a push records the commit for one branch")?;
    let asked = push::Request { remote, commit, branch, options: options(&request)? };
    let pushed = Push::prepare(&access, site.context(), asked)?.run(&access, site.context())?;
    report(&request, &pushed.remote, pushed.commit, &pushed.sent);
    if pushed.branch.is_none() && !request.quiet {
        console::warning(format!(
            "no branch is known for {}: clones find its base by the commit alone; name its branch with \
             --branch",
            pushed.commit
        ));
    }
    Ok(0)
}

/// Returns the options that `push` and `mirror` share.
pub(super) fn options(request: &Request) -> Result<Options, Failure> {
    Ok(Options {
        depth: depth(request)?,
        sign: request.sign,
        bundle: request.bundle,
        no_mount: request.mount == Some(false),
        level: level(request)?,
        progress: Some(request.shows_progress()),
    })
}

/// `--depth`
fn depth(request: &Request) -> Result<Depth, Failure> {
    match &request.depth {
        None => Ok(Depth::One),
        Some(text) if text == "all" => Ok(Depth::All),
        Some(text) => {
            let number = text.to_str().ok().and_then(|text| text.parse().ok());
            number.map(Depth::Commits).ok_or_else(|| {
                Failure::fatal(text!("bad depth '", text, "': it is a positive number, or 'all'"))
            })
        }
    }
}

/// `--compression`
fn level(request: &Request) -> Result<Option<i32>, Failure> {
    let Some(text) = &request.compression else { return Ok(None) };
    let number = text.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| sapwood::Error::from(BaseError::Level(text.clone())).into())
}

/// Prints the result of a push.
pub(super) fn report(request: &Request, remote: &str, commit: ObjectId, sent: &Sent) {
    if request.json {
        print_document(described(commit, sent));
    } else if sent.was_there && !request.quiet {
        console::out(format!("{remote} has the base of {commit} already"));
    } else if !request.quiet {
        let Sent { contents, known, bytes, .. } = sent;
        console::out(format!(
            "pushed the base of {commit} to {remote}: {contents} contents sent, {known} known there, {}",
            readable(*bytes)
        ));
    }
}

/// The result of a push as JSON.
pub(super) fn described(commit: ObjectId, sent: &Sent) -> Value {
    json!({
        "commit": commit.to_string(), "wasThere": sent.was_there, "contents": sent.contents,
        "known": sent.known, "objects": sent.objects, "segments": sent.segments, "bytes": sent.bytes,
    })
}
