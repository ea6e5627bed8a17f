//! Disks that lose power: unsynced data may be lost.

use std::fs::{self, File};

use testkit::weather::{Caching, Fault, Journal, Nth, Operation, Profile, Survivors, Writes};

use super::{disk, put, sync_dir};

#[test]
fn what_is_not_synced_is_lost() {
    for writes in [Writes::Through, Writes::Back] {
        let strict = Profile::power(Journal::Strict);
        let profile = Profile { caching: Caching { writes, ..strict.caching }, ..strict };
        let Some((_sandbox, mount)) = disk(&profile) else { return };
        let at = mount.path().to_owned();
        put(&at.join("whole"), "whole", &["file", "dir"]);
        put(&at.join("old"), "old", &["file", "dir"]);
        put(&at.join("nameless"), "synced", &["file"]);
        put(&at.join("empty"), "not synced", &[]);
        sync_dir(&at);
        put(&at.join("nothing"), "neither", &[]);
        fs::create_dir(at.join("d")).expect("new");
        put(&at.join("d/below"), "in a directory without a name", &["file", "dir"]);
        fs::rename(at.join("old"), at.join("new")).expect("there");
        fs::remove_file(at.join("whole")).expect("there");
        put(&at.join("whole"), "another, whose name is not synced", &["file"]);
        // All written data have reached the server, which does not make them durable.
        assert!(mount.counts().of(Operation::Write) >= 7, "{}", mount.counts());

        let mount = mount.pull_plug(Survivors::None).expect("the disk is made anew");
        let read = |name: &str| fs::read_to_string(at.join(name)).ok();
        assert_eq!(read("whole").as_deref(), Some("whole"));
        assert_eq!(read("old").as_deref(), Some("old"));
        assert_eq!(read("nameless").as_deref(), Some("synced"), "its directory was synced later");
        assert_eq!(read("empty").as_deref(), Some(""));
        for lost in ["nothing", "d", "new"] {
            assert!(!at.join(lost).exists(), "{lost}");
        }
        // The remounted disk can be used, and can lose power again.
        put(&at.join("after"), "the cut", &["file", "dir"]);
        put(&at.join("too late"), "", &[]);
        let _mount = mount.pull_plug(Survivors::None).expect("the disk is made anew");
        assert_eq!(read("after").as_deref(), Some("the cut"));
        assert!(read("whole").is_some() && !at.join("too late").exists());
    }
}

#[test]
fn a_journal_keeps_what_came_before() {
    let Some((_sandbox, mount)) = disk(&Profile::power(Journal::Ordered)) else { return };
    let at = mount.path().to_owned();
    put(&at.join("first"), "not synced itself", &[]);
    fs::rename(at.join("first"), at.join("renamed")).expect("there");
    put(&at.join("second"), "synced", &["file"]);
    put(&at.join("third"), "too late", &[]);
    let _mount = mount.pull_plug(Survivors::None).expect("the disk is made anew");
    let names: Vec<_> =
        fs::read_dir(&at).expect("there").map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(fs::read_to_string(at.join("renamed")).expect("kept"), "not synced itself");
    assert_eq!(fs::read_to_string(at.join("second")).expect("kept"), "synced");
}

#[test]
fn some_of_it_may_survive() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..24 {
        let Some((_sandbox, mount)) = disk(&Profile::power(Journal::Strict)) else { return };
        let at = mount.path().to_owned();
        put(&at.join("file"), "content", &[]);
        let _mount = mount.pull_plug(Survivors::Some { seed }).expect("the disk is made anew");
        outcomes.insert(fs::read_to_string(at.join("file")).ok());
    }
    let possible = [None, Some(String::new()), Some("content".into())];
    assert!(outcomes.iter().all(|outcome| possible.contains(outcome)), "{outcomes:?}");
    assert!(outcomes.len() > 1, "{outcomes:?}");
}

#[test]
fn git_survives_a_cut_at_each_sync() {
    for nth in 1.. {
        let Some((sandbox, mount)) = disk(&Profile::power(Journal::Ordered)) else { return };
        let repo = sandbox.init("disk/repo");
        repo.write("file", "one");
        repo.commit("one");
        rustix::fs::syncfs(File::open(mount.path()).expect("the root")).expect("nothing to do with it");
        sync_dir(mount.path());
        let before = repo.git(&["rev-parse", "HEAD"]).stdout;
        mount.set_faults(vec![Fault::cut(Operation::Fsync).nth(Nth::From(nth))]);
        repo.write("file", "two");
        let commit = repo.try_git(&["-c", "core.fsync=all", "commit", "-qam", "two"]);
        let was_cut = mount.is_cut();
        assert_eq!(commit.code == 0, !was_cut, "{commit:?}");
        let mount = mount.pull_plug(Survivors::None).expect("the disk is made anew");
        for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
            let _ = fs::remove_file(repo.join(format!(".git/{lock}")));
        }
        repo.git(&["fsck", "--no-progress"]);
        repo.git(&["status", "--porcelain"]);
        let after = repo.git(&["rev-parse", "HEAD"]).stdout;
        assert!(after == before || repo.git(&["rev-parse", "HEAD^"]).stdout == before, "{after}");
        mount.end().expect("nobody is left");
        if !was_cut {
            assert!(nth > 2, "a commit syncs objects and refs");
            return;
        }
    }
}
