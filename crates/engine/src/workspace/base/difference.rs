//! Bases that hold only the differences from another base: a small layer over it, and the small
//! half of an index whose shared half is that of the other base.
//!
//! The base below is always a whole one, so an overlay has at most two layers of bases. A
//! difference is made if there are few changes: [`SHARE`]. Otherwise a whole base is the better
//! one.
//!
//! Promise: work, memory and disk space depend on the changes, and on the number of directories,
//! whose cache-tree and untracked cache are copied. Files that are not changed are not looked at.
//!
//! Order: find a base that is near; under the lock: write the layer, the index, the link to the
//! base below and the record; sync; rename. The base below is locked until then. Afterwards it
//! counts as used while the difference exists.
//!
//! Design: docs/design/workspace-differences.md.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    io::Write as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{
        CacheTree, Entry, Flags, Index, NewEntry, Stage, Stat, UntrackedCache,
        difference::{Added, Changes as Positions, Replaced},
        parts::Small,
        untracked::Listed,
    },
};
use repo::convert::Converter;
use sys::by_path;

use super::{
    AddOptions, Base, Bases, Error, Kind, Wanted,
    add::{owner_of_files, remove_tree},
    changes::{Changes, Directory, Item, Origin, Stop},
    image, layer, pending,
    stored::{PARENT, STAGED, Stored, Structure},
    users::User,
};
use crate::{look::protect, workspace::upper};

/// A difference has at most this part of the entries of the base below it. Each workspace has a
/// copy of the changed entries in its index, and Git writes them again with each index. Git also
/// replaces the shared half if more than a fifth of all entries are new, and the user adds more.
const SHARE: usize = 8;

/// A checkout with more changes than this part of the entries is written whole, because a base of
/// kind directory with another time copies no file from the one below it.
const SHARE_OF_DIRECTORY: usize = 2;

/// Bases are compared in the order of their last use. A base with at most this many changes costs
/// milliseconds, so no nearer one is searched.
const NEAR: usize = 256;

/// The number of bases that are compared at most.
const TRIES: usize = 4;

/// A base that is near the wanted one.
struct Near {
    base: Base,
    changes: Changes,
    rest: Rest,
}

/// The result of writing a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Written,
    /// The file system of the bases cannot hold whiteouts.
    NoWhiteouts,
}

/// The small half of the index of a base, decoded.
struct Rest {
    cache_tree: CacheTree,
    untracked: Option<UntrackedCache>,
    /// The positions of the entries that no monitor vouches for.
    unmonitored: Vec<usize>,
}

impl Bases {
    /// Returns the difference for `wanted` from this directory or an alternate, if there is one.
    /// Registers the repository as a user of bases.
    pub fn find_difference(&self, wanted: &Wanted<'_>) -> Result<Option<Base>, Error> {
        self.find_named(&wanted.name_of_difference(), wanted)
    }

    /// Returns the difference for `wanted`, and makes it if a base is near. Returns `None` if none
    /// is. Messages of conversions are appended to `messages`.
    pub fn add_difference(
        &self,
        wanted: &Wanted<'_>,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Option<Base>, Error> {
        let Some(mut near) = self.nearest(wanted)? else { return Ok(None) };
        // A crash would take the shared half of the index away.
        near.base = match near.base.kept(options) {
            // It was removed meanwhile.
            Err(Error::Missing { .. }) => return Ok(None),
            kept => kept?,
        };
        let _lock = self.lock(options.shared).map_err(|source| self.read_only(wanted, source))?;
        if let Some(base) = self.find_difference(wanted)? {
            return Ok(Some(base));
        }
        self.register(User::Repository(&wanted.repo().real_common_dir()), options.shared)?;
        // Holds off `gc` of the other directory while the difference is made.
        let below = near.base.dir.parent().unwrap_or(&near.base.dir);
        let is_own = by_path::canonical(below).ok() == by_path::canonical(&self.dir).ok();
        let _kept = if is_own { None } else { self.borrow_from(below)? };
        let _held = match near.base.hold() {
            // It was removed meanwhile.
            Err(Error::Missing { .. }) => return Ok(None),
            held => held?,
        };
        if Bases::at(below).load_own(&near.base.name)?.is_none() {
            return Ok(None);
        }
        near.base.note_use();
        let name = wanted.name_of_difference();
        self.remove_staged();
        let staged = self.dir.join(format!("{STAGED}{name}"));
        let failed = |source| Error::Io { action: "create", path: staged.clone(), source };
        options.shared.create_dir(&staged).map_err(failed)?;
        let made = self.write(wanted, near, is_own, &staged, options, messages);
        let made = made.and_then(|layer| {
            match (layer, wanted.kind()) {
                (Layer::NoWhiteouts, _) => {}
                (Layer::Written, Kind::Image) => self.publish_files(&name, &staged, options.fsync)?,
                (Layer::Written, Kind::Directory) => self.publish(&name, &staged, options.fsync)?,
            }
            Ok(layer)
        });
        match made {
            Ok(Layer::Written) => self.load(&name),
            other => {
                let _ = remove_tree(&staged);
                other.map(|_| None)
            }
        }
    }

