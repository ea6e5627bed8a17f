//! `base pull`: the base of a commit comes from a remote.
//!
//! Order: the remote says which commit is meant; its commits, trees and contents come
//! (`engine::base_transfer::pull`); the base is added from them, for the backend that a workspace
//! here will have. So `workspace create` finds it.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    base_transfer::{self, pull::Report, records},
    workspace::{
        backend::{self, Backend, Visibility},
        base::{Base, Kind},
        record,
    },
};
use format::ObjectId;
use serde_json::json;

use super::{
    bring::{Bring, Sharing},
    lease,
    request::{PULL, Request},
    site::{Config, Site, commit_in, take_address, whole_id},
};
use crate::{
    commands::workspace::{
        context::{json_path, print_json, programs},
        create::named_backend,
    },
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        progress,
        text::bytes::readable,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = PULL.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let address = take_address(run, &Config::Repository(&repo), &mut words)?;
    let name = match words.as_slice() {
        [] => None,
        [name] => Some(name.as_bstr()),
        _ => return Err(Failure::fatal("name the remote, and at most one commit")),
    };
    let site = Site::open(run, repo, request.base_dir.as_ref(), address)?;
    let commit = wanted(&site, &request, name)?;
    if commit.kind() != site.repo.hash() {
        let (ours, theirs) = (site.repo.hash().name(), commit.kind().name());
        return Err(
            base_transfer::Error::Hash { remote: site.remote.address().to_string(), ours, theirs }.into()
        );
    }
    let kind = kind(&site, &request)?;
    let (base, report) = pull(&site, &request, commit, kind)?;
    tell(&site, &request, commit, &base, &report);
    Ok(0)
}

/// Returns the commit to pull: the named one, else the newest of `--branch`, else that of HEAD. A
/// named commit without a base gives way to the newest of `--branch`.
pub(super) fn wanted(site: &Site<'_>, request: &Request, name: Option<&BStr>) -> Result<ObjectId, Failure> {
    let named = match name {
        Some(name) => Some(match whole_id(name) {
            Some(commit) => commit,
            None => commit_in(&site.repo, name)?,
        }),
        None => None,
    };
    let [branch] = request.branches.as_slice() else {
        if !request.branches.is_empty() {
            return Err(Failure::fatal("a pull takes one --branch"));
        }
        let commit = if named.is_some() { named } else { site.repo.head()?.oid() };
        return commit.ok_or_else(|| Failure::fatal("HEAD has no commit: name one, or a --branch"));
    };
    let nearest = records::nearest(&site.remote, branch.as_bstr(), named.as_ref());
    let nearest = nearest.map_err(|error| site.failed(error))?.map(|read| read.manifest.commit);
    nearest.ok_or_else(|| {
        let address = site.remote.address().to_string();
        Failure::fatal(text!(address, " has no base of branch '", branch, "'"))
    })
}

/// The kind of base that a workspace here will have.
fn kind(site: &Site<'_>, request: &Request) -> Result<Kind, Failure> {
    let given = named_backend(request.backend.as_ref())?;
    let upper = record::directory(&site.repo.real_common_dir());
    let programs = programs(site.run);
    let place = backend::Place { upper: &upper, bases: site.bases.dir(), top: &upper, programs: &programs };
    let backend = backend::choose(given, Visibility::Joined, &place)?;
    Ok(if backend == Backend::Image { Kind::Image } else { Kind::Directory })
}

/// Pulls and adds the base.
fn pull(site: &Site<'_>, request: &Request, commit: ObjectId, kind: Kind) -> Result<(Base, Report), Failure> {
    let Site { run, repo, settings, remote, bases } = site;
    let quiet = request.quiet || request.json;
    let bring = Bring {
        run,
        repo,
        settings,
        remote,
        bases,
        sharing: if request.copy { Sharing::Copy } else { Sharing::InPlace },
        manifest: None,
        lease: request.lease.as_ref().map(lease::parse).transpose()?,
        is_visible: request.progress.unwrap_or(!quiet && progress::has_terminal()),
    };
    bring.base(commit, kind)
}

fn tell(site: &Site<'_>, request: &Request, commit: ObjectId, base: &Base, report: &Report) {
    let Report { packs, contents, known, blobs, bytes, requests } = *report;
    if request.json {
        print_json(&json!({
            "commit": commit.to_string(), "name": base.name, "kind": base.kind.name(),
            "dir": json_path(&base.dir), "packs": packs, "contents": contents, "known": known, "blobs": blobs,
            "bytes": bytes, "requests": requests,
        }));
    } else if !request.quiet {
        console::out(format!(
            "pulled the base of {commit} from {}: {contents} contents came, {known} were here, {}",
            site.remote.address(),
            readable(bytes)
        ));
    }
}
