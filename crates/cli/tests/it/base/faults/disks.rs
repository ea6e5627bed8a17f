//! Full disks, at each place that a push or a pull writes to.

use std::{fs, io::Write as _, path::Path};

use testkit::{disk::Disk, noise};

use super::{Case, play, scene::Scene};

const NO_ROOM: &str = "No space left on device";

/// Fills a file system, but for `left` bytes.
fn fill(dir: &Path, left: usize) {
    fs::write(dir.join("room"), vec![0; left]).expect("room");
    let mut filler = fs::File::create(dir.join("filler")).expect("created");
    let block = noise(4096, 1);
    while filler.write_all(&block).is_ok() {}
    let mut rest = fs::File::create(dir.join("rest")).expect("created");
    while rest.write_all(&[0]).is_ok() {}
    fs::remove_file(dir.join("room")).expect("removed");
}

fn relieve(dir: &Path) {
    for name in ["filler", "rest"] {
        fs::remove_file(dir.join(name)).expect("removed");
    }
}

/// Mounts a disk of 32 MiB, with `left` bytes of room, on an empty directory.
fn small(dir: &Path, left: usize) -> Option<Disk> {
    fs::create_dir_all(dir).expect("created");
    let disk = Disk::in_memory(32, dir)?;
    fill(dir, left);
    Some(disk)
}

/// Pulls with so much room in the base directory.
fn pull_into(scene: &Scene, left: usize) {
    let Some(_disk) = small(&scene.host_bases(), left) else { return };
    scene.pull_refused(&[NO_ROOM]);
    relieve(&scene.host_bases());
    scene.works();
}

/// Pushes with so much room at the remote.
fn push_into(scene: &Scene, left: usize) {
    let dir = scene.fleet.dir();
    fs::remove_dir_all(&dir).expect("removed");
    let Some(_disk) = small(&dir, left) else { return };
    scene.push_refused(&[NO_ROOM]);
    relieve(&dir);
    scene.push_works();
}

const CASES: &[Case] = &[
    ("pull: no room for anything in the base directory", |scene| pull_into(scene, 0)),
    ("pull: room for the history in the base directory", |scene| pull_into(scene, 200 << 10)),
    ("pull: room for a part of the contents", |scene| pull_into(scene, 2 << 20)),
    ("pull: room for the contents, none for the base", |scene| pull_into(scene, (3 << 20) + (150 << 10))),
    ("pull: no room in the repository", |scene| {
        let objects = scene.host().join(".git/objects");
        let Some(_disk) = small(&objects, 0) else { return };
        scene.pull_refused(&[NO_ROOM]);
        relieve(&objects);
        scene.works();
    }),
    ("push: no room at the remote", |scene| push_into(scene, 0)),
    ("push: room for a part of the contents", |scene| push_into(scene, 1 << 20)),
    ("push: room for the contents alone", |scene| push_into(scene, (3 << 20) + (12 << 10))),
    ("push: no room for files on their way", |scene| {
        scene.change("three\n");
        let bases = scene.fleet.origin().join(".git/sapwood/bases");
        let _ = fs::remove_dir_all(&bases);
        let Some(_disk) = small(&bases, 0) else { return };
        scene.push_refused(&[NO_ROOM]);
        relieve(&bases);
        scene.push_works();
    }),
];

#[test]
fn full_disks() {
    play(CASES);
}
