//! Brings the packs of a base, if an object of its commit or trees is missing.
//!
//! Packs that came earlier are not fetched again, unless objects are still missing without them:
//! `gc` may have removed them, and later packs have deltas against theirs. The boundary of the
//! history goes into the file `shallow`, as a fetch with `--depth` writes it.

use std::{
    io::{Seek as _, SeekFrom},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use format::{
    ObjectId,
    base_files::{DataFile, Digest, Manifest},
    index::{Flags, Index},
};
use repo::{
    Links, Repository,
    fsck::Rules,
    objects::{Kind, Objects},
    pack_indexing::Meter,
};
use sys::by_path;

use super::{
    super::{Context, Error, Phase, pulled, records::address, stock::Stock},
    Needs, Options, Report, plan,
};
use crate::{
    crew::parallel,
    fetch::{
        connected::{self, Connected},
        shallow::Shallow,
    },
    look::{LookError, protect},
    pack_indexing::incoming::{self, Keeping, Purpose, Settings, StoreOptions},
    workspace::base::{check_trees, index_of},
};

/// The trees of a commit.
enum Trees {
    /// All are here. The index is there if it is needed.
    Whole(Option<Box<Index>>),
    /// This object is missing.
    Lack(ObjectId),
}

/// Makes the history of the manifest's commit complete. Returns the index of its tree if contents
/// are needed too; then tables come beside the packs.
pub(super) fn bring(
    stock: &Stock<'_>,
    manifest: &Manifest,
    needs: Needs,
    options: &Options<'_>,
    report: &mut Report,
) -> Result<Option<Box<Index>>, Error> {
    let repo = stock.context.repo;
    let mut trees = look(stock, manifest, needs)?;
    if let Trees::Lack(_) = trees {
        if !repo.stored_objects().contains(&manifest.commit) {
            pulled::note_commit(stock.context, &manifest.commit)?;
        }
        let all: Vec<DataFile> = manifest.packs.iter().map(|pack| pack.file).collect();
        let is_new = |file: &&DataFile| !pulled::has_pack(stock.context, &file.digest);
        let new: Vec<DataFile> = all.iter().filter(is_new).copied().collect();
        let is_complete = thread::scope(|scope| {
            if needs == Needs::Contents {
                let is_first = new.len() == all.len();
                scope.spawn(move || plan::prefetch(stock, manifest, is_first));
            }
            take(stock, &new, report)
        })?;
        if is_complete {
            trees = look(stock, manifest, needs)?;
        }
        if matches!(trees, Trees::Lack(_)) && new.len() < all.len() {
            take(stock, &all, report)?;
            trees = look(stock, manifest, needs)?;
        }
    }
    let mut index = match trees {
        Trees::Whole(index) => index,
        Trees::Lack(oid) => {
            let (remote, commit) = (address(stock.context.remote), manifest.commit);
            return Err(Error::Incomplete { remote, commit, oid });
        }
    };
    cut(repo, stock.context, manifest)?;
    if let Some((patterns, index)) = options.sparse.zip(index.as_deref_mut()) {
        let outside = patterns.outside(index);
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

/// Looks for the commit and all its trees.
fn look(stock: &Stock<'_>, manifest: &Manifest, needs: Needs) -> Result<Trees, Error> {
    let (repo, commit) = (stock.context.repo, manifest.commit);
    let objects = repo.stored_objects();
    let Some(links) = links(&objects, &commit)? else { return Ok(Trees::Lack(commit)) };
    if links.tree != manifest.tree {
        let (remote, name) = (address(stock.context.remote), format!("commits/{commit}"));
        let reason = format!("the commit has the tree {}, not {}", links.tree, manifest.tree);
        return Err(Error::WrongRecord { remote, name, reason });
    }
    let found = match needs {
        Needs::Contents => index_of(&objects, links.tree, protect(repo)?).map(|index| Some(Box::new(index))),
        Needs::History => check_trees(&objects, links.tree).map(|()| None),
    };
    match found {
        Ok(index) => Ok(Trees::Whole(index)),
        Err(LookError::NoTree(oid)) => Ok(Trees::Lack(oid)),
        Err(source) => Err(Error::Trees { commit, source: Box::new(source) }),
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

/// Fetches packs and adds them to the repository, in order. Returns false at one that needs objects
/// of a pack before it which are not here.
fn take(stock: &Stock<'_>, files: &[DataFile], report: &mut Report) -> Result<bool, Error> {
    let context = stock.context;
    let total = files.iter().map(|file| file.size).sum();
    let done = AtomicU64::new(0);
    let threads = parallel::threads(files.len(), 1, context.connections);
    let came = parallel::map(files, &mut vec![(); threads], |(), file| {
        stock.download(*file, &|bytes| {
            let done = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            context.report(Phase::History, done, total);
        })
    })?;
    for (file, came) in files.iter().zip(came) {
        let failed = |source| Error::Io { action: "read", path: came.path.clone(), source };
        let mut pack = by_path::open(&came.path).map_err(failed)?;
        pack.seek(SeekFrom::Start(0)).map_err(failed)?;
        if !install(stock, &mut pack, &file.digest)? {
            return Ok(false);
        }
        pulled::note_pack(context, &file.digest);
        report.packs += 1;
    }
    Ok(true)
}

/// Indexes a pack, which names each object by its hash, and publishes it. Returns false if the pack
/// needs objects that are not here.
fn install(stock: &Stock<'_>, pack: &mut sys::File, digest: &Digest) -> Result<bool, Error> {
    let context = stock.context;
    let repo = context.repo;
    let settings = Settings { keeping: Keeping::Packed, ..Settings::load(repo, Purpose::Fetch)? };
    let promisor = repo.objects().is_partial().then(|| format!("{} base\n", stock.commit).into_bytes());
    let (rules, _) = repo.fetch_rules()?;
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
        Ok(_) => Ok(true),
        Err(error) if error.lacks_base() => Ok(false),
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
    let ends = if repo.objects().is_partial() {
        manifest.shallow.as_slice()
    } else {
        std::slice::from_ref(&manifest.commit)
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
