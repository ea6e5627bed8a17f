//! Tests of `clean`: the files it removes, the files it keeps, and its output.

use std::os::unix::fs::PermissionsExt as _;

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates tracked, untracked and ignored files, directories with every mixture of them, and nested
/// repositories.
fn litter(repo: &Repo<'_>) {
    repo.write(".gitignore", "*.o\nout/\n!keep.o\n/top-only\nwith space\\ \n");
    repo.write("tracked", "1\n");
    repo.write("src/main.c", "1\n");
    repo.write("src/deep/.gitignore", "!*.o\nlocal\n");
    repo.write("src/deep/x.c", "1\n");
    repo.commit("first");
    for path in [
        "new",
        "src/new",
        "src/a.o",
        "src/deep/kept.o",
        "src/deep/local",
        "src/-n",
        "top-only",
        "src/top-only",
        "keep.o",
        "\"quoted\"",
        "tab\there",
        "ä",
        "with space ",
        "dir/one",
        "dir/two",
        "mixed/a.o",
        "mixed/b",
        "mixed/sub/c",
        "objects/a.o",
        "objects/sub/b.o",
        "out/x",
        "src/out/y/z",
        "holder/sub/keep.me",
        "holder/sub/a.o",
    ] {
        repo.write(path, "x\n");
    }
    for dir in ["empty", "src/empty/below", "dir/empty"] {
        std::fs::create_dir_all(repo.path.join(dir)).expect("a new directory");
    }
    for nested in ["nested", "holder/nested", "out/nested"] {
        repo.git(&["init", "-q", nested]);
        repo.write(format!("{nested}/file"), "x\n");
    }
    repo.git(&["init", "-q", "--bare", "bare.git"]);
    repo.write("fake/.git", "not a repository\n");
    repo.write("fake/file", "x\n");
    std::os::unix::fs::symlink("tracked", repo.path.join("link")).expect("a link");
    std::os::unix::fs::symlink("../src", repo.path.join("dir/link")).expect("a link");
}

/// Runs every case as a dry run and for real.
fn each(dir: &str, cases: &[&[&str]]) {
    for case in cases {
        let oracle = Oracle::new(SAPWOOD, litter);
        oracle.same_in(dir, &[&["clean", "-n"], *case].concat());
        oracle.same_in(dir, &[&["clean", "-f"], *case].concat());
    }
}

#[test]
fn removes_the_same_files_in_every_mode() {
    each(
        "",
        &[
            &[],
            &["-d"],
            &["-x"],
            &["-X"],
            &["-dx"],
            &["-dX"],
            &["-dff"],
            &["-dxff"],
            &["-dXff"],
            &["-dq"],
            &["-de", "new", "-e", "dir/"],
            &["-dxe", "*.o", "-e", "!a.o"],
            &["-dXe", "new"],
        ],
    );
}

#[test]
fn removes_only_the_paths_given() {
    each(
        "",
        &[
            &["dir"],
            &["dir/", "new"],
            &["src/"],
            &["src/deep/*.o"],
            &["-x", "src/", "out"],
            &["mixed/sub/c", "mixed/b"],
            &["*e*"],
            &[":(icase)NEW", ":(glob)**/sub/**"],
            &[".", ":!dir", ":!new"],
            &["-X", "objects/sub"],
            &["nested"],
            &["-f", "holder/nested/file"],
            &["dir/link/main.c"],
            &["nowhere/at/all"],
            &["src/nowhere/x"],
            &[".git/"],
        ],
    );
}

#[test]
fn runs_in_a_subdirectory() {
    each("src", &[&[], &["-d"], &["-dx"], &["-X"], &["../dir", "deep"], &["-d", "."], &["..", "-x"]]);
    // The current directory is not removed.
    each("dir", &[&["-d"], &["."], &["-d", ".."]]);
    each("mixed/sub", &[&["-d"], &["-dx", ":/"]]);
}

