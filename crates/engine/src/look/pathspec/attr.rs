//! The magic `attr:`: its requirements, Git's errors for it, and the source of attributes.
//!
//! Source: gitglossary(7), "attr".

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Index;
use repo::{
    Repository,
    attributes::{Attributes as Files, Source, Value},
};

use super::{Error, fail};

/// A required state of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    name: BString,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Set,
    Unset,
    Unspecified,
    Text(BString),
}

impl State {
    fn is(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (State::Set, Value::Set)
            | (State::Unset, Value::Unset)
            | (State::Unspecified, Value::Unspecified) => true,
            (State::Text(text), Value::Text(value)) => text == value,
            _ => false,
        }
    }
}

/// The attributes of paths. They come from the worktree, or from the index where the worktree has
/// no attribute file. In a bare repository only global attributes apply. Several threads may query
/// it.
pub struct Attributes {
    reader: Mutex<AttributeReader>,
    tell: fn(&BString),
}

struct AttributeReader {
    files: Files<Repository, Index>,
    reported: HashSet<BString>,
}

impl fmt::Debug for Attributes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Attributes")
    }
}

impl Attributes {
    /// Creates a source of attributes. `tell` gets Git's messages about invalid files, each once.
    /// The repository and the full index are owned, because they live as long as the pathspecs.
    pub fn new(repo: Repository, index: Index, tell: fn(&BString)) -> Result<Self, repo::Error> {
        let info = repo.display_common_file("info/attributes");
        let info = BString::from(info.as_os_str().as_encoded_bytes());
        let source = if repo.is_bare() { Source::Absent } else { Source::Worktree };
        let files = Files::new(repo, index, source, &[], info.as_bstr())?;
        Ok(Attributes { reader: Mutex::new(AttributeReader { files, reported: HashSet::new() }), tell })
    }

    fn hold(&self, path: &BStr, required: &[Requirement]) -> bool {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.files.look_up(path);
        for line in reader.files.take_messages() {
            if reader.reported.insert(line.clone()) {
                (self.tell)(&line);
            }
        }
        required.iter().all(|one| one.state.is(reader.files.value(one.name.as_bstr())))
    }
}

/// The attributes that a pathspec requires.
#[derive(Clone, Debug)]
pub(super) struct Attr {
    required: Arc<[Requirement]>,
    attributes: Option<Arc<Attributes>>,
}

impl Attr {
    pub(super) fn new(required: Vec<Requirement>, attributes: Option<Arc<Attributes>>) -> Self {
        Attr { required: required.into(), attributes }
    }

    /// Returns true if all requirements can be checked. `builtin_objectmode` is not read from
    /// attribute files.
    pub(super) fn can_be_checked(&self) -> bool {
        self.attributes.is_some() && !self.required.iter().any(|one| one.name == "builtin_objectmode")
    }

    /// Returns true if a path has the required attributes. A directory's own path has a slash at
    /// the end.
    pub(super) fn holds(&self, path: &BStr) -> bool {
        self.attributes.as_ref().is_some_and(|attributes| attributes.hold(path, &self.required))
    }
}

/// Returns the length of the first word of long magic: up to a comma or parenthesis without a
/// backslash before it.
pub(super) fn word_length(words: &[u8]) -> usize {
    let mut at = 0;
    while at < words.len() && !matches!(words[at], b',' | b')') {
        at += if words[at] == b'\\' && at + 1 < words.len() { 2 } else { 1 };
    }
    at
}

/// Parses the text after `attr:`.
pub(super) fn parse(requirements: &[u8]) -> Result<Vec<Requirement>, Error> {
    if requirements.is_empty() {
        return Err(fail(&[b"attr spec must not be empty"]));
    }
    let words = requirements.split_str(" ").filter(|word| !word.is_empty());
    words.map(parse_one).collect()
}

fn parse_one(word: &[u8]) -> Result<Requirement, Error> {
    let (name, state) = match word {
        [b'!', name @ ..] => (name, State::Unspecified),
        [b'-', name @ ..] => (name, State::Unset),
        _ => match word.split_once_str("=") {
            Some((name, value)) => (name, State::Text(unescape(value)?)),
            None => (word, State::Set),
        },
    };
    if repo::attributes::is_name(name) {
        Ok(Requirement { name: name.into(), state })
    } else {
        Err(fail(&[b"invalid attribute name ", name]))
    }
}

fn unescape(value: &[u8]) -> Result<BString, Error> {
    let mut unescaped = BString::default();
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'\\' => bytes.next().ok_or_else(|| {
                fail(&[b"Escape character '\\' not allowed as last character in attr value"])
            })?,
            byte => byte,
        };
        if !byte.is_ascii_alphanumeric() && !b",-_".contains(byte) {
            return Err(fail(&[b"cannot use '", &[*byte], b"' for value matching"]));
        }
        unescaped.push(*byte);
    }
    Ok(unescaped)
}
