//! Branches and the refs they follow: upstream, push destination, and the remote branch that
//! `--guess` finds.
//!
//! Source: git-config(1) `branch.<name>.*`, `remote.<name>.*`, `push.default`; git-worktree(1).

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    keys::{self, Key},
};

use crate::{Error, Repository, UpstreamError, branch_name};

/// The ref that a branch is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// `refs/remotes/origin/main`, or a local branch.
    pub full: BString,
    /// The shortest name that is not ambiguous, such as `origin/main`.
    pub short: BString,
    /// Its commit; `None` if the ref does not exist.
    pub oid: Option<ObjectId>,
    /// True if the ref is the branch's `@{upstream}`.
    pub is_upstream: bool,
    /// True if a push updates this ref, so that advice may name `git push`.
    pub is_push: bool,
}

/// The meaning of a short name that is not a local branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guess {
    /// No remote has a branch of this name.
    None,
    /// The remote-tracking ref to start from: the only one, or the one of `checkout.defaultRemote`.
    Unique {
        /// The full name of the remote-tracking ref.
        tracking: BString,
        /// The name of the remote.
        remote: BString,
        /// The commit of the ref.
        oid: ObjectId,
    },
    /// Several remotes have such a branch. Git prints their number and a hint.
    Ambiguous {
        /// The number of these remotes.
        matches: usize,
    },
}

/// A refspec of a remote: `source:destination`.
struct Refspec<'a> {
    negative: bool,
    source: &'a BStr,
    destination: Option<&'a BStr>,
}

impl<'a> Refspec<'a> {
    fn parse(text: &'a BStr) -> Self {
        let rest = text.strip_prefix(b"+").unwrap_or(text);
        let (negative, rest) = match rest.strip_prefix(b"^") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (source, destination) = match rest.rsplit_once_str(":") {
            Some((source, destination)) => (source.as_bstr(), Some(destination.as_bstr())),
            None => (rest.as_bstr(), None),
        };
        Refspec { negative, source, destination: destination.filter(|name| !name.is_empty()) }
    }

    /// Returns true if the source side matches `name`.
    fn excludes(&self, name: &BStr) -> bool {
        self.negative && replaced(self.source, self.source, name).is_some()
    }
}

/// Returns `name` with the parts around the asterisk of `from` replaced by those of `to`. `None` if
/// `from` does not match. Without an asterisk, `from` matches its own text.
fn replaced(from: &BStr, to: &BStr, name: &BStr) -> Option<BString> {
    let Some((before, after)) = from.split_once_str("*") else {
        return (from == name).then(|| to.to_owned());
    };
    let fits = name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after);
    let star = fits.then(|| &name[before.len()..name.len() - after.len()])?;
    Some(match to.split_once_str("*") {
        Some((before, after)) => bstr::concat([before, star, after]).into(),
        None => to.to_owned(),
    })
}

