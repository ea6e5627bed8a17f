#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
};

use bstr::{BString, ByteSlice};
use format::{
    Mode,
    index::{Edit, Flags, NewEntry, Stage, Stat},
};
use testkit::{Repo, Sandbox};

use super::*;

const SHA1: HashKind = HashKind::Sha1;

fn never(_: &BStr, _: &Entry) -> bool {
    false
}

fn take(path: &Path) -> Lock {
    lock(path, &LockOptions::default()).expect("nobody else holds it")
}

/// Loads, changes and commits the index.
fn rewrite(repo: &Repo<'_>, options: &WriteOptions, change: impl FnOnce(&mut Index)) -> Index {
    let path = repo.join(".git/index");
    let held = take(&path);
    let mut index = load(&path, SHA1, &ReadOptions { threads: 2, verify: true, ..ReadOptions::default() })
        .expect("a good index");
    change(&mut index);
    commit(held, &mut index, options, &Fsync::default(), &never).expect("it can be written");
    assert!(!repo.exists(".git/index.lock"));
    index
}

fn files(repo: &Repo<'_>, number: usize) {
    (0..number).for_each(|at| repo.write(format!("dir/{at:03}"), format!("{at}")));
    repo.commit("first");
}

fn staged(repo: &Repo<'_>) -> BString {
    repo.git(&["ls-files", "-s", "-v"]).stdout
}

fn shared_indices(repo: &Repo<'_>) -> Vec<String> {
    let names = fs::read_dir(repo.join(".git")).expect("a repository");
    let names = names.map(|name| name.expect("readable").file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("sharedindex")).collect();
    names.sort();
    names
}

fn blob(repo: &Repo<'_>) -> NewEntry {
    let oid = repo.git(&["hash-object", "-w", "dir/000"]).stdout;
    let oid = ObjectId::from_hex(SHA1, oid.trim_ascii_end()).expect("a name");
    NewEntry { stat: Stat::default(), oid, mode: Mode::FILE, flags: Flags::empty(), stage: Stage::Normal }
}

#[test]
fn creates_a_missing_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("dir/000", "content");
    let entry = blob(&repo);
    let index = rewrite(&repo, &WriteOptions { version: Some(4), ..WriteOptions::default() }, |index| {
        assert!(index.is_empty());
        index.push("dir/000".into(), entry);
    });
    assert_ne!(index.timestamp, (0, 0));
    assert_eq!(staged(&repo), format!("H 100644 {} 0\tdir/000\n", entry.oid));
    assert_eq!(repo.read(".git/index")[7], 4);
    assert_eq!(
        load(&repo.join(".git/index"), SHA1, &ReadOptions::default()).expect("good").timestamp,
        index.timestamp
    );
}

#[test]
fn a_lock_excludes_other_writers() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let path = repo.join(".git/index");
    let held = take(&path);
    let error = lock(&path, &LockOptions::default()).expect_err("it is held");
    assert!(
        error.to_string().starts_with(&format!("Unable to create '{}.lock': File exists.", path.display()))
    );
    drop(held);
    take(&path);
}

#[test]
fn smudges_changed_racy_entries() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 4);
    let path = repo.join(".git/index");
    let held = take(&path);
    let mut index = load(&path, SHA1, &ReadOptions::default()).expect("a good index");
    // Entry 0 is old, 1 is known to match, 2 and 3 are as young as the index.
    let young = index.timestamp;
    index.entries_mut().iter_mut().for_each(|entry| entry.stat.mtime = young);
    index.entries_mut()[0].stat.mtime.0 -= 1;
    index.entries_mut()[1].flags.insert(Flags::UPTODATE);
    let asked = Mutex::new(Vec::new());
    let is_modified = |path: &BStr, _: &Entry| {
        asked.lock().expect("nobody panicked").push(path.to_owned());
        path == "dir/003"
    };
    commit(held, &mut index, &WriteOptions::default(), &Fsync::default(), &is_modified).expect("writable");
    let mut asked = asked.into_inner().expect("nobody panicked");
    asked.sort();
    assert_eq!(asked, ["dir/002", "dir/003"]);
    let index = load(&path, SHA1, &ReadOptions::default()).expect("a good index");
    let sizes: Vec<u32> = index.entries().iter().map(|entry| entry.stat.size).collect();
    assert_eq!(sizes, [1, 1, 1, 0]);
}

