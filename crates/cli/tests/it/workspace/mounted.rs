//! Mounts inside a workspace, as containers make them: whatever they show is compared with the
//! index file by file, by Git and by sapwood, in each mount namespace.

use std::{fs, path::Path, process::Command};

use super::{create::Place, monitor::Watched};
use crate::SAPWOOD;

/// Each makes a mount in the root of the workspace, on files that are tracked.
const MOUNTS: [(&str, &str); 5] = [
    ("a bind mount", "mount --bind ../side a"),
    ("a tmpfs", "mount -t tmpfs x a/b; echo mine >a/b/one; mkdir a/b/n; echo >a/b/n/new"),
    (
        "an overlay",
        "mount -t overlay x -o lowerdir=$PWD/../side,upperdir=$PWD/../more/u,workdir=$PWD/../more/w a",
    ),
    ("a bind mount of a file", "mount --bind ../side/one one"),
    (
        "two mounts",
        "mount --bind ../side a; mount --bind ../side/one a/b/two; mount --bind ../side/one d/one",
    ),
];

/// Removes all mounts inside the workspace.
const UNMOUNT: &str = "grep -o \" $PWD/[^ ]* \" /proc/self/mountinfo | sort -r | xargs -r -n1 umount";

fn watched(backend: &str) -> Watched {
    let watched = Watched::new(backend);
    let side = watched.place.sandbox.path().join("repo.workspaces/side");
    fs::create_dir_all(side.join("b/c/new")).expect("created");
    for dir in ["", "b/"] {
        fs::write(side.join(dir).join("one"), "other\n").expect("written");
        // This file equals the tracked one.
        fs::write(side.join(dir).join("two"), format!("a/{dir}two\n")).expect("written");
    }
    fs::write(side.join("b/c/new/new"), "").expect("written");
    watched
}

#[test]
fn a_mount_is_examined_file_by_file() {
    for backend in ["image", "overlay", "fuse", "overlay-user"] {
        let watched = watched(backend);
        let count = if matches!(backend, "image" | "overlay") { MOUNTS.len() } else { 2 };
        for (number, (name, mount)) in MOUNTS.into_iter().take(count).enumerate() {
            let tools = if number % 2 == 0 { ["git", SAPWOOD] } else { [SAPWOOD, "git"] };
            let fresh = "umask 022; rm -rf ../more; mkdir -p ../more; mount -t tmpfs x ../more; \
                         mkdir ../more/u ../more/w";
            let end = "umount ../more";
            // `exec` gives each script of this backend the holder's namespace, where the mounts
            // stay.
            let steps = [
                format!("{fresh}; {mount}"),
                "echo edited >>a/one; echo edited >>one; echo >a/b/c/untracked 2>/dev/null || :".to_owned(),
                ":".to_owned(),
                "git add -A".to_owned(),
                "git reset -q".to_owned(),
                format!("{UNMOUNT}; {end}"),
                ":".to_owned(),
            ];
            for (at, step) in steps.iter().enumerate() {
                for tool in if at % 2 == 0 { tools } else { [tools[1], tools[0]] } {
                    let step = if tool == tools[at % 2] { step.as_str() } else { ":" };
                    let round = format!("{{ {step}; }} >/dev/null # {backend}, {name}");
                    watched.compare(["-unormal", "-uall"][number % 2], tool, &round);
                }
            }
            watched.inside("git reset -q --hard; git clean -fdqx; echo other >../side/one", &[]);
        }
    }
}

/// One index serves processes that see different files at the same paths.
#[test]
fn each_namespace_is_right_in_its_own_view() {
    let watched = watched("overlay");
    let elsewhere = |mount: &str, tool: &str, untracked: &str| {
        let script = format!(
            "top=$PWD; unshare -m --propagation private sh -ec '{mount}; {} status --porcelain {untracked} \
             >/dev/null; sh -c \"$1\" sh {untracked} {tool}' sh \"$1\"",
            tool
        );
        let difference = watched.inside(&script, &[super::monitor::COMPARE]);
        assert_eq!(difference, "", "{tool} in a namespace with {mount}");
    };
    for (number, (_, mount)) in MOUNTS.into_iter().enumerate() {
        if mount.contains("overlay") {
            continue;
        }
        let (one, other) = if number % 2 == 0 { ("git", SAPWOOD) } else { (SAPWOOD, "git") };
        let untracked = ["-unormal", "-uall"][number % 2];
        // The index is written with the view of the one, and read with the view of the other.
        elsewhere(mount, one, untracked);
        watched.compare(untracked, other, ":");
        elsewhere("mount -t tmpfs x d", other, untracked);
        elsewhere(mount, one, untracked);
        watched.compare(untracked, one, &format!("{{ {mount}; }} >/dev/null"));
        elsewhere(UNMOUNT, other, untracked);
        elsewhere("mount -t tmpfs x d", one, untracked);
        watched.compare(untracked, other, ":");
        watched.compare(untracked, one, UNMOUNT);
        watched.compare(untracked, other, ":");
    }
}

