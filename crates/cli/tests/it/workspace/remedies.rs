//! Workspaces and bases of which a part is missing: each command names the cause, the command that
//! a message proposes mends the state, and the other workspaces and bases go on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::Run;

use super::{create::Place, lost::wait_until_durable};
use crate::SAPWOOD;

const BACKENDS: [&str; 3] = ["image", "overlay", "overlay-user"];

/// A state in which something is missing.
struct Case {
    /// Removes a part of the workspace `one`. Returns the path that the message must name.
    damage: fn(&Place) -> PathBuf,
    /// The words of the cause.
    cause: &'static str,
    /// The words of `workspace list`.
    listed: &'static str,
    /// The beginning of the command that mends the state.
    remedy: &'static str,
    /// Other workspaces use another base, which is there.
    spares_others: bool,
}

const CASES: &[Case] = &[
    Case {
        damage: |place| removed(place.workspace("one").path),
        cause: "does not exist",
        listed: "not mounted (its directory is gone)",
        remedy: "mkdir -p ",
        spares_others: true,
    },
    Case {
        damage: |place| {
            removed(base_of(place, "one"));
            place.bases().to_owned()
        },
        cause: "' for the workspace 'one'",
        listed: "not mounted (its base is gone)",
        remedy: "sapwood workspace base add ",
        spares_others: true,
    },
    Case {
        damage: |place| removed(place.bases().to_owned()),
        cause: "of the workspace 'one' does not exist, or is empty",
        listed: "not mounted (its base is gone)",
        remedy: "sapwood workspace base add ",
        spares_others: false,
    },
    // The mount point of a disk that is not mounted.
    Case {
        damage: |place| {
            removed(place.bases().to_owned());
            fs::create_dir(place.bases()).expect("a new directory");
            place.bases().to_owned()
        },
        cause: "of the workspace 'one' does not exist, or is empty",
        listed: "not mounted (its base is gone)",
        remedy: "sapwood workspace base add ",
        spares_others: false,
    },
];

fn removed(dir: PathBuf) -> PathBuf {
    fs::remove_dir_all(&dir).expect("removed");
    dir
}

/// Returns the directory of the base of a workspace.
fn base_of(place: &Place, name: &str) -> PathBuf {
    let all = place.json();
    let all = all.as_array().expect("a list");
    let found = all.iter().find(|workspace| workspace["name"] == name).expect("a workspace");
    place.bases().join(found["base"].as_str().expect("a name"))
}

/// Makes the workspaces `one`, with a commit and a change, and `two` with another base, both
/// unmounted.
fn two_workspaces(backend: &str) -> Place {
    let place = Place::new();
    place.done(&["create", "-q", "one", "-b", "topic", "--backend", backend]);
    place.done(&["create", "-q", "two", "--detach", "--backend", backend, "HEAD~1"]);
    place.done(&["exec", "one", "--", "sh", "-c", "echo mine >>file; echo mine >kept"]);
    place.git("one", &["commit", "-q", "-a", "-m", "mine"]);
    // The process that makes a base durable writes to its directory.
    ["one", "two"].iter().for_each(|name| wait_until_durable(&base_of(&place, name)));
    place.done(&["unmount", "-q", "--all"]);
    place.reboot();
    place
}

/// Runs the commands that a message proposes, which begin with `remedy`.
#[track_caller]
fn follow(place: &Place, run: &Run, remedy: &str) {
    let said = run.stderr.to_string();
    let proposed: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("hint: "))
        .filter_map(|line| line.find(remedy).map(|begin| &line[begin..]))
        .collect();
    assert!(!proposed.is_empty(), "nothing proposes '{remedy}': {said}");
    for command in proposed {
        let command = command.replacen("sapwood ", &format!("{SAPWOOD} "), 1);
        let run = place.repo().run(Path::new("sh"), &["-ec", &command]);
        assert_eq!(run.code, 0, "{command}: {run:?}");
    }
}