#[test]
fn compares_each_racy_entry_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 200);
    let path = repo.join(".git/index");
    let held = take(&path);
    let mut index = load(&path, SHA1, &ReadOptions::default()).expect("a good index");
    let young = index.timestamp;
    index.entries_mut().iter_mut().for_each(|entry| entry.stat.mtime = young);
    let asked = AtomicUsize::new(0);
    let is_modified = |_: &BStr, _: &Entry| {
        asked.fetch_add(1, Ordering::Relaxed);
        true
    };
    let options = WriteOptions { threads: 3, ..WriteOptions::default() };
    commit(held, &mut index, &options, &Fsync::default(), &is_modified).expect("writable");
    assert_eq!(asked.into_inner(), 200);
    assert!(index.entries().iter().all(|entry| entry.stat.size == 0));
    // Git then compares the content, and finds it unchanged.
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
}

/// The index in memory has all entries, so the loss of a shared index loses no entry.
#[test]
fn writes_a_lost_or_replaced_shared_index_again() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 20);
    let expected = staged(&repo);
    let split = WriteOptions { split: Some(true), ..WriteOptions::default() };
    rewrite(&repo, &split, |_| ());
    for damage in [None, Some(vec![]), Some(vec![b'D'; 3000])] {
        let [name] = &shared_indices(&repo)[..] else { panic!("there is one") };
        let shared = repo.join(format!(".git/{name}"));
        let whole = std::fs::read(&shared).expect("there");
        rewrite(&repo, &WriteOptions::default(), |index| {
            assert_eq!(index.base.map(|base| format!("sharedindex.{base}")).as_ref(), Some(name));
            match &damage {
                None => std::fs::remove_file(&shared).expect("it was there"),
                // Replaces the file instead of changing it, because it is mapped.
                Some(other) => {
                    std::fs::remove_file(&shared).expect("it was there");
                    std::fs::write(&shared, other).expect("writable");
                }
            }
        });
        assert_eq!(staged(&repo), expected);
        assert_eq!(std::fs::read(&shared).expect("written anew"), whole);
    }
}

#[test]
fn splits_an_index_keeps_it_split_and_merges_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 20);
    let expected = staged(&repo);
    let split = WriteOptions { split: Some(true), ..WriteOptions::default() };
    let keep = WriteOptions::default();

    rewrite(&repo, &split, |_| ());
    let first = shared_indices(&repo);
    assert_eq!(first.len(), 1);
    assert_eq!(staged(&repo), expected);
    assert!(repo.read(".git/index").len() < 500, "only what differs is left");

    // Up to a fifth of all entries may be added before a new shared index is written.
    let entry = blob(&repo);
    let add = |number: usize| Edit { path: format!("more/{number:03}").into(), entries: vec![entry] };
    let index = rewrite(&repo, &keep, |index| {
        let mut edits = vec![Edit { path: "dir/005".into(), entries: vec![] }];
        edits.extend((0..4).map(add));
        index.apply(edits);
    });
    assert_eq!(shared_indices(&repo), first);
    assert_eq!(staged(&repo).lines().count(), 23);
    assert_eq!(index.len(), 23);

    // Git continues from our file, and this crate from Git's.
    repo.write("dir/by-git", "");
    repo.git(&["add", "dir/by-git"]);
    let index = rewrite(&repo, &keep, |index| index.apply((4..12).map(add).collect()));
    assert_eq!(shared_indices(&repo).len(), 3, "Git made one, we made one, and none has expired");
    assert_eq!(staged(&repo).lines().count(), 32);
    let base = index.base.expect("it is split");
    let base = load(&shared::path(&repo.join(".git/index"), base), HashKind::Sha1, &ReadOptions::default());
    assert_eq!(base.expect("it was just written").len(), 32);

    // Writing the next shared index removes all unused ones.
    let now = WriteOptions {
        max_percent_change: Some(0),
        shared_index_expire: Expire::Before(SystemTime::now() + Duration::from_secs(60)),
        ..WriteOptions::default()
    };
    rewrite(&repo, &now, |index| index.apply(vec![add(20)]));
    assert_eq!(shared_indices(&repo).len(), 1);
    assert_eq!(staged(&repo).lines().count(), 33);

    let expected = staged(&repo);
    rewrite(&repo, &WriteOptions { split: Some(false), ..WriteOptions::default() }, |_| ());
    assert_eq!(staged(&repo), expected);
    assert!(!repo.read(".git/index").contains_str("link\0\0"));
    repo.git(&["fsck"]);
}

