//! The present state of a worktree and its index, stored as objects.
//!
//! Order: the comparison of the index with the files, and the search for untracked files; the
//! content of each file that differs; the trees of the index; the tree of the files. Nothing is
//! changed except that objects are staged. The cost is that of a status, and that of the changes.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::AtomicBool,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    index::{Edit, Entry, Flags, Index, NewEntry, Stage},
    loose::Kind,
};
use repo::Repository;
use store::objects::ObjectTransaction;
use sys::{Dir, Stat};

use super::{
    Content, Error, State,
    find::{self, Changes},
};
use crate::{
    add::{Missing, record, write_tree},
    look::stat::index_stat,
};

/// The times of files are as exact as the ticks of the kernel's clock, 10 milliseconds at most.
const TICK: Duration = Duration::from_millis(10);

/// The step of the times of files without a fraction of a second. FAT has two seconds, others have
/// one.
const WHOLE_SECONDS: Duration = Duration::from_secs(2);

/// The selection and the means of a snapshot.
pub struct Scope<'a> {
    /// Ignored files that are stored too.
    pub also: &'a [BString],
    /// `core.bigFileThreshold`, bytes.
    pub big_file_threshold: u64,
    /// Raised to end the work early.
    pub interrupt: &'a AtomicBool,
}

/// The present state.
#[derive(Debug)]
pub struct Snapshot {
    /// Its objects.
    pub state: State,
    /// The stat data of the files whose content was stored, from before they were read.
    pub(super) files: HashMap<BString, Stat>,
    /// The stored files that are ignored. They may be replaced, and are never removed.
    pub(super) ignored: HashSet<BString>,
    /// The paths that no object holds.
    pub left_out: Vec<LeftOut>,
    /// When the examination began; `None` if no file was examined.
    began: Option<SystemTime>,
}

impl Snapshot {
    /// Returns the state of a worktree without changes at this tree.
    pub fn of_tree(tree: ObjectId) -> Snapshot {
        Snapshot::of_state(State::of_tree(tree))
    }

    /// Returns a state whose files are in another worktree.
    pub fn of_state(state: State) -> Snapshot {
        Snapshot { state, files: HashMap::new(), ignored: HashSet::new(), left_out: Vec::new(), began: None }
    }

    /// Returns the paths that could not be read, with the reasons.
    pub(super) fn unreadable(&self) -> HashMap<&BStr, &str> {
        let mut found = HashMap::new();
        for LeftOut { path, reason } in &self.left_out {
            if let Reason::Unreadable(reason) = reason {
                found.insert(path.as_bstr(), reason.as_str());
            }
        }
        found
    }

    /// Returns the time from which on a change of the file gets another time, since 1970. `None` if
    /// it was over when the examination began.
    pub(super) fn unsettled_until(&self, stat: &Stat) -> Option<Duration> {
        let (seconds, nanoseconds) = stat.ctime;
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        let step = if nanoseconds == 0 { WHOLE_SECONDS } else { Duration::ZERO };
        // The kernel's clock may be a tick late.
        let until = changed + step + TICK;
        self.began.is_some_and(|began| until >= since_1970(began)).then_some(until)
    }
}

/// A path that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The path; that of a directory ends in a slash.
    pub path: BString,
    /// The reason.
    pub reason: Reason,
}

/// Why a path cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is another repository.
    Repository,
    /// It is neither a file nor a link.
    Special,
    /// It is a repository whose objects have names of another hash.
    OtherHash,
    /// Git allows no such name in an index.
    Name,
    /// It cannot be read.
    Unreadable(String),
    /// Git does not look at it (`update-index --skip-worktree`).
    Skipped,
}

/// Stages the objects of the present state in `transaction`. `index` is full, and its monitor was
/// queried. Afterwards it has the content of the worktree, with untracked files.
pub fn snapshot(
    repo: &Repository,
    root: &Dir,
    index: &mut Index,
    scope: &Scope<'_>,
    transaction: &ObjectTransaction<'_>,
) -> Result<Snapshot, Error> {
    let began = Some(SystemTime::now());
    let mut found = find::changes(repo, root, index, scope)?;
    let stored = found.store(repo, root, index, scope, transaction)?;
    let (index_tree, stages) = trees_of_index(repo, index, transaction)?;
    let intent_to_add = intent_to_add(repo, index, transaction)?;
    index.apply(stored.edits);
    index.resolve_undo = None;
    let worktree = write_tree(index, repo, transaction, Missing::Refused)?.root;
    let Changes { ignored, left_out, .. } = found;
    let state = State {
        worktree,
        index: index_tree,
        stages,
        intent_to_add,
        left_out: unreadable(repo, &left_out, transaction)?,
    };
    Ok(Snapshot { state, files: stored.files, ignored, left_out, began })
}

