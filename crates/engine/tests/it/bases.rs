//! Bases of kind image: the kernel shows a correct checkout, and Git finds it clean.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use bstr::{BString, ByteSlice as _};
use engine::{
    crew::Workers,
    sparse::Patterns,
    workspace::base::{Act, AddOptions, Base, Bases, Error, Kind, Monitor, Owner, Wanted},
};
use format::ObjectId;
use repo::{OpenOptions, Repository};
use store::{Fsync, SharedRepository};
use testkit::{
    ErofsImage, Repo, Sandbox,
    disk::{Disk, NoMountsBelow},
};

use crate::place::{self, Place, oid};

fn open(repo: &Repo<'_>) -> Repository {
    let config = repo.path.parent().expect("the sandbox").join("home/.config");
    let env = [("XDG_CONFIG_HOME".into(), config.into())].into();
    let options = OpenOptions { cwd: repo.path.clone(), env, ..OpenOptions::default() };
    Repository::open(&options).expect("a repository")
}

fn tree(repo: &Repo<'_>, name: &str) -> ObjectId {
    oid(repo, &format!("{name}^{{tree}}"))
}

fn add(bases: &Bases, wanted: &Wanted<'_>) -> Result<Base, Error> {
    place::add(bases, wanted, &AddOptions { workers: Workers::Fixed(3), ..place::add_options() })
}

fn wanted<'r>(opened: &'r Repository, tree: ObjectId, sparse: Option<&'r Patterns>) -> Wanted<'r> {
    Wanted::new(opened, tree, Kind::Image, Owner::of_process(), sparse).expect("settings")
}

/// Returns everything below a directory except `.git`: type and permissions, and content.
fn files(root: &Path) -> BTreeMap<BString, (u32, Vec<u8>)> {
    let (mut found, mut left) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            if path.ends_with(".git") {
                continue;
            }
            let stat = fs::symlink_metadata(&path).expect("examined");
            let content = if stat.is_symlink() {
                fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec()
            } else if stat.is_dir() {
                left.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).expect("read")
            };
            let relative = path.strip_prefix(root).expect("below").as_os_str().as_bytes();
            found.insert(relative.into(), (stat.mode(), content));
        }
    }
    found
}

/// Returns a repository with files of all sizes and all kinds of conversion, and with links.
fn project<'s>(sandbox: &'s Sandbox) -> Repo<'s> {
    let sub = sandbox.init("sub");
    sub.write("file", "x");
    sub.commit("one");
    let repo = sandbox.init("repo");
    repo.git(&["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    repo.git(&["config", "filter.rot.clean", "tr a-z n-za-m"]);
    repo.git(&["config", "protocol.file.allow", "always"]);
    repo.write(".gitattributes", "*.crlf eol=crlf\n*.id ident\n*.rot filter=rot\n");
    repo.write("a/text.crlf", "one\ntwo\n");
    repo.write("a/b/some.id", "$Id$\n");
    repo.write("a/b/some.rot", "hello\n");
    repo.write("a/.gitignore", "ignored\n");
    repo.write("empty", "");
    repo.write("-dash", "-");
    repo.write(" blank", " ");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("a/b", "link");
    repo.symlink("/nowhere/at/all", "a/b/dangling");
    repo.write("big", vec![b'b'; 5 << 20]);
    repo.write("medium", vec![b'm'; 1_500_000]);
    for number in 0..700 {
        repo.write(format!("many/{}/file{number}", number % 7), format!("{number}\n").repeat(number));
        repo.write(format!("many/twice/file{number}"), format!("{number}\n").repeat(number));
    }
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../sub", "module"]);
    repo.commit("one");
    repo
}

/// A base must not show the contents of another one that came after its blob files were removed.
#[test]
fn numbers_of_lost_blob_files_are_not_used_again() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = sandbox.init("repo");
    repo.write("file", "one\n".repeat(5000));
    repo.commit("one");
    let opened = open(&repo);
    let first = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    fs::remove_dir_all(place.path().join("bases/blobs")).expect("removed");
    repo.write("file", "two\n".repeat(5000));
    repo.commit("two");
    let second = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    assert!(!first.devices[0].exists(), "{:?}", first.devices);
    assert_ne!(first.devices, second.devices);
}

