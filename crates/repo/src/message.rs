//! A commit in one line: abbreviated name and subject.

use bstr::{BString, ByteSlice};
use format::{ObjectId, blank, hash::Prefix, keys};

use crate::{ConfigError, Error, ObjectError, Repository, convert::encoding};

/// The smallest length that Git abbreviates to.
pub const MINIMUM_ABBREV: usize = 4;
/// The minimum default length, without `core.abbrev`.
const FALLBACK_ABBREV: usize = 7;

impl Repository {
    /// Returns the shortest unique abbreviation (`core.abbrev`).
    pub fn abbreviate(&self, id: ObjectId) -> Result<String, Error> {
        self.abbreviate_to(id, self.abbreviation_length()?)
    }

    /// Returns the shortest unique abbreviation with the length that another repository configures,
    /// such as the superproject.
    pub fn abbreviate_as(&self, id: ObjectId, configured: &Repository) -> Result<String, Error> {
        let least = configured.configured_abbreviation()?;
        self.abbreviate_to(id, least.map_or_else(|| self.likely_unique(), Ok)?)
    }

    /// Returns the shortest unique abbreviation of at least `least` digits.
    pub fn abbreviate_to(&self, id: ObjectId, least: usize) -> Result<String, Error> {
        let others = self.objects_with_prefix(Prefix::of(&id, least))?;
        let shared = |other: &ObjectId| id.common_digits(other);
        let longest = others.iter().filter(|&other| *other != id).map(shared).max().unwrap_or(0);
        let mut hex = id.to_string();
        hex.truncate(least.max(longest + 1));
        Ok(hex)
    }

    /// Returns `core.abbrev`, or the length that makes a collision unlikely for the number of
    /// objects.
    pub fn abbreviation_length(&self) -> Result<usize, Error> {
        self.configured_abbreviation()?.map_or_else(|| self.likely_unique(), Ok)
    }

    /// Returns `core.abbrev`; `None` if its value is not a length.
    fn configured_abbreviation(&self) -> Result<Option<usize>, Error> {
        let full = self.layout.hash.hex_len();
        match self.config_str(&keys::core::ABBREV) {
            Some(value) if value.eq_ignore_ascii_case(b"auto") => Ok(None),
            Some(value) if crate::config::parse_bool(Some(value.as_bstr())) == Some(false) => Ok(Some(full)),
            Some(_) => {
                let length = self.config_as(&keys::core::ABBREV)?.unwrap_or_default();
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
        // A digit holds four bits. By the birthday bound, half the bits of the count are needed.
        let bits = u64::BITS - packed.leading_zeros();
        Ok((bits.div_ceil(2) as usize).max(FALLBACK_ABBREV))
    }

    /// Returns the subject as Git's `%s`: the lines before the first blank line, joined by blanks.
    /// It is converted to the output encoding (`i18n.logOutputEncoding`) if possible.
    pub fn subject(&self, commit: ObjectId) -> Result<BString, Error> {
        let commit = self.read_commit(&commit)?;
        let utf8 = || BString::from("UTF-8");
        let message = encoding::recode(
            commit.encoding.unwrap_or_else(utf8).as_bstr(),
            self.output_encoding().as_bstr(),
            commit.message,
        );
        let lines = message.lines().map(blank::trim_end).skip_while(|line| line.is_empty());
        let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        Ok(bstr::join(" ", lines).into())
    }
}
