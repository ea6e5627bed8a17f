//! Commands that are killed before a change on disk or a mount, followed by a reboot: all mounts
//! are lost. `gc` and `mount --all` restore every byte of every upper layer, and leave nothing
//! else.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use engine::workspace::record;
use testkit::{
    Repo,
    crash::{Crash, CrashPoints},
    disk::mounts_below,
};

use super::create::Place;
use crate::{
    full,
    killed::{ALL, Most, at_crash_points, sapwood},
};

/// The backends whose workspaces are killed. This process cannot examine a workspace in its own
/// namespace.
const BACKENDS: [&str; 2] = ["overlay", "image"];

/// Creates a place with two commits that differ in many paths.
fn place() -> Place {
    let place = Place::new();
    let repo = place.repo();
    for number in 0..60 {
        repo.write(format!("many/{}/{number}", number % 7), format!("{number}\n"));
    }
    repo.commit("three");
    for number in (0..60).step_by(2) {
        repo.write(format!("many/{}/{number}", number % 7), format!("other {number}\n"));
    }
    repo.remove("many/3");
    repo.write("added/file", "added\n");
    repo.commit("four");
    repo.git(&["tag", "four"]);
    place
}

/// `sapwood workspace` as a command to be killed.
fn command(place: &Place, args: &[&str]) -> Command {
    sapwood(&place.repo(), &[&["workspace"], args].concat())
}

/// Makes the user's changes: edits, untracked and ignored files, a deletion, a renamed directory.
fn edit(workspace: &Repo<'_>, round: usize) {
    workspace.write("file", format!("edited {round}\n"));
    workspace.write("own/deep/file", format!("mine {round}\n"));
    workspace.write("target/ignored.o", format!("built {round}\n"));
    if workspace.exists("dir/empty") {
        workspace.remove("dir/empty");
    }
    if workspace.exists("dir/deep") {
        fs::rename(workspace.join("dir/deep"), workspace.join("dir/moved")).expect("a rename");
    }
    workspace.write("dir/moved/new", format!("{round}\n"));
}

/// Returns the user's own files: every path that is not a clean file of the commit, by content.
fn own_files(workspace: &Repo<'_>) -> BTreeMap<String, String> {
    let paths = [
        "file",
        "own/deep/file",
        "target/ignored.o",
        "dir/moved/new",
        "dir/moved/file",
        "dir/empty",
        "dir/deep/file",
    ];
    let read = |path: &str| {
        fs::read_to_string(workspace.join(path)).unwrap_or_else(|error| error.kind().to_string())
    };
    paths.map(|path| (path.to_owned(), read(path))).into()
}

/// Returns everything next to the main worktree and in the private directories that a killed
/// command may leave.
fn traces(place: &Place) -> Vec<PathBuf> {
    let repo = place.repo();
    let mut found = Vec::new();
    for dir in [".git/worktrees", ".git/sapwood/workspaces", "../repo.workspaces"] {
        for entry in fs::read_dir(repo.join(dir)).into_iter().flatten() {
            found.push(entry.expect("an entry").path());
        }
    }
    found.sort();
    found
}

/// Restores everything after a reboot, and checks that Git finds no fault.
fn reboot_and_recover(place: &Place, context: &str) {
    place.reboot();
    for args in [&["gc"][..], &["mount", "--all"]] {
        let run = place.run(args);
        assert_eq!(run.code, 0, "{context}: {args:?}: {}", run.stderr);
    }
    let again = place.run(&["gc", "--json"]);
    assert_eq!(again.stdout, "[]\n", "{context}: the first gc left something");
    let fsck = place.repo().try_git(&["fsck", "--no-dangling"]);
    assert_eq!(fsck.code, 0, "{context}: {}", fsck.stderr);
    let foreign = place.repo().join(".git/index.lock");
    let expected: Vec<PathBuf> = if foreign.exists() { vec![foreign] } else { Vec::new() };
    assert_eq!(locks(place), expected, "{context}: locks");
    let staged = fs::read_dir(place.repo().join(".git/sapwood/workspaces")).into_iter().flatten();
    for state in staged {
        let state = state.expect("an entry").path();
        for name in ["upper.new", "upper.old", "rebase", "moving", "removing"] {
            assert!(!state.join(name).exists(), "{context}: {name} is left");
        }
        assert!(
            !state.file_name().expect("a name").to_string_lossy().starts_with('.'),
            "{context}: {state:?}"
        );
    }
}

