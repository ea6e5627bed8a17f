//! A clone that begins with a base.
//!
//! The base brings a commit with its trees, and contents, which stay in the base directory. So the
//! new repository is a partial clone without blobs, and the server sends what is newer than that
//! commit. The history may end at the base: then the file `shallow` says so before the server is
//! asked.

use std::{io::ErrorKind, path::Path};

use format::ObjectId;
use repo::Repository;
use store::SharedRepository;
use sys::by_path;

use super::{
    Brought, Error, Seed,
    objects::{self, Wanted},
    select::{NewHead, Selection},
};
use crate::fetch::shallow::Shallow;

/// The filter of the new repository.
pub(super) const FILTER: &str = "blob:none";

/// Returns the commit whose base comes first; `None` for an ordinary clone.
pub(super) fn find(seed: &dyn Seed, selection: &Selection) -> Result<Option<ObjectId>, Error> {
    let found = match &selection.head {
        _ if selection.empty => Ok(None),
        NewHead::Branch(theirs) => seed.find(Some(theirs.name.as_ref()), &theirs.oid),
        NewHead::Tag(theirs) | NewHead::Detached(theirs) => {
            seed.find(None, &theirs.peeled.unwrap_or(theirs.oid))
        }
        NewHead::Unborn(_) => Ok(None),
    };
    found.map_err(|_| Error::Seed)
}

/// Brings the base. Returns the repository as it is then, or `None` if the clone goes on without a
/// base.
pub(super) fn bring(
    seed: &dyn Seed,
    repo: &Repository,
    shared: SharedRepository,
    commit: &ObjectId,
) -> Result<Option<Repository>, Error> {
    let packs = repo.objects_dir().join("pack");
    let failed = |source| Error::Io { what: "create", path: packs.clone(), source };
    shared.create_dir_all(&packs).map_err(failed)?;
    // The settings of the remote were written after the repository was opened.
    match seed.bring(&repo.open_again()?, commit).map_err(|_| Error::Seed)? {
        Brought::Base => Ok(Some(repo.open_again()?)),
        Brought::Nothing => remove_parts(repo).map(|()| None),
    }
}

/// Removes the objects and notes of a base that came in part, so that the server sends everything.
fn remove_parts(repo: &Repository) -> Result<(), Error> {
    let (packs, common) = (repo.objects_dir().join("pack"), repo.real_common_dir());
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { what: "remove", path: path.clone(), source }
    };
    for (name, _) in by_path::list(&packs).map_err(failed(&packs))? {
        let pack = packs.join(name);
        by_path::remove_file(&pack).map_err(failed(&pack))?;
    }
    let (shallow, notes) = (common.join("shallow"), common.join("sapwood/pulled"));
    for (path, removed) in
        [(&shallow, by_path::remove_file(&shallow)), (&notes, by_path::remove_dir_all(&notes))]
    {
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(path)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the commits at which the history of the base ends.
pub(super) fn boundary(repo: &Repository) -> Result<Vec<ObjectId>, objects::Error> {
    Ok(Shallow::read(repo)?.commits.into_iter().collect())
}

/// Adds the commits at which the history that came ends, and removes those beyond which it came.
pub(super) fn move_boundary(
    repo: &Repository,
    shallow: &[ObjectId],
    deepened: &[ObjectId],
    wanted: &Wanted<'_>,
) -> Result<(), objects::Error> {
    if shallow.is_empty() && deepened.is_empty() {
        return Ok(());
    }
    let known = Shallow::read(repo)?;
    let mut commits = known.commits.clone();
    commits.retain(|oid| !deepened.contains(oid));
    commits.extend(shallow);
    let locks = store::LockOptions { shared: wanted.shared, ..store::LockOptions::default() };
    Ok(known.replace(repo, &commits, wanted.fsync, &locks)?)
}
