//! Bases that were not durable when the machine stopped: they are built again before anything uses
//! them, and durable bases in the same files are not harmed.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{LazyLock, atomic::AtomicBool},
};

use engine::workspace::base::{Act, AddOptions, Base, Bases, Error, Kind, Owner, Persist, Wanted};
use repo::{OpenOptions, Repository};
use store::{Fsync, SharedRepository};
use testkit::{
    Repo, Sandbox,
    disk::Disk,
    weather::{Fault, Journal, Mount, Nth, Operation, Profile, Survivors, usable},
};

use crate::place::{self, Place, oid};

static SYNCED: LazyLock<Fsync> = LazyLock::new(Fsync::default);

const OTHER_BOOT: &str = "00000000-0000-0000-0000-000000000000";

fn options(persist: Persist) -> AddOptions<'static> {
    AddOptions { persist, fsync: &SYNCED, ..place::add_options() }
}

/// A repository with three commits. Each one has contents that no other has.
fn project(sandbox: &Sandbox) -> (Repo<'_>, Repository) {
    let repo = sandbox.init("repo");
    for commit in 0..3 {
        for number in 0..40 {
            repo.write(
                format!("dir{number}/file{commit}"),
                format!("{commit} {number}\n").repeat(number * 9),
            );
        }
        repo.write("changed", format!("{commit}\n"));
        repo.symlink("changed", format!("link{commit}"));
        repo.commit("more");
    }
    let options = OpenOptions { cwd: repo.path.clone(), ..OpenOptions::default() };
    let opened = Repository::open(&options).expect("a repository");
    (repo, opened)
}

struct Trees<'r> {
    repo: &'r Repo<'r>,
    opened: &'r Repository,
    kind: Kind,
}

impl Trees<'_> {
    fn wanted(&self, name: &str) -> Wanted<'_> {
        let tree = oid(self.repo, &format!("{name}^{{tree}}"));
        Wanted::new(self.opened, tree, self.kind, Owner::of_process(), None).expect("settings")
    }

    fn add(&self, bases: &Bases, name: &str, persist: Persist) -> Result<Base, Error> {
        place::add(bases, &self.wanted(name), &options(persist))
    }

    fn is_sound(&self, base: &Base) {
        let verified = base.verify(Some(self.opened), 1).expect("read");
        assert_eq!((verified.flaws, verified.unknown), (Vec::new(), 0), "{}", base.dir.display());
    }
}

fn blobs(bases: &Bases, name: &str) -> PathBuf {
    bases.dir().join("blobs").join(name)
}

/// Writes another boot into everything that has the present one, as if the machine had been started
/// again since.
fn start_again(bases: &Bases) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    let (now, then) = (boot.trim_end().as_bytes(), OTHER_BOOT.as_bytes());
    let records =
        fs::read_dir(bases.dir()).into_iter().flatten().map(|entry| entry.expect("an entry").path());
    let pending = fs::read_dir(bases.dir().join("blobs")).into_iter().flatten();
    let pending = pending.map(|entry| entry.expect("an entry").path());
    let pending = pending.filter(|path| path.extension().is_some_and(|end| end == "pending"));
    for path in records.map(|dir| dir.join("record")).chain(pending) {
        let Ok(mut bytes) = fs::read(&path) else { continue };
        if let Some(at) = bytes.windows(now.len()).position(|window| window == now) {
            bytes[at..at + now.len()].copy_from_slice(then);
            fs::write(&path, bytes).expect("written");
        }
    }
}

fn truncate(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).expect("opened").set_len(length).expect("truncated");
}

