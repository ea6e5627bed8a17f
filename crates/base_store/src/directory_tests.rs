#![allow(clippy::disallowed_methods)]

use std::{os::unix::fs::PermissionsExt as _, path::PathBuf, sync::Arc};

use tempfile::TempDir;

use super::*;

struct Fixture {
    dir: TempDir,
    remote: Directory,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let remote = Directory::open(dir.path(), Arc::default()).expect("the directory exists");
        Fixture { dir, remote }
    }

    /// Writes a file to send beside the remote's files.
    fn source(&self, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join("source");
        std::fs::write(&path, bytes).expect("the directory is writable");
        path
    }

    fn leftovers(&self) -> usize {
        by_path::list(&self.dir.path().join(TEMPORARY)).map_or(0, |names| names.len())
    }
}

#[test]
fn a_file_with_another_digest_is_not_published() {
    let fixture = Fixture::new();
    let digest = Digest::of(b"right");
    let error = fixture.remote.write(&digest, &fixture.source(b"wrong")).expect_err("another digest");
    assert!(matches!(error, Error::WrongDigest { .. }), "{error}");
    assert!(!fixture.remote.has(&digest).expect("a stat"));
    assert_eq!(fixture.leftovers(), 0);
}

#[test]
fn an_interrupt_publishes_nothing() {
    let fixture = Fixture::new();
    fixture.remote.interrupt.store(true, Ordering::Relaxed);
    let digest = Digest::of(b"right");
    let error = fixture.remote.write(&digest, &fixture.source(b"right")).expect_err("interrupted");
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(!fixture.remote.has(&digest).expect("a stat"));
    assert_eq!(fixture.leftovers(), 0);
}

#[test]
fn names_in_tmp_that_are_taken_are_left_alone() {
    let fixture = Fixture::new();
    let name = RecordName::new(RecordKind::Branch, "main").expect("a name");
    let next = fixture.remote.next.load(Ordering::Relaxed);
    let taken = fixture.dir.path().join(TEMPORARY).join(format!("{next:08x}"));
    by_path::create_dir_all(taken.parent().expect("below the root")).expect("a directory");
    std::fs::write(&taken, b"of another host").expect("a file");
    fixture.remote.set_record(&name, b"1", &[]).expect("written");
    assert_eq!(std::fs::read(&taken).expect("it is there"), b"of another host");
    assert_eq!(fixture.remote.record(&name).expect("read"), Some(b"1".to_vec()));
}

#[test]
fn only_old_leftovers_are_removed() {
    let fixture = Fixture::new();
    let directory = fixture.dir.path().join(TEMPORARY);
    by_path::create_dir_all(&directory).expect("a directory");
    let hour = Duration::from_secs(3600);
    for (name, age) in [("old", 2 * hour), ("new", Duration::ZERO)] {
        let file = std::fs::File::create(directory.join(name)).expect("a file");
        file.set_modified(SystemTime::now() - age).expect("its owner");
    }
    fixture.remote.remove_leftovers(SystemTime::now() - hour).expect("removed");
    assert!(!directory.join("old").exists());
    assert!(directory.join("new").exists());
}

#[test]
fn files_that_do_not_belong_there_are_not_listed() {
    let fixture = Fixture::new();
    let digest = Digest::of(b"x");
    fixture.remote.write(&digest, &fixture.source(b"x")).expect("written");
    let data = fixture.dir.path().join("data");
    std::fs::write(data.join("README"), b"").expect("a file");
    by_path::create_dir_all(&data.join("00")).expect("a directory");
    std::fs::write(data.join("00").join(digest.to_string()), b"x").expect("a file in the wrong place");
    let found: Vec<_> = fixture.remote.data().expect("listed").iter().map(|data| data.file).collect();
    assert_eq!(found, [DataFile { digest, size: 1 }]);
    let mode = std::fs::metadata(fixture.remote.path(&digest)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o222, 0, "nobody may write to it");
}

#[test]
fn a_range_beyond_the_end_and_a_missing_directory_are_errors() {
    let fixture = Fixture::new();
    let digest = Digest::of(b"four");
    fixture.remote.write(&digest, &fixture.source(b"four")).expect("written");
    let error = fixture.remote.read(&digest, 2..5).expect_err("too short").to_string();
    assert!(error.contains(&digest.to_string()) && error.contains("it has 4 bytes"), "{error}");
    let missing = fixture.dir.path().join("missing");
    let error = Directory::open(&missing, Arc::default()).err().expect("it is not there");
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    let file = fixture.source(b"");
    assert!(matches!(Directory::open(&file, Arc::default()), Err(Error::Io { .. })));
}
