//! Tests of `adopt`: after a copy, an archive or a reflink, the next status is clean and reads no
//! file. Files whose content differs are still reported.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use testkit::{Repo, Run, Sandbox};

use crate::SAPWOOD;

const FILES: &[&str] = &["a", "dir/b", "dir/sub/c", "lines.t", "run"];

fn original(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("original");
    repo.write(".gitattributes", "*.t text eol=crlf\n");
    repo.write("a", "content a\n");
    repo.write("dir/b", "content b\n");
    repo.write("dir/sub/c", "content c\n");
    repo.write("lines.t", "one\r\ntwo\r\n");
    repo.write("empty", "");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("dir/b", "link");
    repo.commit("first");
    repo
}

fn shell(sandbox: &Sandbox, script: &str) -> bool {
    Command::new("sh")
        .args(["-ec", script])
        .current_dir(sandbox.path())
        .output()
        .is_ok_and(|run| run.status.success())
}

fn adopt(repo: &Repo<'_>, args: &[&str]) -> Run {
    repo.run(SAPWOOD.as_ref(), &[&["adopt"], args].concat())
}

/// Returns the path, inode, change time and content of every file outside the Git directory.
fn everything(dir: &Path) -> Vec<(PathBuf, u64, i64, i64, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let stat = path.symlink_metadata().expect("there");
        if stat.is_dir() && !path.ends_with(".git") {
            found.extend(everything(&path));
        } else if !stat.is_dir() {
            let content = if stat.is_file() { fs::read(&path).expect("read") } else { Vec::new() };
            found.push((path, stat.ino(), stat.ctime(), stat.ctime_nsec(), content));
        }
    }
    found.sort();
    found
}

/// Checks that status is clean and reads no file.
///
/// The content of each file is replaced by other bytes of the same size, and the stat data that Git
/// compares is kept. A command that reads a file would report it as modified.
fn is_clean_unread(repo: &Repo<'_>) {
    let by_stat = ["-c", "core.trustctime=false", "-c", "core.checkStat=minimal"];
    for file in FILES {
        let path = repo.join(file);
        let (content, time) =
            (repo.read(file), path.metadata().and_then(|stat| stat.modified()).expect("a time"));
        let other: Vec<u8> =
            content.iter().map(|byte| if *byte == b'\n' || *byte == b'\r' { *byte } else { b'X' }).collect();
        fs::write(&path, other).expect("written");
        fs::File::options().write(true).open(&path).and_then(|file| file.set_modified(time)).expect("set");
    }
    for args in [&["status", "--porcelain"][..], &["diff-files"], &["update-index", "--refresh"]] {
        let run = repo.git(&[&by_stat, args].concat());
        assert_eq!(run.stdout, "", "{args:?} read a file");
    }
}

fn is_clean(repo: &Repo<'_>) {
    assert_eq!(repo.git(&["--no-optional-locks", "status", "--porcelain"]).stdout, "");
    assert_eq!(repo.git(&["diff-files"]).stdout, "", "stat data are not those of the files");
}

#[test]
fn adopts_copies_archives_and_reflinks() {
    for (way, script) in [
        ("copied", "cp -r original there"),
        ("archived", "mkdir there; tar -C original -cf all.tar .; tar -C there -xf all.tar"),
        (
            "archived by commit",
            "mkdir there; cp -r original/.git there; tar -C original --exclude=.git --mtime=@1 -cf all.tar .; tar -C there -xf all.tar",
        ),
        ("cloned by the file system", "cp -r --reflink=always original there"),
    ] {
        let sandbox = Sandbox::new();
        original(&sandbox);
        if !shell(&sandbox, script) {
            assert!(way.contains("file system"), "{way}: cannot be done");
            println!("skipped: {way}");
            continue;
        }
        let repo = sandbox.repo("there");
        assert_ne!(repo.git(&["diff-files"]).stdout, "", "{way}: the index knows these files");
        let before = everything(&repo.path);
        let run = adopt(&repo, &[]);
        assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "{way}");
        assert_eq!(run.stdout, "verified: 8, adopted: 8, differ: 0, missing: 0\n", "{way}");
        assert_eq!(everything(&repo.path), before, "{way}: the worktree was changed");
        is_clean(&repo);
        is_clean_unread(&repo);
    }
}

