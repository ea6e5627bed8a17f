//! Operations in progress with the details that `status` prints, from the files in the Git
//! directory, by the rules of Git's `wt-status.c`.
//!
//! Nothing is changed. A missing or empty file means an unknown detail, not an error.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;
use sys::by_path;

use super::{Error, state::exists};

/// The operations in progress. Several may be in progress at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// True if a merge is not concluded.
    pub merge: bool,
    /// An `am` session that applies patches from mails.
    pub am: Option<Am>,
    /// A rebase.
    pub rebase: Option<Rebase>,
    /// A cherry-pick with its commit, or `None` between two commits.
    pub cherry_pick: Option<Option<ObjectId>>,
    /// A revert with its commit, or `None` between two commits.
    pub revert: Option<Option<ObjectId>>,
    /// A bisection.
    pub bisect: Option<Bisect>,
}

/// The state of an `am` session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Am {
    /// The current patch has content.
    Patch,
    /// The current patch is empty.
    EmptyPatch,
}

/// The state of a rebase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebase {
    /// True if the rebase has a todo list.
    pub interactive: bool,
    /// The rebased branch by its short name, or an abbreviated object name.
    pub branch: Option<BString>,
    /// The new base: a branch's short name, or an abbreviated object name.
    pub onto: Option<BString>,
}

/// The state of a bisection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bisect {
    /// The branch or commit that was checked out when it started.
    pub from: Option<BString>,
}

/// Reads the files of the Git directory.
pub fn operations(repo: &Repository) -> Result<Operations, Error> {
    let is_there = |name: &str| exists(&repo.git_dir().join(name));
    let mut operations = Operations { merge: is_there("MERGE_HEAD")?, ..Operations::default() };
    if is_there("rebase-apply")? {
        if is_there("rebase-apply/applying")? {
            let patch = by_path::stat_followed(&repo.git_dir().join("rebase-apply/patch"));
            let is_empty = matches!(patch, Ok(Some(patch)) if patch.size == 0);
            operations.am = Some(if is_empty { Am::EmptyPatch } else { Am::Patch });
        } else {
            operations.rebase = Some(rebase(repo, "rebase-apply", false)?);
        }
    } else if is_there("rebase-merge")? {
        operations.rebase = Some(rebase(repo, "rebase-merge", is_there("rebase-merge/interactive")?)?);
    }
    if !operations.merge && operations.am.is_none() && operations.rebase.is_none() {
        operations.cherry_pick = repo.find_ref("CHERRY_PICK_HEAD".into())?.map(Some);
    }
    if is_there("BISECT_LOG")? {
        operations.bisect = Some(Bisect { from: branch(repo, "BISECT_START")? });
    }
    operations.revert = repo.find_ref("REVERT_HEAD".into())?.map(Some);
    match sequence(&read(&repo.git_dir().join("sequencer/todo"))?.unwrap_or_default()) {
        Some(Sequence::Pick) if operations.cherry_pick.is_none() => operations.cherry_pick = Some(None),
        Some(Sequence::Revert) if operations.revert.is_none() => operations.revert = Some(None),
        _ => {}
    }
    Ok(operations)
}

fn rebase(repo: &Repository, dir: &str, interactive: bool) -> Result<Rebase, Error> {
    let branch = |name: &str| branch(repo, &format!("{dir}/{name}"));
    Ok(Rebase { interactive, branch: branch("head-name")?, onto: branch("onto")? })
}

/// Reads a file that names a branch or commit, and returns the name as `status` prints it.
fn branch(repo: &Repository, file: &str) -> Result<Option<BString>, Error> {
    let content = read(&repo.git_dir().join(file))?.unwrap_or_default();
    let name = content.trim_end_with(|letter| letter == '\n');
    if name.is_empty() || name == b"detached HEAD" {
        return Ok(None);
    }
    if let Some(short) = name.strip_prefix(b"refs/heads/") {
        return Ok(Some(short.into()));
    }
    let oid = name.get(..repo.hash().hex_len()).and_then(|hex| ObjectId::from_hex(repo.hash(), hex));
    Ok(Some(match oid {
        Some(oid) if !name.starts_with(b"refs/") => repo.abbreviate(oid)?.into(),
        _ => name.into(),
    }))
}

enum Sequence {
    Pick,
    Revert,
}

/// Returns the command on the first line of the sequencer's todo list, if it is a pick or a revert.
fn sequence(todo: &[u8]) -> Option<Sequence> {
    let line = todo.trim_start_with(|letter| " \t\r\n".contains(letter));
    let word = line.split(|byte| b" \t".contains(byte)).next().filter(|word| word.len() < line.len())?;
    match word {
        b"pick" | b"p" => Some(Sequence::Pick),
        b"revert" => Some(Sequence::Revert),
        _ => None,
    }
}

/// Returns true if a commit is being split during an edit of `rebase -i`. `head` is the commit of
/// the detached HEAD.
pub fn is_splitting(repo: &Repository, head: ObjectId) -> Result<bool, Error> {
    let line = |name: &str| -> Result<Option<BString>, Error> {
        let content = read(&repo.git_dir().join("rebase-merge").join(name))?;
        Ok(content.map(|content| content.lines().next().unwrap_or_default().into()))
    };
    let Some(original) = repo.find_ref("ORIG_HEAD".into())? else { return Ok(false) };
    if repo.symbolic_target("ORIG_HEAD".into())?.is_some() {
        return Ok(false);
    }
    let (Some(amend), Some(orig_head)) = (line("amend")?, line("orig-head")?) else { return Ok(false) };
    Ok(if amend == orig_head {
        amend != head.to_string().as_str()
    } else {
        orig_head != original.to_string().as_str()
    })
}

/// Returns the lines of an interactive rebase's list `name` (`done` or `git-rebase-todo`), with
/// abbreviated object names. Lines that begin with `comment` are skipped. Returns `None` if the
/// file does not exist.
pub fn rebase_list(repo: &Repository, name: &str, comment: &BStr) -> Result<Option<Vec<BString>>, Error> {
    let Some(content) = read(&repo.git_dir().join("rebase-merge").join(name))? else { return Ok(None) };
    let lines = content.lines().filter(|line| !line.starts_with(comment)).map(|line| line.trim());
    let lines = lines.filter(|line| !line.is_empty());
    Ok(Some(lines.map(|line| shortened(repo, line)).collect::<Result<_, _>>()?))
}

/// Abbreviates the object name that is the second word of a line.
fn shortened(repo: &Repository, line: &[u8]) -> Result<BString, Error> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let (command, Some(word)) = (words.next().unwrap_or_default(), words.next()) else {
        return Ok(line.into());
    };
    if matches!(command, b"exec" | b"x" | b"label" | b"l") || word == b"-" {
        return Ok(line.into());
    }
    let Ok(Some(oid)) = repo.resolve(word.as_bstr()) else { return Ok(line.into()) };
    let mut short: BString = bstr::concat([command, b" ", repo.abbreviate(oid)?.as_bytes()]).into();
    if let Some(rest) = words.next() {
        short.extend_from_slice(b" ");
        short.extend_from_slice(rest);
    }
    Ok(short)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    by_path::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_command_from_the_first_word() {
        assert!(matches!(sequence(b"\n pick 12 a\n"), Some(Sequence::Pick)));
        assert!(matches!(sequence(b"p\t12 a\n"), Some(Sequence::Pick)));
        assert!(matches!(sequence(b"revert 12\n"), Some(Sequence::Revert)));
        assert!(sequence(b"# a\npick 12 a\n").is_none());
        assert!(sequence(b"pick").is_none());
    }
}
