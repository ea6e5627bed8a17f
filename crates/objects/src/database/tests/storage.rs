//! All forms in which Git stores objects.

use super::*;

#[test]
fn reads_loose_and_packed_objects() {
    for (format, hash) in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        small_repo(dir.path(), format);
        let expected = all_objects(dir.path(), hash);
        assert!(expected.len() > 40);
        let open = || Objects::new(&objects_dir(dir.path()), hash);
        assert_reads(&open(), &expected);
        for config in [
            &["pack.indexVersion=2", "pack.depth=50"][..],
            &["pack.indexVersion=1", "pack.depth=4095"],
            &["repack.useDeltaBaseOffset=false", "pack.depth=50"],
            &["core.compression=0", "pack.depth=1"],
        ] {
            let mut args: Vec<&str> = config.iter().flat_map(|value| ["-c", value]).collect();
            args.extend(["repack", "-q", "-a", "-d", "-f"]);
            git(dir.path(), &args);
            let objects = open();
            assert_reads(&objects, &expected);
            assert!(
                expected.iter().all(|(oid, ..)| matches!(objects.locate(oid), Some(Location::Packed { .. })))
            );
        }
    }
}

/// Returns the mappings of the files in a directory, each with true if the kernel's read-ahead is
/// off (`rr` in `/proc/self/smaps`).
fn maps_without_readahead(dir: &Path) -> Vec<(String, bool)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<(String, bool)> = Vec::new();
    let mut name = None;
    for line in maps.lines() {
        match line.strip_prefix("VmFlags:") {
            Some(flags) => found.extend(name.take().map(|name| (name, flags.contains(" rr")))),
            None if line.contains(dir.to_str().unwrap()) => name = line.rsplit('.').next().map(str::to_owned),
            None => {}
        }
    }
    found.sort();
    found
}

#[test]
fn turns_read_ahead_off_for_rarely_used_files() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    small_repo(&place, "sha1");
    git(&place, &["repack", "-q", "-a", "-d", "-f"]);
    let expected = all_objects(&place, HashKind::Sha1);
    let listing = |idx, pack| vec![("idx".to_owned(), idx), ("pack".to_owned(), pack)];
    let (commit, ..) = expected.iter().find(|(_, kind, _)| *kind == Kind::Commit).unwrap();
    let objects = Objects::new(&objects_dir(&place), HashKind::Sha1);
    objects.reader().read(commit).unwrap();
    assert_eq!(maps_without_readahead(&place), listing(true, true));
    // Lookups do not read the pack itself.
    for (oid, ..) in &expected[..10] {
        assert!(objects.locate(oid).is_some());
    }
    assert_eq!(maps_without_readahead(&place), listing(false, true));
    assert_reads(&objects, &expected);
    assert_eq!(maps_without_readahead(&place), listing(false, false));
    drop(objects);

    // A large object is read in one use of the mapping.
    std::fs::write(place.join("large"), "a line that comes again\n".repeat(10_000)).unwrap();
    git(&place, &["add", "large"]);
    git(&place, &["commit", "-q", "-m", "large"]);
    git(&place, &["repack", "-q", "-a", "-d", "-f"]);
    let large = git(&place, &["rev-parse", "HEAD:large"]);
    let objects = Objects::new(&objects_dir(&place), HashKind::Sha1);
    objects.reader().read(&ObjectId::from_hex(HashKind::Sha1, large.trim_ascii()).unwrap()).unwrap();
    assert_eq!(maps_without_readahead(&place), listing(true, false));
}