/// A program may write a split index whole. With `joins_shared` it is split again, without a new
/// shared index.
#[test]
fn a_whole_index_joins_the_newest_shared_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 20);
    let split = WriteOptions { split: Some(true), ..WriteOptions::default() };
    let join = WriteOptions { joins_shared: true, ..WriteOptions::default() };
    let index = rewrite(&repo, &join, |_| ());
    assert_eq!(index.base, None, "there is no shared index");

    let index = rewrite(&repo, &split, |_| ());
    let base = index.base;
    let names = shared_indices(&repo);
    let write_whole = || {
        rewrite(&repo, &WriteOptions { split: Some(false), ..WriteOptions::default() }, |index| {
            let edit = Edit { path: "dir/005".into(), entries: vec![] };
            index.apply(vec![edit, Edit { path: "new".into(), entries: vec![blob(&repo)] }]);
        });
        let expected = staged(&repo);
        let other = format!(".git/sharedindex.{}", "1".repeat(40));
        std::fs::write(repo.join(&other), "an older file").expect("writable");
        std::fs::File::options()
            .append(true)
            .open(repo.join(&other))
            .and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH))
            .expect("our file");
        expected
    };
    let expected = write_whole();
    assert_eq!(rewrite(&repo, &WriteOptions::default(), |_| ()).base, None);
    let index = rewrite(&repo, &join, |_| ());
    assert_eq!((index.base, index.len()), (base, 20));
    assert_eq!(staged(&repo), expected);
    assert_eq!(repo.read(".git/index").find_iter("dir/0").count(), 0, "the shared index has them");
    assert_eq!(shared_indices(&repo).len(), names.len() + 1);
    // The setting has precedence.
    write_whole();
    let never = WriteOptions { split: Some(false), ..join.clone() };
    assert_eq!(rewrite(&repo, &never, |_| ()).base, None);
    // A damaged shared index is replaced.
    std::fs::remove_file(repo.join(format!(".git/{}", names[0]))).expect("it was there");
    assert!(rewrite(&repo, &join, |_| ()).base.is_some());
    assert_eq!(staged(&repo), expected);
}

#[test]
fn options_determine_the_file_format() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 9);
    let options = WriteOptions {
        skip_hash: true,
        threads: 3,
        end_of_entries: true,
        offset_table: true,
        ..WriteOptions::default()
    };
    let expected = staged(&repo);
    rewrite(&repo, &options, |_| ());
    let file = repo.read(".git/index");
    assert!(file.ends_with(&[0; 20]) && file.contains_str("IEOT") && file.contains_str("EOIE"));
    assert_eq!(staged(&repo), expected);
    repo.git(&["-c", "index.threads=3", "ls-files"]);
}

#[test]
fn refuses_unreadable_indices_with_gits_messages() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 2);
    let path = repo.join(".git/index");
    let options = ReadOptions { threads: 1, verify: true, ..ReadOptions::default() };
    let refusal = |content: &[u8]| {
        fs::write(&path, content).expect("the repository is ours");
        load(&path, SHA1, &options).expect_err("is refused").to_string()
    };
    let good = fs::read(&path).expect("Git wrote it");
    assert_eq!(refusal(b"DIRC"), format!("{}: index file smaller than expected", path.display()));
    let mut bad = good.clone();
    bad[0] = b'X';
    assert_eq!(refusal(&bad), "index file corrupt");
    let error = repo.try_git(&["ls-files"]).stderr;
    assert!(error.ends_with(b"fatal: index file corrupt\n"));
    bad[0] = b'D';
    bad[100] ^= 1;
    assert_eq!(refusal(&bad), "index file corrupt");

    fs::write(&path, &good).expect("the repository is ours");
    repo.git(&["update-index", "--split-index"]);
    let shared = repo.join(format!(".git/{}", shared_indices(&repo)[0]));
    let split = fs::read(&shared).expect("Git wrote it");
    fs::write(&shared, &good).expect("the repository is ours");
    let error = load(&path, SHA1, &options).expect_err("another index has its name").to_string();
    assert!(error.starts_with("broken index, expect "), "{error}");
    fs::remove_file(&shared).expect("it is there");
    let error = load(&path, SHA1, &options).expect_err("it is not whole").to_string();
    assert!(error.ends_with("index file open failed: No such file or directory"), "{error}");
    fs::write(&shared, split).expect("the repository is ours");
    load(&path, SHA1, &options).expect("whole again");
}

#[test]
fn a_failed_commit_leaves_the_old_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    files(&repo, 2);
    let path = repo.join(".git/index");
    let before = fs::read(&path).expect("Git wrote it");
    let mut index = load(&path, SHA1, &ReadOptions::default()).expect("a good index");
    index.entries_mut()[1].oid = ObjectId::null(SHA1);
    for split in [None, Some(true)] {
        let options = WriteOptions { split, ..WriteOptions::default() };
        let error =
            commit(take(&path), &mut index, &options, &Fsync::default(), &never).expect_err("is refused");
        assert_eq!(error.to_string(), "cache entry has null sha1: dir/001");
        assert_eq!(fs::read(&path).expect("still there"), before);
        assert!(!repo.exists(".git/index.lock") && shared_indices(&repo).is_empty());
    }
}
