//! Tests each kind of weather with real programs.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod power;

use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    panic,
    path::Path,
    process::{Command, Stdio},
    sync::Barrier,
    thread,
    time::{Duration, Instant, SystemTime},
};

use rustix::io::Errno;
use testkit::{
    Repo, Sandbox,
    weather::{self, At, Caching, Fault, Journal, Latency, Mount, Nth, Operation, Profile, Writes},
};

/// Returns a disk in a sandbox; the sandbox must be dropped last. Returns `None`, and prints the
/// reason, if there is no FUSE.
fn disk(profile: &Profile) -> Option<(Sandbox, Mount)> {
    if let Err(unusable) = weather::usable() {
        println!("skipped: {unusable}");
        return None;
    }
    let sandbox = Sandbox::new();
    let mount = Mount::new(profile, &sandbox.path()).expect("a disk");
    Some((sandbox, mount))
}

/// Returns the profile with the same kind of latency, but so short that tests need not wait for it.
fn quick(profile: Profile) -> Profile {
    let latency = match profile.latency {
        Latency::Slots { at_once, .. } => Latency::Slots { each: Duration::from_micros(100), at_once },
        Latency::Arm { .. } => {
            Latency::Arm { settle: Duration::from_micros(10), stroke: Duration::from_micros(200) }
        }
        Latency::None => Latency::None,
    };
    let flush = profile.flush.map(|_| Duration::from_micros(100));
    Profile { latency, flush, ..profile }
}

fn os_error<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Writes a file with this content. `syncs` selects whether its content and its name are synced.
fn put(path: &Path, content: &str, syncs: &[&str]) {
    let mut file = File::create(path).expect("new");
    file.write_all(content.as_bytes()).expect("room");
    if syncs.contains(&"file") {
        file.sync_all().expect("a file");
    }
    if syncs.contains(&"dir") {
        sync_dir(path.parent().expect("below the root"));
    }
}

fn sync_dir(path: &Path) {
    File::open(path).and_then(|dir| dir.sync_all()).expect("a directory");
}

/// Creates two commits that differ in content, mode, kind and location of files.
fn history(repo: &Repo<'_>) {
    for number in 0..30 {
        repo.write(format!("dir{}/sub/file{number}", number % 3), format!("{number}\n").repeat(number + 1));
    }
    repo.write_executable("run", "#!/bin/sh\necho ran\n");
    repo.symlink("dir0/sub", "link");
    repo.write("empty", "");
    repo.commit("one");
    repo.git(&["branch", "one"]);
    repo.git(&["mv", "dir1", "moved"]);
    repo.remove("link");
    repo.write("link/is/deeper", "now");
    repo.write("dir0/sub/file0", vec![b'x'; 300_000]);
    repo.commit("two");
}

#[test]
fn git_works_in_any_weather() {
    let flushing = Profile::flushing(Duration::from_millis(1));
    let far = [Profile::nfs(), Profile::efs(), Profile::ebs(), Profile::hdd(), flushing].map(quick);
    let near = [Profile::calm(), Profile::casefold(), Profile::power(Journal::Strict)];
    for profile in far.into_iter().chain(near) {
        let Some((sandbox, mount)) = disk(&profile) else { return };
        let repo = sandbox.init("disk/repo");
        history(&repo);
        repo.git(&["clone", "-q", "--no-local", ".", "../copy"]);
        let copy = sandbox.repo("disk/copy");
        for branch in ["one", "main"] {
            copy.git(&["checkout", "-q", "-B", branch, &format!("origin/{branch}")]);
            assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "", "{profile:?}");
        }
        assert_eq!(copy.read("dir0/sub/file0").len(), 300_000);
        assert_eq!(copy.run(&copy.join("run"), &[]).stdout, "ran\n");
        copy.git(&["gc", "-q"]);
        copy.git(&["fsck", "--strict", "--no-progress"]);
        copy.git(&["rm", "-rq", "."]);
        copy.git(&[
            "-c",
            "checkout.workers=8",
            "-c",
            "checkout.thresholdForParallelism=0",
            "reset",
            "-q",
            "--hard",
        ]);
        assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "");
        copy.git(&["worktree", "add", "-q", "../second", "one"]);
        assert_eq!(sandbox.repo("disk/second").git(&["status", "--porcelain"]).stdout, "");
        // The backing directory contains the content of the disk.
        mount.end().expect("nobody is left");
        let behind = sandbox.repo("backing/copy");
        assert_eq!(behind.read("dir0/sub/file0").len(), 300_000);
        behind.git(&["fsck", "--strict", "--no-progress"]);
    }
}

