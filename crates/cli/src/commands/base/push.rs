//! `base push`: a commit's contents and history go to a remote.

use std::num::NonZeroU32;

use base_store::{Address, Remote};
use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    base_transfer::push::{self, Report},
    workspace::base::{Bases, Kind, Persist},
};
use format::{ObjectId, base_files::frame};
use repo::{Head, Repository, keys};
use serde_json::{Value, json};

use super::{
    bundle,
    display::Display,
    request::{PUSH, Request},
    signature,
    site::{Config, Site, commit_in, take_address},
};
use crate::{
    commands::workspace::{
        build::{self, add_base},
        context::print_json,
    },
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
    let repo = run.open()?;
    let address = take_address(run, &Config::Repository(&repo), &mut words)?;
    Remote::create(&address)?;
    let site = Site::open(run, repo, None, address)?;
    let name = match words.as_slice() {
        [] => BString::from("HEAD"),
        [name] => name.clone(),
        _ => return Err(Failure::fatal("name the remote, and at most one commit")),
    };
    let commit = commit_in(&site.repo, name.as_bstr())?;
    let branch = match request.branches.as_slice() {
        [] => branch_of(&site, name.as_bstr(), &commit)?,
        [branch] => Some(branch.clone()),
        _ => return Err(Failure::fatal("a push records the commit for one branch")),
    };
    let pushed =
        push(&site, &request, commit, branch.as_ref().map(|branch| branch.as_bstr()), Bundles::Asked)?;
    report(&request, site.remote.address(), commit, &pushed);
    if branch.is_none() && !request.quiet {
        console::warning(format!(
            "no branch is known for {commit}: clones find its base by the commit alone; name its branch with \
             --branch"
        ));
    }
    Ok(0)
}

/// When a push writes bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bundles {
    /// With `--bundle`.
    Asked,
    /// Unless `--no-bundle` is given.
    Unless,
}

/// Returns the branch that a revision names: the current one for `HEAD`. A detached HEAD, as
/// runners have it, and other names of a commit name none: then it is the only branch, here or at a
/// remote, whose tip is the commit.
fn branch_of(site: &Site<'_>, name: &BStr, commit: &ObjectId) -> Result<Option<BString>, Failure> {
    if name == "HEAD" || name == "@" {
        if let Head::Branch { name, .. } = site.repo.head()? {
            return Ok(name.strip_prefix(b"refs/heads/").map(BString::from));
        }
        return only_branch_at(&site.repo, commit);
    }
    let short = name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr();
    let full = text!("refs/heads/", short);
    match site.repo.find_ref(full.as_bstr()).ok().flatten() {
        Some(_) => Ok(Some(short.to_owned())),
        None => only_branch_at(&site.repo, commit),
    }
}

fn only_branch_at(repo: &Repository, commit: &ObjectId) -> Result<Option<BString>, Failure> {
    let of_remotes = repo.remotes().into_iter().map(|remote| format!("refs/remotes/{remote}/"));
    let mut names: Vec<BString> = Vec::new();
    for prefix in of_remotes.chain(["refs/heads/".to_owned()]) {
        let refs = repo.refs(&prefix)?.into_iter().filter(|(_, tip)| tip == commit);
        let short = refs.filter_map(|(name, _)| name.strip_prefix(prefix.as_bytes()).map(BString::from));
        names.extend(short.filter(|name| name != "HEAD"));
    }
    names.sort();
    names.dedup();
    Ok(<[BString; 1]>::try_from(names).ok().map(|[only]| only))
}

