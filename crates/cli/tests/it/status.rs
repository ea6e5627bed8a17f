//! `status`: every format, and operations in progress.

mod standing;

use std::os::unix::fs::PermissionsExt as _;

use testkit::{Oracle, Repo};

use crate::{SAPWOOD, index_info};

/// Creates changes of every kind, staged and unstaged, and untracked files.
fn changed(repo: &Repo<'_>) {
    repo.write(".gitignore", "*.o\nout/\n!keep.o\n");
    for name in [
        "same",
        "modified",
        "deleted",
        "both",
        "mode",
        "type",
        "staged",
        "gone",
        "moved",
        "with space",
        "tab\there",
    ] {
        repo.write(name, format!("{name}\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"));
    }
    repo.write("sub/deep/file", "1\n");
    repo.write("sub/ä", "1\n");
    repo.commit("first");
    for name in ["modified", "both", "with space", "tab\there", "sub/ä"] {
        repo.write(name, "other\n");
    }
    repo.remove("deleted");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(repo.path.join("mode"), executable).expect("it is there");
    repo.remove("type");
    std::os::unix::fs::symlink("same", repo.path.join("type")).expect("a link");
    repo.write("staged", "staged\n");
    repo.git(&["add", "staged", "both"]);
    repo.write("both", "again\n");
    repo.git(&["rm", "-q", "gone"]);
    repo.git(&["mv", "moved", "sub/to here"]);
    repo.write("sub/to here", "moved\n1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    repo.git(&["add", "sub/to here"]);
    repo.write("intended", "1\n");
    repo.write("intended too", "1\n");
    repo.git(&["add", "-N", "intended", "intended too"]);
    repo.remove("intended too");
    for path in [
        "new",
        "sub/new one",
        "dir/one",
        "dir/sub/two",
        "a.o",
        "out/x",
        "out/y/z",
        "mixed/a.o",
        "mixed/b",
        "objects/a.o",
        "keep.o",
    ] {
        repo.write(path, "x\n");
    }
    std::fs::create_dir(repo.path.join("empty")).expect("a new directory");
    repo.git(&["init", "-q", "nested"]);
    repo.write("nested/file", "x\n");
}

/// Compares every format.
fn each(oracle: &Oracle, dir: &str) {
    for format in [
        &[][..],
        &["-s"],
        &["--porcelain"],
        &["--porcelain=v2"],
        &["-z"],
        &["--porcelain=v2", "-z"],
        &["-s", "-z"],
    ] {
        oracle.same_in(dir, &[&["status"], format].concat());
        oracle.same_in(dir, &[&["status", "--branch", "--show-stash"], format].concat());
    }
}

#[test]
fn every_kind_of_change_in_every_format() {
    let oracle = Oracle::new(SAPWOOD, changed);
    each(&oracle, "");
    each(&oracle, "sub");
    oracle.same_in("sub/deep", &["status", "-s"]);
}

#[test]
fn options_as_in_git() {
    let oracle = Oracle::new(SAPWOOD, changed);
    for args in [
        &["-uno"][..],
        &["-uall"],
        &["-unormal"],
        &["--ignored"],
        &["--ignored", "-uall"],
        &["--ignored=matching"],
        &["--ignored=matching", "-uall"],
        &["--ignored=no"],
        &["--ignored", "-uno"],
        &["--no-renames"],
        &["--find-renames=100%"],
        &["-M5"],
        &["sub"],
        &["-s", "sub/deep", "modified", "dir/sub"],
        &["--ignored", "out", "mixed"],
        &["-s", ":!sub"],
        &["--column", "-uall"],
        &["--column=row,dense", "-uall"],
        &["--column=plain"],
        &["--no-column"],
        &["--short", "--no-short"],
        &["--short", "--long"],
        &["--porcelain", "--no-porcelain"],
    ] {
        oracle.same(&[&["status"], args].concat());
    }
    oracle.same_in("sub", &["status", "."]);
    oracle.same_in("sub", &["status", "-s", "../dir"]);
}

#[test]
fn settings_as_in_git() {
    let oracle = Oracle::new(SAPWOOD, changed);
    for setting in [
        "status.short=true",
        "status.branch=true",
        "status.relativePaths=false",
        "status.showUntrackedFiles=no",
        "status.showUntrackedFiles=all",
        "status.showUntrackedFiles",
        "status.renames=false",
        "status.renames=copies",
        "diff.renames=false",
        "status.renameLimit=1",
        "status.displayCommentPrefix=true",
        "core.quotePath=false",
        "advice.statusHints=false",
        "column.ui=always",
        "column.status=column dense",
        "color.ui=always",
        "color.status=always",
    ] {
        for args in [&["status"][..], &["status", "-s"], &["status", "--porcelain"], &["status", "-sb", "-z"]]
        {
            oracle.same_in("sub", &[&["-c", setting], args].concat());
        }
    }
    let colors = [
        "color.ui=always",
        "color.status.header=bold blue",
        "status.color.untracked=reset 200",
        "color.status.branch=#12f normal",
        "color.status.localBranch=brightcyan",
        "color.status.added=ul default",
        "status.displayCommentPrefix=true",
        "core.commentChar=;",
        "column.ui=always",
    ];
    let settings: Vec<&str> = colors.iter().flat_map(|setting| ["-c", setting]).collect();
    oracle.same(&[&settings[..], &["status"]].concat());
    oracle.same(&[&settings[..], &["status", "-sb"]].concat());
    // One setting overrides the other, by a special order.
    let both = ["-c", "diff.renames=false", "-c", "diff.renames=true"];
    oracle.same(&[&both[..], &["status"]].concat());
    oracle.same(&[&both[..], &["-c", "status.renames=true", "status"]].concat());
}

#[test]
fn rejects_wrong_arguments() {
    let oracle = Oracle::new(SAPWOOD, changed);
    for args in [
        &["--porcelain=v3"][..],
        &["-ufoo"],
        &["--ignored=foo"],
        &["--ignored=matching", "-uno"],
        &["--long", "-z"],
        &["--column=foo,bar"],
        &["--ignore-submodules=foo"],
        &["../outside"],
    ] {
        oracle.same(&[&["status"], args].concat());
    }
    oracle.same_in(".git", &["status"]);
    oracle.same(&["--work-tree=sub", "status", "-s"]);
}

#[test]
fn before_there_is_a_commit() {
    let oracle = Oracle::new(SAPWOOD, |_| {});
    each(&oracle, "");
    oracle.both(|repo| repo.write("new", "1\n"));
    each(&oracle, "");
    oracle.both(|repo| {
        repo.git(&["add", "new"]);
    });
    each(&oracle, "");
    oracle.same(&["status", "-uno"]);
    oracle.same(&["-c", "advice.statusHints=false", "status"]);
}

#[test]
fn when_there_is_nothing_to_say() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("file", "1\n");
        repo.commit("first");
    });
    each(&oracle, "");
    oracle.same(&["status", "-uno"]);
    oracle.both(|repo| repo.write("new", "1\n"));
    oracle.same(&["status"]);
    oracle.same(&["status", "-uno"]);
    oracle.both(|repo| {
        repo.write("file", "2\n");
        repo.git(&["stash", "-q"]);
        repo.write("file", "3\n");
        repo.git(&["stash", "-q"]);
    });
    each(&oracle, "");
    oracle.same(&["-c", "status.showStash=true", "status"]);
}

