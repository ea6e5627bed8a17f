//! Patterns of ignore, sparse and attribute files: [`wildmatch`](crate::wildmatch) relative to a
//! directory. Source: gitignore(5).

use bstr::{BStr, BString, ByteSlice as _};

use crate::wildmatch::{Mode, literal_length, wildmatch};

/// A pattern without the `!` of an ignore rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The pattern as written, without a trailing slash.
    text: BString,
    /// The number of leading bytes that are not compared: a slash, or the star of a suffix.
    skipped: u8,
    /// True if the pattern ends in a slash, so that only directories match.
    directory: bool,
    /// True if the pattern has no slash, so that it is compared with the last component of a path.
    is_name: bool,
    shape: Shape,
}

/// The comparison method for the text. Most patterns need no wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Literal,
    /// `*` followed by a literal.
    Suffix,
    Wild,
}

impl Pattern {
    /// Parses a pattern.
    pub fn new(pattern: &[u8]) -> Pattern {
        let (text, directory) = match pattern.strip_suffix(b"/") {
            Some(text) => (text, true),
            None => (pattern, false),
        };
        let is_name = !text.contains(&b'/');
        // A leading slash only marks the pattern as a path.
        let compared = text.strip_prefix(b"/").unwrap_or(text);
        let is_literal = |text: &[u8]| literal_length(text) == text.len();
        let (shape, compared) = match compared.strip_prefix(b"*") {
            _ if is_literal(compared) => (Shape::Literal, compared),
            Some(suffix) if is_name && is_literal(suffix) => (Shape::Suffix, suffix),
            _ => (Shape::Wild, compared),
        };
        let skipped = (text.len() - compared.len()) as u8;
        Pattern { text: text.into(), skipped, directory, is_name, shape }
    }

    /// Returns the pattern as written, without a trailing slash.
    pub fn text(&self) -> &BStr {
        self.text.as_bstr()
    }

    /// Returns true if only directories match.
    pub fn is_for_directories(&self) -> bool {
        self.directory
    }

    /// Returns true if a path matches. The caller checks [`Pattern::is_for_directories`]. `path` is
    /// relative to the directory of the pattern's file and has no trailing slash; `name` is its
    /// last component.
    pub fn matches(&self, path: &[u8], name: &[u8], icase: bool) -> bool {
        let text = if self.is_name { name } else { path };
        let pattern = &self.text[usize::from(self.skipped)..];
        let is_same = |text: &[u8]| if icase { pattern.eq_ignore_ascii_case(text) } else { pattern == text };
        match self.shape {
            // The empty path is the directory of the pattern's file. As in Git, it matches no
            // pattern.
            _ if !self.is_name && path.is_empty() => false,
            Shape::Literal => is_same(text),
            Shape::Suffix => text.len() >= pattern.len() && is_same(&text[text.len() - pattern.len()..]),
            Shape::Wild => wildmatch(pattern, text, Mode { pathname: !self.is_name, icase }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_names_paths_and_directories() {
        for (pattern, path, expected) in [
            ("*.c", "a/b.c", true),
            ("*.c", "a/b.cc", false),
            ("b.c", "a/b.c", true),
            ("/b.c", "a/b.c", false),
            ("/b.c", "b.c", true),
            ("a/*.c", "a/b.c", true),
            ("a/*.c", "a/x/b.c", false),
            ("a/**", "a/x/b.c", true),
            ("**/b.c", "b.c", true),
            ("*", "a/b.c", true),
            ("[ab]*", "b", true),
            ("a/", "x/a", true),
            ("a/b/", "x/a/b", false),
            ("/", "x", false),
            ("/**", "", false),
            ("**", "", true),
        ] {
            let name = path.rsplit('/').next().expect("never empty");
            let parsed = Pattern::new(pattern.as_bytes());
            assert_eq!(parsed.is_for_directories(), pattern.ends_with('/'));
            assert_eq!(parsed.matches(path.as_bytes(), name.as_bytes(), false), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn case_is_folded_on_demand() {
        let pattern = Pattern::new(b"*.TXT");
        assert!(pattern.matches(b"a.txt", b"a.txt", true));
        assert!(!pattern.matches(b"a.txt", b"a.txt", false));
    }
}
