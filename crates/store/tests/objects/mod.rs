//! Counts flushes and cuts the power, on a simulated disk. Without FUSE these tests do nothing.

use std::path::Path;

use format::{HashKind, Kind, ObjectId, hash::Hasher, index::Index};
use store::{
    Components, Fsync, LockOptions, Method,
    fold::{self, fold},
    index::{self, WriteOptions},
    objects::{ObjectTransaction, Options, PackOnAdd},
};
use testkit::{
    Sandbox,
    weather::{self, Fault, Journal, Mount, Nth, Operation, Profile, Survivors},
};

fn disk(profile: &Profile) -> Option<(Sandbox, Mount)> {
    weather::usable().ok()?;
    let sandbox = Sandbox::new();
    let mount = Mount::new(profile, &sandbox.path()).expect("a disk");
    Some((sandbox, mount))
}

fn content(number: usize) -> Vec<u8> {
    format!("content {number}\n").repeat(1 + number % 50).into_bytes()
}

fn named(content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
    hasher.update(content);
    hasher.finish().expect("no collision")
}

fn publish(options: Options<'_>, numbers: std::ops::Range<usize>) -> Result<(), store::Error> {
    let transaction = ObjectTransaction::new(options);
    for number in numbers {
        let content = content(number);
        transaction.write(&named(&content), Kind::Blob, &content)?;
    }
    transaction.publish()
}

fn recording() -> Fsync {
    Fsync::default().for_recording()
}

fn explicit(components: &str, method: Method) -> Fsync {
    let mut fsync = Fsync { method, ..Fsync::default() };
    fsync.set_components(components.into());
    fsync.for_recording()
}

/// Returns the number of directories that contain the objects with these numbers.
fn directories(numbers: std::ops::Range<usize>) -> u64 {
    let firsts: std::collections::HashSet<u8> =
        numbers.map(|number| named(&content(number)).as_bytes()[0]).collect();
    firsts.len() as u64
}

#[test]
fn flushes_do_not_grow_with_the_number_of_objects() {
    let batch = explicit("loose-object", Method::Batch);
    let few = directories(0..5);
    for (name, fsync, on_add, count, files, dirs) in [
        ("a pack", recording(), PackOnAdd::Auto, 500, 3, 1),
        ("a larger pack", recording(), PackOnAdd::Auto, 2000, 3, 1),
        ("loose objects", recording(), PackOnAdd::Auto, 5, 5, few + 1),
        ("a batch", batch, PackOnAdd::Auto, 500, 3, 1),
        ("a batch of few", batch, PackOnAdd::Auto, 5, 1, few + 1),
        ("none", explicit("none", Method::Fsync), PackOnAdd::Auto, 500, 0, 0),
        ("the default of Git", explicit("", Method::Fsync), PackOnAdd::Never, 5, 0, 0),
        (
            "only loose objects",
            explicit("-pack,-pack-metadata,loose-object", Method::Fsync),
            PackOnAdd::Auto,
            5,
            5,
            few + 1,
        ),
        ("their pages only", explicit("loose-object", Method::WriteoutOnly), PackOnAdd::Auto, 5, 0, 0),
    ] {
        let Some((sandbox, mount)) = disk(&Profile::calm()) else { return };
        let repo = sandbox.init("disk/repo");
        let objects = repo.join(".git/objects");
        let before = mount.counts();
        publish(Options { pack_on_add: on_add, ..Options::new(&objects, &fsync) }, 0..count)
            .expect("published");
        let since = mount.counts().since(&before);
        assert_eq!((since.of(Operation::Fsync), since.of(Operation::Fsyncdir)), (files, dirs), "{name}");
        repo.git(&["fsck", "--strict"]);
        mount.end().expect("nobody is left");
    }
}

