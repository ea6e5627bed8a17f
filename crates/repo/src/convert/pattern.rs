//! Patterns of attribute files, matched as gitignore(5) says.

use bstr::{BStr, BString, ByteSlice};
use gix::glob::{wildmatch, wildmatch::Mode};

/// A pattern, its kind decided once.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: BString,
    kind: Kind,
    /// With a trailing slash: never a file.
    directory: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Without a slash: compared with the last component.
    Name(Shape),
    /// Compared with the path below the directory of the attribute file.
    Path(Shape),
}

/// What needs no full matching.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    Literal,
    /// `*` and a literal.
    Suffix,
    Wild,
}

impl Pattern {
    pub(crate) fn new(text: &BStr) -> Pattern {
        let (text, directory) = match text.strip_suffix(b"/") {
            Some(text) if !text.is_empty() => (text.as_bstr(), true),
            _ => (text, false),
        };
        let is_name = !text.contains(&b'/');
        // A leading slash only says that it is a path.
        let text = if is_name { text } else { text.strip_prefix(b"/").unwrap_or(text).as_bstr() };
        let is_literal = |text: &[u8]| !text.iter().any(|c| b"*?[\\".contains(c));
        let shape = match text.as_bytes() {
            text if is_literal(text) => Shape::Literal,
            [b'*', rest @ ..] if is_name && is_literal(rest) => Shape::Suffix,
            _ => Shape::Wild,
        };
        let kind = if is_name { Kind::Name(shape) } else { Kind::Path(shape) };
        Pattern { text: text.to_owned(), kind, directory }
    }

    /// Whether it matches a file: `below` is the path from the attribute file's directory on, `name` its last component.
    pub(crate) fn matches(&self, below: &[u8], name: &[u8], fold_case: bool) -> bool {
        !self.directory && self.matches_directory(below, name, fold_case)
    }

    /// The same of a directory, without a slash at its end.
    pub(crate) fn matches_directory(&self, below: &[u8], name: &[u8], fold_case: bool) -> bool {
        let (text, shape, mut mode) = match &self.kind {
            Kind::Name(shape) => (name, shape, Mode::empty()),
            Kind::Path(shape) => (below, shape, Mode::NO_MATCH_SLASH_LITERAL),
        };
        let equal = |a: &[u8], b: &[u8]| if fold_case { a.eq_ignore_ascii_case(b) } else { a == b };
        match shape {
            Shape::Literal => equal(&self.text, text),
            Shape::Suffix => {
                let suffix = &self.text[1..];
                text.len() >= suffix.len() && equal(suffix, &text[text.len() - suffix.len()..])
            }
            Shape::Wild => {
                mode.set(Mode::IGNORE_CASE, fold_case);
                wildmatch(self.text.as_bstr(), text.as_bstr(), mode)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_paths_and_directories() {
        for (pattern, path, expected) in [
            ("*.c", "a/b.c", true),
            ("*.c", "a/b.cc", false),
            ("b.c", "a/b.c", true),
            ("/b.c", "a/b.c", false),
            ("a/*.c", "a/b.c", true),
            ("a/*.c", "a/x/b.c", false),
            ("a/**", "a/x/b.c", true),
            ("**/b.c", "b.c", true),
            ("a/", "a/b.c", false),
            ("*", "a/b.c", true),
            ("[ab]*", "b", true),
        ] {
            let name = path.rsplit('/').next().expect("never empty");
            let matched = Pattern::new(pattern.into()).matches(path.as_bytes(), name.as_bytes(), false);
            assert_eq!(matched, expected, "{pattern} {path}");
        }
    }

    #[test]
    fn directories_alone() {
        let pattern = Pattern::new("a/".into());
        assert!(!pattern.matches(b"x/a", b"a", false) && pattern.matches_directory(b"x/a", b"a", false));
        assert!(!Pattern::new("a/b/".into()).matches_directory(b"x/a/b", b"b", false));
    }

    #[test]
    fn case_is_folded_on_demand() {
        let pattern = Pattern::new("*.TXT".into());
        assert!(pattern.matches(b"a.txt", b"a.txt", true));
        assert!(!pattern.matches(b"a.txt", b"a.txt", false));
    }
}
