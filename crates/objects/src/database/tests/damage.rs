//! All kinds of damage to files that Git wrote: the result is the right bytes or an error.

use super::*;

/// Makes a packed repository with one pack.
fn packed(dir: &Path) -> (Vec<(ObjectId, Kind, Vec<u8>)>, PathBuf) {
    small_repo(dir, "sha1");
    let expected = all_objects(dir, HashKind::Sha1);
    git(dir, &["repack", "-q", "-a", "-d", "-f"]);
    let packs = std::fs::read_dir(objects_dir(dir).join("pack")).unwrap();
    let mut paths = packs.map(|entry| entry.unwrap().path());
    let pack = paths.find(|path| path.extension().is_some_and(|extension| extension == "pack")).unwrap();
    (expected, pack)
}

/// Replaces a file by renaming. Writing to a mapped file in place is not safe.
fn replace(path: &Path, content: &[u8]) {
    let _ = std::fs::remove_file(path);
    std::fs::write(path, content).unwrap();
}

/// Counts the objects that can be read, and checks their content.
fn readable(objects: &Objects, expected: &[(ObjectId, Kind, Vec<u8>)]) -> usize {
    let mut reader = objects.reader();
    let right = |(oid, _, content): &&(ObjectId, Kind, Vec<u8>)| match reader.read(oid) {
        Ok((_, found)) => {
            assert!(found == content, "{oid}");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains(&oid.to_string()), "{error}");
            false
        }
    };
    expected.iter().filter(right).count()
}

#[test]
fn survives_damage_to_every_byte_of_a_pack() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, pack) = packed(dir.path());
    let good = std::fs::read(&pack).unwrap();
    let open = || Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    // Only fsck checks the type in an entry's header and the name of its base: Git accepts another
    // base of the right size. All other bytes have a checksum or are stored twice.
    let objects = open();
    let headers: std::collections::HashSet<usize> = expected
        .iter()
        .flat_map(|(oid, ..)| {
            let Some(Location::Packed { offset, .. }) = objects.locate(oid) else {
                panic!("{oid} is packed")
            };
            let start = offset as usize;
            start..start + format::pack::parse_entry(&good[start..], HashKind::Sha1).unwrap().len
        })
        .collect();
    assert!(headers.len() * 10 < good.len());
    let mut unnoticed = 0;
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= [0x01, 0x10, 0x80, 0xff][at % 4];
        replace(&pack, &bad);
        let objects = open();
        if headers.contains(&at) {
            let mut reader = objects.reader();
            expected.iter().for_each(|(oid, ..)| drop(reader.read(oid).map(|_| ())));
        } else {
            unnoticed += usize::from(readable(&objects, &expected) == expected.len());
        }
    }
    // Padding bits and compression levels do not change the content.
    assert!(unnoticed < 3 * expected.len(), "{unnoticed} of {} went unnoticed", good.len());
}

#[test]
fn survives_a_truncated_pack() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, pack) = packed(dir.path());
    let good = std::fs::read(&pack).unwrap();
    for len in (0..good.len()).step_by(37) {
        replace(&pack, &good[..len]);
        let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        let error = objects.reader().read(&expected[0].0).unwrap_err();
        assert!(matches!(error, Error::Unusable { .. }), "{len}: {error:?}");
    }
}

#[test]
fn survives_damage_to_every_byte_of_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, pack) = packed(dir.path());
    let idx = pack.with_extension("idx");
    let good = std::fs::read(&idx).unwrap();
    for at in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= [0x01, 0x10, 0x80, 0xff][at % 4];
        replace(&idx, &bad);
        let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        // The offset may be that of another object. Git does not detect that either.
        let mut reader = objects.reader();
        for (oid, ..) in &expected {
            let _ = (reader.read(oid).is_ok(), reader.header(oid).is_ok());
        }
    }
}

