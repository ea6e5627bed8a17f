//! All kinds of remotes keep one contract.

use std::time::{Duration, SystemTime};

use base_store::Error;
use format::base_files::{DataFile, Digest, RecordKind};

use testkit::noise;

use crate::servers::{Kind, Server, name};

const WRITABLE: [Kind; 3] = [Kind::Directory, Kind::S3, Kind::Registry];
const ALL: [Kind; 4] = [Kind::Directory, Kind::S3, Kind::Registry, Kind::Web];

fn on(kinds: &[Kind], check: impl Fn(&Server)) {
    for kind in kinds {
        println!("on {kind:?}");
        check(&Server::start(*kind));
    }
}

#[test]
fn an_empty_remote_has_nothing() {
    on(&ALL, |server| {
        let remote = server.open();
        let digest = Digest::of(b"nothing");
        assert!(!remote.has(&digest).expect("asked"));
        let error = remote.read(&digest, 0..1).expect_err("it is not there");
        assert!(matches!(error, Error::Missing { .. }), "{error}");
        assert!(error.to_string().contains(&digest.to_string()), "{error}");
        assert_eq!(remote.record(&name(RecordKind::Commit, "1")).expect("asked"), None);
        if server.kind != Kind::Web {
            assert_eq!(remote.records(RecordKind::Commit).expect("listed"), []);
            assert_eq!(remote.data().expect("listed"), []);
            remote.remove(&digest).expect("nothing to remove");
            remote.remove_record(&name(RecordKind::Commit, "1")).expect("nothing to remove");
            let error = remote.touch(&digest).expect_err("it is not there");
            assert!(matches!(error, Error::Missing { .. }), "{error}");
        }
    });
}

#[test]
fn data_files_are_read_by_ranges() {
    on(&ALL, |server| {
        // More than one part of an upload.
        for size in [0, 1, 100_000, (8 << 20) + 5] {
            let bytes = noise(size, 1);
            let digest = server.store(&bytes);
            let remote = server.open();
            assert!(remote.has(&digest).expect("asked"));
            assert_eq!(std::fs::read(server.stored(&digest)).expect("the server's file"), bytes);
            let length = size as u64;
            for range in [0..length, 0..length.min(1), length / 3..length / 2, length..length] {
                let expected = &bytes[range.start as usize..range.end as usize];
                assert!(remote.read(&digest, range.clone()).expect("read") == expected, "{size} {range:?}");
            }
            for range in [0..length + 1, length..length + 1, length + 5..length + 9] {
                let error = remote.read(&digest, range.clone()).expect_err("too short");
                assert!(matches!(error, Error::Wrong { .. }), "{size} {range:?}: {error}");
                assert!(error.to_string().contains(&digest.to_string()), "{error}");
            }
            // The second time nothing is sent.
            server.open_to_write().write(&digest, &server.dir.path().join("source")).expect("it is there");
        }
    });
}

#[test]
fn a_file_with_another_digest_is_not_published() {
    on(&WRITABLE, |server| {
        let remote = server.open();
        for bytes in [noise(1000, 2), noise((16 << 20) + 3, 3)] {
            let digest = Digest::of(b"expected");
            let error = remote.write(&digest, &server.source(&bytes)).expect_err("another digest");
            assert!(matches!(error, Error::WrongDigest { .. }), "{error}");
            assert!(!remote.has(&digest).expect("asked"));
        }
        let missing = server.dir.path().join("missing");
        remote.write(&Digest::of(b"expected"), &missing).expect_err("no file to send");
    });
}

