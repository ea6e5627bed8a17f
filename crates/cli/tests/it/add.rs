//! Tests of `add` against Git: the index, the objects, the output and the exit code.

mod index_forms;
mod random_changes;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use testkit::{Oracle, Repo, Sandbox};

use crate::{SAPWOOD, shim::Shim};

/// Creates tracked, changed, deleted, untracked and ignored files, and files that no index can
/// contain.
fn mixture(repo: &Repo<'_>) {
    repo.write(".gitignore", "*.o\n/out/\n");
    for path in ["a", "b", "gone", "dir/x", "dir/gone", "dir/deep/z", "exec", "becomes-dir", "was-dir/f"] {
        repo.write(path, format!("{path}\n"));
    }
    symlink("a", repo.join("link")).expect("a link");
    repo.commit("first");
    repo.write("a", "changed\n");
    repo.write("dir/x", "changed, too\n");
    for gone in ["gone", "dir/gone", "becomes-dir", "was-dir/f"] {
        fs::remove_file(repo.join(gone)).expect("it is there");
    }
    fs::remove_dir(repo.join("was-dir")).expect("it is empty");
    repo.write("was-dir", "a file now\n");
    repo.write("becomes-dir/inside", "1\n");
    for path in
        ["new", "dir/new", "other/new", "other/sub/new", "x.o", "dir/y.o", "out/z", "-n", "tab\there", "ä"]
    {
        repo.write(path, format!("{path}\n"));
    }
    fs::remove_file(repo.join("link")).expect("it is there");
    symlink("b", repo.join("link")).expect("a link");
    symlink("dir", repo.join("to-dir")).expect("a link");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(repo.join("exec"), executable).expect("it is ours");
    fs::create_dir(repo.join("empty")).expect("a new directory");
}

/// Runs each line natively in a separate repository, and compares it with Git's run.
#[track_caller]
fn each(setup: impl Fn(&Repo<'_>) + Copy, dir: &str, cases: &[&[&str]]) {
    for case in cases {
        let shim = Shim::new();
        let oracle = Oracle::new(&shim.program(), setup);
        // An `-N` lists files again that the index does not prove unchanged.
        oracle.outlast_files();
        let args = [&["add"], *case].concat();
        oracle.same_in(dir, &args);
        shim.was_native(&args);
        oracle.ours().git(&["fsck", "--no-dangling"]);
        let again = [&["add", "-v"], *case].concat();
        oracle.same_in(dir, &again);
    }
}

#[test]
fn adds_the_same_paths_with_every_option() {
    each(
        mixture,
        "",
        &[
            &["."],
            &["-A"],
            &["-u"],
            &["-v", "."],
            &["-n", "."],
            &["-nv", "-A"],
            &["--no-all", "."],
            &["--ignore-removal", "dir"],
            &["--no-ignore-removal", "dir"],
            &["-N", "."],
            &["-N", "new", "a"],
            &["-f", "."],
            &["-f", "x.o", "out"],
            &["--refresh", "."],
            &["--refresh", "-v", "dir"],
            &["--renormalize", "-v", "b"],
            &["--chmod=+x", "a", "new"],
            &["--chmod=-x", "exec"],
            &["--chmod=+x", "link", "a"],
            &["--chmod=+x", "-n", "link", "new"],
            &["--ignore-errors", "."],
            &["--sparse", "."],
            &["-A", "--chmod=+x"],
            &["--no-verbose", "--no-force", "new"],
        ],
    );
}

#[test]
fn renormalizes_only_what_is_there() {
    each(mixture, "", &[&["--renormalize", "."], &["--renormalize", "-n", "dir/x"], &["--renormalize"]]);
}

#[test]
fn selects_paths_like_git() {
    each(
        mixture,
        "",
        &[
            &["new"],
            &["gone"],
            &["dir"],
            &["dir/"],
            &["dir/*"],
            &["*.o"],
            &["x.o"],
            &["x.o", "new"],
            &["dir/y.o", "out/z", "out"],
            &["nowhere"],
            &["new", "nowhere"],
            &["nowhere/at/all"],
            &["new/below"],
            &["empty"],
            &["-u", "new"],
            &["-u", "nowhere"],
            &["-u", "dir"],
            &[":(glob)**/new"],
            &[":(icase)NEW"],
            &[":(glob)**/nothing"],
            &[".", ":!dir"],
            &[":^dir"],
            &["--", "-n"],
            &["to-dir"],
            &["to-dir/x"],
            &["link"],
            &["was-dir", "becomes-dir"],
            &["was-dir/f"],
            &["becomes-dir/inside"],
            &[".git/config"],
            &["../outside"],
            &[""],
            &["tab\there", "ä"],
            &["--ignore-missing", "-n", "x.o", "missing.o", "new"],
            &["--ignore-missing", "-n", "missing"],
        ],
    );
}

#[test]
fn works_in_a_subdirectory() {
    each(
        mixture,
        "dir",
        &[&["."], &["-A"], &["-u"], &["-u", "."], &["new", "../new"], &["y.o"], &[":/a"], &["-v", "gone"]],
    );
}

#[test]
fn refuses_what_makes_no_sense() {
    each(
        mixture,
        "",
        &[
            &[],
            &["-v"],
            &["-A", "-u"],
            &["--ignore-missing", "a"],
            &["--chmod=x", "a"],
            &["--chmod", "+r", "a"],
            &["--pathspec-file-nul", "a"],
            &["--pathspec-from-file=list", "a"],
            &["--pathspec-from-file=missing"],
            &["--no-all"],
            &["--refresh"],
        ],
    );
}

#[test]
fn converts_new_files_by_attributes_that_change_with_them() {
    let setup = |repo: &Repo<'_>| {
        repo.write(".gitattributes", "*.a text\n");
        repo.commit("first");
        repo.git(&["config", "core.autocrlf", "true"]);
        repo.write(".gitattributes", "*.a text\n*.b -text\n");
        repo.write("new.a", "1\r\n");
        repo.write("new.b", "1\r\n");
    };
    each(setup, "", &[&["-A"], &[".gitattributes", "new.a", "new.b"]]);
}

