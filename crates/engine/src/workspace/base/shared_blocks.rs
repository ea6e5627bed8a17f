//! Files of a base that share the blocks of the main worktree's files, on disks that can.
//!
//! A new base of kind directory is made in this way if the main worktree has each of its files:
//! index and tree name the same objects, and a checkout converts none of them. If the stat data of
//! a file match the index after its blocks were shared, it has the content of its object, as for
//! `git status`. Otherwise, and where line ends may have been converted on the way into the index,
//! its bytes are hashed. If one file differs, the base is written from the objects.

use std::{
    io::{self, Read as _},
    path::Path,
    sync::atomic::Ordering,
};

use format::{
    HashKind, ObjectId,
    hash::Hasher,
    index::{Flags, Index, Stage},
};
use repo::{
    Repository,
    convert::{Class, Converter},
    keys,
};
use sys::{Dir, File};

use super::{AddOptions, Error, Wanted, contents::name_of, populate::Populate, tree};
use crate::{
    crew::Workers,
    files::own,
    look::{protect, stat::matches_exactly},
};

/// Makes the files in the empty directory `files`. Returns their index with stat data, or `None` if
/// they have to be written; then the directory may hold some of them.
pub(super) fn share(
    wanted: &Wanted<'_>,
    files: &Path,
    options: &AddOptions<'_>,
) -> Result<Option<Index>, Error> {
    let repo = wanted.repo();
    let main = match repo.worktrees()?.into_iter().next() {
        Some(main) if !main.is_bare && wanted.sparse().is_none() => main,
        _ => return Ok(None),
    };
    let has_links = repo.config(&keys::core::SYMLINKS)?;
    if !has_links || sys::can_reflink(&main.path, files).is_err() {
        return Ok(None);
    }
    let read = store::index::ReadOptions::default();
    let Ok(from_index) = store::index::load(&repo.common_dir().join("index"), repo.hash(), &read) else {
        return Ok(None);
    };
    let mut index = tree::index_of(repo.objects(), wanted.tree(), protect(repo)?)?;
    let Some(positions) = positions(repo, &index, &from_index, options)? else { return Ok(None) };
    let (Ok(from), Ok(to)) = (Dir::open(&main.path), own::open(files)) else { return Ok(None) };
    let empty = ObjectId::empty_blob(index.hash);
    let make_file = |at: usize| {
        let (path, mode, oid) = (index.path_at(at), index.mode_at(at), index.entry(at).oid);
        if options.interrupt.load(Ordering::Relaxed) {
            return Err(("create", io::ErrorKind::Interrupted.into()));
        }
        let source = from.open_file(path).map_err(|error| ("read", error))?;
        let copy = to.create_new(path, mode.is_executable()).map_err(|error| ("create", error))?;
        if oid == empty {
            return Ok(());
        }
        sys::reflink(&source, &copy).map_err(|error| ("share the blocks of", error))?;
        let stat = sys::stat_of(&source).map_err(|error| ("examine", error))?;
        let (position, trust) = positions[at];
        if trust == Trust::Stat && matches_exactly(&from_index, position, &stat) {
            return Ok(());
        }
        let hashed = to.open_file(path).and_then(|copy| hash_of(&copy, index.hash));
        if hashed.map_err(|error| ("read", error))? == Some(oid) {
            Ok(())
        } else {
            Err(("read", io::ErrorKind::InvalidData.into()))
        }
    };
    let workers = match options.workers {
        Workers::Auto => sys::cores(),
        Workers::Fixed(count) => count,
    };
    let made =
        Populate { index: &index, from: &from, to: &to, top: files, make_file: &make_file }.run(workers);
    let is_right = |at: usize| {
        let target = to.read_link(index.path_at(at)).ok();
        target.is_some_and(|target| name_of(&target, index.hash) == Some(index.entry(at).oid))
    };
    let mut links = (0..index.len()).filter(|&at| index.mode_at(at).is_symlink());
    match made {
        Ok(stats) if links.all(is_right) => {
            for (entry, stat) in index.entries_mut().iter_mut().zip(stats) {
                entry.stat = stat;
            }
            Ok(Some(index))
        }
        _ => Ok(None),
    }
}

/// The proof that a file of the main worktree has the bytes of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Stat,
    Content,
}

/// Returns the position of each entry in the index of the main worktree; `None` if it lacks one of
/// them, or a checkout converts one.
fn positions(
    repo: &Repository,
    index: &Index,
    from: &Index,
    options: &AddOptions<'_>,
) -> Result<Option<Vec<(usize, Trust)>>, Error> {
    let converter = Converter::for_tree(repo, index)?.with_metadata(options.metadata.clone());
    let mut convert = converter.worker();
    let mut found = Vec::with_capacity(index.len());
    let unseen = Flags::ASSUME_VALID | Flags::SKIP_WORKTREE | Flags::INTENT_TO_ADD;
    for at in 0..index.len() {
        let (path, entry) = (index.path_at(at), index.entry(at));
        if convert.class(path, entry.mode)? != Class::None {
            return Ok(None);
        }
        let position = from.position(path, Stage::Normal).ok().filter(|&at| {
            let other = from.entry(at);
            (other.oid, other.mode) == (entry.oid, entry.mode) && !other.flags.intersects(unseen)
        });
        let Some(position) = position else { return Ok(None) };
        let is_plain = !entry.mode.is_file() || convert.needs_no_conversion(path)?;
        found.push((position, if is_plain { Trust::Stat } else { Trust::Content }));
    }
    Ok(Some(found))
}

/// Returns the object id of a blob with the bytes of a file, or `None` for a collision attack.
fn hash_of(mut file: &File, hash: HashKind) -> io::Result<Option<ObjectId>> {
    let mut hasher = Hasher::object(hash, "blob", sys::stat_of(file)?.size);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish().ok()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
