//! `base verify`: reads a base at the remote as a host does that has nothing, and keeps nothing.
//!
//! Order: an empty repository and an empty base directory are made in the repository; the base is
//! pulled into them, which compares every file with its digest, and every object and content with
//! its id; both are removed.

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use engine::{
    base_transfer::{Context, Error, pull},
    workspace::base::Bases,
};
use format::ObjectId;
use repo::{OpenOptions, Repository};
use serde_json::json;
use store::Fsync;
use sys::by_path;

use super::{
    display::Display,
    pull::wanted,
    request::{Request, VERIFY},
    signature::Signers,
    site::{Config, Site, context, take_address},
};
use crate::{
    commands::workspace::context::print_json,
    session::{invocation::Invocation, reexec},
    term::{console, failure::Failure, text::bytes::readable, text::os_error},
};

/// Runs the command. Returns its exit code: 1 if the base has a flaw.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = VERIFY.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let address = take_address(run, &Config::Repository(&repo), &mut words)?;
    let name = match words.as_slice() {
        [] => None,
        [name] => Some(name.as_bstr()),
        _ => return Err(Failure::fatal("name the remote, and at most one commit")),
    };
    let site = Site::open(run, repo, None, address)?;
    let commit = wanted(&site, &request, name)?;
    let flaw = match read(&site, &request, commit)? {
        Ok(report) if request.json => {
            print_json(&json!({
                "commit": commit.to_string(), "flaw": null,
                "contents": report.contents, "bytes": report.bytes,
            }));
            return Ok(0);
        }
        Ok(report) => {
            if !request.quiet {
                console::out(format!(
                    "the base of {commit} is sound: {} contents, {}",
                    report.contents,
                    readable(report.bytes)
                ));
            }
            return Ok(0);
        }
        Err(flaw) => flaw.to_string(),
    };
    if request.json {
        print_json(&json!({"commit": commit.to_string(), "flaw": flaw}))
    } else {
        console::out(flaw)
    }
    Ok(1)
}

/// Reads the base. Returns its flaw if it has one, and fails if it could not be read.
fn read(
    site: &Site<'_>,
    request: &Request,
    commit: ObjectId,
) -> Result<Result<pull::Report, Error>, Failure> {
    let Site { run, settings, remote, .. } = site;
    let room = Room::new(site)?;
    let repo = room.repository(site)?;
    let bases = Bases::at(&room.dir.join("bases"));
    let signers = Signers::configured(&site.repo)?;
    let verify = |manifest: &[u8], signature: Option<&[u8]>| match &signers {
        Some(signers) => signers.check(manifest, signature),
        None => Ok(()),
    };
    let options = pull::Options { verify: Some(&verify), lists: true, ..pull::Options::default() };
    let quiet = request.quiet || request.json;
    let display = Display::new(request.progress, quiet);
    let step = |step| display.step(step);
    let fsync = Fsync { disabled: true, ..Fsync::default() };
    let parts = Context { fsync: &fsync, ..context(run, &repo, settings, remote, &bases, &step) };
    let pulled = pull::pull(&parts, commit, &options).map(|pulled| pulled.report);
    display.end(&pulled);
    match pulled {
        Err(error) if !error.is_flaw() => Err(site.failed(error)),
        read => Ok(read),
    }
}

/// A directory that goes away with this value.
struct Room {
    dir: PathBuf,
}

impl Room {
    fn new(site: &Site<'_>) -> Result<Room, Failure> {
        let above = site.repo.real_common_dir().join("sapwood");
        let dir = above.join(format!("verify.{}", std::process::id()));
        let _ = by_path::remove_dir_all(&dir);
        let made = by_path::create_dir_all(&above).and_then(|()| by_path::create_dir(&dir));
        made.map_err(|error| {
            Failure::fatal(format!("cannot create '{}': {}", dir.display(), os_error(&error)))
        })?;
        Ok(Room { dir })
    }

    /// Makes an empty repository.
    fn repository(&self, site: &Site<'_>) -> Result<Repository, Failure> {
        let dir = self.dir.join("repository");
        let mut sapwood = reexec::as_sapwood(site.run);
        let format = format!("--object-format={}", site.repo.hash().name());
        sapwood.args(["init", "--quiet", "--bare", "--template=", &format]).arg(&dir);
        match reexec::run(site.run, sapwood)? {
            0 => Ok(Repository::open(&OpenOptions { git_dir: Some(dir), ..site.run.outside() })?),
            code => Err(Failure::Reported(code)),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = by_path::remove_dir_all(&self.dir);
    }
}
