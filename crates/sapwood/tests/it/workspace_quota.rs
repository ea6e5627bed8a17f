//! Quotas of workspaces, on file systems with project quotas and without.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use sapwood::{
    PlanError, Silent,
    checkpoint::fork,
    workspace::{
        create::{self, Backend},
        list::{self, Found},
        quota, rebase, relocate, remove,
    },
};
use sys::quota::ProjectUse;
use testkit::{
    NoMountsBelow, Repo, Sandbox,
    disk::{Disk, Format},
};

use crate::open;

const LIMIT: u64 = 2 << 20;

fn wanted(name: &str, limit: u64) -> create::Request {
    create::Request {
        name: name.into(),
        backend: Some(Backend::Overlay),
        quota: Some(limit),
        ..create::Request::default()
    }
}

fn create(repo: &Repo<'_>, request: create::Request) -> PathBuf {
    create::plan(&open(repo), request).expect("a plan").run(&Silent).expect("a workspace").path
}

fn found(repo: &Repo<'_>, name: &str) -> Found {
    let plan = list::plan(&open(repo), list::Request::default()).expect("a plan");
    let all = plan.run(&Silent).expect("a list").workspaces;
    all.into_iter().find(|found| found.workspace.name == *name).expect("it is listed")
}

fn limit(repo: &Repo<'_>, name: &str) -> Option<u64> {
    found(repo, name).quota.map(|quota| quota.limit)
}

fn refused(plan: Result<create::Plan, PlanError>) -> String {
    plan.err().expect("it is refused").to_string()
}

/// Writes until there is no space. Returns the error, and the bytes that were written.
fn fill(path: &Path) -> (io::Error, u64) {
    let mut file = fs::File::create(path).expect("a new file");
    let mut written = 0;
    loop {
        match file.write_all(&[7; 65536]).and_then(|()| file.sync_data()) {
            Ok(()) => written += 65536,
            Err(error) => return (error, written),
        }
        assert!(written < 16 << 20, "nothing stops the writer");
    }
}

/// A repository on a disk of its own. Fields are dropped in order.
struct Place {
    _mounts: NoMountsBelow,
    _disk: Disk,
    sandbox: Sandbox,
}

impl Place {
    fn repo(&self) -> Repo<'_> {
        self.sandbox.repo("disk/repo")
    }
}

fn place(make: impl Fn(&Path, &Path) -> Option<Disk>) -> Option<Place> {
    let sandbox = Sandbox::new();
    let point = sandbox.path().join("disk");
    fs::create_dir(&point).expect("a new directory");
    let disk = make(&sandbox.path().join("image"), &point)?;
    let place = Place { _mounts: NoMountsBelow::new(&point), _disk: disk, sandbox };
    let repo = place.sandbox.init("disk/repo");
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.write(".gitignore", "*.o\n");
    repo.commit("one");
    repo.write("a", "11\n");
    repo.commit("two");
    Some(place)
}

/// Runs a test on each file system that has project quotas here.
fn on_each_disk(test: impl Fn(&Place)) {
    for format in [Format::Ext4, Format::Xfs] {
        // The reason was printed if there is none.
        if let Some(place) = place(|image, point| Disk::with_quotas(format, image, point)) {
            test(&place);
        }
    }
}

#[test]
fn a_disk_without_quotas_is_refused_before_anything_changes() {
    let Some(place) = place(|image, point| Disk::on_file(Format::Ext4, 32, image, point)) else { return };
    let repo = place.repo();
    let message = refused(create::plan(&open(&repo), wanted("one", LIMIT)));
    assert!(message.ends_with("is on a file system (ext4) without project quotas"), "{message}");
    repo.git(&["config", "sapwood.workspaceQuota", "2m"]);
    let configured = create::Request { quota: None, ..wanted("one", 0) };
    assert_eq!(refused(create::plan(&open(&repo), configured)), message);
    assert!(!repo.exists(".git/sapwood") && !repo.exists("../repo.workspaces"));
    // No quota is wanted.
    create(&repo, wanted("one", 0));
    assert_eq!(limit(&repo, "one"), None);
    let request = quota::Request { name: "one".into(), limit: LIMIT };
    let message = quota::plan(&open(&repo), request).err().expect("it is refused").to_string();
    assert_eq!(message, "'one' has no quota");
}

