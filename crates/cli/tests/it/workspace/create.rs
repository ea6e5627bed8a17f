//! `workspace create`, `list`, `exec` and `remove`, on each backend, with the real Git inside.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::ByteSlice as _;
use testkit::{Repo, Run, Sandbox, disk::NoMountsBelow};

use crate::SAPWOOD;

/// The backends that are available to root on any disk.
pub(crate) const BACKENDS: [&str; 5] = ["image", "overlay", "overlay-user", "fuse", "copy"];

/// A repository whose bases are on a real disk: the kernel cannot mount images from a tmpfs.
pub(crate) struct Place {
    // Must be dropped first, because it unmounts.
    mounts: NoMountsBelow,
    _base_mounts: NoMountsBelow,
    pub(crate) sandbox: Sandbox,
    _bases: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        let sandbox = Sandbox::new();
        let bases = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
        let place = Place {
            mounts: NoMountsBelow::new(&sandbox.path()),
            _base_mounts: NoMountsBelow::new(bases.path()),
            sandbox,
            _bases: bases,
        };
        let repo = place.sandbox.init("repo");
        repo.git(&["config", "sapwood.baseDir", place._bases.path().to_str().expect("a plain name")]);
        repo.write("file", "content\n");
        repo.write("dir/deep/file", "more\n");
        repo.write("dir/empty", "");
        repo.write_executable("run", "#!/bin/sh\n");
        repo.symlink("dir/deep", "link");
        repo.write(".gitignore", "*.o\n");
        repo.commit("one");
        repo.write("file", "changed\n");
        repo.commit("two");
        place
    }

    /// Returns the directory of the bases.
    pub(crate) fn bases(&self) -> &Path {
        self._bases.path()
    }

    pub(crate) fn repo(&self) -> Repo<'_> {
        self.sandbox.repo("repo")
    }

    pub(crate) fn workspace(&self, name: &str) -> Repo<'_> {
        self.sandbox.repo(&format!("repo.workspaces/{name}"))
    }

    /// Drops all mounts of the place, as a reboot does.
    pub(crate) fn reboot(&self) {
        self.mounts.reboot();
        testkit::disk::unmount_below(self._bases.path());
    }

    /// Runs `sapwood workspace` in the repository.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.repo().run(SAPWOOD.as_ref(), &[&["workspace"], args].concat())
    }

    /// Like [`Place::run`]; the command must succeed.
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
        run.stdout.to_string()
    }

    /// Like [`Place::done`], where the only program for the backend `fuse` is unionfs-fuse.
    pub(crate) fn done_with_unionfs(&self, args: &[&str]) -> String {
        testkit::need_program("unionfs-fuse");
        let programs = self.sandbox.repo("programs");
        fs::create_dir(&programs.path).expect("a new directory");
        programs.symlink("/usr/bin/unionfs-fuse", "unionfs-fuse");
        let mut command = self.repo().command(SAPWOOD.as_ref());
        let output =
            command.env("PATH", &programs.path).arg("workspace").args(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}: {}", output.stderr.as_bstr());
        output.stdout.to_str_lossy().into_owned()
    }

    /// Runs the real Git inside the workspace, in its namespace if it has one.
    pub(crate) fn git(&self, name: &str, args: &[&str]) -> String {
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        self.done(&[&["exec", name, "--", &git], args].concat())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.done(&["list", "--json"])).expect("JSON")
    }
}