/// The damage that a crash does to what was not synced: a name, and the deed. It gets the bases,
/// the directory of the lost base, and the length of the durable contents.
type Damage = (&'static str, fn(&Bases, &Path, u64));

const DAMAGES: [Damage; 14] = [
    ("nothing", |_, _, _| {}),
    ("truncated contents", |bases, _, durable| truncate(&blobs(bases, "1.data"), durable + 700)),
    ("no contents", |bases, _, durable| truncate(&blobs(bases, "1.data"), durable)),
    ("zeros in the contents", |bases, _, durable| {
        let file = fs::File::options().write(true).open(blobs(bases, "1.data")).expect("opened");
        file.write_all_at(&[0; 3000], durable + 1024).expect("written");
    }),
    ("no pending records", |bases, _, _| fs::remove_file(blobs(bases, "1.pending")).expect("removed")),
    ("empty pending records", |bases, _, _| truncate(&blobs(bases, "1.pending"), 0)),
    ("torn pending records", |bases, _, _| truncate(&blobs(bases, "1.pending"), 300)),
    ("an empty image", |_, base, _| truncate(&base.join("image"), 0)),
    ("a torn image", |_, base, _| truncate(&base.join("image"), 1500)),
    ("no image", |_, base, _| fs::remove_file(base.join("image")).expect("removed")),
    ("no index", |_, base, _| {
        truncate(&base.join("index"), 0);
        fs::remove_file(base.join("rest")).expect("removed");
    }),
    ("an empty record", |_, base, _| truncate(&base.join("record"), 0)),
    ("a replacement that was killed", |bases, base, _| {
        let name = format!(".old-{}", base.file_name().expect("a name").to_str().expect("plain"));
        fs::rename(base, bases.dir().join(name)).expect("renamed");
    }),
    ("a record of zeros", |_, base, _| {
        let length = fs::metadata(base.join("record")).expect("there").len();
        fs::write(base.join("record"), vec![0; length as usize]).expect("written");
    }),
];

#[test]
fn a_lost_image_is_built_again_whatever_the_disk_kept() {
    let sandbox = Sandbox::new();
    let (repo, opened) = project(&sandbox);
    let trees = Trees { repo: &repo, opened: &opened, kind: Kind::Image };
    for (name, damage) in DAMAGES {
        let place = Place::new();
        let bases = place.bases();
        let durable = trees.add(&bases, "HEAD~1", Persist::Now).expect("built");
        assert_eq!(durable.pending, None);
        let length = fs::metadata(blobs(&bases, "1.data")).expect("there").len();
        let index = fs::read(blobs(&bases, "1.index")).expect("read");
        let base = trees.add(&bases, "HEAD", Persist::Later).expect("built");
        assert!(base.pending.is_some() && !base.is_lost(), "{name}");
        assert_eq!(fs::read(blobs(&bases, "1.index")).expect("read"), index, "no record vouches for it");
        trees.is_sound(&base);
        assert_eq!(bases.find(&trees.wanted("HEAD")).expect("read"), Some(base.clone()));
        damage(&bases, &base.dir, length);
        start_again(&bases);
        assert_eq!(bases.find(&trees.wanted("HEAD")).expect("read"), None, "{name}");
        assert!(bases.has_lost(&base.name).expect("read"), "{name}");
        assert!(!bases.has_lost(&durable.name).expect("read"), "{name}");
        // Contents of a third commit come to where the lost ones were.
        let third = trees.add(&bases, "HEAD~2", Persist::Later).expect("built");
        let again = trees.add(&bases, "HEAD", Persist::Later).expect(name);
        assert_eq!(again.name, base.name);
        [&durable, &third, &again].into_iter().for_each(|base| trees.is_sound(base));
        let hard = again.harden().expect("synced");
        assert_eq!((hard.pending, blobs(&bases, "1.pending").exists()), (None, false), "{name}");
        start_again(&bases);
        let found = bases.find(&trees.wanted("HEAD")).expect("read").expect("durable");
        trees.is_sound(&found);
        let freed = bases.gc(SharedRepository::Umask, Act::Remove, &AtomicBool::new(false));
        freed.expect("collected");
        [&durable, &found].into_iter().for_each(|base| trees.is_sound(base));
    }
}

#[test]
fn contents_that_survived_are_not_written_again() {
    let sandbox = Sandbox::new();
    let (repo, opened) = project(&sandbox);
    let trees = Trees { repo: &repo, opened: &opened, kind: Kind::Image };
    let place = Place::new();
    let bases = place.bases();
    trees.add(&bases, "HEAD", Persist::Later).expect("built");
    let length = || fs::metadata(blobs(&bases, "1.data")).expect("there").len();
    let before = length();
    start_again(&bases);
    let again = trees.add(&bases, "HEAD", Persist::Later).expect("built");
    assert_eq!(length(), before);
    trees.is_sound(&again);
}

#[test]
fn a_durable_base_syncs_the_pending_contents_that_it_names() {
    let sandbox = Sandbox::new();
    let (repo, opened) = project(&sandbox);
    let trees = Trees { repo: &repo, opened: &opened, kind: Kind::Image };
    let place = Place::new();
    let bases = place.bases();
    trees.add(&bases, "HEAD", Persist::Later).expect("built");
    assert!(blobs(&bases, "1.pending").exists());
    // All contents of this one are there.
    trees.add(&bases, "HEAD~1", Persist::Now).expect("built");
    assert!(!blobs(&bases, "1.pending").exists());
    let later = trees.add(&bases, "HEAD", Persist::Now).expect("there");
    assert_eq!(later.pending, None, "it was asked for");
    start_again(&bases);
    trees.is_sound(&bases.find(&trees.wanted("HEAD")).expect("read").expect("durable"));
}

#[test]
fn a_lost_directory_is_built_again() {
    let sandbox = Sandbox::new();
    let (repo, opened) = project(&sandbox);
    let trees = Trees { repo: &repo, opened: &opened, kind: Kind::Directory };
    let damages: [fn(&Path); 5] = [
        |base| truncate(&base.join("files/changed"), 0),
        |base| fs::remove_file(base.join("files/dir7/file0")).expect("removed"),
        |base| truncate(&base.join("index"), 100),
        |base| truncate(&base.join("proof"), 0),
        |base| truncate(&base.join("record"), 0),
    ];
    for damage in damages {
        let place = Place::new();
        let bases = place.bases();
        let base = trees.add(&bases, "HEAD", Persist::Later).expect("built");
        damage(&base.dir);
        start_again(&bases);
        assert_eq!(bases.find(&trees.wanted("HEAD")).expect("read"), None);
        let again = trees.add(&bases, "HEAD", Persist::Later).expect("built");
        trees.is_sound(&again);
        assert_eq!(again.harden().expect("synced").pending, None);
        start_again(&bases);
        trees.is_sound(&bases.find(&trees.wanted("HEAD")).expect("read").expect("durable"));
    }
}

#[test]
fn a_full_disk_leaves_nothing_of_a_base_that_becomes_durable_later() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = sandbox.init("repo");
    repo.write("big", vec![b'b'; 4 << 20]);
    repo.write("small", "small\n");
    repo.commit("one");
    let opened = Repository::open(&OpenOptions { cwd: repo.path.clone(), ..OpenOptions::default() });
    let opened = opened.expect("a repository");
    let point = place.path().join("small");
    fs::create_dir(&point).expect("created");
    let Some(_disk) = Disk::in_memory(3, &point) else { return };
    let bases = Bases::at(&point.join("bases"));
    let outcome =
        Trees { repo: &repo, opened: &opened, kind: Kind::Image }.add(&bases, "HEAD", Persist::Later);
    let Err(Error::Io { source, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(fs::read_dir(bases.dir().join("blobs")).expect("listed").count(), 0);
}

/// The operations that change a disk.
const CHANGES: [Operation; 9] = [
    Operation::Mkdir,
    Operation::Create,
    Operation::Symlink,
    Operation::Link,
    Operation::Unlink,
    Operation::Write,
    Operation::Rename,
    Operation::Fsync,
    Operation::Fsyncdir,
];

/// A durable base, then one that is made durable later, and the power fails at each change.
#[test]
fn no_power_cut_makes_a_torn_base_usable() {
    if usable().is_err() {
        eprintln!("skipped: no FUSE");
        return;
    }
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for name in ["one", "two"] {
        repo.write(name, format!("{name}\n").repeat(300));
        repo.write("changed", name);
        repo.commit(name);
    }
    let opened = Repository::open(&OpenOptions { cwd: repo.path.clone(), ..OpenOptions::default() });
    let opened = opened.expect("a repository");
    let trees = Trees { repo: &repo, opened: &opened, kind: Kind::Image };
    let place = Place::new();
    let mut cuts = 0;
    for (journal, operations) in [(Journal::Strict, &CHANGES[..]), (Journal::Ordered, &CHANGES[6..])] {
        for &operation in operations {
            for nth in 1.. {
                let name = format!("{journal:?}-{}-{nth}", operation.name());
                let made = |end: &str| {
                    let dir = place.path().join(format!("{name}-{end}"));
                    fs::create_dir(&dir).expect("a new directory");
                    dir
                };
                let (backing, at) = (made("backing"), made("disk"));
                // Everything that is there before the mount is durable.
                let before = Bases::at(&backing.join("bases"));
                trees.add(&before, "HEAD~1", Persist::Now).expect("built");
                let disk = Mount::over(&Profile::power(journal), &backing, &at).expect("mounted");
                let bases = Bases::at(&at.join("bases"));
                disk.set_faults(vec![Fault::cut(operation).nth(Nth::From(nth))]);
                let hard = trees.add(&bases, "HEAD", Persist::Later).and_then(|base| base.harden());
                let was_cut = disk.is_cut();
                assert_eq!(hard.is_ok(), !was_cut, "{name}: {hard:?}");
                let disk = disk.pull_plug(Survivors::Some { seed: nth }).expect("the disk is made anew");
                start_again(&bases);
                let durable = bases.find(&trees.wanted("HEAD~1")).expect("read").expect("durable");
                trees.is_sound(&durable);
                let found = bases.find(&trees.wanted("HEAD")).expect("read");
                assert!(was_cut || found.is_some(), "{name}: it was durable");
                found.iter().for_each(|base| trees.is_sound(base));
                let again = trees.add(&bases, "HEAD", Persist::Now).expect(&name);
                [&durable, &again].into_iter().for_each(|base| trees.is_sound(base));
                drop(disk);
                if !was_cut {
                    break;
                }
                cuts += 1;
            }
        }
    }
    assert!(cuts > 20, "{cuts} cuts");
}
