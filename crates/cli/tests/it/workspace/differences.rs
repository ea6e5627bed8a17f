//! Bases that hold only the differences from another base, beside ordinary worktrees.

use std::{fs, path::Path};

use serde_json::Value;
use testkit::{
    Repo,
    crash::{Crash, CrashPoints},
};

use super::create::Place;
use crate::{
    SAPWOOD, full,
    killed::{ALL, Most, at_crash_points, sapwood},
};

/// The backends that show one base over another.
const BACKENDS: [&str; 3] = ["image", "overlay", "overlay-user"];

/// Adds files that no commit changes, so that the other changes are few.
fn fill(repo: &Repo<'_>, count: usize) {
    for number in 0..count {
        repo.write(format!("filler/{}/{number}", number % 30), format!("{number}\n"));
    }
}

/// Makes the commits `old` and `new`, which differ in every kind of change.
fn place() -> Place {
    let place = Place::new();
    let repo = place.repo();
    fill(&repo, 500);
    let commit = repo.git(&["rev-parse", "HEAD"]).stdout.trim_ascii().to_vec();
    let commit = String::from_utf8(commit).expect("digits");
    let other = repo.git(&["rev-parse", "HEAD~1"]).stdout.to_string();
    let submodule = |path: &str, commit: &str| {
        let entry = format!("160000,{},{path}", commit.trim());
        repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
        fs::create_dir_all(repo.join(path)).expect("a directory");
    };
    repo.write(".gitattributes", "*.crlf eol=crlf\n*.id ident\n");
    for path in ["kind/to-dir", "kind/to-link", "kind/mode", "kind/gone", "kind/same", "kind/to-module"] {
        repo.write(path, format!("{path}\n"));
    }
    for path in ["kind/to-file/a", "kind/to-file/b/c", "kind/link-dir/a", "whole/deep/1", "whole/deep/2"] {
        repo.write(path, "below\n");
    }
    repo.symlink("same", "kind/from-link");
    repo.symlink("same", "kind/other-link");
    for path in ["trap/d", "trap/d.x", "trap/d-y", "trap/d0", "partly/a", "partly/b", "partly/c/d"] {
        repo.write(path, "1\n");
    }
    for number in 0..5 {
        repo.write(format!("moved/from/{number}"), format!("{number}\n"));
    }
    repo.write("ignoring/.gitignore", "*.log\n");
    repo.write("ignoring/below/file", "1\n");
    repo.write("text.crlf", "one\ntwo\n");
    repo.write("text.id", "$Id$\n");
    repo.git(&["add", "-A"]);
    for path in ["module", "module-gone", "module-to-file"] {
        submodule(path, &commit);
    }
    repo.git(&["commit", "-qm", "old"]);
    repo.git(&["tag", "old"]);

    repo.git(&["rm", "-q", "--cached", "kind/to-module", "module-gone", "module-to-file"]);
    for path in
        ["kind/to-dir", "kind/to-link", "kind/gone", "kind/to-file", "kind/link-dir", "whole", "trap/d"]
    {
        repo.remove(path);
    }
    for path in ["kind/from-link", "kind/other-link", "partly/b", "module-gone", "module-to-file"] {
        repo.remove(path);
    }
    repo.remove("kind/to-module");
    repo.write("kind/to-dir/deep/file", "now a directory\n");
    repo.symlink("mode", "kind/to-link");
    repo.write_executable("kind/mode", "kind/mode\n");
    repo.write("kind/to-file", "now a file\n");
    repo.symlink("../partly", "kind/link-dir");
    repo.write("kind/from-link", "now a file\n");
    repo.symlink("gone", "kind/other-link");
    repo.write("trap/d/x", "2\n");
    repo.write("trap/d.x", "2\n");
    repo.git(&["mv", "moved/from", "moved/to"]);
    repo.write("ignoring/.gitignore", "*.tmp\n");
    repo.write("fresh/.gitignore", "*.new\n");
    repo.write("fresh/a/b/c", "fresh\n");
    repo.write("fresh/empty", "");
    repo.write("text.crlf", "one\ntwo\nthree\n");
    repo.write("text.id", "$Id$\nmore\n");
    repo.write("file", "the new content\n");
    repo.write("module-to-file", "a file\n");
    repo.git(&["add", "-A", "--", ":!module"]);
    submodule("module", &other);
    submodule("module-new", &commit);
    submodule("kind/to-module", &commit);
    repo.git(&["commit", "-qm", "new"]);
    repo.git(&["tag", "new"]);
    place
}