#[test]
fn records_are_written_replaced_listed_and_removed() {
    on(&WRITABLE, |server| {
        let remote = server.open();
        let digest = server.store(b"data");
        let files = [DataFile { digest, size: 4 }];
        let commit = name(RecordKind::Commit, "0123456789abcdef");
        remote.set_record(&commit, b"{\"version\":1}", &files).expect("written");
        for (id, bytes) in [("a", &b"1"[..]), ("a", b"2"), ("b.c-d_E", b""), ("a", b"3")] {
            let name = name(RecordKind::Branch, id);
            remote.set_record(&name, bytes, &[]).expect("written");
            assert_eq!(remote.record(&name).expect("read").as_deref(), Some(bytes));
        }
        assert_eq!(remote.record(&commit).expect("read").as_deref(), Some(&b"{\"version\":1}"[..]));
        // Two names have the same bytes: each can be removed alone.
        for id in ["one", "two"] {
            remote.set_record(&name(RecordKind::Lease, id), b"same", &[]).expect("written");
        }
        remote.remove_record(&name(RecordKind::Lease, "one")).expect("removed");
        assert_eq!(remote.record(&name(RecordKind::Lease, "one")).expect("read"), None);
        assert_eq!(
            remote.record(&name(RecordKind::Lease, "two")).expect("read").as_deref(),
            Some(&b"same"[..])
        );
        for (kind, ids) in [
            (RecordKind::Commit, &["0123456789abcdef"][..]),
            (RecordKind::Branch, &["a", "b.c-d_E"]),
            (RecordKind::Lease, &["two"]),
            (RecordKind::Bundles, &[]),
        ] {
            let found = remote.records(kind).expect("listed");
            assert_eq!(found.iter().map(|record| record.name.id()).collect::<Vec<_>>(), ids);
            for record in found {
                assert_eq!(record.modified.is_none(), server.kind == Kind::Registry);
                assert!(record.modified.is_none_or(is_now));
            }
        }
        remote.remove_record(&commit).expect("removed");
        assert_eq!(remote.records(RecordKind::Commit).expect("listed"), []);
    });
}

#[test]
fn data_files_are_listed_renewed_and_removed() {
    on(&[Kind::Directory, Kind::S3], |server| {
        let remote = server.open();
        let mut expected = Vec::new();
        for size in [3, 5, 9 << 20] {
            let digest = server.store(&noise(size, 7));
            expected.push(DataFile { digest, size: size as u64 });
            let old = SystemTime::now() - Duration::from_secs(3 * 86_400);
            let file = std::fs::File::open(server.stored(&digest)).expect("it is there");
            file.set_modified(old).expect("its owner");
        }
        expected.sort_by_key(|file| file.digest);
        let found = remote.data().expect("listed");
        assert_eq!(found.iter().map(|data| data.file).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|data| !is_now(data.modified)));
        for file in &expected {
            remote.touch(&file.digest).expect("renewed");
        }
        let found = remote.data().expect("listed");
        assert_eq!(found.iter().map(|data| data.file).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|data| is_now(data.modified)));
        remote.remove(&expected[1].digest).expect("removed");
        assert!(!remote.has(&expected[1].digest).expect("asked"));
        assert_eq!(remote.data().expect("listed").len(), 2);
    });
}

#[test]
fn many_records_are_listed_in_pages() {
    on(&[Kind::Registry], |server| {
        let remote = server.open();
        let digest = server.store(b"data");
        for number in 0..3 {
            remote
                .set_record(
                    &name(RecordKind::Commit, &number.to_string()),
                    b"x",
                    &[DataFile { digest, size: 4 }],
                )
                .expect("written");
        }
        assert_eq!(remote.records(RecordKind::Commit).expect("listed").len(), 3);
    });
}

#[test]
fn a_web_server_is_read_only() {
    let server = Server::start(Kind::Web);
    let branch = name(RecordKind::Branch, "main");
    server.open_to_write().set_record(&branch, b"1", &[]).expect("written");
    let remote = server.open();
    assert_eq!(remote.record(&branch).expect("read").as_deref(), Some(&b"1"[..]));
    let digest = server.store(b"x");
    let source = server.source(b"y");
    for (what, error) in [
        ("writing", remote.write(&Digest::of(b"y"), &source).err()),
        ("writing", remote.set_record(&branch, b"2", &[]).err()),
        ("removing", remote.remove_record(&branch).err()),
        ("listing", remote.records(RecordKind::Branch).err()),
        ("listing", remote.data().err()),
        ("removing", remote.remove(&digest).err()),
        ("writing", remote.touch(&digest).err()),
    ] {
        let error = error.expect(what);
        assert!(matches!(&error, Error::Unsupported { what: found, .. } if *found == what), "{error}");
    }
}

fn is_now(time: SystemTime) -> bool {
    time.elapsed().unwrap_or_default() < Duration::from_secs(3600)
}