/// Checks that the workspace `one` is mounted with all that it had.
#[track_caller]
fn is_whole(place: &Place, context: &str) {
    place.done(&["mount", "-q", "one"]);
    let shown = place.done(&["exec", "one", "--", "cat", "file", "dir/deep/file", "kept"]);
    assert_eq!(shown, "changed\nmine\nmore\nmine\n", "{context}");
    assert_eq!(place.git("one", &["status", "--porcelain"]), "?? kept\n", "{context}");
}

#[test]
fn a_missing_part_is_named_and_the_proposed_command_mends_it() {
    for backend in BACKENDS {
        for (number, case) in CASES.iter().enumerate() {
            let context = format!("{backend}, case {number}");
            let place = two_workspaces(backend);
            let path = (case.damage)(&place).display().to_string();
            let names = |run: &Run| {
                let said = run.stderr.to_string();
                assert!(said.contains(&path) && said.contains(case.cause), "{context}: {said}");
            };
            let run = place.run(&["mount", "--all"]);
            assert_eq!(run.code, 1, "{context}: {run:?}");
            names(&run);
            let is_mounted = run.stderr.to_string().contains("Workspace 'two' is mounted");
            assert_eq!(is_mounted, case.spares_others, "{context}: {run:?}");
            let list = place.done(&["list"]);
            let count = if case.spares_others { 1 } else { 2 };
            assert_eq!(list.matches(case.listed).count(), count, "{context}: {list}");
            let gc = place.run(&["gc"]);
            assert_eq!(gc.code, 0, "{context}: {gc:?}");
            names(&gc);
            for action in ["list", "verify", "gc"] {
                let run = place.run(&["base", action]);
                assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "{context}, {action}");
            }
            for args in [&["remove", "one"][..], &["exec", "one", "--", "true"]] {
                let run = place.run(args);
                assert_eq!(run.code, 128, "{context}, {args:?}: {run:?}");
                names(&run);
            }
            if case.spares_others {
                assert_eq!(place.git("two", &["status", "--porcelain"]), "", "{context}");
            }
            follow(&place, &gc, case.remedy);
            is_whole(&place, &context);
            place.done(&["mount", "-q", "two"]);
            let quiet = place.run(&["gc"]);
            assert_eq!(quiet.stderr, "", "{context}");
        }
    }
}

#[test]
fn a_disk_that_comes_back_needs_no_command() {
    for backend in BACKENDS {
        let place = two_workspaces(backend);
        let away = place.bases().with_extension("away");
        fs::rename(place.bases(), &away).expect("moved away");
        let run = place.run(&["mount", "one"]);
        assert!(run.code == 1 && run.stderr.to_string().contains("mount the disk that holds it"), "{run:?}");
        assert!(!place.bases().exists(), "{backend}: nothing may be written below a mount point");
        fs::rename(&away, place.bases()).expect("moved back");
        is_whole(&place, backend);
    }
}

#[test]
fn a_base_without_its_files_is_built_again_and_blocks_no_other() {
    for backend in BACKENDS {
        let place = two_workspaces(backend);
        let base = base_of(&place, "one");
        if backend == "image" {
            fs::remove_file(base.join("image")).expect("removed");
        } else {
            removed(base.join("files"));
        }
        place.done(&["base", "gc"]);
        let run = place.run(&["base", "verify"]);
        let name = base_of(&place, "two");
        let name = name.file_name().expect("a name").to_string_lossy().into_owned();
        let said = run.stdout.to_string();
        assert!(run.code == 1 && said.contains(&format!("{name}: ")), "{backend}: {run:?}");
        assert!(said.contains(&*base.to_string_lossy()), "{backend}: {said}");
        let run = place.run(&["mount", "--all"]);
        assert_eq!(run.code, 0, "{backend}: {run:?}");
        assert!(
            run.stderr.to_string().contains("The base of 'one' has lost its files"),
            "{backend}: {run:?}"
        );
        is_whole(&place, backend);
        assert_eq!(place.done(&["exec", "two", "--", "cat", "file"]), "content\n", "{backend}");
        place.done(&["base", "verify"]);
    }
}

