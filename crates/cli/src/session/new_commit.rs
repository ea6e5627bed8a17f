//! A new commit: its content, and writing its object.

use bstr::{BStr, BString, ByteSlice as _};
use engine::add::{self, RecordError, WriteTreeError};
use format::{HashKind, ObjectId, loose::Kind};
use repo::{CommitHeader, GivenIdentity, IdentityError, Person, Repository, Who};
use store::objects::Transaction;

use crate::{
    session::{Session, sign},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

const NOT_UTF8: &str = "\
Warning: commit message did not conform to UTF-8.
You may want to amend it after fixing the message, or set the config
variable i18n.commitEncoding to the encoding your project uses.";

const UNKNOWN: &str = "
*** Please tell me who you are.

Run

  git config --global user.email \"you@example.com\"
  git config --global user.name \"Your Name\"

to set your account's default identity.
Omit --global to set the identity only in this repository.
";

/// The parts of a commit.
pub(crate) struct NewCommit<'a> {
    pub(crate) tree: ObjectId,
    pub(crate) parents: Vec<ObjectId>,
    /// `Name <mail> <seconds> <zone>`
    pub(crate) author: BString,
    pub(crate) committer: BString,
    /// Headers in addition to those that every commit has.
    pub(crate) extra: Vec<CommitHeader>,
    pub(crate) message: &'a BStr,
    /// The key to sign the commit with; empty for the configured one; `None` for no signature.
    pub(crate) key: Option<&'a BStr>,
}

impl NewCommit<'_> {
    /// Returns the content of the object. A text that is not UTF-8, though it should be, is read as
    /// Latin-1, with a warning.
    pub(crate) fn content(&self, repo: &Repository) -> Result<BString, Failure> {
        if self.message.contains(&0) {
            console::error("a NUL byte in commit log message not allowed.");
            return Err(Failure::Reported(1));
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
            console::eprint_line(NOT_UTF8);
            content = made;
        }
        Ok(content)
    }

    /// Writes the object.
    pub(crate) fn write(
        &self,
        session: Session<'_>,
        transaction: &Transaction<'_>,
    ) -> Result<ObjectId, Failure> {
        let mut content = self.content(session.repository)?;
        if self.key.is_some() {
            let signature = sign::sign(session.invocation, session.repository, &content, self.key)?;
            add_signature(&mut content, &signature, session.repository.hash());
        }
        record(session.repository, transaction, Kind::Commit, &content)
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
            match is_valid(letter) {
                true => made.extend_from_slice(bytes),
                false => {
                    is_whole = false;
                    bytes.iter().for_each(|&byte| latin(byte, &mut made));
                }
            }
        }
        is_whole &= chunk.invalid().is_empty();
        chunk.invalid().iter().for_each(|&byte| latin(byte, &mut made));
    }
    (!is_whole).then(|| made.into())
}

/// Computes an object's name, and stages the object unless it exists.
pub(crate) fn record(
    repo: &Repository,
    transaction: &Transaction<'_>,
    kind: Kind,
    content: &[u8],
) -> Result<ObjectId, Failure> {
    add::record(repo, transaction, kind, content).map_err(|error| match error {
        RecordError::Collision => Failure::fatal(error.to_string()),
        RecordError::Store(error) => error.into(),
    })
}

/// Returns the author or committer. The error explains how to configure one, as Git does.
pub(crate) fn person(repo: &Repository, who: Who, given: GivenIdentity) -> Result<Person, Failure> {
    repo.person(who, given).map_err(|error: IdentityError| {
        if let Some(who) = error.unknown {
            let whose = match who {
                Who::Author => "Author",
                Who::Committer => "Committer",
            };
            console::eprint_line(format!("{whose} identity unknown\n{UNKNOWN}"));
        }
        Failure::fatal(error.to_string())
    })
}

/// Prints why no tree can be written from an index. The caller adds the final message.
pub(crate) fn report_tree_error(error: &WriteTreeError) {
    const SHOWN: usize = 10;
    let print = |lines: Vec<BString>| {
        lines.iter().take(SHOWN).for_each(console::eprint_line);
        if lines.len() > SHOWN {
            console::eprint_line("...");
        }
    };
    match error {
        WriteTreeError::Unmerged(paths) => {
            let line = |(path, oid): &(BString, ObjectId)| text!(path, ": unmerged (", oid.to_string(), ")");
            print(paths.iter().map(line).collect());
        }
        WriteTreeError::Both(pairs) => {
            let line = |(one, other): &(BString, BString)| text!("You have both ", one, " and ", other);
            print(pairs.iter().map(line).collect());
        }
        other => console::error(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_no_utf8_for_latin() {
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
