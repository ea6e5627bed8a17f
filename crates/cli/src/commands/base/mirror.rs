//! `base mirror`: follows branches of a repository and pushes the bases of their tips.
//!
//! Order of a round: the repository `--dir` is made if it is missing; its branches are fetched; the
//! records of those that the server deleted are removed; each tip whose manifest the remote lacks
//! is pushed. A round changes nothing but that repository and the remote, so two mirrors do not
//! harm each other. In one directory, the second waits for the first.
//!
//! A fetch overwrites and deletes branches, so a mirror works only in a repository that a mirror
//! made: [`MARK`] is set there.

use std::{
    ffi::OsStr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use base_store::{Address, Remote};
use bstr::{BStr, BString, ByteSlice as _};
use engine::base_transfer::{push::Report, records};
use format::{ObjectId, base_files::manifest::split_signature, config::Edit};
use repo::{
    Repository,
    keys::{self, Key},
    wire::url::without_credentials,
};
use serde_json::{Value, json};
use sys::{File, by_path};

use super::{
    push::{self, Bundles},
    request::{MIRROR, Request},
    signature,
    site::{Config, Site, configured_address},
    time,
};
use crate::{
    commands::workspace::context::print_json,
    session::{invocation::Invocation, reexec, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

/// Set in the configuration of a repository that a mirror made.
const MARK: Key<bool> = keys::sapwood::BASE_MIRROR;

/// The longest sleep between two looks for a signal.
const NAP: Duration = Duration::from_millis(200);

/// Runs the command. Returns its exit code: 1 if a branch could not be pushed.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = MIRROR.parse(args)?.store(&mut request)?;
    let dir = request.dir.as_ref().ok_or_else(|| Failure::fatal("name the repository to keep: --dir"))?;
    let interval = match &request.interval {
        Some(word) if !request.once => Some(time::parse(word.as_bstr())?),
        Some(_) => return Err(Failure::fatal("options '--once' and '--interval' cannot be used together")),
        None => None,
    };
    let dir = run.path(dir)?;
    loop {
        let begin = Instant::now();
        let round = round(run, &request, &dir, &words);
        let Some(interval) = interval else { return round };
        // A server that is away now may be there in the next round.
        if let Err(failure) = round {
            if matches!(failure, Failure::Signal(_)) {
                return Err(failure);
            }
            failure.print();
        }
        console::flush();
        while begin.elapsed() < interval {
            run.interrupt.check()?;
            std::thread::sleep(NAP.min(interval.saturating_sub(begin.elapsed())));
        }
    }
}

/// One round. Returns the exit code.
fn round(run: &Invocation, request: &Request, dir: &Path, words: &[BString]) -> Result<u8, Failure> {
    let (address, url) = match words {
        [] => (None, None),
        [address] => (Some(address), None),
        [address, url] => (Some(address), Some(url)),
        _ => return Err(Failure::fatal("name the remote, and at most one URL to mirror")),
    };
    let _lock = lock(dir)?;
    if by_path::stat(dir).map_err(cannot("look at", dir))?.is_none() {
        clone(run, request, dir, url)?;
    }
    // Its programs run, and another user may have made it where this mirror would.
    let repo = Repository::open_owned(&run.outside(), dir)?;
    if !repo.config(&MARK)? {
        return Err(Failure::fatal(text!(
            "'",
            request.dir(),
            "' was not made by 'base mirror', which overwrites branches: name another --dir"
        )));
    }
    if let Some(url) = url {
        take_credentials(request, &repo, url)?;
    }
    let branches = wanted(&repo, request)?;
    let before = heads(&repo)?;
    fetch(run, request, dir, &branches)?;
    // The refs have changed since the repository was opened.
    let repo = repo.open_again()?;
    let address = match address {
        Some(address) => Address::parse(address.as_bstr(), &run.cwd)?,
        None => configured_address(run, &Config::Repository(&repo))?,
    };
    Remote::create(&address)?;
    let site = Site::open(run, repo, None, address)?;
    let now = heads(&site.repo)?;
    let mut reports = Vec::new();
    for (branch, _) in before.iter().filter(|(branch, _)| !now.iter().any(|(other, _)| other == branch)) {
        let removed = records::remove_branch(&site.remote, branch.as_bstr());
        removed.map_err(|error| site.failed(error))?;
        reports.push(json!({"branch": branch.to_str_lossy(), "removed": true}));
        if !request.json && !request.quiet {
            console::out(text!("removed the record of '", branch, "', which is gone from the server"));
        }
    }
    let now = now
        .iter()
        .filter(|(branch, _)| branches.iter().any(|wanted| covers(wanted.as_bstr(), branch.as_bstr())));
    let code = push_tips(&site, request, now, &mut reports)?;
    if request.json {
        print_json(&Value::from(reports));
    }
    Ok(code)
}

/// Checks that the repository mirrors `url`. User and password do not count: a job's token is
/// another one each time. Those of the command line are used from now on.
fn take_credentials(request: &Request, repo: &Repository, url: &BString) -> Result<(), Failure> {
    let key = keys::remote::URL.of("origin");
    let origin = repo.config_str(&key).unwrap_or_default();
    if *url == origin {
        return Ok(());
    }
    let (ours, theirs) = (without_credentials(origin.as_bstr()), without_credentials(url.as_bstr()));
    if ours != theirs {
        return Err(Failure::fatal(text!("'", request.dir(), "' mirrors '", ours, "', not '", theirs, "'")));
    }
    let settings = Settings::read(repo)?;
    let edits = [Edit::Set { key: key.name().into(), value: url.clone() }];
    let path = repo.common_dir().join("config");
    Ok(store::config::edit(&path, &edits, &settings.config_locks, &settings.fsync)?)
}

/// The branches of the mirror, without `refs/heads/`, and their tips.
fn heads(repo: &Repository) -> Result<Vec<(BString, ObjectId)>, Failure> {
    let refs = repo.refs("refs/heads/")?.into_iter();
    Ok(refs.map(|(name, tip)| (name.strip_prefix(b"refs/heads/").unwrap_or(&name).into(), tip)).collect())
}

/// Takes the lock of the mirror, and waits for it. The file stays: its name is the lock.
fn lock(dir: &Path) -> Result<File, Failure> {
    let mut name = dir.file_name().unwrap_or(OsStr::new("mirror")).to_owned();
    name.push(".mirror-lock");
    let path = dir.with_file_name(name);
    // As `git clone` does. On a wrong disk a mirror wastes room, and nothing else.
    if let Some(above) = dir.parent() {
        by_path::create_dir_all(above).map_err(cannot("create", above))?;
    }
    let file = by_path::lock_file(&path, 0o666).map_err(cannot("open", &path))?;
    sys::lock(&file).map_err(cannot("lock", &path))?;
    Ok(file)
}

fn clone(run: &Invocation, request: &Request, dir: &Path, url: Option<&BString>) -> Result<(), Failure> {
    let url =
        url.ok_or_else(|| Failure::fatal(text!("'", request.dir(), "' is missing: name the URL to mirror")))?;
    let mut sapwood = reexec::as_sapwood(run);
    sapwood
        .args(["clone", "--bare", "--no-tags", "--single-branch", "-c"])
        .arg(format!("{}=true", MARK.name()));
    sapwood.args(voice(request));
    sapwood.arg("--").arg(sys::os_str(url)).arg(dir);
    ended(run, sapwood)
}

/// The branches to follow, or patterns of them: those of the command line, else the one of HEAD.
fn wanted(repo: &Repository, request: &Request) -> Result<Vec<BString>, Failure> {
    if !request.branches.is_empty() {
        return Ok(request.branches.clone());
    }
    let target = repo.symbolic_target(BStr::new("HEAD"))?;
    let branch = target.as_ref().and_then(|target| target.strip_prefix(b"refs/heads/"));
    branch
        .map(|branch| vec![branch.into()])
        .ok_or_else(|| Failure::fatal("HEAD names no branch: use --branch"))
}

fn fetch(run: &Invocation, request: &Request, dir: &Path, branches: &[BString]) -> Result<(), Failure> {
    let mut sapwood = reexec::as_sapwood(run);
    sapwood.env("GIT_DIR", dir).args(["fetch", "--no-tags", "--prune", "--no-write-fetch-head"]);
    sapwood.args(voice(request));
    sapwood.arg("origin");
    for branch in branches {
        sapwood.arg(sys::os_str(&text!("+refs/heads/", branch, ":refs/heads/", branch)));
    }
    ended(run, sapwood)
}

fn voice(request: &Request) -> Option<&'static str> {
    match (request.quiet || request.json, request.progress) {
        (true, _) => Some("--quiet"),
        (false, Some(true)) => Some("--progress"),
        (false, Some(false)) => Some("--no-progress"),
        (false, None) => None,
    }
}

fn ended(run: &Invocation, command: Command) -> Result<(), Failure> {
    match reexec::run(run, command)? {
        0 => Ok(()),
        code => Err(Failure::Reported(code)),
    }
}

/// Pushes the tips that have no base. A branch that fails does not stop the others.
fn push_tips<'t>(
    site: &Site<'_>,
    request: &Request,
    tips: impl Iterator<Item = &'t (BString, ObjectId)>,
    reports: &mut Vec<Value>,
) -> Result<u8, Failure> {
    let mut code = 0;
    for (branch, tip) in tips {
        match follow(site, request, branch.as_bstr(), *tip) {
            Ok(report) => reports.push(report),
            Err(failure @ Failure::Signal(_)) => return Err(failure),
            Err(failure) => {
                failure.print();
                console::error(text!("the base of '", branch, "' was not pushed"));
                code = 1;
            }
        }
    }
    Ok(code)
}

