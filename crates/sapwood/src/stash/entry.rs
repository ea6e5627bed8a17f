//! The stash entry that a caller names.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;

use super::{STASH, StashError, newest};
use crate::{Error, PlanError, text};

/// A stash entry, or a commit with the same structure.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name in messages.
    pub revision: BString,
    /// The commit that records the worktree.
    pub commit: ObjectId,
    /// The commit that the stash is based on.
    pub base: ObjectId,
    /// The tree of `base`.
    pub base_tree: ObjectId,
    /// The tree of the worktree.
    pub tree: ObjectId,
    /// The tree of the index.
    pub index: ObjectId,
    /// The tree of the untracked files, if they were stashed.
    pub untracked: Option<ObjectId>,
    /// True if `revision` names an entry of the stash's reflog.
    pub is_of_stash: bool,
}

/// The error for a name whose error message is left to Git.
const STRANGE: PlanError = PlanError::Unsupported("revisions that are no stash entries");

/// Finds the entry with this name or number; the newest one without a name.
pub fn find(repo: &Repository, name: Option<&BString>) -> Result<Entry, PlanError> {
    let revision = match name {
        None if newest(repo)?.is_none() => return Err(Error::from(StashError::NoEntries).into()),
        None => text!(STASH, "@{0}"),
        Some(name) if name.iter().all(u8::is_ascii_digit) => text!(STASH, "@{", name, "}"),
        Some(name) => name.clone(),
    };
    let name = revision.as_bstr();
    let like = read(repo, name).ok_or(STRANGE)?;
    let symbolic = &name[..name.find_byte(b'@').unwrap_or(name.len())];
    let is_of_stash = match repo.refs_of_short_name(symbolic.as_bstr()) {
        Ok(found) if found.is_empty() => false,
        Ok(found) if found.len() == 1 => found[0].0 == STASH,
        _ => return Err(STRANGE),
    };
    Ok(Entry { revision, is_of_stash, ..like })
}

/// Returns the commit with this name, if it has the structure of a stash entry and the name has
/// only one meaning.
pub fn read(repo: &Repository, name: &BStr) -> Option<Entry> {
    if !matches!(repo.is_resolved_without_warning(name), Ok(true)) {
        return None;
    }
    trees(repo, repo.rev_parse(name).ok()?)
}

/// Returns the parts of a commit with the structure of a stash entry; `None` for another commit.
fn trees(repo: &Repository, commit: ObjectId) -> Option<Entry> {
    let parent = |number: u8| repo.rev_parse(text!(commit.to_string(), format!("^{number}")).as_bstr());
    let base = parent(1).ok()?;
    let entry = Entry {
        revision: BString::default(),
        commit,
        base,
        base_tree: repo.tree_of(base).ok()?,
        tree: repo.tree_of(commit).ok()?,
        index: repo.tree_of(parent(2).ok()?).ok()?,
        untracked: parent(3).and_then(|commit| repo.tree_of(commit)).ok(),
        is_of_stash: false,
    };
    Some(entry)
}

impl Entry {
    /// Returns the entry's number in the reflog. An entry named by date is left to Git.
    pub fn number(&self) -> Result<usize, PlanError> {
        if !self.is_of_stash {
            return Err(Error::from(StashError::NotAnEntry(self.revision.clone())).into());
        }
        let number = self.revision.split_once_str("@{").and_then(|(_, rest)| rest.strip_suffix(b"}"));
        let digits = number.filter(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
        let number = digits.and_then(|digits| BStr::new(digits).to_str().ok()?.parse().ok());
        number.ok_or(STRANGE)
    }
}
