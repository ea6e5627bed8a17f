//! `read-tree` and `checkout-index`: their results and their output. The engine's tests cover the
//! merge rules.

use std::{fs, os::unix::fs::symlink};

use testkit::{Oracle, Repo, Run, wording};

use crate::SAPWOOD;

/// Creates three branches from one commit. Each side changes, adds and removes files, and one path
/// is a directory on one side.
fn sides(repo: &Repo<'_>) {
    for name in ["both", "gone", "left", "right", "dir/x", "dir/y"] {
        repo.write(name, format!("{name}\n"));
    }
    symlink("left", repo.join("link")).expect("made");
    repo.write(".gitignore", "*.ign\n");
    repo.commit("base");
    repo.git(&["branch", "base"]);
    repo.git(&["switch", "-q", "-c", "theirs"]);
    repo.write("both", "theirs\n");
    repo.write("right", "changed\n");
    repo.write("new", "theirs\n");
    repo.remove("gone");
    repo.remove("dir");
    repo.write("dir", "a file\n");
    repo.commit("theirs");
    repo.git(&["switch", "-q", "main"]);
    repo.write("both", "ours\n");
    repo.write("left", "changed\n");
    repo.write_executable("tool", "#!/bin/sh\n");
    repo.commit("ours");
}

/// Leaves the stages of a conflict in the index.
fn conflict(repo: &Repo<'_>) {
    repo.try_git(&["merge", "theirs"]);
}

