//! Manifests: the data files that make up the base of a commit.
//!
//! JSON. An SSH signature may follow ([`split_signature`]); it covers all bytes before it, as in a
//! signed tag.
//!
//! ```json
//! {
//!   "sapwood": "base", "version": 1, "hash": "sha1", "time": 1793000000,
//!   "commit": "…", "tree": "…", "shallow": ["…"],
//!   "packs": [
//!     {"digest": "…", "size": 1, "list": {"digest": "…", "size": 1}, "renewed": 1793000000}],
//!   "tables": [
//!     {"digest": "…", "size": 1, "segment": {"digest": "…", "size": 1}, "renewed": 1793000000}]
//! }
//! ```
//!
//! Packs and tables are in the order in which they were written. Unknown members are ignored.

use std::{collections::HashSet, fmt::Write as _};

use bstr::ByteSlice as _;

use crate::{HashKind, ObjectId};

use super::{
    DataFile,
    json::{self, Malformed, Object},
};

/// The maximum length of a record that a reader accepts, in bytes. A manifest for 75 GB of segments
/// has 400 KB.
pub const MAX_LEN: usize = 64 << 20;

/// The line with which a signature begins.
const SIGNATURE: &[u8] = b"-----BEGIN SSH SIGNATURE-----";

/// A manifest; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The kind of hash of the repository.
    pub hash: HashKind,
    /// The commit.
    pub commit: ObjectId,
    /// Its tree.
    pub tree: ObjectId,
    /// The commits in the packs whose parents are not in the packs.
    pub shallow: Vec<ObjectId>,
    /// Packs of commits, trees, and the blobs of files that are not in tables.
    pub packs: Vec<Pack>,
    /// Tables with the contents of files.
    pub tables: Vec<Table>,
    /// The time of its creation, in seconds since the epoch.
    pub time: u64,
}

/// A pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pack {
    /// The pack.
    pub file: DataFile,
    /// The names of its objects ([`super::list`]).
    pub list: DataFile,
    /// The time at which both were written or renewed, in seconds since the epoch.
    pub renewed: u64,
}

/// A table and its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table ([`super::table`]).
    pub file: DataFile,
    /// The segment.
    pub segment: DataFile,
    /// The time at which both were written or renewed, in seconds since the epoch.
    pub renewed: u64,
}

impl Manifest {
    /// Reads a manifest without its signature.
    pub fn parse(bytes: &[u8]) -> Result<Manifest, Malformed> {
        let value = json::read(bytes)?;
        let object = Object::record(&value, "base")?;
        let hash = object.hash()?;
        let pack = |object: Result<Object<'_>, Malformed>| {
            let object = object?;
            let (file, list) = (object.own_file()?, object.file("list")?);
            Ok(Pack { file, list, renewed: object.number("renewed")? })
        };
        let table = |object: Result<Object<'_>, Malformed>| {
            let object = object?;
            let (file, segment) = (object.own_file()?, object.file("segment")?);
            Ok(Table { file, segment, renewed: object.number("renewed")? })
        };
        let manifest = Manifest {
            hash,
            commit: object.oid(hash, "commit")?,
            tree: object.oid(hash, "tree")?,
            shallow: object.oids(hash, "shallow")?,
            packs: object.objects("packs")?.map(pack).collect::<Result<_, Malformed>>()?,
            tables: object.objects("tables")?.map(table).collect::<Result<_, Malformed>>()?,
            time: object.number("time")?,
        };
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), Malformed> {
        let mut seen = HashSet::new();
        if !self.files().all(|file| seen.insert(file.digest)) {
            return Err(Malformed::Contradiction("a file is named twice"));
        }
        let sum = self.files().try_fold(0_u64, |sum, file| sum.checked_add(file.size));
        match sum.filter(|sum| *sum <= i64::MAX as u64) {
            Some(_) => Ok(()),
            None => Err(Malformed::Contradiction("the sizes of its files are too large")),
        }
    }

    /// Returns all data files.
    pub fn files(&self) -> impl Iterator<Item = DataFile> + '_ {
        let packs = self.packs.iter().flat_map(|pack| [pack.file, pack.list]);
        packs.chain(self.tables.iter().flat_map(|table| [table.file, table.segment]))
    }

    /// Returns the manifest as JSON, without a signature. It ends with a line end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = format!(
            "{{\n  \"sapwood\": \"base\", \"version\": 1, \"hash\": \"{}\", \"time\": {},\n  \"commit\": \
             \"{}\", \"tree\": \"{}\",\n  \"shallow\": [{}],\n",
            self.hash.name(),
            self.time,
            self.commit,
            self.tree,
            joined(self.shallow.iter().map(|oid| format!("\"{oid}\"")), ", "),
        );
        let packs = self.packs.iter().map(|pack| entry(pack.file, "list", pack.list, pack.renewed));
        let tables = self.tables.iter().map(|one| entry(one.file, "segment", one.segment, one.renewed));
        let (packs, tables) = (joined(packs, ",\n    "), joined(tables, ",\n    "));
        let written = write!(out, "  \"packs\": [\n    {packs}],\n  \"tables\": [\n    {tables}]\n}}\n");
        written.expect("a string takes everything");
        out.into_bytes()
    }
}

