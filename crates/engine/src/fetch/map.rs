//! Maps the remote's refs to local refs. Pure functions over names.
//!
//! Order, as in Git: refspecs of the command line or of the configuration; tags; then tracking refs
//! that the configuration maps, although the command line gave no destination. Afterwards, refs
//! that match negative refspecs are removed. If several entries have the same local ref, the first
//! one stays.

use std::collections::{BTreeMap, HashMap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::wire::RemoteRef;

use super::{
    refspec::{self, Kind, Refspec},
    remote::{Remote, Upstream},
};

/// The use of a fetched ref in FETCH_HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Merge {
    /// `pull` merges it.
    Merged,
    /// `not-for-merge`
    NotMerged,
    /// It is not written to FETCH_HEAD.
    Ignored,
}

/// The treatment of an update that is not a fast-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// `+`
    Yes,
    /// It is refused.
    No,
}

/// The local side of a fetched ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The full name.
    pub name: BString,
    /// The value before the fetch; `None` for a new ref.
    pub old: Option<ObjectId>,
    /// `+`
    pub force: Force,
}

/// A fetched ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The name on the remote, or the object name if the user requested an object.
    pub name: BString,
    /// The value on the remote.
    pub oid: ObjectId,
    /// The local ref, if there is one.
    pub local: Option<Local>,
    /// The use in FETCH_HEAD.
    pub merge: Merge,
    /// True if the user requested an object by name.
    pub is_object: bool,
    /// True if the update is rejected because it would change the shallow boundary.
    pub rejected_shallow: bool,
}

impl Mapping {
    /// Returns the mapping of an object that is fetched by its name, without a local ref.
    pub fn of_object(oid: ObjectId) -> Mapping {
        Mapping {
            name: oid.to_string().into(),
            oid,
            local: None,
            merge: Merge::Ignored,
            is_object: true,
            rejected_shallow: false,
        }
    }

    /// Returns true unless the local ref already has this value.
    pub(super) fn is_new(&self) -> bool {
        self.local.as_ref().is_none_or(|local| local.old != Some(self.oid))
    }
}

/// Tags to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// Tags that point to fetched commits.
    Follow,
    /// `--tags`
    All,
    /// `--no-tags`
    None,
}

/// A message about a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// `error: * Ignoring funny ref '...' locally`
    Funny(BString),
    /// `warning: ... usually tracks ..., not ...`
    UsuallyTracks {
        /// The local ref.
        local: BString,
        /// The remote ref that it tracks.
        usual: BString,
        /// The remote ref that is fetched into it.
        now: BString,
    },
}

/// The reason why refs cannot be mapped. The messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("couldn't find remote ref {0}")]
    NotFound(BString),
    #[error("--refmap option is only meaningful with command-line refspec(s)")]
    Refmap,
    #[error("Cannot fetch both {first} and {second} to {local}")]
    Both { first: BString, second: BString, local: BString },
    #[error("{local} tracks both {first} and {second}")]
    TracksBoth { first: BString, second: BString, local: BString },
}

/// The options that select refs.
#[derive(Clone, Copy, Debug)]
pub struct RefSelection<'a> {
    /// The remote.
    pub remote: &'a Remote,
    /// The refspecs of the command line.
    pub refspecs: &'a [Refspec],
    /// `--refmap`, if it was given.
    pub refmap: Option<&'a [Refspec]>,
    /// The upstream of the current branch.
    pub upstream: Option<&'a Upstream>,
    /// Tags to fetch.
    pub tags: Tags,
    /// `--prefetch`
    pub prefetch: bool,
}

/// The result of [`map`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// The refs, in Git's order.
    pub refs: Vec<Mapping>,
    /// True if tags of fetched commits are fetched too.
    pub follows_tags: bool,
    /// Messages, in order.
    pub messages: Vec<Message>,
}

/// The local refs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalRefs {
    /// The values, by name.
    pub values: BTreeMap<BString, ObjectId>,
    /// The names of those that are symbolic.
    pub symbolic: HashSet<BString>,
}

