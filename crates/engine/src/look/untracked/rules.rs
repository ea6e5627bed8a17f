//! The ignore rules of directories, read on demand.

use std::{
    cell::OnceCell,
    io,
    sync::{Arc, OnceLock},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Flags;

use super::{
    Walk, Warning,
    tree::{IgnoreState, Node},
};
use crate::look::{
    handle::Handle,
    ignore::{self, LARGEST, Level, Rules},
};

/// The presence of a `.gitignore` in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreFile {
    There,
    Missing,
    Unknown,
}

/// The rules for the content of a directory.
#[derive(Clone)]
pub(super) enum LazyRules {
    Known(Option<Arc<Level>>),
    /// The directory has a `.gitignore` that no name has needed yet.
    Later(Arc<UnreadRules>),
}

/// The rules of a directory that have not been read yet.
pub(super) struct UnreadRules {
    above: LazyRules,
    from: Arc<Handle>,
    /// The path with a slash at the end; empty for the root.
    dir: BString,
    ignore_state: IgnoreState,
    is_there: IgnoreFile,
    rules: OnceLock<KnownRules>,
}

/// The rules for the content of a directory, or that all of it is ignored.
#[derive(Clone, Default)]
struct KnownRules {
    ignored: bool,
    level: Option<Arc<Level>>,
}

impl LazyRules {
    /// Returns the rules for the directory `dir`, which has a `.gitignore`, without reading it.
    pub(super) fn deferred(self, from: &Arc<Handle>, dir: &BStr) -> LazyRules {
        self.unread_rules(from, dir, IgnoreState::NotIgnored, IgnoreFile::Unknown)
    }

    fn unread_rules(
        self,
        from: &Arc<Handle>,
        dir: &BStr,
        ignore_state: IgnoreState,
        is_there: IgnoreFile,
    ) -> LazyRules {
        let (from, dir) = (Arc::clone(from), dir.to_owned());
        LazyRules::Later(Arc::new(UnreadRules {
            above: self,
            from,
            dir,
            ignore_state,
            is_there,
            rules: OnceLock::new(),
        }))
    }

    fn get(&self, walk: &Walk<'_>) -> KnownRules {
        let unread_rules = match self {
            LazyRules::Known(level) => return KnownRules { ignored: false, level: level.clone() },
            LazyRules::Later(unread_rules) => unread_rules,
        };
        let read = || {
            let dir = unread_rules.dir.as_bstr();
            let above = unread_rules.above.over(walk, dir, unread_rules.ignore_state);
            if above.ignored {
                return above;
            }
            let path = unread_rules.from.rest(dir.strip_suffix(b"/").unwrap_or_default());
            let opened = if path.is_empty() {
                unread_rules.from.dir().try_clone()
            } else {
                unread_rules.from.dir().open_dir(path)
            };
            let Ok(handle) = opened else { return above };
            let content = walk.ignore_file(&handle, dir, unread_rules.is_there, Vec::new);
            KnownRules { ignored: false, level: walk.level(dir, content.as_deref(), above.level, Vec::new) }
        };
        unread_rules.rules.get_or_init(read).clone()
    }

    /// Applies these rules to the directory `dir`.
    fn over(&self, walk: &Walk<'_>, dir: &BStr, ignore_state: IgnoreState) -> KnownRules {
        let known = self.get(walk);
        let itself = dir.strip_suffix(b"/").unwrap_or_default().as_bstr();
        let matches = || walk.is_ignored(known.level.as_deref(), itself, true);
        let ignored = known.ignored
            || ignore_state == IgnoreState::Ignored
            || ignore_state == IgnoreState::Unknown && matches();
        KnownRules { ignored, ..known }
    }

    /// Returns true if an ignore file has to be read for these rules.
    fn is_unread(&self) -> bool {
        match self {
            LazyRules::Known(_) => false,
            LazyRules::Later(unread_rules) => unread_rules.rules.get().is_none(),
        }
    }
}

/// The rules for the content of a listed directory. Its `.gitignore` is read when the first name is
/// classified, as in Git. It is not read if all names are tracked files.
pub(super) struct DirectoryRules<'w> {
    walk: &'w Walk<'w>,
    node: &'w Node,
    dir: &'w sys::Dir,
    handle: &'w Arc<Handle>,
    is_there: IgnoreFile,
    above: LazyRules,
    read: OnceCell<Read>,
    /// True if the `.gitignore` can be opened.
    is_readable: OnceCell<bool>,
    /// The rules for subdirectories that were found before the `.gitignore` was read.
    unread: OnceCell<LazyRules>,
}

/// The result of reading a `.gitignore`.
pub(super) struct Read {
    known: KnownRules,
    content: Option<Vec<u8>>,
}

