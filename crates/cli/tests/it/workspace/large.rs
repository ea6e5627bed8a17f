//! Rebases to commits that differ in most files: nothing is copied, and builds keep their order
//! with the sources.

use std::{fs, path::PathBuf, time::Duration};

use testkit::crash::{Crash, CrashPoints};

use super::{create::Place, lost::wait_until_durable};
use crate::{
    SAPWOOD,
    killed::{ALL, Most, at_crash_points, sapwood},
};

/// The backends that show one base over another.
const BACKENDS: [&str; 3] = ["image", "overlay", "overlay-user"];

/// More files than a rebase copies.
const MANY: usize = 4200;

/// Creates a place with three tagged commits. `second` changes most files of `first`, `third` one.
fn place() -> Place {
    let place = Place::new();
    let repo = place.repo();
    for number in 0..300 {
        repo.write(format!("same/{}/{number}", number % 7), format!("{number}\n"));
    }
    for (commit, text) in [("first", "one"), ("second", "two")] {
        for number in 0..MANY {
            repo.write(path(number), format!("{text} {number}\n"));
        }
        repo.commit(commit);
        repo.git(&["tag", commit]);
    }
    repo.write(path(0), "three\n");
    repo.commit("third");
    repo.git(&["tag", "third"]);
    place
}

fn path(number: usize) -> String {
    format!("many/{}/{number}", number % 40)
}

/// Runs a script in the workspace.
fn inside(place: &Place, script: &str) -> String {
    place.done(&["exec", "one", "--", "sh", "-ec", script])
}

/// Writes a file that stands for something that was built.
fn build(place: &Place, name: &str) {
    inside(place, &format!("sleep 0.02; echo built >{name}; sleep 0.02"));
}

/// Returns the tracked files that are not newer than the built file.
fn old_files(place: &Place, built: &str) -> Vec<String> {
    let script = format!("find . -type f ! -newer {built} ! -name '*.o' ! -name .git -printf '%P\\n'");
    let mut found: Vec<String> = inside(place, &script).lines().map(ToOwned::to_owned).collect();
    found.sort();
    found
}

fn newer(place: &Place) -> PathBuf {
    place.repo().join(".git/sapwood/workspaces/one/newer")
}

/// Returns the number of files in the newer layer.
fn copied(place: &Place) -> usize {
    let listed = place.repo().run("find".as_ref(), &[newer(place).to_str().expect("plain"), "-type", "f"]);
    listed.stdout.to_string().lines().count()
}

/// Returns the names of all bases that have a time of their own.
fn timed(place: &Place) -> Vec<String> {
    let names =
        fs::read_dir(place.bases()).expect("listed").map(|entry| entry.expect("an entry").file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.len() == 82).collect()
}

/// Git and sapwood find nothing, without a monitor and without reading a file of the base. A file
/// of the newer layer may be as new as the index, as after any switch.
fn check_clean(place: &Place, context: &str) {
    assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{context}");
    let status = ["exec", "one", "--", SAPWOOD, "status", "--porcelain"];
    assert_eq!(place.done(&status), "", "{context}");
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let log = place.repo().join(".git/calls");
    let traced = ["strace", "-f", "-o", log.to_str().expect("plain"), "-e", "trace=open,openat", &git];
    let plain = ["-c", "core.fsmonitor=false", "diff-files", "--exit-code"];
    place.done(&[&["exec", "one", "--"], &traced[..], &plain].concat());
    let calls = fs::read_to_string(log).expect("a log");
    let is_read = |line: &&str| {
        (line.contains("\"many/") || line.contains("\"same/")) && !line.contains(".gitattributes")
    };
    let is_copied = |line: &&str| copied(place) > 0 && line.contains(&format!("\"{}\"", path(0)));
    let read: Vec<&str> = calls.lines().filter(is_read).filter(|line| !is_copied(line)).collect();
    assert!(read.is_empty(), "{context}: files are read: {read:#?}");
}

