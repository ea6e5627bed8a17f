//! Updating one named path: Git's `update_one`.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, Conflict, Error, Found, Store},
    stat::{Match, index_stat},
};
use format::{
    index::{MonitorAnswer, NewEntry},
    path,
};
use sapwood::{
    FileType, Mode,
    index::{Entry, Flags, Stage},
};
use sys::Stat;

use super::update::{Mark, Update};
use crate::term::{
    console::{self, text},
    failure::Failure,
    text::os_error,
};

/// From this number of paths on, several workers examine them.
const MANY: usize = 64;

/// A path could not be updated. The error was printed.
struct Refused;

impl Update<'_> {
    /// Updates a group of named paths, one after the other.
    pub(super) fn named_together(&mut self, paths: &[BString]) -> Result<(), Failure> {
        let mut seen =
            if paths.len() >= MANY && self.looks() { self.probe.probe_all(paths) } else { Vec::new() }
                .into_iter();
        for path in paths {
            self.run.interrupt.check()?;
            self.named(path.as_bstr(), seen.next().flatten())?;
        }
        Ok(())
    }

    /// Updates a path, and then its mode with `--chmod`. `seen` is its stat data, if already known.
    pub(super) fn named(&mut self, path: &BStr, seen: Option<Stat>) -> Result<(), Failure> {
        self.update(path, seen)?;
        let Some(executable) = self.chmod else { return Ok(()) };
        self.looks_for(path)?;
        let flip = if executable { "+x" } else { "-x" };
        let is_file = self.staging.merged(path).is_some_and(|entry| entry.mode.is_file());
        if !is_file {
            return Err(Failure::Fatal(text!("git update-index: cannot chmod ", flip, " '", path, "'")));
        }
        let mode = if executable { Mode::EXECUTABLE } else { Mode::FILE };
        self.staging.alter(path, |entry| entry.mode = mode);
        self.report(&[b"chmod ", flip.as_bytes(), b" '", path, b"'"]);
        Ok(())
    }

    /// Returns the flag to set or clear, if the command changes only flags.
    fn mark(&self) -> Option<(Mark, Flags)> {
        let mark = [
            (self.assume_valid, Flags::ASSUME_VALID),
            (self.skip_worktree, Flags::SKIP_WORKTREE),
            (self.fsmonitor_valid, Flags::FSMONITOR_VALID),
        ];
        mark.into_iter().find_map(|(mark, flag)| mark.map(|mark| (mark, flag)))
    }

    /// Returns true if the update depends on the worktree.
    fn looks(&self) -> bool {
        self.mark().is_none() && !self.force_remove
    }

    /// Updates a path, relative to the worktree's root.
    pub(super) fn update(&mut self, path: &BStr, seen: Option<Stat>) -> Result<(), Failure> {
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
            console::eprint_line(text!("Ignoring path ", path));
            return Ok(());
        }
        self.looks_for(path)?;
        if let Some((mark, flag)) = self.mark() {
            if !self.staging.alter(path, |entry| entry.flags.set(flag, mark == Mark::Set)) {
                return Err(Failure::Fatal(text!("Unable to mark file ", path)));
            }
            return Ok(());
        }
        if self.force_remove {
            self.staging.remove(path);
            self.report(&[b"remove '", path, b"'"]);
            return Ok(());
        }
        if self.process(path, found)?.is_err() {
            return Err(Failure::Fatal(text!("Unable to process path ", path)));
        }
        self.report(&[b"add '", path, b"'"]);
        Ok(())
    }

    /// Adds the file to the index, or removes its entry.
    fn process(&mut self, path: &BStr, found: Found) -> Result<Result<(), Refused>, Failure> {
        if matches!(found, Found::BeyondLink) {
            return Ok(refused(text!("'", path, "' is beyond a symbolic link")));
        }
        let old = self.staging.merged(path);
        if old.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE)) {
            // Skip-worktree: the file's content does not matter, but `--remove` removes the entry.
            if !self.ignore_skipped && self.remove {
                self.staging.remove(path);
            }
            return Ok(Ok(()));
        }
        match found {
            Found::BeyondLink | Found::Missing => Ok(self.remove_missing(path)),
            Found::Unreadable(error) => Ok(refused(text!("lstat(\"", path, "\"): ", os_error(&error)))),
            Found::Present(stat) if stat.file_type == FileType::Directory => self.directory(path, old, &stat),
            Found::Present(stat) => self.add(path, old, &stat),
        }
    }

    fn remove_missing(&mut self, path: &BStr) -> Result<(), Refused> {
        if !self.remove {
            return refused(text!(path, ": does not exist and --remove not passed"));
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
    ) -> Result<Result<(), Refused>, Failure> {
        let commit = || add::commit_at(self.repo, path);
        match old {
            Some(entry) if entry.mode.is_gitlink() && commit().is_none() => Ok(Ok(())),
            Some(entry) if entry.mode.is_gitlink() => self.add(path, old, stat),
            Some(_) => Ok(self.remove_missing(path)),
            None if self.staging.is_directory(path) => {
                Ok(refused(text!(path, ": is a directory - add individual files instead")))
            }
            None if commit().is_some() => self.add(path, None, stat),
            None => Ok(refused(text!(path, ": is a directory - add files inside instead"))),
        }
    }

    fn add(
        &mut self,
        path: &BStr,
        old: Option<NewEntry>,
        stat: &Stat,
    ) -> Result<Result<(), Refused>, Failure> {
        if old.is_some() && self.is_unchanged(path, stat)? {
            return Ok(Ok(()));
        }
        let store = if self.info_only { Store::HashOnly } else { Store::Write(&self.objects) };
        let named = self.hasher.hash(path, stat, self.staging.base(), store);
        self.print_messages();
        let oid = match named {
            Ok(oid) => oid,
            Err(Error::Convert(error)) => return Err(error.into()),
            Err(error) => {
                self.run.interrupt.check()?;
                console::error(error.to_string());
                if matches!(&error, Error::Store { .. } | Error::Read { .. } | Error::Short { .. }) {
                    console::error(text!(path, ": failed to insert into database"));
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
        let mode = self.rules.mode(old.map(|entry| entry.mode), stat);
        let entry = NewEntry { stat: index_stat(stat), oid, mode, flags, stage: Stage::Normal };
        Ok(self.put(path, entry))
    }

    /// Adds an entry, or prints the reason why it cannot.
    fn put(&mut self, path: &BStr, entry: NewEntry) -> Result<(), Refused> {
        match self.staging.add(path, entry, self.allow) {
            Ok(()) => return Ok(()),
            Err(Conflict::NotInIndex) => {}
            Err(Conflict::InvalidPath) => console::error(text!("invalid path '", path, "'")),
            Err(Conflict::Directory) => {
                console::error(text!("'", path, "' appears as both a file and as a directory"));
            }
        }
        refused(text!(path, ": cannot add to the index - missing --add option?"))
    }

    /// Like [`put`](Update::put), but returns true on success.
    pub(super) fn put_or_report(&mut self, path: &BStr, entry: NewEntry) -> bool {
        self.put(path, entry).is_ok()
    }

    /// Returns true if the file matches its entry, so that there is nothing to do.
    fn is_unchanged(&mut self, path: &BStr, stat: &Stat) -> Result<bool, Failure> {
        let (written, rules) = (self.staging.base().timestamp, self.rules);
        let look = |entry: &Entry| (*entry, rules.compare(entry, stat, written));
        let Some((entry, verdict)) = self.staging.with_merged(path, look) else { return Ok(false) };
        if entry.flags.contains(Flags::ASSUME_VALID) || self.staging.base().is_fsmonitor_valid(&entry) {
            return Ok(true);
        }
        match verdict {
            Match::Same if entry.mode.is_gitlink() => {
                Ok(add::commit_at(self.repo, path).is_none_or(|head| head == entry.oid))
            }
            Match::Same => Ok(true),
            Match::Racy => {
                let same = self.hasher.matches_entry(&entry, path, stat, self.staging.base());
                self.print_messages();
                Ok(same)
            }
            Match::Touched | Match::Different => Ok(false),
        }
    }

    fn print_messages(&mut self) {
        for message in self.hasher.take_messages() {
            console::eprint_raw(format!("{message}\n").as_bytes());
        }
    }
}

fn refused(message: impl AsRef<[u8]>) -> Result<(), Refused> {
    console::error(message);
    Err(Refused)
}
