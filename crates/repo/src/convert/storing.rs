//! What is looked at when a file's content will be stored: whether a checkout would bring back the same file.
//!
//! Source: git-config(1) `core.safecrlf`, `core.checkRoundtripEncoding`.

use bstr::{BStr, BString};

use super::text::Lost;
use crate::{ConvertError, Error, Repository};

/// What becomes of a file that a checkout would not bring back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsafe {
    Stored,
    ToldOf,
    Refused,
}

/// The settings.
pub(super) struct Storing {
    line_ends: Unsafe,
    /// Encodings that are tried both ways.
    both_ways: BString,
    /// What cannot be brought into another encoding is refused.
    pub(super) refuses: bool,
}

impl Storing {
    pub(super) fn of(repo: &Repository) -> Result<Storing, Error> {
        let line_ends = match repo.config_str("core.safecrlf") {
            None => Unsafe::ToldOf,
            Some(value) if value.eq_ignore_ascii_case(b"warn") => Unsafe::ToldOf,
            Some(_) if repo.config_bool("core.safecrlf")? == Some(true) => Unsafe::Refused,
            Some(_) => Unsafe::Stored,
        };
        let both_ways = repo.config_str("core.checkRoundtripEncoding").unwrap_or_else(|| "SHIFT-JIS".into());
        Ok(Storing { line_ends, both_ways, refuses: true })
    }

    /// For who only shows what would be stored: nothing is refused.
    pub(super) fn for_showing(repo: &Repository) -> Result<Storing, Error> {
        let line_ends = match Storing::of(repo)?.line_ends {
            Unsafe::Refused => Unsafe::ToldOf,
            other => other,
        };
        Ok(Storing { line_ends, both_ways: BString::default(), refuses: false })
    }

    /// What is to be said of line ends that would not come back.
    pub(super) fn tell_lost(&self, path: &BStr, lost: Lost) -> Result<Option<String>, Error> {
        let (from, to) = match lost {
            Lost::CrLf => ("CRLF", "LF"),
            Lost::Lf => ("LF", "CRLF"),
        };
        match self.line_ends {
            Unsafe::Stored => Ok(None),
            Unsafe::ToldOf => Ok(Some(format!(
                "warning: in the working copy of '{path}', {from} will be replaced by {to} the next time Git touches it"
            ))),
            Unsafe::Refused => Err(ConvertError::LineEnds { path: path.to_owned(), from, to }.into()),
        }
    }

    /// Whether text in the encoding `name` has to come back the same.
    pub(super) fn tries_both_ways(&self, name: &BStr) -> bool {
        let mut listed = self.both_ways.split(|byte| byte.is_ascii_whitespace() || *byte == b',');
        listed.any(|one| one.eq_ignore_ascii_case(name))
    }
}
