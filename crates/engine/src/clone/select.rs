//! The selection of remote refs, their local names, and HEAD of the clone. Pure functions.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, ObjectId,
    refname::{self, Levels},
};
use repo::wire::{Advertisement, RemoteRef};

/// A configured fetch refspec (`--config remote.<name>.fetch=...`), applied before Git's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refspec {
    from: BString,
    to: BString,
    /// True if both sides ended in `*`, which is stripped.
    pattern: bool,
}

impl Refspec {
    pub(super) fn parse(text: &BStr) -> Result<Refspec, Error> {
        let refuse = || Error::Refspec(text.to_owned());
        let (from, to) = text.strip_prefix(b"+").unwrap_or(text).split_once_str(":").ok_or_else(refuse)?;
        if !from.starts_with(b"refs/") || !to.starts_with(b"refs/") {
            return Err(refuse());
        }
        let (from, to, pattern) = match (from.strip_suffix(b"*"), to.strip_suffix(b"*")) {
            (Some(from), Some(to)) => (from, to, true),
            (None, None) => (from, to, false),
            _ => return Err(refuse()),
        };
        if from.contains(&b'*') || to.contains(&b'*') {
            return Err(refuse());
        }
        Ok(Refspec { from: from.into(), to: to.into(), pattern })
    }

    fn prefix(from: &str, to: &BString) -> Refspec {
        Refspec { from: from.into(), to: to.clone(), pattern: true }
    }

    /// Returns the local name of the remote ref `theirs`.
    fn ours(&self, theirs: &BString) -> Option<BString> {
        let rest = theirs.strip_prefix(self.from.as_slice())?;
        (self.pattern || rest.is_empty()).then(|| [self.to.as_slice(), rest].concat().into())
    }
}

/// The options that affect the selection.
#[derive(Clone, Debug)]
pub(super) struct RefOptions {
    pub(super) refspecs: Vec<Refspec>,
    /// `--branch`: the name of a branch or tag.
    pub(super) branch: Option<BString>,
    /// `--revision`: the only ref or object to take.
    pub(super) revision: Option<BString>,
    pub(super) single_branch: bool,
    pub(super) tags: bool,
    /// The tags that later fetches take.
    pub(super) later_tags: LaterTags,
    pub(super) bare: bool,
    pub(super) mirror: bool,
    /// The remote's name.
    pub(super) remote: BString,
    /// `init.defaultBranch`, or Git's default.
    pub(super) default_branch: BString,
}

/// The tags that later fetches take: `remote.<name>.tagOpt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaterTags {
    /// Git's default: those of fetched commits.
    Followed,
    /// `--no-tags`
    None,
}

/// A remote ref and its local name. `None` for HEAD, which has no local name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) theirs: RemoteRef,
    pub(super) ours: Option<BString>,
}

/// The new HEAD of the clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NewHead {
    /// Symbolic to a branch that exists on the remote.
    Branch(RemoteRef),
    /// Detached at the commit that the tag of `--branch`, or `--revision`, peels to.
    Tag(RemoteRef),
    /// Detached: the remote's HEAD is on no known branch.
    Detached(RemoteRef),
    /// Symbolic to a branch without a commit, by its full name.
    Unborn(BString),
}

/// The result of the selection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// The requested refs in Git's order: HEAD, branches, tags.
    pub(super) mapped: Vec<Mapped>,
    /// The branch of the remote's HEAD, with its local name.
    pub(super) remote_head: Option<Mapped>,
    /// The new HEAD.
    pub(super) head: NewHead,
    /// With `--single-branch`: tags that are kept if their objects arrive.
    pub(super) follow_tags: Vec<RemoteRef>,
    /// Malformed names, which are skipped with Git's message `* Ignoring funny ref '<name>'
    /// locally`.
    pub(super) funny: Vec<BString>,
    /// True if the remote has any ref, even if none is selected.
    pub(super) has_refs: bool,
    /// True if no ref is selected.
    pub(super) empty: bool,
    /// True if the name of the default branch came from the configuration.
    pub(super) default_branch_used: bool,
}

/// The reason why the selection failed. Messages are Git's, where Git has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("Remote branch {branch} not found in upstream {remote}")]
    NoSuchBranch { branch: BString, remote: BString },
    #[error("Remote revision {revision} not found in upstream {remote}")]
    NoSuchRevision { revision: BString, remote: BString },
    #[error("invalid refspec '{0}'")]
    Revision(BString),
    #[error("couldn't find remote ref {0}")]
    NoSuchRef(BString),
    #[error("refspec '{0}' is not supported by sapwood's clone yet (see SHORTCOMINGS.md)")]
    Refspec(BString),
}

