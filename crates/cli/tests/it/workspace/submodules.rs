//! `workspace create --recurse-submodules`: compared with `git submodule update` in a worktree.

use std::path::{Path, PathBuf};

use testkit::Repo;

use super::create::{Place, leftovers};
use crate::SAPWOOD;

/// Adds a submodule with a submodule of its own to the repository of the place.
fn project(place: &Place) -> Repo<'_> {
    let nested = place.sandbox.init("nested");
    nested.write("deep", "deep\n");
    nested.commit("nested");
    let sub = place.sandbox.init("sub");
    sub.git(&["config", "--global", "protocol.file.allow", "always"]);
    sub.write("file", "in sub\n");
    for number in 0..30 {
        sub.write(format!("dir{number}/file"), format!("{number}\n"));
    }
    sub.git(&["submodule", "--quiet", "add", "../nested", "nested"]);
    sub.commit("sub");
    let repo = place.repo();
    repo.git(&["submodule", "--quiet", "add", "../sub", "mods/sub"]);
    repo.git(&["submodule", "--quiet", "update", "--init", "--recursive"]);
    repo.commit("with a submodule");
    repo
}

fn mounts_below(place: &Place) -> Vec<PathBuf> {
    testkit::disk::mounts_below(&place.sandbox.path())
}

/// Returns everything that a script could notice about the submodules of a worktree.
fn state(git: &dyn Fn(&[&str]) -> String, name: &str) -> Vec<String> {
    let sub = ["-C", "mods/sub"];
    let nested = ["-C", "mods/sub/nested"];
    let of = |dir: &[&str], args: &[&str]| git(&[dir, args].concat()).replace(name, "NAME");
    vec![
        of(&[], &["submodule", "status", "--recursive"]),
        of(&[], &["submodule", "update", "--init", "--recursive"]),
        of(&[], &["status"]),
        of(&sub, &["status"]),
        of(&nested, &["status"]),
        of(&sub, &["rev-parse", "--git-dir"]),
        of(&nested, &["rev-parse", "--git-dir", "--show-superproject-working-tree"]),
        of(&sub, &["config", "core.worktree"]),
        of(&nested, &["config", "core.worktree"]),
        of(&sub, &["remote", "-v"]),
        of(&sub, &["branch", "-a", "-vv"]),
        of(&sub, &["log", "--oneline", "--decorate", "--all"]),
        of(&sub, &["ls-files", "-s"]),
        of(&sub, &["fsck"]),
        of(&[], &["grep", "--recurse-submodules", "-c", "", "HEAD"]),
    ]
}

#[test]
fn submodules_are_as_in_a_worktree() {
    for backend in ["image", "overlay", "overlay-user"] {
        let place = Place::new();
        let repo = project(&place);
        repo.git(&["worktree", "add", "-q", "--detach", "../repo.workspaces/plain"]);
        let plain = place.workspace("plain");
        plain.git(&["submodule", "--quiet", "update", "--init", "--recursive"]);
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "--recurse-submodules"]);
        let expected = state(&|args| plain.git(args).stdout.to_string(), "plain");
        assert_eq!(state(&|args| place.git("one", args), "one"), expected, "{backend}");
        if backend != "overlay-user" {
            let inside = mounts_below(&place).iter().filter(|point| point.ends_with("sub")).count();
            assert_eq!(inside, 1, "{backend}: the submodule is a mount");
            let records = repo.join(".git/sapwood/workspaces/one/submodules");
            assert_eq!(std::fs::read_dir(records).expect("listed").count(), 2, "{backend}");
        }
        let status = ["exec", "one", "--", SAPWOOD, "status", "--porcelain"];
        assert_eq!(place.done(&status), "", "{backend}");
        place.done(&[
            "exec",
            "one",
            "--",
            "sh",
            "-c",
            "echo more >>mods/sub/file; echo x >mods/sub/nested/new",
        ]);
        assert_eq!(place.done(&status), " M mods/sub\n", "{backend}");
        let within = place.git("one", &["-C", "mods/sub", "status", "--porcelain"]);
        assert_eq!(within, " M file\n M nested\n", "{backend}");
    }
}