const FILES: &str = "find . -name .git -prune -o -printf '%p %y %m %l\\n' | sort; \
                     find . -name .git -prune -o -type f -print | sort | xargs cksum; ls -R";
const STATE: &str = "git status --porcelain --ignored; git status; git diff HEAD; git ls-files --stage; \
                     git write-tree; git log -1 --format=%H";
/// Files whose stat data differ from the index, by Git without a monitor.
const STALE: &str = "git -c core.fsmonitor=false diff-files; git -c core.fsmonitor=false status --porcelain";

/// An ordinary worktree and a workspace on the same commit.
struct Pair<'a> {
    place: &'a Place,
    plain: Repo<'a>,
    backend: &'a str,
}

impl<'a> Pair<'a> {
    fn new(place: &'a Place, backend: &'a str, commit: &str) -> Pair<'a> {
        place.done(&["create", "-q", "--detach", "two", commit, "--backend", backend]);
        place.repo().git(&["worktree", "add", "-q", "--detach", "../plain", commit]);
        Pair { place, plain: place.sandbox.repo("plain"), backend }
    }

    /// Runs a script in both. The output must be the same.
    fn both(&self, script: &str) -> String {
        let ran = self.plain.command("sh".as_ref()).args(["-ec", script]).output();
        let expected = String::from_utf8_lossy(&ran.expect("it can be run").stdout).into_owned();
        let found = self.place.done(&["exec", "two", "--", "sh", "-ec", script]);
        let other = found.lines().zip(expected.lines()).find(|(one, other)| one != other);
        assert!(found == expected, "{}: {script}: {other:?}", self.backend);
        found
    }

    fn check(&self) {
        self.both(FILES);
        self.both(STATE);
        let plain = self.place.git("two", &["status", "--porcelain", "--ignored"]);
        let ours = ["exec", "two", "--", SAPWOOD, "status", "--porcelain", "--ignored"];
        assert_eq!(self.place.done(&ours), plain, "{}", self.backend);
    }
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        let _ = self.place.run(&["remove", "--force", "two"]);
        self.place.repo().try_git(&["worktree", "remove", "--force", "../plain"]);
    }
}

fn bases(place: &Place) -> Vec<Value> {
    serde_json::from_str(&place.done(&["base", "list", "--json"])).expect("JSON")
}

/// Returns the only difference, and the name of the base below it.
fn difference(place: &Place) -> (Value, String) {
    let all: Vec<Value> = bases(place).into_iter().filter(|base| !base["parent"].is_null()).collect();
    let [one] = &all[..] else { panic!("{} differences", all.len()) };
    let parent = Path::new(one["parent"].as_str().expect("a path"));
    (one.clone(), parent.file_name().expect("a name").to_string_lossy().into_owned())
}

#[test]
fn a_near_commit_is_shown_by_a_difference_as_a_checkout_shows_it() {
    for backend in BACKENDS {
        let place = place();
        // In both directions: whatever one adds the other one removes.
        for (below, above) in [("old", "new"), ("new", "old")] {
            place.done(&["create", "-q", "--detach", "one", below, "--backend", backend]);
            let pair = Pair::new(&place, backend, above);
            let (one, parent) = difference(&place);
            assert_eq!(pair.both(STALE), "", "{backend}: {above} over {below}");
            pair.check();
            let verified = place.run(&["base", "verify"]);
            assert_eq!(verified.code, 0, "{backend}: {}", verified.stdout);
            place.done(&["unmount", "two"]);
            place.done(&["mount", "two"]);
            pair.check();
            pair.both(
                "echo mine >>file; echo mine >>filler/1/1; rm -rf text.id kind/gone; mkdir -p kind/gone whole/deep; \
                 echo again >whole/deep/1; echo x >ignoring/x.log; echo x >ignoring/x.tmp; \
                 rm -rf partly; echo x >partly; mv moved elsewhere; echo x >fresh.new; chmod +x kind/same",
            );
            pair.check();
            pair.both("git stash -qu; git status --porcelain; git stash pop -q; git commit -qam mine");
            pair.check();
            drop(pair);
            let refused = place.run(&["base", "remove", &parent]);
            assert!(refused.stderr.to_string().contains("in use"), "{refused:?}");
            place.done(&["remove", "one"]);
            let refused = place.run(&["base", "remove", &parent]);
            assert!(refused.stderr.to_string().contains("in use"), "{refused:?}");
            place.done(&["base", "gc", "-q"]);
            assert_eq!(place.run(&["base", "verify"]).code, 0, "{backend}: after gc");
            place.done(&["base", "remove", one["name"].as_str().expect("a name")]);
            place.done(&["base", "remove", &parent]);
            assert_eq!(bases(&place), Vec::<Value>::new());
        }
    }
}

