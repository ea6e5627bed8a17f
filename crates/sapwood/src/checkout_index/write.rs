//! Files at the paths of their entries, or below a prefix.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice as _};
use engine::{
    checkout::{EntryOptions, EntryPlan, Force, Operation, Verdict, plan_entries},
    files::whole,
};
use format::index::Index;
use repo::Repository;
use sys::{Dir, FileType, UserPath, by_path};

use super::{Found, Options, report};
use crate::{
    Error, PlanError, text,
    transaction::{Done, IndexTransaction},
};

/// The error of a directory that cannot be created because another file is in its place.
const EEXIST: i32 = 17;

/// Writes the entries. Returns false if some could not be written, for reasons that were reported.
/// The caller then calls [`IndexTransaction::finish`], if all were.
pub fn check_out(
    transaction: &mut IndexTransaction<'_>,
    options: &Options,
    found: Vec<Found>,
) -> Result<bool, PlanError> {
    let repo = transaction.context().repo;
    let top = repo.work_tree().ok_or(Error::NoWorktree)?;
    Checkout { options, repo, top }.check_out(transaction, found)
}

struct Checkout<'a> {
    options: &'a Options,
    repo: &'a Repository,
    top: &'a Path,
}

impl Checkout<'_> {
    fn check_out(
        &self,
        transaction: &mut IndexTransaction<'_>,
        found: Vec<Found>,
    ) -> Result<bool, PlanError> {
        let options = self.options;
        let (shown_place, lead) = self.place();
        let place = self.below(shown_place)?;
        // If the directory cannot be opened, it has to be created.
        let mut elsewhere = if shown_place.is_empty() { None } else { Dir::open(&place).ok() };
        let chosen: Vec<usize> = found.iter().flat_map(Found::entries).copied().collect();
        if !shown_place.is_empty() && elsewhere.is_none() {
            if chosen.is_empty() || !options.create {
                return Ok(self.report(transaction, &transaction.index, found, &[])?);
            }
            self.make_place()?;
            elsewhere = Some(Dir::open(&place).map_err(|error| no_directory(shown_place, &error))?);
        }
        let how = EntryOptions {
            elsewhere: elsewhere.as_ref(),
            lead,
            force: if options.force { Force::OverwriteUntracked } else { Force::No },
            create: options.create,
            records_stat: options.records_stat,
        };
        let index = std::mem::replace(&mut transaction.index, Index::empty(self.repo.hash()));
        let planned = plan_entries(self.repo, transaction.worktree(), index, &chosen, &how);
        let EntryPlan { plan, verdicts } =
            planned.map_err(|error| transaction.explain(error.into(), Operation::Plumbing))?;
        let reported = self.report(transaction, &plan.index, found, &verdicts);
        if !options.prefix.is_empty() {
            transaction.redirect(elsewhere.map(|dir| (place, dir)), &options.prefix, lead);
        }
        let done = transaction.carry_out(plan)?;
        // The paths before a fatal error were written; now the error is returned.
        let is_complete = reported?;
        Ok(is_complete && done != Done::Incomplete)
    }

    /// Reports the paths in order. `verdicts` are those of the entries; empty if no entry was
    /// written. Returns false if one is left out.
    fn report(
        &self,
        transaction: &IndexTransaction<'_>,
        index: &Index,
        found: Vec<Found>,
        verdicts: &[Verdict],
    ) -> Result<bool, Error> {
        let mut verdicts = verdicts.iter();
        let mut is_complete = true;
        for found in found {
            let entries = match found {
                Found::Fatal(message) => return Err(Error::Failed(message)),
                Found::Skipped(message) => {
                    report(transaction, self.options, message);
                    is_complete = false;
                    continue;
                }
                Found::Entries(entries) => entries,
            };
            for (at, verdict) in entries.into_iter().zip(&mut verdicts) {
                let path = index.path_at(at);
                match *verdict {
                    Verdict::Written | Verdict::Kept => {}
                    Verdict::Exists => {
                        let shown = text!(self.options.prefix, path);
                        report(transaction, self.options, text!(shown, " already exists, no checkout"));
                        is_complete = false;
                    }
                    Verdict::Blocked(len) => {
                        let (place, lead) = self.place();
                        let path = text!(lead, path);
                        let exists = std::io::Error::from_raw_os_error(EEXIST);
                        return Err(no_directory(text!(place, path[..len]), &exists));
                    }
                }
            }
        }
        Ok(is_complete)
    }

    /// Splits the prefix into a directory, and the beginning of the file names in it.
    fn place(&self) -> (&[u8], &[u8]) {
        let prefix = self.options.prefix.as_slice();
        prefix.split_at(prefix.rfind_byte(b'/').map_or(0, |slash| slash + 1))
    }

    /// Resolves a part of the prefix against the worktree's root; an empty part is the root.
    fn below(&self, part: &[u8]) -> Result<PathBuf, Error> {
        let path = UserPath::new(part);
        path.resolve_or_base(self.top).map_err(|refused| Error::refused(&path, refused))
    }

    /// Creates the directories of the prefix. Symlinks to directories in it are followed.
    fn make_place(&self) -> Result<(), Error> {
        let prefix: &BString = &self.options.prefix;
        for end in prefix.find_iter("/").filter(|&end| end > 0) {
            let shown = &prefix[..end];
            let path = self.below(shown)?;
            let is_directory = |stat: &sys::Stat| stat.file_type == FileType::Directory;
            if matches!(by_path::stat_followed(&path), Ok(Some(stat)) if is_directory(&stat)) {
                continue;
            }
            whole::create_dir(self.repo, &path, self.options.force).map_err(|error| match error {
                whole::DirError::Guard(error) => error.into(),
                whole::DirError::Io(error) => no_directory(shown, &error),
            })?;
        }
        Ok(())
    }
}

fn no_directory(shown: impl AsRef<[u8]>, error: &std::io::Error) -> Error {
    Error::Failed(text!("cannot create directory at '", shown, "': ", sys::reason(error)))
}
