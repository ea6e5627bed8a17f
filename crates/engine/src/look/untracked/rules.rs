//! The ignore rules of directories, read when they are needed.

use std::{
    cell::OnceCell,
    io,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Flags;

use super::{
    Walk, Warning,
    tree::{Fate, Node},
};
use crate::look::{
    handle::Handle,
    ignore::{Level, Rules},
};

/// What is known of a directory's `.gitignore`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreFile {
    There,
    Missing,
    Unknown,
}

/// The rules for what is in a directory.
#[derive(Clone)]
pub(super) enum Ladder {
    Known(Option<Arc<Level>>),
    /// The directory has a `.gitignore`, which nobody has needed yet.
    Later(Arc<Rung>),
}

/// A directory whose rules are not known yet.
pub(super) struct Rung {
    above: Ladder,
    from: Arc<Handle>,
    /// With a slash at its end; empty for the root.
    dir: BString,
    fate: Fate,
    is_there: IgnoreFile,
    rules: OnceLock<Known>,
}

/// The rules for what is in a directory, or that all of it is ignored.
#[derive(Clone, Default)]
struct Known {
    ignored: bool,
    level: Option<Arc<Level>>,
}

impl Ladder {
    /// Of the directory `dir`, which has a `.gitignore`.
    pub(super) fn later(self, from: &Arc<Handle>, dir: &BStr) -> Ladder {
        self.rung(from, dir, Fate::Kept, IgnoreFile::Unknown)
    }

    fn rung(self, from: &Arc<Handle>, dir: &BStr, fate: Fate, is_there: IgnoreFile) -> Ladder {
        let (from, dir) = (Arc::clone(from), dir.to_owned());
        Ladder::Later(Arc::new(Rung { above: self, from, dir, fate, is_there, rules: OnceLock::new() }))
    }

    fn get(&self, walk: &Walk<'_>) -> Known {
        let rung = match self {
            Ladder::Known(level) => return Known { ignored: false, level: level.clone() },
            Ladder::Later(rung) => rung,
        };
        let read = || {
            let dir = rung.dir.as_bstr();
            let above = rung.above.over(walk, dir, rung.fate);
            if above.ignored {
                return above;
            }
            let path = rung.from.rest(dir.strip_suffix(b"/").unwrap_or_default());
            let opened = match path.is_empty() {
                true => rung.from.dir().try_clone(),
                false => rung.from.dir().open_dir(path),
            };
            let Ok(handle) = opened else { return above };
            let content = walk.ignore_file(&handle, dir, rung.is_there, Vec::new);
            Known { ignored: false, level: walk.level(dir, content.as_deref(), above.level, Vec::new) }
        };
        rung.rules.get_or_init(read).clone()
    }

    /// What these rules mean for `dir`, of which so much is known.
    fn over(&self, walk: &Walk<'_>, dir: &BStr, fate: Fate) -> Known {
        let known = self.get(walk);
        let itself = dir.strip_suffix(b"/").unwrap_or_default().as_bstr();
        let matches = || walk.is_ignored(known.level.as_deref(), itself, true);
        let ignored = known.ignored || fate == Fate::Ignored || fate == Fate::Unasked && matches();
        Known { ignored, ..known }
    }

    /// Whether something has to be read before these can be told.
    fn is_unread(&self) -> bool {
        match self {
            Ladder::Known(_) => false,
            Ladder::Later(rung) => rung.rules.get().is_none(),
        }
    }
}

/// The rules for what is in a directory that is listed. Its own `.gitignore` is read when the first name is to be judged, as by Git: where
/// all names are tracked files it is not.
pub(super) struct Own<'w> {
    walk: &'w Walk<'w>,
    node: &'w Node,
    dir: &'w sys::Dir,
    handle: &'w Arc<Handle>,
    is_there: IgnoreFile,
    above: Ladder,
    read: OnceCell<Read>,
    /// Whether the file could be read.
    is_readable: OnceCell<bool>,
    /// For directories in it that were come across before it was read.
    unread: OnceCell<Ladder>,
}

/// What was read.
pub(super) struct Read {
    known: Known,
    content: Option<Vec<u8>>,
}