/// Writes the tree of the merged entries, and a tree for each stage of the unmerged ones.
fn trees_of_index(
    repo: &Repository,
    index: &mut Index,
    transaction: &ObjectTransaction<'_>,
) -> Result<(ObjectId, [Option<ObjectId>; 3]), Error> {
    if !index.is_unmerged() {
        return Ok((write_tree(index, repo, transaction, Missing::Refused)?.root, [None; 3]));
    }
    let mut merged = index.clone();
    let mut sides = [Stage::Base, Stage::Ours, Stage::Theirs].map(|stage| (stage, Index::empty(repo.hash())));
    let mut edits: Vec<Edit> = Vec::new();
    for at in index.unmerged() {
        let (entry, path) = (index.entry(at), index.path_at(at));
        if edits.last().is_none_or(|edit| edit.path != path) {
            edits.push(Edit { path: path.to_owned(), entries: Vec::new() });
        }
        let content = Content { mode: entry.mode, oid: entry.oid };
        for (_, side) in sides.iter_mut().filter(|(stage, _)| *stage == entry.stage) {
            side.push(path, new_entry(content, None));
        }
    }
    merged.apply(edits);
    let root = write_tree(&mut merged, repo, transaction, Missing::Refused)?.root;
    let mut stages = [None; 3];
    for (stage, (_, side)) in stages.iter_mut().zip(&mut sides) {
        if !side.is_empty() {
            *stage = Some(write_tree(side, repo, transaction, Missing::Refused)?.root);
        }
    }
    Ok((root, stages))
}

/// Writes the list of the entries that will be added, if there are any.
fn intent_to_add(
    repo: &Repository,
    index: &Index,
    transaction: &ObjectTransaction<'_>,
) -> Result<Option<ObjectId>, Error> {
    if !index.has_any(Flags::INTENT_TO_ADD) {
        return Ok(None);
    }
    let mut list = Vec::new();
    let is_intended = |entry: &Entry| entry.flags.contains(Flags::INTENT_TO_ADD);
    for entry in index.iter().filter(is_intended) {
        list.extend_from_slice(format!("{:o} ", entry.mode.bits()).as_bytes());
        list.extend_from_slice(index.path(&entry));
        list.push(0);
    }
    Ok(Some(record(repo, transaction, Kind::Blob, &list)?))
}

/// Writes the list of the paths that could not be read, if there are any.
fn unreadable(
    repo: &Repository,
    left_out: &[LeftOut],
    transaction: &ObjectTransaction<'_>,
) -> Result<Option<ObjectId>, Error> {
    let is_unreadable = |left: &&LeftOut| matches!(left.reason, Reason::Unreadable(_));
    let mut paths: Vec<&[u8]> =
        left_out.iter().filter(is_unreadable).map(|left| left.path.as_slice()).collect();
    if paths.is_empty() {
        return Ok(None);
    }
    paths.sort_unstable();
    paths.dedup();
    let list: Vec<u8> = paths.iter().flat_map(|path| [path, &b"\0"[..]]).flatten().copied().collect();
    Ok(Some(record(repo, transaction, Kind::Blob, &list)?))
}

/// Creates a merged entry. `stat` are the stat data of its file, if the file is known to match.
pub(super) fn new_entry(content: Content, stat: Option<&Stat>) -> NewEntry {
    let stat = stat.map(index_stat).unwrap_or_default();
    NewEntry { stat, oid: content.oid, mode: content.mode, flags: Flags::empty(), stage: Stage::Normal }
}

pub(super) fn since_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use format::HashKind;
    use sys::FileType;

    use super::*;

    /// On a file system with whole seconds, a later change in the same step has the same time.
    #[test]
    fn a_time_without_a_fraction_settles_later() {
        let began = Duration::from_millis(1_000_500);
        let tree = ObjectId::empty_tree(HashKind::Sha1);
        let snapshot = Snapshot { began: Some(UNIX_EPOCH + began), ..Snapshot::of_tree(tree) };
        let changed_at = |ctime| Stat {
            file_type: FileType::File,
            mode: 0o100_644,
            ctime,
            mtime: ctime,
            dev: 1,
            ino: 1,
            uid: 0,
            gid: 0,
            size: 1,
        };
        for (ctime, until) in [
            ((1000, 480_000_000), None),
            ((1000, 495_000_000), Some(1_000_505)),
            ((1000, 0), Some(1_002_010)),
            ((999, 0), Some(1_001_010)),
            ((998, 0), None),
            ((-1, 0), None),
        ] {
            let found = snapshot.unsettled_until(&changed_at(ctime));
            assert_eq!(found, until.map(Duration::from_millis), "{ctime:?}");
        }
        assert_eq!(Snapshot::of_tree(tree).unsettled_until(&changed_at((1000, 0))), None);
    }
}