/// Returns everything that workspaces leave in the repository.
pub(crate) fn leftovers(place: &Place) -> Vec<PathBuf> {
    let repo = place.repo();
    let mut found = Vec::new();
    for dir in [".git/worktrees", ".git/sapwood/workspaces", "../repo.workspaces"] {
        let entries = fs::read_dir(repo.join(dir)).into_iter().flatten();
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    found
}

#[test]
fn a_workspace_is_a_clean_worktree_of_the_commit() {
    for backend in BACKENDS {
        let place = Place::new();
        place.done(&["create", "one", "-b", "topic", "--backend", backend]);
        let inside = |script: &str| place.done(&["exec", "one", "--", "sh", "-ec", script]);
        assert_eq!(
            inside("cat file dir/deep/file link/file; test -x run; test ! -s dir/empty"),
            "changed\nmore\nmore\n"
        );
        assert_eq!(place.git("one", &["status", "--porcelain", "--ignored"]), "", "{backend}");
        assert_eq!(place.git("one", &["branch", "--show-current"]), "topic\n");
        let listed = place.repo().git(&["worktree", "list", "--porcelain"]).stdout;
        let line = format!("worktree {}\n", place.workspace("one").path.display());
        assert!(listed.to_string().contains(&line), "{listed}");
        let all = place.json();
        assert_eq!((&all[0]["name"], &all[0]["branch"]), (&"one".into(), &"topic".into()));
        assert_eq!((&all[0]["backend"], &all[0]["mounted"]), (&backend.into(), &true.into()));
        place.done(&["remove", "one"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
        place.repo().git(&["branch", "-d", "topic"]);
    }
}

#[test]
fn changes_are_seen_and_committed_by_git_and_by_us() {
    for backend in BACKENDS {
        let place = Place::new();
        place.done(&["create", "one", "-b", "topic", "HEAD~1", "--backend", backend]);
        let script = "echo new >new; echo x >>file; rm dir/empty; mv dir/deep dir/moved || \
                      { cp -r dir/deep dir/moved; rm -r dir/deep; }; echo o >x.o";
        place.done(&["exec", "one", "--", "sh", "-ec", script]);
        let expected = " D dir/deep/file\n D dir/empty\n M file\n?? dir/moved/\n?? new\n";
        assert_eq!(place.git("one", &["status", "--porcelain"]), expected, "{backend}");
        assert_eq!(
            place.done(&["exec", "one", "--", SAPWOOD, "status", "--porcelain"]),
            expected,
            "{backend}"
        );
        place.git("one", &["add", "-A"]);
        place.git("one", &["commit", "-qm", "three"]);
        assert_eq!(place.git("one", &["status", "--porcelain"]), "", "{backend}");
        assert_eq!(place.repo().git(&["show", "topic:file"]).stdout, "content\nx\n");
        place.done(&["remove", "one"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
    }
}

#[test]
fn unsaved_work_is_not_removed_without_force() {
    for backend in BACKENDS {
        let place = Place::new();
        for (name, script) in [
            ("edited", "echo x >>file"),
            ("untracked", "echo x >new"),
            ("deleted", "rm file"),
            ("staged", "echo x >new; $GIT add new; rm new"),
        ] {
            place.done(&["create", name, "--backend", backend]);
            let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
            place.done(&["exec", name, "--", "sh", "-ec", &script.replace("$GIT", &git)]);
            let refused = place.run(&["remove", name]);
            assert_ne!(refused.code, 0, "{backend} {name}");
            assert!(refused.stderr.to_string().contains("--force"), "{}", refused.stderr);
            place.done(&["exec", name, "--", "test", "-e", "run"]);
            place.done(&["remove", "--force", name]);
        }
        place.done(&["create", "detached", "--detach", "--backend", backend]);
        place.git("detached", &["commit", "-q", "--allow-empty", "-m", "nowhere else"]);
        let refused = place.run(&["remove", "detached"]);
        assert!(refused.stderr.to_string().contains("no branch or tag"), "{}", refused.stderr);
        place.done(&["remove", "--force", "detached"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
    }
}

#[test]
fn an_unmounted_workspace_is_no_worktree_and_comes_back() {
    for backend in ["image", "overlay", "overlay-user", "fuse"] {
        let place = Place::new();
        place.done(&["create", "one", "--backend", backend]);
        place.done(&["exec", "one", "--", "sh", "-ec", "echo mine >new"]);
        place.done(&["unmount", "one"]);
        let inside = place.workspace("one");
        let refused = inside.try_git(&["status"]);
        assert_eq!(refused.code, 128, "{}", refused.stdout);
        let gitfile = inside.path.join(".git");
        assert_eq!(refused.stderr, format!("fatal: invalid gitfile format: {}\n", gitfile.display()));
        let remedy = match backend {
            "overlay-user" => "sapwood workspace enter one",
            _ => "sapwood workspace mount one",
        };
        assert!(inside.read(".git").contains_str(remedy));
        let ours = inside.run(SAPWOOD.as_ref(), &["status"]);
        assert_eq!(ours.code, 128);
        assert!(ours.stderr.contains_str(remedy), "{}", ours.stderr);
        place.repo().git(&["worktree", "prune"]);
        let mounted = inside.run(SAPWOOD.as_ref(), &["workspace", "mount", "one"]);
        assert_eq!(mounted.code, 0, "{}", mounted.stderr);
        assert_eq!(place.git("one", &["status", "--porcelain"]), "?? new\n", "{backend}");
        place.done(&["remove", "--force", "one"]);
    }
}

#[test]
fn a_name_decides_the_branch_and_a_directory_the_place() {
    let place = Place::new();
    let dir = place.sandbox.path().join("elsewhere/here");
    place.done(&["create", "one", "--dir", dir.to_str().expect("a plain name"), "--backend", "overlay"]);
    let inside = place.sandbox.repo("elsewhere/here");
    assert_eq!(inside.git(&["branch", "--show-current"]).stdout, "one\n");
    assert_eq!(place.json()[0]["dir"], dir.to_str().expect("a plain name"));
    place.done(&["remove", "one"]);
    assert!(!dir.exists());
}

#[test]
fn bases_are_listed_verified_and_removed_when_nobody_uses_them() {
    let place = Place::new();
    let listed = |args: &[&str]| place.done(&[&["base"], args].concat()).lines().count();
    assert_eq!(listed(&["list"]), 0);
    place.done(&["create", "one"]);
    place.done(&["base", "add", "HEAD~1"]);
    assert_eq!(listed(&["list"]), 2);
    place.done(&["base", "verify"]);
    let used = place.json()[0]["base"].as_str().expect("a base").to_owned();
    let refused = place.run(&["base", "remove", &used]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains_str("in use"), "{}", refused.stderr);
    for name in ["../repo", "0", ""] {
        assert_ne!(place.run(&["base", "remove", name]).code, 0, "{name}");
    }
    place.done(&["base", "prune"]);
    assert_eq!(listed(&["list"]), 1);
    assert_eq!(place.git("one", &["status", "--porcelain"]), "");
    place.done(&["remove", "one"]);
    place.done(&["base", "prune"]);
    place.done(&["base", "gc"]);
    assert_eq!(listed(&["list"]), 0);
}

#[test]
fn a_holder_ends_by_a_signal_and_loses_nothing() {
    let place = Place::new();
    place.done(&["create", "one", "--backend", "overlay-user"]);
    place.done(&["exec", "one", "--", "sh", "-ec", "echo mine >new"]);
    let holder = place.json()[0]["holder"].as_u64().expect("a holder").to_string();
    assert!(Command::new("kill").arg(&holder).status().expect("kill runs").success());
    for _ in 0..12_000 {
        if place.json()[0]["mounted"] == false {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(place.json()[0]["mounted"], false, "SIGTERM ends the holder");
    assert_eq!(place.git("one", &["status", "--porcelain"]), "?? new\n");
    place.done(&["remove", "--force", "one"]);
}

#[test]
fn gc_keeps_the_files_of_an_interrupted_copy() {
    let place = Place::new();
    place.done(&["create", "one", "--backend", "copy"]);
    let one = place.workspace("one");
    one.write("new", "mine\n");
    // The state left by a creation that was killed before its last step.
    let reason = format!("sapwood workspace: initializing 4194303 {}\n", one.path.display());
    place.repo().write(".git/worktrees/one/locked", reason);
    place.done(&["gc"]);
    assert_eq!(one.read("new"), "mine\n");
    assert_eq!(place.repo().read(".git/worktrees/one/locked"), "sapwood workspace\n");
    // That state, without its administrative directory.
    fs::remove_dir_all(place.repo().join(".git/worktrees/one")).expect("removed");
    place.done(&["gc"]);
    assert_eq!(one.read("new"), "mine\n");
}

#[test]
fn repositories_with_one_directory_for_upper_layers_do_not_meet() {
    let place = Place::new();
    let uppers = place.sandbox.path().join("uppers");
    let uppers = uppers.to_str().expect("a plain name");
    let other = place.sandbox.init("other");
    other.write("other", "other\n");
    other.commit("one");
    place.done(&["create", "one", "--backend", "overlay", "--upper-dir", uppers]);
    place.workspace("one").write("mine", "mine\n");
    let args = ["workspace", "create", "one", "--backend", "overlay", "--upper-dir", uppers];
    let run = other.run(SAPWOOD.as_ref(), &args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let second = place.sandbox.repo("other.workspaces/one");
    assert!(!second.exists("mine") && second.exists("other"));
    let run = other.run(SAPWOOD.as_ref(), &["workspace", "remove", "one"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(place.workspace("one").read("mine"), "mine\n");
    place.done(&["remove", "--force", "one"]);
}

#[test]
fn a_command_runs_in_a_workspace_that_goes_away_with_it() {
    let place = Place::new();
    let run = place.run(&["create", "--exec", "job", "--", "sh", "-c", "cat file; exit 3"]);
    assert_eq!((run.code, run.stdout.to_string()), (3, "changed\n".to_owned()), "{}", run.stderr);
    assert_eq!(leftovers(&place), Vec::<PathBuf>::new());
    let run = place.run(&["create", "--exec", "kept", "--", "sh", "-c", "echo x >new"]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.to_string().contains("The workspace 'kept' stays"), "{}", run.stderr);
    place.done(&["remove", "-f", "kept"]);
    let move_it = format!("{SAPWOOD} workspace move moving ../moved");
    let run = place.run(&["create", "--exec", "moving", "--backend", "copy", "--", "sh", "-c", &move_it]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!place.sandbox.path().join("moved").exists(), "{}", run.stderr);
    assert_eq!(leftovers(&place), Vec::<PathBuf>::new());
}

#[test]
fn names_and_places_that_are_taken_are_refused() {
    let place = Place::new();
    place.done(&["create", "one"]);
    for (args, expected) in [
        (&["create", "one"][..], "exists already"),
        (&["create", "a/b"], "cannot be the name"),
        (&["create", ""], "cannot be the name"),
        (&["create", "two", "--backend", "tape"], "unknown backend"),
        (&["create", "two", "no-such-commit"], "invalid reference"),
        (&["create", "two", "--dir", "."], "already exists"),
        (&["create", "two", "--base-dir", "/proc/bases"], "cannot be written"),
        (&["create", "two", "--backend", "btrfs"], "is not on btrfs"),
        (&["remove", "two"], "is not a workspace"),
    ] {
        let refused = place.run(args);
        assert_ne!(refused.code, 0, "{args:?}");
        assert!(refused.stderr.to_string().contains(expected), "{args:?}: {}", refused.stderr);
    }
    // A failure leaves no branch behind.
    let branches = place.repo().git(&["for-each-ref", "--format=%(refname:short)"]).stdout;
    assert_eq!(branches, "main\none\n");
    assert_eq!(place.json().as_array().map(Vec::len), Some(1));
    place.done(&["remove", "one"]);
}

#[test]
fn worktree_add_makes_workspaces_where_it_is_configured() {
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["config", "sapwood.worktree", "workspace"]);
    let worktree = |args: &[&str]| {
        let run = repo.run(SAPWOOD.as_ref(), &[&["worktree"], args].concat());
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run
    };
    worktree(&["add", "../wt"]);
    let inside = place.sandbox.repo("wt");
    assert_eq!(inside.read("file"), "changed\n");
    assert_eq!(inside.git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(place.json()[0]["name"], "wt");
    let listed = worktree(&["list", "--porcelain"]).stdout.to_string();
    assert!(!listed.contains("locked"), "{listed}");
    inside.write("new", "x");
    let refused = repo.run(SAPWOOD.as_ref(), &["worktree", "remove", "wt"]);
    assert_eq!(
        refused.stderr,
        "fatal: 'wt' contains modified or untracked files, use --force to delete it\n"
    );
    assert_eq!(refused.code, 128);
    worktree(&["remove", "--force", "wt"]);
    assert!(!inside.path.exists());
    assert_eq!(leftovers(&place), Vec::<PathBuf>::new());
    // Removing the last workspace unmounts the base, so that nothing of a workspace is left.
    let mounts = Command::new("findmnt").args(["-rno", "TARGET"]).output().expect("the list of mounts");
    let bases = place._bases.path().to_str().expect("a plain name");
    assert!(!String::from_utf8_lossy(&mounts.stdout).contains(bases));
}