#[test]
fn a_disk_is_a_disk() {
    for writes in [Writes::Through, Writes::Back] {
        let calm = Profile::calm();
        let profile = Profile { caching: Caching { writes, ..calm.caching }, ..calm };
        let Some((_sandbox, mount)) = disk(&profile) else { return };
        let at = |path: &str| mount.path().join(path);

        // Files: appending, overwriting, truncating, holes, times, modes.
        fs::write(at("a"), "one").expect("new");
        let mut file = File::options().read(true).append(true).open(at("a")).expect("there");
        file.write_all(b" two").expect("room");
        file.write_at(b"O", 0).expect("room");
        file.seek(SeekFrom::Start(0)).expect("a file");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        // Appending writes at the end, whatever the position.
        assert_eq!(text, "one twoO");
        file.set_len(2).expect("shorter");
        assert_eq!(fs::read(at("a")).expect("there"), b"on");
        File::options().write(true).open(at("a")).expect("there").write_at(b"far", 10_000).expect("room");
        let whole = fs::read(at("a")).expect("there");
        assert_eq!((whole.len(), &whole[9_999..]), (10_003, &b"\0far"[..]));
        File::options()
            .write(true)
            .truncate(true)
            .open(at("a"))
            .expect("there")
            .write_all(b"new")
            .expect("room");
        assert_eq!(fs::read(at("a")).expect("there"), b"new");
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_111_111_111, 222_222_222);
        File::options().write(true).open(at("a")).expect("there").set_modified(time).expect("ours");
        assert_eq!(fs::metadata(at("a")).expect("there").modified().expect("known"), time);
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o640)).expect("ours");
        assert_eq!(fs::metadata(at("a")).expect("there").mode(), 0o100_640);

        // Names: hard links, links, renames over existing entries, directories.
        fs::hard_link(at("a"), at("b")).expect("the same disk");
        let [a, b] = ["a", "b"].map(|name| fs::metadata(at(name)).expect("there"));
        assert_eq!((a.ino(), b.nlink()), (b.ino(), 2));
        fs::remove_file(at("a")).expect("there");
        assert_eq!(fs::read(at("b")).expect("by its other name"), b"new");
        symlink("../elsewhere", at("s")).expect("new");
        assert_eq!(fs::read_link(at("s")).expect("a link"), Path::new("../elsewhere"));
        fs::create_dir(at("d")).expect("new");
        fs::write(at("d/x"), "x").expect("new");
        fs::write(at("d/y"), "y").expect("new");
        fs::rename(at("d/x"), at("d/y")).expect("there");
        assert_eq!(fs::read(at("d/y")).expect("there"), b"x");
        fs::rename(at("d"), at("e")).expect("there");
        assert_eq!(fs::read(at("e/y")).expect("moved"), b"x");
        assert_eq!(os_error(fs::remove_dir(at("e"))), Some(Errno::NOTEMPTY.raw_os_error()));
        assert_eq!(os_error(fs::create_dir(at("e"))), Some(Errno::EXIST.raw_os_error()));

        // An open file stays accessible after its last name was removed.
        let mut open = File::options().read(true).write(true).open(at("e/y")).expect("there");
        fs::remove_file(at("e/y")).expect("there");
        open.write_all(b"still").expect("room");
        open.seek(SeekFrom::Start(0)).expect("a file");
        let mut text = String::new();
        open.read_to_string(&mut text).expect("text");
        assert_eq!((text.as_str(), open.metadata().expect("open").nlink()), ("still", 0));
        fs::write(at("e/y"), "another").expect("a new one");
        assert_ne!(open.metadata().expect("open").ino(), fs::metadata(at("e/y")).expect("there").ino());

        // A directory is read while it is emptied.
        fs::create_dir(at("many")).expect("new");
        for number in 0..700 {
            fs::write(at(&format!("many/a-rather-long-name-{number}")), "").expect("new");
        }
        let mut seen = 0;
        for entry in fs::read_dir(at("many")).expect("there") {
            fs::remove_file(entry.expect("readable").path()).expect("seen once");
            seen += 1;
        }
        assert_eq!(seen, 700);
        fs::remove_dir(at("many")).expect("empty");
    }
}

