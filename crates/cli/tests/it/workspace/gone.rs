//! Workspaces whose base, directory or repository is gone: each command names the true cause, the
//! others go on, and everything can be removed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use testkit::Run;

use super::create::{Place, leftovers};
use crate::SAPWOOD;

const BACKENDS: [&str; 4] = ["image", "overlay", "overlay-user", "fuse"];

/// Returns the mount points below a directory.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    testkit::disk::mounts_below(dir)
}

#[test]
fn a_workspace_is_removed_after_its_base_vanished() {
    for backend in BACKENDS {
        let place = Place::new();
        for name in ["clean", "edited", "staged", "other"] {
            place.done(&["create", "-q", name, "--detach", "--backend", backend]);
        }
        place.done(&["exec", "edited", "--", "sh", "-c", "echo mine >kept"]);
        place.git("staged", &["rm", "-q", "--cached", "file"]);
        let away = place.bases().with_extension("away");
        fs::rename(place.bases(), &away).expect("moved away");
        let said = place.done(&["list"]);
        assert_eq!(said.matches(" (its base is gone)  ").count(), 4, "{backend}: {said}");
        assert_eq!(said.matches("  not mounted").count(), 0, "{backend}: {said}");
        // The mounts still show all files.
        place.done(&["remove", "other"]);
        let failed = |args: &[&str], words: &[&str]| {
            let run = place.run(args);
            assert_ne!(run.code, 0, "{backend}, {args:?}");
            let said = run.stderr.to_string();
            assert!(words.iter().all(|words| said.contains(words)), "{backend}, {args:?}: {said}");
            said
        };
        failed(&["remove", "edited"], &["'edited' contains modified or untracked files"]);
        place.done(&["unmount", "--all"]);
        place.done(&["gc"]);
        let bases = place.bases().to_str().expect("plain").to_owned();
        let said = place.done(&["list"]);
        assert_eq!(said.matches("  not mounted (its base is gone)  ").count(), 3, "{backend}: {said}");
        for name in ["edited", "staged"] {
            let words = [&*bases, "cannot find out whether", "unsaved work, use --force"];
            let said = failed(&["remove", name], &words);
            assert!(!said.contains("contains modified"), "{backend}: {said}");
        }
        assert!(place.repo().exists(".git/sapwood/workspaces/edited/upper/kept"), "{backend}");
        // Nothing of the user's is in this one.
        place.done(&["remove", "clean"]);
        place.done(&["remove", "--force", "edited", "staged"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
        fs::rename(&away, place.bases()).expect("moved back");
    }
}

#[test]
fn a_removed_directory_is_named_and_blocks_no_other_workspace() {
    for backend in BACKENDS {
        let place = Place::new();
        for name in ["one", "two"] {
            place.done(&["create", "-q", name, "--detach", "--backend", backend]);
        }
        place.done(&["exec", "one", "--", "sh", "-c", "echo mine >kept"]);
        place.done(&["unmount", "-q", "--all"]);
        let dir = place.workspace("one").path;
        fs::remove_dir_all(&dir).expect("removed");
        let run = place.run(&["mount", "--all"]);
        assert_eq!(run.code, 1, "{backend}: {run:?}");
        let said = run.stderr.to_string();
        let cause = format!("its directory '{}' does not exist", dir.display());
        let remedy = format!("mkdir -p '{}'", dir.display());
        assert!(said.contains(&cause) && said.contains(&remedy), "{backend}: {said}");
        assert!(said.contains("Workspace 'two' is mounted"), "{backend}: {said}");
        let run = place.run(&["remove", "one"]);
        assert!(run.stderr.to_string().contains(&cause), "{backend}: {run:?}");
        fs::create_dir(&dir).expect("made");
        place.done(&["mount", "-q", "one"]);
        assert_eq!(place.git("one", &["status", "--porcelain"]), "?? kept\n", "{backend}");
        // The directory is a workspace again, also while it is not mounted.
        place.done(&["unmount", "-q", "one"]);
        let gitfile = fs::read_to_string(dir.join(".git")).expect("the file of an unmounted workspace");
        assert!(gitfile.starts_with("not mounted: "), "{backend}: {gitfile}");
        fs::remove_dir_all(&dir).expect("removed");
        place.done(&["remove", "--force", "one"]);
        place.done(&["remove", "two"]);
        assert_eq!(leftovers(&place), Vec::<PathBuf>::new(), "{backend}");
    }
}

#[test]
fn a_damaged_workspace_blocks_no_other() {
    let place = Place::new();
    for name in ["bad", "good", "unread"] {
        place.done(&["create", "-q", name, "--detach", "--backend", "overlay"]);
    }
    place.done(&["unmount", "-q", "--all"]);
    let state = place.repo().join(".git/sapwood/workspaces");
    fs::write(state.join("bad/record"), "[workspace]\n\tdir = /nowhere\n").expect("written");
    fs::rename(state.join("unread/upper"), state.join("unread/away")).expect("renamed");
    // A rebase that was killed, of a workspace whose upper layer is gone.
    fs::create_dir(state.join("unread/upper.new")).expect("made");
    let named = |run: &Run, what: &str| {
        let said = run.stderr.to_string();
        assert!(said.contains(what), "{what}: {said}{}", run.stdout);
    };
    let run = place.run(&["list"]);
    named(&run, "bad/record' is damaged");
    named(&run, "unread/upper");
    assert!(["good", "unread"].iter().all(|name| run.stdout.to_string().contains(name)), "{run:?}");
    let run = place.run(&["mount", "--all"]);
    assert_eq!(run.code, 1, "{run:?}");
    named(&run, "Workspace 'good' is mounted");
    named(&run, "unread/upper', which holds its changes, does not exist");
    let run = place.run(&["unmount", "--all"]);
    named(&run, "Workspace 'good' is unmounted");
    // An unfinished removal is completed though others fail.
    fs::write(state.join("good/removing"), "").expect("written");
    let run = place.run(&["gc"]);
    named(&run, "bad/record' is damaged");
    assert!(!state.join("good").exists(), "{run:?}");
    place.done(&["remove", "--force", "unread"]);
}

#[test]
fn gc_unmounts_what_belongs_to_a_deleted_repository() {
    for backend in BACKENDS {
        for upper in [false, true] {
            let place = Place::new();
            let repo = place.repo();
            // The bases are in the repository, on a real disk: the kernel mounts no image from a
            // tmpfs.
            let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
            let root = root.path().canonicalize().expect("it exists");
            let _mounts = testkit::disk::NoMountsBelow::new(&root);
            let (deleted, kept) = (root.join("repo"), root.join("kept/repo"));
            for copy in [&deleted, &kept] {
                let path = copy.to_str().expect("plain");
                repo.git(&["clone", "-q", ".", path]);
                let at = |args: &[&str]| {
                    let run = repo.run(SAPWOOD.as_ref(), &[&["-C", path, "workspace"], args].concat());
                    assert_eq!(run.code, 0, "{backend}: {run:?}");
                };
                let uppers = root.join("uppers").to_str().expect("plain").to_owned();
                let create = ["create", "-q", "one", "--detach", "--backend", backend];
                if upper {
                    at(&[&create[..], &["--upper-dir", &uppers]].concat())
                } else {
                    at(&create)
                }
                at(&["exec", "one", "--", "sh", "-c", "echo mine >kept"]);
            }
            let others: Vec<PathBuf> =
                mounts_below(&root).into_iter().filter(|at| at.starts_with(root.join("kept"))).collect();
            let _ = std::process::Command::new("rm")
                .arg("-rf")
                .arg(&deleted)
                .stderr(std::process::Stdio::null())
                .status();
            let gc = |args: &[&str]| {
                let mut command = repo.command(SAPWOOD.as_ref());
                let output = command.current_dir("/").args(["workspace", "gc", "--all"]).args(args).output();
                let output = output.expect("sapwood runs");
                assert!(output.status.success(), "{backend}: {output:?}");
                String::from_utf8(output.stderr).expect("text")
            };
            let before = mounts_below(&root);
            let top = root.join("repo.workspaces/one").display().to_string();
            if backend != "overlay-user" {
                assert!(gc(&["-n"]).contains(&top), "{backend}");
                assert_eq!(mounts_below(&root), before, "a dry run changes nothing");
            }
            let said = gc(&[]);
            // The kernel does not report the layers of a FUSE mount, and a holder unmounts by
            // itself.
            let is_named = upper && matches!(backend, "image" | "overlay");
            assert_eq!(said.contains("uppers/one/upper'"), is_named, "{backend}: {said}");
            assert_eq!(mounts_below(&root), others, "{backend}: {said}");
            if upper {
                let left =
                    fs::read_to_string(root.join("uppers/one/upper/kept")).expect("the changes are kept");
                assert_eq!(left, "mine\n", "{backend}");
            }
            fs::remove_dir_all(root.join("repo"))
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
                .expect("nothing is mounted there");
            let status =
                ["-C", kept.to_str().expect("plain"), "workspace", "exec", "one", "--", "cat", "kept"];
            assert_eq!(repo.run(SAPWOOD.as_ref(), &status).stdout, "mine\n", "{backend}");
        }
    }
}

#[test]
fn gc_by_class_needs_a_repository() {
    let place = Place::new();
    let elsewhere = place.sandbox.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a new directory");
    let gc = |options: &[&str]| {
        let args = [&["workspace", "gc", "--all", "-n"], options].concat();
        place.sandbox.repo("elsewhere").run(crate::SAPWOOD.as_ref(), &args)
    };
    assert_eq!(gc(&[]).code, 0);
    for options in [&["--landed"][..], &["--idle", "1s"]] {
        let refused = gc(options);
        assert_eq!(refused.code, 128, "{options:?}: {}", refused.stderr);
        assert!(refused.stderr.to_string().contains("not a git repository"), "{}", refused.stderr);
    }
}