    /// Returns the base with the fewest changes to the wanted tree among those that were used last.
    fn nearest(&self, wanted: &Wanted<'_>) -> Result<Option<Near>, Error> {
        let objects = wanted.repo().objects();
        let is_fit = |base: &Base| {
            base.kind == wanted.kind()
                && base.view.is_none()
                && base.parent.is_none()
                && !base.is_lost()
                && base.name == wanted.name_of(base.tree)
                && objects.contains(&base.tree)
                && !base.is_elsewhere()
        };
        let mut all = self.readable();
        for dir in self.alternates()? {
            all.extend(Bases::at(&dir).readable());
        }
        all.retain(is_fit);
        all.sort_by_key(|base| Reverse(base.last_use()));
        let mut nearest: Option<Near> = None;
        for base in all.into_iter().take(TRIES) {
            let most = nearest.as_ref().map_or(usize::MAX, |near| near.changes.len().saturating_sub(1));
            if let Some(near) = compare(base, wanted, most)? {
                let is_near = near.changes.len() <= NEAR;
                nearest = Some(near);
                if is_near {
                    break;
                }
            }
        }
        Ok(nearest)
    }

    /// Writes the layer, the index and the record of the difference to `staged`.
    fn write(
        &self,
        wanted: &Wanted<'_>,
        near: Near,
        is_own: bool,
        staged: &Path,
        options: &AddOptions<'_>,
        messages: &mut Vec<String>,
    ) -> Result<Layer, Error> {
        let Near { base, changes, rest } = near;
        let repo = wanted.repo();
        let mut index = index_of(&changes.items, wanted);
        let mut attributes = changes.attributes.clone();
        attributes.sort_by(|one, other| one.path.cmp(&other.path));
        let converter = Converter::for_tree(repo, &index_of(&attributes, wanted))?;
        let converter = converter.with_metadata(options.metadata.clone());
        let (made, owner) = match wanted.kind() {
            Kind::Image => {
                let oids: HashSet<ObjectId> = changes.items.iter().map(|item| item.oid).collect();
                let appender = self.append_for(repo.hash(), options.shared, &|oid| oids.contains(oid))?;
                let parts = (&index, &converter);
                let made =
                    image::build_layer(wanted, parts, &changes.hidden, &appender, staged, options, messages)?;
                (made, (wanted.owner().uid, wanted.owner().gid))
            }
            Kind::Directory => {
                let parts = (&index, &converter);
                let stats = layer::build(wanted, parts, &changes.hidden, staged, options, messages)?;
                let Some(stats) = stats else { return Ok(Layer::NoWhiteouts) };
                let made = image::Written { stats, dirs: HashMap::new(), devices: Vec::new() };
                (made, owner_of_files(staged)?)
            }
        };
        for (entry, stat) in index.entries_mut().iter_mut().zip(&made.stats) {
            entry.stat = *stat;
        }
        if !options.fsync.disabled {
            made.devices.iter().try_for_each(|device| pending::sync_device(&self.dir.join(device)))?;
        }
        let target = if is_own {
            Path::new("..").join(&base.name)
        } else {
            by_path::canonical(&base.dir).map_err(io("examine", &base.dir))?
        };
        write_index(&staged.join("rest"), wanted, &base, (index, changes, rest), &made.dirs)?;
        let link = staged.join(PARENT);
        by_path::symlink(&target, &link).map_err(io("create", &link))?;
        let record = Stored {
            kind: wanted.kind(),
            tree: wanted.tree(),
            shared_index: base.shared_index,
            devices: made.devices,
            contents: Some(wanted.contents().to_owned()),
            owner: Some(owner),
            view: None,
            structure: Structure::Difference,
            pending: None,
        };
        record.write(staged, options.fsync).map(|()| Layer::Written)
    }