/// Returns the files in the pack directory with an extension.
fn pack_files(repo: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(objects_dir(repo).join("pack")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

#[test]
fn reads_multi_pack_indexes() {
    for (format, hash) in FORMATS {
        let dir = tempfile::tempdir().unwrap();
        small_repo(dir.path(), format);
        git(dir.path(), &["repack", "-q", "-d"]);
        std::fs::write(dir.path().join("text"), "another").unwrap();
        git(dir.path(), &["commit", "-q", "-a", "-m", "another"]);
        git(dir.path(), &["repack", "-q", "-d"]);
        git(dir.path(), &["multi-pack-index", "write"]);
        std::fs::write(dir.path().join("text"), "outside of the multi-pack-index").unwrap();
        git(dir.path(), &["commit", "-q", "-a", "-m", "yet another"]);
        git(dir.path(), &["repack", "-q", "-d"]);
        let expected = all_objects(dir.path(), hash);
        assert_reads(&Objects::new(&objects_dir(dir.path()), hash), &expected);

        // A damaged multi-pack-index is ignored.
        let midx = objects_dir(dir.path()).join("pack/multi-pack-index");
        let mut bytes = std::fs::read(&midx).unwrap();
        bytes[0] ^= 1;
        std::fs::remove_file(&midx).unwrap();
        std::fs::write(&midx, &bytes).unwrap();
        assert_reads(&Objects::new(&objects_dir(dir.path()), hash), &expected);

        // A multi-pack-index may cover removed packs. Other copies are still found.
        bytes[0] ^= 1;
        std::fs::write(&midx, &bytes).unwrap();
        git(
            dir.path(),
            &["-c", "core.multiPackIndex=false", "repack", "-q", "-a", "-d", "--no-write-bitmap-index"],
        );
        std::fs::write(&midx, &bytes).unwrap();
        assert_reads(&Objects::new(&objects_dir(dir.path()), hash), &expected);
    }
}

#[test]
fn reads_incremental_multi_pack_indexes() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    for round in 0..3 {
        std::fs::write(dir.path().join("text"), format!("layer {round}")).unwrap();
        git(dir.path(), &["commit", "-q", "-a", "-m", "layer"]);
        git(dir.path(), &["repack", "-q", "-d"]);
        let written = Command::new(std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into()))
            .args(["multi-pack-index", "write", "--incremental"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        if !written.status.success() {
            // Git before 2.47 does not support it.
            return;
        }
    }
    let expected = all_objects(dir.path(), HashKind::Sha1);
    // The multi-pack-index must find the objects: packs without their own indexes are not listed.
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    assert_reads(&objects, &expected);
    let chain = objects_dir(dir.path()).join("pack/multi-pack-index.d/multi-pack-index-chain");
    assert_eq!(std::fs::read_to_string(&chain).unwrap().lines().count(), 3);
    std::fs::write(&chain, "nonsense\n").unwrap();
    assert_reads(&Objects::new(&objects_dir(dir.path()), HashKind::Sha1), &expected);
}

#[test]
fn follows_alternates_of_alternates() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("0")).unwrap();
    small_repo(&at("0"), "sha1");
    for n in 1..5 {
        git(dir.path(), &["clone", "-q", "-s", &format!("{}", n - 1), &format!("{n}")]);
        std::fs::write(at(&format!("{n}/text")), format!("of {n}")).unwrap();
        git(&at(&format!("{n}")), &["commit", "-q", "-a", "-m", "here"]);
        if n % 2 == 0 {
            git(&at(&format!("{n}")), &["repack", "-q", "-a", "-d", "-l"]);
        }
    }
    let expected = all_objects(&at("4"), HashKind::Sha1);
    let objects = Objects::new(&objects_dir(&at("4")), HashKind::Sha1);
    assert_eq!(objects.directories().count(), 5);
    assert_eq!(objects.errors(), [""; 0]);
    assert_reads(&objects, &expected);

    // Relative, quoted, commented, missing, circular.
    let list = format!(
        "# a comment\n\"../../../3/.git/ob\\152ects\"\n../../../gone\n{}\n",
        objects_dir(&at("4")).display()
    );
    std::fs::write(objects_dir(&at("4")).join("info/alternates"), list).unwrap();
    let objects = Objects::new(&objects_dir(&at("4")), HashKind::Sha1);
    assert_eq!(objects.directories().count(), 5);
    let gone = at("gone");
    let expected_error =
        format!("object directory {} does not exist; check .git/objects/info/alternates", gone.display());
    assert_eq!(objects.errors(), [expected_error]);
    assert_reads(&objects, &expected);

    // From the environment.
    std::fs::remove_file(objects_dir(&at("4")).join("info/alternates")).unwrap();
    let alternates = format!("{}:\"{}\"", at("1/.git/objects").display(), at("3/.git/objects").display());
    let options = Options { alternates: alternates.into(), ..Options::default() };
    let objects = Objects::with(&objects_dir(&at("4")), HashKind::Sha1, options);
    assert_eq!(objects.directories().count(), 5);
    assert_reads(&objects, &expected);
}

#[test]
fn reports_unreadable_alternates_when_an_object_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let expected = all_objects(dir.path(), HashKind::Sha1);
    let objects_dir = objects_dir(dir.path());
    let list = objects_dir.join("info/alternates");
    std::fs::create_dir(&list).unwrap();
    let objects = Objects::new(&objects_dir, HashKind::Sha1);
    assert_reads(&objects, &expected);
    let missing = ObjectId::from_bytes(HashKind::Sha1, &[7; 20]).unwrap();
    let error = objects.has(&missing).unwrap_err();
    let said = format!("object {missing} not found: unable to read '{}': Is a directory", list.display());
    assert_eq!((error.to_string(), error.is_unreadable()), (said, true));
    let empty = ObjectId::empty_tree(HashKind::Sha1);
    assert_eq!(objects.reader().read(&empty).unwrap(), (Kind::Tree, &b""[..]));
    assert_eq!(objects.unreadable_alternates().map(|(file, _)| file), Some(&*list));
    // As for Git, an abbreviation must be unique among the known names only.
    let (known, ..) = expected[0];
    let prefix = Prefix::from_hex(HashKind::Sha1, &known.to_string().as_bytes()[..8]).unwrap();
    assert_eq!(objects.with_prefix(prefix).unwrap(), [known]);
}