#[test]
fn reads_pathspecs_from_a_file() {
    let setup = |repo: &Repo<'_>| {
        mixture(repo);
        repo.write("list", "new\n\"dir/new\"\r\n");
        repo.write("nul", "new\0dir/new\0");
        repo.write("none", "");
    };
    each(
        setup,
        "",
        &[
            &["--pathspec-from-file=list"],
            &["--pathspec-from-file=nul", "--pathspec-file-nul"],
            &["--pathspec-from-file=none"],
            &["-A", "--pathspec-from-file=none"],
        ],
    );
}

#[test]
fn leaves_interaction_to_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    let shim = Shim::new();
    for args in [["add", "-p"], ["add", "-i"], ["add", "-e"], ["add", "-U3"]] {
        shim.run(&repo, &args);
        let log = shim.log();
        assert!(
            log.last().is_some_and(|line| line.contains("\"outcome\":\"handed-over\"")),
            "{args:?}: {log:?}"
        );
    }
}

/// Creates unmerged files: one in conflict, one that a side has deleted, and one that is missing.
fn conflict(repo: &Repo<'_>) {
    for path in ["both", "ours", "theirs", "missing"] {
        repo.write(path, "base\n");
    }
    repo.commit("base");
    repo.git(&["checkout", "-q", "-b", "side"]);
    for path in ["both", "theirs", "missing"] {
        repo.write(path, "side\n");
    }
    repo.git(&["rm", "-q", "ours"]);
    repo.commit("side");
    repo.git(&["checkout", "-q", "main"]);
    for path in ["both", "ours", "missing"] {
        repo.write(path, "main\n");
    }
    repo.git(&["rm", "-q", "theirs"]);
    repo.commit("main");
    repo.try_git(&["merge", "-q", "side"]);
    fs::remove_file(repo.join("missing")).expect("it is there");
}

#[test]
fn resolves_conflicts() {
    each(
        conflict,
        "",
        &[
            &["both"],
            &["-u"],
            &["."],
            &["-N", "both"],
            &["--no-all", "both"],
            &["missing"],
            &["--refresh", "-v", "."],
            &["--refresh", "."],
            &["--chmod=+x", "both"],
            &["--renormalize", "."],
        ],
    );
}

#[test]
fn adds_repositories() {
    let setup = |repo: &Repo<'_>| {
        repo.write("a", "1\n");
        repo.commit("first");
        for nested in ["sub", "holder/deep"] {
            repo.git(&["init", "-q", nested]);
            repo.write(format!("{nested}/file"), "x\n");
            repo.git(&["-C", nested, "add", "file"]);
            repo.git(&["-C", nested, "commit", "-q", "-m", "one"]);
        }
    };
    let unborn = |repo: &Repo<'_>| {
        setup(repo);
        repo.git(&["init", "-q", "unborn"]);
        repo.write("unborn/file", "x\n");
    };
    each(
        unborn,
        "",
        &[
            &["sub"],
            &["sub/"],
            &["-v", "sub", "holder"],
            &["--no-warn-embedded-repo", "sub"],
            &["-n", "sub"],
            &["sub/file"],
            &["unborn"],
            &["."],
            &["--ignore-errors", "."],
            &["-N", "sub"],
        ],
    );
    // Submodules: one with another commit, one with changes, and a missing one.
    let oracle = Oracle::new(SAPWOOD, |repo| {
        setup(repo);
        repo.git(&["add", "sub", "holder/deep"]);
        repo.git(&["commit", "-q", "-m", "submodules"]);
    });
    oracle.same(&["add", "sub/file"]);
    oracle.same(&["add", "sub/"]);
    oracle.same_in("sub", &["add", "."]);
    oracle.both(|repo| repo.write("sub/file", "changed\n"));
    oracle.same(&["add", "-u", "-v"]);
    oracle.both(|repo| {
        repo.git(&["-C", "sub", "commit", "-q", "-a", "-m", "two"]);
    });
    oracle.same(&["add", "-n", "sub"]);
    oracle.same(&["add", "-v", "."]);
    oracle.both(|repo| fs::remove_dir_all(repo.join("holder")).expect("it is there"));
    oracle.same(&["add", "-v", "-A"]);
}