impl<'w> DirectoryRules<'w> {
    pub(super) fn new(
        walk: &'w Walk<'w>,
        node: &'w Node,
        dir: &'w sys::Dir,
        handle: &'w Arc<Handle>,
        is_there: IgnoreFile,
        above: LazyRules,
    ) -> DirectoryRules<'w> {
        let (read, is_readable, unread) = Default::default();
        DirectoryRules { walk, node, dir, handle, is_there, above, read, is_readable, unread }
    }

    pub(super) fn level(&self) -> &Option<Arc<Level>> {
        &self.get().known.level
    }

    /// Returns true if the directory is ignored with all its content. Also returns the rules for
    /// its content.
    pub(super) fn known(&self) -> (bool, Option<&Level>) {
        let KnownRules { ignored, level } = &self.get().known;
        (*ignored, level.as_deref())
    }

    /// Returns true if an ignore file has not been read yet, and reading is slow. If the file
    /// cannot be opened, returns false, so that the error is reported now.
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

    /// Returns unread rules for subdirectories, without reading a file.
    pub(super) fn unread(&self) -> LazyRules {
        let DirectoryRules { node, handle, is_there, above, .. } = self;
        let unread_rules =
            || above.clone().unread_rules(handle, node.path(), node.descent().ignore_state, *is_there);
        self.unread.get_or_init(unread_rules).clone()
    }

    /// Passes rules that were read meanwhile to subdirectories that were found before. None of them
    /// has been walked yet.
    pub(super) fn share(&self) {
        if let (Some(LazyRules::Later(unread_rules)), Some(read)) = (self.unread.get(), self.read.get()) {
            let _first = unread_rules.rules.set(read.known.clone());
        }
    }

    /// Returns the content of the `.gitignore`, if it was read. The inner `None` means that there
    /// is no such file.
    pub(super) fn content(&self) -> Option<Option<&[u8]>> {
        self.read.get().map(|read| read.content.as_deref())
    }

    pub(super) fn get(&self) -> &Read {
        self.read.get_or_init(|| {
            let DirectoryRules { walk, node, dir, is_there, above, .. } = self;
            let above = above.over(walk, node.path(), node.descent().ignore_state);
            // All content of an ignored directory is ignored.
            if above.ignored {
                return Read { known: above, content: None };
            }
            let content = walk.ignore_file(dir, node.path(), *is_there, || node.walk_position());
            let level = walk.level(node.path(), content.as_deref(), above.level, || node.walk_position());
            Read { known: KnownRules { ignored: false, level }, content }
        })
    }
}

impl Walk<'_> {
    /// Returns the rules for the content of `dir` (with a slash at the end, or empty): those of its
    /// own `.gitignore`, which override the rules `above`.
    pub(super) fn level(
        &self,
        dir: &BStr,
        content: Option<&[u8]>,
        above: Option<Arc<Level>>,
        position: impl FnOnce() -> Vec<usize>,
    ) -> Option<Arc<Level>> {
        let Some(content) = content else { return above };
        if content.len() >= LARGEST {
            let name = self.excludes.inside.as_ref().map_or(&b""[..], |name| name.as_bytes());
            let path = [dir.as_bytes(), name].concat().into();
            self.warn(position(), Warning::LargeIgnoreFile { path });
            return above;
        }
        let rules = Rules::parse(content, self.tracked.folds_case());
        if rules.is_empty() { above } else { Some(Level::new(rules, dir.len(), above)) }
    }

    /// Returns the content of the `.gitignore` of `dir`. If the file does not exist, returns the
    /// version in the index, if that entry has the skip-worktree flag.
    pub(super) fn ignore_file(
        &self,
        handle: &sys::Dir,
        dir: &BStr,
        is_there: IgnoreFile,
        position: impl FnOnce() -> Vec<usize>,
    ) -> Option<Vec<u8>> {
        let name = self.excludes.inside.as_ref()?;
        let path: BString = [dir.as_bytes(), name.as_bytes()].concat().into();
        if is_there != IgnoreFile::Missing {
            match handle.open_file(name) {
                // A read fails, for example, if the path is a directory.
                Ok(file) => {
                    let size = sys::stat_of(&file).map_or(0, |stat| stat.size);
                    return ignore::read_start(&file, size).ok();
                }
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    self.warn(position(), Warning::IgnoreFile { path, source });
                    return None;
                }
            }
        }
        self.read_from_index(path.as_bstr())
    }

    /// Returns the content of an entry with the skip-worktree flag.
    fn read_from_index(&self, path: &BStr) -> Option<Vec<u8>> {
        let at = self.tracked.skipped(path)?;
        let entry = &self.index.entry(at);
        debug_assert!(entry.flags.contains(Flags::SKIP_WORKTREE), "only such are told of");
        self.repo.objects().reader().read(&entry.oid).ok().map(|(_, content)| content.to_vec())
    }
}
