//! Files of a remote that are damaged, old, missing or forged.

use std::fs;

use super::{
    super::{base, base_done},
    Case, play,
    scene::{Damage, Scene, Stored, replace},
};

const CASES: &[Case] = &[
    ("manifest: half of it", |scene| {
        scene.damage(Stored::Manifest, Damage::Cut);
        scene.pull_refused(&["the record 'commits/", "is damaged"]);
        scene.recovers();
    }),
    ("manifest: empty", |scene| {
        scene.damage(Stored::Manifest, Damage::Empty);
        scene.pull_refused(&["is damaged"]);
        scene.recovers();
    }),
    ("manifest: missing", |scene| {
        scene.damage(Stored::Manifest, Damage::Remove);
        scene.pull_refused(&["has no base of commit", "push it, or name another commit"]);
        scene.recovers();
    }),
    ("manifest: that of another commit", |scene| {
        scene.push_parent();
        scene.keep_sound();
        let parent = scene.manifest(&scene.fleet.commit("HEAD~1"));
        replace(&scene.manifest(&scene.head()), &fs::read(parent).expect("a manifest"));
        scene.pull_refused(&["is damaged: it is about commit"]);
        scene.recovers();
    }),
    ("manifest: of the next version", |scene| {
        scene.forge(|json| json["version"] = 2.into());
        scene.pull_refused(&["version 2"]);
        scene.recovers();
    }),
    ("manifest: names a path outside of the remote", |scene| {
        scene.forge(|json| json["packs"][0]["digest"] = "../../../../etc/passwd".into());
        scene.pull_refused(&["is damaged"]);
        scene.recovers();
    }),
    ("manifest: another tree", |scene| {
        let tree = scene.fleet.origin().git(&["rev-parse", "HEAD~1^{tree}"]).stdout.to_string();
        scene.forge(|json| json["tree"] = tree.trim().into());
        scene.pull_refused(&["tree"]);
        scene.recovers();
    }),
    ("manifest: a directory is in its place", |scene| {
        scene.keep_sound();
        let path = scene.manifest(&scene.head());
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("created");
        scene.pull_refused(&["commits/"]);
        scene.recovers();
    }),
    ("table: one bit", |scene| {
        scene.damage(Stored::Table, Damage::Flip);
        scene.pull_refused(&["the file data/", "is damaged", "remove it there and push the base again"]);
        scene.recovers();
    }),
    ("table: half of it", |scene| {
        scene.damage(Stored::Table, Damage::Cut);
        scene.pull_refused(&["data/"]);
        scene.recovers();
    }),
    ("table: missing", |scene| {
        scene.damage(Stored::Table, Damage::Remove);
        scene.pull_refused(&["lacks the file data/", "push the base again to mend it"]);
        scene.recovers();
    }),
    ("segment: one bit", |scene| {
        scene.damage(Stored::Segment, Damage::Flip);
        scene.pull_refused(&["the file data/", "is damaged"]);
        scene.recovers();
    }),
    ("segment: half of it", |scene| {
        scene.damage(Stored::Segment, Damage::Cut);
        scene.pull_refused(&["data/"]);
        scene.recovers();
    }),
    ("segment: missing", |scene| {
        scene.damage(Stored::Segment, Damage::Remove);
        scene.pull_refused(&["lacks the file data/"]);
        scene.recovers();
    }),
    ("pack: one bit", |scene| {
        scene.damage(Stored::Pack, Damage::Flip);
        scene.pull_refused(&["the file data/", "is damaged"]);
        scene.recovers();
    }),
    ("pack: half of it", |scene| {
        scene.damage(Stored::Pack, Damage::Cut);
        scene.pull_refused(&["data/"]);
        scene.recovers();
    }),
    ("pack: missing", |scene| {
        scene.damage(Stored::Pack, Damage::Remove);
        scene.pull_refused(&["lacks the file data/"]);
        scene.recovers();
    }),
    ("pack: that of another commit, under its right name", |scene| {
        let other = scene.json()["packs"][0].clone();
        scene.change("three\n");
        assert_eq!(scene.push().code, 0);
        scene.forge(|json| json["packs"] = vec![other].into());
        scene.pull_refused(&["lacks the object"]);
        scene.recovers();
    }),
    ("list of a pack: one bit", |scene| list_damaged(scene, Damage::Flip)),
    ("list of a pack: half of it", |scene| list_damaged(scene, Damage::Cut)),
    ("list of a pack: empty", |scene| list_damaged(scene, Damage::Empty)),
    ("list of a pack: missing", |scene| list_damaged(scene, Damage::Remove)),
    ("push: a table that it could use again is too short, and there is no copy", |scene| {
        scene.damage(Stored::Table, Damage::Cut);
        scene.pull_refused(&["data/", "remove it there and push the base again"]);
        scene.forget_copies();
        scene.change("three\n");
        scene.push_works();
    }),
    ("table and segment: right digests, but the ids of two contents are exchanged", |scene| {
        let table = fs::read(scene.file(Stored::Table)).expect("a table");
        let number =
            |at: usize| u32::from_be_bytes(table[at..at + 4].try_into().expect("four bytes")) as usize;
        let (frames, contents) = (number(12), number(16));
        let start = 24 + frames * 40;
        let record = |at: usize| start + at * 28;
        let size = |at: usize| &table[record(at) + 20..record(at) + 28];
        let pairs = (0..contents).flat_map(|one| (0..one).map(move |other| (one, other)));
        let (one, other) = { pairs }.find(|(one, other)| size(*one) == size(*other)).expect("equal sizes");
        let mut forged = table.clone();
        for at in 0..20 {
            forged.swap(record(one) + at, record(other) + at);
        }
        let digest = scene.store(&forged);
        scene.forge(|json| json["tables"][0]["digest"] = digest.into());
        scene.pull_refused(&["is damaged"]);
        scene.recovers();
    }),
    ("branch: half of it", |scene| {
        scene.damage(Stored::Branch, Damage::Cut);
        let run = base(&scene.host(), &["pull", "--branch", "main", &scene.remote()]);
        scene.refused(&run, 128, &["the record 'branches/main' is damaged"]);
        // A commit is pulled without it, and the next push writes it again.
        scene.works();
        scene.change("three\n");
        scene.push_works();
        base_done(&scene.host(), &["pull", "-q", "--branch", "main", &scene.remote()]);
    }),
    ("branch: the one of yesterday", |scene| {
        let yesterday = fs::read(scene.file(Stored::Branch)).expect("the record");
        let old = scene.head();
        scene.change("three\n");
        assert_eq!(scene.push().code, 0);
        replace(&scene.file(Stored::Branch), &yesterday);
        let host = scene.host();
        base_done(&host, &["pull", "-q", "--branch", "main", &scene.remote()]);
        scene.fleet.works_at(&host, &old);
        scene.works();
    }),
    ("branch: its newest base is gone", |scene| {
        let old = scene.head();
        scene.change("three\n");
        assert_eq!(scene.push().code, 0);
        scene.damage(Stored::Manifest, Damage::Remove);
        let host = scene.host();
        base_done(&host, &["pull", "-q", "--branch", "main", &scene.remote()]);
        scene.fleet.works_at(&host, &old);
        scene.recovers();
    }),
    ("push: what it could use again is damaged", |scene| {
        scene.damage(Stored::Table, Damage::Flip);
        scene.change("three\n");
        // The host that wrote the table has a copy of it, so the new base names the damaged one.
        assert_eq!(scene.push().code, 0);
        scene.pull_refused(&["is damaged", "remove it there and push the base again"]);
        fs::remove_file(scene.file(Stored::Table)).expect("the table");
        scene.push_works();
    }),
];

/// A pull reads no list. A push that has no copy of it leaves the pack out, and sends all objects.
fn list_damaged(scene: &Scene, damage: Damage) {
    scene.damage(Stored::List, damage);
    scene.works();
    scene.forget_copies();
    let pack = scene.json()["packs"][0]["digest"].clone();
    scene.change("three\n");
    scene.push_works();
    let packs = scene.json()["packs"].clone();
    assert!(packs.as_array().is_some_and(|packs| packs.iter().all(|one| one["digest"] != pack)), "{packs}");
}

#[test]
fn damaged_files() {
    play(CASES);
}