#[test]
fn extended_attributes() {
    let Some((_sandbox, mount)) = disk(&Profile::calm()) else { return };
    let file = mount.path().join("file");
    fs::write(&file, "").expect("new");
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::setxattr(&file, "user.weather", b"fair", flags) {
        Err(Errno::OPNOTSUPP) => return println!("skipped: the backing directory has no attributes"),
        other => other.expect("ours"),
    }
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(&file, "user.weather", &mut value[..]), Ok(4));
    assert_eq!(&value[..4], b"fair");
    let missing = rustix::fs::getxattr(&file, "user.missing", &mut value[..]);
    assert_eq!(missing, Err(Errno::NODATA));
}

#[test]
fn operations_take_their_time() {
    let each = Duration::from_millis(20);
    let latency = Latency::Slots { each, at_once: 2 };
    let Some((_sandbox, mount)) = disk(&Profile { latency, ..Profile::nfs() }) else { return };
    let missing = |number: u32| os_error(fs::metadata(mount.path().join(format!("none-{number}"))));
    let start = Instant::now();
    for number in 0..5 {
        assert_eq!(missing(number), Some(Errno::NOENT.raw_os_error()));
    }
    assert!(start.elapsed() >= each * 5);
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 0..8 {
            scope.spawn(move || missing(number));
        }
    });
    assert!(start.elapsed() >= each * 4, "two at once");
    let report = mount.report();
    assert!(report.counts.of(Operation::Lookup) >= 13, "{report}");
    assert!(report.lateness.answers >= 13, "{report}");

    // The lookup, which a network mount would not send, was delayed, so the creation is free.
    mount.reset_lateness();
    let before = mount.counts();
    File::create_new(mount.path().join("new")).expect("new");
    let made = mount.counts().since(&before);
    assert_eq!((made.of(Operation::Lookup), made.of(Operation::Create)), (1, 1), "{made}");
    // A getattr cannot be for the new file, but may be for the directory.
    let waited = made.of(Operation::Lookup) + made.of(Operation::Getattr);
    assert_eq!(mount.report().lateness.answers, waited, "{made}");

    // A real server marks the last names as such, so the request that finds no more names is free.
    mount.reset_lateness();
    let before = mount.counts();
    assert_eq!(fs::read_dir(mount.path()).expect("the root").count(), 1);
    let listed = mount.counts().since(&before);
    assert_eq!((listed.of(Operation::Opendir), listed.of(Operation::Readdir)), (1, 2), "{listed}");
    let waited = 2 + listed.of(Operation::Lookup) + listed.of(Operation::Getattr);
    assert_eq!(mount.report().lateness.answers, waited, "{listed}");
}

#[test]
fn the_arm_serves_one_after_the_other() {
    let settle = Duration::from_millis(10);
    let latency = Latency::Arm { settle, stroke: Duration::from_millis(5) };
    let Some((_sandbox, mount)) = disk(&Profile { latency, ..Profile::hdd() }) else { return };
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 0..8 {
            let path = mount.path().join(format!("none-{number}"));
            scope.spawn(move || fs::metadata(path).is_err());
        }
    });
    assert!(start.elapsed() >= settle * 8, "one at once");
}

#[test]
fn the_kernel_keeps_what_it_may() {
    let Some((_sandbox, mount)) = disk(&quick(Profile::hdd())) else { return };
    let file = mount.path().join("file");
    fs::write(&file, "kept").expect("new");
    fs::metadata(&file).expect("there");
    let before = mount.counts();
    for _ in 0..20 {
        fs::metadata(&file).expect("there");
        assert_eq!(fs::read(&file).expect("there"), b"kept");
    }
    let since = mount.counts().since(&before);
    let asked = [Operation::Lookup, Operation::Read].map(|operation| since.of(operation));
    assert_eq!(asked, [0, 0], "{since}");
    assert_eq!(since.of(Operation::Open), 20, "{since}");
}