#[test]
fn submodules_and_their_dirt() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.git(&["init", "-q", "-b", "main", "inner"]);
        let inner = repo.path.join("inner");
        let run = |args: &[&str]| {
            let mut all = vec!["-C", inner.to_str().expect("a plain path")];
            all.extend(args);
            repo.git(&all);
        };
        repo.write("inner/file", "1\n");
        run(&["add", "file"]);
        run(&["commit", "-q", "-m", "first"]);
        repo.write("file", "1\n");
        repo.git(&["-c", "advice.addEmbeddedRepo=false", "add", "inner", "file"]);
        repo.write(".gitmodules", "[submodule \"inner\"]\n\tpath = inner\n\turl = ./inner\n");
        repo.commit("first");
    });
    let every = |oracle: &Oracle| {
        each(oracle, "");
        for args in [
            &["-uno"][..],
            &["--ignore-submodules"],
            &["--ignore-submodules=dirty"],
            &["--ignore-submodules=untracked"],
            &["--ignore-submodules=none", "-uno"],
        ] {
            oracle.same(&[&["status"], args].concat());
        }
        let summary = ["-c", "status.submoduleSummary=true", "status"];
        oracle.same(&summary);
        oracle.same(&[&summary[..], &["--ignore-submodules"]].concat());
        oracle.same(&[
            "-c",
            "status.displayCommentPrefix=true",
            "-c",
            "status.submoduleSummary=1",
            "status",
            "-uno",
        ]);
        for value in ["none", "untracked", "dirty", "all"] {
            for key in ["submodule.inner.ignore", "diff.ignoreSubmodules"] {
                let setting = format!("{key}={value}");
                oracle.same(&["-c", &setting, "status"]);
                oracle.same(&["-c", &setting, "status", "-uno"]);
            }
        }
    };
    every(&oracle);
    oracle.both(|repo| repo.write("inner/new", "1\n"));
    every(&oracle);
    oracle.both(|repo| repo.write("inner/file", "2\n"));
    every(&oracle);
    oracle.both(|repo| {
        repo.git(&["-C", "inner", "commit", "-q", "-a", "-m", "second"]);
    });
    every(&oracle);
    oracle.both(|repo| {
        repo.git(&["add", "inner"]);
    });
    every(&oracle);
    oracle.both(|repo| {
        repo.git(&["rm", "-q", "-f", "--cached", "inner"]);
    });
    oracle.same(&["status"]);
}