    /// Like [`Bases::publish`], for a base of a few files. Syncing the whole file system would wait
    /// for the data of other programs.
    fn publish_files(&self, name: &str, staged: &Path, fsync: &store::Fsync) -> Result<(), Error> {
        let lock = staged.join("lock");
        drop(by_path::create_new(&lock, 0o666).map_err(io("create", &lock))?);
        if !fsync.disabled {
            for file in ["image", "rest", "record"].map(|name| staged.join(name)) {
                let opened = by_path::open(&file).map_err(io("open", &file))?;
                sys::sync_file(&opened).map_err(io("sync", &file))?;
            }
            by_path::sync_dir(staged).map_err(io("sync", staged))?;
        }
        let place = self.dir.join(name);
        by_path::rename(staged, &place).map_err(io("rename", staged))?;
        if fsync.disabled { Ok(()) } else { by_path::sync_dir(&self.dir).map_err(io("sync", &self.dir)) }
    }
}

impl Base {
    /// Returns true if the wanted tree differs from that of this base in more than `least` visible
    /// files and in a large part of all, or if other attributes may change the bytes of any file,
    /// or, for a base with a time of its own, other settings. Returns false if the trees cannot be
    /// compared.
    pub fn differs_widely(&self, wanted: &Wanted<'_>, least: usize) -> Result<bool, Error> {
        if self.time().is_some() && !wanted.is_like(self) {
            return Ok(true);
        }
        let (repo, path) = (wanted.repo(), self.rest_of_index());
        let bytes = by_path::read(&path).map_err(io("read", &path))?;
        let small = bytes.as_ref().and_then(|bytes| Small::parse(bytes, self.tree.kind()));
        let Some(cache_tree) = small.and_then(|small| small.cache_tree()) else { return Ok(false) };
        let Some((_, count)) = cache_tree.valid.filter(|_| repo.objects().contains(&self.tree)) else {
            return Ok(false);
        };
        let share = match self.kind {
            Kind::Image => SHARE,
            Kind::Directory => SHARE_OF_DIRECTORY,
        };
        // Most of the changes may lie outside of a sparse worktree.
        let (visible, bound) = match wanted.sparse() {
            None => (count as usize, least.max(count as usize / share)),
            Some(_) => {
                let index = self.load_index(&store::index::ReadOptions::default())?;
                let is_outside = |entry: &&Entry| entry.flags.contains(Flags::SKIP_WORKTREE);
                (index.len() - index.entries().iter().filter(is_outside).count(), usize::MAX)
            }
        };
        let trees = (self.tree, &cache_tree);
        let changes =
            Changes::between(repo.objects(), trees, wanted.tree(), wanted.sparse(), protect(repo)?, bound);
        match changes {
            Ok(changes) => {
                let is_kept =
                    |item: &&Item| wanted.sparse().is_none_or(|patterns| patterns.keeps(item.path.as_bstr()));
                Ok(changes.items.iter().filter(is_kept).count() > least.max(visible / share))
            }
            Err(Stop::Unfit) => Ok(true),
            // The new tree is read again, and then an error is reported.
            Err(Stop::Failed(_)) => Ok(false),
        }
    }
}

/// Compares the tree of a base with the wanted one. Returns `None` if it is not near: there are
/// more than `most` changes, or too many for a difference.
fn compare(base: Base, wanted: &Wanted<'_>, most: usize) -> Result<Option<Near>, Error> {
    let path = base.rest_of_index();
    let Some(bytes) = by_path::read(&path).map_err(io("read", &path))? else { return Ok(None) };
    let Some(small) = Small::parse(&bytes, base.tree.kind()) else { return Ok(None) };
    let Some(cache_tree) = small.cache_tree() else { return Ok(None) };
    let Some((_, count)) = cache_tree.valid else { return Ok(None) };
    let count = count as usize;
    let Some(unmonitored) = small.unmonitored(count) else { return Ok(None) };
    let (repo, most) = (wanted.repo(), most.min(count / SHARE));
    let trees = (base.tree, &cache_tree);
    let changes =
        Changes::between(repo.objects(), trees, wanted.tree(), wanted.sparse(), protect(repo)?, most);
    match changes {
        Ok(changes) => {
            let rest = Rest { untracked: small.untracked(), cache_tree, unmonitored };
            Ok(Some(Near { base, changes, rest }))
        }
        Err(Stop::Unfit) => Ok(None),
        Err(Stop::Failed(error)) => Err(error.into()),
    }
}

