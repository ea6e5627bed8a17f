//! Reverse indices: the objects of a pack sorted by offset.
//!
//! Format: Git's `gitformat-pack(5)`, "pack-*.rev files".

use std::ops::Deref;

use crate::{HashKind, hash::Hasher, idx::Idx};

/// Returns the start of a `.rev` file: signature, version, hash.
pub(crate) fn header(hash: HashKind) -> [u8; 12] {
    let hash_id = match hash {
        HashKind::Sha1 => 1,
        HashKind::Sha256 => 2,
    };
    let mut header = *b"RIDX\0\0\0\x01\0\0\0\0";
    header[11] = hash_id;
    header
}

/// Returns the content of the `.rev` file that belongs to `idx`, trailer included. Returns `None`
/// if the index has an invalid offset.
pub fn of_index<D: Deref<Target = [u8]>>(idx: &Idx<D>, hash: HashKind) -> Option<Vec<u8>> {
    let mut order: Vec<(u64, u32)> =
        (0..idx.count()).map(|n| idx.offset(n).map(|offset| (offset, n))).collect::<Option<_>>()?;
    order.sort_unstable();
    let mut out = Vec::with_capacity(12 + order.len() * 4 + hash.len() * 2);
    out.extend_from_slice(&header(hash));
    for (_, position) in order {
        out.extend_from_slice(&position.to_be_bytes());
    }
    out.extend_from_slice(idx.pack_checksum());
    let mut hasher = Hasher::checksum(hash);
    hasher.update(&out);
    let trailer = hasher.finish().expect("only the names of objects are searched for collision attacks");
    out.extend_from_slice(trailer.as_bytes());
    Some(out)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    #[test]
    fn writes_the_same_bytes_as_git() {
        for (format, hash) in [("sha1", HashKind::Sha1), ("sha256", HashKind::Sha256)] {
            let root = tempfile::tempdir().expect("a directory for tests");
            let script = format!(
                "git init -q --object-format={format} . && for i in $(seq 50); do echo $i >f$i; done &&
                 git add . && git -c user.name=A -c user.email=a@example.com commit -q -m one &&
                 git -c pack.writeReverseIndex=true repack -q -a -d"
            );
            let done = Command::new("sh").arg("-c").arg(script).current_dir(root.path()).status();
            assert!(done.expect("a shell").success());
            let packs = fs::read_dir(root.path().join(".git/objects/pack")).expect("listed");
            let paths: Vec<_> = packs.map(|entry| entry.expect("an entry").path()).collect();
            let read = |extension: &str| {
                let found = paths.iter().find(|path| path.extension().is_some_and(|e| e == extension));
                fs::read(found.expect("there")).expect("read")
            };
            let idx = Idx::parse(read("idx"), hash).expect("valid");
            assert_eq!(of_index(&idx, hash), Some(read("rev")), "{format}");
        }
    }
}
