//! The choice of refs: patterns, and commits that they contain or are merged into.

use std::collections::HashSet;

use bstr::{BStr, BString};
use format::{
    ObjectId,
    wildmatch::{Mode, literal_length, wildmatch},
};
use repo::{
    ListedRef, Repository,
    objects::{Kind, Reader},
};

use crate::term::failure::Failure;

/// The names that are wanted.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) patterns: Vec<BString>,
    pub(super) excluded: Vec<BString>,
    pub(super) icase: bool,
}

impl Names {
    /// Returns prefixes that cover all patterns, in order. None begins with another.
    pub(super) fn prefixes(&self) -> Vec<BString> {
        if self.icase || self.patterns.is_empty() {
            return vec![BString::default()];
        }
        let literal = |pattern: &BString| BString::from(&pattern[..literal_length(pattern)]);
        let mut all: Vec<BString> = self.patterns.iter().map(literal).collect();
        all.sort();
        let mut prefixes: Vec<BString> = Vec::new();
        for prefix in all {
            if prefixes.last().is_none_or(|last| !prefix.starts_with(last)) {
                prefixes.push(prefix);
            }
        }
        prefixes
    }

    pub(super) fn wants(&self, name: &BStr) -> bool {
        let matches = |pattern: &BString| self.matches(pattern, name);
        let is_chosen = self.patterns.is_empty() || self.patterns.iter().any(matches);
        is_chosen && !self.excluded.iter().any(matches)
    }

    /// A pattern is a name, the beginning of one up to a slash, or has wildcards.
    fn matches(&self, pattern: &BString, name: &BStr) -> bool {
        let begins = name
            .strip_prefix(pattern.as_slice())
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')) || pattern.ends_with(b"/"));
        begins || wildmatch(pattern, name, Mode { pathname: true, icase: self.icase })
    }
}

/// The objects that refs must point to, contain, or be merged into.
#[derive(Debug, Default)]
pub(super) struct Commits {
    pub(super) points_at: Vec<ObjectId>,
    pub(super) contained: Vec<ObjectId>,
    pub(super) not_contained: Vec<ObjectId>,
    pub(super) merged: Vec<ObjectId>,
    pub(super) not_merged: Vec<ObjectId>,
}

impl Commits {
    /// Returns true if all refs must be known before the first one is printed.
    pub(super) fn needs_all(&self) -> bool {
        !self.merged.is_empty() || !self.not_merged.is_empty()
    }

    /// Returns true if only refs with a commit are wanted.
    fn needs_commit(&self) -> bool {
        self.needs_all() || !self.contained.is_empty() || !self.not_contained.is_empty()
    }

    /// Judges one ref, except by merges. Returns its commit if that was needed; `None` if the ref
    /// is not wanted.
    pub(super) fn wants(
        &self,
        repo: &Repository,
        reader: &mut Reader<'_>,
        listed: &ListedRef<'_>,
    ) -> Result<Option<Option<ObjectId>>, Failure> {
        if !self.points_at.is_empty() && !self.is_pointed_at(repo, reader, listed.id)? {
            return Ok(None);
        }
        if !self.needs_commit() {
            return Ok(Some(None));
        }
        let damaged = |_| Failure::Unserved("damaged objects");
        let Some(commit) = repo.commit_if_there(listed.id).map_err(damaged)? else {
            return match reader.header(&listed.id) {
                Ok(_) => Ok(None),
                Err(_) => Err(Failure::Unserved("missing objects")),
            };
        };
        let contains = |sought: &[ObjectId]| -> Result<bool, Failure> {
            for sought in sought {
                if repo.ahead_behind(*sought, commit).map_err(|_| Failure::Unserved("damaged histories"))?.0
                    == 0
                {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let is_wanted = (self.contained.is_empty() || contains(&self.contained)?)
            && (self.not_contained.is_empty() || !contains(&self.not_contained)?);
        Ok(is_wanted.then_some(Some(commit)))
    }

    fn is_pointed_at(
        &self,
        repo: &Repository,
        reader: &mut Reader<'_>,
        id: ObjectId,
    ) -> Result<bool, Failure> {
        let malformed = || Failure::Unserved("malformed tags");
        let mut id = id;
        loop {
            if self.points_at.contains(&id) {
                return Ok(true);
            }
            // Git reads every object, and dies of a missing one.
            if reader.header(&id).map_err(|_| malformed())?.0 != Kind::Tag {
                return Ok(false);
            }
            let (_, data) = reader.read(&id).map_err(|_| malformed())?;
            id = repo.parse_tag_target(data).ok_or_else(malformed)?.id;
        }
    }

    /// Removes the refs that the merges do not want. `commit` is that of a ref.
    pub(super) fn retain_merged<T>(
        &self,
        repo: &Repository,
        refs: &mut Vec<T>,
        commit: impl Fn(&T) -> Option<ObjectId>,
    ) -> Result<(), Failure> {
        for (bases, wanted) in [(&self.merged, true), (&self.not_merged, false)] {
            if bases.is_empty() {
                continue;
            }
            let tips: HashSet<ObjectId> = refs.iter().filter_map(&commit).collect();
            let reached =
                repo.reachable_tips(bases, &tips).map_err(|_| Failure::Unserved("damaged histories"))?;
            refs.retain(|found| commit(found).is_some_and(|commit| reached.contains(&commit) == wanted));
        }
        Ok(())
    }
}
