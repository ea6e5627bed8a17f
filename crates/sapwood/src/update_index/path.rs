//! Updating one named path: Git's `update_one`.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, Conflict, Error as HashError, Found, Store},
    stat::{Match, index_stat},
};
use format::{
    Mode,
    index::{Entry, Flags, MonitorAnswer, NewEntry, Stage},
    path,
};
use sys::{FileType, Stat};

use super::Update;
use crate::{Error, Notice, events::Staged, text};

/// From this number of paths on, several workers examine them.
const MANY: usize = 64;

/// A path could not be updated. The reason was reported.
pub(super) struct Refused;

impl Update<'_> {
    /// Updates paths, one after the other, as [`Update::rules`] say.
    pub fn paths(&mut self, paths: &[BString]) -> Result<(), Error> {
        let mut seen =
            if paths.len() >= MANY && self.looks() { self.probe.probe_all(paths) } else { Vec::new() }
                .into_iter();
        for path in paths {
            self.context.check_interrupt()?;
            self.named(path.as_bstr(), seen.next().flatten())?;
        }
        Ok(())
    }

    /// Updates a path, and then its mode with `--chmod`. `seen` is its stat data, if already known.
    fn named(&mut self, path: &BStr, seen: Option<Stat>) -> Result<(), Error> {
        self.update(path, seen)?;
        let Some(executable) = self.rules.chmod else { return Ok(()) };
        self.looks_for(path)?;
        let flip = if executable { "+x" } else { "-x" };
        let is_file = self.staging.merged(path).is_some_and(|entry| entry.mode.is_file());
        if !is_file {
            return Err(Error::Failed(text!("git update-index: cannot chmod ", flip, " '", path, "'")));
        }
        let mode = if executable { Mode::EXECUTABLE } else { Mode::FILE };
        self.staging.alter(path, |entry| entry.mode = mode);
        self.tell(Staged::Executable(path, executable));
        Ok(())
    }

    /// Returns the flag to set or clear, if the command changes only flags.
    fn mark(&self) -> Option<(bool, Flags)> {
        let marks = [
            (self.rules.assume_valid, Flags::ASSUME_VALID),
            (self.rules.skip_worktree, Flags::SKIP_WORKTREE),
            (self.rules.fsmonitor_valid, Flags::FSMONITOR_VALID),
        ];
        marks.into_iter().find_map(|(mark, flag)| mark.map(|mark| (mark, flag)))
    }

    /// Returns true if the update depends on the worktree.
    fn looks(&self) -> bool {
        self.mark().is_none() && !self.rules.force_remove
    }

    /// Updates a path, relative to the worktree's root.
    pub(super) fn update(&mut self, path: &BStr, seen: Option<Stat>) -> Result<(), Error> {
        let found = match seen {
            Some(stat) => Found::Present(stat),
            None if self.looks() => self.probe.probe(path),
            None => Found::Missing,
        };
        let kind = match &found {
            Found::Present(stat) if stat.file_type == FileType::Symlink => Mode::SYMLINK,
            _ => Mode::FILE,
        };
        if path::verify(path, kind, self.protect).is_err() {
            self.context.events.notice(Notice::IgnoredPath(path.to_owned()));
            return Ok(());
        }
        self.looks_for(path)?;
        if let Some((mark, flag)) = self.mark() {
            if !self.staging.alter(path, |entry| entry.flags.set(flag, mark)) {
                return Err(Error::Failed(text!("Unable to mark file ", path)));
            }
            return Ok(());
        }
        if self.rules.force_remove {
            self.staging.remove(path);
            self.tell(Staged::Removed(path));
            return Ok(());
        }
        if self.process(path, found)?.is_err() {
            return Err(Error::Failed(text!("Unable to process path ", path)));
        }
        self.tell(Staged::Added(path));
        Ok(())
    }

    /// Adds the file to the index, or removes its entry.
    fn process(&mut self, path: &BStr, found: Found) -> Result<Result<(), Refused>, Error> {
        if matches!(found, Found::BeyondLink) {
            return Ok(self.refused(text!("'", path, "' is beyond a symbolic link")));
        }
        let old = self.staging.merged(path);
        if old.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE)) {
            // Skip-worktree: the file's content does not matter, but `--remove` removes the entry.
            if !self.rules.ignore_skipped && self.rules.remove {
                self.staging.remove(path);
            }
            return Ok(Ok(()));
        }
        match found {
            Found::BeyondLink | Found::Missing => Ok(self.remove_missing(path)),
            Found::Unreadable(error) => {
                Ok(self.refused(text!("lstat(\"", path, "\"): ", sys::reason(&error))))
            }
            Found::Present(stat) if stat.file_type == FileType::Directory => self.directory(path, old, &stat),
            Found::Present(stat) => self.add(path, old, &stat),
        }
    }

    fn remove_missing(&mut self, path: &BStr) -> Result<(), Refused> {
        if !self.rules.remove {
            return self.refused(text!(path, ": does not exist and --remove not passed"));
        }
        self.staging.remove(path);
        Ok(())
    }

    /// Handles a directory: a submodule, or a replacement of a file.
    fn directory(
        &mut self,
        path: &BStr,
        old: Option<NewEntry>,
        stat: &Stat,
    ) -> Result<Result<(), Refused>, Error> {
        let commit = || add::commit_at(self.context.repo, path);
        match old {
            Some(entry) if entry.mode.is_gitlink() && commit().is_none() => Ok(Ok(())),
            Some(entry) if entry.mode.is_gitlink() => self.add(path, old, stat),
            Some(_) => Ok(self.remove_missing(path)),
            None if self.staging.is_directory(path) => {
                Ok(self.refused(text!(path, ": is a directory - add individual files instead")))
            }
            None if commit().is_some() => self.add(path, None, stat),
            None => Ok(self.refused(text!(path, ": is a directory - add files inside instead"))),
        }
    }

    fn add(&mut self, path: &BStr, old: Option<NewEntry>, stat: &Stat) -> Result<Result<(), Refused>, Error> {
        if old.is_some() && self.is_unchanged(path, stat)? {
            return Ok(Ok(()));
        }
        let store = if self.rules.info_only { Store::HashOnly } else { Store::Write(self.objects) };
        let named = self.hasher.hash(path, stat, self.staging.base(), store);
        self.report_messages();
        let oid = match named {
            Ok(oid) => oid,
            Err(HashError::Convert(error)) => return Err(error.into()),
            Err(error) => {
                self.context.check_interrupt()?;
                self.report(error.to_string());
                if matches!(
                    &error,
                    HashError::Store { .. } | HashError::Read { .. } | HashError::Short { .. }
                ) {
                    self.report(text!(path, ": failed to insert into database"));
                }
                return Ok(Err(Refused));
            }
        };
        let mut flags = self.flags;
        let is_file = stat.file_type == FileType::File;
        flags.set(Flags::UPTODATE, is_file);
        flags.set(
            Flags::FSMONITOR_VALID,
            is_file && self.staging.base().monitor_answer() != MonitorAnswer::NotAsked,
        );
        let mode = self.stat_rules.mode(old.map(|entry| entry.mode), stat);
        let entry = NewEntry { stat: index_stat(stat), oid, mode, flags, stage: Stage::Normal };
        Ok(self.put(path, entry))
    }

    /// Adds an entry, or reports why it cannot.
    pub(super) fn put(&mut self, path: &BStr, entry: NewEntry) -> Result<(), Refused> {
        match self.staging.add(path, entry, self.rules.allow) {
            Ok(()) => return Ok(()),
            Err(Conflict::NotInIndex) => {}
            Err(Conflict::InvalidPath) => self.report(text!("invalid path '", path, "'")),
            Err(Conflict::Directory) => {
                self.report(text!("'", path, "' appears as both a file and as a directory"));
            }
        }
        self.refused(text!(path, ": cannot add to the index - missing --add option?"))
    }

    /// Returns true if the file matches its entry, so that there is nothing to do.
    fn is_unchanged(&mut self, path: &BStr, stat: &Stat) -> Result<bool, Error> {
        let (written, rules) = (self.staging.base().timestamp, self.stat_rules);
        let look = |entry: &Entry| (*entry, rules.compare(entry, stat, written));
        let Some((entry, verdict)) = self.staging.with_merged(path, look) else { return Ok(false) };
        if entry.flags.contains(Flags::ASSUME_VALID) || self.staging.base().is_fsmonitor_valid(&entry) {
            return Ok(true);
        }
        match verdict {
            Match::Same if entry.mode.is_gitlink() => {
                Ok(add::commit_at(self.context.repo, path).is_none_or(|head| head == entry.oid))
            }
            Match::Same => Ok(true),
            Match::Racy => {
                let same = self.hasher.matches_entry(&entry, path, stat, self.staging.base());
                self.report_messages();
                Ok(same)
            }
            Match::Touched | Match::Different => Ok(false),
        }
    }

    fn report_messages(&mut self) {
        for message in self.hasher.take_messages() {
            self.context.events.notice(Notice::Converter(message.to_string()));
        }
    }

    fn refused(&self, message: BString) -> Result<(), Refused> {
        self.report(message);
        Err(Refused)
    }
}
