//! The severities that settings give to flaws, and the objects that are not checked.

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use format::{HashKind, ObjectId};
use sys::by_path;

use super::{Id, Severity};

/// Git's limit for the name of a tree entry.
const LONGEST_NAME: usize = 4096;

/// The severity of each flaw, and exceptions.
#[derive(Clone, Debug)]
pub struct Rules {
    severities: [Severity; Id::count()],
    skipped: HashSet<ObjectId>,
    /// Tree entries with longer names are reported. In bytes.
    pub(super) longest_name: usize,
    pub(super) hash: HashKind,
}

/// A setting is invalid. Messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Invalid {
    #[error("Unhandled message id: {0}")]
    Id(BString),
    #[error("Unknown fsck message type: '{0}'")]
    Severity(BString),
    #[error("Cannot demote {0} to {1}")]
    Fatal(BString, BString),
    #[error("unable to parse max tree entry len: {0}")]
    Length(BString),
    #[error("skiplist requires a path")]
    NoPath,
    #[error("Missing '=': '{0}'")]
    NoSeverity(BString),
    #[error("could not open object name list: {0}")]
    Skiplist(BString),
    #[error("invalid object name: {0}")]
    Name(BString),
}

impl Rules {
    /// The rules of a strict check, without settings.
    pub fn strict(hash: HashKind) -> Rules {
        let mut severities = [Severity::Error; Id::count()];
        for (id, severity) in super::id::all() {
            severities[id as usize] = match severity {
                Severity::Warn => Severity::Error,
                severity => severity,
            };
        }
        Rules { severities, skipped: HashSet::new(), longest_name: LONGEST_NAME, hash }
    }

    /// Changes severities: `<msg-id>=<severity>`, separated by commas, blanks or bars. The id
    /// `skiplist` names a file.
    pub fn set_all(&mut self, words: &BStr) -> Result<(), Invalid> {
        for word in words.split(|byte| b" ,|".contains(byte)).filter(|word| !word.is_empty()) {
            let at = word.find_byteset(b"=:").unwrap_or(word.len());
            let id = word[..at].to_ascii_lowercase();
            let value = word.get(at + 1..).map(|value| value.as_bstr());
            match (&id[..], value) {
                (b"skiplist", None) => return Err(Invalid::NoPath),
                (b"skiplist", Some(path)) => self.skip(path)?,
                (_, None) => return Err(Invalid::NoSeverity(id.into())),
                (_, Some(value)) => self.set(id.as_bstr(), value)?,
            }
        }
        Ok(())
    }

    /// Changes the severity of one flaw.
    pub fn set(&mut self, name: &BStr, value: &BStr) -> Result<(), Invalid> {
        let id = Id::parse(name).ok_or_else(|| Invalid::Id(name.to_owned()))?;
        let (value, length) = match value.split_once_str(":") {
            Some((value, length)) if id == Id::LargePathname => (BStr::new(value), Some(length)),
            _ => (value, None),
        };
        if let Some(length) = length {
            let parsed = format::config::parse_size(length.as_bstr()).ok();
            let parsed = parsed.and_then(|length| usize::try_from(length).ok());
            self.longest_name = parsed.ok_or_else(|| Invalid::Length(length.into()))?;
        }
        let severity = match value.as_bytes() {
            b"error" => Severity::Error,
            b"warn" => Severity::Warn,
            b"ignore" => Severity::Ignore,
            _ => return Err(Invalid::Severity(value.to_owned())),
        };
        if severity != Severity::Error && id.severity() == Severity::Fatal {
            return Err(Invalid::Fatal(name.to_owned(), value.to_owned()));
        }
        self.severities[id as usize] = severity;
        Ok(())
    }

    /// Skips the objects in a file of names, one a line; `#` begins a comment.
    pub fn skip(&mut self, path: &BStr) -> Result<(), Invalid> {
        let content = by_path::read(sys::os_str(path).as_ref()).ok().flatten();
        let content = content.ok_or_else(|| Invalid::Skiplist(path.to_owned()))?;
        for line in content.lines() {
            let name = line.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
            if name.is_empty() {
                continue;
            }
            let oid = ObjectId::from_hex(self.hash, name);
            self.skipped.insert(oid.ok_or_else(|| Invalid::Name(name.into()))?);
        }
        Ok(())
    }

    /// Returns the hash of the repository.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    pub(super) fn severity(&self, id: Id) -> Severity {
        self.severities[id as usize]
    }

    pub(super) fn skips(&self, oid: &ObjectId) -> bool {
        self.skipped.contains(oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_severities() {
        let mut rules = Rules::strict(HashKind::Sha1);
        assert_eq!(rules.severity(Id::HasDot), Severity::Error);
        assert_eq!(rules.severity(Id::BadFilemode), Severity::Info);
        rules.set_all("badDate=ignore,HASDOT:warn | largePathname=warn:10".into()).expect("known ids");
        assert_eq!(rules.severity(Id::BadDate), Severity::Ignore);
        assert_eq!(rules.severity(Id::HasDot), Severity::Warn);
        assert_eq!(rules.longest_name, 10);
        for (words, message) in [
            ("what=warn", "Unhandled message id: what"),
            ("badDate=what", "Unknown fsck message type: 'what'"),
            ("nulInHeader=warn", "Cannot demote nulinheader to warn"),
            ("skiplist", "skiplist requires a path"),
            ("badDate", "Missing '=': 'baddate'"),
            ("largePathname=warn:x", "unable to parse max tree entry len: x"),
            ("skiplist=/nowhere", "could not open object name list: /nowhere"),
        ] {
            assert_eq!(rules.set_all(words.into()).expect_err(words).to_string(), message);
        }
    }
}
