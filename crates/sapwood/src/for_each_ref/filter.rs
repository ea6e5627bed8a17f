//! Selecting refs: by patterns, and by commits that they contain or are merged into.

use std::collections::{HashMap, HashSet};

use ::format::{
    ObjectId,
    wildmatch::{Mode, literal_length, wildmatch},
};
use bstr::{BStr, BString};
use repo::{
    ListedRef, Repository,
    objects::{Kind, Reader},
};

use super::unsupported;
use crate::Error;

/// The selected names.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) patterns: Vec<BString>,
    pub(super) excluded: Vec<BString>,
    pub(super) icase: bool,
}

impl Names {
    /// Returns sorted prefixes that cover all patterns. No prefix begins with another one.
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

    /// A pattern is a whole name, a prefix of a name up to a slash, or has wildcards.
    fn matches(&self, pattern: &BString, name: &BStr) -> bool {
        let begins = name
            .strip_prefix(pattern.as_slice())
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')) || pattern.ends_with(b"/"));
        begins || wildmatch(pattern, name, Mode { pathname: true, icase: self.icase })
    }
}

/// The objects that refs must point to, contain, or be merged into.
#[derive(Clone, Debug, Default)]
pub struct Commits {
    /// The ref points to one of these, or to a tag that leads to it.
    pub points_at: Vec<ObjectId>,
    /// The ref's commit has one of these commits in its history.
    pub contained: Vec<ObjectId>,
    /// It has none of these.
    pub not_contained: Vec<ObjectId>,
    /// The ref's commit is in the history of one of these.
    pub merged: Vec<ObjectId>,
    /// It is in the history of none of these.
    pub not_merged: Vec<ObjectId>,
}

/// The results for refs that were checked, by object: many refs point to the same one.
pub(super) type Judged = HashMap<ObjectId, Option<ObjectId>>;

impl Commits {
    /// Returns true if all refs must be known before the first one is printed.
    pub(super) fn needs_all(&self) -> bool {
        !self.merged.is_empty() || !self.not_merged.is_empty()
    }

    /// Returns true if only refs that lead to a commit can match.
    fn needs_commit(&self) -> bool {
        self.needs_all() || !self.contained.is_empty() || !self.not_contained.is_empty()
    }

    /// Checks one ref, except for merges. Returns `None` if the ref does not match, else the ref's
    /// commit if it was read.
    pub(super) fn wants(
        &self,
        judged: &mut Judged,
        repo: &Repository,
        reader: &mut Reader<'_>,
        listed: &ListedRef<'_>,
    ) -> Result<Option<Option<ObjectId>>, Error> {
        if !self.points_at.is_empty() && !self.is_pointed_at(repo, reader, listed.id)? {
            return Ok(None);
        }
        if !self.needs_commit() {
            return Ok(Some(None));
        }
        if let Some(known) = judged.get(&listed.id) {
            return Ok(known.map(Some));
        }
        let mut commit = commit_of(repo, reader, listed)?;
        if let Some(found) = commit
            && !self.contains_what_it_should(repo, found)?
        {
            commit = None;
        }
        judged.insert(listed.id, commit);
        Ok(commit.map(Some))
    }

    /// Checks that a commit contains one of `contained`, and none of `not_contained`.
    fn contains_what_it_should(&self, repo: &Repository, commit: ObjectId) -> Result<bool, Error> {
        let contains = |all: &[ObjectId]| -> Result<bool, Error> {
            for sought in all {
                let distance = repo.ahead_behind(*sought, commit);
                if distance.map_err(|_| unsupported("damaged histories"))?.0 == 0 {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok((self.contained.is_empty() || contains(&self.contained)?)
            && (self.not_contained.is_empty() || !contains(&self.not_contained)?))
    }

    fn is_pointed_at(&self, repo: &Repository, reader: &mut Reader<'_>, id: ObjectId) -> Result<bool, Error> {
        let malformed = || unsupported("malformed tags");
        let mut id = id;
        loop {
            if self.points_at.contains(&id) {
                return Ok(true);
            }
            // Git reads every object, and fails at a missing one.
            if reader.header(&id).map_err(|_| malformed())?.0 != Kind::Tag {
                return Ok(false);
            }
            let (_, data) = reader.read(&id).map_err(|_| malformed())?;
            id = repo.parse_tag_target(data).ok_or_else(malformed)?.id;
        }
    }

    /// Removes the refs that fail `--merged` or `--no-merged`. `commit` returns the commit of a
    /// ref.
    pub(super) fn retain_merged<T>(
        &self,
        repo: &Repository,
        refs: &mut Vec<T>,
        commit: impl Fn(&T) -> Option<ObjectId>,
    ) -> Result<(), Error> {
        for (bases, wanted) in [(&self.merged, true), (&self.not_merged, false)] {
            if bases.is_empty() {
                continue;
            }
            let tips: HashSet<ObjectId> = refs.iter().filter_map(&commit).collect();
            let reached = repo.reachable_tips(bases, &tips).map_err(|_| unsupported("damaged histories"))?;
            refs.retain(|found| commit(found).is_some_and(|commit| reached.contains(&commit) == wanted));
        }
        Ok(())
    }
}

/// Returns the commit that a ref leads to; `None` for a ref that leads to something else.
fn commit_of(
    repo: &Repository,
    reader: &mut Reader<'_>,
    listed: &ListedRef<'_>,
) -> Result<Option<ObjectId>, Error> {
    let damaged = || unsupported("missing or damaged objects");
    let mut id = listed.id;
    let mut kind = reader.header(&id).map_err(|_| damaged())?.0;
    if kind == Kind::Tag {
        let target = repo.peel_tag_with(reader, id).map_err(|_| damaged())?.ok_or_else(damaged)?;
        id = target.id;
        kind = reader.header(&id).map_err(|_| damaged())?.0;
    }
    Ok((kind == Kind::Commit).then_some(id))
}