#[test]
fn the_index_is_synced_with_its_directory() {
    for (fsync, split, files, dirs) in [
        (recording(), false, 1, 1),
        (recording(), true, 2, 2),
        (Fsync::default(), false, 0, 0),
        (explicit("index", Method::Fsync), true, 2, 2),
        (explicit("index", Method::WriteoutOnly), true, 0, 0),
        (Fsync { disabled: true, ..recording() }, true, 0, 0),
    ] {
        let Some((sandbox, mount)) = disk(&Profile::calm()) else { return };
        let path = sandbox.init("disk/repo").join(".git/index");
        let before = mount.counts();
        let lock = index::lock(&path, &LockOptions::default()).expect("free");
        let options = WriteOptions { split: Some(split), ..WriteOptions::default() };
        let mut index = Index::empty(HashKind::Sha1);
        index::commit(lock, &mut index, &options, &fsync, &|_, _| false).expect("written");
        let since = mount.counts().since(&before);
        assert_eq!(
            (since.of(Operation::Fsync), since.of(Operation::Fsyncdir)),
            (files, dirs),
            "{fsync:?} {split}"
        );
        mount.end().expect("nobody is left");
    }
}

/// Makes all current data durable.
fn settle(mount: &Mount) {
    fn below(dir: &Path) {
        for entry in std::fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                below(&path)
            } else {
                std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("synced")
            }
        }
        std::fs::File::open(dir).and_then(|dir| dir.sync_all()).expect("synced");
    }
    below(mount.path());
}

#[test]
fn published_objects_survive_a_power_cut() {
    let batch = explicit("loose-object", Method::Batch);
    for (fsync, on_add, numbers) in [
        (recording(), PackOnAdd::Auto, 0..5),
        (recording(), PackOnAdd::Auto, 0..100),
        (batch, PackOnAdd::Auto, 0..20),
    ] {
        for journal in [Journal::Strict, Journal::Ordered] {
            // The disk model does not support `sync_file_range`, on which a batch depends.
            if fsync.method == Method::Batch && journal == Journal::Strict {
                continue;
            }
            let Some((sandbox, mount)) = disk(&Profile::power(journal)) else { return };
            let repo = sandbox.init("disk/repo");
            settle(&mount);
            let objects = repo.join(".git/objects");
            let options = Options { pack_on_add: on_add, ..Options::new(&objects, &fsync) };
            publish(options, numbers.clone()).expect("published");
            let mount = mount.pull_plug(Survivors::None).expect("the disk is made anew");
            repo.git(&["fsck", "--strict"]);
            for content in numbers.clone().map(content) {
                let found = repo.git(&["cat-file", "blob", &named(&content).to_string()]);
                assert_eq!(found.stdout, content);
            }
            mount.end().expect("nobody is left");
        }
    }
}

#[test]
fn a_fold_survives_a_power_cut_at_each_step() {
    let fsync = Fsync { components: Components::empty(), explicit: true, ..Fsync::default() };
    for operation in [Operation::Rename, Operation::Unlink, Operation::Fsync, Operation::Fsyncdir] {
        for nth in 1..20 {
            let Some((sandbox, mount)) = disk(&Profile::power(Journal::Strict)) else { return };
            let repo = sandbox.init("disk/repo");
            let objects = repo.join(".git/objects");
            for number in 0..3 {
                let options = Options { pack_on_add: PackOnAdd::From(1), ..Options::new(&objects, &fsync) };
                publish(options, number * 2..number * 2 + 2).expect("published");
            }
            settle(&mount);
            mount.set_faults(vec![Fault::cut(operation).nth(Nth::From(nth))]);
            let options = fold::Options {
                objects: &objects,
                hash: HashKind::Sha1,
                shared: store::SharedRepository::Umask,
                fsync: &fsync,
                pack_size_limit: None,
                reverse_index: true,
                above: 1,
            };
            let folded = fold(&options);
            let was_cut = mount.is_cut();
            let survivors = Survivors::Some { seed: nth };
            let mount = mount.pull_plug(survivors).expect("the disk is made anew");
            for content in (0..6).map(content) {
                let found = repo.git(&["cat-file", "blob", &named(&content).to_string()]);
                assert_eq!(found.stdout, content, "{operation:?} {nth}");
            }
            repo.git(&["fsck", "--strict"]);
            mount.end().expect("nobody is left");
            if !was_cut {
                assert_eq!(folded.expect("nothing failed"), 3);
                break;
            }
        }
    }
}