#[test]
fn converts_line_ends_with_gits_warnings() {
    for (name, value) in [("core.autocrlf", "true"), ("core.autocrlf", "input"), ("core.eol", "crlf")] {
        for safe in ["true", "warn", "false"] {
            let oracle = Oracle::new(SAPWOOD, |repo| {
                repo.git(&["config", name, value]);
                repo.git(&["config", "core.safecrlf", safe]);
                repo.write(".gitattributes", "*.txt text\n*.bin -text\n*.auto text=auto\n");
                for (path, content) in [
                    ("lf.txt", "a\nb\n"),
                    ("crlf.txt", "a\r\nb\r\n"),
                    ("mixed.txt", "a\r\nb\n"),
                    ("x.bin", "a\r\n\0"),
                    ("y.auto", "a\r\nb\n"),
                    ("plain", "a\r\nb\r\n"),
                    ("plain-lf", "a\n"),
                ] {
                    repo.write(path, content);
                }
            });
            for path in ["lf.txt", "crlf.txt", "mixed.txt", "x.bin", "y.auto", "plain", "plain-lf"] {
                oracle.same_as(&format!("{name}={value}, safe {safe}"), &["add", "-v", path]);
            }
            // Files that are as new as the index are read again, and the second may end in between.
            oracle.both(|repo| {
                let old = "touch -d 2001-01-01 .gitattributes *";
                let touched = repo.command("sh".as_ref()).args(["-c", old]).status().expect("a shell");
                assert!(touched.success());
            });
            oracle.same(&["add", "."]);
            oracle.same(&["add", "--renormalize", "-v", "."]);
        }
    }
}

#[test]
fn renormalizes_text_that_was_committed_with_crlf() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("dos", "a\r\nb\r\n");
        repo.write("unix", "a\n");
        repo.commit("first");
        repo.write(".gitattributes", "* text=auto\n");
    });
    oracle.same(&["add", "-u"]);
    oracle.same(&["add", "--renormalize", "-n", "."]);
    oracle.same(&["add", "--renormalize", "."]);
}

#[test]
fn files_with_errors_are_skipped_if_that_is_wanted() {
    let setup = |repo: &Repo<'_>| {
        repo.write("a", "1\n");
        repo.write("bad", "1\n");
        repo.write("z", "1\n");
        repo.git(&["add", "z"]);
        repo.write("z", "22\n");
        // Root may read every file, but for root too a required filter that fails is an error.
        repo.write(".gitattributes", "bad filter=missing\n");
        repo.git(&["config", "filter.missing.required", "true"]);
        repo.git(&["config", "filter.missing.clean", "false"]);
    };
    each(setup, "", &[&["."], &["a"], &["--ignore-errors", "."], &["-u"]]);
    let sockets = |repo: &Repo<'_>| {
        repo.write("a", "1\n");
        repo.write("was", "1\n");
        repo.git(&["add", "was"]);
        fs::remove_file(repo.join("was")).expect("it is there");
        std::os::unix::net::UnixListener::bind(repo.join("was")).expect("a socket");
        std::os::unix::net::UnixListener::bind(repo.join("new")).expect("a socket");
    };
    let oracle = Oracle::new(SAPWOOD, sockets);
    for args in [&["add", "."][..], &["add", "--ignore-errors", "."], &["add", "new"]] {
        oracle.same(args);
    }
    let oracle = Oracle::new(SAPWOOD, sockets);
    oracle.both(|repo| {
        repo.git(&["config", "add.ignoreErrors", "true"]);
    });
    oracle.same(&["add", "."]);
    oracle.same(&["add", "--no-ignore-errors", "."]);
}

#[test]
fn a_failure_changes_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for number in 0..200 {
        repo.write(format!("f{number:03}"), format!("{number}\n"));
    }
    repo.git(&["add", "f000"]);
    let before = fs::read(repo.join(".git/index")).expect("readable");
    repo.write(".gitattributes", "f199 filter=bad\n");
    repo.git(&["config", "filter.bad.clean", "false"]);
    repo.git(&["config", "filter.bad.required", "true"]);
    let objects = || repo.git(&["count-objects"]).stdout;
    let counted = objects();
    let run = repo.run(SAPWOOD.as_ref(), &["add", "."]);
    assert_eq!(run.code, 128, "{}", run.stderr);
    assert_eq!(fs::read(repo.join(".git/index")).expect("readable"), before);
    assert_eq!(objects(), counted, "no object was published");
    assert!(!repo.join(".git/index.lock").exists());
}

#[test]
fn waits_for_no_lock() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        repo.write("a", "1\n");
        repo.write(".git/index.lock", "");
    });
    for args in [&["add", "a"][..], &["add"], &["add", "nowhere"], &["add", "-n", "a"]] {
        oracle.same(args);
    }
}