#[test]
fn a_large_rebase_copies_nothing_and_makes_every_file_newer_than_builds() {
    testkit::need_program("strace");
    for backend in BACKENDS {
        let place = place();
        place.done(&["create", "-q", "one", "-d", "first", "--backend", backend]);
        build(&place, "a.o");
        place.done(&["rebase", "-q", "-d", "one", "second"]);
        assert_eq!(copied(&place), 0, "{backend}");
        assert_eq!(old_files(&place, "a.o"), [""; 0], "{backend}");
        assert_eq!(inside(&place, "cat many/1/1 same/1/1 a.o"), "two 1\n1\nbuilt\n", "{backend}");
        check_clean(&place, backend);
        let first = timed(&place);
        assert_eq!(first.len(), 1, "{backend}");

        // A small rebase keeps the order of all other files.
        build(&place, "b.o");
        place.done(&["rebase", "-q", "-d", "one", "third"]);
        assert_eq!(copied(&place), 1, "{backend}");
        assert_eq!(old_files(&place, "a.o"), [""; 0], "{backend}");
        let old = old_files(&place, "b.o");
        assert!(!old.contains(&path(0)) && old.contains(&path(1)), "{backend}");
        assert_eq!(old.len(), MANY + 300 + 5 - 1, "{backend}");
        check_clean(&place, backend);
        place.done(&["base", "verify"]);

        // Back: the file of the newer layer goes, and so do the bases of this workspace alone.
        build(&place, "c.o");
        place.done(&["rebase", "-q", "-d", "one", "first"]);
        assert_eq!(copied(&place), 0, "{backend}");
        assert_eq!(old_files(&place, "c.o"), [""; 0], "{backend}");
        assert_eq!(inside(&place, "cat many/0/0"), "one 0\n", "{backend}");
        check_clean(&place, backend);
        let last = timed(&place);
        assert!(last.len() == 1 && last != first, "{backend}: {first:?}, {last:?}");

        // A new workspace does not take a base of another one.
        place.done(&["create", "-q", "two", "-d", "first", "--backend", backend]);
        let seconds = place.done(&["exec", "two", "--", "stat", "-c", "%Y", "many/1/1"]);
        let seconds: u64 = seconds.trim().parse().expect("seconds");
        assert!((1_300_000_000..1_500_000_000).contains(&seconds), "{backend}: {seconds}");

        place.done(&["unmount", "one"]);
        place.done(&["mount", "one"]);
        check_clean(&place, backend);
        place.done(&["remove", "--force", "one"]);
        place.done(&["base", "gc"]);
        assert_eq!(timed(&place), last, "{backend}: a rebase may have just made it");
        let lock = place.bases().join(&last[0]).join("lock");
        let hour_ago = std::time::SystemTime::now() - Duration::from_secs(3700);
        let file = fs::File::options().write(true).open(lock).expect("opened");
        file.set_modified(hour_ago).expect("an old lock");
        place.done(&["base", "gc"]);
        assert_eq!(timed(&place), [""; 0], "{backend}");
    }
}

#[test]
fn what_a_build_wrote_during_a_large_rebase_is_older_than_the_changes() {
    for backend in ["image", "overlay"] {
        let place = place();
        let repo = place.repo();
        let output = place.workspace("one").join("late.o");
        let smudge = format!("if test -e {0}; then touch {0}; sleep 0.02; fi; cat", output.display());
        repo.git(&["config", "filter.late.smudge", &smudge]);
        for commit in ["first", "second"] {
            repo.git(&["checkout", "-q", commit]);
            repo.write(".gitattributes", "filtered filter=late\n");
            repo.write("filtered", format!("{commit}\n"));
            repo.commit("filtered");
            repo.git(&["tag", "-f", commit]);
        }
        place.done(&["create", "-q", "one", "-d", "first", "--backend", backend]);
        build(&place, "late.o");
        let before = fs::metadata(&output).expect("built").modified().expect("a time");
        place.done(&["rebase", "-q", "-d", "one", "second"]);
        let built = fs::metadata(&output).expect("built").modified().expect("a time");
        assert!(built > before, "{backend}: the filter did not run");
        let old = old_files(&place, "late.o");
        assert!(
            old.iter().all(|path| !path.starts_with("many/") && path != "filtered"),
            "{backend}: {old:?}"
        );
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
    }
}

