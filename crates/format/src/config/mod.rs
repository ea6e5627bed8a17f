//! Reads configuration files, parses their values, and edits them and preserves the rest of their
//! content.
//!
//! Source: `git-config(1)`, "Syntax". Bytes outside an edit stay unchanged, including comments and
//! odd formatting. The edit writes the same text at the same place as `git config`: it replaces a
//! value where it stands, adds a new value after the last one of its section, and adds a new
//! section at the end.
//!
//! Another crate follows includes and knows scopes.

mod read;
mod rewrite;
mod scan;
mod section;
mod value;

use bstr::{BStr, BString, ByteSlice};

pub use read::{BadLine, Pair, parse, parse_leading};
pub use rewrite::change;
pub use section::{SectionError, rename_section};
pub use value::{parse_bool, parse_int, parse_size, parse_unsigned};

/// One change. Keys have the form `section.name` or `section.subsection.name`. Section and name are
/// compared without case, and written as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Set the key's only value.
    Set {
        /// The key.
        key: BString,
        /// The value, unquoted.
        value: BString,
    },
    /// Add one more value to the key.
    Add {
        /// The key.
        key: BString,
        /// The value, unquoted.
        value: BString,
    },
    /// Remove all values of the key. Also remove a section that becomes empty, unless a comment may
    /// refer to it.
    Unset {
        /// The key.
        key: BString,
    },
}

impl Edit {
    /// Returns the key.
    pub fn key(&self) -> &BStr {
        let (Edit::Set { key, .. } | Edit::Add { key, .. } | Edit::Unset { key }) = self;
        key.as_ref()
    }
}

/// A change of the entries of one key, in all its forms.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The key, as it is written into the file.
    pub key: &'a BStr,
    /// The new value. `None` removes entries, and a section that becomes empty with them.
    pub value: Option<&'a BStr>,
    /// Text to write after the value: a blank and `#` come first.
    pub comment: Option<&'a BStr>,
    /// True if several selected entries become one, or are all removed. Otherwise they are an
    /// error.
    pub all: bool,
}

/// The reason why nothing was changed. The messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("key does not contain a section: {0}")]
    NoSection(BString),
    #[error("key does not contain variable name: {0}")]
    NoName(BString),
    #[error("invalid key: {0}")]
    InvalidKey(BString),
    #[error("invalid key (newline): {0}")]
    Newline(BString),
    /// The caller adds the file: `bad config line <n> in file <file>`.
    #[error("bad config line {line}")]
    Syntax { line: usize },
    #[error("cannot overwrite multiple values with a single value: {key}")]
    Multiple { key: BString },
    /// There is no entry to remove.
    #[error("nothing to remove")]
    Nothing,
}

/// Applies `edits` in order and returns the new content.
pub fn edit(content: &[u8], edits: &[Edit]) -> Result<Vec<u8>, Error> {
    edits.iter().try_fold(content.to_vec(), |content, edit| edit_once(&content, edit))
}

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The text before the first dot.
    pub section: &'a BStr,
    /// The text between the first and the last dot: any bytes but newline and NUL.
    pub subsection: Option<&'a BStr>,
    /// The text after the last dot.
    pub name: &'a BStr,
}

impl<'a> Key<'a> {
    /// Parses `section.name` or `section.subsection.name`.
    pub fn parse(key: &'a [u8]) -> Result<Key<'a>, Error> {
        let whole = || BString::from(key);
        let first = key.find_byte(b'.').filter(|at| *at > 0).ok_or_else(|| Error::NoSection(whole()))?;
        let last = key.rfind_byte(b'.').ok_or_else(|| Error::NoSection(whole()))?;
        let (section, name) = (&key[..first], &key[last + 1..]);
        if name.is_empty() {
            return Err(Error::NoName(whole()));
        }
        let subsection = (first < last).then(|| key[first + 1..last].as_bstr());
        let plain = |part: &[u8]| part.iter().all(|&byte| is_name_byte(byte));
        let newline = subsection.is_some_and(|subsection| subsection.find_byteset(b"\n\0").is_some());
        if !plain(section) || !newline && (!plain(name) || !name[0].is_ascii_alphabetic()) {
            return Err(Error::InvalidKey(whole()));
        }
        if newline {
            return Err(Error::Newline(whole()));
        }
        Ok(Key { section: section.as_bstr(), subsection, name: name.as_bstr() })
    }
}

/// Changes section and variable of a key to lower case, and keeps the subsection.
pub fn normalize(key: &mut [u8]) {
    let first = key.find_byte(b'.').unwrap_or(key.len());
    let last = key.rfind_byte(b'.').unwrap_or(key.len());
    key[..first].make_ascii_lowercase();
    key[last..].make_ascii_lowercase();
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn edit_once(content: &[u8], edit: &Edit) -> Result<Vec<u8>, Error> {
    let of = |key, value, all| Change { key, value, comment: None, all };
    match edit {
        Edit::Set { key, value } => {
            change(content, &of(key.as_bstr(), Some(value.as_bstr()), false), &|_| true)
        }
        Edit::Add { key, value } => {
            change(content, &of(key.as_bstr(), Some(value.as_bstr()), false), &|_| false)
        }
        Edit::Unset { key } => match change(content, &of(key.as_bstr(), None, true), &|_| true) {
            Err(Error::Nothing) => Ok(content.to_vec()),
            result => result,
        },
    }
}

#[cfg(test)]
mod tests;
