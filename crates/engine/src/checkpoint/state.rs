//! The tree of one entry.
//!
//! | name | object |
//! |---|---|
//! | `index` | the tree of the merged entries of the index |
//! | `info` | a blob of the caller |
//! | `intent-to-add` | a blob: octal mode, space, path, NUL of each path to be added, if any |
//! | `left-out` | a blob: path, NUL of each path that could not be read, if any |
//! | `stage1`, `stage2`, `stage3` | trees of the unmerged entries; only if there are any |
//! | `worktree` | the tree of the files |

use bstr::{BString, ByteSlice as _};
use format::{Mode, ObjectId, loose::Kind, tree::TreeEntries};
use repo::Repository;
use store::objects::ObjectTransaction;

use super::Error;
use crate::add::record;

const INDEX: &str = "index";
const INFO: &str = "info";
const INTENT_TO_ADD: &str = "intent-to-add";
const LEFT_OUT: &str = "left-out";
const STAGES: [&str; 3] = ["stage1", "stage2", "stage3"];
const WORKTREE: &str = "worktree";

/// A state of a worktree and its index. Two states are equal if their objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The tree of the files: the tracked ones, and the untracked ones that are not ignored.
    pub worktree: ObjectId,
    /// The tree of the merged entries of the index.
    pub index: ObjectId,
    /// The trees of the unmerged entries: bases, ours, theirs.
    pub stages: [Option<ObjectId>; 3],
    /// The list of the entries that will be added (`add -N`).
    pub intent_to_add: Option<ObjectId>,
    /// The list of the paths that could not be read. A directory ends in a slash: its tracked files
    /// are stored, or listed themselves, and its untracked ones are unknown.
    pub left_out: Option<ObjectId>,
}

impl State {
    /// Returns the state of a worktree and an index without changes, at this tree.
    pub fn of_tree(tree: ObjectId) -> State {
        State { worktree: tree, index: tree, stages: [None; 3], intent_to_add: None, left_out: None }
    }
}

/// Writes the tree of an entry, and the blob `info`. Returns the tree.
pub fn write(
    repo: &Repository,
    transaction: &ObjectTransaction<'_>,
    state: &State,
    info: &[u8],
) -> Result<ObjectId, Error> {
    let info = record(repo, transaction, Kind::Blob, info)?;
    let entries = [
        (INDEX, Mode::TREE, Some(state.index)),
        (INFO, Mode::FILE, Some(info)),
        (INTENT_TO_ADD, Mode::FILE, state.intent_to_add),
        (LEFT_OUT, Mode::FILE, state.left_out),
        (STAGES[0], Mode::TREE, state.stages[0]),
        (STAGES[1], Mode::TREE, state.stages[1]),
        (STAGES[2], Mode::TREE, state.stages[2]),
        (WORKTREE, Mode::TREE, Some(state.worktree)),
    ];
    let mut tree = Vec::new();
    for (name, mode, oid) in entries {
        if let Some(oid) = oid {
            tree.extend_from_slice(format!("{:o} {name}\0", mode.bits()).as_bytes());
            tree.extend_from_slice(oid.as_bytes());
        }
    }
    Ok(record(repo, transaction, Kind::Tree, &tree)?)
}

/// Reads the tree of an entry. Returns the state, and the content of the blob `info`.
pub fn read(repo: &Repository, entry: ObjectId) -> Result<(State, BString), Error> {
    let mut reader = repo.objects().reader();
    let (kind, data) = reader.read(&entry)?;
    if kind != Kind::Tree {
        return Err(Error::NoEntry(entry));
    }
    let (mut worktree, mut index, mut info) = (None, None, None);
    let (mut intent_to_add, mut left_out, mut stages) = (None, None, [None; 3]);
    for found in TreeEntries::new(repo.hash(), data) {
        let found = found.map_err(|_| Error::NoEntry(entry))?;
        let slot = match found.name.to_str().unwrap_or_default() {
            INDEX => &mut index,
            INFO => &mut info,
            INTENT_TO_ADD => &mut intent_to_add,
            LEFT_OUT => &mut left_out,
            WORKTREE => &mut worktree,
            name => match STAGES.iter().position(|stage| *stage == name) {
                Some(stage) => &mut stages[stage],
                None => continue,
            },
        };
        *slot = Some(found.oid);
    }
    let (Some(worktree), Some(index), Some(info)) = (worktree, index, info) else {
        return Err(Error::NoEntry(entry));
    };
    let (kind, data) = reader.read(&info)?;
    if kind != Kind::Blob {
        return Err(Error::NoEntry(entry));
    }
    Ok((State { worktree, index, stages, intent_to_add, left_out }, data.into()))
}

/// Reads a list of paths that could not be read.
pub(super) fn left_out(repo: &Repository, list: Option<ObjectId>) -> Result<Vec<BString>, Error> {
    let Some(list) = list else { return Ok(Vec::new()) };
    let mut reader = repo.objects().reader();
    let (_, data) = reader.read(&list)?;
    Ok(data.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(BString::from).collect())
}
