//! `init` through the shim, compared with Git: the same files, modes, messages and exit codes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use testkit::Oracle;

use crate::shim::Shim;

/// Returns every file, directory and link below `root` with its mode and content.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("readable") {
            let path = entry.expect("readable").path();
            let stat = path.symlink_metadata().expect("just listed");
            let content = if stat.is_file() { fs::read(&path).expect("readable") } else { Vec::new() };
            let below = path.strip_prefix(root).expect("below the root").to_owned();
            found.insert(below, (stat.permissions().mode(), content));
            if stat.is_dir() {
                waiting.push(path);
            }
        }
    }
    found
}

fn check(setup: &str, args: &[&str], native: bool) {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        let made = repo.command("sh".as_ref()).args(["-ec", setup]).output().expect("a shell");
        assert!(made.status.success(), "{setup}: {}", String::from_utf8_lossy(&made.stderr));
    });
    oracle.same_answer_in(setup, "", args);
    let (ours, theirs) = (tree(&oracle.ours().path), tree(&oracle.git().path));
    let names = |tree: &BTreeMap<PathBuf, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&theirs), names(&ours), "{args:?}: files; git left, ours right");
    // The file `.git` contains the path of the copy, which differs.
    for (path, content) in theirs.iter().filter(|(path, _)| *path != Path::new("new/.git")) {
        assert!(ours.get(path) == Some(content), "{args:?}: {} differs", path.display());
    }
    if native {
        shim.was_native(args);
    }
}

#[test]
fn makes_what_git_makes() {
    for args in [
        &["init", "new"][..],
        &["init", "-q", "new/deep/er"],
        &["init", "--bare", "new.git"],
        &["init", "-b", "trunk", "new"],
        &["init", "--initial-branch=a/b", "--bare", "x"],
        &["init", "--template=", "new"],
        &["init", "--template=templates", "new"],
        &["-C", "empty", "init"],
        &["-C", "full", "init", "-q"],
        &["-c", "init.defaultBranch=dev", "init", "full"],
        &["-c", "advice.defaultBranchName=false", "init", "x"],
        &["-c", "core.hooksPath=/x", "init", "link"],
        &["init", "--object-format=sha1", "--ref-format=files", "new"],
        &["-c", "core.logAllRefUpdates=always", "init", "new"],
        &["-c", "core.logAllRefUpdates=no", "init", "--bare", "new"],
        &["-c", "core.sharedRepository=group", "init", "new"],
        &["-c", "core.sharedRepository=0640", "init", "--bare", "new"],
        &["-c", "core.sharedRepository=false", "init", "new"],
        &["-c", "core.sharedRepository=all", "init", "--template=templates", "deep/new"],
    ] {
        let setup = "mkdir -p empty full/x templates/hooks templates/info; echo a >full/a; \
            echo b >templates/hooks/post-commit; chmod +x templates/hooks/post-commit; \
            echo c >templates/info/exclude; mkdir target; ln -s target link";
        check(setup, args, true);
    }
}

#[test]
fn leaves_the_rest_to_git() {
    for args in [
        &["init"][..],
        &["init", "new", "other"],
        &["init", "--shared", "new"],
        &["init", "--separate-git-dir=elsewhere", "new"],
        &["init", "--object-format=sha256", "new"],
        &["init", "-b", "-x", "new"],
        &["init", "-b", "a..b", "new"],
        &["init", "--template=nowhere", "new"],
        &["init", "--template=templates", "new"],
        &["init", "--bare", "full"],
        &["init", "full/a"],
        &["--bare", "init", "new"],
        &["-c", "core.sharedRepository=x", "init", "new"],
        &["-c", "core.logAllRefUpdates", "init", "new"],
        &["-c", "core.logAllRefUpdates=x", "init", "new"],
        &["-c", "core.abbrev=x", "init", "new"],
        &["init", "-h"],
        &["init", ""],
    ] {
        let setup = "mkdir -p full templates; echo a >full/a; echo '[core]' >templates/config";
        check(setup, args, false);
    }
}