#[test]
fn an_image_holds_what_a_checkout_writes() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let opened = open(&repo);
    let base = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    repo.git(&["worktree", "add", "-q", "--detach", "../plain"]);
    let Some(_mounted) = ErofsImage::mount(&base.image(), &base.devices, &base.files()) else { return };
    let (found, expected) = (files(&base.files()), files(&sandbox.path().join("plain")));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (path, facts) in &expected {
        assert!(found[path] == *facts, "{path}");
    }
    let sealed = Bases::at(&base.files().join("a"));
    let outcome = add(&sealed, &wanted(&opened, tree(&repo, "HEAD"), None));
    assert!(matches!(outcome, Err(Error::ReadOnly { .. })), "{outcome:?}");
    let verified = base.verify(Some(&opened), 2).expect("read");
    assert_eq!((verified.flaws, verified.unknown), (Vec::new(), 0));
    assert_eq!(base.verify(None, 1).expect("read").unknown, 3, "the converted files");
}

#[test]
fn git_finds_a_clean_workspace_without_reading_a_file_or_a_directory() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    repo.write("../home/.config/git/ignore", "*.user\n");
    let opened = open(&repo);
    let base = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    let Some(_mounted) = ErofsImage::mount(&base.image(), &base.devices, &base.files()) else { return };
    repo.git(&["worktree", "add", "-q", "--detach", "--no-checkout", "../top"]);
    let top = sandbox.path().join("top");
    let (upper, work) = (sandbox.path().join("upper"), sandbox.path().join("work"));
    fs::create_dir(&upper).and_then(|()| fs::create_dir(&work)).expect("created");
    fs::copy(top.join(".git"), upper.join(".git")).expect("copied");
    let fsync = Fsync::default();
    let admin = repo.path.join(".git/worktrees/top");
    base.install_index(&opened, &admin, &top, Monitor::UpperLayer, &fsync).expect("installed");
    let (mounts, attributes) = (NoMountsBelow::new(&sandbox.path()), sys::mount::Attributes::Trusted);
    let lower = base.files();
    let overlay = sys::mount::Overlay {
        lower: vec![&lower],
        data: None,
        upper: &upper,
        work: &work,
        attributes,
        durability: sys::mount::Durability::Synced,
    };
    sys::mount::overlay(&overlay).expect("mounted").attach(&top).expect("attached");
    let top = sandbox.repo("top");
    for monitor in [true, false] {
        let trace = sandbox.path().join("trace");
        let hook = sandbox.repo("home").join("monitor");
        sandbox.repo("home").write_executable(
            "monitor",
            format!("#!/bin/sh\nprintf '{}\\0'\n", engine::workspace::upper::token_of_empty(&base.name)),
        );
        let hook = if monitor { hook.display().to_string() } else { "false".to_owned() };
        let mut status = top.git_command();
        status.env("GIT_TRACE2_PERF", &trace);
        status.args(["-c", &format!("core.fsmonitor={hook}"), "-c", "core.untrackedCache=keep"]);
        let output = status.args(["status", "--porcelain"]).output().expect("started");
        assert_eq!((output.stdout.as_bstr(), output.stderr.as_bstr()), (b"".as_bstr(), b"".as_bstr()));
        let trace = fs::read_to_string(&trace).expect("traced");
        let count = |key: &str| {
            let value = trace.lines().rev().find_map(|line| line.split_once(&format!("{key}:")));
            value.map(|(_, count)| count.trim().to_owned()).unwrap_or_else(|| panic!("{key} in {trace}"))
        };
        // Without a monitor the root is listed, because its inode is that of the upper layer.
        assert_eq!(count("opendir"), if monitor { "0" } else { "1" }, "{trace}");
        assert_eq!(count("gitignore-invalidation"), "0");
        assert_eq!(count("node-creation"), "0");
        fs::remove_file(sandbox.path().join("trace")).expect("removed");
    }
    // Every entry has the stat data that the file system reports.
    let index = store::index::load(&admin.join("index"), format::HashKind::Sha1, &Default::default());
    let index = index.expect("loaded");
    for entry in index.entries().iter().filter(|entry| !entry.mode.is_gitlink()) {
        let path = top.join(index.path(entry));
        let stat = fs::symlink_metadata(&path).expect("examined");
        let (ino, size, time) = (stat.ino() as u32, stat.size() as u32, stat.mtime() as u32);
        assert_eq!((entry.stat.ino, entry.stat.size, entry.stat.mtime.0), (ino, size, time));
    }
    drop(mounts);
}

