//! The classes of `workspace list`, and what `workspace gc` removes by them.

use std::{
    collections::BTreeSet,
    fs,
    process::{Child, Command},
    sync::atomic::AtomicBool,
    time::Duration,
};

use engine::{
    trash::Trash,
    workspace::{
        backend::Busy,
        record,
        remove::{self as files, Checked},
    },
};
use repo::{OpenOptions, Repository};
use serde_json::Value;
use store::SharedRepository;
use testkit::wildcards::Dice;

use super::create::Place;
use crate::{SAPWOOD, full};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the documents of all workspaces.
fn listed(place: &Place) -> Vec<Value> {
    place.json().as_array().expect("a list").clone()
}

fn of(place: &Place, name: &str) -> Value {
    listed(place).into_iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} is listed"))
}

fn names(place: &Place) -> BTreeSet<String> {
    listed(place).iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

fn create(place: &Place, name: &str) {
    place.done(&["create", name, "-q", "-b", name, "--backend", "overlay"]);
}

/// Makes a commit in a workspace.
fn commit(place: &Place, name: &str, path: &str) {
    place.done(&["exec", name, "--", "sh", "-ec", &format!("echo {name} >{path}")]);
    place.git(name, &["add", "."]);
    place.git(name, &["commit", "-qm", &format!("{name} {path}")]);
}

/// Returns the names that `gc` removes, or would remove.
fn gone(place: &Place, args: &[&str]) -> Vec<String> {
    let found: Value = serde_json::from_str(&place.done(&[&["gc", "--json"], args].concat())).expect("JSON");
    let all = found.as_array().expect("a list").iter();
    all.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn commits_land_by_ancestry_and_by_equal_patches() {
    let place = Place::new();
    let repo = place.repo();
    for name in ["new", "merged", "picked", "squashed", "reverted", "open"] {
        create(&place, name);
    }
    for name in ["merged", "picked", "squashed", "reverted", "open"] {
        commit(&place, name, &format!("{name}-one"));
        commit(&place, name, &format!("{name}-two"));
    }
    repo.write("other", "main goes on\n");
    repo.commit("main");
    repo.git(&["merge", "-q", "--no-edit", "merged"]);
    repo.git(&["cherry-pick", "picked~1", "picked"]);
    repo.git(&["merge", "--squash", "squashed"]);
    repo.git(&["commit", "-qm", "all of squashed"]);
    let main = repo.git(&["symbolic-ref", "--short", "HEAD"]).stdout.to_string();
    let landed = |name: &str| of(&place, name)["landed"].as_str().map(str::to_owned);
    for name in ["new", "merged", "picked", "squashed"] {
        assert_eq!(landed(name).as_deref(), Some(main.trim_end()), "{name}");
    }
    assert_eq!((landed("reverted"), landed("open")), (None, None));
    assert_eq!(of(&place, "new")["moved"], false);
    assert_eq!(of(&place, "merged")["moved"], true);
    // Git says the same about patches.
    for name in ["picked", "reverted", "open"] {
        let cherry = repo.git(&["cherry", main.trim_end(), name]).stdout.to_string();
        let is_equal = cherry.lines().all(|line| line.starts_with('-'));
        assert_eq!(is_equal, landed(name).is_some(), "{name}: {cherry}");
    }
    // A new workspace waits for its first commit.
    assert_eq!(gone(&place, &["--landed", "-n"]), ["merged", "picked", "squashed"]);
    assert_eq!(names(&place).len(), 6, "a dry run removes nothing");
    place.done(&["gc", "--landed", "-q"]);
    assert_eq!(names(&place), ["new", "open", "reverted"].map(str::to_owned).into());
    assert_eq!(
        repo.git(&["branch", "--list", "merged"]).stdout.to_string().trim(),
        "merged",
        "branches stay"
    );
}

#[test]
fn what_is_at_a_remote_is_pushed() {
    let place = Place::new();
    let repo = place.repo();
    create(&place, "one");
    commit(&place, "one", "file");
    assert_eq!(of(&place, "one")["pushed"], false);
    repo.git(&["update-ref", "refs/remotes/origin/one", "one"]);
    assert_eq!(of(&place, "one")["pushed"], true);
    assert_eq!(of(&place, "one")["landed"], Value::Null);
    assert_eq!(gone(&place, &["--idle", "1h"]), Vec::<String>::new());
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(gone(&place, &["--landed", "--idle", "1s", "--budget", "1G"]), Vec::<String>::new());
    assert_eq!(gone(&place, &["--landed", "--idle", "1s", "--budget", "0"]), ["one"]);
    let refused = place.run(&["gc", "--budget", "1G"]);
    assert_eq!(refused.code, 128, "{}", refused.stderr);
}

/// A state of a workspace that a removal would lose.
type Unsaved = (&'static str, fn(&Place, &str));

fn inside(place: &Place, name: &str, script: &str) {
    place.done(&["exec", name, "--", "sh", "-ec", script]);
}

const UNSAVED: [Unsaved; 12] = [
    ("a changed file", |place, name| inside(place, name, "echo x >>file")),
    ("an untracked file", |place, name| inside(place, name, "mkdir new; echo x >new/file")),
    ("a deleted file", |place, name| inside(place, name, "rm dir/deep/file")),
    ("a mode", |place, name| inside(place, name, "chmod -x run")),
    ("a link that became a file", |place, name| inside(place, name, "rm link; echo x >link")),
    ("a directory that became a file", |place, name| inside(place, name, "rm -r dir; echo x >dir")),
    ("a staged file that is gone", |place, name| {
        inside(place, name, "echo x >staged");
        place.git(name, &["add", "staged"]);
        inside(place, name, "rm staged");
    }),
    ("an unignored file", |place, name| inside(place, name, "echo >.gitignore; echo x >x.o")),
    ("a stash", |place, name| {
        inside(place, name, "echo x >>file");
        place.git(name, &["stash", "-q"]);
    }),
    ("a commit of no branch", |place, name| {
        place.git(name, &["checkout", "-q", "--detach"]);
        place.git(name, &["commit", "-q", "--allow-empty", "-m", "lost"]);
    }),
    ("a merge", |place, name| {
        let head = place.git(name, &["rev-parse", "HEAD"]);
        let git_dir = place.git(name, &["rev-parse", "--absolute-git-dir"]);
        fs::write(format!("{}/MERGE_HEAD", git_dir.trim_end()), head).expect("written");
    }),
    ("HEAD that was moved below the files", |place, name| {
        place.git(name, &["reset", "-q", "--soft", "HEAD~1"]);
    }),
];

#[test]
fn unsaved_work_is_never_removed() {
    for is_mounted in [true, false] {
        let place = Place::new();
        for (at, (what, make)) in UNSAVED.iter().enumerate() {
            let name = format!("w{at}");
            create(&place, &name);
            commit(&place, &name, &format!("own{at}"));
            place.repo().git(&["merge", "-q", "--no-edit", &name]);
            inside(&place, &name, "echo x >ignored.o");
            let before = of(&place, &name);
            assert_eq!(before["unsaved"], Value::Null, "{what}: {before}");
            make(&place, &name);
            if !is_mounted {
                place.done(&["unmount", &name]);
            }
            let after = of(&place, &name);
            assert_ne!(after["unsaved"], Value::Null, "{what}: {after}");
        }
        let before = names(&place);
        assert_eq!(gone(&place, &["--landed", "--idle", "0s", "--budget", "0"]), Vec::<String>::new());
        assert_eq!(names(&place), before);
    }
}

#[test]
fn a_used_or_locked_workspace_is_kept() {
    let place = Place::new();
    for name in ["cwd", "open", "locked", "frozen", "free"] {
        create(&place, name);
        commit(&place, name, &format!("own-{name}"));
        place.repo().git(&["merge", "-q", "--no-edit", name]);
    }
    let dir = |name: &str| place.workspace(name).path.clone();
    let sleeping = |dir: &std::path::Path, file: Option<&str>| {
        let mut command = Command::new("sleep");
        command.arg("100").current_dir(dir);
        if let Some(file) = file {
            command.stdin(fs::File::open(file).expect("a file"));
        }
        Running(command.spawn().expect("it runs"))
    };
    let file = dir("open").join("file");
    let _one = sleeping(&dir("cwd"), None);
    let _two = sleeping("/".as_ref(), file.to_str());
    let locked = dir("locked").display().to_string();
    let lock = place.repo().run(SAPWOOD.as_ref(), &["worktree", "lock", "--reason", "mine", &locked]);
    assert_eq!(lock.code, 0, "{}", lock.stderr);
    place.done(&["freeze", "frozen"]);
    for name in ["cwd", "open"] {
        assert!(of(&place, name)["live"].is_u64(), "{name}");
    }
    assert_eq!(of(&place, "free")["live"], Value::Null);
    assert_eq!(gone(&place, &["--landed"]), ["free"]);
    let table = place.done(&["list", "-v"]);
    assert!(table.contains("live (process ") && table.contains("locked"), "{table}");
    assert!(!place.done(&["list"]).contains("landed"), "the plain list is as before");
}

/// Work that comes after the check for unsaved work, right before the unmount.
#[test]
fn a_change_between_check_and_unmount_is_kept() {
    for backend in ["overlay", "image", "overlay-user"] {
        let place = Place::new();
        place.done(&["create", "one", "-q", "--backend", backend]);
        inside(&place, "one", "echo x >ignored.o");
        let common = place.repo().join(".git");
        let workspace = record::find(&common, "one".as_ref()).expect("a workspace");
        let checked = Checked::before_check(&workspace).expect("readable").expect("an upper layer");
        inside(&place, "one", "echo mine >late");
        let options = OpenOptions { cwd: place.repo().path.clone(), ..OpenOptions::default() };
        let repo = Repository::open(&options).expect("a repository");
        let interrupt = AtomicBool::new(false);
        let mut trash = Trash::new(&common, SharedRepository::Umask, 1, &interrupt);
        let is_unchanged = || checked.is_still_there();
        let removed = files::remove(&repo, &workspace, Busy::Refuse, &is_unchanged, &mut trash);
        assert!(matches!(removed, Err(files::Error::Changed)), "{backend}: {removed:?}");
        assert_eq!(fs::read_to_string(workspace.upper().join("late")).expect("it is there"), "mine\n");
        place.done(&["mount", "one"]);
        assert_eq!(place.git("one", &["status", "--porcelain"]), "?? late\n", "{backend}");
        // Without a change it is removed.
        let checked = Checked::before_check(&workspace).expect("readable").expect("an upper layer");
        let is_unchanged = || checked.is_still_there();
        let removed = files::remove(&repo, &workspace, Busy::Refuse, &is_unchanged, &mut trash);
        assert!(removed.is_ok() && !workspace.state.exists(), "{backend}: {removed:?}");
    }
}

/// The longest unused go first, and no more of them than needed.
#[test]
fn a_budget_stops_the_removal() {
    let place = Place::new();
    for name in ["a", "b", "c"] {
        create(&place, name);
        inside(&place, name, "dd if=/dev/zero of=big.o bs=1M count=2 2>/dev/null");
        commit(&place, name, &format!("own-{name}"));
        place.repo().git(&["merge", "-q", "--no-edit", name]);
        std::thread::sleep(Duration::from_millis(1100));
    }
    inside(&place, "a", "touch big.o");
    assert_eq!(gone(&place, &["--landed", "--budget", "5M", "-n"]), ["b"]);
    assert_eq!(gone(&place, &["--landed", "--budget", "3M", "-n"]), ["b", "c"]);
    assert_eq!(gone(&place, &["--landed", "--budget", "5M"]), ["b"]);
    assert_eq!(names(&place), ["a", "c"].map(str::to_owned).into());
}

#[test]
fn a_damaged_workspace_blocks_no_other() {
    let place = Place::new();
    for name in ["a", "b", "c", "d"] {
        create(&place, name);
        commit(&place, name, &format!("own-{name}"));
        place.repo().git(&["merge", "-q", "--no-edit", name]);
    }
    place.repo().write(".git/sapwood/workspaces/a/record", "[workspace]\n\tdir = relative\n");
    place.repo().write(".git/worktrees/b/HEAD", "1234567890123456789012345678901234567890\n");
    place.repo().write(".git/worktrees/c/index", "no index");
    let run = place.run(&["gc", "--landed", "--json"]);
    let removed: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(removed[0]["name"], "d", "{removed} {}", run.stderr);
    assert_eq!(removed.as_array().map(Vec::len), Some(1));
}

/// Random work in landed workspaces: whatever Git's own status, stash and log call unsaved stays.
#[test]
fn nothing_unsaved_is_removed_in_random_runs() {
    let rounds = if full() { 200 } else { 6 };
    let mut random = Dice::new(7);
    let mut gone_at_all = 0;
    for round in 0..rounds {
        let place = Place::new();
        let mut kept = BTreeSet::new();
        for number in 0..6 {
            let name = format!("w{number}");
            create(&place, &name);
            commit(&place, &name, &format!("own{number}"));
            if random.below(4) > 0 {
                place.repo().git(&["merge", "-q", "--no-edit", &name]);
            }
            for _ in 0..random.below(3) {
                let script = [
                    "echo x >>file",
                    "echo x >new",
                    "rm -f dir/empty",
                    "mkdir -p out; echo x >out/a.o",
                    "mv dir/deep dir/other 2>/dev/null || true",
                    "cp file copy; git add copy; git commit -qm copy",
                    "git checkout -q --detach; git commit -q --allow-empty -m lost",
                    "echo x >>file; git stash -q",
                    "git rm -q --cached file",
                    "git checkout -q -- . ; git clean -fdq",
                ][random.below(10)];
                // An earlier script may have made one impossible.
                place.run(&["exec", &name, "--", "sh", "-ec", script]);
            }
            let status = place.git(&name, &["status", "--porcelain"]);
            let branch = place.git(&name, &["for-each-ref", "--contains", "HEAD", "--count=1"]);
            let stash = place.repo().git(&["stash", "list"]).stdout.to_string();
            if !status.is_empty() || branch.is_empty() || stash.contains(&format!("on {name}:")) {
                kept.insert(name.clone());
            }
            if random.below(2) == 0 {
                place.done(&["unmount", &name]);
            }
        }
        let removed: BTreeSet<String> =
            gone(&place, &["--landed", "--idle", "0s", "--budget", "0"]).into_iter().collect();
        gone_at_all += removed.len();
        let lost: Vec<&String> = kept.intersection(&removed).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        assert!(kept.is_subset(&names(&place)), "round {round}");
    }
    assert!(gone_at_all > 0, "nothing was removed in {rounds} rounds");
}

#[test]
fn gc_waits_for_no_other_command() {
    let place = Place::new();
    for name in ["one", "two"] {
        create(&place, name);
        commit(&place, name, &format!("own-{name}"));
        place.repo().git(&["merge", "-q", "--no-edit", name]);
    }
    let lock = place.repo().join(".git/sapwood/workspaces/one/lock");
    let lock = sys::by_path::lock_file(&lock, 0o666).expect("a file");
    sys::lock(&lock).expect("locked");
    let mut gc = place.repo().command("timeout".as_ref());
    let gc = gc.args(["60", SAPWOOD, "workspace", "gc", "--landed"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&gc.stderr).into_owned();
    assert_eq!(gc.status.code(), Some(0), "{said}");
    assert!(said.contains("'one': another command uses it: it is kept"), "{said}");
    assert_eq!(names(&place), ["one".to_owned()].into());
    drop(lock);
    place.done(&["gc", "--landed"]);
    assert!(names(&place).is_empty());
}

#[test]
fn the_frozen_layers_go_with_their_last_workspace() {
    let place = Place::new();
    place.repo().write("built.o", "built\n");
    place.done(&["create", "one", "-q", "-b", "one", "--backend", "overlay", "--with", "built.o"]);
    commit(&place, "one", "own");
    place.repo().git(&["merge", "-q", "--no-edit", "one"]);
    let layers = || fs::read_dir(place.repo().join(".git/sapwood/layers")).into_iter().flatten().count();
    assert_eq!(layers(), 1);
    assert_eq!(gone(&place, &["--landed", "--budget", "0"]), ["one"]);
    assert_eq!(layers(), 0, "the layer has no user any more");
}