/// Returns the lock files, and the claims on them, in the Git directory.
fn locks(place: &Place) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let entry = entry.expect("an entry");
            match entry.file_type().expect("a type").is_dir() {
                true => walk(&entry.path(), found),
                false if entry.path().extension().is_some_and(|end| end == "lock") => {
                    found.push(entry.path())
                }
                false => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(&place.repo().join(".git"), &mut found);
    found
}

/// Kills a command before each rename, with which every lock ends.
#[test]
fn a_command_killed_with_any_lock_leaves_none_after_gc() {
    let commands = [
        &["create", "-q", "two", "-b", "new", "four"][..],
        &["rebase", "-q", "-d", "one", "four"],
        &["move", "-q", "one", "moved"],
        &["remove", "--force", "one"],
    ];
    let begin = || {
        let place = place();
        place.done(&["create", "-q", "one", "--detach", "--backend", "overlay", "four~1"]);
        place.workspace("one").write("file", "edited\n");
        place
    };
    for args in &commands[..if full() { commands.len() } else { 2 }] {
        let mut held = 0;
        let points = CrashPoints::of(&command(&begin(), args)).only("rename");
        at_crash_points(&points, &Most(ALL, ALL), |number| {
            let place = begin();
            let crash = Crash::before(number, &command(&place, args));
            held += locks(&place).len();
            let context = format!("{args:?}, {crash}");
            // The lock of another program stays.
            place.repo().write(".git/index.lock", "");
            reboot_and_recover(&place, &context);
            place.repo().remove(".git/index.lock");
            place.repo().git(&["config", "a.b", "c"]);
            crash.happened()
        });
        assert!(held > 0 || args[0] == "remove", "{args:?}: no lock was held at any rename");
    }
}

#[test]
fn a_killed_creation_leaves_a_whole_workspace_or_none() {
    for backend in BACKENDS {
        let place = place();
        let args = ["create", "-q", "one", "--detach", "--backend", backend, "four"];
        place.done(&args);
        place.done(&["remove", "--force", "one"]);
        let create = command(&place, &args);
        let points = CrashPoints::of(&create);
        place.done(&["remove", "--force", "one"]);
        let (mut whole, mut none) = (0, 0);
        at_crash_points(&points, &Most(8, ALL), |number| {
            let crash = Crash::before(number, &create);
            let context = format!("{backend}, {crash}");
            reboot_and_recover(&place, &context);
            if traces(&place).is_empty() {
                none += 1;
                assert!(mounts_below(&place.workspace("one").path).is_empty(), "{context}")
            } else {
                whole += 1;
                assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{context}");
                place.done(&["remove", "--force", "one"]);
                assert_eq!(traces(&place), Vec::<PathBuf>::new(), "{context}");
            }
            place.done(&args);
            place.done(&["remove", "--force", "one"]);
            crash.happened()
        });
        println!("{backend}: {whole} workspaces, {none} times none");
        assert!(none > 0, "{backend}: each kill left a workspace");
        assert!(whole > 0, "{backend}: no kill left a workspace");
    }
}