/// Directories, repositories and links in place of other kinds of files.
#[test]
fn other_file_types_in_place_of_entries() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        ["a", "b", "c", "d/a"].iter().for_each(|path| repo.write(path, "1\n"));
        repo.git(&["init", "-q", "-b", "main", "sub"]);
        repo.git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "inner"]);
        repo.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n");
        repo.git(&["-c", "advice.addEmbeddedRepo=false", "add", "-A"]);
        repo.commit("first");
        // A directory in place of a file.
        repo.remove("d/a");
        repo.write("d/a/b/c", "1\n");
        for path in ["a", "b"] {
            repo.remove(path);
            repo.git(&["clone", "-q", "sub", path]);
        }
    });
    let conflict = |stages: &[u8]| {
        oracle.both(|repo| {
            let blob = repo.git(&["rev-parse", "HEAD:c"]).stdout.to_string();
            let lines = stages.iter().map(|stage| format!("100644 {} {stage}\tb\n", blob.trim()));
            repo.git(&["rm", "-q", "--cached", "b"]);
            index_info(repo, &lines.collect::<String>());
        });
    };
    each(&oracle, "");
    each(&oracle, "d/a");
    each(&oracle, "d/a/b");
    for stages in [&[1, 2, 3][..], &[1, 3]] {
        conflict(stages);
        each(&oracle, "");
        oracle.same(&["status", "--porcelain=v2", "--no-renames"]);
    }
    oracle.both(|repo| {
        repo.git(&["clone", "-q", "sub", "intended"]);
        repo.git(&["-c", "advice.addEmbeddedRepo=false", "add", "-N", "intended"]);
    });
    each(&oracle, "");
    oracle.same(&["status", "--ignore-submodules"]);
    oracle.both(|repo| repo.remove("c"));
    each(&oracle, "");
    oracle.both(|repo| {
        repo.remove(".gitmodules");
        repo.write(".gitmodules/file", "1\n");
    });
    each(&oracle, "");
    for target in [".gitmodules", "nowhere", "c/nowhere", "d/a/b/c"] {
        oracle.both(|repo| {
            repo.remove(".gitmodules");
            repo.symlink(target, ".gitmodules");
        });
        oracle.same_as(target, &["status"]);
        oracle.same_as(target, &["diff-files"]);
    }
    oracle.both(|repo| {
        repo.remove(".gitmodules");
        repo.remove("sub");
        repo.symlink("d", "sub");
    });
    for args in [
        &["status"][..],
        &["status", "-uno"],
        &["status", "--ignore-submodules=dirty"],
        &["status", "--ignore-submodules"],
        &["diff-files"],
        &["diff-index", "HEAD"],
    ] {
        oracle.same(args);
    }
}

