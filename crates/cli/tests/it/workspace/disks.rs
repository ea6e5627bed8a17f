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