impl<'w> Own<'w> {
    pub(super) fn new(
        walk: &'w Walk<'w>,
        node: &'w Node,
        (dir, handle): (&'w sys::Dir, &'w Arc<Handle>),
        is_there: IgnoreFile,
        above: Ladder,
    ) -> Own<'w> {
        let (read, is_readable, unread) = Default::default();
        Own { walk, node, dir, handle, is_there, above, read, is_readable, unread }
    }

    pub(super) fn level(&self) -> &Option<Arc<Level>> {
        &self.get().known.level
    }

    /// Whether all is ignored, and the rules if not.
    pub(super) fn known(&self) -> (bool, Option<&Level>) {
        let Known { ignored, level } = &self.get().known;
        (*ignored, level.as_deref())
    }

    /// Whether a file would have to be read, where that takes its time, and has not been yet. One that cannot be is told of at once.
    pub(super) fn are_unread(&self) -> bool {
        let is_readable = || {
            let name = self.walk.excludes.inside.as_ref();
            *self.is_readable.get_or_init(|| name.is_some_and(|name| self.dir.open_file(name).is_ok()))
        };
        self.walk.reads_late
            && self.read.get().is_none()
            && match self.is_there {
                IgnoreFile::There => is_readable(),
                IgnoreFile::Missing => self.above.is_unread(),
                IgnoreFile::Unknown => false,
            }
    }

    /// For a directory in it about which nobody asked yet.
    pub(super) fn unread(&self) -> Ladder {
        let Own { node, handle, is_there, above, .. } = self;
        let rung = || above.clone().rung(handle, node.path(), node.descent().fate, *is_there);
        self.unread.get_or_init(rung).clone()
    }

    /// What was read after such directories were come across need not be read for them again. None of them is looked into yet.
    pub(super) fn share(&self) {
        if let (Some(Ladder::Later(rung)), Some(read)) = (self.unread.get(), self.read.get()) {
            let _first = rung.rules.set(read.known.clone());
        }
    }

    /// What the file holds, if it was read.
    pub(super) fn content(&self) -> Option<Option<&[u8]>> {
        self.read.get().map(|read| read.content.as_deref())
    }

    pub(super) fn get(&self) -> &Read {
        self.read.get_or_init(|| {
            let Own { walk, node, dir, is_there, above, .. } = self;
            let above = above.over(walk, node.path(), node.descent().fate);
            // In an ignored directory everything is.
            if above.ignored {
                return Read { known: above, content: None };
            }
            let content = walk.ignore_file(dir, node.path(), *is_there, || node.way());
            let level = walk.level(node.path(), content.as_deref(), above.level, || node.way());
            Read { known: Known { ignored: false, level }, content }
        })
    }
}

impl Walk<'_> {
    /// The rules for what is in `dir` (with a slash at its end, or empty): those of its own `.gitignore` over what is `above`.
    pub(super) fn level(
        &self,
        dir: &BStr,
        content: Option<&[u8]>,
        above: Option<Arc<Level>>,
        place: impl FnOnce() -> Vec<usize>,
    ) -> Option<Arc<Level>> {
        const LARGEST: usize = 100 << 20;
        let Some(content) = content else { return above };
        if content.len() >= LARGEST {
            let name = self.excludes.inside.as_ref().map_or(&b""[..], |name| name.as_bytes());
            let path = [dir.as_bytes(), name].concat().into();
            self.warn(place(), Warning::LargeIgnoreFile { path });
            return above;
        }
        let rules = Rules::parse(content, self.tracked.folds_case());
        if rules.is_empty() { above } else { Some(Level::new(rules, dir.len(), above)) }
    }

    /// What the `.gitignore` of `dir` holds. Where there is none, or none that can be opened, that of the index counts if it is not to be
    /// in the worktree.
    pub(super) fn ignore_file(
        &self,
        handle: &sys::Dir,
        dir: &BStr,
        is_there: IgnoreFile,
        place: impl FnOnce() -> Vec<usize>,
    ) -> Option<Vec<u8>> {
        let name = self.excludes.inside.as_ref()?;
        let path: BString = [dir.as_bytes(), name.as_bytes()].concat().into();
        if is_there != IgnoreFile::Missing {
            match handle.open_file(name) {
                Ok(mut file) => {
                    let mut content = Vec::new();
                    // Of a directory, say, it fails.
                    return io::Read::read_to_end(&mut file, &mut content).ok().map(|_| content);
                }
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    self.warn(place(), Warning::IgnoreFile { path, source });
                    return None;
                }
            }
        }
        self.of_the_index(path.as_bstr())
    }

    /// The content of an entry that is not to be in the worktree.
    fn of_the_index(&self, path: &BStr) -> Option<Vec<u8>> {
        let at = self.tracked.skipped(path)?;
        let entry = &self.index.entry(at);
        debug_assert!(entry.flags.contains(Flags::SKIP_WORKTREE), "only such are told of");
        self.repo.objects().reader().read(&entry.oid).ok().map(|(_, content)| content.to_vec())
    }
}
