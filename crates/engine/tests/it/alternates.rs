//! Base directories that use bases and contents of other base directories, and partial clones that
//! read contents.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use bstr::ByteSlice as _;
use engine::workspace::base::{Act, AddOptions, Base, Bases, BlobSource, Error, Kind, Owner, Wanted};
use format::ObjectId;
use repo::{LazyFetch, OpenOptions, Promised, Repository, objects::Contents};
use store::{Fsync, SharedRepository};
use testkit::{ErofsImage, Repo, Sandbox};

use crate::place::{self, Place, oid};

const SHARED: SharedRepository = SharedRepository::Umask;

fn project<'s>(sandbox: &'s Sandbox) -> Repo<'s> {
    let repo = sandbox.init("repo");
    for number in 0..50 {
        repo.write(format!("dir{}/file{number}", number % 3), format!("{number}\n").repeat(number * 20));
    }
    repo.write("large", vec![b'l'; 3 << 20]);
    repo.commit("one");
    repo
}

fn open(path: &Path, fetch: Option<Arc<dyn LazyFetch>>) -> Repository {
    let options = OpenOptions { cwd: path.to_owned(), lazy_fetch: fetch, ..OpenOptions::default() };
    Repository::open(&options).expect("a repository")
}

fn add(bases: &Bases, opened: &Repository, tree: ObjectId, kind: Kind, uid: u32) -> Result<Base, Error> {
    let owner = Owner { uid, ..Owner::of_process() };
    let wanted = Wanted::new(opened, tree, kind, owner, None).expect("settings");
    place::add(bases, &wanted, &AddOptions { big_file_threshold: 1 << 20, ..place::add_options() })
}

fn flaws(base: &Base, repo: &Repository) -> Vec<engine::workspace::base::Flaw> {
    base.verify(Some(repo), 2).expect("read").flaws
}

#[test]
fn an_image_of_another_user_takes_its_contents_from_an_alternate() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let (opened, tree) = (open(&repo.path, None), oid(&repo, "HEAD^{tree}"));
    let uid = Owner::of_process().uid;
    let (theirs, ours) = (place.named("theirs"), place.named("ours"));
    let shared = add(&theirs, &opened, tree, Kind::Image, uid).expect("built");
    ours.add_alternate(theirs.dir(), SHARED, &Fsync::default()).expect("named");
    ours.add_alternate(theirs.dir(), SHARED, &Fsync::default()).expect("named already");
    assert_eq!(ours.alternates().expect("read"), [theirs.dir().canonicalize().expect("there")]);

    // A second addition uses the existing base in place.
    let same = add(&ours, &opened, tree, Kind::Image, uid).expect("found");
    assert_eq!(same.dir, shared.dir.canonicalize().expect("there"));
    assert!(matches!(ours.remove(&same.name, SHARED), Err(Error::InAlternate { .. })));

    // A base with another owner refers to contents in the other directory, and adds only new
    // contents.
    repo.write("dir1/new", "new\n");
    repo.commit("two");
    let opened = open(&repo.path, None);
    let two = oid(&repo, "HEAD^{tree}");
    let own = add(&ours, &opened, two, Kind::Image, uid + 1).expect("built");
    assert_eq!(fs::metadata(ours.dir().join("blobs/1.data")).expect("there").len(), 512);
    let data = theirs.dir().canonicalize().expect("there").join("blobs/1.data");
    assert_eq!(own.devices, [data, ours.dir().join("blobs/1.data")]);
    assert_eq!(flaws(&own, &opened), []);
    let names = |bases: &Bases| -> Vec<String> {
        bases.list().expect("listed").into_iter().map(|base| base.name).collect()
    };
    assert_eq!(names(&ours), [own.name.clone(), shared.name.clone()]);
    assert_eq!(names(&theirs), std::slice::from_ref(&shared.name));
    if let Some(_mounted) = ErofsImage::mount(&own.image(), &own.devices, &own.files()) {
        for path in ["large", "dir1/new", "dir2/file47", "dir0/file0"] {
            let [one, other] =
                [own.files(), repo.path.clone()].map(|top| fs::read(top.join(path)).expect("read"));
            assert_eq!(one, other, "{path}");
        }
    }

    // The alternate is not changed from here, and its own `gc` keeps the contents that we need.
    assert_eq!(ours.gc(SHARED, Act::Remove, &AtomicBool::new(false)).expect("collected").bytes, 0);
    assert!(shared.dir.exists());
    assert_eq!(
        theirs.prune(SHARED, Act::Remove, &AtomicBool::new(false)).expect("pruned").bases,
        std::slice::from_ref(&shared.name)
    );
    assert_eq!(flaws(&own, &opened), []);
    assert!(ours.get(&shared.name).is_err());
    assert_eq!(ours.prune(SHARED, Act::Remove, &AtomicBool::new(false)).expect("pruned").bases, [own.name]);
    assert_eq!(theirs.gc(SHARED, Act::Remove, &AtomicBool::new(false)).expect("collected").generations, [1]);

    // Contents that no longer exist count as missing.
    fs::remove_dir_all(theirs.dir()).expect("removed");
    assert!(ours.alternates().expect("read").is_empty());
    let own = add(&ours, &opened, two, Kind::Image, uid).expect("built");
    assert_eq!((own.devices.len(), flaws(&own, &opened)), (1, vec![]));
}