fn follow(site: &Site<'_>, request: &Request, branch: &BStr, tip: ObjectId) -> Result<Value, Failure> {
    let known = records::branch(&site.remote, branch).ok().flatten();
    let is_newest = known.is_some_and(|known| known.commits.first() == Some(&tip));
    let signs = signature::is_wanted(&site.repo, request.sign)?;
    let is_enough = |manifest: Vec<u8>| !signs || split_signature(&manifest).1.is_some();
    if is_newest && site.remote.record(&records::commit_name(&tip))?.is_some_and(is_enough) {
        // A mirror that was killed may owe the bundle.
        push::bundles(site, request, tip, Some(branch), Bundles::Unless)?;
        let was_there = Report { was_there: true, ..Report::default() };
        return Ok(json!({"branch": branch.to_str_lossy(), "base": push::described(tip, &was_there)}));
    }
    let pushed = push::push(site, request, tip, Some(branch), Bundles::Unless)?;
    if !request.json {
        push::report(request, site.remote.address(), tip, &pushed);
    }
    Ok(json!({"branch": branch.to_str_lossy(), "base": push::described(tip, &pushed)}))
}

/// Returns true if a branch is the wanted one, or matches a pattern with one `*`, as in a refspec.
fn covers(wanted: &BStr, branch: &BStr) -> bool {
    match wanted.split_once_str("*") {
        None => wanted == branch,
        Some((before, after)) => {
            branch.len() >= before.len() + after.len()
                && branch.starts_with(before)
                && branch.ends_with(after)
        }
    }
}

fn cannot(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |error| Failure::fatal(format!("cannot {action} '{}': {}", path.display(), os_error(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_refspecs() {
        let covers = |wanted: &str, branch: &str| covers(wanted.into(), branch.into());
        assert!(covers("main", "main") && covers("*", "a/b") && covers("release/*", "release/1"));
        assert!(!covers("main", "main2") && !covers("release/*", "release") && !covers("a*a", "a"));
    }
}
