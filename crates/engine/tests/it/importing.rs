//! Contents that are imported: published contents survive, regardless of when the import ends.

use std::{fs, path::Path, process::Command, sync::atomic::AtomicBool};

use engine::workspace::base::{Act, AddOptions, Base, Bases, Error, Importer, Kind, Owner, Streamed, Wanted};
use format::{HashKind, ObjectId, hash::Hasher};
use repo::{OpenOptions, Repository};
use store::{Fsync, SharedRepository};
use testkit::{Repo, Sandbox, disk::Disk};

use crate::place;

const SHARED: SharedRepository = SharedRepository::Umask;

fn named(bytes: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", bytes.len() as u64);
    hasher.update(bytes);
    hasher.finish().expect("no attack")
}

fn contents(range: std::ops::Range<usize>) -> Vec<(ObjectId, Vec<u8>)> {
    let bytes = range.map(|number| format!("{number}\n").repeat(number % 977).into_bytes());
    bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| (named(&bytes), bytes)).collect()
}

fn names(contents: &[(ObjectId, Vec<u8>)]) -> Vec<ObjectId> {
    contents.iter().map(|(oid, _)| *oid).collect()
}

fn lent(contents: &[(ObjectId, Vec<u8>)]) -> Vec<(ObjectId, &[u8])> {
    contents.iter().map(|(oid, bytes)| (*oid, bytes.as_slice())).collect()
}

fn import(bases: &Bases) -> Importer<'_> {
    bases
        .importer(Path::new("/nowhere"), HashKind::Sha1, SHARED, &Fsync::default(), &AtomicBool::new(false))
        .expect("begun")
}

/// Copies a base directory in the state in which a kill at this moment would leave it.
fn killed(bases: &Bases, to: &Path) -> Bases {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-r").args([bases.dir(), to]).status().expect("cp runs");
    assert!(copied.success());
    Bases::at(to)
}

fn project<'s>(sandbox: &'s Sandbox) -> Repo<'s> {
    let repo = sandbox.init("repo");
    for (oid, bytes) in contents(1..300) {
        repo.write(format!("dir/{oid}"), bytes);
    }
    repo.write("empty", "");
    repo.write("large", vec![b'l'; 3 << 20]);
    repo.commit("one");
    repo
}

fn open(repo: &Repo<'_>) -> Repository {
    let options = OpenOptions { cwd: repo.path.clone(), ..OpenOptions::default() };
    Repository::open(&options).expect("a repository")
}

fn wanted<'r>(opened: &'r Repository, repo: &Repo<'_>, kind: Kind) -> Wanted<'r> {
    Wanted::new(opened, place::oid(repo, "HEAD^{tree}"), kind, Owner::of_process(), None).expect("settings")
}

fn options() -> AddOptions<'static> {
    AddOptions { big_file_threshold: 1 << 20, ..place::add_options() }
}

fn add_base(importer: &Importer<'_>, wanted: &Wanted<'_>) -> Result<Base, Error> {
    importer.add_base(wanted, &options(), &mut Vec::new())
}

#[test]
fn published_contents_stay_when_the_import_is_killed() {
    let sandbox = Sandbox::new();
    let bases = Bases::at(&sandbox.path().join("bases"));
    let all = contents(1..400);
    let oids = names(&all);
    let importer = import(&bases);
    assert_eq!(importer.missing(&oids), oids);
    for (at, part) in all.chunks(100).enumerate() {
        importer.add(&lent(part)).expect("added");
        let kept = (at * 100).min(all.len());
        let left = killed(&bases, &sandbox.path().join("left"));
        assert_eq!(import(&left).missing(&oids), oids[kept..], "before publication {at}");
        importer.publish().expect("published");
        let left = killed(&bases, &sandbox.path().join("left"));
        let next = import(&left);
        assert_eq!(next.missing(&oids), oids[kept + part.len()..], "after publication {at}");
        next.add(&lent(&all)).expect("added");
        next.publish().expect("published");
        drop(next);
        assert_eq!(import(&left).missing(&oids), []);
    }
    drop(importer);
    assert_eq!(import(&bases).missing(&oids), []);
}

#[test]
fn an_index_that_ends_anywhere_keeps_its_whole_records() {
    let sandbox = Sandbox::new();
    let bases = Bases::at(&sandbox.path().join("bases"));
    let all = contents(1..12);
    let importer = import(&bases);
    importer.add(&lent(&all)).expect("added");
    importer.publish().expect("published");
    drop(importer);
    let length = fs::metadata(bases.dir().join("blobs/1.index")).expect("there").len();
    for cut in 0..length {
        let left = killed(&bases, &sandbox.path().join("left"));
        let index =
            fs::OpenOptions::new().write(true).open(left.dir().join("blobs/1.index")).expect("opened");
        index.set_len(cut).expect("cut");
        let importer = import(&left);
        let whole = (cut as usize).saturating_sub(16) / 36;
        assert_eq!(importer.missing(&names(&all)), names(&all)[whole..], "cut at {cut}");
        importer.add(&lent(&all)).expect("added");
        importer.publish().expect("published");
        drop(importer);
        assert_eq!(import(&left).missing(&names(&all)), [], "cut at {cut}");
    }
}