#[test]
fn a_list_of_alternates_is_read_as_git_reads_one() {
    let place = Place::new();
    let bases = place.named("bases");
    for name in ["bases", "one", "two", "th\nree"] {
        fs::create_dir(place.path().join(name)).expect("created");
    }
    fs::write(bases.dir().join("alternates"), "# a comment\n../one\n\n../missing\n/\n../bases\n")
        .expect("written");
    fs::write(place.path().join("one/alternates"), "../two\n../bases\n\"../th\\nree\"").expect("written");
    fs::write(place.path().join("two/alternates"), "../one\n").expect("written");
    let real = place.path().canonicalize().expect("there");
    let expected = [real.join("one"), "/".into(), real.join("two"), real.join("th\nree")];
    assert_eq!(bases.alternates().expect("read"), expected);
    fs::create_dir(place.path().join("#four")).expect("created");
    bases.add_alternate(&place.path().join("#four"), SHARED, &Fsync::default()).expect("added");
    assert!(bases.alternates().expect("read").contains(&real.join("#four")));
}

/// Reads contents of a base directory, and records the objects that would be fetched.
#[derive(Debug)]
struct Fetcher {
    bases: PathBuf,
    asked: Mutex<Vec<ObjectId>>,
}

impl LazyFetch for Fetcher {
    fn fetch(&self, wanted: &Promised<'_>) -> bool {
        self.asked.lock().expect("no panic").extend(wanted.objects);
        false
    }

    fn contents(&self, place: &repo::Place<'_>) -> Option<Box<dyn Contents>> {
        Some(Box::new(BlobSource::of(Bases::at(&self.bases), place.hash)))
    }
}

#[test]
fn a_partial_clone_reads_contents_and_never_believes_damaged_ones() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", repo.path.display());
    let clone = sandbox.path().join("clone");
    let clone_text = clone.display().to_string();
    repo.git(&["clone", "-q", "--no-checkout", "--filter=blob:none", &url, &clone_text]);
    let (bases, tree) = (place.named("bases"), oid(&repo, "HEAD^{tree}"));
    let uid = Owner::of_process().uid;
    add(&bases, &open(&repo.path, None), tree, Kind::Image, uid).expect("built");

    let fetcher = Arc::new(Fetcher { bases: bases.dir().to_owned(), asked: Mutex::default() });
    let asked = || std::mem::take(&mut *fetcher.asked.lock().expect("no panic"));
    let opened = open(&clone, Some(fetcher.clone()));
    // A checkout, and an image with another owner, need no fetch.
    let checkout = add(&bases, &opened, tree, Kind::Directory, uid).expect("built");
    assert_eq!(fs::read(checkout.files().join("large")).expect("read"), vec![b'l'; 3 << 20]);
    add(&bases, &opened, tree, Kind::Image, uid + 1).expect("built");
    assert_eq!(asked(), []);
    // Contents of a base do not count as objects of the repository.
    let (file, large) = (oid(&repo, "HEAD:dir2/file47"), oid(&repo, "HEAD:large"));
    assert!(!opened.objects().contains(&file) && !opened.objects().has(&file).unwrap_or(false));
    assert_eq!(asked(), [file]);
    opened.objects().fetch_missing(&mut [file].into_iter()).expect_err("it is promised");
    assert_eq!(asked(), [file]);

    let mut reader = opened.objects().reader();
    assert_eq!(reader.size(&file).expect("found"), 47 * 20 * 3);
    assert_eq!(reader.read(&file).expect("read").1, "47\n".repeat(47 * 20).as_bytes());
    let mut streamed = 0;
    reader
        .stream(&large, &mut |piece| {
            streamed += piece.len();
            Ok(())
        })
        .expect("streamed");
    assert_eq!((streamed, asked()), (3 << 20, vec![]));

    // One byte of each content is damaged: both objects are fetched, and no damaged object is
    // returned as complete.
    let data = bases.dir().join("blobs/1.data");
    let mut bytes = fs::read(&data).expect("read");
    let at = bytes.find(b"47\n47\n").expect("stored");
    bytes[at] = b'X';
    let at = bytes.find([b'l'; 1000]).expect("stored");
    bytes[at + 2_000_000] = b'X';
    fs::write(&data, bytes).expect("written");
    let mut reader = opened.objects().reader();
    reader.read(&file).expect_err("damaged here, and not sent");
    assert_eq!(asked(), [file]);
    reader.stream(&large, &mut |_| Ok(())).expect_err("damaged");
    reader.stream(&large, &mut |_| Ok(())).expect_err("not sent");
    assert_eq!(asked(), [large]);

    // Contents that are added later are found.
    repo.write("later", "later\n");
    repo.commit("two");
    let later = oid(&repo, "HEAD:later");
    reader.read(&later).expect_err("not here");
    assert_eq!(asked(), [later]);
    add(&bases, &open(&repo.path, None), oid(&repo, "HEAD^{tree}"), Kind::Image, uid).expect("built");
    assert_eq!(reader.read(&later).expect("read").1, b"later\n");
    assert_eq!(asked(), []);
}