#[test]
fn a_damaged_image_is_built_again_by_the_proposed_command() {
    let place = two_workspaces("image");
    let image = base_of(&place, "one").join("image");
    let size = fs::metadata(&image).expect("an image").len();
    fs::remove_file(&image).expect("removed");
    fs::write(&image, vec![0; usize::try_from(size).expect("a small image")]).expect("written");
    let run = place.run(&["mount", "--all"]);
    let said = run.stderr.to_string();
    assert!(run.code == 1 && said.contains("is no EROFS image"), "{said}");
    assert!(said.contains("Workspace 'two' is mounted"), "{said}");
    follow(&place, &run, "rm -f ");
    is_whole(&place, "a damaged image");
}

#[test]
fn a_missing_upper_layer_is_named_and_the_workspace_can_be_removed() {
    for backend in BACKENDS {
        let place = two_workspaces(backend);
        let upper = removed(place.repo().join(".git/sapwood/workspaces/one/upper"));
        let run = place.run(&["mount", "--all"]);
        let said = run.stderr.to_string();
        assert!(run.code == 1 && said.contains(&*upper.to_string_lossy()), "{backend}: {said}");
        assert!(said.contains("Workspace 'two' is mounted"), "{backend}: {said}");
        follow(&place, &run, "sapwood workspace remove --force ");
        let left = place.done(&["list"]);
        assert!(left.starts_with("two ") && left.lines().count() == 1, "{backend}: {left}");
    }
}

#[test]
fn a_base_that_no_commit_makes_is_named_and_the_workspace_can_be_removed() {
    for backend in BACKENDS {
        let place = two_workspaces(backend);
        removed(base_of(&place, "one"));
        place.repo().git(&["config", "core.autocrlf", "true"]);
        let run = place.run(&["mount", "--all"]);
        let said = run.stderr.to_string();
        assert!(run.code == 1 && said.contains("with the present settings"), "{backend}: {said}");
        assert!(said.contains("Workspace 'two' is mounted"), "{backend}: {said}");
        follow(&place, &run, "sapwood workspace remove --force ");
        let left = place.done(&["list"]);
        assert!(left.starts_with("two ") && left.lines().count() == 1, "{backend}: {left}");
        assert_eq!(place.repo().git(&["log", "-1", "--format=%s", "topic"]).stdout, "mine\n", "{backend}");
    }
}

/// `base add` cannot make the base of a sparse workspace, or one that holds only differences: the
/// mount makes it, and `gc` says so.
#[test]
fn a_missing_base_of_one_workspace_is_made_again() {
    for (backend, sparse) in [("image", true), ("overlay", true), ("image", false), ("overlay-user", false)] {
        let place = Place::new();
        let repo = place.repo();
        for number in 0..40 {
            repo.write(format!("dir/filler/{number}"), "filler\n");
        }
        repo.commit("filler");
        repo.write("dir/filler/7", "other\n");
        repo.commit("near");
        place.done(&["create", "-q", "zero", "--detach", "--backend", backend, "HEAD~1"]);
        let options = ["create", "-q", "one", "-b", "topic", "--backend", backend, "--sparse", "dir"];
        place.done(&options[..if sparse { 9 } else { 7 }]);
        place.done(&["exec", "one", "--", "sh", "-c", "echo mine >>dir/filler/7; echo mine >dir/kept"]);
        place.git("one", &["commit", "-q", "-a", "-m", "mine"]);
        ["zero", "one"].iter().for_each(|name| wait_until_durable(&base_of(&place, name)));
        place.done(&["unmount", "-q", "--all"]);
        place.reboot();
        let base = removed(base_of(&place, "one"));
        let said = place.run(&["gc"]).stderr.to_string();
        assert!(said.contains("sapwood workspace mount one"), "{backend}, sparse {sparse}: {said}");
        let mounted = place.done(&["mount", "one"]);
        assert!(base.exists(), "{backend}, sparse {sparse}: {mounted}");
        let shown = place.done(&["exec", "one", "--", "cat", "dir/filler/7", "dir/kept"]);
        assert_eq!(shown, "other\nmine\nmine\n", "{backend}, sparse {sparse}");
        assert_eq!(place.git("one", &["status", "--porcelain"]), "?? dir/kept\n", "{backend}, {sparse}");
    }
}
