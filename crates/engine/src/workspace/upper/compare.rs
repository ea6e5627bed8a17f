//! The paths to report when the upper layer has changed from one list to another.
//!
//! For each reported path, Git does two things. It examines the tracked file there, or all tracked
//! files below. It also invalidates the untracked files of the directory that contains the path,
//! but not those of directories further down. So each directory whose untracked files may have
//! changed is reported by a path in it (`probe`). sapwood itself also handles such paths.
//!
//! A mount inside the workspace hides a part of the layers. Whatever is below its mount point is
//! reported each time, because nothing lists its changes. An index is shared by processes that see
//! different mounts, so the mount points that the token's process saw are reported, too.
//!
//! A directory that was copied up differs only in the paths that are listed below it. Any other
//! directory that appears, or that replaces an entry, is reported with everything below. A new
//! directory where the lower layers have none is reported itself: its listed entries are all that
//! it holds.

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
use crate::workspace::base::find_in;

/// The reason why the changed paths cannot be listed.
#[derive(Debug)]
pub(super) enum Unreportable {
    /// Git rejects the name of a directory, so nothing in it can be reported.
    Name,
    /// A directory of the worktree could not be read.
    Unreadable,
}

impl From<io::Error> for Unreportable {
    fn from(_: io::Error) -> Unreportable {
        Unreportable::Unreadable
    }
}

/// The last component of a path that is reported for the directory that contains it. No file has
/// this name.
const PROBE: &str = ".sapwood-probe";

/// The directories whose files are compared.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    /// The mounted workspace.
    pub(super) worktree: &'a Dir,
    /// The lower layers.
    pub(super) lower: &'a [Dir],
}

/// Returns the paths to report.
pub(super) fn changed(before: &List, now: &List, shown: Shown<'_>) -> Result<Vec<BString>, Unreportable> {
    let mut report = Report { paths: BTreeSet::new(), shown };
    for point in before.mounts.iter().chain(&now.mounts) {
        report.mount_point(point.as_bstr())?;
    }
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

/// Returns a path to report in each directory of the worktree.
pub(super) fn all_directories(shown: Shown<'_>) -> Result<Vec<BString>, Unreportable> {
    let mut report = Report { paths: BTreeSet::new(), shown };
    report.directories_below(b"".into())?;
    Ok(report.paths.into_iter().collect())
}

/// The source of the entry at a path.
#[derive(PartialEq, Eq)]
enum EntrySource {
    /// The base, with the changes that are listed below the path.
    Base,
    /// Only the upper layer.
    Upper,
    /// A directory that shows another directory of the base, or whose source is unknown.
    Other,
}

fn source_of(line: Option<&Line>) -> EntrySource {
    match line.map(|line| &line.kind) {
        None | Some(Kind::Directory(Below::Same)) => EntrySource::Base,
        Some(Kind::Directory(Below::Redirected(_) | Below::Unseen)) => EntrySource::Other,
        Some(_) => EntrySource::Upper,
    }
}

struct Report<'a> {
    paths: BTreeSet<BString>,
    shown: Shown<'a>,
}

impl Report<'_> {
    fn compare(&mut self, old: Option<&Line>, new: Option<&Line>) -> Result<(), Unreportable> {
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
        let is_base =
            source_of(old) == EntrySource::Base && source_of(new) == EntrySource::Base && has_same_mode;
        // A directory that the lower layers lack has no mark either. It may be in the place of a
        // tracked file: one of the base, or one that is outside of a sparse worktree.
        if is_base && self.is_lower_directory(path) {
            self.probe(parent(path));
        } else {
            self.name(path);
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

    /// Returns true if the lower layers show a directory at this path.
    fn is_lower_directory(&self, path: &BStr) -> bool {
        let found = find_in(self.shown.lower, path).ok().flatten();
        found.is_some_and(|(_, stat)| stat.file_type == FileType::Directory)
    }

    /// Reports everything at a mount point: no list tells what changed below it, or what another
    /// process saw there.
    fn mount_point(&mut self, path: &BStr) -> Result<(), Unreportable> {
        self.name(path);
        self.directories_below(path)
    }

    /// Reports the path itself.
    fn name(&mut self, path: &BStr) {
        if verify(path).is_err() {
            // Git examines tracked files at this path, but invalidates no untracked files. If the
            // path is the `.git` of a repository, its directory becomes a nested repository or
            // ceases to be one, so it is reported too.
            let above = parent(path);
            self.probe(above);
            if !above.is_empty() && path.ends_with(b"/.git") {
                self.paths.insert(above.to_owned());
            }
        }
        self.paths.insert(path.to_owned());
    }

    /// Reports that a directory's untracked files may have changed.
    fn probe(&mut self, directory: &BStr) {
        self.paths.insert(if directory.is_empty() {
            PROBE.into()
        } else {
            [directory.as_bytes(), b"/", PROBE.as_bytes()].concat().into()
        });
    }

    /// Reports each directory of the worktree from `path` on, for its untracked files.
    fn directories_below(&mut self, path: &BStr) -> Result<(), Unreportable> {
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
            let read = if path.is_empty() {
                listing.read(self.shown.worktree, visit)
            } else {
                listing.open(self.shown.worktree, &path, visit).map(drop)
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
            left.extend(
                below.into_iter().map(|name| {
                    if path.is_empty() { name } else { [&path[..], b"/", &name].concat().into() }
                }),
            );
        }
        Ok(())
    }
}

/// The owner's permissions that are needed to examine a directory's files.
const USABLE: u32 = 0o500;

fn is_listed(line: &Line) -> bool {
    matches!(line.kind, Kind::Directory(_))
}

/// Returns an error if Git rejects a path in a response.
fn verify(path: &BStr) -> Result<(), Unreportable> {
    path::verify(path, Mode::FILE, Protect { hfs: true, ntfs: true }).map_err(|_| Unreportable::Name)
}

fn parent(path: &BStr) -> &BStr {
    path.rfind_byte(b'/').map_or(b"".as_bstr(), |slash| path[..slash].as_bstr())
}
