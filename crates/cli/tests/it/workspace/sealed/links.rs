//! Links in the place of the Git directory.

use std::{fs, os::unix::fs::symlink};

use super::hostile::Scene;

#[test]
fn a_list_walks_only_the_workspace() {
    for backend in ["copy", "fuse"] {
        let scene = Scene::new(backend);
        let size = || scene.place.json()[0]["size"].as_u64().expect("a size");
        let before = size();
        let outside = scene.outside().join(".git");
        fs::write(outside.join("large"), "").expect("a file");
        fs::File::options()
            .write(true)
            .open(outside.join("large"))
            .and_then(|file| file.set_len(1 << 40))
            .expect("a hole");
        let workspace = scene.place.workspace("one");
        let (git, kept) = (workspace.join(".git"), workspace.join("git"));
        symlink(&outside, git.join("objects/out")).expect("a link");
        assert!(size() < (1 << 30), "{backend}: {before}, {}", size());
        fs::rename(&git, &kept).expect("a rename");
        symlink(&outside, &git).expect("a link");
        assert!(size() < (1 << 30), "{backend}: {before}, {}", size());
        assert!(before > 0, "{backend}");
    }
}

#[test]
fn a_mount_follows_no_link() {
    for target in ["$O", "$O/absent", "/dev/null"] {
        let scene = Scene::new("overlay");
        let place = &scene.place;
        place.done(&["unmount", "-q", "one"]);
        let git = place.repo().join(".git/sapwood/workspaces/one/upper/.git");
        fs::remove_dir_all(&git).expect("the directory below the mount");
        let outside = place.sandbox.repo("outside").join(".git");
        let target = target.replace("$O", outside.to_str().expect("a plain name"));
        symlink(&target, &git).expect("a link");
        let config = fs::read(outside.join("config")).expect("a file");
        place.done(&["mount", "-q", "one"]);
        assert_eq!(fs::read(outside.join("config")).expect("a file"), config);
        assert!(!outside.join("absent").exists());
        let workspace = place.workspace("one");
        assert_eq!(workspace.git(&["status", "--porcelain", "-b"]).stdout, "## one\n");
        place.done(&["remove", "one"]);
    }
}