#[test]
fn other_attributes_and_settings_make_every_file_newer() {
    let place = Place::new();
    let repo = place.repo();
    repo.write("text", "one\ntwo\n");
    repo.commit("before");
    repo.write(".gitattributes", "text eol=crlf\n");
    repo.commit("after");
    repo.git(&["tag", "after"]);
    repo.write("text", "three\n");
    repo.commit("near");
    repo.git(&["tag", "near"]);
    for backend in BACKENDS {
        place.done(&["create", "-q", "one", "-d", "after~1", "--backend", backend]);
        build(&place, "a.o");
        place.done(&["rebase", "-q", "-d", "one", "after"]);
        assert_eq!(inside(&place, "cat text"), "one\r\ntwo\r\n", "{backend}");
        assert_eq!(old_files(&place, "a.o"), [""; 0], "{backend}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        let seconds = inside(&place, "stat -c %Y run $(git rev-parse --git-path index)");
        let seconds: Vec<u64> = seconds.lines().map(|line| line.parse().expect("a number")).collect();
        assert!(seconds[0] < seconds[1], "{backend}: Git would hash every file");
        build(&place, "b.o");
        place.done(&["rebase", "-q", "-d", "one", "near"]);
        assert!(old_files(&place, "b.o").contains(&"run".to_owned()), "{backend}");
        repo.git(&["config", "filter.other.smudge", backend]);
        place.done(&["rebase", "-q", "-d", "one", "after"]);
        assert_eq!(old_files(&place, "b.o"), [""; 0], "{backend}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        place.done(&["remove", "--force", "one"]);
    }
}

#[test]
fn changes_outside_of_a_sparse_worktree_do_not_count() {
    let place = place();
    place.done(&["create", "-q", "one", "-d", "first", "--backend", "image", "--sparse", "same"]);
    build(&place, "a.o");
    place.done(&["rebase", "-q", "-d", "one", "second"]);
    assert_eq!(timed(&place), [""; 0]);
    assert!(old_files(&place, "a.o").contains(&"same/1/1".to_owned()));
    assert_eq!(place.git("one", &["status", "--porcelain"]), "");
}

#[test]
fn a_refused_large_rebase_leaves_no_base() {
    for backend in BACKENDS {
        let place = place();
        place.done(&["create", "-q", "one", "-d", "first", "--backend", backend]);
        inside(&place, "echo mine >many/1/1");
        // The process that makes the first base durable would keep the second one from removal.
        for base in fs::read_dir(place.bases()).expect("listed") {
            let base = base.expect("an entry").path();
            if base.join("record").exists() {
                wait_until_durable(&base);
            }
        }
        let run = place.run(&["rebase", "-q", "-d", "one", "second"]);
        assert_ne!(run.code, 0, "{backend}: {run:?}");
        assert_eq!(timed(&place), [""; 0], "{backend}");
        assert_eq!(inside(&place, "cat many/1/1 many/2/2"), "mine\none 2\n", "{backend}");
    }
}

#[test]
fn a_lost_base_is_built_again_with_its_time() {
    for (backend, torn) in [("image", false), ("overlay", false), ("image", true)] {
        let place = place();
        place.done(&["create", "-q", "one", "-d", "first", "--backend", backend]);
        place.done(&["rebase", "-q", "-d", "one", "second"]);
        inside(&place, "echo mine >mine");
        let times = "stat -c '%n %.9Y' many/1/1 many/2/2 same";
        let before = inside(&place, times);
        let record = place.bases().join(&timed(&place)[0]).join("record");
        let text = || fs::read_to_string(&record).expect("read");
        while text().contains("pending") {
            std::thread::sleep(Duration::from_millis(10));
        }
        place.reboot();
        let lost = if torn { String::new() } else { text() + "\tpending = another-boot\n" };
        fs::write(&record, lost).expect("written");
        let run = place.run(&["mount", "one"]);
        assert_eq!(run.code, 0, "{backend}: {run:?}");
        assert!(run.stderr.to_string().contains("built again"), "{backend}: {run:?}");
        assert_eq!(inside(&place, times), before, "{backend}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "?? mine\n", "{backend}");
    }
}

/// Kills a large rebase before each rename.
#[test]
fn a_large_rebase_that_is_killed_loses_nothing() {
    let place = Place::new();
    let repo = place.repo();
    repo.write(".gitattributes", "*.txt text\n");
    repo.commit("attributes");
    repo.git(&["tag", "after"]);
    place.done(&["create", "-q", "one", "-d", "after~1", "--backend", "overlay"]);
    inside(&place, "echo mine >mine; echo mine >>dir/deep/file");
    let rebase = |commit| ["workspace", "rebase", "-q", "-d", "one", commit];
    // Both bases exist in each round.
    place.done(&rebase("after")[1..]);
    place.done(&rebase("after~1")[1..]);
    build(&place, "a.o");
    let command = sapwood(&repo, &rebase("after"));
    let points = CrashPoints::of(&command).only("rename");
    let mut done = 0;
    at_crash_points(&points, &Most(ALL, ALL), |number| {
        place.done(&rebase("after~1")[1..]);
        build(&place, "a.o");
        let before = place.git("one", &["rev-parse", "HEAD"]);
        let crash = Crash::before(number, &command);
        place.reboot();
        for args in [&["gc"][..], &["mount", "--all"]] {
            place.done(args);
        }
        assert_eq!(inside(&place, "cat mine dir/deep/file"), "mine\nmore\nmine\n", "{crash}");
        let status = place.git("one", &["status", "--porcelain"]);
        assert_eq!(status, " M dir/deep/file\n?? mine\n", "{crash}");
        if place.git("one", &["rev-parse", "HEAD"]) != before {
            done += 1;
            let old = old_files(&place, "a.o");
            let kept = ["dir/deep/file", "mine"];
            assert!(old.iter().all(|path| kept.contains(&path.as_str())), "{crash}: {old:?}");
        }
        crash.happened()
    });
    assert!(done > 0 && done < points.count(), "{done} of {} rebases were complete", points.count());
}

/// Nobody else can make a base with the time of a rebase, so the mount does.
#[test]
fn a_missing_base_with_a_time_is_made_again() {
    let place = place();
    place.done(&["create", "-q", "one", "-d", "first", "--backend", "image"]);
    build(&place, "a.o");
    place.done(&["rebase", "-q", "-d", "one", "second"]);
    let [name] = &timed(&place)[..] else { panic!("one base") };
    let base = place.bases().join(name);
    super::lost::wait_until_durable(&base);
    place.done(&["unmount", "-q", "one"]);
    place.reboot();
    fs::remove_dir_all(&base).expect("removed");
    place.done(&["mount", "one"]);
    assert!(base.exists());
    assert_eq!(old_files(&place, "a.o"), [""; 0]);
    assert_eq!(inside(&place, "cat many/1/1 a.o"), "two 1\nbuilt\n");
    check_clean(&place, "made again");
}
