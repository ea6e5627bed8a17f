//! Clones onto a file system that ignores case: the paths that collide are listed as Git lists them, and
//! of each group the same one is left.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::Sandbox;

use crate::SAPWOOD;

/// A case-insensitive file system, unmounted with this value.
struct Mount(PathBuf);

impl Mount {
    /// `None`, with a word about it, where it cannot be had.
    fn ignoring_case(sandbox: &Sandbox) -> Option<Mount> {
        let (image, point) = (sandbox.path().join("image"), sandbox.path().join("mounted"));
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("an image");
        fs::create_dir(&point).expect("a mount point");
        let made = Command::new("mkntfs").args(["-F", "-Q"]).arg(&image).output();
        let mounted =
            |_| Command::new("lowntfs-3g").args(["-o", "ignore_case"]).arg(&image).arg(&point).output();
        match made.and_then(mounted) {
            Ok(output) if output.status.success() => Some(Mount(point)),
            other => {
                println!("skipped: no case-insensitive file system here: {other:?}");
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn the_last_in_index_order_survives_and_all_are_listed() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    // Made in the index: the source may lie on any file system.
    for (path, content) in [
        ("README", "upper"),
        ("readme", "lower"),
        ("dir/File", "1"),
        ("dir/file", "2"),
        ("dir/FILE", "3"),
        ("Other/x", "4"),
        ("other/y", "5"),
        ("single", "6"),
    ] {
        source.write("content", content);
        let blob = source.git(&["hash-object", "-w", "content"]).stdout.to_string();
        source.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{},{path}", blob.trim())]);
    }
    source.git(&["commit", "-q", "-m", "names"]);
    let Some(mount) = Mount::ignoring_case(&sandbox) else { return };
    let url = sandbox.path().join("source").display().to_string();
    let root = sandbox.repo("mounted");
    let theirs = root.try_git(&["clone", &url, "git"]);
    for workers in ["1", "8"] {
        let run = root
            .command(Path::new(SAPWOOD))
            .env("SAPWOOD_TEST_CHECKOUT_WORKERS", workers)
            .args(["clone", &url, "ours"])
            .output()
            .expect("it runs");
        assert_eq!(run.status.code(), Some(theirs.code));
        let said = String::from_utf8_lossy(&run.stderr).replace("'ours'", "'git'");
        if sandbox.git_version() >= (2, 55) {
            assert_eq!(theirs.stderr.to_string(), said, "{workers} workers");
        }
        let config = |side: &str| sandbox.repo(&format!("mounted/{side}")).read(".git/config");
        assert_eq!(config("git"), config("ours"));
        for (path, content) in [("readme", "lower"), ("dir/file", "2"), ("other/y", "5"), ("single", "6")] {
            assert_eq!(
                fs::read_to_string(mount.0.join("ours").join(path)).expect("there"),
                content,
                "{path}"
            );
        }
        fs::remove_dir_all(mount.0.join("ours")).expect("removed");
    }
}