#[test]
fn reports_alternates_nested_too_deep() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..9 {
        let info = dir.path().join(format!("{n}/info"));
        std::fs::create_dir_all(&info).unwrap();
        std::fs::write(info.join("alternates"), format!("../{}\n", n + 1)).unwrap();
    }
    std::fs::create_dir(dir.path().join("9")).unwrap();
    let objects = Objects::new(&dir.path().join("0"), HashKind::Sha1);
    // The directory itself, its alternate, and five levels below that one.
    assert_eq!(objects.directories().count(), 7);
    assert_eq!(objects.errors().len(), 1);
    assert!(objects.errors()[0].ends_with(b"6: ignoring alternate object stores, nesting too deep"));
}

#[test]
fn finds_objects_repacked_by_another_process() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let expected = all_objects(dir.path(), HashKind::Sha1);
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    let mut reader = objects.reader();
    reader.read(&expected[0].0).unwrap();
    for depth in ["1", "5", "50"] {
        git(dir.path(), &["repack", "-q", "-a", "-d", "-f", "--depth", depth]);
        for (oid, _, content) in &expected {
            assert!(reader.read(oid).unwrap().1 == content);
        }
        assert!(objects.locate(&expected[0].0).is_some());
    }
    // The packs are mapped now, so their files can be removed.
    for pack in pack_files(dir.path(), "pack") {
        std::fs::remove_file(pack).unwrap();
    }
    assert_reads(&objects, &expected);
}

#[test]
fn shares_packs_between_threads() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let expected = all_objects(dir.path(), HashKind::Sha1);
    git(dir.path(), &["repack", "-q", "-a", "-d", "-f"]);
    let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_reads(&objects, &expected));
        }
    });
}

#[test]
fn limits_readers_that_hold_large_objects() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let mut large: Vec<u8> =
        (0..5u32 << 16).flat_map(|n| (n.wrapping_mul(2_654_435_761) >> 16).to_le_bytes()).collect();
    for round in 0..4 {
        large[round * 1000] ^= 1;
        std::fs::write(dir.path().join("large"), &large).unwrap();
        git(dir.path(), &["add", "."]);
        git(dir.path(), &["commit", "-q", "-m", "large"]);
    }
    let expected = all_objects(dir.path(), HashKind::Sha1);
    for how in ["loose", "packed"] {
        if how == "packed" {
            git(dir.path(), &["repack", "-q", "-a", "-d", "-f"]);
        }
        let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        std::thread::scope(|scope| {
            for start in 0..24 {
                let (objects, expected) = (&objects, &expected);
                scope.spawn(move || {
                    let mut reader = objects.small_reader();
                    for (oid, kind, content) in expected.iter().cycle().skip(start).take(expected.len()) {
                        assert_eq!(reader.read(oid).unwrap(), (*kind, &content[..]), "{how} {oid}");
                    }
                });
            }
        });
    }
}

#[derive(Debug)]
struct Fixed(HashMap<ObjectId, ObjectId>);

impl Replacements for Fixed {
    fn all(&self) -> Result<&HashMap<ObjectId, ObjectId>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(&self.0)
    }
}

#[test]
fn reads_replacements_of_objects() {
    let oid = |byte| ObjectId::from_bytes(HashKind::Sha1, &[byte; 20]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let expected = all_objects(dir.path(), HashKind::Sha1);
    let mut replace: HashMap<_, _> =
        [(oid(1), oid(2)), (oid(2), expected[0].0), (oid(8), oid(9)), (oid(9), oid(8))].into();
    // A chain of four is followed, a chain of five is not.
    replace.extend([(oid(20), oid(21)), (oid(21), oid(22)), (oid(22), oid(1))]);
    let options = Options { replacements: Some(Arc::new(Fixed(replace))), ..Options::default() };
    let objects = Objects::with(&objects_dir(dir.path()), HashKind::Sha1, options);
    assert!(objects.reader().read(&oid(1)).unwrap().1 == expected[0].2);
    assert!(objects.reader().read(&oid(21)).unwrap().1 == expected[0].2);
    assert!(matches!(objects.reader().read(&oid(20)), Err(Error::ReplaceDepth(name)) if name == oid(20)));
    assert!(matches!(objects.reader().read(&oid(8)), Err(Error::ReplaceDepth(name)) if name == oid(8)));
    assert!(matches!(objects.reader().read(&oid(7)), Err(Error::Missing(name)) if name == oid(7)));
}

#[derive(Debug)]
struct Unreadable;

impl Replacements for Unreadable {
    fn all(&self) -> Result<&HashMap<ObjectId, ObjectId>, Box<dyn std::error::Error + Send + Sync>> {
        Err("broken".into())
    }
}

#[test]
fn refuses_objects_if_replacements_are_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    small_repo(dir.path(), "sha1");
    let (oid, ..) = all_objects(dir.path(), HashKind::Sha1)[0];
    let options = Options { replacements: Some(Arc::new(Unreadable)), ..Options::default() };
    let objects = Objects::with(&objects_dir(dir.path()), HashKind::Sha1, options);
    assert_eq!((objects.contains(&oid), objects.locate_packed(&oid)), (false, None));
    for error in [objects.has(&oid).map(drop), objects.header(&oid).map(drop)] {
        let error = error.unwrap_err();
        assert_eq!((error.to_string(), error.is_unreadable()), ("broken".to_owned(), true));
    }
}

