//! The paths to report when an upper layer changed from one list to another.
//!
//! Git does two things with a reported path: it examines the tracked file there, or all tracked
//! files below, and it forgets the untracked files of the directory that contains the path. It does
//! not forget those of directories further down. So each directory whose untracked files may have
//! changed is reported by a path in it (`probe`). sapwood's reader understands these paths too.
//!
//! A directory that was copied up has changed in nothing but the paths that are listed below it.
//! Any other directory that appears, or that replaces something, is reported with everything below.

use std::{cmp::Ordering, collections::BTreeSet, io};

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    Mode,
    path::{self, Protect},
};
use sys::{Dir, FileType, Listing};

use super::{
    list::{Below, Kind, Line, List, Time},
    scan::is_gone,
};

/// Why no list of paths can be given.
#[derive(Debug)]
pub(super) enum Unsure {
    /// Git does not accept the name of a directory, so nothing in it can be reported.
    Name,
    /// A directory of the worktree could not be read.
    Unreadable,
}

impl From<io::Error> for Unsure {
    fn from(_: io::Error) -> Unsure {
        Unsure::Unreadable
    }
}

/// The last component of a path that stands for the directory that contains it. Nothing has this
/// name.
const PROBE: &str = ".sapwood-probe";

/// Returns the paths to report. `worktree` is the mounted workspace.
pub(super) fn changed(before: &List, now: &List, worktree: &Dir) -> Result<Vec<BString>, Unsure> {
    let mut report = Report { paths: BTreeSet::new(), worktree };
    let (mut one, mut two) = (before.lines.iter().peekable(), now.lines.iter().peekable());
    loop {
        let order = match (one.peek(), two.peek()) {
            (None, None) => return Ok(report.paths.into_iter().collect()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.path.cmp(&new.path),
        };
        let old = if order.is_le() { one.next() } else { None };
        let new = if order.is_ge() { two.next() } else { None };
        report.compare(old, new)?;
    }
}

/// Returns a path in each directory of the worktree.
pub(super) fn all_directories(worktree: &Dir) -> Result<Vec<BString>, Unsure> {
    let mut report = Report { paths: BTreeSet::new(), worktree };
    report.directories_below(b"".into())?;
    Ok(report.paths.into_iter().collect())
}

/// Everything that can be at a path of an upper layer, as far as the base is concerned.
#[derive(PartialEq, Eq)]
enum Shows {
    /// The base shows, with the changes that are listed below the path.
    Base,
    /// The upper layer alone decides.
    Upper,
    /// A directory with entries of the base from elsewhere, or nobody knows.
    Other,
}

fn shows(line: Option<&Line>) -> Shows {
    match line.map(|line| &line.kind) {
        None | Some(Kind::Directory(Below::Same)) => Shows::Base,
        Some(Kind::Directory(Below::Redirected(_) | Below::Unseen)) => Shows::Other,
        Some(_) => Shows::Upper,
    }
}

struct Report<'a> {
    paths: BTreeSet<BString>,
    worktree: &'a Dir,
}

impl Report<'_> {
    fn compare(&mut self, old: Option<&Line>, new: Option<&Line>) -> Result<(), Unsure> {
        let Some(line) = new.or(old) else { return Ok(()) };
        for directory in [old, new].into_iter().flatten().filter(|line| is_listed(line)) {
            verify(directory.path.as_ref())?;
        }
        let is_unsettled = old.is_some_and(|line| line.time == Time::Unsettled);
        let is_same = match (old, new) {
            (Some(old), Some(new)) => Line { time: old.time, ..new.clone() } == *old,
            _ => false,
        };
        if is_same && !is_unsettled {
            return Ok(());
        }
        let path = line.path.as_bstr();
        let has_same_mode = match (old, new) {
            (Some(old), Some(new)) => old.mode == new.mode,
            (None, Some(new)) => !is_listed(new) || new.mode & USABLE == USABLE,
            _ => true,
        };
        let is_base = shows(old) == Shows::Base && shows(new) == Shows::Base && has_same_mode;
        match is_base {
            // The directory may be missing in the base, and its parent knows of it.
            true => self.probe(parent(path)),
            false => self.name(path),
        }
        match new.map(|line| &line.kind) {
            Some(Kind::Directory(below)) => {
                self.probe(path);
                if *below != Below::Nothing && !is_base || !has_same_mode {
                    self.directories_below(path)?;
                }
            }
            None if !is_base => self.directories_below(path)?,
            _ => {}
        }
        Ok(())
    }

    /// Reports a path itself.
    fn name(&mut self, path: &BStr) {
        if verify(path).is_err() {
            // Git examines tracked files of this name, but forgets nothing untracked. If the path
            // is the `.git` of a repository, the directory becomes or ceases to be one path.
            let above = parent(path);
            self.probe(above);
            if !above.is_empty() && path.ends_with(b"/.git") {
                self.paths.insert(above.to_owned());
            }
        }
        self.paths.insert(path.to_owned());
    }

    /// Reports a directory's list of untracked files.
    fn probe(&mut self, directory: &BStr) {
        self.paths.insert(match directory.is_empty() {
            true => PROBE.into(),
            false => [directory.as_bytes(), b"/", PROBE.as_bytes()].concat().into(),
        });
    }

    /// Reports the list of each directory from `path` on, as the worktree shows them.
    fn directories_below(&mut self, path: &BStr) -> Result<(), Unsure> {
        let mut listing = Listing::default();
        let mut left = vec![path.to_owned()];
        while let Some(path) = left.pop() {
            let mut below: Vec<BString> = Vec::new();
            let visit = |entry: sys::Entry<'_>| {
                if entry.file_type == FileType::Directory && entry.name != b".git" {
                    below.push(entry.name.into());
                }
                Ok::<_, io::Error>(())
            };
            let read = match path.is_empty() {
                true => listing.read(self.worktree, visit),
                false => listing.open(self.worktree, &path, visit).map(drop),
            };
            match read {
                Ok(()) => {}
                Err(error) if !path.is_empty() && is_gone(&error) => continue,
                Err(error) => return Err(error.into()),
            }
            if !path.is_empty() {
                verify(path.as_ref())?;
            }
            self.probe(path.as_ref());
            left.extend(below.into_iter().map(|name| match path.is_empty() {
                true => name,
                false => [&path[..], b"/", &name].concat().into(),
            }));
        }
        Ok(())
    }
}

/// The permissions of the owner without which a directory's files cannot be examined.
const USABLE: u32 = 0o500;

fn is_listed(line: &Line) -> bool {
    matches!(line.kind, Kind::Directory(_))
}

/// Checks if Git accepts a path in an answer.
fn verify(path: &BStr) -> Result<(), Unsure> {
    path::verify(path, Mode::FILE, Protect { hfs: true, ntfs: true }).map_err(|_| Unsure::Name)
}

fn parent(path: &BStr) -> &BStr {
    path.rfind_byte(b'/').map_or(b"".as_bstr(), |slash| path[..slash].as_bstr())
}
