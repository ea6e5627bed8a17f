use std::{path::Path, thread};

use format::hash::Hasher;
use sys::by_path;

use super::*;
use crate::{Fsync, Method, objects::PackOnAdd};

fn named(content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
    hasher.update(content);
    hasher.finish().expect("no collision")
}

fn content(number: usize) -> Vec<u8> {
    format!("content {number}\n").repeat(number % 50).into_bytes()
}

/// Returns all files below `dir`, sorted.
fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for (name, kind) in by_path::list(dir).expect("readable") {
        let name = name.to_string_lossy().into_owned();
        match kind {
            sys::FileType::Directory => {
                let below = files(&dir.join(&name)).into_iter();
                found.extend(below.map(|file| format!("{name}/{file}")));
            }
            _ => found.push(name),
        }
    }
    found.sort();
    found
}

fn packs(objects: &Path) -> usize {
    files(objects).iter().filter(|file| file.ends_with(".pack")).count()
}

fn assert_readable(repo: &testkit::Repo<'_>, numbers: impl Iterator<Item = usize>) {
    repo.git(&["fsck", "--strict"]);
    for number in numbers {
        let content = content(number);
        let found = repo.git(&["cat-file", "blob", &named(&content).to_string()]);
        assert_eq!(found.stdout, content);
    }
}

#[test]
fn few_objects_are_loose_and_many_are_a_pack() {
    for (count, on_add, packed) in [
        (1, PackOnAdd::Auto, false),
        (31, PackOnAdd::Auto, false),
        (32, PackOnAdd::Auto, true),
        (200, PackOnAdd::Auto, true),
        (200, PackOnAdd::Never, false),
        (1, PackOnAdd::From(1), true),
        (2, PackOnAdd::From(3), false),
    ] {
        let sandbox = testkit::Sandbox::new();
        let repo = sandbox.init("repo");
        let (objects, fsync) = (repo.join(".git/objects"), Fsync::default().for_recording());
        let options = Options { pack_on_add: on_add, ..Options::new(&objects, &fsync) };
        let before = files(&objects);
        let transaction = ObjectTransaction::new(options);
        for number in 0..count {
            let content = content(number);
            transaction.write(&named(&content), Kind::Blob, &content).expect("staged");
            assert!(transaction.contains(&named(&content)));
        }
        assert_eq!(packs(&objects), 0, "nothing is visible yet");
        transaction.publish().expect("published");
        assert_eq!(packs(&objects), usize::from(packed), "{count} {on_add:?}");
        let made = files(&objects).len() - before.len();
        // One file for each distinct content; a pack has two companion files. All contents with the
        // number 0, 50, ... are empty.
        let different = (0..count).filter(|number| *number == 0 || number % 50 > 0).count();
        assert_eq!(made, if packed { 3 } else { different }, "{count} {on_add:?}");
        assert_readable(&repo, 0..count);
        drop(ObjectTransaction::new(options).publish());
        assert_eq!(files(&objects).len(), made + before.len());
    }
}

#[test]
fn workers_stage_equal_objects_once() {
    for on_add in [PackOnAdd::Never, PackOnAdd::Auto] {
        let sandbox = testkit::Sandbox::new();
        let repo = sandbox.init("repo");
        let (objects, fsync) = (repo.join(".git/objects"), Fsync::default().for_recording());
        let options = Options { pack_on_add: on_add, ..Options::new(&objects, &fsync) };
        let transaction = ObjectTransaction::new(options);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for number in 1..49 {
                        let content = content(number);
                        transaction.write(&named(&content), Kind::Blob, &content).expect("staged");
                    }
                });
            }
        });
        transaction.publish().expect("published");
        assert_readable(&repo, 1..49);
        let made = files(&objects).len();
        assert_eq!(made, if on_add == PackOnAdd::Never { 48 } else { 3 });
    }
}

#[test]
fn streams_go_into_packs_and_can_be_taken_back() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
    let options = Options::new(&objects, &fsync);
    let big = vec![7u8; 1 << 20];
    let size = big.len() as u64;
    let transaction = ObjectTransaction::new(options);
    let stream = |size, mut content: &[u8], exists: bool| {
        transaction.write_stream_unless(HashKind::Sha1, size, &mut content, &|_| exists)
    };
    assert!(matches!(stream(size + 1, &big, false), Err(StreamError::Length)));
    assert_eq!(stream(size, &big, true).expect("named"), named(&big));
    assert!(!transaction.contains(&named(&big)));
    assert_eq!(stream(size, &big, false).expect("named"), named(&big));
    assert_eq!(stream(size, &big, false).expect("named"), named(&big));
    assert_eq!(stream(9, b"something", false).expect("named"), named(b"something"));
    transaction.publish().expect("published");
    assert_eq!(packs(&objects), 1);
    repo.git(&["fsck", "--strict"]);
    assert_eq!(repo.git(&["cat-file", "blob", &named(&big).to_string()]).stdout, big);
    let count = repo.git(&["count-objects", "-v"]).stdout;
    assert!(String::from_utf8_lossy(&count).contains("in-pack: 2\n"));

    // A pack whose only object was taken back is not published.
    let before = files(&objects);
    let transaction = ObjectTransaction::new(options);
    let short = transaction.write_stream(HashKind::Sha1, 5, &mut &b"1234"[..]);
    assert!(matches!(short, Err(StreamError::Length)));
    transaction.publish().expect("nothing to do");
    assert_eq!(files(&objects), before);
}