/// Returns an index of these items, without stat data.
fn index_of(items: &[Item], wanted: &Wanted<'_>) -> Index {
    let mut index = Index::empty(wanted.repo().hash());
    for item in items {
        let is_kept = wanted.sparse().is_none_or(|patterns| patterns.keeps(item.path.as_bstr()));
        let flags = if is_kept { Flags::empty() } else { Flags::SKIP_WORKTREE };
        let (oid, mode) = (item.oid, item.mode);
        let entry = NewEntry { stat: Stat::default(), oid, mode, flags, stage: Stage::Normal };
        index.push(item.path.as_bstr(), entry);
    }
    index
}

/// Writes the small half of the index. `index` has the changed entries, with their stat data;
/// `dirs` are those of the directories of the layer.
fn write_index(
    path: &Path,
    wanted: &Wanted<'_>,
    base: &Base,
    (mut index, changes, rest): (Index, Changes, Rest),
    dirs: &HashMap<BString, Stat>,
) -> Result<(), Error> {
    let mut positions =
        Positions { deleted: changes.deleted.iter().cloned().flatten().collect(), ..Positions::default() };
    for (changed, item) in changes.items.iter().enumerate() {
        match item.origin {
            Origin::Replaces(shared) => positions.replaced.push(Replaced { shared, changed }),
            Origin::Before(before) => positions.added.push(Added { before, changed }),
        }
    }
    let Rest { mut cache_tree, untracked, unmonitored } = rest;
    for dir in &changes.directories {
        let node = cache_tree.make(dir.path.as_bstr());
        node.valid = Some((dir.tree, dir.count));
        let mut names: Vec<&BStr> = dir.directories.iter().map(|name| name.as_bstr()).collect();
        names.sort_unstable();
        node.retain(|name| names.binary_search(&name).is_ok());
    }
    index.cache_tree = Some(cache_tree);
    index.untracked = untracked.map(|mut cache| {
        let is_there = |dir: &&Directory| !changes.absent.contains(dir.path.as_bstr());
        let listed = changes.directories.iter().filter(is_there);
        let listed = listed.map(|dir| (dir.path.clone(), listed_in(dir, &changes, dirs)));
        let null = ObjectId::null(wanted.repo().hash());
        cache.record([null; 2], listed.collect());
        cache
    });
    let token = upper::token_of_empty(&wanted.name_of_difference());
    let bytes = positions.to_vec(&mut index, base.shared_index, token, &unmonitored);
    let bytes = bytes.map_err(|error| Error::Io {
        action: "write",
        path: path.to_owned(),
        source: std::io::Error::other(error.to_string()),
    })?;
    let mut file = by_path::create_new(path, 0o666).map_err(io("create", path))?;
    file.write_all(&bytes).map_err(io("write", path))
}

/// Returns the record of a directory in the untracked cache. It has no untracked files.
fn listed_in(dir: &Directory, changes: &Changes, dirs: &HashMap<BString, Stat>) -> Listed {
    let is_there = |name: &&BString| {
        let path = if dir.path.is_empty() {
            (*name).clone()
        } else {
            [dir.path.as_bytes(), b"/", name.as_bytes()].concat().into()
        };
        !changes.absent.contains(&path)
    };
    let mut directories: Vec<BString> = dir.directories.iter().filter(is_there).cloned().collect();
    directories.sort();
    Listed {
        stat: dirs.get(&dir.path).copied().unwrap_or_default(),
        untracked: Vec::new(),
        check_only: false,
        exclude: dir.rules,
        directories,
        rules_changed: false,
    }
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path: PathBuf = path.to_owned();
    move |source| Error::Io { action, path, source }
}
