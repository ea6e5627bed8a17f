//! Tests of `ls-files`: every selection and format, compared with Git; and the exit when no process
//! reads the output.

mod submodules;

use std::{os::unix::process::ExitStatusExt as _, process::Stdio};

use testkit::{Oracle, Repo};

use crate::{SAPWOOD, index_info, shim::Shim};

/// Creates entries of every kind: changed, deleted, replaced and unmerged, and files that are
/// untracked, ignored or in the way of an entry.
fn mess(repo: &Repo<'_>) {
    repo.write(".gitignore", "*.o\nbuild/\n");
    repo.write("a", "1\n");
    repo.write("crlf", "1\r\n2\r\n");
    repo.write("mixed", "1\r\n2\n");
    repo.write("binary", "\0\x01\x02");
    repo.write("empty", "");
    repo.write(".gitattributes", "crlf text\n*.t text=auto eol=crlf\nbinary -text\n");
    repo.write("x.t", "1\n");
    repo.write("dir/b", "1\n");
    repo.write("dir/sub/c", "1\n");
    repo.write("dir.c", "1\n");
    repo.write("gone", "1\n");
    repo.write("dir/gone", "1\n");
    repo.write("replaced", "1\n");
    repo.write("was-dir/file", "1\n");
    repo.write("tracked.o", "1\n");
    repo.write("ta\tb", "1\n");
    repo.write("h\u{e9}", "1\n");
    repo.write_executable("run", "1\n");
    repo.symlink("a", "link");
    repo.write("assumed", "1\n");
    repo.write("assumed-gone", "1\n");
    repo.write("skipped", "1\n");
    repo.write("touched", "1\n");
    repo.write("same-size", "1\n");
    repo.git(&["add", "-f", "."]);
    repo.git(&["commit", "-qm", "first"]);
    repo.git(&["checkout", "-qb", "side"]);
    repo.write("conflict", "side\n");
    repo.write("dir/resolved", "side\n");
    repo.commit("side");
    repo.git(&["checkout", "-q", "-"]);
    repo.write("conflict", "main\n");
    repo.write("dir/resolved", "main\n");
    repo.commit("main");
    repo.try_git(&["merge", "side"]);
    repo.write("dir/resolved", "both\n");
    repo.git(&["add", "dir/resolved"]);
    repo.git(&["update-index", "--assume-unchanged", "assumed", "assumed-gone"]);
    repo.git(&["update-index", "--skip-worktree", "skipped"]);
    repo.write("intended", "1\n");
    repo.git(&["add", "-N", "intended"]);
    for gone in ["gone", "dir/gone", "assumed-gone", "skipped", "replaced"] {
        repo.remove(gone);
    }
    std::fs::remove_dir_all(repo.join("was-dir")).expect("removed");
    repo.write("was-dir", "now a file\n");
    repo.write("replaced/new", "in a file's place\n");
    repo.write("assumed", "other\n");
    repo.write("a", "longer now\n");
    repo.write("same-size", "2\n");
    repo.write("touched", "1\n");
    for new in [
        "new",
        "dir/new",
        "untracked/one",
        "untracked/two.o",
        "n\"ew",
        "x.o",
        "dir/y.o",
        "build/z",
        "deep/build/z",
    ] {
        repo.write(new, "x\n");
    }
    std::fs::create_dir_all(repo.join("hollow/within")).expect("made");
    repo.git(&["init", "-q", "nested"]);
    repo.write("nested/file", "x\n");
}