#[test]
fn a_second_base_adds_only_what_is_not_there() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let opened = open(&repo);
    let data = place.path().join("bases/blobs/1.data");
    add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    let before = fs::metadata(&data).expect("there").len();
    repo.write("a/new", "new");
    repo.commit("two");
    let opened = open(&repo);
    let two = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    assert_eq!(fs::metadata(&data).expect("there").len(), before + 512);
    assert_eq!(two.verify(Some(&opened), 1).expect("read").flaws, []);
    // Paths outside of the patterns do not exist.
    let patterns = Patterns::parse(b"/*\n!/*/\n/a/\n", true, false).patterns;
    let sparse = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), Some(&patterns))).expect("built");
    assert_eq!(fs::metadata(&data).expect("there").len(), before + 512);
    assert_eq!(sparse.verify(Some(&opened), 1).expect("read").flaws, []);
    let Some(_mounted) = ErofsImage::mount(&sparse.image(), &sparse.devices, &sparse.files()) else { return };
    assert!(sparse.files().join("a/b/some.id").exists() && !sparse.files().join("many").exists());
}

#[test]
fn concurrent_callers_get_one_base() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let (opened, tree) = (open(&repo), tree(&repo, "HEAD"));
    let made: Vec<Base> = std::thread::scope(|scope| {
        let build = || add(&place.bases(), &wanted(&opened, tree, None)).expect("built");
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(made.iter().all(|base| *base == made[0]));
    assert_eq!(place.bases().list().expect("listed"), [made[0].clone()]);
    assert_eq!(made[0].verify(Some(&opened), 1).expect("read").flaws, []);
}

#[test]
fn verify_names_the_path_that_was_changed() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let opened = open(&repo);
    let base = add(&place.bases(), &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    let data = fs::OpenOptions::new().read(true).write(true).open(&base.devices[0]).expect("opened");
    let content = fs::read(&base.devices[0]).expect("read");
    let at = content.find(b"hello").expect("the smudged content");
    data.write_all_at(b"XXXXX", at as u64).expect("written");
    let flaws = base.verify(Some(&opened), 2).expect("read").flaws;
    assert_eq!(flaws.iter().map(|flaw| flaw.path.as_bstr()).collect::<Vec<_>>(), ["a/b/some.rot"]);
    data.write_all_at(&content[at..at + 5], at as u64).expect("written");
    let at = content.find(b"#!/bin/sh").expect("a script") as u64;
    data.write_all_at(b"?", at).expect("written");
    let flaws = base.verify(None, 2).expect("read").flaws;
    // Without objects, a changed file cannot be distinguished from a converted one.
    assert_eq!(flaws, []);
    let flaws = base.verify(Some(&opened), 2).expect("read").flaws;
    assert_eq!(flaws.iter().map(|flaw| flaw.path.as_bstr()).collect::<Vec<_>>(), ["run"]);
    let mut image = fs::read(base.image()).expect("read");
    image[2000] ^= 1;
    fs::set_permissions(base.image(), fs::Permissions::from_mode(0o644)).expect("set");
    fs::write(base.image(), image).expect("written");
    let outcome = base.verify(Some(&opened), 2);
    assert!(outcome.is_err() || outcome.is_ok_and(|verified| !verified.flaws.is_empty()));
}

#[test]
fn contents_that_nobody_needs_are_given_back() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let opened = open(&repo);
    let (bases, shared) = (place.bases(), SharedRepository::Umask);
    let one_tree = tree(&repo, "HEAD");
    let one = add(&bases, &wanted(&opened, one_tree, None)).expect("built");
    repo.git(&["rm", "-q", "big"]);
    repo.write("other", vec![b'o'; 100_000]);
    repo.commit("two");
    let opened = open(&repo);
    let two = add(&bases, &wanted(&opened, tree(&repo, "HEAD"), None)).expect("built");
    assert_eq!(bases.gc(shared, Act::Remove, &AtomicBool::new(false)).expect("collected").bytes, 0);

    let held = one.hold().expect("held");
    assert!(matches!(bases.remove(&one.name, shared), Err(Error::InUse { .. })));
    drop(held);
    let record = engine::workspace::record::Record {
        dir: sandbox.path().join("w"),
        backend: engine::workspace::backend::Backend::Image,
        base: Some(engine::workspace::record::BaseRef {
            dir: bases.dir().to_owned(),
            name: two.name.clone(),
        }),
        layers: Vec::new(),
        place: None,
        durability: Default::default(),
        activity: engine::workspace::record::Activity::Active,
        sealed: None,
        door: Default::default(),
        project: None,
    };
    let common = opened.real_common_dir();
    engine::workspace::record::create(&common, "w".as_ref(), record, None, shared, &Fsync::default())
        .expect("made");
    assert!(matches!(bases.remove(&two.name, shared), Err(Error::InUse { .. })));
    let foreseen = bases.prune(shared, Act::DryRun, &AtomicBool::new(false)).expect("looked");
    assert_eq!(foreseen.bases, std::slice::from_ref(&one.name));
    assert!(one.dir.exists());
    let freed = bases.prune(shared, Act::Remove, &AtomicBool::new(false)).expect("pruned");
    assert_eq!(freed.bases, std::slice::from_ref(&one.name));
    assert!(freed.bytes > 5_000_000 && foreseen.bytes >= freed.bytes, "{freed:?} {foreseen:?}");
    assert!(!one.dir.exists());
    assert_eq!(two.verify(Some(&opened), 1).expect("read").flaws, []);

    let again = add(&bases, &wanted(&opened, one_tree, None)).expect("built");
    assert_eq!(again.verify(Some(&opened), 1).expect("read").flaws, []);
    fs::remove_dir_all(common.join("sapwood/workspaces")).expect("removed");
    let freed = bases.prune(shared, Act::Remove, &AtomicBool::new(false)).expect("pruned");
    assert_eq!((freed.bases.len(), freed.generations), (2, vec![1]));
    assert_eq!(fs::read_dir(bases.dir().join("blobs")).expect("listed").count(), 0);
}

