//! Reverse indices: the objects of a pack sorted by offset.
//!
//! Format: Git's `gitformat-pack(5)`, "pack-*.rev files".

use std::ops::Deref;

use crate::{HashKind, idx::Idx};

/// Returns the start of a `.rev` file: signature, version, hash.
fn header(hash: HashKind) -> [u8; 12] {
    let hash_id = match hash {
        HashKind::Sha1 => 1,
        HashKind::Sha256 => 2,
    };
    let mut header = *b"RIDX\0\0\0\x01\0\0\0\0";
    header[11] = hash_id;
    header
}

/// Returns the positions of the objects of `idx` in the order of their offsets. Returns `None` if
/// the index has an invalid offset.
pub fn order_of<D: Deref<Target = [u8]>>(idx: &Idx<D>) -> Option<Vec<u32>> {
    let mut order: Vec<(u64, u32)> =
        (0..idx.count()).map(|n| idx.offset(n).map(|offset| (offset, n))).collect::<Option<_>>()?;
    order.sort_unstable();
    Some(order.into_iter().map(|(_, position)| position).collect())
}

/// Writes a `.rev` file in pieces. `order` holds the position of each object in the index, sorted
/// by offset; `pack_checksum` is the trailer of the pack. The caller appends the hash of all
/// pieces.
pub fn encode<E>(
    order: &[u32],
    hash: HashKind,
    pack_checksum: &[u8],
    emit: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    emit(&header(hash))?;
    order.iter().try_for_each(|position| emit(&position.to_be_bytes()))?;
    emit(pack_checksum)
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
            let (order, git) = (order_of(&idx).expect("good offsets"), read("rev"));
            let mut out = Vec::new();
            let mut emit = |piece: &[u8]| {
                out.extend_from_slice(piece);
                Ok::<(), ()>(())
            };
            encode(&order, hash, idx.pack_checksum(), &mut emit).expect("memory");
            assert_eq!(out, git[..git.len() - hash.len()], "{format}");
        }
    }
}