/// Maps the remote's refs. `has` returns true if an object exists locally.
pub fn map(
    theirs: &[RemoteRef],
    selection: &RefSelection<'_>,
    local: &LocalRefs,
    has: &mut dyn FnMut(&ObjectId) -> bool,
) -> Result<Mapped, Error> {
    let mut mapper = Mapper { theirs, local, messages: Vec::new() };
    let RefSelection { remote, refspecs, refmap, upstream, tags, prefetch } = *selection;
    let mut refs = Vec::new();
    let mut others = Vec::new();
    let mut has_target = false;
    if !refspecs.is_empty() {
        for refspec in refspecs {
            mapper.add(refspec, Missing::Fatal, &mut refs)?;
            has_target |= refspec.target().is_some();
        }
        refs.iter_mut().for_each(|mapping| mapping.merge = Merge::Merged);
        let named: Vec<RemoteRef> = refs.iter().map(as_remote).collect();
        let mut tracked = Mapper { theirs: &named, local, messages: Vec::new() };
        for refspec in refmap.unwrap_or(&remote.refspecs) {
            tracked.add(refspec, Missing::Ignored, &mut others)?;
        }
        mapper.messages.append(&mut tracked.messages);
        others.iter_mut().for_each(|mapping| mapping.merge = Merge::Ignored);
    } else if refmap.is_some_and(|refmap| !refmap.is_empty()) {
        return Err(Error::Refmap);
    } else {
        has_target = mapper.configured(remote, upstream, prefetch, &mut refs)?;
    }
    let follows_tags = tags == Tags::Follow && has_target;
    match tags {
        Tags::All => mapper.add(&Refspec::all_tags(), Missing::Fatal, &mut refs)?,
        Tags::Follow if has_target => refs.extend(missing_tags(theirs, &refs, local, has)),
        Tags::Follow | Tags::None => {}
    }
    refs.append(&mut others);
    let negative = if refspecs.is_empty() { &remote.refspecs } else { refspecs };
    refs.retain(|mapping| !negative.iter().any(|refspec| refspec.omits(mapping.name.as_bstr())));
    let mut messages = mapper.messages;
    let mut refs = without_duplicates(refs, &mut messages)?;
    // Both lists are mostly sorted, so a merge finds most values without a search.
    let mut values = local.values.iter().peekable();
    for ours in refs.iter_mut().filter_map(|mapping| mapping.local.as_mut()) {
        while values.next_if(|(name, _)| **name < ours.name).is_some() {}
        ours.old = match values.peek() {
            Some((name, oid)) if **name == ours.name => Some(**oid),
            _ => local.values.get(&ours.name).copied(),
        };
    }
    Ok(Mapped { refs, follows_tags, messages })
}

fn as_remote(mapping: &Mapping) -> RemoteRef {
    RemoteRef { name: mapping.name.clone(), oid: mapping.oid, symref: None, peeled: None }
}

/// The effect of a refspec whose ref does not exist on the remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Fatal,
    Ignored,
}

struct Mapper<'a> {
    theirs: &'a [RemoteRef],
    local: &'a LocalRefs,
    messages: Vec<Message>,
}

