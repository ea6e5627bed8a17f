//! Checks that all objects reachable from new tips exist locally: `git rev-list --objects --not
//! --all`.
//!
//! Promise: history that is reachable from a ref counts as complete, as in Git. All other objects
//! that are reachable from the tips are looked up. The check fetches no objects and ignores replace
//! refs.
//!
//! Order: find the commits that are not reachable from refs (`history.rs`, one thread), then check
//! their trees and blobs (all cores). A tree is compared with that of the first parent, and only
//! differences are followed. A clone has no refs yet, so each tree is read once, unless `links.rs`
//! has collected the links while the pack arrived.

mod history;
mod links;
mod trees;

use std::{collections::HashMap, path::PathBuf, sync::atomic::AtomicBool};

use format::ObjectId;
use repo::{
    Repository,
    objects::{Kind, Objects},
    tag_target,
};
use sys::by_path;

pub(crate) use self::links::Links;

use self::history::WalkResult;
use crate::crew::Workers;

/// The reason why the check has no result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Repo(#[from] repo::Error),
}

/// The result of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// All reachable objects exist.
    Complete,
    /// This object is missing or damaged.
    Missing(ObjectId),
}

/// The options of the check.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The number of threads that read trees.
    pub workers: Workers,
    /// Raised to stop the check.
    pub interrupt: &'a AtomicBool,
}

/// Checks all of `tips`. `repo` must have been opened after the last change of the file `shallow`.
pub fn check(repo: &Repository, tips: &[ObjectId], options: Options<'_>) -> Result<Connected, Error> {
    let objects = repo.stored_objects();
    if let Some(missing) = tips.iter().find(|tip| !objects.contains(tip)) {
        return Ok(Connected::Missing(*missing));
    }
    let is_partial = repo.objects().is_partial();
    let mut promisor_packs = PromisorPacks::default();
    if is_partial && tips.iter().all(|tip| promisor_packs.contain(&objects, tip)) {
        return Ok(Connected::Complete);
    }
    let known = known(repo, &objects)?;
    let new: Vec<ObjectId> = tips.iter().filter(|tip| !known.contains(tip)).copied().collect();
    if new.is_empty() {
        return Ok(Connected::Complete);
    }
    let mut roots = Roots::default();
    for tip in &new {
        if let Err(missing) = roots.add(&objects, tip) {
            return Ok(Connected::Missing(missing));
        }
    }
    let found = history::new_commits(repo, &objects, &roots.commits, &known, options.interrupt)?;
    let walk = trees::Walk::new(&objects, is_partial, options.interrupt);
    let missing = match found {
        WalkResult::Missing(oid) if !is_partial => Some(oid),
        WalkResult::Missing(_) => None,
        WalkResult::Commits(mut jobs) => {
            jobs.extend(roots.trees.iter().map(|tree| trees::Job { tree: *tree, base: None }));
            walk.run(jobs, options.workers)
        }
    };
    match missing {
        _ if options.interrupt.load(std::sync::atomic::Ordering::Relaxed) => Err(Error::Interrupted),
        Some(oid) => Ok(Connected::Missing(oid)),
        None => Ok(Connected::Complete),
    }
}

/// Caches for each pack whether it is a promisor pack. Objects to which such a pack refers are
/// promised.
#[derive(Default)]
pub(super) struct PromisorPacks(HashMap<PathBuf, bool>);

impl PromisorPacks {
    /// Returns true if the object is in a promisor pack.
    pub(super) fn contain(&mut self, objects: &Objects, oid: &ObjectId) -> bool {
        let mut is_promisor = |file: PathBuf| match self.0.get(&file) {
            Some(known) => *known,
            None => {
                let mark = file.with_extension("promisor");
                let found = file.extension().is_some() && matches!(by_path::stat(&mark), Ok(Some(_)));
                self.0.insert(file, found);
                found
            }
        };
        objects.files_of(oid).into_iter().any(&mut is_promisor)
    }
}

/// Returns the objects of all refs, of HEAD, and of the refs in alternate repositories.
fn known(repo: &Repository, objects: &Objects) -> Result<std::collections::HashSet<ObjectId>, Error> {
    let refs = repo.refs("refs/")?.into_iter().map(|(_, oid)| oid);
    let head = repo.head().ok().and_then(|head| head.oid());
    Ok(refs.chain(head).chain(repo.alternate_tips(objects)).filter(|oid| !oid.is_null()).collect())
}

/// The objects to which the tips peel.
#[derive(Default)]
struct Roots {
    commits: Vec<ObjectId>,
    trees: Vec<ObjectId>,
}

impl Roots {
    /// Adds a tip, and peels tags. The error is the name of an object that cannot be read.
    fn add(&mut self, objects: &Objects, tip: &ObjectId) -> Result<(), ObjectId> {
        let (mut reader, mut oid) = (objects.reader(), *tip);
        loop {
            match reader.header(&oid).map_err(|_| oid)?.0 {
                Kind::Commit => self.commits.push(oid),
                Kind::Tree => self.trees.push(oid),
                Kind::Blob => {}
                Kind::Tag => {
                    let (_, data) = reader.read(&oid).map_err(|_| oid)?;
                    oid = tag_target(oid.kind(), data).ok_or(oid)?;
                    continue;
                }
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
