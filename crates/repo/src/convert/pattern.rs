//! Patterns of attribute files, matched as gitignore(5) says for files.

use bstr::{BStr, BString, ByteSlice};
use gix::glob::{wildmatch, wildmatch::Mode};

/// A pattern, its kind decided once.
#[derive(Debug)]
pub(super) struct Pattern {
    text: BString,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// With a trailing slash: never a file.
    Directory,
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
    pub(super) fn new(text: &BStr) -> Pattern {
        if text.len() > 1 && text.ends_with(b"/") {
            return Pattern { text: text.to_owned(), kind: Kind::Directory };
        }
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
        Pattern { text: text.to_owned(), kind }
    }

    /// `below` is the path from the attribute file's directory on, `name` its last component.
    pub(super) fn matches(&self, below: &[u8], name: &[u8], fold_case: bool) -> bool {
        let (text, shape, mut mode) = match &self.kind {
            Kind::Directory => return false,
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
    fn case_is_folded_on_demand() {
        let pattern = Pattern::new("*.TXT".into());
        assert!(pattern.matches(b"a.txt", b"a.txt", true));
        assert!(!pattern.matches(b"a.txt", b"a.txt", false));
    }
}
