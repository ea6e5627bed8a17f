//! Unmerged paths.

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use super::lines;
use crate::{SAPWOOD, index_info};

/// Creates conflicts: both sides changed one file, and one side removed another.
fn conflicted(repo: &Repo<'_>) {
    for path in ["both", "ours", "theirs", "sub/both", "kept"] {
        repo.write(path, lines(0, 20));
    }
    repo.commit("base");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("both", lines(1, 21));
    repo.write("sub/both", lines(1, 22));
    repo.write("theirs", lines(2, 20));
    repo.write("added", lines(50, 60));
    repo.git(&["rm", "-q", "ours"]);
    repo.commit("side");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("both", lines(0, 19));
    repo.write("sub/both", lines(0, 18));
    repo.write("ours", lines(3, 20));
    repo.write("added", lines(50, 61));
    repo.git(&["rm", "-q", "theirs"]);
    repo.commit("main");
    assert_eq!(repo.try_git(&["merge", "-q", "side"]).code, 1, "it conflicts");
    repo.write("kept", "changed\n");
    repo.remove("sub/both");
}

#[test]
fn lists_unmerged_paths() {
    let oracle = Oracle::new(SAPWOOD, conflicted);
    let sides = ["-0", "-1", "-2", "-3", "--base", "--ours", "--theirs"];
    for side in sides {
        oracle.same(&["diff-files", side]);
        oracle.same(&["diff-files", side, "-M", "--exit-code"]);
    }
    oracle.same(&["diff-files", "--theirs", "-1"]);
    for args in
        [&["-C"][..], &["-R"], &["--name-status"], &["--diff-filter=U"], &["--diff-filter=u"], &["sub"]]
    {
        oracle.same(&[&["diff-files"], args].concat());
    }
    for args in [&["HEAD"][..], &["--cached", "HEAD"], &["-m", "HEAD"], &["-M", "side"], &["-R", "HEAD"]] {
        oracle.same(&[&["diff-index"], args].concat());
        oracle.same(&[&["diff-index", "--merge-base"], args].concat());
    }
    oracle.same(&["diff-index", "--merge-base", "--cached", "side"]);
}

/// Conflicts whose stages differ in kind from the file in the worktree, with and without symbolic
/// links, and with a repository in place of the file.
#[test]
fn lists_unmerged_paths_that_differ_in_kind() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        ["a", "gone", "link", "place"].iter().for_each(|path| repo.write(path, "1\n"));
        repo.write("empty", "");
        repo.commit("first");
        let blob = repo.git(&["rev-parse", "HEAD:a"]).stdout.trim().to_str_lossy().into_owned();
        let of_path = |path: &str, first: &str, second: &str| {
            format!("0 {} 0\t{path}\n{first} {blob} 1\t{path}\n{second} {blob} 2\t{path}\n", "0".repeat(40))
        };
        let lines = of_path("a", "100644", "120000")
            + &of_path("link", "120000", "100644")
            + &of_path("place", "120000", "100755")
            + &of_path("sub", "160000", "100644")
            + &of_path("other", "100644", "160000")
            + &of_path("no other", "100644", "160000")
            + &of_path("socket", "100644", "100755");
        index_info(repo, &lines);
        ["empty", "gone", "place"].iter().for_each(|path| repo.remove(path));
        // Git treats a socket as an empty file.
        std::os::unix::net::UnixListener::bind(repo.join("socket")).expect("a short name");
        repo.git(&["init", "-q", "-b", "main", "place"]);
        repo.git(&["-C", "place", "commit", "-q", "--allow-empty", "-m", "inner"]);
        repo.write("place/new", "1\n");
        repo.write("sub/file", "1\n");
        repo.write("other/file", "1\n");
    });
    for links in ["core.symlinks=true", "core.symlinks=false"] {
        for options in [&[][..], &["-M"], &["-C"], &["-R"]] {
            oracle.same(&[&["-c", links, "diff-files"], options].concat());
            oracle.same(&[&["-c", links, "diff-index"], options, &["HEAD"]].concat());
        }
        oracle.same(&["-c", links, "diff-files", "-1", "-M"]);
        oracle.same(&["-c", links, "diff-files", "-3"]);
        oracle.same(&["-c", links, "diff-index", "-M", "-m", "HEAD"]);
        for options in [&["-s"][..], &["--porcelain=v2"], &["--no-renames"], &["-M20%", "--", "gone", "link"]]
        {
            oracle.same(&[&["-c", links, "status"], options].concat());
        }
        oracle.same(&["-c", links, "status", "-uall", "-s"]);
        oracle.same(&["-c", links, "ls-files", "-o"]);
        oracle.same(&["-c", links, "-c", "status.renames=copies", "status", "--porcelain=v2"]);
    }
}
