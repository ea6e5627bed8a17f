//! What Git shows of commits in a line: abbreviated name and subject.

use bstr::{BString, ByteSlice};
use format::{ObjectId, hash::Prefix};

use crate::{ConfigError, Error, ObjectError, Repository, convert::encoding};

/// Git never abbreviates further.
pub const MINIMUM_ABBREV: usize = 4;
/// Without `core.abbrev`, at least this.
const FALLBACK_ABBREV: usize = 7;

impl Repository {
    /// Shortest unique abbreviation (`core.abbrev`).
    pub fn abbreviate(&self, id: ObjectId) -> Result<String, Error> {
        self.abbreviate_to(id, self.abbreviation_length()?)
    }

    /// Shortest unique abbreviation of as many digits as another repository is configured to have (the superproject of this one).
    pub fn abbreviate_as(&self, id: ObjectId, configured: &Repository) -> Result<String, Error> {
        let least = configured.configured_abbreviation()?;
        self.abbreviate_to(id, least.map_or_else(|| self.likely_unique(), Ok)?)
    }

    /// Shortest unique abbreviation of at least so many digits.
    pub fn abbreviate_to(&self, id: ObjectId, least: usize) -> Result<String, Error> {
        let others = self.beginning(Prefix::of(&id, least))?;
        let shared = |other: &ObjectId| id.common_digits(other);
        let longest = others.iter().filter(|&other| *other != id).map(shared).max().unwrap_or(0);
        let mut hex = id.to_string();
        hex.truncate(least.max(longest + 1));
        Ok(hex)
    }

    /// `core.abbrev`, or what makes a collision unlikely for the number of objects there is.
    pub fn abbreviation_length(&self) -> Result<usize, Error> {
        self.configured_abbreviation()?.map_or_else(|| self.likely_unique(), Ok)
    }

    /// `core.abbrev`, if it says a length.
    fn configured_abbreviation(&self) -> Result<Option<usize>, Error> {
        let full = self.layout.hash.hex_len();
        match self.config_str("core.abbrev") {
            Some(value) if value.eq_ignore_ascii_case(b"auto") => Ok(None),
            Some(value) if crate::config::parse_bool(Some(value.as_bstr())) == Some(false) => Ok(Some(full)),
            Some(_) => {
                let length = self.config_int("core.abbrev")?.unwrap_or_default();
                match usize::try_from(length) {
                    Ok(length) if (MINIMUM_ABBREV..=full).contains(&length) => Ok(Some(length)),
                    _ => Err(ConfigError::Abbreviation(length).into()),
                }
            }
            None => Ok(None),
        }
    }

    fn likely_unique(&self) -> Result<usize, Error> {
        let packed =
            self.objects.packed_count().map_err(|(pack, source)| ObjectError::Count { pack, source })?;
        // One digit holds four bits; half the bits of the count, for a birthday's worth of distance.
        let bits = u64::BITS - packed.leading_zeros();
        Ok((bits.div_ceil(2) as usize).max(FALLBACK_ABBREV))
    }

    /// First line(s) of the message as Git's `%s`: up to the first blank line, joined by blanks; in the encoding
    /// that is shown (`i18n.logOutputEncoding`), if it can be expressed in it.
    pub fn subject(&self, commit: ObjectId) -> Result<BString, Error> {
        let commit = self.read_commit(&commit)?;
        let shown = self.config_str("i18n.logOutputEncoding");
        let shown = shown.or_else(|| self.config_str("i18n.commitEncoding"));
        let utf8 = || BString::from("UTF-8");
        let message = encoding::recode(
            commit.encoding.unwrap_or_else(utf8).as_bstr(),
            shown.unwrap_or_else(utf8).as_bstr(),
            commit.message,
        );
        let lines = message.lines().map(|line| line.trim_end()).skip_while(|line| line.is_empty());
        let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        Ok(bstr::join(" ", lines).into())
    }
}
