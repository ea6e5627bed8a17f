use super::*;

/// Streams one blob and publishes it.
fn write_stream(
    hash: HashKind,
    size: u64,
    content: &mut dyn Read,
    options: &Options<'_>,
) -> Result<ObjectId, StreamError> {
    let transaction = ObjectTransaction::new(*options);
    let oid = transaction.write_stream(hash, size, content)?;
    transaction.publish()?;
    Ok(oid)
}

#[test]
fn git_reads_written_objects() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
    let noise: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for level in [0, DEFAULT_LEVEL, 9] {
        let options = Options { level, pack_level: Some(level), ..Options::new(&objects, &fsync) };
        for content in [&b""[..], &b"100644 x"[..4], &[7; 100_000], &noise] {
            let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
            hasher.update(content);
            let oid = hasher.finish().expect("no collision");
            let blob = || repo.git(&["cat-file", "blob", &oid.to_string()]).stdout;
            write(&oid, Kind::Blob, content, &options).expect("writable");
            assert_eq!(blob(), content);
            let file = objects.join(&oid.to_string()[..2]).join(&oid.to_string()[2..]);
            by_path::remove_file(&file).expect("just written");
            let streamed = write_stream(HashKind::Sha1, content.len() as u64, &mut &*content, &options);
            assert_eq!(streamed.expect("writable"), oid);
            assert_eq!(blob(), content);
            assert!(!file.exists(), "a stream goes into a pack");
        }
        let short = write_stream(HashKind::Sha1, 4, &mut &b"abc"[..], &options);
        assert!(matches!(short, Err(StreamError::Length)));
    }
    repo.git(&["fsck", "--strict"]);
    let left = by_path::list(&objects).expect("readable").into_iter();
    assert!(left.into_iter().all(|(name, _)| !name.to_string_lossy().starts_with("tmp_")));
}

/// A reader that returns one byte at a time, and is interrupted before each.
struct Halting<'a> {
    content: &'a [u8],
    interrupted: bool,
}

impl Read for Halting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.content.read(&mut buffer[..1])
    }
}

#[test]
fn continues_after_an_interrupted_read() {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", 3);
    hasher.update(b"abc");
    let named = hasher.finish().expect("no collision");
    let halting = || Halting { content: b"abc", interrupted: false };
    assert_eq!(hash_stream(HashKind::Sha1, 3, &mut halting()).expect("all is there"), named);
    let short = hash_stream(HashKind::Sha1, 4, &mut halting());
    assert!(matches!(short, Err(StreamError::Length)));
    let sandbox = testkit::Sandbox::new();
    let (objects, fsync) = (sandbox.init("repo").join(".git/objects"), Fsync::default());
    let options = Options::new(&objects, &fsync);
    let written = write_stream(HashKind::Sha1, 3, &mut halting(), &options);
    assert_eq!(written.expect("writable"), named);
}
