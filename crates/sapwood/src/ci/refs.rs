//! The refs that a checkout fetches, and the one that HEAD gets.

use bstr::{BStr, BString, ByteSlice as _};

use crate::text;

/// The refspecs for the whole history.
pub(super) const ALL_BRANCHES: &str = "+refs/heads/*:refs/remotes/origin/*";
pub(super) const ALL_TAGS: &str = "+refs/tags/*:refs/tags/*";

/// The commit to check out, as a runner names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// A full name below `refs/`, or the short name of a branch or tag.
    pub(super) name: Option<BString>,
    /// The commit that the ref had when the job was made.
    pub(super) commit: Option<BString>,
}

/// The destination of HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// The local branch, and the ref at which it begins.
    Branch { name: BString, start: BString },
    /// HEAD is detached at this revision.
    Detached(BString),
}

impl Target {
    /// Interprets what the user gave: a name that is an object id is a commit.
    pub(super) fn new(name: Option<&BString>, commit: Option<&BString>) -> Target {
        let given = |text: Option<&BString>| text.filter(|text| !text.is_empty()).cloned();
        match (given(name), given(commit)) {
            (Some(name), commit) if is_object_id(name.as_bstr()) => {
                Target { name: None, commit: commit.or(Some(name)) }
            }
            (name, commit) => Target { name, commit },
        }
    }

    /// Returns the ref at the local end, if the name is full.
    fn tracking(&self) -> Option<BString> {
        let name = self.name.as_ref()?;
        if let Some(branch) = name.strip_prefix(b"refs/heads/") {
            return Some(text!("refs/remotes/origin/", branch));
        }
        if let Some(request) = name.strip_prefix(b"refs/pull/") {
            return Some(text!("refs/remotes/pull/", request));
        }
        name.starts_with(b"refs/").then(|| name.clone())
    }

    /// Returns the refspecs that bring the commit alone.
    pub(super) fn refspecs(&self) -> Vec<BString> {
        match (self.tracking(), &self.name, &self.commit) {
            (Some(to), Some(name), commit) => {
                vec![text!("+", commit.as_ref().unwrap_or(name), ":", to)]
            }
            (_, _, Some(commit)) => vec![commit.clone()],
            (_, Some(name), None) => vec![
                text!("+refs/heads/", name, "*:refs/remotes/origin/", name, "*"),
                text!("+refs/tags/", name, "*:refs/tags/", name, "*"),
            ],
            (_, None, None) => Vec::new(),
        }
    }

    /// Returns the refspecs that bring all branches and tags, and the commit if no branch or tag
    /// names it.
    pub(super) fn refspecs_for_all(&self) -> Vec<BString> {
        let mut all = vec![ALL_BRANCHES.into(), ALL_TAGS.into()];
        let is_other =
            |to: &BString| !to.starts_with(b"refs/remotes/origin/") && !to.starts_with(b"refs/tags/");
        match (self.tracking().filter(is_other), &self.name) {
            (Some(to), Some(name)) => all.push(text!("+", self.commit.as_ref().unwrap_or(name), ":", to)),
            _ => all.extend(self.commit.clone().filter(|_| self.name.is_none())),
        }
        all
    }

    /// Returns the ref that must name the commit after a fetch of all branches and tags. If it does
    /// not, the ref moved since the job was made.
    pub(super) fn to_verify(&self) -> Option<(BString, &BString)> {
        Some((self.tracking()?, self.commit.as_ref()?))
    }

    /// Returns the place of HEAD. `exists` answers whether a ref exists after the fetch. `None` if
    /// the name is neither a branch nor a tag.
    pub(super) fn head(&self, exists: impl Fn(&BStr) -> bool) -> Option<Head> {
        let Some(name) = &self.name else { return self.commit.clone().map(Head::Detached) };
        let branch = |name: &[u8]| {
            let start = text!("refs/remotes/origin/", name);
            Head::Branch { name: name.into(), start }
        };
        if let Some(name) = name.strip_prefix(b"refs/heads/") {
            return Some(branch(name));
        }
        if let Some(tracking) = self.tracking() {
            // An annotated tag is an object of its own, so the commit is preferred.
            return Some(Head::Detached(self.commit.clone().unwrap_or(tracking)));
        }
        let (found, tag) = (branch(name), text!("refs/tags/", name));
        match &found {
            Head::Branch { start, .. } if exists(start.as_bstr()) => Some(found),
            _ => exists(tag.as_bstr()).then_some(Head::Detached(tag)),
        }
    }

    /// Returns true if the existing ref `other` below `refs/remotes/origin/` cannot exist beside
    /// the one that the fetch writes: one of them is a directory of the other.
    pub(super) fn conflicts_with(&self, other: &BStr) -> bool {
        let branch = match &self.name {
            Some(name) if name.starts_with(b"refs/heads/") => &name[b"refs/heads/".len()..],
            Some(name) if !name.starts_with(b"refs/") => &name[..],
            _ => return false,
        };
        let wanted = text!("refs/remotes/origin/", branch);
        let is_below =
            |outer: &[u8], inner: &[u8]| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with(b"/"));
        is_below(&wanted, other) || is_below(other, &wanted)
    }
}

/// Lets a refspec change no ref by force, except those that follow a remote.
pub(super) fn spare_local(refspec: &mut BString) {
    let follows = refspec.find(":refs/remotes/").is_some();
    if !follows && let Some(rest) = refspec.strip_prefix(b"+") {
        *refspec = rest.into();
    }
}