#[test]
fn a_killed_base_leaves_a_whole_base_or_none() {
    for backend in BACKENDS {
        let args = ["base", "add", "-q", "--backend", backend, "HEAD"];
        let points = CrashPoints::of(&command(&place(), &args));
        at_crash_points(&points, &Most(6, ALL), |number| {
            let place = place();
            let crash = Crash::before(number, &command(&place, &args));
            let context = format!("{backend}, {crash}");
            place.done(&["create", "-q", "one", "--detach", "--backend", backend, "HEAD"]);
            assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{context}");
            // Compares the bytes with the commit's, not only the stat data.
            place.git("one", &["update-index", "-q", "--really-refresh"]);
            place.git("one", &["-c", "core.fsmonitor=", "diff", "--exit-code"]);
            let content = place.workspace("one").read("file");
            assert_eq!(content, place.repo().git(&["show", "HEAD:file"]).stdout, "{context}");
            place.done(&["remove", "--force", "one"]);
            crash.happened()
        });
    }
}

#[test]
fn a_killed_rebase_keeps_every_byte() {
    for (backend, [old, new]) in BACKENDS.into_iter().zip([["four~1", "four"], ["four", "four~1"]]) {
        let place = place();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, old]);
        let workspace = place.workspace("one");
        edit(&workspace, 0);
        let to = |commit| ["rebase", "-q", "-d", "one", commit];
        let back = || {
            if place.repo().git(&["rev-parse", old]).stdout != place.git("one", &["rev-parse", "HEAD"]) {
                place.done(&to(old));
            }
        };
        let rebase = command(&place, &to(new));
        // The base of the new commit exists in each round, as it does after the first one.
        place.done(&to(new));
        back();
        let points = CrashPoints::of(&rebase);
        let (mut heads, mut round) = (BTreeMap::new(), 0);
        at_crash_points(&points, &Most(10, ALL), |number| {
            back();
            round += 1;
            edit(&workspace, round);
            let expected = own_files(&workspace);
            let crash = Crash::before(number, &rebase);
            let context = format!("{backend}, {crash}");
            reboot_and_recover(&place, &context);
            assert_eq!(own_files(&workspace), expected, "{context}");
            let head = place.git("one", &["rev-parse", "HEAD"]);
            let commits = place.repo().git(&["rev-parse", old, new]).stdout.to_string();
            assert!(commits.contains(&head), "{context}");
            *heads.entry(head).or_insert(0) += 1;
            let status = " M file\n D dir/deep/file\n D dir/empty\n?? dir/moved/\n?? own/\n";
            let mut lines: Vec<_> = status.lines().collect();
            lines.sort_unstable();
            let found = place.git("one", &["status", "--porcelain"]);
            let mut found: Vec<_> = found.lines().collect();
            found.sort_unstable();
            assert_eq!(found, lines, "{context}");
            place.git(
                "one",
                &["-c", "core.fsmonitor=", "diff", "--quiet", "--exit-code", "--", "many", "added"],
            );
            crash.happened()
        });
        println!("{backend}: at {heads:?}");
        assert_eq!(heads.len(), 2, "{backend}: the kills left one commit only");
    }
}

#[test]
fn a_killed_removal_is_completed_or_did_not_begin() {
    for backend in BACKENDS {
        let place = place();
        let create = ["create", "-q", "one", "--detach", "--backend", backend, "four"];
        let remove = command(&place, &["remove", "--force", "one"]);
        place.done(&create);
        edit(&place.workspace("one"), 0);
        let points = CrashPoints::of(&remove);
        let (mut kept, mut round) = (0, 0);
        at_crash_points(&points, &Most(8, ALL), |number| {
            round += 1;
            place.done(&create);
            let workspace = place.workspace("one");
            edit(&workspace, round);
            let expected = own_files(&workspace);
            let crash = Crash::before(number, &remove);
            let context = format!("{backend}, {crash}");
            reboot_and_recover(&place, &context);
            if !traces(&place).is_empty() {
                kept += 1;
                assert_eq!(own_files(&workspace), expected, "{context}");
                place.done(&["remove", "--force", "one"]);
            }
            assert_eq!(traces(&place), Vec::<PathBuf>::new(), "{context}");
            crash.happened()
        });
        println!("{backend}: {kept} workspaces were kept");
        assert!(kept > 0, "{backend}: each kill came after the removal");
    }
}