/// Returns true if a negative refspec excludes the name that is looked up, by Git's rules: the name
/// is mapped from the destination of each pattern to its source, also if it is a source. So a
/// negative refspec seldom hides the remote-tracking ref of a remote's ref, which may have been
/// fetched before.
fn is_excluded(specs: &[Refspec<'_>], name: &BStr) -> bool {
    let mut reversed = specs.iter().filter(|spec| !spec.negative).filter_map(|spec| {
        let is_pattern = spec.source.contains(&b'*');
        let key = if is_pattern { spec.destination.unwrap_or(spec.source) } else { spec.source };
        replaced(key, spec.source, name)
    });
    reversed.any(|source| specs.iter().any(|spec| spec.excludes(source.as_bstr())))
}

/// Maps the source `name` to its destination, by the first refspec that matches it.
fn map_ref(specs: &[Refspec<'_>], name: &BStr) -> Option<BString> {
    first(specs, name, |source, destination| (source, destination))
}

/// Maps the destination `name` to its source, by the first refspec that matches it.
fn map_back(specs: &[Refspec<'_>], name: &BStr) -> Option<BString> {
    first(specs, name, |source, destination| (destination, source))
}

fn first<'a>(
    specs: &[Refspec<'a>],
    name: &BStr,
    direction: impl Fn(&'a BStr, &'a BStr) -> (&'a BStr, &'a BStr),
) -> Option<BString> {
    if is_excluded(specs, name) {
        return None;
    }
    specs.iter().filter(|spec| !spec.negative).find_map(|spec| {
        let (from, to) = direction(spec.source, spec.destination?);
        replaced(from, to, name)
    })
}

impl Repository {
    fn refspecs(&self, remote: &BStr, kind: Key<Option<BString>>) -> Vec<Refspec<'_>> {
        self.config.all(&kind.of(remote)).map(Refspec::parse).collect()
    }

    /// Returns the remote-tracking ref of a remote's ref.
    fn tracking_ref(&self, remote: &BStr, name: &BStr) -> Option<BString> {
        map_ref(&self.refspecs(remote, keys::remote::FETCH), name)
    }

    /// Returns the ref of a remote that its fetch refspecs store in the ref `name` (full).
    pub fn fetched_into(&self, remote: &BStr, name: &BStr) -> Option<BString> {
        map_back(&self.refspecs(remote, keys::remote::FETCH), name)
    }

    /// Returns the remote of a branch, by configuration or by default.
    pub fn remote_of(&self, branch: &BStr) -> BString {
        let short = branch_name(branch);
        if let Some(remote) = self.config_str(&keys::branch::REMOTE.of(short)) {
            return remote;
        }
        match self.remotes().as_slice() {
            [only] => only.clone(),
            _ => "origin".into(),
        }
    }

    /// Returns the full name of the upstream of a branch, even if that ref does not exist. `branch`
    /// is a full name. If there is no upstream, the error is Git's message with the reason.
    pub fn require_upstream(&self, branch: &BStr) -> Result<BString, Error> {
        let short = branch_name(branch);
        let remote = self.config_str(&keys::branch::REMOTE.of(short));
        let merge = self.config_all(&keys::branch::MERGE.of(short)).into_iter().next();
        let (Some(remote), Some(merge)) = (remote, merge) else {
            return Err(match self.find_ref(branch)? {
                None => UpstreamError::NoBranch(short.to_owned()).into(),
                Some(_) => UpstreamError::NotConfigured(short.to_owned()).into(),
            });
        };
        if let Some(tracking) = self.tracking_ref(remote.as_bstr(), merge.as_bstr()) {
            return Ok(tracking);
        }
        if remote == "." {
            return Ok(self.expand_ref(merge.as_bstr())?.map_or(merge, |(full, _)| full));
        }
        Err(UpstreamError::NotTracked(merge).into())
    }

    /// Returns the full name of `@{push}` of a branch. If there is none, the error is Git's message
    /// with the reason.
    pub fn require_push(&self, branch: &BStr) -> Result<BString, Error> {
        let short = branch_name(branch);
        let remote = self
            .config_str(&keys::branch::PUSH_REMOTE.of(short))
            .or_else(|| self.config_str(&keys::remote::PUSH_DEFAULT))
            .unwrap_or_else(|| self.remote_of(branch));
        let remote = remote.as_bstr();
        let tracking = |name: &BStr| {
            self.tracking_ref(remote, name).ok_or_else(|| {
                let (destination, remote) = (name.to_owned(), remote.to_owned());
                Error::from(UpstreamError::PushNotTracked { destination, remote })
            })
        };
        let push = self.refspecs(remote, keys::remote::PUSH);
        if !push.is_empty() {
            let destination = map_ref(&push, branch).ok_or_else(|| UpstreamError::NotPushed {
                remote: remote.to_owned(),
                branch: short.to_owned(),
            })?;
            return tracking(destination.as_bstr());
        }
        if self.config(&keys::remote::MIRROR.of(remote))? {
            return tracking(branch);
        }
        let default = self.config_text(&keys::push::DEFAULT);
        match default.as_slice() {
            b"nothing" => Err(UpstreamError::PushNothing.into()),
            b"matching" | b"current" => tracking(branch),
            b"upstream" | b"tracking" => self.require_upstream(branch),
            _ => {
                let upstream = self.require_upstream(branch)?;
                if tracking(branch)? != upstream {
                    return Err(UpstreamError::NotSimple.into());
                }
                Ok(upstream)
            }
        }
    }

    /// Returns the configured upstream of a branch (full name); `None` if there is none.
    pub fn upstream_of(&self, branch: &BStr) -> Result<Option<Tracking>, Error> {
        let Ok(full) = self.require_upstream(branch) else { return Ok(None) };
        self.tracking(branch, full).map(Some)
    }

    /// Returns the refs that "Your branch is ..." compares a branch with, in order: those of
    /// `status.compareBranches`, by default the upstream. The warnings are Git's, without `warning:
    /// `.
    pub fn comparison_refs(&self, branch: &BStr) -> Result<(Vec<Tracking>, Vec<String>), Error> {
        let list = self.config_text(&keys::status::COMPARE_BRANCHES);
        let mut found: Vec<Tracking> = Vec::new();
        let mut warnings = Vec::new();
        for name in list.split_str(" ").filter(|name| !name.is_empty()) {
            let full = if name.eq_ignore_ascii_case(b"@{upstream}") {
                self.require_upstream(branch)
            } else if name.eq_ignore_ascii_case(b"@{push}") {
                self.require_push(branch)
            } else {
                warnings.push(format!(
                    "ignoring value '{}' for status.compareBranches, only @{{upstream}} and @{{push}} are supported",
                    name.as_bstr()
                ));
                continue;
            };
            if let Ok(full) = full
                && found.iter().all(|before| before.full != full)
            {
                found.push(self.tracking(branch, full)?);
            }
        }
        Ok((found, warnings))
    }

    fn tracking(&self, branch: &BStr, full: BString) -> Result<Tracking, Error> {
        let upstream = self.require_upstream(branch).ok();
        let push = self.require_push(branch).ok();
        let is_upstream = upstream.as_ref() == Some(&full);
        let is_push = match &push {
            Some(push) => *push == full,
            None => is_upstream,
        };
        let oid = match self.find_ref(full.as_bstr())? {
            Some(oid) => self.commit_if_there(oid)?,
            None => None,
        };
        Ok(Tracking { short: self.shorten_ref(full.as_bstr())?, full, oid, is_upstream, is_push })
    }

    /// Returns the remote that a branch is configured to be pushed to; `None` if there is only a
    /// default. `branch` is a full name.
    pub fn configured_push_remote(&self, branch: &BStr) -> Option<BString> {
        let short = branch_name(branch);
        let own = |key: Key<Option<BString>>| self.config_str(&key.of(short));
        own(keys::branch::PUSH_REMOTE)
            .or_else(|| self.config_str(&keys::remote::PUSH_DEFAULT))
            .or_else(|| own(keys::branch::REMOTE))
    }

    /// Returns the ref of the remote that the configured refspecs push a branch to.
    pub fn push_destination(&self, branch: &BStr) -> Option<BString> {
        let remote = self.configured_push_remote(branch).unwrap_or_else(|| self.remote_of(branch));
        map_ref(&self.refspecs(remote.as_bstr(), keys::remote::PUSH), branch)
    }

    /// Returns the shortest name that Git's rules of precedence expand to this ref.
    pub fn shorten_ref(&self, full: &BStr) -> Result<BString, Error> {
        self.shorten(full, false)
    }

    /// Returns the shortest name that is not ambiguous.
    pub fn shorten_ref_strictly(&self, full: &BStr) -> Result<BString, Error> {
        self.shorten(full, true)
    }

    fn shorten(&self, full: &BStr, strictly: bool) -> Result<BString, Error> {
        let rules = &crate::refs::RULES;
        for at in (1..rules.len()).rev() {
            let (before, after) = rules[at];
            let short = full
                .strip_prefix(before.as_bytes())
                .and_then(|rest| rest.strip_suffix(after.as_bytes()))
                .filter(|short| !short.is_empty());
            let Some(short) = short else { continue };
            let mut taken = false;
            let others =
                rules.iter().enumerate().filter(|(other, _)| *other < at || strictly && *other != at);
            for (_, (before, after)) in others {
                let name = BString::from(bstr::concat([before.as_bytes(), short, after.as_bytes()]));
                taken |= self.try_ref(name.as_bstr())?.is_some();
            }
            if !taken {
                return Ok(short.into());
            }
        }
        Ok(full.to_owned())
    }

    /// Implements `--guess`: finds the remote branch that a short name stands for.
    pub fn guess_remote_branch(&self, short: &BStr) -> Result<Guess, Error> {
        let mut name = BString::from("refs/heads/");
        name.extend_from_slice(short);
        let default = self.config_str(&keys::checkout::DEFAULT_REMOTE);
        let mut matches = Vec::new();
        for remote in self.remotes() {
            if let Some(tracking) = self.tracking_ref(remote.as_bstr(), name.as_bstr())
                && let Some(oid) = self.find_ref(tracking.as_bstr())?
            {
                matches.push((remote, tracking, oid));
            }
        }
        let count = matches.len();
        let chosen = matches.into_iter().find(|(remote, ..)| count == 1 || default.as_ref() == Some(remote));
        Ok(match chosen {
            Some((remote, tracking, oid)) => Guess::Unique { tracking, remote, oid },
            None if count == 0 => Guess::None,
            None => Guess::Ambiguous { matches: count },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_names_by_refspecs() {
        let specs: Vec<_> = ["+refs/heads/*:refs/remotes/o/*", "^refs/heads/secret", "refs/tags/v1:refs/x"]
            .iter()
            .map(|text| Refspec::parse(BStr::new(text)))
            .collect();
        let map = |name: &str| map_ref(&specs, name.into()).map(|name| name.to_string());
        assert_eq!(map("refs/heads/a/b").as_deref(), Some("refs/remotes/o/a/b"));
        // Its remote-tracking ref may have been fetched before.
        assert_eq!(map("refs/heads/secret").as_deref(), Some("refs/remotes/o/secret"));
        assert_eq!(map("refs/tags/v1").as_deref(), Some("refs/x"));
        assert_eq!(map("refs/tags/v2"), None);
        let back = |name: &str| map_back(&specs, name.into()).map(|name| name.to_string());
        assert_eq!(back("refs/remotes/o/a").as_deref(), Some("refs/heads/a"));
        assert_eq!(back("refs/remotes/o/secret"), None);
        assert_eq!(back("refs/x").as_deref(), Some("refs/tags/v1"));
        assert_eq!(back("refs/heads/a"), None);
        let exact: Vec<_> =
            ["a:b", "^a", "p*:q*"].iter().map(|text| Refspec::parse(BStr::new(text))).collect();
        assert_eq!(map_ref(&exact, "a".into()), None);
        assert_eq!(map_back(&exact, "b".into()), Some("a".into()));
        assert_eq!(map_back(&exact, "p1".into()), None);
    }
}
