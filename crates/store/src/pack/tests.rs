use std::io::Write as _;

use format::Kind;

use super::*;
use crate::objects::{DEFAULT_LEVEL, Deflaters};

struct Place {
    objects: PathBuf,
    fsync: Fsync,
}

impl Place {
    fn target(&self, hash: HashKind) -> Target<'_> {
        Target { objects: &self.objects, hash, shared: SharedRepository::Umask, fsync: &self.fsync }
    }

    fn names(&self) -> Vec<String> {
        let listed = by_path::list(&self.objects.join("pack")).expect("readable");
        let mut names: Vec<_> =
            listed.into_iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn named(hash: HashKind, content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(hash, "blob", content.len() as u64);
    hasher.update(content);
    hasher.finish().expect("no collision")
}

/// Stages `count` blobs.
fn complete(target: Target<'_>, count: u32, writing: Writing) -> Complete {
    let mut staged = Staged::create(target, Hashing::Skip, writing).expect("created");
    staged.writer().write(b"PACK\0\0\0\x02\0\0\0\0").expect("written");
    let (mut entries, deflaters) = (Vec::new(), Deflaters::new(DEFAULT_LEVEL));
    for number in 0..count {
        let content = format!("content {number}\n").repeat(100);
        let (entry, crc32) = deflaters.entry_of(Kind::Blob, content.as_bytes());
        let offset = staged.writer().position();
        entries.push(Entry { oid: named(target.hash, content.as_bytes()), offset, crc32 });
        staged.writer().write(&entry).expect("written");
    }
    staged
        .set_count(count)
        .expect("counted")
        .finish(&Entries::from(entries), &FinishOptions::default())
        .expect("finished")
}

#[test]
fn git_reads_published_packs() {
    for (format, hash) in [("sha1", HashKind::Sha1), ("sha256", HashKind::Sha256)] {
        let sandbox = testkit::Sandbox::new();
        let outer = sandbox.init("outer");
        outer.git(&["init", "-q", &format!("--object-format={format}"), "../repo"]);
        let repo = sandbox.repo("repo");
        let place = Place { objects: repo.join(".git/objects"), fsync: Fsync::default() };
        for (count, writing) in
            [(3, Writing::Direct), (500, Writing::Background), (900, Writing::BackgroundSynced)]
        {
            let made = complete(place.target(hash), count, writing);
            let checksum = made.publish().expect("published");
            let pack = format!(".git/objects/pack/pack-{checksum}.pack");
            repo.git(&["verify-pack", &pack]);
            repo.git(&["fsck", "--strict"]);
            let before = place.names();
            assert!(before.iter().any(|name| *name == format!("pack-{checksum}.rev")), "{before:?}");
            // An identical pack is not an error, and leaves no temporary files.
            complete(place.target(hash), count, writing).publish().expect("the same");
            assert_eq!(place.names(), before);
            // Git writes the same bytes for the same pack.
            let idx = by_path::read(&repo.join(&pack).with_extension("idx")).expect("read");
            let rev = by_path::read(&repo.join(&pack).with_extension("rev")).expect("read");
            repo.git(&["index-pack", "--rev-index", "-o", "../out.idx", &pack]);
            assert!(by_path::read(&sandbox.path().join("out.idx")).expect("read") == idx);
            assert!(by_path::read(&sandbox.path().join("out.rev")).expect("read") == rev);
            for name in ["out.idx", "out.rev"] {
                by_path::remove_file(&sandbox.path().join(name)).expect("removed");
            }
        }
    }
}

#[test]
fn never_overwrites_other_content() {
    let sandbox = testkit::Sandbox::new();
    let place = Place { objects: sandbox.init("repo").join(".git/objects"), fsync: Fsync::default() };
    for extension in ["pack", "rev", "idx"] {
        let made = complete(place.target(HashKind::Sha1), 3, Writing::Direct);
        let path = with_extension(&made.stem(), extension);
        let mut other = by_path::create_new(&path, 0o644).expect("created");
        other.write_all(b"of the user").expect("written");
        let error = made.publish().expect_err("it is another file");
        assert!(matches!(&error, Error::Differs { old, .. } if *old == path), "{error}");
        assert_eq!(by_path::read(&path).expect("read").expect("there"), b"of the user");
        by_path::remove_file(&path).expect("removed");
        // If an index exists, its companion files count as those of another process.
        if extension == "idx" {
            assert_eq!(place.names().len(), 2);
        } else {
            assert!(place.names().is_empty(), "{:?}", place.names());
        }
    }
}

#[test]
fn leaves_nothing_if_dropped() {
    let sandbox = testkit::Sandbox::new();
    let place = Place { objects: sandbox.init("repo").join(".git/objects"), fsync: Fsync::default() };
    drop(complete(place.target(HashKind::Sha1), 3, Writing::Background));
    assert!(place.names().is_empty());
    let mut marked = complete(place.target(HashKind::Sha1), 3, Writing::Direct);
    marked.mark("keep", b"why\n".to_vec());
    let (stem, name) = (marked.stem(), marked.checksum());
    marked.publish().expect("published");
    let keep = by_path::read(&with_extension(&stem, "keep")).expect("read");
    assert_eq!(keep.as_deref(), Some(&b"why\n"[..]));
    let kinds = ["idx", "keep", "pack", "rev"].map(|kind| format!("pack-{name}.{kind}"));
    assert_eq!(place.names(), kinds);
}