impl Mapper<'_> {
    /// Adds the refs that match a refspec.
    fn add(&mut self, refspec: &Refspec, missing: Missing, into: &mut Vec<Mapping>) -> Result<(), Error> {
        if refspec.kind == Kind::Negative {
            return Ok(());
        }
        let force = if refspec.kind == Kind::Forced { Force::Yes } else { Force::No };
        let mapping = |name: &BString, oid: ObjectId, local: Option<BString>| Mapping {
            name: name.clone(),
            oid,
            local: local.map(|name| Local { name, old: None, force }),
            merge: Merge::NotMerged,
            is_object: refspec.object.is_some(),
            rejected_shallow: false,
        };
        let mut found = Vec::new();
        if refspec.is_pattern {
            for theirs in self.theirs {
                // A symbolic ref is skipped: its target is updated under its own name.
                if let Some(ours) = refspec.map_pattern(theirs.name.as_bstr())
                    && !self.local.symbolic.contains(&ours)
                {
                    found.push(mapping(&theirs.name, theirs.oid, Some(ours)));
                }
            }
        } else {
            let target = refspec.target().map(full_name);
            let name = if refspec.source.is_empty() { BStr::new("HEAD") } else { refspec.source.as_bstr() };
            match (refspec.object, self.find(name)) {
                (Some(oid), _) => found.push(mapping(&refspec.source, oid, target)),
                (None, Some(theirs)) => found.push(mapping(&theirs.name, theirs.oid, target)),
                (None, None) if missing == Missing::Fatal => return Err(Error::NotFound(name.to_owned())),
                (None, None) => {}
            }
        }
        for mapping in found {
            match &mapping.local {
                Some(ours) if !is_sane(ours.name.as_bstr()) => {
                    self.messages.push(Message::Funny(ours.name.clone()));
                }
                _ => into.push(mapping),
            }
        }
        Ok(())
    }

    /// Returns the remote ref that an abbreviation refers to.
    fn find(&self, short: &BStr) -> Option<&RemoteRef> {
        let ranked = self
            .theirs
            .iter()
            .filter_map(|theirs| Some((refspec::rank(short, theirs.name.as_bstr())?, theirs)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, theirs)| theirs)
    }

    /// Adds the refs that the configuration selects. Returns true if a refspec has a destination.
    fn configured(
        &mut self,
        remote: &Remote,
        upstream: Option<&Upstream>,
        prefetch: bool,
        refs: &mut Vec<Mapping>,
    ) -> Result<bool, Error> {
        let merges = upstream.filter(|upstream| upstream.remote == remote.name);
        if remote.refspecs.is_empty() && merges.is_none() {
            if prefetch {
                return Ok(false);
            }
            self.add_merged(BStr::new("HEAD"), Missing::Fatal, refs)?;
            return Ok(false);
        }
        let mut has_target = false;
        for (number, refspec) in remote.refspecs.iter().enumerate() {
            self.add(refspec, Missing::Fatal, refs)?;
            has_target |= refspec.target().is_some();
            if number == 0
                && upstream.is_none()
                && !refspec.is_pattern
                && let Some(first) = refs.first_mut()
            {
                first.merge = Merge::Merged;
            }
        }
        for merge in merges.into_iter().flat_map(|upstream| &upstream.merge) {
            let is_meant =
                |mapping: &&mut Mapping| refspec::rank(merge.as_bstr(), mapping.name.as_bstr()).is_some();
            match refs.iter_mut().find(is_meant) {
                Some(mapping) => mapping.merge = Merge::Merged,
                None => self.add_merged(merge.as_bstr(), Missing::Ignored, refs)?,
            }
        }
        Ok(has_target)
    }

    fn add_merged(&mut self, name: &BStr, missing: Missing, refs: &mut Vec<Mapping>) -> Result<(), Error> {
        let refspec = Refspec {
            kind: Kind::Plain,
            source: name.to_owned(),
            destination: None,
            is_pattern: false,
            object: None,
        };
        let before = refs.len();
        self.add(&refspec, missing, refs)?;
        refs[before..].iter_mut().for_each(|mapping| mapping.merge = Merge::Merged);
        Ok(())
    }
}

/// Returns the full name of a destination from the command line.
fn full_name(name: &BStr) -> BString {
    if name.starts_with(b"refs/") {
        return name.to_owned();
    }
    let is_below = ["heads/", "tags/", "remotes/"].iter().any(|dir| name.starts_with(dir.as_bytes()));
    let before: &[u8] = if is_below { b"refs/" } else { b"refs/heads/" };
    [before, name].concat().into()
}

fn is_sane(name: &BStr) -> bool {
    name.starts_with(b"refs/") && refname::check(name, Levels::Two).is_ok()
}