#[test]
fn lists_every_selection() {
    let oracle = Oracle::new(SAPWOOD, mess);
    for args in [
        &[][..],
        &["-c"],
        &["-d"],
        &["-m"],
        &["-o"],
        &["-k"],
        &["-s"],
        &["-u"],
        &["-t"],
        &["-v"],
        &["-f"],
        &["-z"],
        &["-cdmokt"],
        &["-dmt", "--deduplicate"],
        &["-cdm", "--deduplicate"],
        &["-dm", "--deduplicate"],
        &["-sdmv"],
        &["-o", "--exclude-standard"],
        &["-oi", "--exclude-standard"],
        &["-ci", "--exclude-standard"],
        &["-ci", "-x", "*.c", "-t"],
        &["-o", "-x", "*.o", "-x", "!x.o"],
        &["-o", "-X", ".gitignore"],
        &["-o", "--exclude-per-directory=.gitignore"],
        &["-oi", "--exclude-per-directory=.gitignore"],
        &["-o", "--directory"],
        &["-o", "--directory", "--no-empty-directory"],
        &["-o", "--no-empty-directory"],
        &["-o", "--directory", "--exclude-standard"],
        &["-oi", "--directory", "--exclude-standard"],
        &["-k", "--directory"],
        &["--resolve-undo"],
        &["--resolve-undo", "-t", "-z"],
        &["-s", "--abbrev"],
        &["-s", "--abbrev=5"],
        &["-s", "--abbrev=0"],
        &["--eol"],
        &["-o", "--eol", "--exclude-standard"],
        &["-cz", "--eol"],
        &["--full-name", "-cdmo"],
        &["--sparse"],
    ] {
        oracle.same(&[&["ls-files"], args].concat());
        oracle.same_in("dir", &[&["ls-files"], args].concat());
        oracle.same(&[&["ls-files"], args, &["--", "dir", "*e*", "replaced", ":!dir/sub"]].concat());
    }
}

#[test]
fn pathspecs() {
    let oracle = Oracle::new(SAPWOOD, mess);
    for specs in [
        &["dir"][..],
        &["dir/"],
        &["dir/*"],
        &["*.c"],
        &["di"],
        &["nowhere"],
        &["a", "nowhere", "nowhere"],
        &["nowhere", "neither"],
        &["new"],
        &["was-dir"],
        &[":(icase)A"],
        &[":(glob)*/b"],
        &["."],
        &[""],
        &["../outside"],
        &["nowhere", ":!other"],
        &["dir", ":!other"],
        &["dir", ":!dir"],
        &[":!other", "nowhere"],
        &[":!other"],
        &[":!."],
    ] {
        for options in [
            &["-c"][..],
            &["-co"],
            &["--error-unmatch"],
            &["-o", "--error-unmatch"],
            &["-dm", "--error-unmatch"],
        ] {
            oracle.same(&[&["ls-files"], options, &["--"], specs].concat());
        }
    }
    oracle.same_in("dir", &["ls-files", "..", "--error-unmatch"]);
    oracle.same_in("dir/sub", &["ls-files", "-co", "../..", "-t"]);
}

/// With `--error-unmatch`, a pathspec that is exactly a path counts as matched once, in whatever
/// list the path is. An exact exclusion excludes it once.
#[test]
fn reports_pathspecs_that_match_nothing() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        mess(repo);
        let blob = repo.git(&["rev-parse", ":a"]).stdout.to_string();
        let stages = [("160000", 1), ("100644", 2), ("160000", 3)];
        let stage = |(mode, stage)| format!("{mode} {} {stage}\tsub\n", blob.trim());
        index_info(repo, &stages.map(stage).concat());
    });
    for specs in [
        &["conflict"][..],
        &["conflict", "conf*"],
        &["conflict", "a"],
        &["a"],
        &["gone", "gone", "./gone"],
        &["gone", "dir/gone", "new"],
        &[":(icase)CONFLICT"],
        &["sub/"],
        &["sub/", "a"],
        &["dir/resolved", "a"],
        &["nested", "nested/", "untracked"],
        &["gone", ":!gone"],
        &["run", ":!run"],
        &["*", ":!conflict"],
        &[".", ":!sub/", ":!gone"],
        &[":!conflict", ":!nowhere", "conflict", "a"],
        &["dir", ":!dir"],
        &["dir/b", ":!dir"],
        &["skipped", "was-dir", ":!*"],
    ] {
        for options in [
            &["-c"][..],
            &["-s"],
            &["-u"],
            &["-d"],
            &["-m"],
            &["-dm", "-t"],
            &["-cdmo", "-t"],
            &["-cdm", "--deduplicate"],
            &["-dm", "--deduplicate"],
            &["-o", "-k", "-t", "--directory"],
            &["-c", "--resolve-undo"],
            &["-c", "-m", "-i", "-x", "*e"],
        ] {
            let args = [&["ls-files", "--error-unmatch"], options, &["--"], specs].concat();
            oracle.same(&args);
        }
    }
    oracle.same_in("dir", &["ls-files", "--error-unmatch", "-dm", "gone", "../gone", ":!gone"]);
}