#[test]
fn a_directory_beside_a_file_of_another_case() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.git(&["config", "core.ignoreCase", "true"]);
        repo.write("b", "1\n");
        repo.commit("first");
        repo.write("B/a", "1\n");
        repo.write(".gitignore", "b\n");
    });
    for ignored in ["--ignored=traditional", "--ignored=matching"] {
        oracle.same(&["status", "-s", ignored]);
        oracle.same(&["status", "-s", "-uall", ignored]);
    }
}

#[test]
fn sparse_worktrees() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["a", "in/file", "in/deep/file", "out/file", "out/deep/file", "other/file"] {
            repo.write(path, "1\n");
        }
        repo.commit("first");
        repo.git(&["sparse-checkout", "set", "in"]);
    });
    each(&oracle, "");
    oracle.both(|repo| repo.write("out/file", "back\n"));
    each(&oracle, "");
    oracle.both(|repo| {
        repo.remove("out/file");
        repo.git(&["sparse-checkout", "set", "--sparse-index", "in"]);
    });
    each(&oracle, "");
    oracle.both(|repo| repo.write("in/file", "2\n"));
    each(&oracle, "");
    oracle.both(|repo| {
        repo.git(&["reset", "-q", "--soft", "HEAD"]);
        repo.write("in/new", "1\n");
    });
    oracle.same(&["status", "-uall"]);
}

/// `status` writes refreshed stat data to the index, unless that is forbidden.
#[test]
fn stat_data_come_up_to_date() {
    let stale = |oracle: &Oracle| {
        let differing = |repo: &Repo<'_>| {
            let files = repo.try_git(&["--no-optional-locks", "diff-files", "--name-only"]);
            files.stdout.to_string()
        };
        (differing(&oracle.git()), differing(&oracle.ours()))
    };
    // Each time another hour: Git may compare only part of the time.
    let touch = |oracle: &Oracle, hours: u64| {
        oracle.both(|repo| {
            let file =
                std::fs::File::options().write(true).open(repo.path.join("file")).expect("it is there");
            let then = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * hours);
            file.set_modified(then).expect("times can be set");
        });
    };
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("file", "1\n");
        repo.commit("first");
    });
    let cases = [(1, &["--no-optional-locks", "status"][..], false), (2, &["status", "-s", "file"], true)];
    for (hours, args, refreshes) in cases {
        touch(&oracle, hours);
        assert_eq!(stale(&oracle), ("file\n".into(), "file\n".into()));
        oracle.same(args);
        let expected = if refreshes { "" } else { "file\n" };
        assert_eq!(stale(&oracle), (expected.into(), expected.into()), "{args:?}");
    }
    // A lock does not make the command fail, and only its owner removes it.
    touch(&oracle, 3);
    oracle.both(|repo| repo.write(".git/index.lock", ""));
    oracle.same(&["status"]);
    assert_eq!(stale(&oracle), ("file\n".into(), "file\n".into()));
    oracle.both(|repo| repo.remove(".git/index.lock"));
}

/// Errors of `lstat` are reported in index order, and that of `.gitmodules` at the first submodule.
#[test]
fn in_the_order_of_the_index() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        ["a/file", "m", "z/file"].iter().for_each(|path| repo.write(path, "1\n"));
        repo.git(&["init", "-q", "-b", "main", "sub"]);
        repo.git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "inner"]);
        repo.git(&["-c", "advice.addEmbeddedRepo=false", "add", "-A"]);
        repo.commit("first");
        for path in ["a", "z"] {
            repo.remove(path);
            repo.symlink(path, path);
        }
        repo.symlink(".gitmodules", ".gitmodules");
    });
    for args in [&["-s"][..], &["-s", "--", "a", "z"], &["-s", "--", "sub", "a"], &["-s", "--", "z"]] {
        oracle.same(&[&["status"], args].concat());
    }
}

