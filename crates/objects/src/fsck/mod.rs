//! Checks the contents of objects, as `git fsck` and `git index-pack --strict` do.
//!
//! [`object`] is pure: bytes and [`Rules`] to [`Findings`]. [`Checker`] applies it to all objects
//! of an incoming pack. Messages and their order are Git's (`fsck.c`).

mod blob;
mod checker;
mod commit;
mod id;
mod parse;
mod rules;
mod tag;
mod tree;
mod url;

use std::collections::BTreeSet;

use bstr::BString;
use format::{Kind, ObjectId};

pub use checker::{Absent, Checker, Late, Refused};
pub use id::{Id, Severity};
pub use parse::links;
pub use rules::{Invalid, Rules};

/// The blobs that trees contain as `.gitmodules` and `.gitattributes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Blobs named `.gitmodules`, in any spelling that a file system may treat as this name.
    pub modules: BTreeSet<ObjectId>,
    /// Blobs named `.gitattributes`.
    pub attributes: BTreeSet<ObjectId>,
}

/// The roles of a blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// A tree contains it as `.gitmodules`.
    pub modules: bool,
    /// A tree contains it as `.gitattributes`.
    pub attributes: bool,
}

/// Limit for the bytes of messages about one object. Git prints all of them, but the messages about
/// a hostile object can have many times the size of the object.
const LONGEST: usize = 1 << 20;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// `error: ...`
    Error(BString),
    /// `warning: ...`
    Warning(BString),
}

impl Line {
    fn len(&self) -> usize {
        match self {
            Line::Error(text) | Line::Warning(text) => text.len(),
        }
    }
}

/// The flaws of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The messages, in Git's order.
    pub lines: Vec<Line>,
    /// True if the object is refused.
    pub is_refused: bool,
}

/// Checks an object. Entries of a tree are added to `files`. A blob is not checked: see [`blob()`].
pub fn object(rules: &Rules, oid: &ObjectId, kind: Kind, content: &[u8], files: &mut Files) -> Findings {
    let mut report = Report::new(rules, oid);
    let is_refused = match kind {
        Kind::Commit => commit::check(&mut report, content).is_err(),
        Kind::Tree => tree::check(&mut report, content, files),
        Kind::Tag => tag::check(&mut report, content).is_err(),
        Kind::Blob => false,
    };
    Findings { lines: report.lines, is_refused }
}

/// Checks a blob that trees use for `roles`. `content` is `None` if the blob is too large to keep
/// in memory.
pub fn blob(rules: &Rules, oid: &ObjectId, content: Option<&[u8]>, roles: Roles) -> Findings {
    let mut report = Report::new(rules, oid);
    let is_refused = !rules.skips(oid) && blob::check(&mut report, content, roles);
    Findings { lines: report.lines, is_refused }
}

/// Returns findings with a single flaw.
fn flaw(rules: &Rules, oid: &ObjectId, id: Id, message: &str) -> Findings {
    let mut report = Report::new(rules, oid);
    let is_refused = report.flaw(id, message).is_err();
    Findings { lines: report.lines, is_refused }
}

/// The object is refused.
struct Refusal;

/// Collects the messages about one object.
struct Report<'a> {
    rules: &'a Rules,
    oid: &'a ObjectId,
    lines: Vec<Line>,
    /// The bytes of the lines.
    len: usize,
}

impl<'a> Report<'a> {
    fn new(rules: &'a Rules, oid: &'a ObjectId) -> Report<'a> {
        Report { rules, oid, lines: Vec::new(), len: 0 }
    }

    /// Reports a flaw. Returns an error if the flaw makes the check refuse the object.
    fn flaw(&mut self, id: Id, message: impl AsRef<[u8]>) -> Result<(), Refusal> {
        if self.rules.skips(self.oid) {
            return Ok(());
        }
        let severity = self.rules.severity(id);
        let mut text = BString::from(format!("object {}: {}: ", self.oid, id.name()));
        text.extend_from_slice(message.as_ref());
        match severity {
            Severity::Ignore => Ok(()),
            Severity::Info | Severity::Warn => {
                self.say(Line::Warning(text));
                Ok(())
            }
            Severity::Error | Severity::Fatal => {
                self.say(Line::Error(text));
                Err(Refusal)
            }
        }
    }

    /// Adds a line that no setting suppresses.
    fn complain(&mut self, message: &str) {
        self.say(Line::Error(message.into()));
    }

    fn say(&mut self, line: Line) {
        if self.len > LONGEST {
            return;
        }
        self.len += line.len();
        self.lines.push(line);
        if self.len > LONGEST {
            let text = format!("object {}: more flaws are not shown", self.oid);
            self.lines.push(Line::Warning(text.into()));
        }
    }
}

/// Reports a header that is not terminated. Source: Git's `verify_headers`.
fn headers(report: &mut Report<'_>, content: &[u8]) -> Result<(), Refusal> {
    for (at, byte) in content.iter().enumerate() {
        match byte {
            0 => {
                let message = format!("unterminated header: NUL at offset {at}");
                return report.flaw(Id::NulInHeader, message);
            }
            b'\n' if content.get(at + 1) == Some(&b'\n') => return Ok(()),
            _ => {}
        }
    }
    match content.last() {
        Some(b'\n') => Ok(()),
        _ => report.flaw(Id::UnterminatedHeader, "unterminated header"),
    }
}

/// Splits the line up to the next line end off `rest`. Returns `None` without a line end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    Some(line)
}

/// Splits a header line off `rest` if it begins with `name` and a blank.
fn header<'a>(rest: &mut &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let after = rest.strip_prefix(name)?.strip_prefix(b" ")?;
    let mut after = after;
    let line = line(&mut after)?;
    *rest = after;
    Some(line)
}

#[cfg(test)]
mod tests;
