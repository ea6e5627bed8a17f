//! Workspaces without an upper layer, on disks that share blocks: snapshots of btrfs, and files of
//! xfs and btrfs that share their blocks.

use testkit::{
    Sandbox,
    disk::{Disk, Format},
};

use crate::SAPWOOD;

#[test]
fn snapshots_and_shared_blocks_make_clean_worktrees() {
    for (format, backend) in [(Format::Btrfs, "btrfs"), (Format::Btrfs, "reflink"), (Format::Xfs, "reflink")]
    {
        let sandbox = Sandbox::new();
        let at = sandbox.path().join("disk");
        std::fs::create_dir(&at).expect("a new directory");
        let Some(_disk) = Disk::on_file(format, 400, &sandbox.path().join("image"), &at) else { return };
        let repo = sandbox.init("disk/repo");
        repo.write("file", "content\n");
        repo.write("dir/deep/file", "more\n");
        repo.write_executable("run", "#!/bin/sh\n");
        repo.symlink("dir/deep", "link");
        repo.commit("one");
        let done = |args: &[&str]| {
            let run = repo.run(SAPWOOD.as_ref(), &[&["workspace"], args].concat());
            assert_eq!(run.code, 0, "{backend}: {args:?}: {}", run.stderr);
            run.stdout.to_string()
        };
        done(&["create", "one", "--backend", backend]);
        let one = sandbox.repo("disk/repo.workspaces/one");
        assert_eq!(one.read("link/file"), "more\n");
        // The index has the files' stat data: `diff-files` compares them and reads no file.
        assert_eq!(one.git(&["diff-files"]).stdout, "", "{backend}");
        assert_eq!(one.git(&["status", "--porcelain"]).stdout, "", "{backend}");
        one.write("file", "changed\n");
        assert_eq!(one.git(&["status", "--porcelain"]).stdout, " M file\n", "{backend}");
        assert_eq!(repo.read("file"), "content\n");
        let refused = repo.run(SAPWOOD.as_ref(), &["workspace", "remove", "one"]);
        assert_ne!(refused.code, 0);
        one.git(&["commit", "-qam", "two"]);
        done(&["create", "two", "--backend", backend, "HEAD"]);
        assert_eq!(sandbox.repo("disk/repo.workspaces/two").read("file"), "content\n", "{backend}");
        done(&["remove", "one", "two"]);
        assert!(!one.path.exists(), "{backend}");
        done(&["base", "prune"]);
        assert_eq!(done(&["base", "list"]), "");
    }
}

/// Returns the blocks that the files of a base share with others, and all of its blocks.
fn shared_blocks(dir: &std::path::Path) -> (u64, u64) {
    let listed = std::process::Command::new("find")
        .arg(dir)
        .args(["-type", "f", "-size", "+100k", "-exec", "filefrag", "-v", "{}", "+"])
        .output()
        .expect("it runs");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let extents =
        listed.lines().filter(|line| line.trim_start().starts_with(|digit: char| digit.is_ascii_digit()));
    let mut sums = (0, 0);
    for extent in extents {
        let length: u64 = extent.split(':').nth(3).expect("a length").trim().parse().expect("a number");
        sums.1 += length;
        sums.0 += if extent.contains("shared") { length } else { 0 };
    }
    sums
}

#[test]
fn a_first_base_shares_the_blocks_of_a_clean_main_worktree() {
    testkit::need_program("filefrag");
    for format in [Format::Btrfs, Format::Xfs] {
        let sandbox = Sandbox::new();
        let at = sandbox.path().join("disk");
        std::fs::create_dir(&at).expect("a new directory");
        let Some(_disk) = Disk::on_file(format, 400, &sandbox.path().join("image"), &at) else { return };
        let repo = sandbox.init("disk/repo");
        repo.write("file", "content\n");
        repo.write("empty", "");
        repo.write("large", vec![b'l'; 1 << 20]);
        repo.write("dir/large", "line\n".repeat(50_000));
        repo.write_executable("run", "#!/bin/sh\n");
        repo.symlink("dir", "link");
        repo.write(".gitattributes", "*.txt text\n");
        repo.write("a.txt", "one\ntwo\n");
        repo.commit("one");
        // The file is clean for Git, and a checkout would write other bytes.
        repo.write("a.txt", "one\r\ntwo\r\n");
        repo.git(&["add", "a.txt"]);
        let base = |commit: &str| {
            let args = ["workspace", "base", "add", "--backend", "overlay", "--json", commit];
            let run = repo.run(SAPWOOD.as_ref(), &args);
            assert_eq!(run.code, 0, "{run:?}");
            let json: serde_json::Value = serde_json::from_str(&run.stdout.to_string()).expect("JSON");
            let verified = repo.run(SAPWOOD.as_ref(), &["workspace", "base", "verify"]);
            assert_eq!(verified.code, 0, "{verified:?}");
            std::path::PathBuf::from(json[0]["dir"].as_str().expect("a path")).join("files")
        };
        let written = base("HEAD");
        assert_eq!(std::fs::read_to_string(written.join("a.txt")).expect("read"), "one\ntwo\n");
        assert_eq!(shared_blocks(&written).0, 0, "{format:?}: one file differs, so all are written");
        repo.write("a.txt", "one\ntwo\n");
        repo.write("new", "new\n");
        repo.commit("three");
        let shared = base("HEAD");
        let (common, all) = shared_blocks(&shared);
        assert!(all > 0 && common == all, "{format:?}: {common} of {all} blocks");
        // A later write of the user does not reach the base.
        repo.write("large", vec![b'x'; 1 << 20]);
        assert_eq!(std::fs::read(shared.join("large")).expect("read"), vec![b'l'; 1 << 20]);
        assert_eq!(repo.run(SAPWOOD.as_ref(), &["workspace", "base", "verify"]).code, 0);
    }
}