#[test]
fn a_full_disk_leaves_nothing() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = project(&sandbox);
    let (opened, tree) = (open(&repo), tree(&repo, "HEAD"));
    let point = place.path().join("small");
    fs::create_dir(&point).expect("created");
    let Some(_disk) = Disk::in_memory(3, &point) else { return };
    let bases = Bases::at(&point.join("bases"));
    let outcome = add(&bases, &wanted(&opened, tree, None));
    let Err(Error::Io { source, path, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{}", path.display());
    let left: Vec<PathBuf> = fs::read_dir(bases.dir())
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| !path.ends_with("lock") && !path.ends_with("users"))
        .collect();
    assert_eq!(left, [bases.dir().join("blobs")]);
    assert_eq!(fs::read_dir(&left[0]).expect("listed").count(), 0);
}

#[test]
fn a_wide_difference_is_a_large_part_of_the_files() {
    let (sandbox, place) = (Sandbox::new(), Place::new());
    let repo = sandbox.init("repo");
    for number in 0..64 {
        repo.write(format!("{}/{number}", number % 8), "one\n");
    }
    repo.commit("one");
    for (commit, changed) in [("few", 8), ("some", 9), ("half", 32), ("most", 33)] {
        repo.git(&["checkout", "-q", "main"]);
        (0..changed).for_each(|number| repo.write(format!("{}/{number}", number % 8), "two\n"));
        repo.git(&["checkout", "-q", "-b", commit]);
        repo.git(&["commit", "-qam", "two"]);
    }
    let opened = open(&repo);
    for (kind, first) in [(Kind::Image, 1), (Kind::Directory, 3)] {
        let wanted = |name: &str| {
            let tree = tree(&repo, name);
            Wanted::new(&opened, tree, kind, Owner::of_process(), None).expect("settings")
        };
        let base = add(&place.bases(), &wanted("main")).expect("built");
        let is_wide = |name: &str, least| base.differs_widely(&wanted(name), least).expect("compared");
        for (at, name) in ["few", "some", "half", "most"].into_iter().enumerate() {
            assert_eq!(is_wide(name, 0), at >= first, "{kind:?}: {name}");
        }
        assert!(is_wide("most", 32) && !is_wide("most", 33) && !is_wide("main", 0), "{kind:?}");
        let time = Some((1_800_000_000, 7));
        let timed = add(&place.bases(), &wanted("most").with_time(time)).expect("built");
        assert_eq!((timed.time(), base.time()), (time, None));
        assert_ne!((&timed.contents, &timed.name), (&base.contents, &base.name));
        let siblings = place.bases().siblings(&wanted("most")).expect("listed");
        assert!(siblings.is_empty() && place.bases().find(&wanted("most")).expect("searched").is_none());
        let verified = timed.verify(Some(&opened), 1).expect("read");
        assert_eq!((verified.flaws, verified.files), (Vec::new(), 64));
    }
}