#[test]
fn refuses_an_index_of_another_pack() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, pack) = packed(dir.path());
    let mut bytes = std::fs::read(&pack).unwrap();
    let trailer = bytes.len() - 1;
    bytes[trailer] ^= 1;
    replace(&pack, &bytes);
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    let error = objects.reader().read(&expected[0].0).unwrap_err();
    assert!(matches!(&error, Error::Unusable { source: PackError::Mismatch, .. }), "{error:?}");
    assert!(!objects.contains(&expected[0].0));
    bytes[11] += 1;
    replace(&pack, &bytes);
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    let error = objects.reader().read(&expected[0].0).unwrap_err();
    assert!(matches!(&error, Error::Unusable { source: PackError::Count { .. }, .. }), "{error:?}");
}

#[test]
fn survives_damage_to_every_byte_of_loose_objects() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    for (oid, kind, content) in all_objects(dir.path(), HashKind::Sha1).into_iter().step_by(5) {
        let hex = oid.to_string();
        let path = objects_dir(dir.path()).join(&hex[..2]).join(&hex[2..]);
        let good = std::fs::read(&path).unwrap();
        let check = |bad: &[u8], what: &str| {
            replace(&path, bad);
            let mut reader = objects.reader();
            let error = match reader.read(&oid) {
                Err(error) => error,
                // The second byte holds the compression level, which does not change the content.
                Ok(read) => return assert_eq!(read, (kind, &content[..]), "{oid} {what}"),
            };
            assert!(
                matches!(&error, Error::Loose { oid: name, path: file, .. } if *name == oid && *file == path)
            );
            assert!(reader.stream(&oid, &mut |_| Ok(())).is_err(), "{oid} {what}");
        };
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= [0x01, 0x10, 0x80, 0xff][at % 4];
            check(&bad, &format!("byte {at}"));
            check(&good[..at], &format!("cut at {at}"));
        }
        check(&[&good[..], b"x"].concat(), "garbage");
        replace(&path, &good);
        assert_eq!(objects.reader().read(&oid).unwrap(), (kind, &content[..]));
    }
}

#[test]
fn reads_another_copy_of_a_damaged_object() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, pack) = packed(dir.path());
    let good = std::fs::read(&pack).unwrap();
    // An alternate has the same objects, and the pack is damaged everywhere.
    let other = tempfile::tempdir().unwrap();
    git(other.path(), &["clone", "-q", "--mirror", "--no-local", &dir.path().display().to_string(), "copy"]);
    let alternates = objects_dir(&other.path().join("copy")).display().to_string();
    for step in [7, 61, 301, 1501] {
        let mut bad = good.clone();
        (12..good.len() - 20).step_by(step).for_each(|at| bad[at] ^= 0xff);
        replace(&pack, &bad);
        let alone = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        assert!(readable(&alone, &expected) < expected.len());
        let options = Options { alternates: alternates.clone().into(), ..Options::default() };
        let both = Objects::with(&objects_dir(dir.path()), HashKind::Sha1, options);
        assert_eq!(readable(&both, &expected), expected.len(), "every {step} bytes");
    }
}

#[test]
fn reads_another_copy_of_a_damaged_base() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, pack) = packed(dir.path());
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    let good = std::fs::read(&pack).unwrap();
    let mut rescued = 0;
    for (oid, kind, content) in &expected {
        let Some(Location::Packed { offset, .. }) = objects.locate(oid) else { panic!("{oid} is packed") };
        let mut bad = good.clone();
        (2..7).for_each(|at| bad[offset as usize + at] ^= 0xff);
        replace(&pack, &bad);
        let alone = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        rescued += expected.len() - 1 - readable(&alone, &expected);
        // Store that object as a loose object, which repairs all objects whose delta chains contain
        // it.
        let header = format!("{} {}\0", kind.name(), content.len());
        let inflated = [header.as_bytes(), content].concat();
        let hex = oid.to_string();
        let loose = objects_dir(dir.path()).join(&hex[..2]);
        std::fs::create_dir_all(&loose).unwrap();
        let deflated = sirocco::compress(sirocco::Format::Zlib, sirocco::deflate::Level::DEFAULT, &inflated);
        std::fs::write(loose.join(&hex[2..]), deflated).unwrap();
        let with_loose = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        assert_eq!(readable(&with_loose, &expected), expected.len(), "{oid}");
        std::fs::remove_file(loose.join(&hex[2..])).unwrap();
    }
    assert!(rescued > 10, "no deltas were tested");
}
