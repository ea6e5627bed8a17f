//! Commits as text, for commands that derive one commit from another.

use bstr::{BStr, BString, ByteSlice};
use format::{ObjectId, keys};
use objects::Kind;

use crate::{Error, ObjectError, Repository, convert::encoding};

/// A header of a commit. Its continuation lines have lost their leading blanks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitHeader {
    /// The first word.
    pub key: BString,
    /// The rest. It ends with a line end unless it is empty.
    pub value: BString,
}

/// A commit as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitText {
    /// The commit.
    pub id: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// Its parents. A commit at the boundary of a shallow clone has none.
    pub parents: Vec<ObjectId>,
    /// All headers.
    pub headers: Vec<CommitHeader>,
    /// The text after the headers, in the encoding of the commit.
    pub message: BString,
}

impl CommitText {
    /// Returns the first header of this name, without its line end.
    pub fn header(&self, key: &str) -> Option<&BStr> {
        let found = self.headers.iter().find(|header| header.key == key)?;
        Some(found.value.strip_suffix(b"\n").unwrap_or(&found.value).as_bstr())
    }

    /// Returns the encoding of the message and the headers.
    pub fn encoding(&self) -> &BStr {
        self.header("encoding").unwrap_or("UTF-8".into())
    }

    /// Converts text of the commit to the encoding `to`. Returns it unchanged if the conversion
    /// fails.
    pub fn recode(&self, text: &BStr, to: &BStr) -> BString {
        encoding::recode(self.encoding(), to, text.to_owned())
    }
}

/// Returns true if both names mean the same encoding.
pub fn is_same_encoding(one: &BStr, other: &BStr) -> bool {
    one.eq_ignore_ascii_case(other) || encoding::is_utf8(one) && encoding::is_utf8(other)
}

impl Repository {
    /// Reads a commit. An object of another type is an error.
    pub fn commit_text(&self, id: ObjectId) -> Result<CommitText, Error> {
        let (Kind::Commit, data) = self.read_object(&id)? else {
            return Err(ObjectError::NotACommit(id).into());
        };
        let read = self.read_commit(&id)?;
        let mut headers: Vec<CommitHeader> = Vec::new();
        for line in data.lines_with_terminator().take_while(|line| *line != b"\n") {
            match (line.strip_prefix(b" "), headers.last_mut()) {
                (Some(more), Some(header)) => header.value.extend_from_slice(more),
                _ => {
                    let (key, value) =
                        line.split_once_str(" ").unwrap_or((format::blank::trim_end(line), b""));
                    headers.push(CommitHeader { key: key.into(), value: value.into() });
                }
            }
        }
        Ok(CommitText { id, tree: read.tree, parents: read.parents, headers, message: read.message })
    }

    /// Returns the encoding of new commits (`i18n.commitEncoding`).
    pub fn commit_encoding(&self) -> BString {
        self.config_text(&keys::i18n::COMMIT_ENCODING)
    }

    /// Returns the encoding in which commits are shown (`i18n.logOutputEncoding`).
    pub fn output_encoding(&self) -> BString {
        self.config_str(&keys::i18n::LOG_OUTPUT_ENCODING).unwrap_or_else(|| self.commit_encoding())
    }
}
