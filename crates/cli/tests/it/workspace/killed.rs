//! Commands that are killed at random times, followed by a reboot: all mounts are lost. `gc` and
//! `mount --all` restore every byte of every upper layer, and leave nothing else.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use testkit::{Repo, disk::mounts_below};

use super::create::Place;
use crate::{
    SAPWOOD, full,
    killed::{another, kill_child_after, moment},
    random::Random,
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

/// Runs `sapwood workspace` and kills it after `delay`. Returns true if it was still running.
fn kill_after(place: &Place, args: &[&str], delay: Duration) -> bool {
    let mut command = place.repo().command(Path::new(SAPWOOD));
    command.arg("workspace").args(args).stdout(Stdio::null()).stderr(Stdio::null());
    kill_child_after(command.spawn().expect("the program starts"), delay)
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
    for args in &commands[..if full() { commands.len() } else { 2 }] {
        let mut held = 0;
        for nth in 1.. {
            let place = place();
            place.done(&["create", "-q", "one", "--detach", "--backend", "overlay", "four~1"]);
            place.workspace("one").write("file", "edited\n");
            let inject = format!("inject=rename,renameat,renameat2:signal=KILL:when={nth}");
            let mut command = place.repo().command(Path::new("strace"));
            command.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "-e", &inject, SAPWOOD, "workspace"]);
            let status = command.args(*args).stdout(Stdio::null()).stderr(Stdio::null()).status();
            let is_done = status.expect("strace is installed").success();
            held += locks(&place).len();
            let context = format!("{args:?}, before rename {nth}");
            // The lock of another program stays.
            place.repo().write(".git/index.lock", "");
            reboot_and_recover(&place, &context);
            place.repo().remove(".git/index.lock");
            place.repo().git(&["config", "a.b", "c"]);
            if is_done {
                assert!(nth > 2, "{context}");
                break;
            }
        }
        assert!(held > 0 || args[0] == "remove", "{args:?}: no lock was held at any rename");
    }
}

/// Returns the time that a command takes when it is not killed.
fn timed(place: &Place, args: &[&str]) -> Duration {
    let begin = Instant::now();
    place.done(args);
    begin.elapsed()
}

/// Prints the number of killed runs. Without any, the test proves nothing; only the full run, on a
/// quiet machine, treats that as a failure.
fn tell(backend: &str, interrupted: usize, what: &str) {
    println!("{backend}: {interrupted} {what} were killed while running");
    assert!(interrupted > 0 || !full(), "no run was killed in time: the test shows nothing");
}

#[test]
fn a_killed_creation_leaves_a_whole_workspace_or_none() {
    for backend in BACKENDS {
        let place = place();
        let args = ["create", "-q", "one", "--detach", "--backend", backend, "four"];
        place.done(&args);
        place.done(&["remove", "--force", "one"]);
        let whole = timed(&place, &args);
        let (mut random, mut interrupted) = (Random::new(3), 0);
        place.done(&["remove", "--force", "one"]);
        let mut round = 0;
        while another(round, interrupted, (6, 50)) {
            round += 1;
            interrupted += usize::from(kill_after(&place, &args, moment(&mut random, whole + whole / 10)));
            let context = format!("{backend}, round {round}");
            reboot_and_recover(&place, &context);
            match traces(&place).is_empty() {
                true => assert!(mounts_below(&place.workspace("one").path).is_empty(), "{context}"),
                false => {
                    assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{context}");
                    place.done(&["remove", "--force", "one"]);
                    assert_eq!(traces(&place), Vec::<PathBuf>::new(), "{context}");
                }
            }
            place.done(&args);
            place.done(&["remove", "--force", "one"]);
        }
        tell(backend, interrupted, "creations");
    }
}

#[test]
fn a_killed_base_leaves_a_whole_base_or_none() {
    for backend in BACKENDS {
        let place = place();
        let kind = ["base", "add", "-q", "--backend", backend];
        let whole = timed(&place, &[&kind[..], &["HEAD~3"]].concat());
        let (mut random, mut interrupted) = (Random::new(4), 0);
        let mut round = 0;
        while another(round, interrupted, (4, 50)) {
            round += 1;
            let commit = ["HEAD", "HEAD~1", "HEAD~2"][round % 3];
            let args = [&kind[..], &[commit]].concat();
            interrupted += usize::from(kill_after(&place, &args, moment(&mut random, whole + whole / 10)));
            let context = format!("{backend}, round {round}");
            place.done(&["create", "-q", "one", "--detach", "--backend", backend, commit]);
            assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{context}");
            // Compares the bytes with the commit's, not only the stat data.
            place.git("one", &["update-index", "-q", "--really-refresh"]);
            place.git("one", &["-c", "core.fsmonitor=", "diff", "--exit-code"]);
            let content = place.workspace("one").read("file");
            assert_eq!(content, place.repo().git(&["show", &format!("{commit}:file")]).stdout, "{context}");
            place.done(&["remove", "--force", "one"]);
        }
        tell(backend, interrupted, "builds of bases");
    }
}

