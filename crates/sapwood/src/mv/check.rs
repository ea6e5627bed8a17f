//! Checking the moves one after the other.

use std::collections::{BTreeSet, HashSet};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    mv::{Kind, Move},
    sparse::Patterns,
};
use format::index::{Flags, Index, Stage};
use sys::{Dir, FileType};

use super::Request;
use crate::{Error, Events, PlanError, advice::is_inside, events::Renaming, notice::Notice, text};

/// Checks the moves in Git's order.
pub(super) fn moves(
    request: &Request,
    worktree: &Dir,
    index: &Index,
    patterns: Option<&Patterns>,
    events: &dyn Events,
) -> Result<Vec<Move>, PlanError> {
    let mut checker =
        Checker { request, worktree, index, patterns, events, taken: BTreeSet::new(), moved: HashSet::new() };
    let mut queue: Vec<Move> = Vec::new();
    let mut later = Vec::new();
    let destinations = checker.destinations()?;
    for (from, to) in request.sources.iter().cloned().zip(destinations) {
        let one = Move { from, to, kind: Kind::File, replaces: false };
        queue.extend(checker.check(one, &mut later)?);
    }
    // The entries of a directory are checked after all arguments.
    for one in later {
        queue.extend(checker.check(one, &mut Vec::new())?);
    }
    for one in queue.iter().filter(|one| one.kind != Kind::Within) {
        for slash in one.from.rfind_iter("/") {
            let above = one.from[..slash].as_bstr();
            if checker.moved.contains(above) {
                let message =
                    text!("cannot move both '", one.from, "' and its parent directory '", above, "'");
                return Err(Error::Failed(message).into());
            }
        }
    }
    Ok(queue)
}

struct Checker<'a> {
    request: &'a Request,
    worktree: &'a Dir,
    index: &'a Index,
    /// The sparse patterns, if the worktree is sparse.
    patterns: Option<&'a Patterns>,
    events: &'a dyn Events,
    /// The destinations so far.
    taken: BTreeSet<BString>,
    /// The directories that are moved.
    moved: HashSet<BString>,
}

