//! Each step that publishes something is a change of this process. Locks and staged objects are
//! not.

use bstr::ByteSlice as _;
use engine::{
    files::{Premise, Worktree},
    look::unlinked::Unlinked,
};
use format::{HashKind, Kind, ObjectId, config::Edit, hash::Hasher};
use repo::{OpenOptions, Repository};
use store::{
    Fsync, Lock, LockOptions, Wait, config, index,
    objects::{ObjectTransaction, Options, Quarantine},
    refs::{self, Failures, LogPolicy, RefTransaction},
};
use sys::changes::were_made;
use testkit::{Repo, Sandbox, each_alone};

#[test]
fn publishing_is_a_change() {
    each_alone(
        "changes::publishing_is_a_change",
        &[
            ("locks", locks),
            ("index", index),
            ("object", object),
            ("stream", stream),
            ("ref", reference),
            ("packed ref", packed),
            ("config", configuration),
            ("worktree", worktree),
        ],
    );
}

/// Runs a step in a repository with one commit.
fn with_repo(step: impl FnOnce(&Repo<'_>)) {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("file", "content");
    repo.commit("first");
    assert!(!were_made());
    step(&repo);
}

fn locks() {
    with_repo(|repo| {
        let git_dir = repo.join(".git");
        store::claims::begin(git_dir.join("sapwood/claims"));
        let options = LockOptions { record_pid: true, ..LockOptions::default() };
        for name in ["index", "config", "HEAD"] {
            let mut lock = Lock::take(&git_dir.join(name), &options).expect("free");
            lock.write(b"unused").expect("written");
            lock.keep_mode().expect("set");
            assert!(Lock::take(&git_dir.join(name), &options).is_err(), "it is held");
        }
        drop(store::commit_graph::lock(&git_dir.join("objects/info/commit-graph"), &options).expect("free"));
        drop(Quarantine::create(&git_dir.join("objects")).expect("made"));
        let options = ref_options(repo);
        let mut transaction = RefTransaction::new(&options, Failures::EndAll);
        transaction.add(set(repo, "refs/heads/deep/er/branch")).expect("a good name");
        transaction.prepare().expect("locked");
        drop(transaction);
        assert!(!repo.exists(".git/refs/heads/deep") && !repo.exists(".git/sapwood"));
        assert!(!were_made());
    });
}

fn index() {
    with_repo(|repo| {
        let path = repo.join(".git/index");
        let lock = index::lock(&path, &LockOptions::default()).expect("free");
        let mut read =
            index::load(&path, HashKind::Sha1, &index::ReadOptions::default()).expect("a good index");
        let options = index::WriteOptions::default();
        assert!(!were_made());
        index::commit(lock, &mut read, &options, &Fsync::default(), &|_, _| false).expect("written");
        assert!(were_made());
    });
}

fn object() {
    // One object waits in memory, and one is too large for that.
    for size in [1, (8 << 20) + 1] {
        stage(size, Then::Drop);
    }
    stage(1, Then::Publish);
}

#[derive(PartialEq)]
enum Then {
    Drop,
    Publish,
}

fn stage(size: usize, then: Then) {
    with_repo(|repo| {
        let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
        let transaction = ObjectTransaction::new(Options::new(&objects, &fsync));
        let content = vec![0; size];
        let mut hasher = Hasher::object(HashKind::Sha1, "blob", size as u64);
        hasher.update(&content);
        let oid = hasher.finish().expect("no collision");
        transaction.write(&oid, Kind::Blob, &content).expect("staged");
        assert!(!were_made());
        match then {
            Then::Drop => drop(transaction),
            Then::Publish => transaction.publish().expect("published"),
        }
        assert_eq!(were_made(), then == Then::Publish);
    });
}

fn stream() {
    with_repo(|repo| {
        let (objects, fsync) = (repo.join(".git/objects"), Fsync::default());
        let transaction = ObjectTransaction::new(Options::new(&objects, &fsync));
        transaction.write_stream(HashKind::Sha1, 3, &mut &b"abc"[..]).expect("staged");
        assert!(!were_made());
        transaction.publish().expect("published");
        assert!(were_made());
    });
}

fn reference() {
    with_repo(|repo| {
        let options = ref_options(repo);
        let mut transaction = RefTransaction::new(&options, Failures::EndAll);
        transaction.add(set(repo, "refs/heads/branch")).expect("a good name");
        transaction.prepare().expect("locked");
        assert!(!were_made());
        transaction.commit().expect("written");
        assert!(were_made());
    });
}

fn packed() {
    with_repo(|repo| {
        let new = refs::PackedRef { name: "refs/heads/branch".into(), oid: head(repo), peeled: None };
        refs::write_packed(&ref_options(repo), &[new]).expect("written");
        assert!(were_made());
    });
}

fn configuration() {
    with_repo(|repo| {
        let edit = Edit::Set { key: "a.b".into(), value: "c".into() };
        config::edit(&repo.join(".git/config"), &[edit], &LockOptions::default(), &Fsync::default())
            .expect("written");
        assert!(were_made());
    });
}

fn worktree() {
    with_repo(|repo| {
        let options = OpenOptions { cwd: repo.path.clone(), ..OpenOptions::default() };
        let opened = Repository::open(&options).expect("a repository");
        let root = sys::Dir::open(&repo.path).expect("opened");
        let worktree = Worktree::of(&opened, &repo.path, &root).expect("a worktree");
        assert!(!were_made());
        worktree.remove(b"file".as_bstr(), &Premise::Anything, &Unlinked::default()).expect("removed");
        assert!(were_made());
    });
}

fn head(repo: &Repo<'_>) -> ObjectId {
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    ObjectId::from_hex(HashKind::Sha1, head.trim_ascii_end()).expect("a name")
}

fn set(repo: &Repo<'_>, name: &str) -> refs::Edit {
    refs::Edit::set(name.into(), head(repo), "moved".into())
}

fn ref_options(repo: &Repo<'_>) -> refs::Options {
    let git_dir = repo.join(".git");
    refs::Options {
        common_dir: git_dir.clone(),
        display_dir: git_dir.clone(),
        git_dir,
        hash: HashKind::Sha1,
        committer: Ok("C O Mitter <committer@example.com> 1112911993 -0700".into()),
        log: LogPolicy::Standard,
        fsync: Fsync::default(),
        locks: refs::Locks { loose: Wait::No, packed: Wait::No, ..refs::Locks::default() },
    }
}
