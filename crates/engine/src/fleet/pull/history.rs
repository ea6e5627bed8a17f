//! Brings the packs of a base, if an object of its commit or trees is missing.
//!
//! Packs that came earlier are not fetched again, unless objects are still missing without them:
//! `gc` may have removed them. The boundary of the history goes into the file `shallow`, as a fetch
//! with `--depth` writes it.

use std::{
    io::{Seek as _, SeekFrom},
    sync::atomic::{AtomicU64, Ordering},
};

use format::{
    ObjectId,
    fleet::{DataFile, Digest, Manifest},
    index::{Flags, Index},
};
use repo::{
    Links, Repository,
    fsck::Rules,
    indexing::Meter,
    objects::{Kind, Objects},
};
use sys::by_path;

use super::{
    super::{Context, Error, Phase, pulled, records::address, stock::Stock},
    Options, Report,
};
use crate::{
    fetch::{
        connected::{self, Connected},
        shallow::Shallow,
    },
    indexing::incoming::{self, Keeping, Purpose, Settings, StoreOptions},
    look::{LookError, protect},
    workspace::base::index_of,
};

/// Makes the history of the manifest's commit complete. Returns the index of its tree.
pub(super) fn bring(
    stock: &Stock<'_>,
    manifest: &Manifest,
    options: &Options<'_>,
    report: &mut Report,
) -> Result<Index, Error> {
    let repo = stock.context.repo;
    let mut index = whole(stock, manifest)?;
    if index.is_none() {
        if !repo.stored_objects().contains(&manifest.commit) {
            pulled::note_commit(stock.context, &manifest.commit)?;
        }
        let files = manifest.packs.iter().map(|pack| pack.file);
        let (old, new): (Vec<DataFile>, Vec<DataFile>) =
            files.partition(|file| pulled::has_pack(stock.context, &file.digest));
        for files in [new, old] {
            take(stock, &files, report)?;
            index = whole(stock, manifest)?;
            if index.is_some() {
                break;
            }
        }
    }
    let commit = manifest.commit;
    let Some(mut index) = index else {
        let oid = missing(stock, manifest)?.unwrap_or(commit);
        return Err(Error::Incomplete { remote: address(stock.context.remote), commit, oid });
    };
    cut(repo, stock.context, manifest)?;
    if let Some(patterns) = options.sparse {
        let outside = patterns.outside(&index);
        let entries = index.entries_mut().iter_mut().zip(outside).filter(|(_, is_outside)| *is_outside);
        entries.for_each(|(entry, _)| entry.flags.insert(Flags::SKIP_WORKTREE));
    }
    Ok(index)
}

/// Fails if a list names an object that no pack brought.
pub(super) fn compare_lists(stock: &Stock<'_>, manifest: &Manifest) -> Result<(), Error> {
    let objects = stock.context.repo.stored_objects();
    for pack in &manifest.packs {
        if let Some(oid) = stock.list(pack)?.into_iter().find(|oid| !objects.contains(oid)) {
            let reason = format!("it names the object {oid}, which is in no pack");
            return Err(stock.damaged(&pack.list.digest, reason));
        }
    }
    Ok(())
}

/// Returns the index of the commit's tree, if the commit and all its trees are here.
fn whole(stock: &Stock<'_>, manifest: &Manifest) -> Result<Option<Index>, Error> {
    let (repo, commit) = (stock.context.repo, manifest.commit);
    let objects = repo.stored_objects();
    let Some(links) = links(&objects, &commit)? else { return Ok(None) };
    if links.tree != manifest.tree {
        let (remote, name) = (address(stock.context.remote), format!("commits/{commit}"));
        let reason = format!("the commit has the tree {}, not {}", links.tree, manifest.tree);
        return Err(Error::WrongRecord { remote, name, reason });
    }
    match index_of(&objects, links.tree, protect(repo)?) {
        Ok(index) => Ok(Some(index)),
        Err(LookError::NoTree(_)) => Ok(None),
        Err(source) => Err(Error::Trees { commit, source: Box::new(source) }),
    }
}

/// Returns an object that the commit needs and that is not here.
fn missing(stock: &Stock<'_>, manifest: &Manifest) -> Result<Option<ObjectId>, Error> {
    let repo = stock.context.repo;
    let objects = repo.stored_objects();
    match index_of(&objects, manifest.tree, protect(repo)?) {
        Err(LookError::NoTree(oid)) => Ok(Some(oid)),
        _ => Ok(None),
    }
}