impl RefOptions {
    /// Returns `refs/heads/`, or `refs/` for a mirror.
    pub(super) fn source_prefix(&self) -> &'static str {
        if self.mirror { "refs/" } else { "refs/heads/" }
    }

    /// Returns the prefix for local names of branches: `refs/remotes/<remote>/`, or for a bare
    /// clone the prefix on the remote.
    pub(super) fn target_prefix(&self) -> BString {
        if self.bare { self.source_prefix().into() } else { format!("refs/remotes/{}/", self.remote).into() }
    }

    /// Returns the prefixes to request from the remote, HEAD included, in Git's order.
    pub(super) fn ref_prefixes(&self) -> Vec<BString> {
        let mut prefixes: Vec<BString> = self.refspecs.iter().map(|refspec| refspec.from.clone()).collect();
        match &self.revision {
            Some(revision) if is_object_name(revision.as_bstr()) => {}
            Some(revision) => prefixes.extend(meanings(revision)),
            None => prefixes.push(self.source_prefix().into()),
        }
        if self.tags || self.branch.is_some() {
            prefixes.push("refs/tags/".into());
        }
        if let Some(branch) = &self.branch {
            prefixes.extend(meanings(branch));
        }
        if self.wants_head() || prefixes.is_empty() {
            prefixes.push("HEAD".into());
        }
        prefixes
    }

    fn wants_head(&self) -> bool {
        self.revision.is_none() && !(self.single_branch && self.branch.is_some())
    }

    /// Returns the ref or object of `--revision`.
    fn named_revision(&self, revision: &BString, found: &Advertisement) -> Result<RemoteRef, Error> {
        let plain = |oid| RemoteRef { name: revision.clone(), oid, symref: None, peeled: None };
        let kind = if revision.len() == 64 { HashKind::Sha256 } else { HashKind::Sha1 };
        if let Some(oid) = ObjectId::from_hex(kind, revision).filter(|_| is_object_name(revision.as_bstr())) {
            return Ok(plain(oid));
        }
        if refname::check(revision.as_bstr(), Levels::One).is_err() {
            return Err(Error::Revision(revision.clone()));
        }
        let named = |name| found.refs.iter().find(|theirs| theirs.name == name);
        let known = meanings(revision).find_map(named);
        let missing = || Error::NoSuchRevision { revision: revision.clone(), remote: self.remote.clone() };
        known.cloned().ok_or_else(missing)
    }

    /// Returns the refs with their local names, and the malformed names.
    fn map(&self, theirs: &[&RemoteRef]) -> Result<(Vec<Mapped>, Vec<BString>), Error> {
        let mut rules = self.refspecs.clone();
        if self.revision.is_none() {
            rules.push(Refspec::prefix(self.source_prefix(), &self.target_prefix()));
        }
        if self.tags || self.branch.is_some() {
            rules.push(Refspec::prefix("refs/tags/", &"refs/tags/".into()));
        }
        let (mut mapped, mut funny) = (Vec::new(), Vec::new());
        let mut used = HashSet::new();
        for rule in rules {
            let before = mapped.len();
            for theirs in theirs {
                let Some(ours) = rule.ours(&theirs.name) else { continue };
                if !is_sane(theirs.name.as_bstr()) || !is_sane(ours.as_bstr()) {
                    funny.push(theirs.name.clone());
                } else if used.insert(ours.clone()) {
                    mapped.push(Mapped { theirs: (*theirs).clone(), ours: Some(ours) });
                }
            }
            if !rule.pattern && mapped.len() == before {
                return Err(Error::NoSuchRef(rule.from));
            }
        }
        Ok((mapped, funny))
    }

    /// Selects refs from an advertisement.
    pub(super) fn select(&self, found: &Advertisement) -> Result<Selection, Error> {
        let all: Vec<&RemoteRef> = found.refs.iter().collect();
        let head = all.iter().copied().find(|theirs| theirs.name == "HEAD");
        let mut mapped = Vec::new();
        if self.wants_head() {
            mapped.extend(head.map(|theirs| Mapped { theirs: theirs.clone(), ours: None }));
        }
        let considered: Vec<&RemoteRef> = match (self.single_branch, &self.branch) {
            (false, _) => all.clone(),
            (true, Some(branch)) => find_branch(all.iter().copied(), branch).into_iter().collect(),
            (true, None) => self.branch_of_head(head, &all).into_iter().collect(),
        };
        let (named, funny) = self.map(&considered)?;
        mapped.extend(named);
        if let Some(revision) = &self.revision {
            mapped.push(Mapped { theirs: self.named_revision(revision, found)?, ours: None });
        }

        let candidates: Vec<&RemoteRef> = mapped.iter().map(|mapped| &mapped.theirs).collect();
        let remote_head = self
            .branch_of_head(head.filter(|_| self.revision.is_none()), &candidates)
            .and_then(|theirs| mapped.iter().find(|mapped| mapped.theirs.name == theirs.name))
            .cloned();
        let mut default_branch_used = false;
        let new_head = match self.named_head(head, remote_head.as_ref(), &candidates)? {
            Some(head) => head,
            None => {
                let unborn = found.unborn_head.clone().filter(|name| name.starts_with(b"refs/heads/"));
                default_branch_used = unborn.is_none();
                let name = unborn.unwrap_or_else(|| format!("refs/heads/{}", self.default_branch).into());
                match candidates.iter().find(|theirs| theirs.name == name) {
                    Some(theirs) => NewHead::Branch((*theirs).clone()),
                    None => NewHead::Unborn(name),
                }
            }
        };
        let follow_tags = if self.single_branch && self.tags {
            all.into_iter().filter(|theirs| is_tag(theirs)).cloned().collect()
        } else {
            Vec::new()
        };
        let empty = mapped.is_empty();
        let has_refs = !found.refs.is_empty();
        let head = new_head;
        Ok(Selection { mapped, remote_head, head, follow_tags, funny, has_refs, empty, default_branch_used })
    }

    /// Returns the new HEAD that an option or the remote names. `candidates` are the selected refs.
    fn named_head(
        &self,
        head: Option<&RemoteRef>,
        remote_head: Option<&Mapped>,
        candidates: &[&RemoteRef],
    ) -> Result<Option<NewHead>, Error> {
        if let (Some(_), Some(first)) = (&self.revision, candidates.first()) {
            return Ok(Some(NewHead::Tag((*first).clone())));
        }
        let named = match &self.branch {
            Some(branch) => Some(find_branch(candidates.iter().copied(), branch).ok_or_else(|| {
                Error::NoSuchBranch { branch: branch.clone(), remote: self.remote.clone() }
            })?),
            None => remote_head.map(|points_at| &points_at.theirs),
        };
        Ok(match named {
            Some(theirs) if theirs.name.starts_with(b"refs/heads/") => Some(NewHead::Branch(theirs.clone())),
            Some(theirs) => Some(NewHead::Tag(theirs.clone())),
            None => head.map(|head| NewHead::Detached(head.clone())),
        })
    }

    /// Returns the branch of HEAD: the one that the remote names, or one guessed from HEAD's value.
    fn branch_of_head<'a>(&self, head: Option<&RemoteRef>, among: &[&'a RemoteRef]) -> Option<&'a RemoteRef> {
        let head = head?;
        let named = |name: &[u8]| among.iter().copied().find(|theirs| theirs.name == name);
        if let Some(target) = &head.symref {
            return named(target);
        }
        let usual = [self.default_branch.as_bstr(), BStr::new("master")].into_iter();
        usual
            .filter_map(|name| named(&[b"refs/heads/", name.as_bytes()].concat()))
            .chain(among.iter().copied().filter(|theirs| theirs.name.starts_with(b"refs/heads/")))
            .find(|theirs| theirs.oid == head.oid)
    }

    /// Returns the value of `remote.<name>.fetch`, or `None` if it is not set.
    pub(super) fn fetch_refspec(&self, selection: &Selection) -> Option<BString> {
        if self.bare && !self.mirror || self.revision.is_some() {
            return None;
        }
        let top = self.target_prefix();
        if !self.single_branch || self.mirror {
            return Some(format!("+{}*:{top}*", self.source_prefix()).into());
        }
        match (&self.branch, &selection.head, &selection.remote_head) {
            (Some(_), NewHead::Tag(tag), _) => Some(format!("+{0}:{0}", tag.name).into()),
            (Some(branch), NewHead::Branch(theirs), _) => {
                Some(format!("+{}:{top}{branch}", theirs.name).into())
            }
            (None, _, Some(points_at)) => {
                let name = &points_at.theirs.name;
                let short = name.strip_prefix(b"refs/heads/").unwrap_or(name).as_bstr();
                Some(format!("+{name}:{top}{short}").into())
            }
            _ => None,
        }
    }
}