#[test]
fn prints_every_format() {
    let oracle = Oracle::new(SAPWOOD, mess);
    for format in [
        "%(path)",
        "%(objectmode) %(objecttype) %(objectname)%x09%(stage)%x00%(path)%n",
        "%(objectsize)|%(objectsize:padded)|%%",
        "%(eolinfo:index)/%(eolinfo:worktree)/%(eolattr)/%(path)",
        "plain",
        "",
        "%(path) %(wrong)",
        "%path",
        "%(path",
        "%x0g",
        "100%",
    ] {
        oracle.same(&["ls-files", "--format", format]);
        oracle.same(&["ls-files", "-dm", "--abbrev=6", "-z", "--format", format, "--", "dir", "a", "link"]);
    }
}

#[test]
fn rejects_wrong_options() {
    let oracle = Oracle::new(SAPWOOD, mess);
    for args in [&["-i"][..], &["-io"], &["-d", "-i", "-x", "a"], &["-o", "-X", "missing"], &["--abbrev=x"]] {
        oracle.same(&[&["ls-files"], args].concat());
    }
}

#[test]
fn lists_with_a_tree() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        mess(repo);
        repo.git(&["rm", "-q", "--cached", "run", "dir/sub/c", "link"]);
    });
    for args in [
        &["--with-tree=HEAD"][..],
        &["--with-tree=HEAD", "-t"],
        &["--with-tree=side", "-dmt"],
        &["--with-tree=HEAD", "--error-unmatch", "run", "dir/sub"],
        &["--with-tree=HEAD", "--format=%(objectmode) %(stage) %(path)"],
        &["--with-tree=HEAD", "-s"],
        &["--with-tree=nonsense"],
        &["--with-tree=:a"],
        &["--with-tree=HEAD", "dir"],
    ] {
        oracle.same(&[&["ls-files"], args].concat());
    }
}

#[test]
fn submodules() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for name in ["one", "two", "three"] {
            repo.git(&["init", "-q", name]);
            repo.git(&["-C", name, "commit", "-q", "--allow-empty", "-m", "x"]);
        }
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "first"]);
        repo.git(&["-C", "one", "commit", "-q", "--allow-empty", "-m", "y"]);
        std::fs::remove_dir_all(repo.join("two")).expect("removed");
        repo.write("three/file", "x\n");
    });
    for args in [&["-s"][..], &["-dmt"], &["-o"], &["-c", "one/"], &["-m", "one", "two"], &["--eol"]] {
        oracle.same(&[&["ls-files"], args].concat());
    }
}

#[test]
fn prints_stat_data_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, mess);
    let repo = oracle.git();
    let args = ["ls-files", "--debug", "-s"];
    assert_eq!(repo.try_git(&args), repo.run(SAPWOOD.as_ref(), &args));
}

/// Paths behind a symlink, listed as in Git.
#[test]
fn lists_paths_behind_links() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["d/same", "d/touched", "d/other", "d/gone", "e/a", "x", "y"] {
            repo.write(path, "1\n");
        }
        repo.commit("first");
        std::fs::rename(repo.join("d"), repo.join("moved")).expect("it is there");
        repo.symlink("moved", "d");
        repo.write("moved/touched", "1\n");
        repo.write("moved/other", "2\n");
        repo.remove("moved/gone");
        repo.remove("e");
        repo.symlink("e", "e");
        // For the ignore rules, a directory in place of a file is a directory.
        repo.remove("x");
        repo.write("x/below", "1\n");
        repo.write(".gitignore", "*\n!*/\n");
        // Ignore files behind a link are read.
        repo.write("moved/.gitignore", "!same\n");
    });
    for args in [
        &["-d"][..],
        &["-m"],
        &["-t", "-c", "-d", "-m"],
        &["-c", "-i", "--exclude-standard"],
        &["-o", "-k", "-t"],
    ] {
        oracle.same(&[&["ls-files"], args].concat());
    }
}

