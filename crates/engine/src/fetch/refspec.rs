//! Refspecs of a fetch: `[+]<source>[:<destination>]`, and `^<source>` to exclude refs.
//!
//! Source: git-fetch(1), `<refspec>`.

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind, ObjectId,
    refname::{self, Levels},
};

/// The effect of a refspec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Refs are fetched.
    Plain,
    /// `+`: updates that are not fast-forwards are made too.
    Forced,
    /// `^`: refs are excluded.
    Negative,
}

/// A refspec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refspec {
    /// The effect.
    pub kind: Kind,
    /// The ref on the remote, or its abbreviation. Empty means HEAD.
    pub source: BString,
    /// The local ref. It may be empty.
    pub destination: Option<BString>,
    /// True if both sides contain one `*`.
    pub is_pattern: bool,
    /// The object, if `source` is a full object name.
    pub object: Option<ObjectId>,
}

/// A text that is not a valid refspec. The message is Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid refspec '{0}'")]
pub struct Invalid(pub BString);

/// The rules for expanding an abbreviated ref name, in order of precedence: the prefix and the
/// suffix.
pub const MEANINGS: [(&str, &str); 6] = [
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// Returns the rank of the rule that expands `short` to `full`, or `None` if there is no such rule.
pub fn rank(short: &BStr, full: &BStr) -> Option<usize> {
    MEANINGS.iter().position(|(before, after)| {
        let rest = full.strip_prefix(before.as_bytes()).and_then(|rest| rest.strip_suffix(after.as_bytes()));
        rest == Some(short.as_bytes())
    })
}

/// Returns true for a valid ref name of one or more components. In a pattern, `*` may occur once.
fn is_name(name: &BStr, is_pattern: bool) -> bool {
    match (is_pattern, name.find_byte(b'*')) {
        (true, Some(at)) => {
            let mut plain = name.to_owned();
            plain[at] = b'x';
            refname::check(plain.as_bstr(), Levels::One).is_ok()
        }
        _ => refname::check(name, Levels::One).is_ok(),
    }
}

impl Refspec {
    /// Parses a refspec of a fetch.
    pub fn parse(text: &BStr, hash: HashKind) -> Result<Refspec, Invalid> {
        Refspec::of(text, hash).ok_or_else(|| Invalid(text.to_owned()))
    }

    fn of(text: &BStr, hash: HashKind) -> Option<Refspec> {
        let (kind, rest) = match text.first() {
            Some(b'+') => (Kind::Forced, &text[1..]),
            Some(b'^') => (Kind::Negative, &text[1..]),
            _ => (Kind::Plain, text),
        };
        let (source, destination) = match rest.rfind_byte(b':') {
            Some(at) => (rest[..at].as_bstr(), Some(rest[at + 1..].as_bstr())),
            None => (rest.as_bstr(), None),
        };
        let has_star = |name: &BStr| name.contains(&b'*');
        let is_pattern = has_star(source);
        if destination.is_some_and(|name| has_star(name) != is_pattern) {
            return None;
        }
        if destination.is_none() && is_pattern && kind != Kind::Negative {
            return None;
        }
        let source = if source == "@" { BStr::new("HEAD") } else { source };
        let object = if is_pattern { None } else { ObjectId::from_hex(hash, source) };
        if kind == Kind::Negative {
            let is_ref = !source.is_empty() && object.is_none() && is_name(source, is_pattern);
            if destination.is_some() || !is_ref {
                return None;
            }
        } else {
            let is_source = source.is_empty() || object.is_some() || is_name(source, is_pattern);
            let is_target = destination.is_none_or(|name| name.is_empty() || is_name(name, is_pattern));
            if !is_source || !is_target {
                return None;
            }
        }
        let (source, destination) = (source.to_owned(), destination.map(BStr::to_owned));
        Some(Refspec { kind, source, destination, is_pattern, object })
    }

    /// Returns an error for a text that is not a refspec of a push: `[+]<source>[:<destination>]`,
    /// `:`, or `^<source>`.
    pub fn check_for_push(text: &BStr, hash: HashKind) -> Result<(), Invalid> {
        Refspec::is_for_push(text, hash).then_some(()).ok_or_else(|| Invalid(text.to_owned()))
    }

    fn is_for_push(text: &BStr, hash: HashKind) -> bool {
        if text.starts_with(b"^") {
            return Refspec::of(text, hash).is_some();
        }
        let rest = text.strip_prefix(b"+").unwrap_or(text);
        if rest == b":" {
            return true;
        }
        let (source, destination) = match rest.rfind_byte(b':') {
            Some(at) => (rest[..at].as_bstr(), Some(rest[at + 1..].as_bstr())),
            None => (rest.as_bstr(), None),
        };
        let is_pattern = source.contains(&b'*');
        let source = if source == "@" { BStr::new("HEAD") } else { source };
        match destination {
            // The source may be any revision expression.
            Some(name) => {
                name.contains(&b'*') == is_pattern
                    && (!is_pattern || is_name(source, true))
                    && is_name(name, is_pattern)
            }
            None => is_name(source, is_pattern),
        }
    }

    /// Returns the refspec for all tags.
    pub fn all_tags() -> Refspec {
        Refspec {
            kind: Kind::Plain,
            source: "refs/tags/*".into(),
            destination: Some("refs/tags/*".into()),
            is_pattern: true,
            object: None,
        }
    }

    /// Returns the destination, if there is one.
    pub fn target(&self) -> Option<&BStr> {
        self.destination.as_ref().map(|name| name.as_bstr()).filter(|name| !name.is_empty())
    }

    /// Adds the prefixes of the refs that this refspec needs from the server.
    pub fn add_prefixes(&self, prefixes: &mut Vec<BString>) {
        if self.kind == Kind::Negative || self.object.is_some() {
            return;
        }
        if let Some(at) = self.source.find_byte(b'*').filter(|_| self.is_pattern) {
            prefixes.push(self.source[..at].into());
            return;
        }
        let source = if self.source.is_empty() { b"HEAD" } else { self.source.as_slice() };
        let meanings = MEANINGS.iter().map(|(before, after)| [before.as_bytes(), source, after.as_bytes()]);
        prefixes.extend(meanings.map(|parts| BString::from(parts.concat())));
    }

    /// Returns the local name of the remote ref `name`, if the pattern matches it.
    pub fn map_pattern(&self, name: &BStr) -> Option<BString> {
        replace_star(self.source.as_bstr(), self.destination.as_ref()?.as_bstr(), name)
    }

    /// Returns the name of the remote ref that maps to a local ref, if the destination matches.
    pub fn map_back(&self, local: &BStr) -> Option<BString> {
        let target = self.target()?;
        if self.is_pattern {
            replace_star(target, self.source.as_bstr(), local)
        } else {
            (target == local).then(|| self.source.clone())
        }
    }

    /// Returns true if this is a negative refspec that excludes the remote ref `name`.
    pub fn omits(&self, name: &BStr) -> bool {
        match (self.kind, self.is_pattern) {
            (Kind::Negative, true) => star(self.source.as_bstr(), name).is_some(),
            (Kind::Negative, false) => self.source == name,
            _ => false,
        }
    }
}

/// Returns the part of `name` that the `*` of a pattern matches.
fn star<'n>(pattern: &BStr, name: &'n BStr) -> Option<&'n [u8]> {
    let at = pattern.find_byte(b'*')?;
    let (before, after) = (&pattern[..at], &pattern[at + 1..]);
    if name.len() < before.len() + after.len() {
        return None;
    }
    (name.starts_with(before) && name.ends_with(after))
        .then(|| &name.as_bytes()[before.len()..name.len() - after.len()])
}