#[test]
fn merges_trees_as_git_does() {
    let lines = [
        "read-tree base",
        "read-tree base main theirs",
        "read-tree -m -u base",
        "read-tree -m -u main theirs",
        "read-tree -m main theirs",
        "read-tree -m -i main theirs",
        "read-tree -m -u base main theirs",
        "read-tree -m --aggressive base main theirs",
        "read-tree -m --trivial base main theirs",
        "read-tree -m -q --trivial base main theirs",
        "read-tree -m base base main theirs",
        "read-tree --reset -u theirs",
        "read-tree --reset main theirs",
        "read-tree -n -m -u main theirs",
        "read-tree --prefix=sub -u theirs",
        "read-tree --prefix=dir/ base",
        "read-tree --prefix= theirs",
        "read-tree --prefix=/x theirs",
        "read-tree --prefix=.git/ theirs",
        "read-tree --empty",
        "read-tree -v -m -u --exclude-per-directory=.gitignore main theirs",
    ];
    let setups: [fn(&Repo<'_>); 4] = [
        |_| {},
        |repo| {
            repo.write("both", "local\n");
            repo.write("new", "untracked\n");
        },
        |repo| {
            repo.remove("dir");
            repo.write("right", "staged\n");
            repo.git(&["add", "right"]);
        },
        conflict,
    ];
    for setup in setups {
        for line in lines {
            let oracle = Oracle::new(SAPWOOD, sides);
            oracle.both(setup);
            oracle.same(&line.split(' ').collect::<Vec<_>>());
            same_tree(&oracle, line);
        }
    }
}

/// Checks that the cache-tree, which the compared state does not include, has no wrong trees.
#[track_caller]
fn same_tree(oracle: &Oracle, context: &str) {
    let written = |repo: &Repo<'_>| repo.try_git(&["write-tree"]);
    assert_eq!(written(&oracle.git()), written(&oracle.ours()), "{context}");
}

#[test]
fn rejects_wrong_arguments_of_read_tree() {
    let oracle = Oracle::new(SAPWOOD, sides);
    for line in [
        "read-tree",
        "read-tree -m",
        "read-tree --empty -m",
        "read-tree --empty main",
        "read-tree -m --reset main",
        "read-tree -u main",
        "read-tree -i main",
        "read-tree -m -u -i main",
        "read-tree -m nowhere",
        "read-tree main:both",
        "read-tree -m main main main main main main main main main",
        "read-tree -m --exclude-per-directory=.gitignore -u main",
        "read-tree -m -u --exclude-per-directory=x main",
        "read-tree --index-output=nowhere/index main",
    ] {
        oracle.same(&line.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn writes_another_index_file_and_runs_in_a_subdirectory() {
    let oracle = Oracle::new(SAPWOOD, sides);
    oracle.same_in("dir", &["read-tree", "--index-output=other", "theirs"]);
    oracle
        .both(|repo| fs::rename(repo.join("other"), repo.join(".git/index")).expect("it was written there"));
    oracle.same(&["read-tree", "--reset", "main"]);
    oracle.same_in("dir", &["read-tree", "-m", "-u", "main", "theirs"]);
}

/// Creates one entry of each kind: some are in the worktree, some are missing, one is changed, one
/// is unmerged.
fn entries(repo: &Repo<'_>) {
    sides(repo);
    repo.remove("left");
    repo.remove("dir");
    repo.remove("link");
    repo.write("right", "local\n");
}

#[test]
fn checks_out_entries() {
    let lines = [
        "checkout-index -a",
        "checkout-index -q -a",
        "checkout-index -f -a",
        "checkout-index -n -a",
        "checkout-index -f -u -a",
        "checkout-index -u left dir/x",
        "checkout-index -u left right",
        "checkout-index left nowhere right dir/x",
        "checkout-index -q nowhere",
        "checkout-index left left",
        "checkout-index -u left left",
        "checkout-index ../outside",
        "checkout-index -a left",
        "checkout-index --stdin left",
        "checkout-index -a --stdin",
        "checkout-index --stage=4 left",
        "checkout-index --stage=all --no-temp left",
        "checkout-index --stage=2 left",
        "checkout-index",
        "checkout-index --prefix=out/deep/ -a",
        "checkout-index --prefix=out/new- -a",
        "checkout-index -f --prefix=lef -- t",
        "checkout-index --prefix=ri ght right both",
        "checkout-index --prefix=right/ -a",
        "checkout-index -f --prefix=right/ -a",
    ];
    for line in lines {
        let oracle = Oracle::new(SAPWOOD, entries);
        oracle.same(&line.split(' ').collect::<Vec<_>>());
    }
    let oracle = Oracle::new(SAPWOOD, entries);
    oracle.both(|repo| fs::create_dir(repo.join("dir")).expect("made"));
    oracle.same_in("dir", &["checkout-index", "-a"]);
    oracle.same_in("dir", &["checkout-index", "../left", "x"]);
}

#[test]
fn does_not_follow_links_in_the_way() {
    for line in ["checkout-index -a", "checkout-index -f -a", "checkout-index -f --prefix=out/ -a"] {
        let oracle = Oracle::new(SAPWOOD, entries);
        oracle.both(|repo| {
            for at in ["", "out/"] {
                fs::create_dir_all(repo.join(format!("{at}elsewhere"))).expect("made");
                symlink("elsewhere", repo.join(format!("{at}dir"))).expect("made");
            }
        });
        oracle.same(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(fs::read_dir(oracle.ours().join("elsewhere")).expect("there").count(), 0, "{line}");
    }
}

#[test]
fn checks_out_stages() {
    for line in [
        "checkout-index -a",
        "checkout-index --stage=2 -f -a",
        "checkout-index --stage=1 gone both",
        "checkout-index both",
    ] {
        let oracle = Oracle::new(SAPWOOD, sides);
        oracle.both(conflict);
        oracle.same(&line.split(' ').collect::<Vec<_>>());
    }
}

/// Returns the lines of `--temp`, with the names of files replaced by their contents.
fn contents(repo: &Repo<'_>, run: &Run) -> Vec<String> {
    let line = |line: &str| {
        let (names, path) = line.split_once('\t').expect("names and a path");
        let read = |name: &str| match name {
            "." => ".".to_owned(),
            name => fs::read_to_string(repo.join(name)).expect("a file"),
        };
        format!("{:?} {path}", names.split(' ').map(read).collect::<Vec<_>>())
    };
    run.stdout.to_string().split_terminator(['\n', '\0']).map(line).collect()
}

#[test]
fn writes_temporary_files() {
    for line in [
        "checkout-index --temp -a",
        "checkout-index --temp left link",
        "checkout-index --stage=all -a",
        "checkout-index --stage=all -z both left",
        "checkout-index --temp --stage=2 both left",
    ] {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            sides(repo);
            repo.write(".git/info/attributes", "* text eol=crlf\n");
        });
        oracle.both(conflict);
        let args: Vec<&str> = line.split(' ').collect();
        let (git, ours) = (oracle.git(), oracle.ours());
        let (theirs, mine) = (git.try_git(&args), ours.run(SAPWOOD.as_ref(), &args));
        assert_eq!((theirs.code, wording(&theirs.stderr)), (mine.code, wording(&mine.stderr)), "{line}");
        assert_eq!(contents(&git, &theirs), contents(&ours, &mine), "{line}");
    }
}

/// The current directory is in the place of the file.
#[test]
fn names_the_path_of_a_file_above_the_current_directory() {
    let oracle = Oracle::new(SAPWOOD, sides);
    oracle.both(|repo| {
        repo.remove("left");
        repo.write("left/deep/er", "1\n");
    });
    let args = ["-C", "left/deep", "checkout-index", "--temp", "../../left"];
    let (git, ours) = (oracle.git(), oracle.ours());
    let (theirs, mine) = (git.git(&args), ours.run(SAPWOOD.as_ref(), &args));
    assert_eq!(contents(&git, &theirs), contents(&ours, &mine));
}

/// Stock builds of Git compare whole seconds, and trust an index that was written later.
#[test]
fn keeps_a_racy_file_changed_for_git() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    repo.git(&["config", "core.trustctime", "false"]);
    repo.write("file", "one content\n");
    repo.commit("first");
    let (file, second) =
        (repo.join("file"), std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000));
    let set = |path: &std::path::Path, nanos| {
        let time = second + std::time::Duration::from_nanos(nanos);
        fs::File::options().write(true).open(path).expect("opened").set_modified(time).expect("set");
    };
    for split in [false, true] {
        repo.write("file", "one content\n");
        set(&file, 100);
        repo.git(&["update-index", if split { "--split-index" } else { "--no-split-index" }, "file"]);
        set(&repo.join(".git/index"), 200);
        repo.write("file", "two content\n");
        set(&file, 300);
        repo.run(std::path::Path::new(SAPWOOD), &["read-tree", "-m", "HEAD"]);
        let changed = repo.git(&["diff-files", "--name-only"]);
        assert_eq!(changed.stdout, "file\n", "split: {split}");
    }
}