fn entry(file: DataFile, key: &str, other: DataFile, renewed: u64) -> String {
    format!(
        "{{\"digest\": \"{}\", \"size\": {}, \"{key}\": {{\"digest\": \"{}\", \"size\": {}}}, \"renewed\": \
         {renewed}}}",
        file.digest, file.size, other.digest, other.size
    )
}

pub(super) fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

/// Splits the bytes of a record into the signed part and the signature.
pub fn split_signature(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let begins = |at: &usize| *at == 0 || bytes[at - 1] == b'\n';
    match bytes.find_iter(SIGNATURE).find(begins) {
        Some(at) => (&bytes[..at], Some(&bytes[at..])),
        None => (bytes, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base_files::Digest;

    fn oid() -> impl Strategy<Value = ObjectId> {
        any::<[u8; 20]>().prop_map(|raw| ObjectId::from_bytes(HashKind::Sha1, &raw).expect("20 bytes"))
    }

    fn file() -> impl Strategy<Value = DataFile> {
        (any::<[u8; 32]>(), 0..u64::from(u32::MAX))
            .prop_map(|(digest, size)| DataFile { digest: Digest::from_bytes(digest), size })
    }

    fn manifest() -> impl Strategy<Value = Manifest> {
        let files = || prop::collection::vec((file(), file(), any::<u32>().prop_map(u64::from)), 0..5);
        (oid(), oid(), prop::collection::vec(oid(), 0..3), files(), files(), any::<u64>()).prop_map(
            |(commit, tree, shallow, packs, tables, time)| Manifest {
                hash: HashKind::Sha1,
                commit,
                tree,
                shallow,
                packs: packs.iter().map(|&(file, list, renewed)| Pack { file, list, renewed }).collect(),
                tables: tables
                    .iter()
                    .map(|&(file, segment, renewed)| Table { file, segment, renewed })
                    .collect(),
                time,
            },
        )
    }

    proptest! {
        #[test]
        fn manifests_come_back(manifest in manifest(), signature in any::<bool>()) {
            let mut bytes = manifest.to_bytes();
            let len = bytes.len();
            if signature {
                bytes.extend_from_slice(b"-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----\n");
            }
            let (signed, found) = split_signature(&bytes);
            prop_assert_eq!(signed.len(), len);
            prop_assert_eq!(found.is_some(), signature);
            prop_assert_eq!(Manifest::parse(signed).expect("sound"), manifest);
        }

        #[test]
        fn other_bytes_are_refused_or_read(
            manifest in manifest(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        ) {
            let mut bytes = manifest.to_bytes();
            for cut in 0..bytes.len() - 1 {
                prop_assert!(Manifest::parse(&bytes[..cut]).is_err());
            }
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(other) = Manifest::parse(&bytes) {
                prop_assert_eq!(Manifest::parse(&other.to_bytes()).expect("sound"), other);
            }
        }
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let file = |number: u8, size| DataFile { digest: Digest::from_bytes([number; 32]), size };
        let table =
            |number, size| Table { file: file(number, 1), segment: file(number + 1, size), renewed: 0 };
        let null = ObjectId::null(HashKind::Sha1);
        let with = |tables| {
            let (shallow, packs) = (Vec::new(), Vec::new());
            let hash = HashKind::Sha1;
            let made = Manifest { hash, commit: null, tree: null, shallow, packs, tables, time: 1 };
            Manifest::parse(&made.to_bytes())
        };
        with(vec![table(1, 1), table(3, 1)]).expect("sound");
        with(vec![table(1, 1), table(1, 1)]).expect_err("a file is named twice");
        with(vec![table(1, u64::MAX), table(3, 9)]).expect_err("the sum overflows");
        with(vec![table(1, u64::MAX)]).expect_err("too large");
        let deep = [&b"["[..]; 100_000].concat();
        assert!(matches!(Manifest::parse(&deep), Err(Malformed::Json(_))));
        let other = |from: &str, to: &str| {
            let bytes = Manifest::to_bytes(&with(Vec::new()).expect("sound"));
            Manifest::parse(&bytes.replace(from, to)).expect_err("refused")
        };
        assert_eq!(other("\"version\": 1", "\"version\": 2"), Malformed::Version(2));
        assert_eq!(other("\"base\"", "\"lease\""), Malformed::Kind("base"));
        assert_eq!(other("sha1", "sha256"), Malformed::Member("commit"));
        assert_eq!(other("\"time\": 1", "\"time\": -1"), Malformed::Member("time"));
        assert_eq!(other("\"packs\": [", "\"packs\": [1"), Malformed::Member("packs"));
    }
}