#[test]
fn operations_fail_as_told() {
    let Some((_sandbox, mount)) = disk(&Profile::calm()) else { return };
    let at = |path: &str| mount.path().join(path);
    fs::create_dir(at("d")).expect("new");
    for errno in [Errno::IO, Errno::NOSPC, Errno::DQUOT, Errno::ACCESS, Errno::MFILE, Errno::STALE] {
        let raw = Some(errno.raw_os_error());
        mount.set_faults(vec![Fault::fail(Operation::Create, errno).at(At::Path("d/x".into()))]);
        assert_eq!(os_error(File::create(at("d/x"))), raw);
        assert!(!at("d/x").exists(), "nothing was done");
        File::create(at("d/other")).expect("this one may be made");
        mount.set_faults(vec![Fault::fail(Operation::Write, errno).nth(Nth::From(2))]);
        let mut file = File::create(at("w")).expect("this is no write");
        file.write_all(b"first").expect("the first may be");
        assert_eq!(os_error(file.write_all(b"second")), raw);
        assert_eq!(os_error(file.write_all(b"third")), raw);
        mount.set_faults(vec![Fault::fail(Operation::Fsync, errno).nth(Nth::Only(1))]);
        assert_eq!(os_error(file.sync_all()), raw);
        file.sync_all().expect("only the first failed");
        let below = At::Below("d".into());
        mount.set_faults(vec![Fault::fail(Operation::Unlink, errno).at(below)]);
        assert_eq!(os_error(fs::remove_file(at("d/other"))), raw);
        fs::remove_file(at("w")).expect("elsewhere");
        mount.set_faults(Vec::new());
        fs::remove_file(at("d/other")).expect("fair weather");
    }
    // After EINTR, Rust's library repeats the call.
    mount.set_faults(vec![Fault::fail(Operation::Create, Errno::INTR).nth(Nth::Only(1))]);
    let before = mount.counts();
    File::create_new(at("again")).expect("the second time");
    assert_eq!(mount.counts().since(&before).of(Operation::Create), 2);

    mount.set_faults(vec![Fault::short(7)]);
    let mut file = File::create(at("short")).expect("new");
    assert_eq!(file.write(b"0123456789").expect("some room"), 7);
    file.write_all(b"789abcdefghijklmnop").expect("little by little");
    mount.set_faults(Vec::new());
    assert_eq!(fs::read(at("short")).expect("there"), b"0123456789abcdefghijklmnop");
}

#[test]
fn git_finishes_once_the_fault_is_gone() {
    let Some((sandbox, mount)) = disk(&Profile::calm()) else { return };
    let repo = sandbox.init("disk/repo");
    history(&repo);
    let full = Fault::fail(Operation::Write, Errno::NOSPC).at(At::Suffix("dir1/sub/file1".into()));
    mount.set_faults(vec![full]);
    let run = repo.try_git(&["checkout", "-q", "one"]);
    assert_eq!(run.stderr, "error: unable to write file dir1/sub/file1\n");
    mount.set_faults(Vec::new());
    repo.git(&["checkout", "-q", "-f", "one"]);
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
}

#[test]
fn case_is_kept_but_means_nothing() {
    let Some((sandbox, mount)) = disk(&Profile::casefold()) else { return };
    let at = |path: &str| mount.path().join(path);
    fs::write(at("Name"), "1").expect("new");
    assert_eq!(fs::read(at("nAME")).expect("the same"), b"1");
    assert_eq!(os_error(File::create_new(at("NAME"))), Some(Errno::EXIST.raw_os_error()));
    fs::write(at("NAME"), "2").expect("the same");
    let names = || -> Vec<_> {
        fs::read_dir(mount.path()).expect("there").map(|entry| entry.expect("readable").file_name()).collect()
    };
    assert_eq!(names(), ["Name"]);
    fs::write(at("other"), "3").expect("new");
    fs::rename(at("other"), at("nAmE")).expect("over the same");
    assert_eq!(names(), ["nAmE"]);
    fs::create_dir(at("Ärger")).expect("new");
    fs::write(at("äRGER/x"), "x").expect("new");
    fs::remove_file(at("ärger/X")).expect("there");
    fs::remove_dir(at("ÄRGER")).expect("empty");
    fs::remove_file(at("name")).expect("there");
    assert!(names().is_empty());

    let source = sandbox.init("source");
    for path in ["dir/file", "DIR/other", "same", "SAME"] {
        source.write(path, path);
    }
    source.commit("collides");
    let clone = sandbox.repo("disk").git(&["clone", "-q", "../source", "clone"]);
    assert!(clone.stderr.to_string().contains("'SAME'\n  'same'"), "{}", clone.stderr);
    let repo = sandbox.repo("disk/clone");
    assert_eq!(repo.git(&["config", "core.ignorecase"]).stdout, "true\n");
    let source_knows = source.try_git(&["config", "core.ignorecase"]);
    assert_eq!(source_knows.stdout, "", "only there");
    assert!(repo.exists("Dir/File") && repo.exists("dIR/OTHER"));
}