#[test]
fn a_full_quota_stops_the_writer_and_loses_nothing() {
    on_each_disk(|place| {
        let repo = place.repo();
        let one = place.sandbox.repo(create(&repo, wanted("one", LIMIT)).to_str().expect("a plain path"));
        let two = place.sandbox.repo(create(&repo, wanted("two", LIMIT)).to_str().expect("a plain path"));
        assert_eq!((limit(&repo, "one"), limit(&repo, "two")), (Some(LIMIT), Some(LIMIT)));
        one.write("mine", "mine\n");
        let (error, written) = fill(&one.join("big.o"));
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::QuotaExceeded | ErrorKind::StorageFull), "{error}");
        assert!(written > LIMIT / 2 && written <= LIMIT, "{written}");
        let quota = found(&repo, "one").quota.expect("a quota");
        assert!(quota.is_full() && quota.used <= LIMIT, "{quota:?}");
        let (workspace, told) = quota::full(&open_inside(&one)).expect("it is full");
        assert_eq!((workspace.name.to_str(), told), (Some("one"), quota));
        assert!(quota::may_be_full(&one.path) && !quota::may_be_full(&repo.path));
        assert_eq!(one.read("mine"), "mine\n");
        // Git's own files are elsewhere.
        assert_eq!(one.git(&["status", "--porcelain"]).stdout, "?? mine\n");
        one.commit("mine");
        assert_eq!(repo.git(&["show", "one:mine"]).stdout, "mine\n");
        // Another workspace goes on.
        two.write("big.o", vec![7; 1 << 20]);
        assert!(quota::full(&open_inside(&two)).is_none());
        // More, less, and without a limit.
        let change = |limit| {
            let request = quota::Request { name: "one".into(), limit };
            quota::plan(&open(&repo), request).expect("a plan").run(&Silent).expect("a quota")
        };
        assert_eq!(change(2 * LIMIT).limit, 2 * LIMIT);
        one.write("more.o", vec![7; 1 << 20]);
        assert_eq!(change(0).limit, 0);
        one.write("most.o", vec![7; 3 << 20]);
        assert!(change(LIMIT).is_full());
        assert_eq!(
            fs::write(one.join("last.o"), vec![7; 1 << 20]).err().map(|error| error.kind()),
            Some(kind)
        );
        assert_eq!(one.read("mine"), "mine\n");
    });
}

fn open_inside(repo: &Repo<'_>) -> repo::Repository {
    let options = repo::OpenOptions { cwd: repo.path.clone(), ..repo::OpenOptions::default() };
    repo::Repository::open(&options).expect("a repository")
}

fn project(repo: &Repo<'_>, name: &str) -> u32 {
    found(repo, name).workspace.record.project.expect("a project")
}

