//! Limits for packs of somebody who is not trusted.

use super::handmade::{Entry, build, deflate, delta, fault, name};
use super::*;

fn limited(dir: &Path, limits: Limits) -> Objects {
    Objects::with(dir, HashKind::Sha1, Options { limits: Some(limits), ..Options::default() })
}

#[test]
fn limits_what_a_packed_object_takes() {
    let whole = |size: usize| vec![b'x'; size];
    // It has 26 bytes and makes 12.
    let long = [&[20, 12][..], &[1, b'y'].repeat(12)].concat();
    let same = delta(20, 19, b'!');
    let dir = tempfile::tempdir().unwrap();
    let objects = build(
        dir.path(),
        &[
            Entry::Whole(&whole(20)),
            Entry::Whole(&whole(21)),
            Entry::Ofs(0, &delta(20, 20, b'!')),
            Entry::Ofs(1, &delta(21, 3, b'!')),
            Entry::Ofs(0, &long),
            Entry::Ofs(0, &same),
            Entry::Ref(5, &same),
            Entry::Ofs(6, &same),
            Entry::Ofs(7, &same),
        ],
    );
    for n in 0..9 {
        assert!(objects.reader().read(&name(n)).is_ok(), "{n}");
    }
    let limits = Limits { largest: 20, deepest: 3, work: u64::MAX };
    let objects = limited(dir.path(), limits);
    for n in [0, 5, 6, 7] {
        assert!(objects.reader().read(&name(n)).is_ok(), "{n}");
        assert!(objects.header(&name(n)).is_ok(), "{n}");
    }
    for (n, size) in [(1, 21), (2, 21), (3, 21), (4, 26)] {
        assert!(matches!(fault(&objects, n), Fault::TooLarge(found) if found == size), "{n}");
        assert!(objects.header(&name(n)).is_ok(), "{n}");
    }
    assert!(matches!(fault(&objects, 8), Fault::TooLong));
    let header = objects.header(&name(8)).unwrap_err();
    assert!(matches!(header, Error::Packed { source: Fault::TooLong, .. }), "{header:?}");
    // The bases count as undamaged.
    assert!(objects.reader().read(&name(7)).is_ok());
    // A large entry that is whole can be streamed. A delta is decoded for it.
    let objects = limited(dir.path(), limits);
    let mut reader = objects.reader();
    assert!(matches!(reader.read_up_to(&name(1), 20), Ok(Content::Large(Kind::Blob, 21))));
    reader.stream(&name(1), &mut |_| Ok(())).unwrap();
    assert!(reader.stream(&name(2), &mut |_| Ok(())).is_err());
    // The base, then deltas and results of 5, 6 and 7.
    let work = 20 + 3 * (same.len() as u64 + 20);
    assert!(limited(dir.path(), Limits { work, ..limits }).reader().read(&name(7)).is_ok());
    let objects = limited(dir.path(), Limits { work: work - 1, ..limits });
    assert!(matches!(fault(&objects, 7), Fault::TooLong));
    assert!(objects.reader().read(&name(6)).is_ok());
}

#[test]
fn limits_what_a_loose_object_takes() {
    let dir = tempfile::tempdir().unwrap();
    let write = |n: usize, bytes: &[u8]| {
        let hex = name(n).to_string();
        let above = dir.path().join(&hex[..2]);
        std::fs::create_dir_all(&above).unwrap();
        std::fs::write(above.join(&hex[2..]), bytes).unwrap();
    };
    for (n, size) in [(1, 2000), (2, 2001)] {
        write(n, &deflate(&[format!("blob {size}\0").as_bytes(), &vec![b'x'; size]].concat()));
    }
    write(3, &[&deflate(b"blob 1\0x")[..], &[0; 2000]].concat());
    let objects = limited(dir.path(), Limits { largest: 2000, deepest: 0, work: u64::MAX });
    assert_eq!(objects.reader().read(&name(1)).unwrap().1.len(), 2000);
    for n in [2, 3] {
        let error = objects.reader().read(&name(n)).unwrap_err();
        assert!(matches!(error, Error::Loose { source: Fault::TooLarge(_), .. }), "{n} {error:?}");
    }
    let objects = Objects::new(dir.path(), HashKind::Sha1);
    assert_eq!(objects.reader().read(&name(2)).unwrap().1.len(), 2001);
}