/// Returns the links of a commit, parents beyond the boundary of the history included.
fn links(objects: &Objects, oid: &ObjectId) -> Result<Option<Links>, Error> {
    if !objects.contains(oid) {
        return Ok(None);
    }
    let mut reader = objects.reader();
    let read = reader.read(oid);
    let links = match read.map_err(|source| Error::Object { oid: *oid, source: Box::new(source) })? {
        (Kind::Commit, data) => Links::parse(oid.kind(), data),
        _ => None,
    };
    links.map(Some).ok_or(Error::Kind { oid: *oid, expected: "commit" })
}

/// Fetches packs and adds them to the repository, in order.
fn take(stock: &Stock<'_>, files: &[DataFile], report: &mut Report) -> Result<(), Error> {
    let context = stock.context;
    let total = files.iter().map(|file| file.size).sum();
    let done = AtomicU64::new(0);
    for file in files {
        let came = stock.download(*file, &|bytes| {
            let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            context.report(Phase::History, done, total);
        })?;
        let failed = |source| Error::Io { action: "read", path: came.path.clone(), source };
        let mut pack = by_path::open(&came.path).map_err(failed)?;
        pack.seek(SeekFrom::Start(0)).map_err(failed)?;
        install(stock, &mut pack, &file.digest)?;
        pulled::note_pack(context, &file.digest);
        report.packs += 1;
    }
    Ok(())
}

/// Indexes a pack, which names each object by its hash, and publishes it.
fn install(stock: &Stock<'_>, pack: &mut sys::File, digest: &Digest) -> Result<(), Error> {
    let context = stock.context;
    let repo = context.repo;
    let settings = Settings { keeping: Keeping::Packed, ..Settings::load(repo, Purpose::Fetch)? };
    let promisor = repo.objects().is_partial().then(|| format!("{} base\n", stock.commit).into_bytes());
    let (rules, _) = Rules::of_fetch(repo)?;
    // Git leaves the severities of single flaws out where objects are promised.
    let rules = rules.map(|rules| if promisor.is_some() { Rules::strict(repo.hash()) } else { rules });
    let existing = repo.stored_objects();
    let meter = Meter::default();
    let store_options = StoreOptions {
        objects: repo.objects_dir(),
        hash: repo.hash(),
        settings: &settings,
        fsync: context.fsync,
        shared: context.locks.shared,
        existing: Some(&existing),
        promisor,
        keep: None,
        interrupt: context.interrupt,
        meter: &meter,
        observer: None,
        rules: rules.as_ref(),
        say: &|_| {},
        keeps_partial: false,
    };
    match incoming::store_pack(pack, &store_options) {
        Ok(_) => Ok(()),
        Err(incoming::Error::Interrupted) => Err(Error::Interrupted),
        Err(source) => {
            let (remote, path) = (address(context.remote), digest.path());
            Err(Error::Pack { remote, path, source: Box::new(source) })
        }
    }
}

/// Cuts the history where the base does, unless what lies beyond is here. Without a promisor remote
/// it ends at the commit: the blobs of earlier ones do not come.
fn cut(repo: &Repository, context: &Context<'_>, manifest: &Manifest) -> Result<(), Error> {
    let ends = match repo.objects().is_partial() {
        true => manifest.shallow.as_slice(),
        false => std::slice::from_ref(&manifest.commit),
    };
    if ends.is_empty() {
        return Ok(());
    }
    let objects = repo.stored_objects();
    let shallow = Shallow::read(repo)?;
    let mut commits = shallow.commits.clone();
    for oid in ends.iter().filter(|oid| !shallow.commits.contains(*oid)) {
        let Some(links) = links(&objects, oid)? else { continue };
        let options = connected::Options { workers: context.workers, interrupt: context.interrupt };
        let is_complete = match connected::check(repo, &links.parents, options) {
            Ok(connected) => connected == Connected::Complete,
            Err(connected::Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => return Err(Error::Connected(error)),
        };
        if !is_complete {
            commits.insert(*oid);
        }
    }
    Ok(shallow.replace(repo, &commits, context.fsync, context.locks)?)
}
