//! One pathspec: parsing it, and comparing it with a path.

use bstr::{BStr, BString, ByteSlice as _, ByteVec as _};
use format::wildmatch::{self, literal_length, wildmatch};

use super::{Defaults, EMPTY, Error, Reach, attr::Attr, fail, magic::Magic};

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) original: BString,
    /// The pattern relative to the root of the worktree; empty for everything.
    pub(super) pattern: BString,
    /// The length of the part of `pattern` without wildcards.
    pub(super) literal: usize,
    /// The length of the part that is the current directory. No magic applies to this part.
    pub(super) prefix: usize,
    pub(super) exclude: bool,
    pub(super) icase: bool,
    /// `:(glob)`: wildcards stop at slashes.
    pub(super) glob: bool,
    /// `:(literal)`
    pub(super) literal_magic: bool,
    /// `:(attr:...)`
    pub(super) attr: Option<Attr>,
}

/// A kind of match. The greatest value applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchKind {
    None,
    /// A path below the pathspec.
    Below,
    /// A match by a wildcard.
    Wildcard,
    /// The whole path literally.
    Exact,
}

impl Item {
    pub(super) fn parse(
        spec: &BString,
        prefix: &BStr,
        root: &BStr,
        defaults: &Defaults,
    ) -> Result<Item, Error> {
        if spec.is_empty() {
            return Err(fail(&[EMPTY]));
        }
        let mut magic = Magic { icase: defaults.icase, glob: defaults.glob, ..Magic::default() };
        let rest = if defaults.literal {
            magic.literal = true;
            spec.as_bstr()
        } else {
            magic.take_from(spec.as_bstr())?
        };
        if magic.prefix.is_some() && !prefix.is_empty() {
            return Err(fail(&[b"'prefix' magic is supposed to be used at worktree's root"]));
        }
        if magic.literal && magic.glob && !defaults.glob {
            return Err(fail(&[spec, b": 'literal' and 'glob' are incompatible"]));
        }
        // The current directory is literal even if its name contains wildcards. As in Git, nothing
        // after it is literal in that case.
        let (pattern, shared) = match magic.prefix {
            Some(length) if length > rest.len() => return Err(fail(&[b"error initializing pathspec_item"])),
            // A path relative to the root is not normalized.
            Some(length) => (rest.to_owned(), length),
            None if magic.top => (rest.to_owned(), 0),
            None => {
                let pattern = normalize(rest, prefix, root).ok_or_else(|| {
                    fail(&[spec, b": '", rest, b"' is outside repository at '", root, b"'"])
                })?;
                let kept = prefix.len().min(pattern.len());
                let shared = if pattern[..kept] == prefix[..kept] { kept } else { 0 };
                (pattern, shared)
            }
        };
        let literal = if magic.literal { pattern.len() } else { literal_length(&pattern).max(shared) };
        Ok(Item {
            original: spec.clone(),
            pattern,
            literal,
            prefix: shared,
            exclude: magic.exclude,
            icase: magic.icase,
            glob: magic.glob && !magic.literal,
            literal_magic: magic.literal,
            attr: magic.attr.map(|required| Attr::new(required, defaults.attributes.clone())),
        })
    }

    pub(super) fn matches(&self, path: &BStr) -> bool {
        self.match_kind(path) != MatchKind::None
    }

    /// Returns the kind of match, if the path has the required attributes.
    pub(super) fn match_kind(&self, path: &BStr) -> MatchKind {
        match self.match_name(path) {
            kind if kind != MatchKind::None && self.has_attributes(path) => kind,
            _ => MatchKind::None,
        }
    }

    pub(super) fn has_attributes(&self, path: &BStr) -> bool {
        self.attr.as_ref().is_none_or(|attr| attr.holds(path))
    }

    pub(super) fn match_name(&self, path: &BStr) -> MatchKind {
        let pattern = self.pattern.as_bstr();
        // The current directory is compared case-sensitively.
        if self.icase && !path.starts_with(&pattern[..self.prefix]) {
            return MatchKind::None;
        }
        if pattern.is_empty() {
            return MatchKind::Below;
        }
        if path.len() >= pattern.len() && self.same(&path[..pattern.len()], pattern) {
            if path.len() == pattern.len() {
                return MatchKind::Exact;
            }
            if pattern.ends_with(b"/") || path[pattern.len()] == b'/' {
                return MatchKind::Below;
            }
        }
        let mode = wildmatch::Mode { pathname: self.glob, icase: self.icase };
        let is_wild = self.literal < pattern.len()
            && path.len() >= self.literal
            && self.same(&path[..self.literal], &pattern[..self.literal])
            && wildmatch(&pattern[self.literal..], &path[self.literal..], mode);
        if is_wild { MatchKind::Wildcard } else { MatchKind::None }
    }

    /// Returns true if the pathspec is `path` followed by a slash.
    pub(super) fn matches_directory(&self, path: &BStr) -> bool {
        let is_it = self.pattern.strip_suffix(b"/").is_some_and(|pattern| self.same(pattern, path));
        is_it && self.has_attributes(path)
    }

    pub(super) fn same(&self, left: &[u8], right: &[u8]) -> bool {
        if self.icase { left.eq_ignore_ascii_case(right) } else { left == right }
    }

    /// See [`super::Pathspecs::reach`].
    pub(super) fn reach(&self, dir: &BStr) -> Reach {
        let pattern = self.pattern.as_bstr();
        if self.matches(dir) {
            let above = pattern.len() < dir.len() && self.same(&dir[..pattern.len()], pattern);
            return if above { Reach::Whole } else { Reach::Matched };
        }
        if self.icase && !dir.starts_with(&pattern[..self.prefix]) {
            return Reach::None;
        }
        let named = dir.len() < pattern.len()
            && pattern[dir.len() - 1] == b'/'
            && self.same(&pattern[..dir.len()], dir);
        // The part before the first wildcard has to match completely. Wildcards are not compared
        // with prefixes of a path.
        let wild = self.literal < pattern.len() && {
            dir.len() >= self.literal && self.same(&pattern[..self.literal], &dir[..self.literal])
        };
        // A directory without the required attributes is not entered, even if files in it have
        // them.
        if (named || wild) && self.has_attributes(dir) { Reach::Below } else { Reach::None }
    }
}

/// Makes `spec` relative to the root of the worktree and resolves `.` and `..`. Returns `None` if
/// it is outside of the worktree. Keeps a trailing slash.
pub fn normalize(spec: &BStr, prefix: &BStr, root: &BStr) -> Option<BString> {
    let mut path = BString::default();
    let spec: &[u8] = match spec.strip_prefix(b"/") {
        None => {
            path.push_str(prefix);
            spec
        }
        Some(_) => match spec.strip_prefix(root.as_bytes())? {
            b"" => b"",
            below if root.ends_with(b"/") => below,
            below => below.strip_prefix(b"/")?,
        },
    };
    path.push_str(spec);
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split_str("/") {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    let below = matches!(path.rsplit_str("/").next(), Some(b"" | b"." | b".."));
    let mut joined: BString = parts.join(&b'/').into();
    if below && !joined.is_empty() {
        joined.push(b'/');
    }
    Some(joined)
}
