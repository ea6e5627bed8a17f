//! A transfer that broke off: what came of it is kept, and the same command goes on with it.
//!
//! Promise: a resumed clone is an ordinary full one. Nothing of it is visible before all of it is
//! here. A server that does not send what it is asked for by name ends the clone.
//!
//! Order: the packs of the interrupted run are set aside in [`TRANSFER`], which no reader looks
//! into. Each that broke off becomes a pack of its whole objects. The server is asked where a
//! shallow history ends. A walk from the refs finds the missing commits (`commits`), then the
//! missing trees and blobs (`trees`). They are asked for by name (`request`), in batches, each of
//! which stays as a pack. Objects are checked when all are there (`checked`). At the end the
//! directory takes the place of `objects/pack`.
//!
//! If what came is worth less than the questions, or the server does not answer them, it is
//! dropped, and the transfer begins anew.

mod checked;
mod commits;
mod promised;
mod request;
mod trees;

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use format::ObjectId;
use repo::{
    pack_indexing,
    wire::{Connection, Version},
};
use store::Components;
use sys::by_path;

pub(super) use self::promised::keep_promised;
use self::{
    commits::{Found, History},
    request::{Answer, BATCH, Requests, Scope},
    trees::{Job, Missing, Walk},
};
use super::{
    Caller, Event,
    junk::gone,
    marker,
    objects::{Error, io_error},
    packs::Packs,
    server::Fetch,
};
use crate::pack_indexing::incoming::{self, Program};

/// The directory of the packs that are set aside, in the Git directory.
pub(super) const TRANSFER: &str = "sapwood-transfer";

/// The only filter with which a transfer is resumed: the names of objects tell what it leaves out.
pub(super) const FILTER: &str = "blob:none";

/// A transfer with fewer bytes is sooner repeated than resumed, unless it took long.
const LARGE: u64 = 8 << 20;

/// A transfer of so many seconds took long.
const LONG: i64 = 10;

/// The transfers that are kept if they break off: `sapwood.resumableClone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// `true`
    All,
    /// `auto`
    Large,
    /// `false`
    Nothing,
}

/// How a resumed transfer ended.
pub(super) enum Outcome {
    /// All objects are here. The history ends at these commits.
    Finished(Vec<ObjectId>),
    /// The transfer has to begin anew, over this connection if it still is of use.
    Useless(Option<Connection>),
}

/// Returns true if the packs in a Git directory without refs are worth keeping.
pub(super) fn is_worth_keeping(git_dir: &Path, keeping: Keeping) -> bool {
    // A directory that cannot be listed holds nothing of use.
    let packs = |directory: PathBuf| packs_in(&directory.join("pack")).unwrap_or_default();
    if keeping == Keeping::Nothing {
        return false;
    }
    if !packs(git_dir.join(TRANSFER)).is_empty() {
        return true;
    }
    let stats = packs(git_dir.join("objects"));
    let stats: Vec<_> = stats.iter().filter_map(|path| by_path::stat(path).ok().flatten()).collect();
    let bytes: u64 = stats.iter().map(|stat| stat.size).sum();
    let last = stats.iter().map(|stat| stat.mtime.0).max();
    let took = last.zip(marker::begun(git_dir)).map_or(0, |(last, first)| last - first);
    bytes > format::pack::HEADER_LEN as u64 && (keeping == Keeping::All || bytes >= LARGE || took >= LONG)
}

/// Returns the packs in a directory, those that broke off included.
fn packs_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_pack = |name: &OsStr| {
        let name = name.as_encoded_bytes();
        name.starts_with(b"tmp_pack_") || name.ends_with(b".pack")
    };
    let listed = by_path::list(directory)?.into_iter().filter(|(name, _)| is_pack(name));
    Ok(listed.map(|(name, _)| directory.join(name)).collect())
}

/// Moves the packs of a Git directory to [`TRANSFER`], unless some are there.
pub(super) fn set_aside(git_dir: &Path) -> io::Result<()> {
    let transfer = git_dir.join(TRANSFER);
    match by_path::create_dir(&transfer) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if packs_in(&transfer.join("pack")).is_ok_and(|packs| !packs.is_empty()) {
        return Ok(());
    }
    gone(by_path::rename(&git_dir.join("objects/pack"), &transfer.join("pack")))
}

