//! Checks of content that will be stored: would a checkout restore the same file?
//!
//! Source: git-config(1) `core.safecrlf`, `core.checkRoundtripEncoding`.

use bstr::{BStr, BString};

use super::text::Lost;
use crate::{ConvertError, Error, Repository};
use format::keys::{self, BoolOr, SafeCrlf};

/// The reaction to a file that a checkout would not restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LossPolicy {
    Stored,
    Warned,
    Refused,
}

/// The settings of these checks.
pub(super) struct Storing {
    line_ends: LossPolicy,
    /// Encodings that are checked by converting back.
    round_trip: BString,
    /// True if content that cannot be encoded is an error.
    pub(super) refuses: bool,
}

impl Storing {
    pub(super) fn of(repo: &Repository) -> Result<Storing, Error> {
        let line_ends = match repo.config(&keys::core::SAFECRLF)? {
            BoolOr::Word(SafeCrlf::Warn) => LossPolicy::Warned,
            BoolOr::Bool(true) => LossPolicy::Refused,
            BoolOr::Bool(false) => LossPolicy::Stored,
        };
        let round_trip = repo.config(&keys::core::CHECK_ROUNDTRIP_ENCODING)?;
        Ok(Storing { line_ends, round_trip, refuses: true })
    }

    /// Returns the settings for a caller that only shows the content: nothing is an error.
    pub(super) fn for_showing(repo: &Repository) -> Result<Storing, Error> {
        let line_ends = match Storing::of(repo)?.line_ends {
            LossPolicy::Refused => LossPolicy::Warned,
            other => other,
        };
        Ok(Storing { line_ends, round_trip: BString::default(), refuses: false })
    }

    /// Returns the message about line ends that a checkout would not restore.
    pub(super) fn message_about_lost(&self, path: &BStr, lost: Lost) -> Result<Option<String>, Error> {
        let (from, to) = match lost {
            Lost::CrLf => ("CRLF", "LF"),
            Lost::Lf => ("LF", "CRLF"),
        };
        match self.line_ends {
            LossPolicy::Stored => Ok(None),
            LossPolicy::Warned => Ok(Some(format!(
                "warning: in the working copy of '{path}', {from} will be replaced by {to} the next time Git touches it"
            ))),
            LossPolicy::Refused => Err(ConvertError::LineEnds { path: path.to_owned(), from, to }.into()),
        }
    }

    /// Returns true if text in the encoding `name` is checked by converting back.
    pub(super) fn checks_round_trip(&self, name: &BStr) -> bool {
        let mut listed = self.round_trip.split(|byte| byte.is_ascii_whitespace() || *byte == b',');
        listed.any(|one| one.eq_ignore_ascii_case(name))
    }
}