fn replace_star(pattern: &BStr, into: &BStr, name: &BStr) -> Option<BString> {
    let found = star(pattern, name)?;
    let at = into.find_byte(b'*')?;
    Some([&into[..at], found, &into[at + 1..]].concat().into())
}

/// Moves the destinations of refspecs below `refs/prefetch/`. Negative refspecs stay. Refspecs of
/// tags and refspecs without a destination are dropped. Source: git-fetch(1), `--prefetch`.
pub fn for_prefetch(refspecs: Vec<Refspec>) -> Vec<Refspec> {
    let moved = |refspec: Refspec| {
        if refspec.kind == Kind::Negative {
            return Some(refspec);
        }
        let target = refspec.target()?;
        if refspec.source.starts_with(b"refs/tags/") {
            return None;
        }
        let rest = target.strip_prefix(b"refs/").unwrap_or(target);
        let destination = Some([b"refs/prefetch/", rest].concat().into());
        Some(Refspec { kind: Kind::Forced, destination, ..refspec })
    };
    refspecs.into_iter().filter_map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Refspec> {
        Refspec::parse(text.into(), HashKind::Sha1).ok()
    }

    #[test]
    fn parses_what_git_parses() {
        for good in [
            "",
            ":",
            "+",
            "main",
            "@",
            "main:",
            ":x",
            "+a:b",
            "refs/heads/*:refs/x/*",
            "^refs/heads/x",
            "^x*",
            "a*b:refs/c*d",
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904:x",
            "@:y",
        ] {
            assert!(parse(good).is_some(), "{good}");
        }
        for bad in [
            "*",
            "a*",
            "a*:b",
            "a:b*",
            "a**:b*",
            "^",
            "^a:b",
            "^4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            "a b",
            "a..b",
            "a:b c",
            "refs/heads/*:refs/*/*",
            "a.lock",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        assert_eq!(parse("@").expect("valid").source, "HEAD");
    }

    #[test]
    fn checks_refspecs_of_a_push() {
        let is_good = |text: &str| Refspec::check_for_push(text.into(), HashKind::Sha1).is_ok();
        for good in [":", "+:", "a~1:b", "@", "x*", ":gone", "^a", "a/*:b/*"] {
            assert!(is_good(good), "{good}");
        }
        for bad in ["", "::", "a/*:b", "a:b/*", "a:", "a b", ":a b", "^a:b"] {
            assert!(!is_good(bad), "{bad}");
        }
    }

    #[test]
    fn maps_names_both_ways() {
        let heads = parse("+refs/heads/*:refs/remotes/o/*").expect("valid");
        assert_eq!(heads.map_pattern("refs/heads/a/b".into()), Some("refs/remotes/o/a/b".into()));
        assert_eq!(heads.map_pattern("refs/tags/a".into()), None);
        assert_eq!(heads.map_back("refs/remotes/o/x".into()), Some("refs/heads/x".into()));
        let part = parse("refs/heads/a*b:refs/c*").expect("valid");
        assert_eq!(part.map_pattern("refs/heads/a1b".into()), Some("refs/c1".into()));
        assert_eq!(part.map_pattern("refs/heads/ab".into()), Some("refs/c".into()));
        assert_eq!(part.map_pattern("refs/heads/a".into()), None);
        assert!(parse("^refs/heads/x*").expect("valid").omits("refs/heads/xy".into()));
        assert!(!parse("^refs/heads/x").expect("valid").omits("refs/heads/xy".into()));
    }

    #[test]
    fn ranks_abbreviations() {
        assert_eq!(rank("main".into(), "refs/heads/main".into()), Some(3));
        assert_eq!(rank("v1".into(), "refs/tags/v1".into()), Some(2));
        assert_eq!(rank("origin".into(), "refs/remotes/origin/HEAD".into()), Some(5));
        assert_eq!(rank("x".into(), "refs/notes/x".into()), None);
    }

    #[test]
    fn moves_refspecs_for_a_prefetch() {
        let all = ["+refs/heads/*:refs/remotes/o/*", "refs/tags/*:refs/tags/*", "main", "^refs/heads/x"];
        let moved = for_prefetch(all.iter().map(|text| parse(text).expect("valid")).collect());
        let targets: Vec<_> = moved.iter().map(|refspec| refspec.target().map(BStr::to_owned)).collect();
        assert_eq!(targets, [Some("refs/prefetch/remotes/o/*".into()), None]);
    }
}
