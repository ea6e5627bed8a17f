//! A sample of the worktree: the time of an `lstat` and of a small read, and how many files differ
//! from the index in their stat data alone.

use std::{
    io::Read as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use engine::stat::{Match, StatRules};
use format::index::{Entry, Flags, Index};
use repo::Repository;
use sys::{Dir, FileType, by_path};

/// The number of index entries whose files are examined.
const SIZE: usize = 64;

/// The number of files that are read, and the size limit of a small file, in bytes.
const READS: usize = 8;
const SMALL: u64 = 16 << 10;

/// The sample. A disk that was idle for long responds more slowly than one in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The number of files examined, and the mean time of one `lstat`.
    pub(crate) files: usize,
    pub(crate) stat: Duration,
    /// The mean time to open, read and close a small file.
    pub(crate) read: Option<Duration>,
    /// Files that status must read, because only their stat data differ from the index.
    pub(crate) touched: usize,
}

impl Sample {
    /// Takes a sample, if the worktree has files.
    pub(super) fn take(repo: &Repository, index: &Index) -> Option<Sample> {
        let top = repo.work_tree()?;
        let chosen = chosen(index);
        let paths: Vec<PathBuf> =
            chosen.iter().map(|entry| top.join(sys::os_str(index.path(entry)))).collect();
        let began = Instant::now();
        let stats: Vec<Option<sys::Stat>> =
            paths.iter().map(|path| by_path::stat(path).ok().flatten()).collect();
        let took = began.elapsed();
        let files = u32::try_from(stats.len()).ok().filter(|&files| files > 0)?;
        let rules = StatRules::of(repo).unwrap_or_default();
        let pairs = || chosen.iter().zip(&stats).filter_map(|(entry, stat)| Some((entry, stat.as_ref()?)));
        let is_touched = |(entry, stat): &(&Entry, &sys::Stat)| {
            rules.compare(entry, stat, index.timestamp) == Match::Touched
        };
        let small =
            pairs().filter(|(_, stat)| stat.file_type == FileType::File && (1..=SMALL).contains(&stat.size));
        let root = Dir::open(top).ok();
        Some(Sample {
            files: stats.len(),
            stat: took / files,
            read: root.and_then(|root| {
                let small = small.take(READS).map(|(entry, _)| index.path(entry).as_ref());
                read(&root, small)
            }),
            touched: pairs().filter(is_touched).count(),
        })
    }
}

/// Picks entries at equal distances, and keeps those that are files or symlinks in the worktree.
fn chosen(index: &Index) -> Vec<Entry> {
    let step = index.len().div_ceil(SIZE).max(1);
    let is_there = |entry: &Entry| {
        !entry.mode.is_gitlink() && !entry.mode.is_tree() && !entry.flags.contains(Flags::SKIP_WORKTREE)
    };
    let in_step = |from: usize| {
        (from..index.len().min(from + step)).map(|position| index.entry(position)).find(is_there)
    };
    (0..index.len()).step_by(step).filter_map(in_step).collect()
}

/// Returns the mean time to read these files.
fn read<'a>(root: &Dir, paths: impl Iterator<Item = &'a [u8]>) -> Option<Duration> {
    let (mut count, began) = (0, Instant::now());
    for path in paths {
        let mut content = Vec::new();
        let read = root.open_file(path).and_then(|mut file| file.read_to_end(&mut content));
        count += u32::from(read.is_ok());
    }
    (count > 0).then(|| began.elapsed() / count)
}
