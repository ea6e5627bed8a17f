//! Names of records: the files of a remote that are not named by the hash of their content.

use std::fmt;

use super::Digest;

/// The maximum length of an id. A registry's tags have at most 128 characters, including the prefix
/// of the kind.
const LONGEST: usize = 120;

/// A reference to a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataFile {
    /// Its name.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// The kinds of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// The manifest of a commit; the id is the commit's.
    Commit,
    /// The newest commits of a branch that have manifests.
    Branch,
    /// A promise not to prune a base; the id is `<commit id>.<holder>`.
    Lease,
    /// A bundle list in Git's format.
    Bundles,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [RecordKind; 4] =
        [RecordKind::Commit, RecordKind::Branch, RecordKind::Lease, RecordKind::Bundles];

    /// Returns the directory of the kind below a remote.
    pub const fn directory(self) -> &'static str {
        match self {
            RecordKind::Commit => "commits",
            RecordKind::Branch => "branches",
            RecordKind::Lease => "leases",
            RecordKind::Bundles => "bundles",
        }
    }
}

/// The name of a record: its kind, and an id of 1 to 120 ASCII letters, digits, `.`, `_` and `-`.
/// An id does not begin with a dot, so it is neither hidden nor a relative path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName {
    kind: RecordKind,
    id: String,
}

/// The id is not valid for a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad id of a record: '{0}'")]
pub struct BadId(String);

impl RecordName {
    /// Checks the id.
    pub fn new(kind: RecordKind, id: impl Into<String>) -> Result<RecordName, BadId> {
        let id = id.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if (1..=LONGEST).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(allowed) {
            Ok(RecordName { kind, id })
        } else {
            Err(BadId(id))
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the record below a remote: `<directory of the kind>/<id>`.
    pub fn path(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.directory(), self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_file_name_and_a_tag() {
        for good in ["main", "0123.host-1_a", "A", &"a".repeat(LONGEST)] {
            let name = RecordName::new(RecordKind::Lease, good).expect(good);
            assert_eq!(name.path(), format!("leases/{good}"));
        }
        for bad in ["", ".", "..", ".x", "a/b", "a b", "ü", "a\0", &"a".repeat(LONGEST + 1)] {
            assert_eq!(RecordName::new(RecordKind::Branch, bad), Err(BadId(bad.into())), "{bad}");
        }
    }
}
