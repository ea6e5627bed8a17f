//! What is in progress, in the detail that `status` tells: from the files in the Git directory, by the rules of Git's `wt-status.c`.
//!
//! Nothing is changed. A file that is missing or empty means that nothing is known, not that something is wrong.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;
use sys::by_path;

use super::{Error, state::exists};

/// What is in progress; several things can be at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// A merge is not concluded.
    pub merge: bool,
    /// Patches from mails are being applied.
    pub am: Option<Am>,
    /// Commits are being rebased.
    pub rebase: Option<Rebase>,
    /// A cherry-pick: of this commit, or between two commits.
    pub cherry_pick: Option<Option<ObjectId>>,
    /// A revert, the same way.
    pub revert: Option<Option<ObjectId>>,
    /// A bisection.
    pub bisect: Option<Bisect>,
}

/// See [`Standing::am`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Am {
    /// The current patch says something.
    Patch,
    /// It is empty.
    EmptyPatch,
}

/// See [`Standing::rebase`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebase {
    /// There is a list of what is to be done.
    pub interactive: bool,
    /// What is being rebased: a branch's short name, or an abbreviated object name.
    pub branch: Option<BString>,
    /// Onto what, the same way.
    pub onto: Option<BString>,
}

/// See [`Standing::bisect`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bisect {
    /// Where it was started.
    pub from: Option<BString>,
}

/// Looks at the Git directory.
pub fn standing(repo: &Repository) -> Result<Standing, Error> {
    let there = |name: &str| exists(&repo.git_dir().join(name));
    let mut standing = Standing { merge: there("MERGE_HEAD")?, ..Standing::default() };
    if there("rebase-apply")? {
        if there("rebase-apply/applying")? {
            let patch = by_path::stat_followed(&repo.git_dir().join("rebase-apply/patch"));
            let is_empty = matches!(patch, Ok(Some(patch)) if patch.size == 0);
            standing.am = Some(if is_empty { Am::EmptyPatch } else { Am::Patch });
        } else {
            standing.rebase = Some(rebase(repo, "rebase-apply", false)?);
        }
    } else if there("rebase-merge")? {
        standing.rebase = Some(rebase(repo, "rebase-merge", there("rebase-merge/interactive")?)?);
    }
    if !standing.merge && standing.am.is_none() && standing.rebase.is_none() {
        standing.cherry_pick = repo.find_ref("CHERRY_PICK_HEAD".into())?.map(Some);
    }
    if there("BISECT_LOG")? {
        standing.bisect = Some(Bisect { from: branch(repo, "BISECT_START")? });
    }
    standing.revert = repo.find_ref("REVERT_HEAD".into())?.map(Some);
    match sequence(&read(&repo.git_dir().join("sequencer/todo"))?.unwrap_or_default()) {
        Some(Sequence::Pick) if standing.cherry_pick.is_none() => standing.cherry_pick = Some(None),
        Some(Sequence::Revert) if standing.revert.is_none() => standing.revert = Some(None),
        _ => {}
    }
    Ok(standing)
}

fn rebase(repo: &Repository, dir: &str, interactive: bool) -> Result<Rebase, Error> {
    let branch = |name: &str| branch(repo, &format!("{dir}/{name}"));
    Ok(Rebase { interactive, branch: branch("head-name")?, onto: branch("onto")? })
}

/// The branch or commit that a file names, as it is said.
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

/// What the sequencer's list begins with, if it is one of these.
fn sequence(todo: &[u8]) -> Option<Sequence> {
    let line = todo.trim_start_with(|letter| " \t\r\n".contains(letter));
    let word = line.split(|byte| b" \t".contains(byte)).next().filter(|word| word.len() < line.len())?;
    match word {
        b"pick" | b"p" => Some(Sequence::Pick),
        b"revert" => Some(Sequence::Revert),
        _ => None,
    }
}

/// Whether a commit is being taken apart while it is edited (`rebase -i`). `head` and `original` are HEAD, which is detached, and ORIG_HEAD.
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
    Ok(match amend == orig_head {
        true => amend != head.to_string().as_str(),
        false => orig_head != original.to_string().as_str(),
    })
}

/// What an interactive rebase has done (`done`) or has yet to do (`git-rebase-todo`), a line each, with short object names. `None`: there
/// is no such list. `comment` leads lines that say nothing.
pub fn rebase_list(repo: &Repository, name: &str, comment: &BStr) -> Result<Option<Vec<BString>>, Error> {
    let Some(content) = read(&repo.git_dir().join("rebase-merge").join(name))? else { return Ok(None) };
    let lines = content.lines().filter(|line| !line.starts_with(comment)).map(|line| line.trim());
    let lines = lines.filter(|line| !line.is_empty());
    Ok(Some(lines.map(|line| shortened(repo, line)).collect::<Result<_, _>>()?))
}

/// A line of the list, the object named by its second word abbreviated.
fn shortened(repo: &Repository, line: &[u8]) -> Result<BString, Error> {
    let mut words = line.splitn(3, |&byte| byte == b' ');
    let (command, Some(word)) = (words.next().unwrap_or_default(), words.next()) else {
        return Ok(line.into());
    };
    if matches!(command, b"exec" | b"x" | b"label" | b"l") || word == b"-" {
        return Ok(line.into());
    }
    let Ok(Some(oid)) = repo.resolve(word.as_bstr()) else { return Ok(line.into()) };
    let mut said: BString = bstr::concat([command, b" ", repo.abbreviate(oid)?.as_bytes()]).into();
    if let Some(rest) = words.next() {
        said.extend_from_slice(b" ");
        said.extend_from_slice(rest);
    }
    Ok(said)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    by_path::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_counts() {
        assert!(matches!(sequence(b"\n pick 12 a\n"), Some(Sequence::Pick)));
        assert!(matches!(sequence(b"p\t12 a\n"), Some(Sequence::Pick)));
        assert!(matches!(sequence(b"revert 12\n"), Some(Sequence::Revert)));
        assert!(sequence(b"# a\npick 12 a\n").is_none());
        assert!(sequence(b"pick").is_none());
    }
}
