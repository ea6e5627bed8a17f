//! One path that was named: Git's `update_one`.

use bstr::{BStr, ByteSlice as _};
use engine::{
    add::{self, Clash, Error, Store},
    stat::{Match, index_stat},
};
use format::{
    Mode,
    index::{Flags, NewEntry, Stage, Word},
    path,
};
use sys::{FileType, Stat};

use super::{Mark, Update};
use crate::{
    console::{self, text},
    failure::Failure,
};

/// Of a path that is longer more than one call is made, whatever is known of its directory: no system takes one of 4096 bytes.
const NEAR: usize = 2048;

/// What is at a path of the worktree.
enum Found {
    There(Stat),
    /// Nothing.
    Missing,
    /// A symbolic link is on the way.
    BeyondLink,
    Unreadable(std::io::Error),
}

/// Something was wrong with a path, and has been said.
struct Refused;

impl Update<'_> {
    /// Updates a path, and then its mode, if that is wanted.
    pub(super) fn named(&mut self, path: &BStr) -> Result<(), Failure> {
        self.update(path)?;
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

    /// Does what is to be done with a path, from the top of the worktree.
    pub(super) fn update(&mut self, path: &BStr) -> Result<(), Failure> {
        let mark = [
            (self.assume_valid, Flags::ASSUME_VALID),
            (self.skip_worktree, Flags::SKIP_WORKTREE),
            (self.fsmonitor_valid, Flags::FSMONITOR_VALID),
        ];
        let mark = mark.into_iter().find_map(|(mark, flag)| mark.map(|mark| (mark, flag)));
        let found = match mark.is_some() || self.force_remove {
            true => Found::Missing,
            false => self.look(path),
        };
        let kind = match &found {
            Found::There(stat) if stat.file_type == FileType::Symlink => Mode::SYMLINK,
            _ => Mode::FILE,
        };
        if path::verify(path, kind, self.protect).is_err() {
            console::note(text!("Ignoring path ", path));
            return Ok(());
        }
        self.looks_for(path)?;
        if let Some((mark, flag)) = mark {
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

    fn look(&mut self, path: &BStr) -> Found {
        let directory = &path[..path.rfind_byte(b'/').map_or(0, |slash| slash + 1)];
        let is_near = path.len() <= NEAR && self.directory == directory;
        let found = match is_near {
            true => self.worktree.stat_near(path.as_bytes()),
            false => self.worktree.stat(path),
        };
        match found {
            Ok(Some(stat)) => {
                if !is_near {
                    self.directory = directory.into();
                }
                Found::There(stat)
            }
            Err(error) => Found::Unreadable(error),
            Ok(None) => {
                let mut above = path.find_iter("/").map(|slash| &path[..slash]);
                let is_link = |dir: &BStr| {
                    let stat = self.worktree.stat(dir).ok().flatten();
                    stat.is_some_and(|stat| stat.file_type == FileType::Symlink)
                };
                if above.any(is_link) { Found::BeyondLink } else { Found::Missing }
            }
        }
    }

    /// What is in the worktree, into the index or out of it.
    fn process(&mut self, path: &BStr, found: Found) -> Result<Result<(), Refused>, Failure> {
        if matches!(found, Found::BeyondLink) {
            return Ok(refused(text!("'", path, "' is beyond a symbolic link")));
        }
        let old = self.staging.merged(path);
        if old.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE)) {
            // What is in the worktree does not count, but that it is to go does.
            if !self.ignore_skipped && self.remove {
                self.staging.remove(path);
            }
            return Ok(Ok(()));
        }
        match found {
            Found::BeyondLink | Found::Missing => Ok(self.remove_missing(path)),
            Found::Unreadable(error) => Ok(refused(text!("lstat(\"", path, "\"): ", sys::reason(&error)))),
            Found::There(stat) if stat.file_type == FileType::Directory => self.directory(path, old, &stat),
            Found::There(stat) => self.add(path, old, &stat),
        }
    }

    fn remove_missing(&mut self, path: &BStr) -> Result<(), Refused> {
        if !self.remove {
            return refused(text!(path, ": does not exist and --remove not passed"));
        }
        self.staging.remove(path);
        Ok(())
    }

    /// A directory is a submodule, or stands where a file was.
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
        let store = match self.info_only {
            true => Store::Named,
            false => Store::Written(self.settings.objects(self.repo)),
        };
        let named = self.adder.name(path, stat, self.staging.base(), store);
        self.say();
        let oid = match named {
            Ok(oid) => oid,
            Err(Error::Convert(error)) => return Err(error.into()),
            Err(error) => {
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
        flags.set(Flags::FSMONITOR_VALID, is_file && self.staging.base().word() != Word::NotAsked);
        let mode = self.rules.mode(old.map(|entry| entry.mode), stat);
        let entry = NewEntry { stat: index_stat(stat), oid, mode, flags, stage: Stage::Normal };
        Ok(self.put(path, entry))
    }

    /// Adds an entry, or says why not.
    fn put(&mut self, path: &BStr, entry: NewEntry) -> Result<(), Refused> {
        match self.staging.add(path, entry, self.allow) {
            Ok(()) => return Ok(()),
            Err(Clash::New) => {}
            Err(Clash::InvalidPath) => console::error(text!("invalid path '", path, "'")),
            Err(Clash::Directory) => {
                console::error(text!("'", path, "' appears as both a file and as a directory"));
            }
        }
        refused(text!(path, ": cannot add to the index - missing --add option?"))
    }

    /// The same for who only wants to know whether it was done.
    pub(super) fn put_or_say(&mut self, path: &BStr, entry: NewEntry) -> bool {
        self.put(path, entry).is_ok()
    }

    /// Whether the file is its entry's, so that nothing is to be done.
    fn is_unchanged(&mut self, path: &BStr, stat: &Stat) -> Result<bool, Failure> {
        let (written, rules) = (self.staging.base().timestamp, self.rules);
        let look = |entry: &format::index::Entry| (*entry, rules.compare(entry, stat, written));
        let Some((entry, verdict)) = self.staging.with_merged(path, look) else { return Ok(false) };
        if entry.flags.contains(Flags::ASSUME_VALID) || self.staging.base().is_vouched_for(&entry) {
            return Ok(true);
        }
        match verdict {
            Match::Same if entry.mode.is_gitlink() => {
                Ok(add::commit_at(self.repo, path).is_none_or(|head| head == entry.oid))
            }
            Match::Same => Ok(true),
            Match::Racy => {
                let same = self.adder.is_content_of(&entry, path, stat, self.staging.base());
                self.say();
                Ok(same)
            }
            Match::Touched | Match::Different => Ok(false),
        }
    }

    fn say(&mut self) {
        for message in self.adder.take_messages() {
            console::raw(format!("{message}\n").as_bytes());
        }
    }
}

fn refused(message: impl AsRef<[u8]>) -> Result<(), Refused> {
    console::error(message);
    Err(Refused)
}