#[test]
fn killed_moves_and_freezes_keep_every_byte() {
    for backend in BACKENDS {
        let place = place();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "four"]);
        edit(&place.workspace("one"), 0);
        let expected = own_files(&place.workspace("one"));
        let here = || {
            let at = ["one", "two"].into_iter().find(|at| place.workspace(at).exists("file"));
            at.expect("a workspace with files")
        };
        let elsewhere = || format!("../repo.workspaces/{}", if here() == "one" { "two" } else { "one" });
        let freeze = command(&place, &["freeze", "-q", "one"]);
        let points = [CrashPoints::of(&freeze), {
            place.done(&["thaw", "-q", "one"]);
            CrashPoints::of(&command(&place, &["move", "-q", "one", &elsewhere()]))
        }];
        for (name, points) in ["freeze", "move"].into_iter().zip(points) {
            at_crash_points(&points, &Most(6, ALL), |number| {
                let dir = elsewhere();
                let args =
                    if name == "freeze" { vec![name, "-q", "one"] } else { vec![name, "-q", "one", &dir] };
                let crash = Crash::before(number, &command(&place, &args));
                let context = format!("{backend}, {name}, {crash}");
                reboot_and_recover(&place, &context);
                let _ = place.run(&["thaw", "-q", "one"]);
                let at = here();
                assert_eq!(own_files(&place.workspace(at)), expected, "{context}");
                let list = place.repo().git(&["worktree", "list", "--porcelain"]).stdout.to_string();
                let line = format!("worktree {}\n", place.workspace(at).path.display());
                assert!(list.contains(&line), "{context}: {list}");
                let other = place.workspace(if at == "one" { "two" } else { "one" });
                assert!(!other.path.exists(), "{context}: {}", other.path.display());
                crash.happened()
            });
        }
    }
}

#[test]
fn a_whole_directory_is_moved_by_one_rename() {
    for backend in BACKENDS {
        let place = place();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "four"]);
        let workspace = place.workspace("one");
        workspace.write("target/deep/ignored.o", "built\n");
        let upper = place.repo().join(".git/sapwood/workspaces/one/upper/target/deep");
        let inode = fs::metadata(&upper).expect("in the upper layer").ino();
        place.done(&["rebase", "-q", "-d", "one", "four~1"]);
        assert_eq!(fs::metadata(&upper).expect("in the upper layer").ino(), inode, "{backend}");
        let names: Vec<_> = fs::read_dir(upper.join("../..")).expect("a directory").flatten().collect();
        assert_eq!(names.len(), 2, "only `.git` and `target` are kept: {names:?}");
    }
}

#[test]
fn a_killed_reaping_takes_only_what_landed() {
    for backend in BACKENDS {
        let place = place();
        let reap = command(&place, &["gc", "--landed", "-q"]);
        let begin = |round: usize| {
            for name in ["kept", "landed"] {
                if place.workspace(name).exists("file") {
                    continue;
                }
                let branch = format!("{name}-{round}");
                place.done(&["create", "-q", name, "-b", &branch, "--backend", backend]);
                place.workspace(name).write(&branch, "mine\n");
                place.git(name, &["add", "."]);
                place.git(name, &["commit", "-qm", &branch]);
                place.repo().git(&["merge", "-q", "--no-edit", &branch]);
            }
            edit(&place.workspace("kept"), round);
        };
        begin(0);
        let points = CrashPoints::of(&reap);
        let mut round = 0;
        at_crash_points(&points, &Most(8, ALL), |number| {
            round += 1;
            begin(round);
            let expected = own_files(&place.workspace("kept"));
            let crash = Crash::before(number, &reap);
            let context = format!("{backend}, {crash}");
            reboot_and_recover(&place, &context);
            assert_eq!(own_files(&place.workspace("kept")), expected, "{context}");
            if place.workspace("landed").path.exists() {
                assert_eq!(place.git("landed", &["status", "--porcelain"]), "", "{context}");
            }
            place.done(&["gc", "--landed", "-q"]);
            assert!(!place.workspace("landed").path.exists(), "{context}");
            assert_eq!(own_files(&place.workspace("kept")), expected, "{context}");
            crash.happened()
        });
    }
}

