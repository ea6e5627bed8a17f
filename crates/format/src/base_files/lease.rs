//! Leases: promises not to prune the base of a commit.
//!
//! JSON: `{"sapwood": "lease", "version": 1, "hash": "sha1", "commit": "…", "holder": "…",
//! "end": 1793000000}`. `end` is in seconds since the epoch.

use crate::{HashKind, ObjectId};

use super::json::{self, Malformed, Object};

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The commit.
    pub commit: ObjectId,
    /// The host, job or person that holds the lease.
    pub holder: String,
    /// The time at which it ends, in seconds since the epoch.
    pub end: u64,
}

impl Lease {
    /// Reads a record.
    pub fn parse(bytes: &[u8]) -> Result<Lease, Malformed> {
        let value = json::read(bytes)?;
        let object = Object::record(&value, "lease")?;
        let hash: HashKind = object.hash()?;
        let (commit, holder) = (object.oid(hash, "commit")?, object.text("holder")?.to_owned());
        Ok(Lease { commit, holder, end: object.number("end")? })
    }

    /// Returns the record as JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (hash, holder) = (self.commit.kind().name(), serde_json::Value::from(self.holder.as_str()));
        format!(
            "{{\n  \"sapwood\": \"lease\", \"version\": 1, \"hash\": \"{hash}\",\n  \"commit\": \"{}\",\n  \
             \"holder\": {holder}, \"end\": {}\n}}\n",
            self.commit, self.end
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn leases_come_back(raw in any::<[u8; 32]>(), holder in ".{0,40}", end in any::<u64>()) {
            let commit = ObjectId::from_bytes(HashKind::Sha256, &raw).expect("32 bytes");
            let lease = Lease { commit, holder, end };
            let bytes = lease.to_bytes();
            prop_assert_eq!(Lease::parse(&bytes).expect("sound"), lease);
            for cut in 0..bytes.len() - 1 {
                prop_assert!(Lease::parse(&bytes[..cut]).is_err());
            }
        }
    }
}
