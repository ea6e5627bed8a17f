//! `base pull`: the base of a commit comes from a remote.

use bstr::BString;
use sapwood::base::pull::{self, Pull, Received, Report, Sharing};
use serde_json::json;

use super::{
    lease,
    request::{PULL, Request},
    site::{Site, only_commit, take_remote},
};
use crate::{
    commands::workspace::{
        context::{json_path, print_document},
        create::named_backend,
    },
    session::invocation::Invocation,
    term::{console, failure::Failure, text::bytes::readable},
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = PULL.parse(args)?.store(&mut request)?;
    let site = Site::open(run)?;
    let access = site.access();
    let remote = take_remote(&access, &mut words);
    let asked = pull::Request {
        remote,
        commit: only_commit(words)?,
        branch: request.only_branch("a pull takes one --branch")?,
        lease: request.lease.as_ref().map(lease::parse).transpose()?,
        sharing: if request.copy { Sharing::Copy } else { Sharing::InPlace },
        backend: named_backend(request.backend.as_ref())?,
        base_dir: request.base_dir.as_ref().map(|dir| run.path(dir)).transpose()?,
        progress: Some(request.shows_progress()),
    };
    let pulled = Pull::prepare(&access, site.context(), asked)?.run(&access, site.context())?;
    tell(&request, &pulled);
    Ok(0)
}

fn tell(request: &Request, pulled: &Report) {
    let Report { remote, commit, base, received } = pulled;
    let Received { packs, contents, known, blobs, bytes, requests } = *received;
    if request.json {
        print_document(json!({
            "commit": commit.to_string(), "name": base.name, "kind": base.kind.name(),
            "dir": json_path(&base.dir), "packs": packs, "contents": contents, "known": known, "blobs": blobs,
            "bytes": bytes, "requests": requests,
        }));
    } else if !request.quiet {
        console::out(format!(
            "pulled the base of {commit} from {remote}: {contents} contents came, {known} were here, {}",
            readable(bytes)
        ));
    }
}
