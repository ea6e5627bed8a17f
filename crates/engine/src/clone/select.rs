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
#[allow(missing_docs)]
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
#[allow(missing_docs)]
pub(super) struct Mapped {
    pub(super) theirs: RemoteRef,
    pub(super) ours: Option<BString>,
}

/// The new HEAD of the clone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
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
        match self.bare {
            true => self.source_prefix().into(),
            false => format!("refs/remotes/{}/", self.remote).into(),
        }
    }

    /// Returns the prefixes to request from the remote, HEAD included, in Git's order.
    pub(super) fn ref_prefixes(&self) -> Vec<BString> {
        let mut prefixes: Vec<BString> = self.refspecs.iter().map(|refspec| refspec.from.clone()).collect();
        match &self.revision {
            Some(revision) if is_object_name(revision.as_bstr()) => {}
            Some(revision) => add_meanings(revision, &mut prefixes),
            None => prefixes.push(self.source_prefix().into()),
        }
        if self.tags || self.branch.is_some() {
            prefixes.push("refs/tags/".into());
        }
        if let Some(branch) = &self.branch {
            add_meanings(branch, &mut prefixes);
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
        let mut names = Vec::new();
        add_meanings(revision, &mut names);
        let known = names.iter().find_map(|name| found.refs.iter().find(|theirs| theirs.name == *name));
        let missing = || Error::NoSuchRevision { revision: revision.clone(), remote: self.remote.clone() };
        known.cloned().ok_or_else(missing)
    }

    fn map(&self, theirs: &[&RemoteRef], funny: &mut Vec<BString>) -> Result<Vec<Mapped>, Error> {
        let mut rules = self.refspecs.clone();
        if self.revision.is_none() {
            rules.push(Refspec::prefix(self.source_prefix(), &self.target_prefix()));
        }
        if self.tags || self.branch.is_some() {
            rules.push(Refspec::prefix("refs/tags/", &"refs/tags/".into()));
        }
        let mut mapped: Vec<Mapped> = Vec::new();
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
        Ok(mapped)
    }

    /// Selects refs from an advertisement.
    pub(super) fn select(&self, found: &Advertisement) -> Result<Selection, Error> {
        let all: Vec<&RemoteRef> = found.refs.iter().collect();
        let head = all.iter().copied().find(|theirs| theirs.name == "HEAD");
        let mut mapped = Vec::new();
        let mut funny = Vec::new();
        if self.wants_head() {
            mapped.extend(head.map(|theirs| Mapped { theirs: theirs.clone(), ours: None }));
        }
        let considered: Vec<&RemoteRef> = match (self.single_branch, &self.branch) {
            (false, _) => all.clone(),
            (true, Some(branch)) => find_branch(all.iter().copied(), branch).into_iter().collect(),
            (true, None) => self.branch_of_head(head, &all).into_iter().collect(),
        };
        mapped.extend(self.map(&considered, &mut funny)?);
        if let Some(revision) = &self.revision {
            mapped.push(Mapped { theirs: self.named_revision(revision, found)?, ours: None });
        }

        let candidates: Vec<&RemoteRef> = mapped.iter().map(|mapped| &mapped.theirs).collect();
        let remote_head = self
            .branch_of_head(head.filter(|_| self.revision.is_none()), &candidates)
            .and_then(|theirs| mapped.iter().find(|mapped| mapped.theirs.name == theirs.name))
            .cloned();
        let mut default_branch_used = false;
        let new_head = if let (Some(_), Some(first)) = (&self.revision, candidates.first()) {
            NewHead::Tag((*first).clone())
        } else if let Some(branch) = &self.branch {
            match find_branch(candidates.iter().copied(), branch) {
                Some(theirs) if theirs.name.starts_with(b"refs/heads/") => NewHead::Branch(theirs.clone()),
                Some(theirs) => NewHead::Tag(theirs.clone()),
                None => {
                    return Err(Error::NoSuchBranch { branch: branch.clone(), remote: self.remote.clone() });
                }
            }
        } else if let Some(points_at) = &remote_head {
            match points_at.theirs.name.starts_with(b"refs/heads/") {
                true => NewHead::Branch(points_at.theirs.clone()),
                false => NewHead::Tag(points_at.theirs.clone()),
            }
        } else if let Some(head) = head {
            NewHead::Detached(head.clone())
        } else {
            let unborn = found.unborn_head.clone().filter(|name| name.starts_with(b"refs/heads/"));
            default_branch_used = unborn.is_none();
            let name = unborn.unwrap_or_else(|| format!("refs/heads/{}", self.default_branch).into());
            match candidates.iter().find(|theirs| theirs.name == name) {
                Some(theirs) => NewHead::Branch((*theirs).clone()),
                None => NewHead::Unborn(name),
            }
        };
        let follow_tags = match self.single_branch && self.tags {
            true => all.into_iter().filter(|theirs| is_tag(theirs)).cloned().collect(),
            false => Vec::new(),
        };
        let empty = mapped.is_empty();
        let has_refs = !found.refs.is_empty();
        let head = new_head;
        Ok(Selection { mapped, remote_head, head, follow_tags, funny, has_refs, empty, default_branch_used })
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

/// Adds the full names that an abbreviation may mean, in order of precedence.
fn add_meanings(name: &BString, names: &mut Vec<BString>) {
    let rules = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
    names.extend(rules.iter().map(|rule| BString::from([rule.as_bytes(), name].concat())));
    names.push(format!("refs/remotes/{name}/HEAD").into());
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
mod tests {
    use super::*;

    fn oid(number: u8) -> ObjectId {
        ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes")
    }

    fn theirs(name: &str, number: u8) -> RemoteRef {
        RemoteRef { name: name.into(), oid: oid(number), symref: None, peeled: None }
    }

    fn ref_options() -> RefOptions {
        RefOptions {
            refspecs: Vec::new(),
            branch: None,
            revision: None,
            single_branch: false,
            tags: true,
            later_tags: LaterTags::Followed,
            bare: false,
            mirror: false,
            remote: "origin".into(),
            default_branch: "trunk".into(),
        }
    }

    fn advertised() -> Advertisement {
        let mut head = theirs("HEAD", 1);
        head.symref = Some("refs/heads/main".into());
        let refs = vec![
            head,
            theirs("refs/heads/a", 2),
            theirs("refs/heads/main", 1),
            theirs("refs/notes/commits", 4),
            theirs("refs/tags/v1", 3),
        ];
        Advertisement { refs, ..Advertisement::default() }
    }

    fn names(selection: &Selection) -> Vec<String> {
        selection.mapped.iter().filter_map(|mapped| mapped.ours.as_ref()).map(BString::to_string).collect()
    }

    #[test]
    fn maps_refs_of_plain_bare_and_mirror_clones() {
        let plain = ref_options().select(&advertised()).expect("found");
        assert_eq!(names(&plain), ["refs/remotes/origin/a", "refs/remotes/origin/main", "refs/tags/v1"]);
        assert!(matches!(&plain.head, NewHead::Branch(branch) if branch.name == "refs/heads/main"));
        let refspec = ref_options().fetch_refspec(&plain);
        assert_eq!(refspec, Some("+refs/heads/*:refs/remotes/origin/*".into()));

        let bare = RefOptions { bare: true, ..ref_options() };
        let selection = bare.select(&advertised()).expect("found");
        assert_eq!(names(&selection), ["refs/heads/a", "refs/heads/main", "refs/tags/v1"]);
        assert_eq!(bare.fetch_refspec(&selection), None);

        let mirror = RefOptions { mirror: true, tags: false, ..bare };
        let selection = mirror.select(&advertised()).expect("found");
        let everything = ["refs/heads/a", "refs/heads/main", "refs/notes/commits", "refs/tags/v1"];
        assert_eq!(names(&selection), everything);
        assert_eq!(mirror.fetch_refspec(&selection), Some("+refs/*:refs/*".into()));
    }

    #[test]
    fn selects_a_single_branch_or_tag() {
        let one = RefOptions { single_branch: true, ..ref_options() };
        let selection = one.select(&advertised()).expect("found");
        assert_eq!(names(&selection), ["refs/remotes/origin/main"]);
        assert_eq!(selection.follow_tags, [theirs("refs/tags/v1", 3)]);
        assert_eq!(one.fetch_refspec(&selection), Some("+refs/heads/main:refs/remotes/origin/main".into()));

        let tag = RefOptions { branch: Some("v1".into()), ..one };
        let selection = tag.select(&advertised()).expect("found");
        assert_eq!(selection.head, NewHead::Tag(theirs("refs/tags/v1", 3)));
        assert_eq!(tag.fetch_refspec(&selection), Some("+refs/tags/v1:refs/tags/v1".into()));

        let none = RefOptions { branch: Some("v2".into()), ..tag };
        let refused = none.select(&advertised()).expect_err("there is none").to_string();
        assert_eq!(refused, "Remote branch v2 not found in upstream origin");
    }

    #[test]
    fn selects_a_revision() {
        let of = |name: &str| RefOptions { revision: Some(name.into()), tags: false, ..ref_options() };
        let selection = of("v1").select(&advertised()).expect("found");
        assert_eq!(selection.head, NewHead::Tag(theirs("refs/tags/v1", 3)));
        assert_eq!((names(&selection), of("v1").fetch_refspec(&selection)), (Vec::new(), None));
        let name = oid(9).to_string();
        let selection = of(&name).select(&advertised()).expect("an object");
        assert_eq!(selection.head, NewHead::Tag(theirs(&name, 9)));
        assert_eq!(of(&name).ref_prefixes(), ["HEAD"]);
        assert_eq!(of("main^").select(&advertised()), Err(Error::Revision("main^".into())));
        let refused = of(&name[..9]).select(&advertised()).expect_err("no ref").to_string();
        assert_eq!(refused, format!("Remote revision {} not found in upstream origin", &name[..9]));
    }

    #[test]
    fn guesses_the_branch_of_head() {
        let mut found = advertised();
        found.refs[0].symref = None;
        let guessed = |found: &Advertisement| match ref_options().select(found).expect("found").head {
            NewHead::Branch(branch) => branch.name.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(guessed(&found), "refs/heads/main");
        found.refs.push(theirs("refs/heads/master", 1));
        assert_eq!(guessed(&found), "refs/heads/master");
        found.refs.push(theirs("refs/heads/trunk", 1));
        assert_eq!(guessed(&found), "refs/heads/trunk");
        found.refs[0].oid = oid(9);
        assert_eq!(ref_options().select(&found).expect("found").head, NewHead::Detached(theirs("HEAD", 9)));
    }

    #[test]
    fn handles_empty_remotes_and_unborn_branches() {
        let mut found = Advertisement::default();
        let selection = ref_options().select(&found).expect("fine");
        assert_eq!((selection.empty, &selection.head), (true, &NewHead::Unborn("refs/heads/trunk".into())));
        found.unborn_head = Some("refs/heads/x".into());
        let selection = ref_options().select(&found).expect("fine");
        assert_eq!(selection.head, NewHead::Unborn("refs/heads/x".into()));
        found.refs.push(theirs("refs/heads/y", 1));
        let selection = ref_options().select(&found).expect("fine");
        assert_eq!((selection.empty, &selection.head), (false, &NewHead::Unborn("refs/heads/x".into())));
    }

    #[test]
    fn skips_malformed_names() {
        let mut found = advertised();
        for name in ["refs/heads/../../../x", "refs/heads/a b", "refs/heads/x.lock", "refs/heads/-ok"] {
            found.refs.push(theirs(name, 5));
        }
        let selection = ref_options().select(&found).expect("found");
        assert_eq!(selection.funny.len(), 3);
        assert!(names(&selection).contains(&"refs/remotes/origin/-ok".to_owned()));
    }

    #[test]
    fn applies_configured_refspecs_first() {
        let parse = |text: &str| Refspec::parse(text.into());
        let notes = parse("+refs/notes/*:refs/notes/*").expect("valid");
        let with = RefOptions { refspecs: vec![notes], ..ref_options() };
        let selection = with.select(&advertised()).expect("found");
        assert_eq!(names(&selection)[0], "refs/notes/commits");
        let missing = RefOptions { refspecs: vec![parse("refs/x:refs/y").expect("valid")], ..ref_options() };
        assert_eq!(missing.select(&advertised()), Err(Error::NoSuchRef("refs/x".into())));
        for text in ["main", "^refs/heads/x", "refs/a/*:refs/b", "refs/*/x:refs/*/y", "x:refs/y"] {
            assert_eq!(parse(text), Err(Error::Refspec(text.into())));
        }
    }

    #[test]
    fn honours_hide_refs() {
        let rules = ["refs/pull/", "refs/x", "!refs/pull/1"].map(BString::from);
        for (name, hidden) in [
            ("refs/pull/2/head", true),
            ("refs/pull/1/head", false),
            ("refs/x", true),
            ("refs/xy", false),
            ("refs/heads/a", false),
        ] {
            assert_eq!(is_hidden(name.into(), &rules), hidden, "{name}");
        }
    }
}
