//! The uncommitted work of a workspace, found in the upper layer: no mount, no index, and no
//! look at a file that the workspace never wrote.
//!
//! A path that is not in the upper layer shows the file of the base. So the differences are the
//! paths of the upper layer that differ from HEAD's tree, and the paths that differ between the
//! base's tree and HEAD's without being in the upper layer. Git's ignore rules and attributes come
//! from the files that the workspace shows.
//!
//! Promise: a difference is never left out. A state in which one might be is [`Error::Unsure`].

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode, ObjectId,
    index::{self, Flags, Index, NewEntry, Stage},
};
use repo::{Repository, keys};
use sys::{Dir, by_path};

use super::upper::{Below, Kind, Layer, Line, List};
use crate::{
    add::{self, FileHasher, Store},
    diff,
    look::{
        LookError,
        ignore::{self, Ignores},
        tree_cache::TreeCache,
    },
};

/// A path that differs from HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The entry of HEAD.
    pub old: Option<(Mode, ObjectId)>,
    /// The entry that the file would have in the next commit; `None` if there is no file.
    pub new: Option<(Mode, ObjectId)>,
}

/// The changes by their paths. A path without an entry in HEAD is untracked, or was added.
pub type Changes = BTreeMap<BString, Change>;

/// The reason why the changes are unknown.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    /// The upper layer alone does not decide it.
    #[error("it has {0}")]
    Unsure(&'static str),
    #[error(transparent)]
    Look(#[from] LookError),
    #[error(transparent)]
    Repository(#[from] repo::Error),
    #[error(transparent)]
    File(#[from] add::Error),
    #[error(transparent)]
    Ignore(#[from] ignore::Unreadable),
    #[error("cannot read '{path}' in the upper layer: {}", sys::reason(.source))]
    Upper { path: BString, source: io::Error },
}

/// The state to examine.
pub struct Scene<'a> {
    /// The repository with the settings of the workspace.
    pub repo: &'a Repository,
    /// The upper layer.
    pub layer: &'a Layer,
    /// Its content.
    pub list: &'a List,
    /// The tree of the base.
    pub base: ObjectId,
    /// The tree of HEAD; `None` for an unborn branch.
    pub head: Option<ObjectId>,
    /// `core.bigFileThreshold`
    pub big_file_threshold: u64,
}

/// The changes to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One is enough.
    First,
    /// Each of them.
    All,
}

/// Returns the changes.
pub fn changes(
    scene: &Scene<'_>,
    trees: &TreeCache<'_>,
    extent: Extent,
    store: Store<'_>,
) -> Result<Changes, Error> {
    if scene.repo.config(&keys::core::SPARSE_CHECKOUT)? {
        return Err(Error::Unsure("a sparse checkout"));
    }
    if scene.layer.form == super::upper::Form::UnionFs {
        return Err(Error::Unsure("an upper layer of unionfs-fuse"));
    }
    let failed = |source| Error::Upper { path: BString::default(), source };
    let upper = Dir::open(&scene.layer.upper).map_err(failed)?;
    let attributes = attributes(scene, trees)?;
    let outside = ignore::outside(scene.repo)?;
    let outside: Vec<&[u8]> = outside.iter().map(Vec::as_slice).collect();
    let icase = scene.repo.config(&keys::core::IGNORE_CASE)?;
    let view = View { scene, trees, upper: &upper };
    let mut search = Search {
        view: &view,
        has_file_mode: scene.repo.config(&keys::core::FILE_MODE)?,
        ignores: Ignores::reading(|file| view.rules(file), &outside, icase),
        hasher: FileHasher::new(scene.repo, &upper, scene.big_file_threshold),
        attributes: &attributes,
        extent,
        store,
        found: Changes::new(),
    };
    search.of_base()?;
    for line in scene.list.lines() {
        if search.is_done() {
            break;
        }
        search.line(line)?;
    }
    Ok(search.found)
}

/// Returns an index with the files `.gitattributes` of HEAD that apply to files of the upper layer.
fn attributes(scene: &Scene<'_>, trees: &TreeCache<'_>) -> Result<Index, Error> {
    let mut directories: BTreeSet<&BStr> = BTreeSet::new();
    for line in scene.list.lines().iter().filter(|line| line.kind == Kind::File) {
        directories.extend(above(line.path.as_bstr()));
        directories.insert(BStr::new(""));
    }
    let mut edits = Vec::new();
    for directory in directories {
        let path = inside(directory, ".gitattributes");
        if let Some((mode, oid)) = trees.entry(scene.head, path.as_bstr())?
            && mode.is_file()
        {
            let (stat, flags, stage) = (Default::default(), Flags::empty(), Stage::Normal);
            edits.push(index::Edit { path, entries: vec![NewEntry { stat, oid, mode, flags, stage }] });
        }
    }
    edits.sort_by(|one, other| one.path.cmp(&other.path));
    let mut index = Index::empty(scene.repo.hash());
    index.apply(edits);
    Ok(index)
}

/// Returns the directories above a path, without the root.
fn above(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.rfind_iter("/").map(move |slash| path[..slash].as_bstr())
}

fn inside(directory: &BStr, name: &str) -> BString {
    let slash = if directory.is_empty() { "" } else { "/" };
    [directory.as_bytes(), slash.as_bytes(), name.as_bytes()].concat().into()
}

/// The files that the workspace shows.
struct View<'a, 'r> {
    scene: &'a Scene<'a>,
    trees: &'a TreeCache<'r>,
    upper: &'a Dir,
}

impl View<'_, '_> {
    /// Returns true if the upper layer hides the file of the base at this path.
    fn is_hidden(&self, path: &BStr) -> bool {
        let list = self.scene.list;
        let hides = |line: &Line| match line.kind {
            Kind::Directory(Below::Same | Below::Unseen) => false,
            Kind::Directory(Below::Nothing | Below::Redirected(_)) => true,
            _ => true,
        };
        list.get(path).is_some() || above(path).any(|directory| list.get(directory).is_some_and(hides))
    }

    /// Returns the content of a file with ignore rules.
    fn rules(&self, path: &BStr) -> io::Result<Vec<u8>> {
        match self.scene.list.get(path).map(|line| &line.kind) {
            Some(Kind::File) => {
                let read = by_path::read(&self.scene.layer.upper.join(sys::os_str(path)))?;
                return Ok(read.unwrap_or_default());
            }
            Some(_) => return Ok(Vec::new()),
            None if self.is_hidden(path) => return Ok(Vec::new()),
            None => {}
        }
        let found = self.trees.entry(Some(self.scene.base), path).map_err(io::Error::other)?;
        let Some((_, oid)) = found.filter(|(mode, _)| mode.is_file()) else { return Ok(Vec::new()) };
        let mut reader = self.trees.repo().objects().reader();
        let (_, content) = reader.read(&oid).map_err(io::Error::other)?;
        Ok(content.to_vec())
    }
}

struct Search<'a, 'r> {
    view: &'a View<'a, 'r>,
    has_file_mode: bool,
    ignores: Ignores<'a>,
    hasher: FileHasher<'a>,
    attributes: &'a Index,
    extent: Extent,
    store: Store<'a>,
    found: Changes,
}

impl Search<'_, '_> {
    fn is_done(&self) -> bool {
        self.extent == Extent::First && !self.found.is_empty()
    }

    fn add(
        &mut self,
        path: &BStr,
        old: Option<(Mode, ObjectId)>,
        new: Option<(Mode, ObjectId)>,
    ) -> Result<(), Error> {
        if [old, new].iter().flatten().any(|(mode, _)| mode.is_gitlink()) {
            return Err(Error::Unsure("a changed submodule"));
        }
        self.found.insert(path.to_owned(), Change { old, new });
        Ok(())
    }

    /// Finds files of the base that the workspace shows though HEAD has others.
    fn of_base(&mut self) -> Result<(), Error> {
        let Scene { base, head, .. } = *self.view.scene;
        for pair in diff::trees(self.view.trees.repo(), Some(base), head)? {
            let path = pair.path.as_bstr();
            if self.view.is_hidden(path) {
                continue;
            }
            let side = |side: Option<diff::Side>| side.and_then(|side| Some((side.mode, side.oid?)));
            let (old, new) = (side(pair.new), side(pair.old));
            if old.is_some() || !self.ignores.is_ignored(path, false)? {
                self.add(path, old, new)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<(), Error> {
        let path = line.path.as_bstr();
        let old = self.view.trees.entry(self.view.scene.head, path)?;
        match &line.kind {
            Kind::Directory(Below::Redirected(_)) => Err(Error::Unsure("a renamed directory")),
            Kind::Directory(Below::Unseen) => Err(Error::Unsure("marks that this user may not read")),
            Kind::Repository => Err(Error::Unsure("a repository inside")),
            Kind::Special if old.is_some() => Err(Error::Unsure("a special file")),
            Kind::Special | Kind::Ignored => Ok(()),
            Kind::Directory(below) => self.directory(path, below, old),
            Kind::Whiteout => self.deleted(path, old),
            Kind::File | Kind::Symlink => self.file(line, old),
        }
    }

    fn directory(&mut self, path: &BStr, below: &Below, old: Option<(Mode, ObjectId)>) -> Result<(), Error> {
        match old {
            Some((mode, tree)) if mode.is_tree() && *below == Below::Nothing => {
                for (path, old) in self.view.trees.below(tree, path)? {
                    if self.view.scene.list.get(path.as_bstr()).is_none() {
                        self.add(path.as_bstr(), Some(old), None)?;
                    }
                }
                Ok(())
            }
            Some((mode, _)) if !mode.is_tree() => self.add(path, old, None),
            _ => Ok(()),
        }
    }

    /// Adds what HEAD has at a path that the upper layer hides.
    fn deleted(&mut self, path: &BStr, old: Option<(Mode, ObjectId)>) -> Result<(), Error> {
        match old {
            Some((mode, tree)) if mode.is_tree() => {
                for (path, old) in self.view.trees.below(tree, path)? {
                    self.add(path.as_bstr(), Some(old), None)?;
                }
                Ok(())
            }
            Some(old) => self.add(path, Some(old), None),
            None => Ok(()),
        }
    }

    fn file(&mut self, line: &Line, old: Option<(Mode, ObjectId)>) -> Result<(), Error> {
        let path = line.path.as_bstr();
        let tracked = old.filter(|(mode, _)| !mode.is_tree());
        if tracked.is_none() {
            self.deleted(path, old)?;
            if self.ignores.is_ignored(path, false)? {
                return Ok(());
            }
        }
        if tracked.is_some_and(|(mode, _)| mode.is_gitlink()) {
            return Err(Error::Unsure("a changed submodule"));
        }
        let stat = self.view.upper.stat(path);
        let stat = stat.map_err(|source| Error::Upper { path: path.to_owned(), source })?;
        // A process that works in the workspace may have removed it meanwhile.
        let Some(stat) = stat else { return self.deleted(path, tracked) };
        let is_executable = match tracked {
            Some((mode, _)) if !self.has_file_mode && mode.is_file() => mode.is_executable(),
            _ => self.has_file_mode && stat.mode & 0o100 != 0,
        };
        let mode = match stat.file_type {
            sys::FileType::Symlink => Mode::SYMLINK,
            sys::FileType::File if is_executable => Mode::EXECUTABLE,
            sys::FileType::File => Mode::FILE,
            _ => return Err(Error::Unsure("a path that changes")),
        };
        let oid = self.hasher.hash(path, &stat, self.attributes, self.store)?;
        self.hasher.take_messages();
        if tracked != Some((mode, oid)) {
            self.add(path, tracked, Some((mode, oid)))?;
        }
        Ok(())
    }
}