#[test]
fn a_workspace_moves_to_a_near_commit_by_a_difference() {
    for backend in BACKENDS {
        let place = place();
        let pair = Pair::new(&place, backend, "old");
        pair.both("echo mine >>filler/1/1; rm filler/2/2; echo own >own; echo x >x.o");
        for to in ["new", "old", "new"] {
            pair.plain.git(&["switch", "-q", "--detach", to]);
            place.done(&["rebase", "-q", "-d", "two", to]);
            pair.check();
        }
        let (one, _) = difference(&place);
        assert_eq!(bases(&place).len(), 2, "{backend}");
        // Both count as used: the workspace is on the one, which lies over the other.
        place.done(&["base", "prune", "-q"]);
        assert_eq!(difference(&place).0, one, "{backend}");
        pair.check();
        drop(pair);
        place.done(&["base", "prune", "-q"]);
        assert_eq!(bases(&place), Vec::<Value>::new(), "{backend}");
    }
}

#[test]
fn sparse_workspaces_use_differences() {
    for backend in ["image", "overlay"] {
        let place = place();
        let create = |name: &str, commit: &str| {
            let dirs = [
                "--sparse",
                "kind",
                "--sparse",
                "partly/c",
                "--sparse",
                "moved/from",
                "--sparse",
                "filler/1",
            ];
            let args = ["create", "-q", "--detach", name, commit, "--backend", backend];
            place.done(&[&args[..], &dirs].concat());
        };
        for (below, above) in [("old", "new"), ("new", "old")] {
            create("one", below);
            create("two", above);
            difference(&place);
            place.repo().git(&["worktree", "add", "-q", "--detach", "--no-checkout", "../plain", above]);
            let plain = place.sandbox.repo("plain");
            plain.git(&["sparse-checkout", "set", "kind", "partly/c", "moved/from", "filler/1"]);
            plain.git(&["checkout", "-q"]);
            let pair = Pair { place: &place, plain, backend };
            assert_eq!(pair.both(STALE), "", "{backend}: {above} over {below}");
            pair.check();
            pair.both("git ls-files -t");
            assert_eq!(place.run(&["base", "verify"]).code, 0, "{backend}");
            drop(pair);
            place.done(&["remove", "one"]);
            place.done(&["base", "prune", "-q"]);
        }
    }
}

#[test]
fn a_commit_that_is_far_or_has_other_attributes_gets_a_whole_base() {
    let place = place();
    let repo = place.repo();
    repo.git(&["checkout", "-q", "new"]);
    repo.write(".gitattributes", "*.crlf eol=lf\n");
    repo.git(&["commit", "-qam", "attributes"]);
    repo.git(&["tag", "attributes"]);
    repo.git(&["checkout", "-q", "new"]);
    for number in 0..200 {
        repo.write(format!("filler/{}/{number}", number % 30), "other\n");
    }
    repo.git(&["commit", "-qam", "far"]);
    repo.git(&["tag", "far"]);
    place.done(&["create", "-q", "--detach", "one", "new"]);
    for commit in ["attributes", "far"] {
        let pair = Pair::new(&place, "image", commit);
        assert!(bases(&place).iter().all(|base| base["parent"].is_null()), "{commit}");
        pair.check();
    }
    // Backends that copy a directory need a whole one.
    place.done(&["base", "add", "-q", "--backend", "overlay", "old"]);
    let copied = place.run(&["create", "-q", "--detach", "copied", "new", "--backend", "fuse"]);
    assert!(bases(&place).iter().all(|base| base["parent"].is_null()), "{copied:?}");
}