#[test]
fn counts_tell_what_was_asked_for() {
    let Some((_sandbox, mount)) = disk(&Profile::calm()) else { return };
    let before = mount.counts();
    for number in 0..3 {
        File::create_new(mount.path().join(format!("{number}"))).expect("new").sync_all().expect("a file");
    }
    fs::create_dir(mount.path().join("d")).expect("new");
    fs::rename(mount.path().join("0"), mount.path().join("d/0")).expect("there");
    fs::remove_file(mount.path().join("1")).expect("there");
    let since = mount.counts().since(&before);
    for (operation, count) in [
        (Operation::Create, 3),
        (Operation::Fsync, 3),
        (Operation::Mkdir, 1),
        (Operation::Rename, 1),
        (Operation::Unlink, 1),
        (Operation::Write, 0),
        (Operation::Symlink, 0),
    ] {
        assert_eq!(since.of(operation), count, "{}: {since}", operation.name());
    }
    assert!(since.to_string().contains("3 create") && since.all() >= 12, "{since}");
    assert_eq!((since.flushes(), since.written()), (3, 0), "{since}");
    put(&mount.path().join("file"), "eight by", &["file", "dir"]);
    let more = mount.counts().since(&before);
    assert_eq!((more.flushes(), more.written()), (5, 8), "{more}");
}

#[test]
fn flushes_take_their_time_and_are_shared() {
    let each = Duration::from_millis(30);
    let Some((_sandbox, mount)) = disk(&Profile::flushing(each)) else { return };
    let files: Vec<File> =
        (0..8).map(|number| File::create(mount.path().join(format!("{number}"))).expect("new")).collect();
    for mut file in &files {
        file.write_all(b"content").expect("room");
    }
    let start = Instant::now();
    for file in &files[..3] {
        file.sync_all().expect("a file");
    }
    sync_dir(mount.path());
    assert!(start.elapsed() >= each * 4, "one after the other");
    let alone = mount.counts();
    assert_eq!(alone.flushes(), 4, "{alone}");
    // The number of flushes depends on the times at which threads start: if every thread is in
    // time, it is two.
    let begin = Barrier::new(files.len());
    let start = Instant::now();
    thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                begin.wait();
                file.sync_data().expect("a file");
            });
        }
    });
    assert!(start.elapsed() >= each);
    let together = mount.counts().since(&alone);
    assert_eq!(together.of(Operation::Fsync), 8, "{together}");
    assert!((1..=8).contains(&together.flushes()), "{together}");
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("proc is there");
    mounts.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

#[test]
fn nothing_is_left_mounted() {
    let Some((sandbox, mount)) = disk(&quick(Profile::nfs())) else { return };
    let path = mount.path().to_owned();
    assert!(is_mounted(&path));
    // A process has its working directory there, and an open file.
    fs::write(path.join("file"), "").expect("new");
    let mut sitter = Command::new("sh")
        .args(["-c", "exec 3>>file; echo ready; read -r line; echo line >new"])
        .current_dir(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut ready = [0; 6];
    sitter.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("it says so");
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(move || {
        let _mount = mount;
        panic::resume_unwind(Box::new("a test that fails"));
    }));
    assert!(panicked.is_err());
    assert!(!is_mounted(&path));
    drop(sitter.stdin.take());
    assert!(!sitter.wait().expect("it ends").success(), "there is no disk any more");
    assert!(fs::read_dir(&path).expect("the bare directory").next().is_none());
    let again = Mount::new(&Profile::calm(), &sandbox.path()).expect("a disk");
    assert!(again.path().join("file").exists());
}

/// The server of this mount is killed.
#[test]
fn nothing_is_left_mounted_by_the_dead() {
    const DIR: &str = "SAPWOOD_TEST_WEATHER_DIR";
    if let Some(dir) = std::env::var_os(DIR) {
        let mount = Mount::new(&Profile::calm(), dir.as_ref()).expect("a disk");
        assert!(is_mounted(mount.path()));
        fs::write(mount.path().join("there"), "").expect("new");
        std::process::abort();
    }
    let Some((sandbox, mount)) = disk(&Profile::calm()) else { return };
    drop(mount);
    let mut child = Command::new(std::env::current_exe().expect("this one"))
        .args(["--exact", "nothing_is_left_mounted_by_the_dead"])
        .env(DIR, sandbox.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program");
    assert_eq!(child.wait().expect("it ends").code(), None, "it was to abort");
    assert!(sandbox.path().join("backing/there").exists());
    let start = Instant::now();
    while is_mounted(&sandbox.path().join("disk")) {
        assert!(start.elapsed() < Duration::from_secs(120), "it is still mounted");
        thread::sleep(Duration::from_millis(20));
    }
}
