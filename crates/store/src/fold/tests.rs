use std::io::Write as _;

use format::{Kind, hash::Hasher};

use super::*;
use crate::objects::{self, ObjectTransaction, PackOnAdd};

struct Place<'s> {
    repo: testkit::Repo<'s>,
    objects: PathBuf,
    fsync: Fsync,
}

impl<'s> Place<'s> {
    fn new(sandbox: &'s testkit::Sandbox) -> Place<'s> {
        let repo = sandbox.init("repo");
        let objects = repo.join(".git/objects");
        Place { repo, objects, fsync: Fsync::default() }
    }

    /// Publishes a pack with two blobs of its own and one that is in all packs.
    fn add(&self, number: usize) {
        let options = objects::Options {
            pack_on_add: PackOnAdd::From(1),
            ..objects::Options::new(&self.objects, &self.fsync)
        };
        let transaction = ObjectTransaction::new(options);
        for content in [format!("one {number}"), "of all".into(), format!("two {number}")] {
            transaction.write(&named(&content), Kind::Blob, content.as_bytes()).expect("staged");
        }
        transaction.publish().expect("published");
    }

    fn options(&self, above: usize) -> Options<'_> {
        Options {
            objects: &self.objects,
            hash: HashKind::Sha1,
            shared: SharedRepository::Umask,
            fsync: &self.fsync,
            pack_size_limit: None,
            reverse_index: true,
            above,
        }
    }

    fn fold(&self, above: usize) -> usize {
        fold(&self.options(above)).expect("nothing fails")
    }

    fn names(&self, extension: &str) -> Vec<PathBuf> {
        let listed = by_path::list(&self.objects.join("pack")).expect("readable");
        let paths = listed.into_iter().map(|(name, _)| self.objects.join("pack").join(name));
        let mut names: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
        names.sort();
        names
    }

    /// Checks that all objects of `numbers` exist, and that `fsck` finds no error.
    fn check(&self, numbers: std::ops::Range<usize>) {
        self.repo.git(&["fsck", "--strict"]);
        for number in numbers {
            for content in [format!("one {number}"), "of all".into(), format!("two {number}")] {
                let found = self.repo.git(&["cat-file", "blob", &named(&content).to_string()]);
                assert_eq!(found.stdout, content.as_bytes());
            }
        }
    }
}

fn named(content: &str) -> ObjectId {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
    hasher.update(content.as_bytes());
    hasher.finish().expect("no collision")
}

#[test]
fn packs_become_one() {
    let sandbox = testkit::Sandbox::new();
    let place = Place::new(&sandbox);
    (0..6).for_each(|number| place.add(number));
    assert_eq!(place.fold(6), 0);
    assert_eq!(place.names("pack").len(), 6);
    assert_eq!(place.fold(5), 6);
    assert_eq!((place.names("pack").len(), place.names("idx").len(), place.names("rev").len()), (1, 1, 1));
    let count = place.repo.git(&["count-objects", "-v"]).stdout;
    assert!(String::from_utf8_lossy(&count).contains("in-pack: 13\n"));
    place.check(0..6);
    assert_eq!(place.fold(0), 0, "one pack is no work");
}

#[test]
fn a_transaction_folds() {
    let sandbox = testkit::Sandbox::new();
    let place = Place::new(&sandbox);
    let options = objects::Options {
        pack_on_add: PackOnAdd::From(1),
        fold_above: Some(3),
        ..objects::Options::new(&place.objects, &place.fsync)
    };
    for number in 0..4 {
        assert_eq!(place.names("pack").len(), number);
        let transaction = ObjectTransaction::new(options);
        for content in [format!("one {number}"), "of all".into(), format!("two {number}")] {
            transaction.write(&named(&content), Kind::Blob, content.as_bytes()).expect("staged");
        }
        transaction.publish().expect("published");
    }
    assert_eq!(place.names("pack").len(), 1);
    place.check(0..4);
}