#[test]
fn refuses_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, litter);
    oracle.same(&["clean"]);
    oracle.same(&["clean", "-f", "--no-force", "-d"]);
    oracle.same(&["clean", "-fxX"]);
    oracle.same(&["clean", "-f", "../outside"]);
    oracle.same(&["-c", "clean.requireForce=false", "clean", "-n"]);
    oracle.same(&["-c", "clean.requireForce=false", "clean"]);
    oracle.same(&["--work-tree=src", "clean", "-n"]);
}

#[test]
fn obeys_settings() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        litter(repo);
        repo.write("../excludes", "new\n/dir\n");
        repo.write(".git/info/exclude", "!src/new\nkeep.o\n");
    });
    oracle.same(&["-c", "core.excludesFile=../excludes", "clean", "-nd"]);
    oracle.same(&["-c", "core.quotePath=false", "clean", "-nd"]);
    oracle.same(&["-c", "core.ignoreCase=true", "clean", "-ndx"]);
    oracle.both(|repo| repo.write("SRC/NEW.O", "x\n"));
    oracle.same(&["-c", "core.ignoreCase=true", "clean", "-nd"]);
}

#[test]
fn handles_files_that_differ_in_kind_from_the_index() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        litter(repo);
        // A directory replaces a file, a file is no longer tracked, and a skip-worktree .gitignore
        // is missing.
        repo.remove("tracked");
        repo.write("tracked/below", "x\n");
        repo.write("tracked/below.o", "x\n");
        repo.git(&["rm", "-q", "--cached", "src/main.c"]);
        repo.git(&["update-index", "--skip-worktree", "src/deep/.gitignore"]);
        repo.remove("src/deep/.gitignore");
    });
    for args in [["-nd"], ["-ndx"], ["-fd"], ["-fdx"]] {
        oracle.same(&["clean", args[0]]);
    }
}

#[test]
fn reports_what_it_cannot_read_or_remove() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("tracked", "1\n");
        repo.commit("first");
        for path in ["locked/one", "locked/sub/two", "unreadable/three", "fine/four", "fine/five/six"] {
            repo.write(path, "x\n");
        }
        std::fs::create_dir(repo.path.join("hidden")).expect("a new directory");
    });
    let chmod = |mode| {
        oracle.both(|repo| {
            for dir in ["locked/sub", "locked", "unreadable", "hidden"] {
                let mode = match dir {
                    "unreadable" | "hidden" => mode & 0o333,
                    _ => mode,
                };
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(repo.path.join(dir), mode).expect("it is there");
            }
        });
    };
    // Root ignores these permissions, so as root the test checks less.
    chmod(0o555);
    let run = |args: &[&str]| {
        let (theirs, ours) = (oracle.git().try_git(args), oracle.ours().run(SAPWOOD.as_ref(), args));
        assert_eq!(ours, theirs, "{args:?}");
    };
    run(&["clean", "-nd"]);
    run(&["clean", "-fd"]);
    oracle.both(|repo| {
        for dir in ["locked", "unreadable", "hidden"] {
            let path = repo.path.join(dir);
            let mode = std::fs::Permissions::from_mode(0o755);
            if path.exists() {
                std::fs::set_permissions(path, mode).expect("it is there");
            }
        }
    });
}

#[test]
fn cleans_many_directories_in_parallel() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("d0/tracked", "1\n");
        repo.commit("first");
        for at in 0..400 {
            repo.write(format!("d{}/e{}/f{}/g", at % 7, at % 30, at), "x\n");
            repo.write(format!("d{}/e{}/x.o", at % 7, at % 30), "x\n");
        }
        repo.write("d3/.gitignore", "*.o\n");
        repo.git(&["init", "-q", "d3/e3/f3/repository"]);
    });
    for args in [["clean", "-nd"], ["clean", "-fd"], ["clean", "-fdx"]] {
        oracle.same(&args);
    }
}