#[test]
fn an_edit_in_a_mount_is_committed_and_not_overwritten() {
    for tool in ["git", SAPWOOD] {
        let watched = watched("overlay");
        let side = watched.place.sandbox.path().join("repo.workspaces/side");
        fs::copy(watched.place.workspace("w").join("d/two"), side.join("two")).expect("copied");
        fs::write(side.join("one"), "d/one\n").expect("written");
        watched.inside("$1 status --porcelain; rm -r ../side/b; mount --bind ../side d", &[tool]);
        assert_eq!(watched.inside("$1 status --porcelain", &[tool]), "", "{tool}");
        watched.inside("echo mine >d/one", &[]);
        assert_eq!(watched.inside("$1 status --porcelain", &[tool]), " M d/one\n", "{tool}");
        // The branch `two` has no `d/one`.
        let refused = watched.inside("! $1 switch --detach two 2>&1", &[tool]);
        assert!(refused.contains("overwritten by checkout:\n\td/one"), "{tool}: {refused}");
        assert_eq!(fs::read_to_string(side.join("one")).expect("there"), "mine\n", "{tool}");
        watched.inside("$1 commit -qam mine", &[tool]);
        assert_eq!(
            watched.inside("git show HEAD:d/one; umount d; $1 status --porcelain", &[tool]),
            "mine\n M d/one\n"
        );
    }
}

/// A mount at an ignored directory costs nothing.
#[test]
fn an_ignored_mount_is_not_examined() {
    let watched = watched("overlay");
    // The second token is the first one whose response is not "everything".
    let script = "token=$(\"$1\" workspace changes 2 x | tr '\\0' '\\n' | head -n1)
                  token=$(\"$1\" workspace changes 2 \"$token\" | tr '\\0' '\\n' | head -n1)
                  \"$1\" workspace changes 2 \"$token\" | tr '\\0' '\\n' | tail -n+2";
    watched.inside("mkdir -p target; mount --bind ../side target; git status", &[]);
    assert_eq!(watched.inside(script, &[SAPWOOD]), "");
    watched.inside("mount --bind ../side d; git status", &[]);
    let paths =
        ["d", "d/.sapwood-probe", "d/b/.sapwood-probe", "d/b/c/.sapwood-probe", "d/b/c/new/.sapwood-probe"];
    let mut found: Vec<String> = watched.inside(script, &[SAPWOOD]).lines().map(str::to_owned).collect();
    found.sort();
    let mut paths = paths.map(str::to_owned).to_vec();
    paths.sort();
    assert_eq!(found, paths);
    // A tracked file in the ignored directory is examined.
    watched.inside("echo >>../side/one; git add -f target/one; umount target", &[]);
    watched.compare("-uall", "git", ":");
    watched.inside("mount --bind ../side target", &[]);
    watched.compare("-uall", SAPWOOD, "echo more >>target/one");
}

fn umount(point: &Path) {
    assert!(Command::new("umount").arg(point).status().expect("umount runs").success());
}

fn mount(args: &[&str], point: &Path) {
    assert!(Command::new("mount").args(args).arg(point).status().expect("mount runs").success());
}

#[test]
fn a_workspace_with_a_mount_is_not_unmounted() {
    for backend in ["image", "overlay", "fuse"] {
        let place = Place::new();
        place.done(&["create", "-q", "one", "--detach", "--backend", backend]);
        let workspace = place.workspace("one");
        let side = place.sandbox.path().join("side");
        fs::create_dir(&side).expect("created");
        fs::write(side.join("kept"), "mine\n").expect("written");
        let side_name = side.to_str().expect("plain");
        mount(&["--bind", side_name], &workspace.join("dir"));
        let refused = |what: &str| {
            let all =
                [&["unmount", "one"][..], &["remove", "one"], &["move", "one", "../x"], &["freeze", "one"]];
            let rebase = (backend != "fuse").then_some(&["rebase", "-d", "one", "HEAD~1"][..]);
            for args in all.into_iter().chain(rebase) {
                let run = place.run(args);
                assert_ne!(run.code, 0, "{args:?}");
                assert!(run.stderr.to_string().contains(what), "{backend}, {args:?}: {}", run.stderr);
                assert_eq!(fs::read_to_string(side.join("kept")).expect("there"), "mine\n", "{args:?}");
            }
        };
        let dir = workspace.join("dir");
        refused(&format!("contains a mount: '{}'\nhint: unmount that first: umount '{0}'", dir.display()));
        assert_eq!(workspace.read("dir/kept"), "mine\n", "it is still mounted");
        umount(&dir);
        // A mount over the workspace hides it, and it is still in use.
        mount(&["-t", "tmpfs", "x"], &workspace.path);
        let hint = format!("first: umount '{}'\n", workspace.path.display());
        refused(&hint);
        umount(&workspace.path);
        if backend != "fuse" {
            // Another mount of the same layers.
            let copy = place.sandbox.path().join("copy");
            fs::create_dir(&copy).expect("created");
            mount(&["--bind", workspace.path.to_str().expect("plain")], &copy);
            for action in ["unmount", "unmount", "mount"] {
                let run = place.run(&[action, "one"]);
                assert_eq!(run.code, 1, "{run:?}");
                let words = format!("is mounted at '{}', too", copy.display());
                assert!(run.stderr.to_string().contains(&words), "{action}: {}", run.stderr);
            }
            umount(&copy);
            place.done(&["mount", "-q", "one"]);
        }
        mount(&["--bind", side_name], &dir);
        place.done(&["remove", "--force", "one"]);
        assert_eq!(fs::read_to_string(side.join("kept")).expect("there"), "mine\n", "{backend}");
        assert_eq!(super::create::leftovers(&place), Vec::<std::path::PathBuf>::new(), "{backend}");
    }
}