#[test]
fn reports_files_that_differ_or_are_missing() {
    let sandbox = Sandbox::new();
    original(&sandbox);
    assert!(shell(&sandbox, "cp -r original there"));
    let repo = sandbox.repo("there");
    repo.write("a", "CONTENT A\n");
    repo.write("dir/b", "longer than it was\n");
    repo.remove("empty");
    let index = repo.read(".git/index");
    let dry = adopt(&repo, &["--dry-run"]);
    assert_eq!((dry.code, dry.stdout), (1, "verified: 5, adopted: 5, differ: 2, missing: 1\n".into()));
    assert_eq!(repo.read(".git/index"), index, "a dry run wrote the index");
    let run = adopt(&repo, &["-v"]);
    let told = "differs: a\ndiffers: dir/b\nmissing: empty\nverified: 5, adopted: 5, differ: 2, missing: 1\n";
    assert_eq!((run.code, run.stdout), (1, told.into()));
    let status = " M a\n M dir/b\n D empty\n";
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, status);
    assert_eq!(repo.git(&["diff-files", "--name-only"]).stdout, "a\ndir/b\nempty\n");
    assert_eq!(adopt(&repo, &["-q"]).stdout, "");
}

/// The stat data of the file equals the recorded one. Only the racy rule shows that the file was
/// written since.
#[test]
fn reports_a_racy_file_that_differs() {
    let sandbox = Sandbox::new();
    let repo = original(&sandbox);
    let time = SystemTime::now() + Duration::from_secs(3600);
    let settle = |content: &str| {
        fs::write(repo.join("a"), content).expect("written");
        fs::File::options()
            .write(true)
            .open(repo.join("a"))
            .and_then(|file| file.set_modified(time))
            .expect("set");
    };
    for key in ["core.trustctime=false", "core.checkStat=minimal"] {
        let (name, value) = key.split_once('=').expect("a value");
        repo.git(&["config", name, value]);
    }
    settle("content a\n");
    repo.git(&["update-index", "--refresh"]);
    settle("CONTENT A\n");
    let run = adopt(&repo, &["-v"]);
    assert!(run.code == 1 && run.stdout.starts_with(b"differs: a\n"), "{run:?}");
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, " M a\n");
}

#[test]
fn builds_the_index_from_a_tree() {
    let sandbox = Sandbox::new();
    let repo = original(&sandbox);
    repo.remove(".git/index");
    assert_eq!(adopt(&repo, &[]).code, 128);
    let run = adopt(&repo, &["--from", "HEAD"]);
    assert_eq!((run.code, run.stdout), (0, "verified: 8, adopted: 8, differ: 0, missing: 0\n".into()));
    is_clean(&repo);
    assert_eq!(repo.git(&["write-tree"]).stdout, repo.git(&["rev-parse", "HEAD^{tree}"]).stdout);
    assert_eq!(adopt(&repo, &["--from", "HEAD"]).code, 128, "what is staged is not thrown away");
    is_clean_unread(&repo);
}

#[test]
fn skips_assume_unchanged_and_skip_worktree_entries() {
    let sandbox = Sandbox::new();
    original(&sandbox);
    assert!(shell(
        &sandbox,
        "git -C original update-index --skip-worktree a --assume-unchanged run; cp -r original there"
    ));
    let repo = sandbox.repo("there");
    repo.remove("a");
    repo.write("run", "changed\n");
    let run = adopt(&repo, &[]);
    assert_eq!((run.code, run.stdout), (0, "verified: 6, adopted: 6, differ: 0, missing: 0\n".into()));
    assert_eq!(repo.git(&["ls-files", "-v", "a", "run"]).stdout, "S a\nh run\n");
}
