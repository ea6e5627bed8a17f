//! Headers and messages of commits and tags.

use bstr::{BStr, ByteSlice as _};
use format::ObjectId;
use repo::objects::Kind;

use super::{
    Values,
    object::{Commit, Loaded},
};
use crate::{
    Error,
    for_each_ref::{field::TextField, quote::until_nul},
};

/// The lines that begin a signature.
const SIGNATURES: [&[u8]; 4] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
];

/// The parts of a message.
pub(super) struct Message<'a> {
    /// Everything after the headers and blank lines.
    pub(super) whole: &'a BStr,
    /// The lines before the first blank line.
    subject: &'a [u8],
    /// The text after the subject, with the signature.
    body: &'a [u8],
    /// The last signature, to the end.
    signature: &'a [u8],
}

impl Loaded {
    /// Returns the message of a commit or a tag.
    pub(super) fn message(&self) -> Option<Message<'_>> {
        if !matches!(self.kind, Kind::Commit | Kind::Tag) {
            return None;
        }
        let text = until_nul(&self.content);
        let start =
            if text.starts_with(b"\n") { 0 } else { text.find(b"\n\n").map_or(text.len(), |end| end + 1) };
        let whole = text[start..].trim_start_with(|letter| letter == '\n');
        Some(Message::split(whole.as_bstr()))
    }
}

impl<'a> Message<'a> {
    fn split(whole: &'a BStr) -> Message<'a> {
        let signature = signature_start(whole);
        let blank = whole.find(b"\n\n").or_else(|| whole.find(b"\r\n\r\n"));
        let end = blank.map_or(signature, |blank| blank.min(signature));
        let is_end = |letter: char| matches!(letter, '\n' | '\r');
        Message {
            whole,
            subject: whole[..end].trim_end_with(is_end),
            body: whole[end..].trim_start_with(is_end),
            signature: &whole[signature..],
        }
    }

    /// Returns the body without the signature.
    fn unsigned_body(&self) -> &'a [u8] {
        &self.body[..self.body.len().saturating_sub(self.signature.len())]
    }

    /// Returns the message without the signature.
    fn unsigned(&self) -> &'a [u8] {
        &self.whole.as_bytes()[..self.whole.len() - self.signature.len()]
    }
}

fn signature_start(message: &BStr) -> usize {
    let mut start = message.len();
    let mut at = 0;
    for line in message.lines_with_terminator() {
        if SIGNATURES.iter().any(|signature| line.starts_with(signature)) {
            start = at;
        }
        at += line.len();
    }
    start
}

impl Values<'_> {
    pub(super) fn append_text(
        &self,
        object: &Loaded,
        field: &TextField,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match field {
            TextField::Person(who, part) => return self.append_person(object, *who, part, out),
            TextField::Tree(_) | TextField::Parent(_) | TextField::NumParent => {
                return self.append_commit(object, field, out);
            }
            TextField::Object | TextField::Type | TextField::Tag => append_tag(object, field, out),
            _ => append_message(object, field, out),
        }
        Ok(())
    }

    /// Returns the parents of a commit; none at the boundary of a shallow clone.
    pub(super) fn parents<'c>(&self, id: ObjectId, commit: &'c Commit) -> &'c [ObjectId] {
        // An unreadable list of shallow commits is reported by the code that walks the history.
        match self.repo.is_shallow(&id) {
            Ok(true) => &[],
            _ => &commit.parents,
        }
    }

    fn append_commit(&self, object: &Loaded, field: &TextField, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(commit) = object.commit() else { return Ok(()) };
        let parents = self.parents(object.id, &commit);
        match field {
            TextField::Tree(form) => self.append_id(commit.tree, *form, out)?,
            TextField::Parent(form) => {
                for (number, parent) in parents.iter().enumerate() {
                    if number > 0 {
                        out.push(b' ');
                    }
                    self.append_id(*parent, *form, out)?;
                }
            }
            _ => out.extend_from_slice(parents.len().to_string().as_bytes()),
        }
        Ok(())
    }
}

fn append_tag(object: &Loaded, field: &TextField, out: &mut Vec<u8>) {
    let Some(tag) = object.tag() else { return };
    match field {
        TextField::Object => out.extend_from_slice(tag.target.id.to_string().as_bytes()),
        TextField::Type => out.extend_from_slice(tag.target.kind.name().as_bytes()),
        _ => out.extend_from_slice(tag.name),
    }
}

fn append_message(object: &Loaded, field: &TextField, out: &mut Vec<u8>) {
    let Some(message) = object.message() else { return };
    match field {
        TextField::Subject => append_subject(message.subject, out),
        TextField::SanitizedSubject => append_sanitized(message.subject, out),
        TextField::WholeBody => out.extend_from_slice(message.body),
        TextField::ContentsBody => out.extend_from_slice(message.unsigned_body()),
        TextField::ContentsSize => out.extend_from_slice(message.whole.len().to_string().as_bytes()),
        TextField::Signature => out.extend_from_slice(message.signature),
        TextField::Lines(count) => {
            let lines = message.unsigned().lines_with_terminator().take(*count);
            for (number, line) in lines.enumerate() {
                if number > 0 {
                    out.extend_from_slice(b"\n    ");
                }
                out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            }
        }
        _ => out.extend_from_slice(message.whole),
    }
}

/// Appends the lines of a subject as one line.
fn append_subject(subject: &[u8], out: &mut Vec<u8>) {
    for (at, byte) in subject.iter().enumerate() {
        match byte {
            b'\r' if subject.get(at + 1) == Some(&b'\n') => {}
            b'\n' => out.push(b' '),
            byte => out.push(*byte),
        }
    }
}

/// Appends a subject as a file name: letters, digits, dots and underscores are kept, and a dash
/// replaces the characters between them.
fn append_sanitized(subject: &[u8], out: &mut Vec<u8>) {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
    let start = out.len();
    let mut has_gap = false;
    let mut last = 0;
    for &byte in subject {
        if !is_kept(byte) {
            has_gap = true;
        } else if byte != b'.' || last != b'.' {
            if has_gap && out.len() > start {
                out.push(b'-');
            }
            has_gap = false;
            out.push(byte);
        }
        last = byte;
    }
    while out.len() > start && matches!(out.last(), Some(b'.' | b'-')) {
        out.pop();
    }
}