#[test]
fn threads_add_and_publish_at_once_and_a_base_needs_no_object() {
    let sandbox = Sandbox::new();
    let repo = project(&sandbox);
    let bases = Bases::at(&sandbox.path().join("bases"));
    let importer = import(&bases);
    let all = contents(1..300);
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (importer, all) = (&importer, &all);
            scope.spawn(move || {
                // The parts of different threads overlap, so threads add the same contents
                // concurrently.
                for part in all.chunks(20).cycle().skip(first * 3).take(12) {
                    importer.add(&lent(part)).expect("added");
                    importer.publish().expect("published");
                }
            });
        }
    });
    let large = vec![b'l'; 3 << 20];
    let oid = named(&large);
    let stream = |pieces: &[u8], size| {
        importer.stream(oid, size, |sink| pieces.chunks(70_000).try_for_each(sink)).expect("written")
    };
    assert_eq!(stream(&large[1..], 3 << 20).expect("filled"), Streamed::OtherSize);
    let refused = importer.stream(oid, 3 << 20, |sink| {
        sink(&large).and(Err(std::io::Error::other("these bytes have another id")))
    });
    refused.expect("written").expect_err("refused");
    assert_eq!(importer.missing(&[oid]), [oid]);
    assert_eq!(stream(&large, 3 << 20).expect("filled"), Streamed::Whole);
    // The repository has no blobs left, so the base can only be built from imported contents.
    let opened = open(&repo);
    let blobs = contents(1..300).into_iter().map(|(oid, _)| oid).chain([oid]);
    let away: Vec<_> = blobs.map(|oid| oid.to_string()).collect();
    for hex in &away {
        fs::remove_file(repo.path.join(".git/objects").join(&hex[..2]).join(&hex[2..])).expect("loose");
    }
    let base = add_base(&importer, &wanted(&opened, &repo, Kind::Image)).expect("built");
    // `gc` waits for the importer, so the importer is dropped first.
    drop(importer);
    assert_eq!(base.verify(None, 2).expect("read").unknown, 0);
    assert_eq!(
        bases.gc(SHARED, Act::Remove, &AtomicBool::new(false)).expect("collected").generations,
        [0_u32; 0]
    );
    assert_eq!(base.verify(None, 2).expect("read").flaws, []);
    assert_eq!(fs::read_dir(bases.dir().join("users")).expect("listed").count(), 2);
}

#[test]
fn a_base_is_built_while_contents_arrive() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().expect("a directory"));
    let repo = project(&sandbox);
    let opened = open(&repo);
    let wanted = wanted(&opened, &repo, Kind::Image);
    let bases = Bases::at(&place.path().join("bases"));
    let importer = import(&bases);
    let new = contents(2000..2100);
    importer.add(&lent(&new)).expect("added");
    let built = place::add(&bases, &wanted, &options()).expect("built");
    importer.publish().expect("published");
    // Another import and a collection wait, until they are interrupted.
    let stop = AtomicBool::new(true);
    let second = bases.importer(Path::new("/nowhere"), HashKind::Sha1, SHARED, &Fsync::default(), &stop);
    assert!(matches!(second.err(), Some(Error::Interrupted)));
    assert!(matches!(bases.gc(SHARED, Act::Remove, &stop), Err(Error::Interrupted)));
    assert!(matches!(bases.prune(SHARED, Act::Remove, &stop), Err(Error::Interrupted)));
    drop(importer);
    assert_eq!(import(&bases).missing(&names(&new)), []);
    assert_eq!(built.verify(Some(&opened), 2).expect("read").flaws, []);
}

/// A prune that waited for an import knows the base that was added meanwhile.
#[test]
fn a_prune_keeps_a_base_that_was_added_while_it_waited() {
    let (sandbox, place) = (Sandbox::new(), tempfile::tempdir().expect("a directory"));
    let repo = project(&sandbox);
    let opened = open(&repo);
    let bases = Bases::at(&place.path().join("bases"));
    let (common, going) = (repo.path.join(".git"), AtomicBool::new(false));
    let importer = bases.importer(&common, HashKind::Sha1, SHARED, &Fsync::default(), &going).expect("begun");
    let base = std::thread::scope(|scope| {
        let prune = scope.spawn(|| bases.prune(SHARED, Act::Remove, &going));
        std::thread::sleep(std::time::Duration::from_millis(200));
        let base = add_base(&importer, &wanted(&opened, &repo, Kind::Image)).expect("built");
        let held = base.hold().expect("there");
        drop(importer);
        prune.join().expect("no panic").expect("pruned");
        drop(held);
        base
    });
    assert_eq!(base.verify(Some(&opened), 2).expect("read").flaws, []);
}

#[test]
fn a_full_disk_keeps_what_was_published() {
    let sandbox = Sandbox::new();
    let point = sandbox.path().join("small");
    fs::create_dir(&point).expect("created");
    let Some(_disk) = Disk::in_memory(3, &point) else { return };
    let bases = Bases::at(&point.join("bases"));
    let (first, second) = (vec![b'1'; 1 << 20], vec![b'2'; 4 << 20]);
    let all = [(named(&first), first), (named(&second), second)];
    let importer = import(&bases);
    importer.add(&lent(&all[..1])).expect("added");
    importer.publish().expect("published");
    let Err(Error::Io { source, path, .. }) = importer.add(&lent(&all[1..])) else { panic!("it fitted") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{}", path.display());
    assert_eq!(importer.missing(&names(&all)), names(&all)[1..]);
    importer.publish().expect("nothing to do");
    drop(importer);
    assert_eq!(import(&bases).missing(&names(&all)), names(&all)[1..]);
    assert_eq!(fs::metadata(bases.dir().join("blobs/1.data")).expect("there").len(), 1 << 20);
}
