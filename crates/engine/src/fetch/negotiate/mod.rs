//! The commits that a fetch sends to the server as haves, in Git's order.
//!
//! Order: mark the server's refs as common whose history is complete locally, then add the tips of
//! all refs, or the given tips. Haves are sent youngest first. The two algorithms differ in the
//! commits that they skip. Source: `fetch.negotiationAlgorithm` in git-config(1).
//!
//! Objects that cannot be read are skipped. Nothing is fetched.

mod consecutive;
mod history;
mod skipping;

use std::collections::HashSet;

use format::ObjectId;
use repo::{
    Commits, Repository, keys,
    objects::{Kind, Objects},
    wire::{Error, Negotiator},
};

use self::{consecutive::Consecutive, history::History, skipping::Skipping};

/// `fetch.negotiationAlgorithm`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// All commits.
    #[default]
    Consecutive,
    /// A part of the commits, with growing gaps.
    Skipping,
    /// No commits.
    Noop,
}

impl Algorithm {
    /// Reads the setting.
    pub fn load(repo: &Repository) -> Result<Algorithm, repo::Error> {
        let Some(name) = repo.config_str_required(&keys::fetch::NEGOTIATION_ALGORITHM)? else {
            let experimental = repo.config(&keys::feature::EXPERIMENTAL)?;
            return Ok(if experimental { Algorithm::Skipping } else { Algorithm::default() });
        };
        match name.as_slice() {
            b"consecutive" | b"default" => Ok(Algorithm::Consecutive),
            b"skipping" => Ok(Algorithm::Skipping),
            b"noop" => Ok(Algorithm::Noop),
            _ => Err(repo::Error::new(format!("unknown fetch negotiation algorithm '{name}'"))),
        }
    }
}

/// The refs to negotiate about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tips<'a> {
    /// The objects of the server's refs.
    pub theirs: &'a [ObjectId],
    /// `--negotiation-tip`: the commits to start from, instead of all refs.
    pub given: Option<&'a [ObjectId]>,
    /// True if the fetch changes the depth of the history. Then a ref's history may be incomplete.
    pub deepens: bool,
}

/// A negotiation with a server.
pub struct Negotiation<'a> {
    chooser: Chooser<'a>,
    /// `--negotiation-include`: the commits that are always sent as haves.
    included: Vec<ObjectId>,
    /// The commits that were added as tips.
    tips: Vec<ObjectId>,
    acknowledged: HashSet<ObjectId>,
}

enum Chooser<'a> {
    Consecutive(Consecutive<'a>),
    Skipping(Skipping<'a>),
    Noop,
}

impl<'a> Negotiation<'a> {
    /// Prepares a negotiation. `objects` must not fetch missing objects
    /// ([`Repository::stored_objects`]).
    pub fn new(
        repo: &'a Repository,
        objects: &'a Objects,
        algorithm: Algorithm,
        tips: Tips<'_>,
    ) -> Result<Negotiation<'a>, repo::Error> {
        let ours: Vec<ObjectId> = match algorithm {
            Algorithm::Noop => Vec::new(),
            _ => repo.refs("refs/")?.into_iter().map(|(_, oid)| oid).filter(|oid| !oid.is_null()).collect(),
        };
        let alternates = match algorithm {
            Algorithm::Noop => Vec::new(),
            _ => repo.alternate_tips(objects),
        };
        let mut common = Vec::new();
        if algorithm != Algorithm::Noop && !tips.theirs.is_empty() {
            let complete: Vec<_> = if tips.deepens { Vec::new() } else { [&ours[..], &alternates].concat() };
            common = complete_refs(repo.commits(objects)?, tips.theirs, &complete);
        }
        let added = tips.given.map_or(ours, <[ObjectId]>::to_vec);
        let history = History::new(repo.commits(objects)?);
        let mut chooser = match algorithm {
            Algorithm::Consecutive => Chooser::Consecutive(Consecutive::new(history)),
            Algorithm::Skipping => Chooser::Skipping(Skipping::new(history)),
            Algorithm::Noop => Chooser::Noop,
        };
        common.iter().for_each(|oid| chooser.known_common(oid));
        let tips = added.into_iter().chain(alternates).filter_map(|oid| chooser.add_tip(&oid)).collect();
        Ok(Negotiation { chooser, included: Vec::new(), tips, acknowledged: HashSet::new() })
    }
}