#[test]
fn a_killed_rebase_keeps_every_byte() {
    for backend in BACKENDS {
        let place = place();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "four"]);
        let workspace = place.workspace("one");
        edit(&workspace, 0);
        let to = |commit| ["rebase", "-q", "-d", "one", commit];
        let (old, new) = ("four~1", "four");
        let whole = timed(&place, &to(old)).max(timed(&place, &to(new)));
        let (mut random, mut at, mut interrupted) = (Random::new(5), new, 0);
        let mut round = 0;
        while another(round, interrupted, (8, 50)) {
            round += 1;
            edit(&workspace, round);
            let expected = own_files(&workspace);
            let target = if at == new { old } else { new };
            interrupted +=
                usize::from(kill_after(&place, &to(target), moment(&mut random, whole + whole / 10)));
            let context = format!("{backend}, round {round}");
            reboot_and_recover(&place, &context);
            assert_eq!(own_files(&workspace), expected, "{context}");
            let head = place.git("one", &["rev-parse", "HEAD"]);
            let commit = place.repo().git(&["rev-parse", old, new]).stdout.to_string();
            at = if commit.starts_with(&head) { old } else { new };
            assert!(commit.contains(&head), "{context}");
            let status = " M file\n D dir/deep/file\n D dir/empty\n?? dir/moved/\n?? own/\n";
            let mut lines: Vec<_> = status.lines().collect();
            lines.sort_unstable();
            let found = place.git("one", &["status", "--porcelain"]);
            let mut found: Vec<_> = found.lines().collect();
            found.sort_unstable();
            assert_eq!(found, lines, "{context}, at {at}");
            place.git(
                "one",
                &["-c", "core.fsmonitor=", "diff", "--quiet", "--exit-code", "--", "many", "added"],
            );
        }
        tell(backend, interrupted, "rebases");
    }
}

#[test]
fn a_killed_removal_is_completed_or_did_not_begin() {
    for backend in BACKENDS {
        let place = place();
        let create = ["create", "-q", "one", "--detach", "--backend", backend, "four"];
        place.done(&create);
        let whole = timed(&place, &["remove", "--force", "one"]);
        let (mut random, mut interrupted) = (Random::new(6), 0);
        let mut round = 0;
        while another(round, interrupted, (6, 50)) {
            round += 1;
            place.done(&create);
            let workspace = place.workspace("one");
            edit(&workspace, round);
            let expected = own_files(&workspace);
            let delay = moment(&mut random, whole + whole / 10);
            interrupted += usize::from(kill_after(&place, &["remove", "--force", "one"], delay));
            let context = format!("{backend}, round {round}");
            reboot_and_recover(&place, &context);
            if !traces(&place).is_empty() {
                assert_eq!(own_files(&workspace), expected, "{context}");
                place.done(&["remove", "--force", "one"]);
            }
            assert_eq!(traces(&place), Vec::<PathBuf>::new(), "{context}");
        }
        tell(backend, interrupted, "removals");
    }
}

#[test]
fn killed_moves_and_freezes_keep_every_byte() {
    for backend in BACKENDS {
        let place = place();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "four"]);
        edit(&place.workspace("one"), 0);
        let (mut random, mut interrupted) = (Random::new(7), 0);
        let expected = own_files(&place.workspace("one"));
        let whole = timed(&place, &["freeze", "-q", "one"]) + timed(&place, &["thaw", "-q", "one"]);
        let mut at = "one";
        let mut round = 0;
        while another(round, interrupted, (6, 50)) {
            round += 1;
            let context = format!("{backend}, round {round}");
            let other = if at == "one" { "two" } else { "one" };
            let dir = format!("../repo.workspaces/{other}");
            for args in [&["freeze", "-q", "one"][..], &["move", "-q", "one", &dir]] {
                interrupted += usize::from(kill_after(&place, args, moment(&mut random, whole + whole / 10)));
                reboot_and_recover(&place, &context);
                let _ = place.run(&["thaw", "-q", "one"]);
                at =
                    ["one", "two"].into_iter().find(|at| place.workspace(at).exists("file")).expect(&context);
                assert_eq!(own_files(&place.workspace(at)), expected, "{context}");
                let list = place.repo().git(&["worktree", "list", "--porcelain"]).stdout.to_string();
                let line = format!("worktree {}\n", place.workspace(at).path.display());
                assert!(list.contains(&line), "{context}: {list}");
                let other = place.workspace(if at == "one" { "two" } else { "one" });
                assert!(!other.path.exists(), "{context}: {}", other.path.display());
            }
        }
        tell(backend, interrupted, "moves and freezes");
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