#[test]
fn leaves_other_packs_alone() {
    let sandbox = testkit::Sandbox::new();
    let place = Place::new(&sandbox);
    // A pack of Git, with deltas.
    let mut text = String::new();
    for number in 0..20 {
        text += &format!("line {number} of a file that grows and grows\n").repeat(20);
        place.repo.write("file", &text);
        place.repo.commit("more");
    }
    place.repo.git(&["repack", "-q", "-a", "-d"]);
    let of_git = place.names("pack");
    (0..3).for_each(|number| place.add(number));
    // Packs with companion files.
    let mut marked = Vec::new();
    for (path, extension) in place
        .names("pack")
        .into_iter()
        .filter(|path| !of_git.contains(path))
        .zip(["keep", "promisor", "mtimes"])
    {
        if extension != "mtimes" {
            by_path::create_new(&path.with_extension(extension), 0o600).expect("created");
        } else {
            by_path::create_new(&path.with_extension("bitmap"), 0o600).expect("created");
        }
        marked.push(path);
    }
    (3..6).for_each(|number| place.add(number));
    let before = place.names("pack");
    assert_eq!(place.fold(3), 0, "three remain");
    assert_eq!(place.names("pack"), before);
    assert_eq!(place.fold(2), 3);
    let after = place.names("pack");
    assert_eq!(after.len(), 5);
    assert!(of_git.iter().chain(&marked).all(|path| after.contains(path)));
    for path in &marked {
        let _ = by_path::remove_file(&path.with_extension("bitmap"));
    }
    place.check(0..6);
    // Packs in a multi-pack-index.
    (6..9).for_each(|number| place.add(number));
    place.repo.git(&["multi-pack-index", "write"]);
    (9..11).for_each(|number| place.add(number));
    assert_eq!(place.fold(1), 2);
    place.repo.git(&["multi-pack-index", "verify"]);
    place.check(0..11);
}

#[test]
fn damaged_packs_stay_as_they_are() {
    let sandbox = testkit::Sandbox::new();
    let place = Place::new(&sandbox);
    (0..4).for_each(|number| place.add(number));
    let damaged = place.names("pack")[1].clone();
    let mut content = by_path::read(&damaged).expect("read").expect("there");
    let at = content.len() - 24;
    content[at] ^= 1;
    by_path::remove_file(&damaged).expect("removed");
    by_path::create_new(&damaged, 0o644).expect("created").write_all(&content).expect("written");
    assert_eq!(place.fold(3), 3);
    let after = place.names("pack");
    assert_eq!(after.len(), 2);
    assert!(after.contains(&damaged));
    assert_eq!(by_path::read(&damaged).expect("read"), Some(content));
}

#[test]
fn waits_for_no_other_maintenance() {
    let sandbox = testkit::Sandbox::new();
    let place = Place::new(&sandbox);
    (0..4).for_each(|number| place.add(number));
    let git_dir = place.objects.parent().expect("it has one");
    for path in [place.objects.join("maintenance.lock"), git_dir.join("gc.pid")] {
        by_path::create_new(&path, 0o644).expect("created");
        assert_eq!(place.fold(1), 0);
        assert_eq!(place.names("pack").len(), 4);
        by_path::remove_file(&path).expect("removed");
    }
    for (owner, folds) in [(u64::from(std::process::id()), false), (u64::from(u32::MAX >> 2), true)] {
        let path = place.objects.join("maintenance.lock");
        let mut left = by_path::create_new(&path, 0o644).expect("created");
        left.write_all(format!("sapwood {owner}\n").as_bytes()).expect("written");
        assert_eq!(lock_maintenance(&place.options(1)).is_some(), folds);
        let _ = by_path::remove_file(&path);
    }
    let limited = Options { pack_size_limit: Some(20), ..place.options(1) };
    assert_eq!(fold(&limited).expect("nothing fails"), 0);
    assert_eq!(place.fold(1), 4);
    place.check(0..4);
    assert!(!place.objects.join("maintenance.lock").exists());
}