/// Returns the number of system calls of a creation, in a repository with `count` more files.
fn calls(count: usize) -> usize {
    let place = Place::new();
    let repo = place.repo();
    fill(&repo, count);
    repo.commit("old");
    repo.write("file", "other\n");
    repo.write("filler/7/7", "other\n");
    repo.commit("new");
    repo.git(&["gc", "-q"]);
    place.done(&["create", "-q", "--detach", "one", "HEAD~1", "--backend", "image"]);
    let trace = place.sandbox.path().join("trace");
    let mut command = repo.command("strace".as_ref());
    command.args(["-f", "-o"]).arg(&trace).args([SAPWOOD, "workspace"]);
    let created = command.args(["create", "-q", "--detach", "two", "HEAD", "--backend", "image"]).status();
    assert!(created.expect("strace is installed").success());
    difference(&place);
    fs::read_to_string(trace).expect("a trace").lines().count()
}

#[test]
fn the_work_for_a_difference_depends_on_the_changes() {
    let (few, many) = (calls(300), calls(3000));
    // One call for each file would be 2,700 more. A large pack or index takes a few more reads, and
    // on a busy machine the base below may still be on its way to the disk.
    assert!(many < few + 1000, "{few} calls with 300 files, {many} with 3,000");
}

/// Kills a creation before changes on disk. Nothing but a whole difference, or none, is left.
#[test]
fn a_killed_creation_leaves_a_whole_difference_or_none() {
    for backend in if full() { &BACKENDS[..] } else { &BACKENDS[..1] } {
        let begin = || {
            let place = place();
            place.done(&["create", "-q", "--detach", "one", "old", "--backend", backend]);
            place
        };
        let create = |place: &Place| {
            sapwood(
                &place.repo(),
                &["workspace", "create", "-q", "--detach", "two", "new", "--backend", backend],
            )
        };
        let points = CrashPoints::of(&create(&begin()));
        at_crash_points(&points, &Most(10, ALL), |number| {
            let place = begin();
            let crash = Crash::before(number, &create(&place));
            let context = format!("{backend}, {crash}");
            place.reboot();
            place.done(&["gc", "-q"]);
            place.done(&["mount", "-q", "--all"]);
            assert_eq!(place.run(&["base", "verify"]).code, 0, "{context}");
            if place.workspace("two").exists(".git") {
                place.done(&["remove", "two"]);
            }
            let pair = Pair::new(&place, backend, "new");
            pair.check();
            difference(&place);
            drop(pair);
            let staged = fs::read_dir(place.bases()).expect("a directory").flatten();
            let staged = staged.filter(|entry| entry.file_name().to_string_lossy().starts_with(".new-"));
            assert_eq!(staged.count(), 0, "{context}");
            crash.happened()
        });
    }
}

/// The owner and the modes of an image are its own, so another umask wants another one. It is made
/// from the images of the difference and of the base below, without contents.
#[test]
fn another_umask_gets_an_image_made_from_both() {
    let place = place();
    place.done(&["create", "-q", "--detach", "one", "old", "--backend", "image"]);
    place.done(&["create", "-q", "--detach", "other", "new", "--backend", "image"]);
    difference(&place);
    let length = || fs::metadata(place.bases().join("blobs/1.data")).expect("contents").len();
    let before = length();
    let script = format!("umask 077; exec {SAPWOOD} workspace create -q --detach two new --backend image");
    let created = place.repo().run("sh".as_ref(), &["-ec", &script]);
    assert_eq!(created.code, 0, "{}", created.stderr);
    assert_eq!((bases(&place).len(), length()), (3, before));
    assert_eq!(place.git("two", &["-c", "core.fsmonitor=false", "diff-files"]), "");
    assert_eq!(place.git("two", &["status", "--porcelain"]), "");
    let modes = place.done(&["exec", "two", "--", "find", "fresh", "filler/1", "-perm", "/077"]);
    assert_eq!(modes, "");
    assert_eq!(place.run(&["base", "verify"]).code, 0);
}