/// Returns true for a refspec that only writes refs which follow branches of `origin`.
pub(super) fn follows_origin(refspec: &BStr) -> bool {
    let parts = refspec.strip_prefix(b"+refs/heads/").and_then(|rest| rest.split_once_str(":"));
    parts.is_some_and(|(_, to)| to.starts_with(b"refs/remotes/origin/"))
}

/// Returns true for a whole object id in hexadecimal.
pub(super) fn is_object_id(text: &BStr) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

/// Returns the branch in the answer of `ls-remote --symref <url> HEAD`.
pub(super) fn default_branch(answer: &BStr) -> Option<BString> {
    let line = answer.lines().find_map(|line| line.strip_prefix(b"ref: "))?;
    let name = line.split(|&byte| byte == b'\t').next()?;
    // The fetch writes any other ref, for example the stash, at the same name here.
    name.starts_with(b"refs/heads/").then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789012345678901234567890123456789";

    fn target(name: &str, commit: &str) -> Target {
        Target::new(Some(&name.into()), Some(&commit.into()))
    }

    /// The name, the commit, the refspec, and the place of HEAD (a branch, or a revision).
    #[test]
    fn refspecs_and_heads() {
        for (name, commit, refspec, head) in [
            (ID, "", ID.to_owned(), Err(ID)),
            ("", ID, ID.to_owned(), Err(ID)),
            ("refs/heads/a/b", ID, format!("+{ID}:refs/remotes/origin/a/b"), Ok("a/b")),
            ("refs/heads/a", "", "+refs/heads/a:refs/remotes/origin/a".into(), Ok("a")),
            ("refs/pull/7/merge", ID, format!("+{ID}:refs/remotes/pull/7/merge"), Err(ID)),
            (
                "refs/pull/7/merge",
                "",
                "+refs/pull/7/merge:refs/remotes/pull/7/merge".into(),
                Err("refs/remotes/pull/7/merge"),
            ),
            ("refs/tags/v1", ID, format!("+{ID}:refs/tags/v1"), Err(ID)),
            ("refs/tags/v1", "", "+refs/tags/v1:refs/tags/v1".into(), Err("refs/tags/v1")),
            ("topic", "", "+refs/heads/topic*:refs/remotes/origin/topic*".into(), Ok("topic")),
        ] {
            let target = target(name, commit);
            assert_eq!(target.refspecs()[0], refspec.as_str(), "{name} {commit}");
            let expected = match head {
                Ok(branch) => {
                    Head::Branch { name: branch.into(), start: text!("refs/remotes/origin/", branch) }
                }
                Err(revision) => Head::Detached(revision.into()),
            };
            assert_eq!(target.head(|_| true), Some(expected), "{name} {commit}");
        }
        let tag = target("v1", "").head(|name| name == "refs/tags/v1");
        assert_eq!(tag, Some(Head::Detached("refs/tags/v1".into())));
        assert_eq!(target("gone", "").head(|_| false), None);
    }

    #[test]
    fn the_whole_history_includes_a_commit_that_no_branch_names() {
        let extra = |name: &str, commit: &str| target(name, commit).refspecs_for_all().split_off(2);
        assert_eq!(extra("refs/heads/a", ID), Vec::<BString>::new());
        assert_eq!(extra("refs/tags/a", ID), Vec::<BString>::new());
        assert_eq!(extra("refs/pull/1/head", ID), [format!("+{ID}:refs/remotes/pull/1/head")]);
        assert_eq!(extra(ID, ""), [ID]);
    }

    #[test]
    fn conflicts_are_those_of_files_and_directories() {
        let conflicts = |name: &str, other: &str| target(name, "").conflicts_with(other.into());
        assert!(conflicts("refs/heads/a", "refs/remotes/origin/a/b"));
        assert!(conflicts("refs/heads/a/b", "refs/remotes/origin/a"));
        assert!(conflicts("a", "refs/remotes/origin/a/b"));
        assert!(!conflicts("refs/heads/a", "refs/remotes/origin/ab"));
        assert!(!conflicts("refs/heads/a", "refs/remotes/origin/a"));
        assert!(!conflicts("refs/tags/a", "refs/remotes/origin/a/b"));
    }

    #[test]
    fn only_refs_of_remotes_are_forced() {
        for (given, expected) in [
            (ALL_TAGS, "refs/tags/*:refs/tags/*"),
            ("+refs/notes/a:refs/notes/a", "refs/notes/a:refs/notes/a"),
            (ALL_BRANCHES, ALL_BRANCHES),
            (ID, ID),
        ] {
            let mut refspec = BString::from(given);
            spare_local(&mut refspec);
            assert_eq!(refspec, expected);
        }
    }

    #[test]
    fn a_refspec_of_an_earlier_job_writes_refs_of_origin_alone() {
        for (refspec, follows) in [
            (ALL_BRANCHES, true),
            ("+refs/heads/main:refs/remotes/origin/main", true),
            ("+refs/heads/*:refs/replace/*", false),
            ("+refs/heads/*:refs/heads/*", false),
            (ALL_TAGS, false),
            ("main", false),
        ] {
            assert_eq!(follows_origin(refspec.into()), follows, "{refspec}");
        }
    }

    #[test]
    fn the_answer_of_a_server_names_the_default_branch() {
        let answer = format!("ref: refs/heads/trunk\tHEAD\n{ID}\tHEAD\n");
        assert_eq!(default_branch(answer.as_str().into()), Some("refs/heads/trunk".into()));
        assert_eq!(default_branch(format!("{ID}\tHEAD\n").as_str().into()), None);
        assert_eq!(default_branch("ref: refs/stash\tHEAD\n".into()), None);
    }
}