/// Returns the remote's tags that do not exist locally and whose object exists locally or is
/// fetched. Sorted by name.
pub fn missing_tags(
    theirs: &[RemoteRef],
    fetched: &[Mapping],
    local: &LocalRefs,
    has: &mut dyn FnMut(&ObjectId) -> bool,
) -> Vec<Mapping> {
    let coming: HashSet<ObjectId> = fetched.iter().map(|mapping| mapping.oid).collect();
    let mut found = BTreeMap::new();
    for tag in theirs {
        let name = tag.name.as_bstr();
        if !name.starts_with(b"refs/tags/") || !is_sane(name) || local.values.contains_key(name) {
            continue;
        }
        let mut is_known = |oid: &ObjectId| coming.contains(oid) || has(oid);
        if tag.peeled.is_some_and(|peeled| is_known(&peeled)) || is_known(&tag.oid) {
            found.entry(tag.name.clone()).or_insert(tag.oid);
        }
    }
    let mapping = |(name, oid): (BString, ObjectId)| Mapping {
        local: Some(Local { name: name.clone(), old: None, force: Force::No }),
        name,
        oid,
        merge: Merge::NotMerged,
        is_object: false,
        rejected_shallow: false,
    };
    found.into_iter().map(mapping).collect()
}

/// Removes duplicates, so that each local ref has one entry.
fn without_duplicates(refs: Vec<Mapping>, messages: &mut Vec<Message>) -> Result<Vec<Mapping>, Error> {
    let are_different = {
        let mut names = HashSet::with_capacity(refs.len());
        refs.iter().filter_map(|mapping| mapping.local.as_ref()).all(|ours| names.insert(&ours.name))
    };
    if are_different {
        return Ok(refs);
    }
    let mut kept: Vec<Mapping> = Vec::with_capacity(refs.len());
    let mut places: HashMap<BString, usize> = HashMap::new();
    for mapping in refs {
        let Some(ours) = &mapping.local else {
            kept.push(mapping);
            continue;
        };
        let Some(&at) = places.get(&ours.name) else {
            places.insert(ours.name.clone(), kept.len());
            kept.push(mapping);
            continue;
        };
        let first = &kept[at];
        if first.name == mapping.name {
            continue;
        }
        let (one, other, local) = (first.name.clone(), mapping.name.clone(), ours.name.clone());
        match (first.merge == Merge::Ignored, mapping.merge == Merge::Ignored) {
            (false, true) => messages.push(Message::UsuallyTracks { local, usual: other, now: one }),
            (true, true) => return Err(Error::TracksBoth { first: one, second: other, local }),
            _ => return Err(Error::Both { first: one, second: other, local }),
        }
    }
    Ok(kept)
}