#[test]
fn a_quota_goes_with_its_workspace() {
    on_each_disk(|place| {
        let repo = place.repo();
        repo.git(&["config", "sapwood.workspaceQuota", "2m"]);
        let one = create(&repo, create::Request { quota: None, ..wanted("one", 0) });
        let one = place.sandbox.repo(one.to_str().expect("a plain path"));
        assert_eq!(limit(&repo, "one"), Some(LIMIT));
        let id = project(&repo, "one");
        repo.git(&["config", "--unset", "sapwood.workspaceQuota"]);
        one.write("dir/b", "mine\n");
        one.write("new/file", "mine\n");
        let request =
            fork::Request { name: "fork".into(), backend: Some(Backend::Overlay), ..Default::default() };
        let forked = fork::plan(&open(&one), request).expect("a plan").run(&Silent).expect("a fork");
        assert_eq!(limit(&repo, "fork"), Some(LIMIT));
        assert_ne!(project(&repo, "fork"), id);
        let forked = place.sandbox.repo(forked.workspace.path.to_str().expect("a plain path"));
        assert_eq!(forked.read("new/file"), "mine\n");
        one.commit("mine");

        let moved = relocate::Request { name: "one".into(), to: "../moved".into() };
        relocate::plan(&open(&repo), moved).expect("a plan").run(&Silent).expect("a move");
        let one = place.sandbox.repo("disk/moved");
        assert_eq!((limit(&repo, "one"), project(&repo, "one")), (Some(LIMIT), id));
        let request =
            rebase::Request { name: "one".into(), commit: "HEAD~1".into(), ..rebase::Request::default() };
        rebase::plan(&open(&one), request).expect("a plan").run(&Silent).expect("a rebase");
        assert_eq!((limit(&repo, "one"), project(&repo, "one")), (Some(LIMIT), id));
        let (error, written) = fill(&one.join("big.o"));
        assert!(matches!(error.kind(), ErrorKind::QuotaExceeded | ErrorKind::StorageFull), "{error}");
        assert!(written <= LIMIT, "{written}");
        // Another place for the changes.
        let uppers = place.sandbox.path().join("disk/uppers");
        repo.git(&["config", "sapwood.upperDir", uppers.to_str().expect("a plain path")]);
        let three = create(&repo, wanted("three", LIMIT));
        assert!(fill(&three.join("big.o")).1 <= LIMIT);
        assert!(repo.exists("../uppers/three/upper/big.o"));
        for name in ["one", "fork", "three"] {
            let state = found(&repo, name).workspace.state;
            let request = remove::Request { name: name.into(), force: true };
            remove::plan(&open(&repo), request).expect("a plan").run(&Silent).expect("by force");
            assert!(!state.exists());
        }
        assert_eq!(freed(&repo.path, id), ProjectUse::default(), "its number is free");
    });
}

/// Returns the use of a project whose files were removed. xfs frees them a little later.
fn freed(on: &Path, id: u32) -> ProjectUse {
    let used = || sys::quota::project_use(on, id).expect("a file system with projects");
    for _ in 0..100 {
        if used().inodes == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    used()
}

/// Workspaces of two repositories on one disk, created at once.
#[test]
fn no_two_workspaces_have_one_number() {
    on_each_disk(|place| {
        let repo = place.repo();
        place.sandbox.repo("disk").git(&["clone", "-q", "repo", "other"]);
        let other = place.sandbox.repo("disk/other");
        let repos = [&repo, &other];
        thread::scope(|scope| {
            for at in 0..8 {
                let repo = repos[at % 2].path.clone();
                let sandbox = &place.sandbox;
                scope.spawn(move || {
                    let repo = sandbox.repo(repo.to_str().expect("a plain path"));
                    create(&repo, wanted(&format!("w{at}"), LIMIT));
                });
            }
        });
        let ids: BTreeSet<u32> = (0..8).map(|at| project(repos[at % 2], &format!("w{at}"))).collect();
        assert_eq!(ids.len(), 8);
        // A number that a killed command has left with a limit, but without files, is free.
        let dir = place.sandbox.path().join("disk/new");
        fs::create_dir(&dir).expect("a new directory");
        let id = engine::workspace::quota::allot(&dir, LIMIT).expect("a number");
        fs::remove_dir(&dir).expect("removed");
        assert_eq!(freed(&dir.with_file_name("repo"), id).inodes, 0);
        fs::create_dir(&dir).expect("a new directory");
        assert_eq!(engine::workspace::quota::allot(&dir, LIMIT / 2).expect("a number"), id);
        let used = sys::quota::project_use(&dir, id).expect("in use");
        assert_eq!((used.limit, used.inodes), (LIMIT / 2, 1));
        // While the directory is there, another one gets another number.
        let moved = dir.with_file_name("moved");
        fs::rename(&dir, &moved).expect("moved");
        fs::create_dir(&dir).expect("a new directory");
        assert_ne!(engine::workspace::quota::allot(&dir, LIMIT).expect("a number"), id);
        // A directory that belongs to a project already.
        let inner = moved.join("inner");
        fs::create_dir(&inner).expect("a new directory");
        let refused = engine::workspace::quota::allot(&inner, LIMIT).expect_err("it is refused");
        assert!(refused.to_string().contains("belongs to a project"), "{refused}");
    });
}