/// Returns the full names that an abbreviation may mean, in order of precedence.
fn meanings(name: &BString) -> impl Iterator<Item = BString> {
    let rules = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
    let names = rules.into_iter().map(move |rule| BString::from([rule.as_bytes(), name].concat()));
    names.chain([format!("refs/remotes/{name}/HEAD").into()])
}

/// Returns true for the whole name of an object.
fn is_object_name(text: &BStr) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

fn is_tag(theirs: &RemoteRef) -> bool {
    theirs.name.starts_with(b"refs/tags/") && is_sane(theirs.name.as_bstr())
}

fn find_branch<'a>(
    mut among: impl Iterator<Item = &'a RemoteRef> + Clone,
    name: &BString,
) -> Option<&'a RemoteRef> {
    let full = |space: &str| [space.as_bytes(), name.as_slice()].concat();
    let (head, tag) = (full("refs/heads/"), full("refs/tags/"));
    among.clone().find(|theirs| theirs.name == head).or_else(|| among.find(|theirs| theirs.name == tag))
}

fn is_sane(name: &BStr) -> bool {
    name.starts_with(b"refs/") && refname::check(name, Levels::Two).is_ok()
}

/// Returns true if `transfer.hideRefs` or `uploadpack.hideRefs` hides `name`: the last matching
/// value decides.
pub(super) fn is_hidden(name: &BStr, rules: &[BString]) -> bool {
    let matching = |rule: &&BString| {
        let rule = rule.strip_prefix(b"!").unwrap_or(rule);
        let rule = rule.strip_prefix(b"^").unwrap_or(rule).trim_end_with(|c| c == '/');
        name.strip_prefix(rule).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    rules.iter().rev().find(matching).is_some_and(|rule| !rule.starts_with(b"!"))
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
