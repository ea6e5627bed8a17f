//! The ignore rules of directories, read when they are needed.

use std::{
    cell::OnceCell,
    io,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Flags;

use super::{Walk, Warning, tree::Node};
use crate::{
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
    level: OnceLock<Option<Arc<Level>>>,
}

impl Ladder {
    /// Of the directory `dir`, which has a `.gitignore`.
    pub(super) fn later(self, from: &Arc<Handle>, dir: &BStr) -> Ladder {
        let (from, dir) = (Arc::clone(from), dir.to_owned());
        Ladder::Later(Arc::new(Rung { above: self, from, dir, level: OnceLock::new() }))
    }

    pub(super) fn get(&self, walk: &Walk<'_>) -> Option<Arc<Level>> {
        let rung = match self {
            Ladder::Known(level) => return level.clone(),
            Ladder::Later(rung) => rung,
        };
        let read = || {
            let above = rung.above.get(walk);
            let path = rung.from.rest(rung.dir.strip_suffix(b"/").unwrap_or_default());
            let opened = match path.is_empty() {
                true => rung.from.dir().try_clone(),
                false => rung.from.dir().open_dir(path),
            };
            let Ok(dir) = opened else { return above };
            let content = walk.ignore_file(&dir, rung.dir.as_bstr(), IgnoreFile::Unknown, Vec::new);
            walk.level(rung.dir.as_bstr(), content.as_deref(), above, Vec::new)
        };
        rung.level.get_or_init(read).clone()
    }
}

/// The rules for what is in a directory that is listed. Its own `.gitignore` is read when the first name is to be judged, as by Git: where
/// all names are tracked files it is not.
pub(super) struct Own<'w> {
    pub(super) walk: &'w Walk<'w>,
    pub(super) node: &'w Node,
    pub(super) dir: &'w sys::Dir,
    pub(super) is_there: IgnoreFile,
    pub(super) above: Option<Arc<Level>>,
    pub(super) read: OnceCell<Read>,
}

/// What was read.
pub(super) struct Read {
    level: Option<Arc<Level>>,
    content: Option<Vec<u8>>,
}

impl Own<'_> {
    pub(super) fn level(&self) -> &Option<Arc<Level>> {
        &self.get().level
    }

    /// What the file holds, if it was read.
    pub(super) fn content(&self) -> Option<Option<&[u8]>> {
        self.read.get().map(|read| read.content.as_deref())
    }

    pub(super) fn get(&self) -> &Read {
        self.read.get_or_init(|| {
            let Own { walk, node, dir, is_there, above, .. } = self;
            // In an ignored directory everything is.
            if node.descent().ignored {
                return Read { level: above.clone(), content: None };
            }
            let content = walk.ignore_file(dir, node.path(), *is_there, || node.way());
            let level = walk.level(node.path(), content.as_deref(), above.clone(), || node.way());
            Read { level, content }
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