/// Removes the packs that were set aside.
pub(super) fn discard(git_dir: &Path) -> Result<(), Error> {
    let transfer = git_dir.join(TRANSFER);
    gone(by_path::remove_dir_all(&transfer)).map_err(io_error("remove", &transfer))
}

/// Makes the packs those of the repository. They appear at once, unless a template brought packs.
pub(super) fn install(packs: &Packs<'_>) -> Result<(), Error> {
    let objects = &packs.objects;
    let (from, to) = (packs.skeleton.git_dir().join(TRANSFER).join("pack"), objects.join("pack"));
    let failed = |error| io_error("create", &to)(error);
    match by_path::rename(&from, &to) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) =>
        {
            let mut entries = by_path::list(&from).map_err(failed)?;
            // A pack appears with its index.
            entries.sort_by_key(|(name, _)| Path::new(name).extension() == Some("idx".as_ref()));
            for (name, _) in entries {
                by_path::rename(&from.join(&name), &to.join(&name)).map_err(failed)?;
            }
        }
        renamed => renamed.map_err(failed)?,
    }
    for directory in [&to, objects] {
        let synced =
            packs.skeleton.writing.fsync.directory(Components::PACK | Components::PACK_METADATA, directory);
        synced.map_err(io_error("sync", directory))?;
    }
    discard(packs.skeleton.git_dir())
}

/// Brings what is missing beside the packs that were set aside.
pub(super) fn go_on(connection: Connection, fetch: &Fetch<'_>) -> Result<Outcome, Error> {
    if connection.version() != Version::V2 || connection.writes_objects() {
        return Ok(Outcome::Useless(Some(connection)));
    }
    let transfer = fetch.packs.skeleton.git_dir().join(TRANSFER);
    let Some(leads) = salvage(&transfer, fetch)? else {
        return Ok(Outcome::Useless(Some(connection)));
    };
    let mut requests = Requests::new(connection, &transfer, fetch);
    match complete(&mut requests, &leads)? {
        Answer::Came => {
            checked::check(&transfer, fetch)?;
            Ok(Outcome::Finished(requests.ends))
        }
        Answer::Refused => Ok(Outcome::Useless(requests.into_connection())),
    }
}

/// Makes whole packs of those that broke off. Returns commits at which the history may begin, or
/// `None` if nothing is of use.
fn salvage(transfer: &Path, fetch: &Fetch<'_>) -> Result<Option<Vec<ObjectId>>, Error> {
    let directory = transfer.join("pack");
    let interrupt = fetch.packs.skeleton.caller.interrupt;
    let store_options = fetch.packs.options(transfer, fetch.promisor_content());
    let (mut leads, mut whole) = (Vec::new(), 0);
    for path in tidied(&directory).map_err(io_error("opendir", &directory))? {
        if is_indexed(&path) {
            whole += 1;
            continue;
        }
        let meter = pack_indexing::Meter::default();
        let options = pack_indexing::Options { meter: &meter, ..store_options.options() };
        let finish = fetch.packs.settings.finish();
        let promisor = store_options.promisor.clone();
        match crate::pack_indexing::salvage(&path, store_options.target(), &finish, promisor, &options) {
            Ok(None) => {}
            Ok(Some(salvaged)) => {
                whole += 1;
                leads.extend(salvaged.first_commits);
            }
            Err(_) if interrupt.load(Ordering::Relaxed) => return Err(incoming::Error::Interrupted.into()),
            // The file is damaged: what a disk lost cannot be told from what a server forged.
            Err(crate::pack_indexing::Error::Pack(error))
                if !matches!(error, pack_indexing::Error::Read(_)) =>
            {
                return Ok(None);
            }
            Err(cause) => {
                return Err(incoming::Error::Refused { program: Program::IndexPack, cause }.into());
            }
        }
    }
    Ok((whole > 0).then_some(leads))
}

/// Returns true if a pack has an index.
fn is_indexed(pack: &Path) -> bool {
    pack.extension() == Some("pack".as_ref())
        && matches!(by_path::stat(&pack.with_extension("idx")), Ok(Some(_)))
}

/// Returns the packs in a directory, and removes everything else but the files beside a pack.
fn tidied(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let packs = packs_in(directory)?;
    for (name, _) in by_path::list(directory)? {
        let path = directory.join(&name);
        let is_beside = matches!(path.extension().and_then(OsStr::to_str), Some("idx" | "rev" | "promisor"))
            && packs.contains(&path.with_extension("pack"));
        if !packs.contains(&path) && !is_beside {
            by_path::remove_file(&path)?;
        }
    }
    Ok(packs)
}

