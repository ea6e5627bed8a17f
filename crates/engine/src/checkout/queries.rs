//! Results of the rare queries of a decision, from the worktree, one at a time.

use std::collections::HashMap;

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    index::{Index, Stage},
};
use sys::{Dir, FileType};

use super::{
    Force,
    decide::Queries,
    follow::{Follow, Start},
};
use crate::look::{
    LookError,
    content::{self, Cleaning},
    facts::{self, Fact, QueryKind, Seen},
    ignore::Ignores,
    stat::{Match, StatRules},
};

/// The worktree, and the rules for interpreting it.
pub(super) struct WorktreeQueries<'a> {
    pub(super) root: &'a Dir,
    pub(super) index: &'a Index,
    pub(super) rules: StatRules,
    pub(super) refresh: bool,
    pub(super) ignores: Ignores<'a>,
    pub(super) cleaning: &'a dyn Cleaning,
    pub(super) fold_case: bool,
    /// The positions of entries by their lower-case name; created for the first query.
    pub(super) folded: Option<HashMap<BString, usize>>,
    pub(super) follow: Option<&'a dyn Follow>,
}

impl WorktreeQueries<'_> {
    /// Returns a bool for each of `entries`, given with the state of its file: true if the file
    /// equals the index entry.
    pub(super) fn clean(&self, entries: &[(usize, Seen)]) -> Result<Vec<bool>, LookError> {
        let mut unsure = Vec::new();
        let mut clean: Vec<bool> = Vec::with_capacity(entries.len());
        for (at, &(entry, seen)) in entries.iter().enumerate() {
            let verdict = match seen {
                Seen::There(stat) => {
                    self.rules.compare(&self.index.entry(entry), &stat, self.index.timestamp)
                }
                _ => Match::Different,
            };
            clean.push(verdict == Match::Same);
            if verdict == Match::Racy || verdict == Match::Touched && self.refresh {
                unsure.push(at);
            }
        }
        let positions: Vec<usize> = unsure.iter().map(|&at| entries[at].0).collect();
        let same = content::same_content(self.root, self.index, &positions, self.cleaning, None)?;
        unsure.into_iter().zip(same).for_each(|(at, same)| clean[at] = same);
        Ok(clean)
    }

    fn add_path<T>(path: &BStr, result: std::io::Result<T>) -> Result<T, LookError> {
        result.map_err(|source| LookError::Examine { path: path.to_owned(), source })
    }
}

impl Queries for WorktreeQueries<'_> {
    fn is_ignored(&mut self, path: &BStr, is_dir: bool) -> Result<bool, LookError> {
        Ok(self.ignores.is_ignored(path, is_dir)?)
    }

    fn untracked_below(&mut self, dir: &BStr, ignored_too: bool) -> Result<bool, LookError> {
        let opened = match self.root.open_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            opened => Self::add_path(dir, opened)?,
        };
        let names = Self::add_path(dir, opened.list())?;
        let is_repository = names.iter().any(|(name, _)| name == b".git");
        let mut path = dir.to_owned();
        path.push(b'/');
        for (name, file_type) in names {
            path.truncate(dir.len() + 1);
            path.extend_from_slice(&name);
            let is_dir = file_type == FileType::Directory;
            if !self.index.range_of(path.as_bstr()).is_empty() {
                continue;
            }
            // A nested repository of the user counts as one untracked path.
            if is_repository && self.index.range_below(dir).is_empty() {
                return Ok(true);
            }
            if !ignored_too && self.is_ignored(path.as_bstr(), is_dir)? {
                continue;
            }
            if !is_dir || self.untracked_below(path.as_bstr(), ignored_too)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn examine(&mut self, entry: usize) -> Result<Fact, LookError> {
        let path = self.index.path_at(entry);
        let seen = facts::probe(self.root, self.index, &[(path, QueryKind::Stat)])?[0];
        let clean = self.clean(&[(entry, seen)])?[0];
        Ok(Fact { seen, clean })
    }

    fn is_other_case(&mut self, path: &BStr, stat: &sys::Stat) -> Result<bool, LookError> {
        if !self.fold_case {
            return Ok(false);
        }
        let index = self.index;
        let folded = self.folded.get_or_insert_with(|| {
            let merged = (0..index.len()).filter(|&at| index.stage_at(at) == Stage::Normal);
            merged.map(|at| (index.path_at(at).to_ascii_lowercase().into(), at)).collect()
        });
        let Some(&at) = folded.get(path.to_ascii_lowercase().as_bstr()) else { return Ok(false) };
        Ok(self.clean(&[(at, Seen::There(*stat))])?[0])
    }

    fn is_dangling(&mut self, path: &BStr) -> bool {
        self.root.is_absent_through_links(path)
    }

    fn follows(&mut self, path: &BStr) -> Result<bool, LookError> {
        self.follow.map_or(Ok(false), |follow| follow.is_registered(path))
    }

    fn can_move(
        &mut self,
        path: &BStr,
        from: Start,
        to: Option<ObjectId>,
        force: Force,
    ) -> Result<bool, LookError> {
        self.follow.map_or(Ok(true), |follow| follow.can_move(path, from, to, force))
    }

    fn sparse_facts(&mut self, leaving: &[usize], entering: &[usize]) -> Result<[Vec<Fact>; 2], LookError> {
        let index = self.index;
        let probe = |entries: &[usize], kind| {
            let queries: Vec<(&BStr, QueryKind)> =
                entries.iter().map(|&at| (index.path_at(at), kind)).collect();
            facts::probe(self.root, index, &queries)
        };
        let seen: Vec<(usize, Seen)> =
            leaving.iter().copied().zip(probe(leaving, QueryKind::Stat)?).collect();
        let clean = self.clean(&seen)?;
        let leaving = seen.into_iter().zip(clean).map(|((_, seen), clean)| Fact { seen, clean });
        let entering =
            probe(entering, QueryKind::Absence)?.into_iter().map(|seen| Fact { seen, clean: false });
        Ok([leaving.collect(), entering.collect()])
    }
}