impl Negotiation<'_> {
    /// Sends these objects as haves in each round. Objects that are not commits are skipped.
    pub fn include(&mut self, objects: &[ObjectId], all: &Objects) {
        let is_commit = |oid: &&ObjectId| matches!(all.header(oid), Ok((Kind::Commit, _)));
        let mut seen = HashSet::new();
        self.included = objects.iter().filter(is_commit).filter(|oid| seen.insert(**oid)).copied().collect();
    }
}

/// Returns the commits of the server's refs that are reachable from local refs, and thus complete
/// locally. The walk visits only commits that are not older than the youngest local commit of
/// `theirs`.
fn complete_refs(mut commits: Commits<'_>, theirs: &[ObjectId], ours: &[ObjectId]) -> Vec<ObjectId> {
    let youngest =
        theirs.iter().filter_map(|oid| commits.get(oid)).map(|links| links.date).max().unwrap_or(0);
    let mut history = History::new(commits);
    let mut complete = HashSet::new();
    for oid in ours {
        let Some(commit) = history.peel(oid, &mut |_| ()) else { continue };
        if complete.insert(commit) {
            history.push(&commit);
        }
    }
    // Like Git, skip the walk if no commit of `theirs` exists locally.
    let is_within = |date: i64| youngest > 0 && date >= youngest;
    while let Some((oid, _)) = history.pop().filter(|(_, date)| is_within(*date)) {
        for parent in history.parents(&oid) {
            if complete.insert(parent) {
                history.push(&parent);
            }
        }
    }
    let peeled = theirs.iter().filter_map(|oid| history.peel(oid, &mut |_| ()));
    peeled.filter(|oid| complete.contains(oid)).collect()
}

impl<'a> Chooser<'a> {
    fn known_common(&mut self, oid: &ObjectId) {
        match self {
            Chooser::Consecutive(chooser) => chooser.known_common(oid),
            Chooser::Skipping(chooser) => chooser.known_common(oid),
            Chooser::Noop => {}
        }
    }

    /// Peels an object, adds its commit as a tip, and returns the commit.
    fn add_tip(&mut self, oid: &ObjectId) -> Option<ObjectId> {
        let history = self.history()?;
        let commit = history.peel(oid, &mut |_| ())?;
        match self {
            Chooser::Consecutive(chooser) => chooser.add_tip(&commit),
            Chooser::Skipping(chooser) => chooser.add_tip(&commit),
            Chooser::Noop => {}
        }
        Some(commit)
    }

    fn history(&mut self) -> Option<&mut History<'a>> {
        match self {
            Chooser::Consecutive(chooser) => Some(chooser.history()),
            Chooser::Skipping(chooser) => Some(chooser.history()),
            Chooser::Noop => None,
        }
    }
}

impl Negotiator for Negotiation<'_> {
    fn next_have(&mut self) -> Result<Option<ObjectId>, Error> {
        Ok(match &mut self.chooser {
            Chooser::Consecutive(chooser) => chooser.next(),
            Chooser::Skipping(chooser) => chooser.next(),
            Chooser::Noop => None,
        })
    }

    fn always(&mut self) -> Vec<ObjectId> {
        for oid in &self.included {
            match &mut self.chooser {
                Chooser::Consecutive(chooser) => chooser.is_common(oid),
                Chooser::Skipping(chooser) => chooser.is_common(oid),
                Chooser::Noop => {}
            }
        }
        self.included.clone()
    }

    fn acknowledge(&mut self, commit: &ObjectId) -> Result<bool, Error> {
        self.acknowledged.insert(*commit);
        let known = match &mut self.chooser {
            Chooser::Consecutive(chooser) => chooser.acknowledge(commit),
            Chooser::Skipping(chooser) => chooser.acknowledge(commit),
            Chooser::Noop => Some(false),
        };
        known.ok_or_else(|| Error::Protocol(format!("invalid commit {commit}")))
    }

    fn is_settled(&mut self) -> Result<bool, Error> {
        let Some(history) = self.chooser.history() else { return Ok(false) };
        Ok(self.tips.iter().all(|tip| history.reaches(tip, &self.acknowledged)))
    }
}

#[cfg(test)]
mod tests;