#[test]
fn mounts_of_submodules_come_and_go_with_their_workspace() {
    for backend in ["image", "overlay"] {
        let place = Place::new();
        let repo = project(&place);
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "--recurse-submodules"]);
        let before = mounts_below(&place).len();
        let script = "echo mine >>mods/sub/file; echo mine >mods/sub/nested/new";
        place.done(&["exec", "one", "--", "sh", "-c", script]);
        place.done(&["unmount", "one"]);
        assert_eq!(mounts_below(&place), Vec::<PathBuf>::new(), "{backend}");
        place.done(&["mount", "one"]);
        assert_eq!(mounts_below(&place).len(), before, "{backend}");
        let shown = place.done(&["exec", "one", "--", "cat", "mods/sub/file", "mods/sub/nested/new"]);
        assert_eq!(shown, "in sub\nmine\nmine\n", "{backend}");
        // A base that a submodule uses stays.
        place.done(&["base", "prune"]);
        place.done(&["freeze", "one"]);
        place.done(&["base", "prune"]);
        place.done(&["thaw", "one"]);
        assert_eq!(place.git("one", &["-C", "mods/sub", "status", "--porcelain"]), " M file\n M nested\n");
        // A rebase leaves submodules as they are.
        repo.write("later", "later\n");
        repo.git(&["add", "later"]);
        repo.git(&["commit", "-q", "-m", "later"]);
        place.done(&["rebase", "-q", "-d", "one", "main"]);
        let shown = place.done(&["exec", "one", "--", "cat", "later", "mods/sub/file"]);
        assert_eq!(shown, "later\nin sub\nmine\n", "{backend}");
        let refused = place.run(&["move", "one", "elsewhere"]);
        assert!(refused.stderr.to_string().contains("containing submodules cannot be moved"), "{refused:?}");
        let refused = place.run(&["remove", "one"]);
        assert!(refused.stderr.to_string().contains("contains modified or untracked files"), "{refused:?}");
        assert_eq!(place.done(&["exec", "one", "--", "cat", "mods/sub/nested/new"]), "mine\n");
        place.git("one", &["-C", "mods/sub", "checkout", "-q", "file"]);
        place.done(&["exec", "one", "--", "rm", "mods/sub/nested/new"]);
        place.git("one", &["-C", "mods/sub", "commit", "-q", "--allow-empty", "-m", "mine"]);
        place.git("one", &["-C", "mods/sub", "checkout", "-q", "HEAD~1"]);
        let refused = place.run(&["remove", "one"]);
        assert!(refused.stderr.to_string().contains("no other repository may have"), "{refused:?}");
        place.done(&["remove", "--force", "one"]);
        assert_eq!(mounts_below(&place), Vec::<PathBuf>::new(), "{backend}");
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
        place.done(&["create", "-q", "two", "--detach", "--backend", backend, "--recurse-submodules"]);
        place.done(&["remove", "two"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
        place.done(&["base", "prune"]);
        assert_eq!(place.done(&["base", "list"]), "", "{backend}");
    }
}

#[test]
fn a_submodule_that_the_main_worktree_lacks_is_cloned() {
    let place = Place::new();
    let repo = project(&place);
    std::fs::remove_dir_all(repo.join(".git/modules")).expect("removed");
    place.done(&["create", "-q", "one", "--detach", "--backend", "overlay", "--recurse-submodules"]);
    let shown = place.done(&["exec", "one", "--", "cat", "mods/sub/file", "mods/sub/nested/deep"]);
    assert_eq!(shown, "in sub\ndeep\n");
    assert_eq!(place.git("one", &["status", "--porcelain"]), "");
    assert!(Path::new(&repo.join(".git/worktrees/one/modules/mods/sub/HEAD")).exists());
}

/// The filter runs during the check for unsaved work, and writes an ignored file, which is no
/// unsaved work.
#[test]
fn a_change_during_the_check_keeps_the_workspace() {
    for backend in ["overlay", "image"] {
        let place = Place::new();
        let repo = project(&place);
        repo.write(".gitattributes", "/file filter=late\n");
        repo.commit("attributes");
        place.done(&["create", "-q", "one", "--detach", "--backend", backend, "--recurse-submodules"]);
        let excluded = repo.join(".git/worktrees/one/modules/mods/sub/info/exclude");
        std::fs::create_dir_all(excluded.parent().expect("a directory")).expect("created");
        std::fs::write(&excluded, "late\n").expect("written");
        place.done(&["exec", "one", "--", "touch", "file"]);
        repo.git(&["config", "filter.late.clean", "date +%s.%N >>mods/sub/late; cat"]);
        let refused = place.run(&["remove", "one"]);
        let text = refused.stderr.to_string();
        assert!(refused.code != 0 && text.contains("was changed meanwhile"), "{backend}: {text}");
        assert!(place.workspace("one").exists("mods/sub/late"), "{backend}: the file is lost");
        repo.git(&["config", "--unset", "filter.late.clean"]);
        place.done(&["remove", "one"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
    }
}