/// Asks for everything that the refs need and that is not here. `leads` may lead to more history.
fn complete(requests: &mut Requests<'_>, leads: &[ObjectId]) -> Result<Answer, Error> {
    let Fetch { selection, limits, packs, .. } = *requests.fetch;
    let (interrupt, can_omit) = (packs.skeleton.caller.interrupt, requests.can_omit);
    let tips: Vec<ObjectId> = selection.mapped.iter().map(|mapped| mapped.theirs.oid).collect();
    let objects = requests.objects();
    let mut found = commits::walk(&objects, History { tips: &tips, ends: &[] }, leads, interrupt)?;
    if !found.roots.iter().any(|tree| objects.contains_listed(tree)) {
        // Only commits came. They are less than the questions for all trees would cost.
        return Ok(Answer::Refused);
    }
    if limits.deepens() {
        if !can_omit || requests.ask_for_ends(&tips, &found.present(&tips))? == Answer::Refused {
            return Ok(Answer::Refused);
        }
        let history = History { tips: &tips, ends: &requests.ends };
        found = commits::walk(&requests.objects(), history, leads, interrupt)?;
    }
    if !found.missing.is_empty() {
        if !can_omit || requests.ask(&found.missing, &found.complete, Scope::Named)? == Answer::Refused {
            return Ok(Answer::Refused);
        }
        let history = History { tips: &tips, ends: &requests.ends };
        found = commits::walk(&requests.objects(), history, &[], interrupt)?;
        if !found.missing.is_empty() {
            return Err(Error::Incomplete);
        }
    }
    if tags(requests, &tips, &found)? == Answer::Refused {
        return Ok(Answer::Refused);
    }
    let walk = Walk::new(interrupt);
    let jobs = found.roots.into_iter().map(Job::root).collect();
    if trees(requests, &walk, jobs)? == Answer::Refused {
        return Ok(Answer::Refused);
    }
    match limits.filter {
        Some(_) if can_omit => Ok(Answer::Came),
        _ => requests.ask_all(&walk.into_missing_blobs()),
    }
}

/// Asks for the trees that are missing below `jobs`.
fn trees(requests: &mut Requests<'_>, walk: &Walk<'_>, mut jobs: Vec<Job>) -> Result<Answer, Error> {
    let workers = requests.fetch.options().workers();
    let mut missing = Vec::new();
    loop {
        missing.extend(walk.run(&requests.objects(), jobs, workers)?);
        missing.sort_unstable();
        let Some(depth) = missing.first().map(|tree| tree.depth) else { return Ok(Answer::Came) };
        if !requests.can_omit {
            return Ok(Answer::Refused);
        }
        // Git leaves out a tree that it meets in another one before it comes to its name.
        let level = missing.partition_point(|tree| tree.depth == depth);
        for batch in missing[..level].chunks(BATCH) {
            let names: Vec<ObjectId> = batch.iter().map(|tree| tree.oid).collect();
            if requests.ask_for_some(&names)? == Answer::Refused {
                return Ok(Answer::Refused);
            }
        }
        let objects = requests.objects();
        let came: Vec<Missing>;
        (came, missing) = missing.into_iter().partition(|tree| objects.contains_listed(&tree.oid));
        jobs = came.iter().map(Job::of).collect();
    }
}

/// Asks for the tags that the server would have sent with the commits they name.
fn tags(requests: &mut Requests<'_>, tips: &[ObjectId], found: &Found) -> Result<Answer, Error> {
    let objects = requests.objects();
    let mut missing = Vec::new();
    for tag in &requests.fetch.selection.follow_tags {
        let is_reached = found.reaches(tag.peeled.as_ref().unwrap_or(&tag.oid));
        match (is_reached, objects.contains_listed(&tag.oid)) {
            (true, false) => missing.push(tag.oid),
            // The branch was reset since. The tag would become a ref without all of its history.
            (false, true) => return Ok(Answer::Refused),
            _ => {}
        }
    }
    if missing.is_empty() {
        Ok(Answer::Came)
    } else {
        // The history of the tips is complete, so nothing but the tags comes.
        let scope = if requests.can_omit { Scope::Named } else { Scope::Reachable };
        requests.ask(&missing, tips, scope)
    }
}