/// A submodule that is not checked out does not hide the paths below it.
#[test]
fn runs_in_directories_of_submodules() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        let blob = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d";
        index_info(repo, &format!("160000 {blob} 0\tm\n160000 {blob} 3\tn\n"));
        ["m/sub/file", "n/sub/in/file"].iter().for_each(|path| repo.write(path, "1\n"));
    });
    for dir in ["m", "m/sub", "n", "n/sub", "n/sub/in"] {
        for args in [&["-o"][..], &["-o", "--directory"], &["-o", "--exclude-standard"], &["-c", "-o"]] {
            oracle.same_in(dir, &[&["ls-files"], args].concat());
        }
        oracle.same_in(dir, &["status", "-s", "-uall", "."]);
    }
    oracle.same(&["ls-files", "-o", "m/sub/file", "m/sub/nothing"]);
}

/// Directories above the common directory of the pathspecs are treated as if the index had no entry
/// of them.
#[test]
fn lists_paths_below_a_common_directory() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for dir in ["repo", "fake", "plain", "ignored"] {
            repo.write(format!("{dir}/file"), "1\n");
            repo.write(format!("{dir}/in/file"), "1\n");
        }
        repo.write("plain/.gitignore", "*.o\n");
        repo.commit("first");
        repo.git(&["update-index", "--skip-worktree", "plain/.gitignore"]);
        repo.remove("plain/.gitignore");
        repo.write("plain/in/x.o", "1\n");
        repo.write("plain/out/x.o", "1\n");
        repo.write("ignored/out/x", "1\n");
        repo.write("fake/.git", "nonsense\n");
        repo.git(&["init", "-q", "repo"]);
        repo.git(&["-C", "repo", "commit", "-q", "--allow-empty", "-m", "inner"]);
        repo.write("repo/in/new", "1\n");
        repo.write("repo/out/new", "1\n");
        repo.write(".git/info/exclude", "ignored\nhidden\n");
        repo.git(&["init", "-q", "hidden"]);
        repo.write("hidden/in/file", "1\n");
    });
    // With an exclusion first there is no common directory.
    oracle.same(&["ls-files", "-o", "--exclude-standard", "--", ":!plain/in/q", "plain/in/x.o"]);
    for dir in ["repo", "fake", "plain", "ignored", "hidden", "none"] {
        for below in ["in", "out", "gone", "file", "gone/deep"] {
            let paths = [format!("{dir}/{below}/x"), format!("{dir}/{below}/x.o")];
            let whole = format!("{dir}/{below}/");
            for paths in [&[&*paths[0], &*paths[1]][..], &[&*whole]] {
                for args in [
                    &["-o"][..],
                    &["-o", "--exclude-standard"],
                    &["-o", "--exclude-standard", "--directory"],
                    &["-o", "-i", "--exclude-standard"],
                    &["-k"],
                ] {
                    oracle.same(&[&["ls-files"], args, &["--"], paths].concat());
                    oracle
                        .same(&[&["-c", "core.ignoreCase=true", "ls-files"], args, &["--"], paths].concat());
                }
            }
        }
    }
}

/// Errors of `lstat` are reported outside the pathspecs too, unless there is only one pathspec.
#[test]
fn reports_files_whose_lstat_fails() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        let long = "n".repeat(256);
        index_info(
            repo,
            &["d/a", "d/b", "d/e/a", "f/a", &long, &format!("e/{long}")]
                .map(|path| format!("100644 d00491fd7e5bb6fa28c517a0bb32b8b506539d4d 0\t{path}\n"))
                .concat(),
        );
        index_info(
            repo,
            "100644 d00491fd7e5bb6fa28c517a0bb32b8b506539d4d 1\tg/a\n100644 d00491fd7e5bb6fa28c517a0bb32b8b506539d4d 2\tg/a\n",
        );
        repo.symlink("d", "d");
        repo.symlink("g", "g");
        repo.write("x", "1\n");
    });
    for options in [
        &["-m"][..],
        &["-d"],
        &["-m", "-d", "-t"],
        &["-c", "-m"],
        &["-c", "-m", "--deduplicate"],
        &["-m", "-d", "--deduplicate"],
        &["-c", "-i", "-d", "-x", "a"],
        &["-s", "-u", "-m"],
        &["-o"],
    ] {
        for paths in [&["d"][..], &["f"], &["f", "x"], &["f", "d/a"], &["d/a", "d/e"], &[":!d"], &["*b"]] {
            oracle.same(&[&["ls-files"], options, &["--"], paths].concat());
        }
    }
}

