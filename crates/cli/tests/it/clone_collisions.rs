//! Clones onto a case-insensitive file system. The colliding paths are listed as Git lists them,
//! and the same path of each group survives.

use std::{fs, path::Path};

use testkit::{CaseInsensitive, Sandbox};

use crate::SAPWOOD;

#[test]
fn keeps_the_last_colliding_path_and_lists_all() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    // The names are created in the index only, because the source may lie on any file system.
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
    let point = sandbox.path().join("mounted");
    fs::create_dir(&point).expect("a mount point");
    let Some(_mount) = CaseInsensitive::mount(&sandbox.path().join("image"), &point) else { return };
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
        if sandbox.git_version() == (2, 55) {
            assert_eq!(theirs.stderr.to_string(), said, "{workers} workers");
        }
        let config = |side: &str| sandbox.repo(&format!("mounted/{side}")).read(".git/config");
        assert_eq!(config("git"), config("ours"));
        for (path, content) in [("readme", "lower"), ("dir/file", "2"), ("other/y", "5"), ("single", "6")] {
            assert_eq!(fs::read_to_string(point.join("ours").join(path)).expect("there"), content, "{path}");
        }
        fs::remove_dir_all(point.join("ours")).expect("removed");
    }
}