#[test]
fn respects_the_size_limit_of_packs() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
    let options = Options {
        pack_size_limit: Some(400),
        pack_on_add: PackOnAdd::From(1),
        ..Options::new(&objects, &fsync)
    };
    let transaction = ObjectTransaction::new(options);
    for number in 1..40 {
        let content = content(number);
        match number % 2 {
            0 => drop(transaction.write(&named(&content), Kind::Blob, &content)),
            _ => drop(transaction.write_stream(HashKind::Sha1, content.len() as u64, &mut &content[..])),
        }
    }
    transaction.publish().expect("published");
    assert!(packs(&objects) > 2, "{}", packs(&objects));
    assert_readable(&repo, 1..40);
}

#[test]
fn a_batch_goes_through_a_temporary_directory() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let objects = repo.join(".git/objects");
    let mut fsync = Fsync { method: Method::Batch, ..Fsync::default() };
    fsync.set_components("loose-object".into());
    let options = Options { pack_on_add: PackOnAdd::Never, ..Options::new(&objects, &fsync) };
    let transaction = ObjectTransaction::new(options);
    for number in 1..49 {
        let content = content(number);
        transaction.write(&named(&content), Kind::Blob, &content).expect("staged");
    }
    let large = vec![1; WAITING_BYTES + 1];
    transaction.write(&named(&large), Kind::Blob, &large).expect("staged");
    let staged = files(&objects);
    assert!(staged.iter().any(|file| file.starts_with("tmp_objdir-bulk-fsync-")), "{staged:?}");
    transaction.publish().expect("published");
    assert_eq!((packs(&objects), files(&objects).len()), (0, 49));
    let left = by_path::list(&objects).expect("readable");
    assert!(left.iter().all(|(name, _)| !name.to_string_lossy().starts_with("tmp_")));
    assert_readable(&repo, 1..49);
}

#[test]
fn a_batch_of_many_objects_becomes_a_pack() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let objects = repo.join(".git/objects");
    let mut fsync = Fsync { method: Method::Batch, ..Fsync::default() };
    fsync.set_components("loose-object".into());
    let mut stored = 0;
    for (count, is_packed) in [(1, false), (7, false), (8, true), (40, true)] {
        let before = (packs(&objects), files(&objects).len());
        let transaction = ObjectTransaction::new(Options::new(&objects, &fsync));
        for number in stored..stored + count {
            let content = content(number);
            transaction.write(&named(&content), Kind::Blob, &content).expect("staged");
        }
        transaction.publish().expect("published");
        let made = (packs(&objects) - before.0, files(&objects).len() - before.1);
        let files_of_pack = 3;
        let expected = if is_packed { (1, files_of_pack) } else { (0, count) };
        assert_eq!(made, expected, "{count} objects");
        stored += count;
    }
    assert_readable(&repo, 0..stored);
}

#[test]
fn a_dropped_or_failed_transaction_publishes_nothing() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let (objects, fsync) = (repo.join(".git/objects"), Fsync::default().for_recording());
    let large = vec![1; WAITING_BYTES + 1];
    let fill = |on_add| {
        let options = Options { pack_on_add: on_add, ..Options::new(&objects, &fsync) };
        let transaction = ObjectTransaction::new(options);
        for number in 1..40 {
            let content = content(number);
            transaction.write(&named(&content), Kind::Blob, &content).expect("staged");
        }
        transaction.write(&named(&large), Kind::Blob, &large).expect("staged");
        transaction.write_stream(HashKind::Sha1, 3, &mut &b"abc"[..]).expect("staged");
        transaction
    };
    for on_add in [PackOnAdd::Never, PackOnAdd::Auto] {
        let transaction = fill(on_add);
        assert!(!files(&objects).is_empty(), "files are staged");
        drop(transaction);
        assert_eq!(files(&objects), Vec::<String>::new());
        let transaction = fill(on_add);
        let panicked = thread::scope(|scope| {
            let stage = scope.spawn(|| {
                let _stage = transaction.claim(&named(b"new"));
                panic!("a worker has a bug");
            });
            stage.join().is_err()
        });
        assert!(panicked);
        assert!(matches!(transaction.publish(), Err(Error::Incomplete)));
        assert_eq!(files(&objects), Vec::<String>::new());
    }
}

#[test]
fn a_failed_stage_fails_the_whole() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
    // A file is in the place of the directory of packs.
    by_path::remove_dir_all(&objects.join("pack")).expect("removed");
    drop(by_path::create_new(&objects.join("pack"), 0o644).expect("created"));
    let options = Options { pack_on_add: PackOnAdd::From(2), ..Options::new(&objects, &fsync) };
    let transaction = ObjectTransaction::new(options);
    transaction.write(&named(b"one"), Kind::Blob, b"one").expect("it waits");
    let error = transaction.write(&named(b"two"), Kind::Blob, b"two").expect_err("no directory");
    assert!(matches!(error, Error::NoTemporaryFile { .. }), "{error}");
    transaction.write(&named(b"two"), Kind::Blob, b"two").expect("it is claimed");
    assert!(matches!(transaction.publish(), Err(Error::Incomplete)));
    assert_eq!(files(&objects), ["pack"]);
}