/// Pushes the base of `commit`, and what the options ask for beside it.
pub(super) fn push(
    site: &Site<'_>,
    request: &Request,
    commit: ObjectId,
    branch: Option<&BStr>,
    bundles: Bundles,
) -> Result<Report, Failure> {
    let Site { run, repo, settings, remote, .. } = site;
    let signer = |manifest: &[u8]| signature::sign(repo, manifest);
    let signs = signature::is_wanted(repo, request.sign)?;
    let quiet = request.quiet || request.json;
    let display = Display::new(request.progress, quiet);
    let options = push::Options {
        branch: branch.map(BStr::to_owned),
        after: Vec::new(),
        depth: depth(request)?,
        level: level(site, request)?,
        sign: signs.then_some(&signer),
        ..push::Options::default()
    };
    let progress = |step| display.step(step);
    let pushed = push::push(&site.context(&progress), commit, &options);
    display.end(&pushed);
    let pushed = pushed.map_err(|error| site.failed(error))?;
    if let Some(dir) = remote.directory().filter(|_| request.mount.unwrap_or(true)) {
        // The directory may belong to another user, who then gets no base, only verified files.
        match Bases::trusted(&dir.join("bases"), repo.trust()) {
            Ok(bases) => {
                let (visible, persist) = (build::shows(request.progress, quiet), Persist::Now);
                add_base(run, repo, settings, &bases, commit, Kind::Image, None, visible, persist)?;
            }
            Err(error) => console::warning(format!("{error}\nUntil then no base is added there")),
        }
    }
    self::bundles(site, request, commit, branch, bundles)?;
    Ok(pushed)
}

/// Writes the bundles of a branch if they are wanted.
pub(super) fn bundles(
    site: &Site<'_>,
    request: &Request,
    commit: ObjectId,
    branch: Option<&BStr>,
    wanted: Bundles,
) -> Result<(), Failure> {
    if !request.bundle.unwrap_or(wanted == Bundles::Unless) {
        return Ok(());
    }
    let branch = branch.ok_or_else(|| {
        Failure::fatal("the base was pushed, but bundles belong to a branch: name it with --branch")
    })?;
    bundle::write(site, branch, commit)
}

/// `--depth`: `None` for the whole history.
pub(super) fn depth(request: &Request) -> Result<Option<NonZeroU32>, Failure> {
    match &request.depth {
        None => Ok(NonZeroU32::new(1)),
        Some(text) if text == "all" => Ok(None),
        Some(text) => {
            let number = text.to_str().ok().and_then(|text| text.parse().ok());
            number.map(Some).ok_or_else(|| {
                Failure::fatal(text!("bad depth '", text, "': it is a positive number, or 'all'"))
            })
        }
    }
}

/// Prints the result of a push.
pub(super) fn report(request: &Request, address: &Address, commit: ObjectId, pushed: &Report) {
    if request.json {
        print_json(&described(commit, pushed));
    } else if pushed.was_there && !request.quiet {
        console::out(format!("{address} has the base of {commit} already"));
    } else if !request.quiet {
        let Report { contents, known, bytes, .. } = pushed;
        console::out(format!(
            "pushed the base of {commit} to {address}: {contents} contents sent, {known} known there, {}",
            readable(*bytes)
        ));
    }
}

/// The result of a push as JSON.
pub(super) fn described(commit: ObjectId, pushed: &Report) -> Value {
    json!({
        "commit": commit.to_string(), "wasThere": pushed.was_there, "contents": pushed.contents,
        "known": pushed.known, "objects": pushed.objects, "segments": pushed.segments, "bytes": pushed.bytes,
    })
}

/// `--compression`, else `sapwood.baseCompression`.
fn level(site: &Site<'_>, request: &Request) -> Result<i32, Failure> {
    let given = match &request.compression {
        Some(text) => Some(text.clone()),
        None => site.repo.config_str(&keys::sapwood::BASE_COMPRESSION),
    };
    let Some(text) = given else { return Ok(frame::DEFAULT_LEVEL) };
    let number = text.to_str().ok().and_then(|text| text.parse().ok());
    number.filter(|number| (1..=19).contains(number)).ok_or_else(|| {
        Failure::fatal(text!("bad level of compression '", text, "': it is a number from 1 to 19"))
    })
}