/// For a file in the way of a directory, Git checks only the next merged entry.
#[test]
fn lists_files_in_the_way_of_directories() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["a/x", "b/x", "b-c", "u/x"] {
            repo.write(path, "1\n");
        }
        repo.git(&["add", "-A"]);
        let blob = repo.git(&["rev-parse", ":b-c"]).stdout.to_string();
        repo.git(&["rm", "-q", "--cached", "u/x"]);
        index_info(repo, &format!("100644 {0} 2\tu/x\n100644 {0} 3\tu/x\n", blob.trim()));
        for path in ["a", "b", "u"] {
            repo.remove(path);
            repo.write(path, "1\n");
        }
        repo.remove("b-c");
        repo.write("b-c/new/deep", "1\n");
        repo.write("b-c/new.c", "1\n");
    });
    for dir in ["", "b-c", "b-c/new"] {
        oracle.same_in(dir, &["ls-files", "-k"]);
        oracle.same_in(dir, &["ls-files", "-t", "-o", "-k"]);
    }
}

#[test]
fn lists_sparse_indexes() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["in/a", "out/a", "out/deep/b", "top"] {
            repo.write(path, "1\n");
        }
        repo.commit("first");
        repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    });
    for args in [
        &["--sparse", "-s"][..],
        &["--sparse", "-t"],
        &["-t"],
        &["-t", "in"],
        &["-t", "out/deep"],
        &["-t", "out/deep/b"],
        &["--sparse", "out/deep/b", "out/deep/c"],
        &["--sparse", "out/a"],
        &["-o", "out/deep/b"],
        &["-o"],
        &["-dm"],
        &["--sparse", "--format=%(objecttype) %(objectsize) %(path)"],
    ] {
        oracle.same(&[&["ls-files"], args].concat());
    }
    // Manually written patterns that the index does not match yet: of a whole cone, of a part of
    // it, of less, and none.
    for patterns in ["/*\n!/*/\n/out/\n", "/*\n!/*/\n/out/\n!/out/*/\n", "/*\n!/*/\n", ""] {
        oracle.both(|repo| repo.write(".git/info/sparse-checkout", patterns));
        for args in
            [&["-t"][..], &["--sparse", "-t"], &["-d"], &["-o"], &["-t", "in"], &["out/deep"], &["-dm", "in"]]
        {
            oracle.same(&[&["ls-files"], args].concat());
        }
    }
    oracle.both(|repo| repo.write("out/a", "there\n"));
    oracle.same(&["ls-files", "-tm"]);
}

#[test]
fn runs_natively_through_the_shim() {
    let oracle = Oracle::new(SAPWOOD, mess);
    let (shim, repo) = (Shim::new(), oracle.git());
    for (args, why) in [
        (&["ls-files", "-cdmot"][..], None),
        (&["ls-files", "--with-tree=HEAD"], None),
        (&["ls-files", "--recurse-submodules"], None),
        (&["ls-files", "--recurse-submodules", "--eol"], None),
        (&["ls-files", "-s", "--format=x"], Some("do not go together")),
    ] {
        let (theirs, ours) = (repo.try_git(args), shim.run(&repo, args));
        assert_eq!(theirs, ours, "{args:?}");
        match why {
            None => shim.was_native(args),
            Some(why) => shim.was_handed_over(args, why),
        }
    }
}

/// Git ends by SIGPIPE if no process reads its output; a script that uses `pipefail` sees it.
#[test]
fn ends_by_sigpipe_when_the_output_is_closed() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("some", "1\n");
        repo.commit("first");
    });
    let shim = Shim::new();
    let repo = oracle.ours();
    for program in ["git", SAPWOOD, &shim.program()] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = if program == "git" { repo.git_command() } else { repo.command(program.as_ref()) };
        let mut child =
            command.args(["ls-files"]).stdin(Stdio::null()).stdout(writer).spawn().expect("it can be run");
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(13), "{program}: {status:?}");
    }
}
