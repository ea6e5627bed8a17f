//! The stash entry that a command line names.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;

use super::common::{STASH, newest};
use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// A stash entry, or a commit with the same structure.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name in messages.
    pub(super) revision: BString,
    /// The commit that records the worktree.
    pub(super) commit: ObjectId,
    /// The commit that the stash is based on.
    pub(super) base: ObjectId,
    /// The tree of `base`.
    pub(super) base_tree: ObjectId,
    /// The tree of the worktree.
    pub(super) tree: ObjectId,
    /// The tree of the index.
    pub(super) index: ObjectId,
    /// The tree of the untracked files, if they were stashed.
    pub(super) untracked: Option<ObjectId>,
    /// True if `revision` names an entry of the stash's reflog.
    pub(super) is_of_stash: bool,
}

/// The failure for a name whose error message is left to Git.
const STRANGE: Failure = Failure::Unserved("revisions that are no stash entries");

/// Finds the entry that `args` name; the newest one without arguments.
pub(super) fn find(repo: &Repository, args: &[BString]) -> Result<Entry, Failure> {
    let revision = match args {
        [] if newest(repo)?.is_none() => {
            console::eprint_line("No stash entries found.");
            return Err(Failure::Reported(1));
        }
        [] => text!(STASH, "@{0}"),
        [name] if name.iter().all(u8::is_ascii_digit) => text!(STASH, "@{", name, "}"),
        [name] => name.clone(),
        several => {
            let names: Vec<BString> = several.iter().map(|name| text!(" '", name, "'")).collect();
            console::eprint_line(text!("Too many revisions specified:", bstr::concat(names)));
            return Err(Failure::Reported(1));
        }
    };
    let name = revision.as_bstr();
    if !matches!(repo.is_resolved_without_warning(name), Ok(true)) {
        return Err(STRANGE);
    }
    let Ok(commit) = repo.rev_parse(name) else { return Err(STRANGE) };
    let Some(like) = trees(repo, commit) else { return Err(STRANGE) };
    let symbolic = &name[..name.find_byte(b'@').unwrap_or(name.len())];
    let is_of_stash = match repo.refs_of_short_name(symbolic.as_bstr()) {
        Ok(found) if found.is_empty() => false,
        Ok(found) if found.len() == 1 => found[0].0 == STASH,
        _ => return Err(STRANGE),
    };
    Ok(Entry { revision, commit, is_of_stash, ..like })
}

/// Returns the parts of a commit with the structure of a stash entry; `None` for another commit.
pub(super) fn trees(repo: &Repository, commit: ObjectId) -> Option<Entry> {
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
    pub(super) fn number(&self) -> Result<usize, Failure> {
        if !self.is_of_stash {
            return Err(Failure::error(text!("'", self.revision, "' is not a stash reference")));
        }
        let number = self.revision.split_once_str("@{").and_then(|(_, rest)| rest.strip_suffix(b"}"));
        let digits = number.filter(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
        let number = digits.and_then(|digits| BStr::new(digits).to_str().ok()?.parse().ok());
        number.ok_or(STRANGE)
    }
}