/// Waits until a program waits in a call for its standard error.
fn wait_for_output(program: &mut Child) {
    let mut count = 0;
    while count < 3 {
        assert_eq!(program.try_wait().expect("a child"), None, "it ended without output");
        let call = fs::read_to_string(format!("/proc/{}/syscall", program.id())).expect("a call");
        count = if call.split(' ').nth(1) == Some("0x2") { count + 1 } else { 0 };
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Records that a process creates the workspace `one`.
fn record_creation(place: &Place, process: &Child) {
    let (own, other) = (format!(" {} ", std::process::id()), format!(" {} ", process.id()));
    let reason = record::initializing(&place.workspace("one").path);
    let reason = String::from_utf8(reason).expect("text").replacen(&own, &other, 1);
    fs::write(place.repo().join(".git/worktrees/one/locked"), reason).expect("written");
}

/// A container without an init process has zombies until it ends.
#[test]
fn gc_removes_what_a_zombie_was_creating() {
    let place = Place::new();
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
    place.done(&["unmount", "one"]);
    let mut creator = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it runs");
    record_creation(&place, &creator);
    let state = place.repo().join(".git/sapwood/workspaces/one");
    place.done(&["gc"]);
    assert!(state.exists(), "its creator runs");
    drop(creator.stdin.take());
    let stat = format!("/proc/{}/stat", creator.id());
    while !fs::read_to_string(&stat).expect("a zombie is there").contains(" Z ") {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    place.done(&["gc"]);
    assert!(!state.exists(), "its creator has ended");
    creator.wait().expect("it has ended");
}

/// `gc` finds the remains of a creation. Work that comes before it has the lock stays.
#[test]
fn gc_looks_again_under_the_lock() {
    type Change = fn(&Place, &Path);
    let begin: Change = |place, _| {
        let mut ended = Command::new("true").spawn().expect("it runs");
        ended.wait().expect("it ends");
        record_creation(place, &ended);
    };
    let orphan: Change = |_, admin| fs::remove_dir_all(admin).expect("removed");
    let write: Change = |place, _| {
        let upper = place.repo().join(".git/sapwood/workspaces/one/upper");
        fs::write(upper.join("late"), "mine\n").expect("written");
    };
    let conclude: Change = |_, admin| fs::write(admin.join("locked"), record::LOCK_REASON).expect("written");
    let nothing: Change = |_, _| {};
    let cases = [
        ("begun, then used", begin, write, true),
        ("begun, then complete", begin, conclude, true),
        ("begun", begin, nothing, false),
        ("an orphan, then used", orphan, write, true),
        ("an orphan", orphan, nothing, false),
    ];
    for (what, before, meanwhile, stays) in cases {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", "overlay"]);
        place.done(&["unmount", "one"]);
        let admin = place.repo().join(".git/worktrees/one");
        before(&place, &admin);
        let state = place.repo().join(".git/sapwood/workspaces/one");
        // gc cannot print what it has found, until somebody reads.
        let (mut lines, mut full) = std::io::pipe().expect("a pipe");
        full.write_all(&[b'.'; 1 << 16]).expect("it fits");
        let mut gc = command(&place, &["gc"]).stderr(full).spawn().expect("it runs");
        wait_for_output(&mut gc);
        meanwhile(&place, &admin);
        let mut said = String::new();
        lines.read_to_string(&mut said).expect("text");
        gc.wait().expect("it ends");
        assert!(said.contains("'one': "), "{what}: {said}");
        assert_eq!(state.join("record").exists(), stays, "{what}: {said}");
        let late = fs::read_to_string(state.join("upper/late"));
        assert_eq!(late.is_ok(), what.ends_with("used"), "{what}: {said}");
    }
}
