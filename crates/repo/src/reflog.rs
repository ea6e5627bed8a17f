//! Reads reflogs: earlier values of a ref, and the branches that HEAD was on.

use bstr::{BStr, BString, ByteSlice};
use format::{ObjectId, keys, refname};

use crate::{Attempt, Error, Repository, RevisionError, disk};

/// A line of a reflog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The value before.
    pub old: ObjectId,
    /// The value after.
    pub new: ObjectId,
    /// `<name> <<email>>`
    pub committer: BString,
    /// Seconds since the epoch.
    pub date: i64,
    /// The time zone, such as `+0200`.
    pub zone: BString,
    /// The message.
    pub message: BString,
}

/// The commit or ref at which HEAD was detached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedFrom {
    /// The name to print in messages.
    pub name: BString,
    /// True if HEAD is still at that commit.
    pub is_there: bool,
}

impl Repository {
    /// Reads the reflog of a full ref name, oldest line first; `None` if there is none.
    pub fn reflog(&self, name: &BStr) -> Result<Option<Vec<LogLine>>, Error> {
        let file = refname::log_file(&self.layout.git_dir, &self.layout.common_dir, name);
        let bytes = disk::read_optional(&file).map_err(Attempt::Read.on(&file))?;
        let line = |entry: format::reflog::Entry<'_>| LogLine {
            old: entry.old,
            new: entry.new,
            committer: entry.committer.into(),
            date: entry.time,
            zone: entry.zone.into(),
            message: entry.message.into(),
        };
        Ok(bytes.map(|bytes| format::reflog::entries(self.layout.hash, &bytes).map(line).collect()))
    }

    /// Returns true if a full ref name has a reflog, even an empty one.
    pub(crate) fn has_reflog(&self, name: &BStr) -> bool {
        let file = refname::log_file(&self.layout.git_dir, &self.layout.common_dir, name);
        matches!(sys::by_path::stat(&file), Ok(Some(stat)) if stat.file_type == sys::FileType::File)
    }

    /// Returns a previous checkout by HEAD's reflog: the short name of a branch, or an object name.
    /// `back` counts from 1, the most recent. Returns `None` if the reflog has fewer checkouts.
    pub fn previous_checkout(&self, back: usize) -> Result<Option<BString>, Error> {
        let Some(lines) = self.reflog("HEAD".into())? else { return Ok(None) };
        let moves = lines.iter().rev().filter_map(|line| {
            let rest = line.message.strip_prefix(b"checkout: moving from ")?;
            rest.find(b" to ").map(|end| rest[..end].as_bstr())
        });
        Ok(back.checked_sub(1).and_then(|skip| moves.map(ToOwned::to_owned).nth(skip)))
    }

    /// Counts the entries in the reflog of a full ref name.
    pub fn reflog_length(&self, name: &BStr) -> Result<usize, Error> {
        Ok(self.reflog(name)?.map_or(0, |lines| lines.len()))
    }

    /// Returns the place where HEAD was last detached, by its reflog: the short name of a ref that
    /// is still at that commit, or the commit. `None` if no checkout moved HEAD.
    pub fn detached_from(&self) -> Result<Option<DetachedFrom>, Error> {
        let lines = self.reflog("HEAD".into())?.unwrap_or_default();
        let last = lines.iter().rev().find_map(|line| {
            let rest = line.message.strip_prefix(b"checkout: moving from ")?;
            rest.find(b" to ").map(|end| (rest[end + b" to ".len()..].as_bstr(), line.new))
        });
        let Some((name, oid)) = last else { return Ok(None) };
        // Names such as `@{u}` no longer have a meaning.
        let is_known = name != "HEAD" && self.interpret_branch_name(name).is_ok();
        let mut refs = if is_known { self.refs_of_short_name(name)? } else { Vec::new() };
        if !self.config(&keys::core::WARN_AMBIGUOUS_REFS)? {
            refs.truncate(1);
        }
        let at = |found: ObjectId| Ok::<_, Error>(found == oid || self.peel_to_commit(found)? == Some(oid));
        let name = match &refs[..] {
            [(full, found)] if at(*found)? => {
                let short = full.strip_prefix(b"refs/tags/").or_else(|| full.strip_prefix(b"refs/remotes/"));
                short.unwrap_or(full).into()
            }
            _ => self.abbreviate(oid)?.into(),
        };
        Ok(Some(DetachedFrom { name, is_there: self.head()?.oid() == Some(oid) }))
    }

    /// Resolves `ref@{n}`: the value `n` changes ago. If the log is too short, the error is Git's
    /// message.
    pub(crate) fn reflog_entry(
        &self,
        name: &BStr,
        shown: &BStr,
        n: usize,
    ) -> Result<Option<ObjectId>, Error> {
        let lines = self.reflog(name)?.unwrap_or_default();
        if n == 0 && lines.is_empty() {
            return self.find_ref(name);
        }
        let count = lines.len();
        if count == 0 {
            return Err(RevisionError::EmptyLog(shown.to_owned()).into());
        }
        if n < count {
            return Ok(Some(lines[count - 1 - n].new));
        }
        if n == count && !lines[0].old.is_null() {
            return Ok(Some(lines[0].old));
        }
        Err(RevisionError::ShortLog { name: shown.to_owned(), count }.into())
    }

    /// Resolves `ref@{date}`: the value at that time, or the oldest one.
    pub(crate) fn reflog_at(&self, name: &BStr, shown: &BStr, date: i64) -> Result<Option<ObjectId>, Error> {
        let lines = self.reflog(name)?.unwrap_or_default();
        let Some(oldest) = lines.first() else {
            return Err(RevisionError::EmptyLog(shown.to_owned()).into());
        };
        let at = lines.iter().rev().find(|line| line.date <= date).map(|line| line.new);
        Ok(Some(at.unwrap_or(if oldest.old.is_null() { oldest.new } else { oldest.old })))
    }
}