impl Checker<'_> {
    /// Returns the destination of each source.
    fn destinations(&self) -> Result<Vec<BString>, Error> {
        let Request { sources, destination, names, .. } = self.request;
        let below = |lead: &[u8]| names.iter().map(|name| text!(lead, name)).collect();
        if destination.is_empty() {
            return Ok(below(b""));
        }
        let plain = destination.trim_end_with(|letter| letter == '/');
        let is_directory = self.file_type(plain.as_bstr()) == Some(FileType::Directory);
        match (is_directory, sources.len()) {
            (true, _) => Ok(below(&[plain, b"/"].concat())),
            (false, 1) => Ok(vec![destination.clone()]),
            (false, _) => Err(Error::Failed(text!("destination '", destination, "' is not a directory"))),
        }
    }

    fn file_type(&self, path: &BStr) -> Option<FileType> {
        if path.is_empty() {
            Some(FileType::Directory)
        } else {
            // A path with a slash at its end is that of the current directory.
            self.worktree
                .stat(path.strip_suffix(b"/").unwrap_or(path))
                .ok()
                .flatten()
                .map(|stat| stat.file_type)
        }
    }

    /// Checks a move. For a directory, adds the moves of its entries to `later`.
    fn check(&mut self, mut one: Move, later: &mut Vec<Move>) -> Result<Option<Move>, PlanError> {
        let is_inside = |path: &BStr| {
            let path = path.trim_end_with(|letter| letter == '/').as_bstr();
            is_inside(self.patterns, path) && is_inside(self.patterns, text!(path, "/").as_bstr())
        };
        if !is_inside(one.from.as_bstr()) || !is_inside(one.to.as_bstr()) {
            return Err(PlanError::Unsupported("files outside of the sparse checkout"));
        }
        if self.request.dry_run {
            self.events.renaming(Renaming::Check, one.from.as_bstr(), one.to.as_bstr());
        }
        match self.find_fault(&mut one, later)? {
            None => Ok(Some(one)),
            Some(_) if self.request.skip_errors => Ok(None),
            Some(bad) => {
                Err(Error::Failed(text!(bad, ", source=", one.from, ", destination=", one.to)).into())
            }
        }
    }

    /// Returns the reason to refuse a move, if any.
    fn find_fault(
        &mut self,
        one: &mut Move,
        later: &mut Vec<Move>,
    ) -> Result<Option<&'static str>, PlanError> {
        let (from, to) = (one.from.as_bstr(), one.to.as_bstr());
        let entry = self.index.position(from, Stage::Normal).ok().map(|at| self.index.entry(at));
        let Some(file_type) = self.file_type(from) else {
            if entry.is_some_and(|entry| entry.flags.contains(Flags::SKIP_WORKTREE)) {
                return Err(PlanError::Unsupported("files that are not in the worktree"));
            }
            return Ok(Some("bad source"));
        };
        let is_within = to.strip_prefix(from.as_bytes()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
        if is_within {
            return Ok(Some("can not move directory into itself"));
        }
        let plain = to.trim_end_with(|letter| letter == '/').as_bstr();
        let at_place = if plain.len() == to.len() {
            self.file_type(to)
        } else {
            // A path with a slash at its end matches a directory only.
            self.file_type(plain).filter(|found| *found == FileType::Directory)
        };
        if file_type == FileType::Directory {
            if at_place.is_some() {
                return Ok(Some("destination already exists"));
            }
            return self.directory(one, later);
        }
        let range = self.index.range_of(from);
        if range.is_empty() {
            return Ok(Some("not under version control"));
        }
        if self.index.stage_at(range.start) != Stage::Normal {
            return Ok(Some("conflicted"));
        }
        if let Some(found) = at_place {
            return Ok(match (self.request.force, found) {
                (false, _) => Some("destination exists"),
                (true, FileType::File | FileType::Symlink) => {
                    if self.request.verbose {
                        self.events.notice(Notice::Overwriting(to.to_owned()));
                    }
                    one.replaces = true;
                    None
                }
                (true, _) => Some("Cannot overwrite"),
            });
        }
        if self.taken.contains(to) {
            return Ok(Some("multiple sources for the same target"));
        }
        if to.ends_with(b"/") {
            return Ok(Some("destination directory does not exist"));
        }
        self.taken.insert(to.to_owned());
        Ok(None)
    }

    fn directory(
        &mut self,
        one: &mut Move,
        later: &mut Vec<Move>,
    ) -> Result<Option<&'static str>, PlanError> {
        let (from, to) = (one.from.as_bstr(), one.to.as_bstr());
        if let Ok(at) = self.index.position(from, Stage::Normal) {
            if !self.index.mode_at(at).is_gitlink() {
                let message = text!("Directory ", from, " is in index and no submodule?");
                return Err(Error::Failed(message).into());
            }
            return Err(PlanError::Unsupported("submodules"));
        }
        let below = self.index.range_below(from);
        // If the path ends in a slash, Git does not find the directory's entries.
        if below.is_empty() || from.ends_with(b"/") {
            return Ok(Some("source directory is empty"));
        }
        let is_special = |at: usize| {
            let entry = self.index.entry(at);
            entry.stage != Stage::Normal
                || entry.mode.is_gitlink()
                || entry.flags.contains(Flags::SKIP_WORKTREE)
        };
        if below.clone().any(is_special) {
            return Err(PlanError::Unsupported("directories with conflicts or submodules"));
        }
        one.kind = Kind::Directory;
        self.moved.insert(from.to_owned());
        let lead = to.trim_end_with(|letter| letter == '/');
        later.extend(below.map(|at| {
            let path = self.index.path_at(at);
            let to = text!(lead, path[from.len()..]);
            Move { from: path.to_owned(), to, kind: Kind::Within, replaces: false }
        }));
        Ok(None)
    }
}