#[test]
fn reports_missing_objects_of_a_partial_clone_as_promised() {
    let dir = tempfile::tempdir().unwrap();
    let full = dir.path().join("full");
    std::fs::create_dir(&full).unwrap();
    small_repo(&full, "sha1");
    git(&full, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", full.display());
    git(dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &url, "partial"]);
    let objects = Objects::new(&dir.path().join("partial/objects"), HashKind::Sha1);
    let mut promised = 0;
    for (oid, kind, content) in all_objects(&full, HashKind::Sha1) {
        match objects.reader().read(&oid) {
            Ok((_, found)) => assert!(found == content),
            Err(Error::Promised(name)) => {
                assert_eq!((name, kind), (oid, Kind::Blob));
                promised += 1;
            }
            Err(error) => panic!("{oid}: {error:?}"),
        }
    }
    assert!(promised > 10);
}

#[test]
fn streams_large_blobs_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"]);
    let mut seed = 1u64;
    let content: Vec<u8> = (0..3_000_000)
        .map(|_| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            if seed >> 60 < 12 { b'x' } else { (seed >> 33) as u8 }
        })
        .collect();
    std::fs::write(dir.path().join("large"), &content).unwrap();
    std::fs::write(dir.path().join("small"), "small").unwrap();
    git(dir.path(), &["add", "."]);
    let oid = |name: &str| {
        let out = git(dir.path(), &["rev-parse", &format!(":{name}")]);
        ObjectId::from_hex(HashKind::Sha1, out.trim_ascii()).unwrap()
    };
    for packed in [false, true] {
        if packed {
            git(dir.path(), &["repack", "-q", "-a", "-d"]);
        }
        let objects = Objects::new(&objects_dir(dir.path()), HashKind::Sha1);
        let mut reader = objects.reader();
        let large = oid("large");
        assert!(matches!(reader.read_up_to(&large, 2_999_999), Ok(Content::Large(Kind::Blob, 3_000_000))));
        match reader.read_up_to(&large, 3_000_000).unwrap() {
            Content::Whole(Kind::Blob, whole) => assert!(packed && whole == content),
            // A large loose object is streamed, whatever the limit.
            large => assert!(!packed && matches!(large, Content::Large(Kind::Blob, 3_000_000))),
        }
        assert!(matches!(reader.read_up_to(&oid("small"), 5), Ok(Content::Whole(Kind::Blob, b"small"))));
        assert!(matches!(reader.read_up_to(&oid("small"), 4), Ok(Content::Large(Kind::Blob, 5))));
        let (mut streamed, mut pieces) = (Vec::new(), 0);
        let mut sink = |piece: &[u8]| {
            assert!(piece.len() <= 256 << 10);
            streamed.extend_from_slice(piece);
            pieces += 1;
            Ok(())
        };
        reader.stream(&large, &mut sink).unwrap();
        assert!(streamed == content && pieces > 10);
        let mut full = |_: &[u8]| Err(std::io::Error::other("disk full"));
        assert!(matches!(reader.stream(&large, &mut full), Err(Error::Sink { oid, .. }) if oid == large));
        assert!(reader.read(&large).unwrap().1 == content);
    }
}

/// Compares every object of the repository in `SAPWOOD_TEST_REPOSITORY` with Git.
#[test]
#[ignore = "needs a repository"]
fn reads_any_repository_as_git_does() {
    let path = PathBuf::from(std::env::var_os("SAPWOOD_TEST_REPOSITORY").expect("a path"));
    let expected = all_objects(&path, HashKind::Sha1);
    assert_reads(&Objects::new(&objects_dir(&path), HashKind::Sha1), &expected);
}