/// In formats for scripts `-v` adds nothing. In the long format it adds patches with all configured
/// options.
#[test]
fn verbosely() {
    let oracle = Oracle::new(SAPWOOD, changed);
    let every = || {
        for args in [
            &["-v"][..],
            &["-vv"],
            &["-v", "-v", "-uno", "sub"],
            &["-vv", "--no-verbose"],
            &["-v", "--no-renames", "--long", "-b", "--show-stash"],
            &["-vs"],
            &["-vv", "--porcelain"],
            &["-v", "--porcelain=v2", "-z"],
            &["-z", "--verbose"],
            &["-vv", "--long", "-z"],
            &["-v", "--porcelain=v3"],
        ] {
            for settings in [
                &[][..],
                &["-c", "color.ui=always"],
                &["-c", "diff.noprefix=true", "-c", "diff.context=1"],
                &["-c", "diff.mnemonicPrefix=true", "-c", "status.displayCommentPrefix=true"],
                &["-c", "status.short=true"],
                &["--literal-pathspecs", "--no-optional-locks", "--git-dir=.git"],
            ] {
                oracle.same(&[settings, &["status"], args].concat());
            }
            oracle.same_in("sub", &[&["status"], args].concat());
        }
    };
    every();
    oracle.both(|repo| drop(repo.git(&["rm", "-q", "--cached", "same"])));
    oracle.both(|repo| {
        let (none, blob) = ("0".repeat(40), "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d");
        index_info(repo, &format!("0 {none} 0\tboth\n100644 {blob} 2\tboth\n"));
    });
    every();
    oracle.both(|repo| drop(repo.git(&["update-ref", "-d", "HEAD"])));
    every();
}

/// Settings must be valid, even if the command line overrides them.
#[test]
fn settings_that_mean_nothing() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("a", "1\n");
        repo.commit("first");
        repo.write("b", "1\n");
    });
    for key in ["status.short", "status.branch", "status.relativePaths", "status.renames", "diff.renames"] {
        let setting = format!("{key}=maybe");
        for args in [&["-s", "-b"][..], &["--long", "--no-branch", "--no-renames"], &["--porcelain=v2", "-M"]]
        {
            let run = oracle.same(&[&["-c", &setting, "status"], args].concat());
            assert_eq!(run.code, 128, "{setting} {args:?}");
        }
    }
    // Git also prints the location of the setting.
    for args in [&["status"][..], &["status", "-uno"], &["status", "-uall", "-s"]] {
        let args = [&["-c", "status.showUntrackedFiles=maybe"], args].concat();
        let (theirs, ours) = (oracle.git().try_git(&args), oracle.ours().run(SAPWOOD.as_ref(), &args));
        assert_eq!((theirs.code, theirs.stdout), (ours.code, ours.stdout), "{args:?}");
    }
}

/// This error precedes all other errors in pathspecs, except for invalid paths.
#[test]
fn empty_pathspecs() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("a", "1\n");
        repo.write("d/a", "1\n");
        repo.commit("first");
    });
    for args in [&["../x", ""][..], &[":(bad)a", ""], &["", "a"], &["a", ""]] {
        for command in [&["status"][..], &["diff-files"], &["diff-index", "HEAD"], &["ls-files"]] {
            let run = oracle.same(&[command, &["--"], args].concat());
            assert_eq!(run.code, 128, "{command:?} {args:?}");
        }
    }
    for command in [&["diff-files"][..], &["diff-index", "HEAD"]] {
        oracle.same(&[command, &[""]].concat());
        oracle.same(&[command, &["a", ""]].concat());
        oracle.same_in("d", &[command, &[""]].concat());
    }
}
