//! The index: how large it is, and which caches it holds.

use std::path::PathBuf;

use bstr::ByteSlice as _;
use engine::untracked::cache;
use format::index::{Flags, Index};
use repo::Repository;
use store::index::{Access, LoadError, ReadOptions};
use sys::by_path;

/// The index file.
#[derive(Debug, Default)]
pub(crate) enum IndexState {
    /// The repository has no index file.
    #[default]
    Missing,
    /// The index cannot be read; `why` is the reason.
    Broken {
        path: PathBuf,
        why: String,
    },
    Read(IndexFacts),
}

/// An index that was read.
#[derive(Debug, Default)]
pub(crate) struct IndexFacts {
    /// The number of entries, and of the directories that contain them.
    pub(crate) entries: usize,
    pub(crate) directories: usize,
    pub(crate) submodules: usize,
    /// Entries that are not in the worktree because it is sparse.
    pub(crate) skipped: usize,
    pub(crate) version: u32,
    /// The size of the file in bytes, and the bytes that version 4 would save.
    pub(crate) size: u64,
    pub(crate) saved_by_version_4: u64,
    /// Some entries stand for directories.
    pub(crate) is_sparse: bool,
    pub(crate) is_split: bool,
    /// The index has a file system monitor extension.
    pub(crate) is_monitored: bool,
    pub(crate) untracked: CacheFacts,
}

/// The untracked cache in an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CacheFacts {
    #[default]
    None,
    /// The cache was made for another location or system, and is not used here.
    Foreign,
    /// Directories in the cache, and how many of them have a valid record.
    Here { directories: usize, valid: usize },
}

/// Reads the index and verifies its checksum.
pub(super) fn load(repo: &Repository) -> (IndexState, Option<Index>) {
    let path = repo.index_path();
    let size = match by_path::stat_followed(&path) {
        Ok(None) => return (IndexState::Missing, None),
        Ok(Some(stat)) => stat.size,
        Err(error) => return (IndexState::Broken { path, why: sys::reason(&error) }, None),
    };
    let options = ReadOptions { verify: true, access: Access::Lookups, ..ReadOptions::default() };
    match store::index::load(&path, repo.hash(), &options) {
        Ok(index) => (IndexState::Read(IndexFacts::of(repo, &index, size)), Some(index)),
        Err(error) => {
            let source = match &error {
                LoadError::Corrupt { source, .. } => Some(source.to_string()),
                _ => None,
            };
            let message = [Some(error.to_string()), source].into_iter().flatten().collect::<Vec<_>>();
            (IndexState::Broken { path, why: message.join(": ") }, None)
        }
    }
}

impl IndexFacts {
    fn of(repo: &Repository, index: &Index, size: u64) -> IndexFacts {
        let mut facts = IndexFacts {
            entries: index.len(),
            submodules: index.gitlinks().count(),
            version: index.version.map_or(2, |version| version as u32),
            size,
            is_sparse: index.sparse,
            is_split: index.base.is_some(),
            is_monitored: index.fsmonitor.is_some(),
            untracked: CacheFacts::of(repo, index),
            ..IndexFacts::default()
        };
        let may_skip = index.has_any(Flags::SKIP_WORKTREE);
        let (mut before, mut shared) = (&b""[..], 0);
        for position in 0..index.len() {
            let path = index.path_at(position).as_bytes();
            let common = before.iter().zip(path).take_while(|(one, other)| one == other).count();
            facts.directories += path[common..].iter().filter(|&&byte| byte == b'/').count();
            shared += common;
            facts.skipped +=
                usize::from(may_skip && index.entry(position).flags.contains(Flags::SKIP_WORKTREE));
            before = path;
        }
        // Version 4 replaces the prefix shared with the previous path by a number, and the padding
        // of one to eight NULs by one NUL.
        if facts.version < 4 {
            facts.saved_by_version_4 = ((shared + index.len() * 5 / 2) as u64).min(size);
        }
        facts
    }
}

impl CacheFacts {
    fn of(repo: &Repository, index: &Index) -> CacheFacts {
        let Some(found) = &index.untracked else { return CacheFacts::None };
        if found.ident() != cache::ident(repo) {
            return CacheFacts::Foreign;
        }
        let directories = found.directories();
        let all = directories.root().map_or(0..0, |root| root..directories.after(root));
        let valid = all.clone().filter(|&at| directories.recorded(at).is_some()).count();
        CacheFacts::Here { directories: all.len(), valid }
    }
}
