//! A new commit: its content, and writing its object.

use bstr::{BStr, BString, ByteSlice as _};
use engine::add::{self, RecordError};
use format::{HashKind, ObjectId, loose::Kind};
use repo::{CommitHeader, Repository};
use store::objects::ObjectTransaction;

use crate::{Error, context::Context, notice::Notice, sign, text};

/// The parts of a commit.
pub struct NewCommit<'a> {
    /// The tree.
    pub tree: ObjectId,
    /// The parents, in order.
    pub parents: Vec<ObjectId>,
    /// `Name <mail> <seconds> <zone>`
    pub author: BString,
    /// Like `author`.
    pub committer: BString,
    /// Headers in addition to those that every commit has.
    pub extra: Vec<CommitHeader>,
    /// The message.
    pub message: &'a BStr,
    /// The key to sign the commit with; empty for the configured one; `None` for no signature.
    pub key: Option<&'a BStr>,
}

impl NewCommit<'_> {
    /// Returns the content of the object. A text that is not UTF-8, though it should be, is read as
    /// Latin-1, with a warning.
    pub fn content(&self, context: Context<'_>) -> Result<BString, Error> {
        let repo = context.repo;
        if self.message.contains(&0) {
            return Err(Error::NulInMessage);
        }
        let mut content = text!("tree ", self.tree.to_string(), "\n");
        for parent in &self.parents {
            content.extend_from_slice(format!("parent {parent}\n").as_bytes());
        }
        content.extend_from_slice(&text!("author ", self.author, "\ncommitter ", self.committer, "\n"));
        let encoding = repo.commit_encoding();
        let is_utf8 = repo::is_same_encoding(encoding.as_bstr(), "UTF-8".into());
        if !is_utf8 {
            content.extend_from_slice(&text!("encoding ", encoding, "\n"));
        }
        self.extra.iter().for_each(|header| push_header(&mut content, header));
        content.push(b'\n');
        content.extend_from_slice(self.message);
        if is_utf8 && let Some(made) = as_utf8(&content) {
            context.events.notice(Notice::NotUtf8);
            content = made;
        }
        Ok(content)
    }

    /// Writes the object.
    pub fn write(
        &self,
        context: Context<'_>,
        transaction: &ObjectTransaction<'_>,
    ) -> Result<ObjectId, Error> {
        let mut content = self.content(context)?;
        if self.key.is_some() {
            let signature = sign::sign(context, &content, self.key)?;
            add_signature(&mut content, &signature, context.repo.hash());
        }
        record(context.repo, transaction, Kind::Commit, &content)
    }
}

/// Inserts a signature after the other headers.
fn add_signature(content: &mut BString, signature: &[u8], hash: HashKind) {
    let key = match hash {
        HashKind::Sha1 => "gpgsig",
        HashKind::Sha256 => "gpgsig-sha256",
    };
    let end = content.find("\n\n").map_or(content.len(), |at| at + 1);
    let rest = content.split_off(end);
    push_header(content, &CommitHeader { key: key.into(), value: signature.into() });
    content.extend(rest);
}

fn push_header(content: &mut BString, header: &CommitHeader) {
    content.extend_from_slice(&header.key);
    if header.value.is_empty() {
        content.push(b'\n');
        return;
    }
    // A carriage return at the end of a line is part of the value.
    for line in header.value.lines_with_terminator() {
        content.push(b' ');
        content.extend_from_slice(line);
    }
    if header.value.last() != Some(&b'\n') {
        content.push(b'\n');
    }
}

/// Returns `text` as UTF-8, or `None` if it is UTF-8 already. Bytes outside UTF-8 characters are
/// read as Latin-1.
fn as_utf8(text: &BString) -> Option<BString> {
    // Unicode guarantees that these code points are never assigned.
    let is_valid = |letter: char| {
        let code = u32::from(letter);
        code & 0xfffe != 0xfffe && !(0xfdd0..=0xfdef).contains(&code)
    };
    let mut made = Vec::with_capacity(text.len());
    let mut is_whole = true;
    let latin = |byte: u8, made: &mut Vec<u8>| made.extend([0xc0 + (byte >> 6), 0x80 + (byte & 0x3f)]);
    for chunk in text.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let mut room = [0; 4];
            let bytes = letter.encode_utf8(&mut room).as_bytes();
            if is_valid(letter) {
                made.extend_from_slice(bytes)
            } else {
                is_whole = false;
                bytes.iter().for_each(|&byte| latin(byte, &mut made));
            }
        }
        is_whole &= chunk.invalid().is_empty();
        chunk.invalid().iter().for_each(|&byte| latin(byte, &mut made));
    }
    (!is_whole).then(|| made.into())
}

/// Computes an object's name, and stages the object unless it exists.
pub fn record(
    repo: &Repository,
    transaction: &ObjectTransaction<'_>,
    kind: Kind,
    content: &[u8],
) -> Result<ObjectId, Error> {
    add::record(repo, transaction, kind, content).map_err(|error| match error {
        RecordError::Collision => Error::Failed(error.to_string().into()),
        RecordError::Store(error) => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_bytes_outside_utf8_as_latin1() {
        assert_eq!(as_utf8(&"h\u{e9}".into()), None);
        assert_eq!(as_utf8(&b"h\xe9llo"[..].into()), Some("h\u{e9}llo".into()));
        // U+FFFE, a code point that is never assigned.
        assert_eq!(as_utf8(&b"\xef\xbf\xbe"[..].into()), Some("\u{ef}\u{bf}\u{be}".into()));
        assert_eq!(as_utf8(&b"\xed\xa0\x80"[..].into()), Some("\u{ed}\u{a0}\u{80}".into()));
    }

    #[test]
    fn folds_headers() {
        let mut content = BString::default();
        let mut push = |key: &str, value: &str| {
            push_header(&mut content, &CommitHeader { key: key.into(), value: value.into() });
        };
        push("mergetag", "object 1\n\ntext\r\n\r\n");
        push("last", "no end");
        push("empty", "");
        assert_eq!(content, "mergetag object 1\n \n text\r\n \r\nlast no end\nempty\n");
    }
}