/// Returns the stale local refs, sorted: those that match a refspec's destination but whose source
/// no longer exists. Symbolic refs are not stale, nor, as in Git, are refs that a pattern maps to a
/// source that matches a negative refspec.
pub fn stale(refspecs: &[Refspec], fetched: &[Mapping], local: &LocalRefs) -> Vec<(BString, ObjectId)> {
    let there: HashSet<&BStr> = fetched.iter().map(|mapping| mapping.name.as_bstr()).collect();
    let is_stale = |name: &BString| {
        let positive = refspecs.iter().filter(|refspec| refspec.kind != Kind::Negative);
        let source = |refspec: &Refspec| Some((refspec.is_pattern, refspec.map_back(name.as_bstr())?));
        let sources: Vec<(bool, BString)> = positive.filter_map(source).collect();
        let is_omitted = |source: &BString| refspecs.iter().any(|refspec| refspec.omits(source.as_bstr()));
        !sources.is_empty()
            && !local.symbolic.contains(name)
            && !sources.iter().any(|(is_pattern, source)| *is_pattern && is_omitted(source))
            && !sources.iter().any(|(_, source)| there.contains(source.as_bstr()))
    };
    let gone = local.values.iter().filter(|(name, _)| is_stale(name));
    gone.map(|(name, oid)| (name.clone(), *oid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use format::HashKind;

    fn oid(number: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes")
    }

    fn theirs(name: &str, number: u8) -> RemoteRef {
        RemoteRef { name: name.into(), oid: oid(number), symref: None, peeled: None }
    }

    fn spec(text: &str) -> Refspec {
        Refspec::parse(text.into(), HashKind::Sha1).expect("valid")
    }

    fn remote(refspecs: &[&str]) -> Remote {
        let refspecs = refspecs.iter().map(|text| spec(text)).collect();
        Remote { name: "o".into(), is_configured: true, refspecs, ..Remote::default() }
    }

    fn server() -> Vec<RemoteRef> {
        let names = ["HEAD", "refs/heads/a", "refs/heads/main", "refs/tags/old", "refs/tags/v1"];
        names.iter().zip([1, 2, 1, 9, 1]).map(|(name, number)| theirs(name, number)).collect()
    }

    fn lines(mapped: &Mapped) -> Vec<String> {
        let line = |mapping: &Mapping| {
            let local = mapping.local.as_ref().map_or(String::new(), |local| local.name.to_string());
            let merge = match mapping.merge {
                Merge::Merged => "merged",
                Merge::NotMerged => "not",
                Merge::Ignored => "ignored",
            };
            format!("{} {local} {merge}", mapping.name)
        };
        mapped.refs.iter().map(line).collect()
    }

    fn selection<'a>(remote: &'a Remote, refspecs: &'a [Refspec]) -> RefSelection<'a> {
        RefSelection { remote, refspecs, refmap: None, upstream: None, tags: Tags::Follow, prefetch: false }
    }

    #[test]
    fn maps_the_configuration_and_follows_tags() {
        let remote = remote(&["+refs/heads/*:refs/remotes/o/*", "^refs/heads/a"]);
        let upstream = Upstream { remote: "o".into(), merge: vec!["main".into()] };
        let selection = RefSelection { upstream: Some(&upstream), ..selection(&remote, &[]) };
        let mapped = map(&server(), &selection, &LocalRefs::default(), &mut |_| false).expect("mapped");
        let expected = ["refs/heads/main refs/remotes/o/main merged", "refs/tags/v1 refs/tags/v1 not"];
        assert_eq!(lines(&mapped), expected);
        assert!(mapped.follows_tags);
    }

    #[test]
    fn tracks_refs_of_the_command_line() {
        let remote = remote(&["+refs/heads/*:refs/remotes/o/*"]);
        let named = [spec("main"), spec("a:x")];
        let mapped = map(&server(), &selection(&remote, &named), &LocalRefs::default(), &mut |_| false)
            .expect("mapped");
        assert_eq!(
            lines(&mapped),
            [
                "refs/heads/main  merged",
                "refs/heads/a refs/heads/x merged",
                "refs/tags/v1 refs/tags/v1 not",
                "refs/heads/main refs/remotes/o/main ignored",
                "refs/heads/a refs/remotes/o/a ignored",
            ]
        );
        let none = map(&server(), &selection(&remote, &[spec("zz")]), &LocalRefs::default(), &mut |_| false);
        assert_eq!(none, Err(Error::NotFound("zz".into())));
    }

    #[test]
    fn refuses_two_sources_of_one_ref() {
        let remote = remote(&[]);
        let both = [spec("a:x"), spec("main:x")];
        let refused = map(&server(), &selection(&remote, &both), &LocalRefs::default(), &mut |_| false)
            .expect_err("two");
        let message = "Cannot fetch both refs/heads/a and refs/heads/main to refs/heads/x";
        assert_eq!(refused.to_string(), message);
    }

    #[test]
    fn finds_stale_refs() {
        let mut local = LocalRefs::default();
        for name in ["refs/remotes/o/HEAD", "refs/remotes/o/a", "refs/remotes/o/gone", "refs/remotes/p/x"] {
            local.values.insert(name.into(), oid(1));
        }
        local.symbolic.insert("refs/remotes/o/HEAD".into());
        let remote = remote(&["+refs/heads/*:refs/remotes/o/*"]);
        let mapped = map(&server(), &selection(&remote, &[]), &local, &mut |_| false).expect("mapped");
        let names: Vec<_> =
            stale(&remote.refspecs, &mapped.refs, &local).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["refs/remotes/o/gone"]);
    }
}
