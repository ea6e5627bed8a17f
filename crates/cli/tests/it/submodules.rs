//! Submodules without `--recurse-submodules`: the output of a switch, and their directories.

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo, Run};

use crate::{SAPWOOD, shim::Shim};

/// Creates a history. `main` has the submodule `sub` at its first commit, `next` at its second;
/// `none` has none, `file` and `dir` another entry in its place. The submodule is populated.
fn history(repo: &Repo<'_>) {
    let sub = "../sub.git";
    repo.git(&["init", "-q", "-b", "main", sub]);
    for number in ["one", "two"] {
        let message = ["-C", sub, "commit", "-q", "--allow-empty", "-m", number];
        repo.git(&message);
        repo.git(&["-C", sub, "tag", number]);
    }
    repo.write("a", "a\n");
    repo.commit("none");
    repo.git(&["branch", "none"]);
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", sub, "sub"]);
    // Git would resolve the URL to a path inside of the copy, so a relative URL is set.
    repo.git(&["config", "submodule.sub.url", sub]);
    repo.git(&["-C", "sub", "checkout", "-q", "--detach", "one"]);
    repo.git(&["add", "sub"]);
    repo.commit("main");
    let branches: [(&str, &dyn Fn()); 3] = [
        ("next", &|| {
            repo.git(&["-C", "sub", "checkout", "-q", "two"]);
            repo.git(&["add", "sub"]);
        }),
        ("file", &|| {
            repo.git(&["rm", "-q", "sub"]);
            repo.write("sub", "a file\n");
            repo.git(&["add", "sub"]);
        }),
        ("dir", &|| {
            repo.git(&["rm", "-q", "sub"]);
            repo.write("sub/inner", "a file\n");
            repo.git(&["add", "sub"]);
        }),
    ];
    for (branch, change) in branches {
        repo.git(&["checkout", "-q", "-b", branch, "main"]);
        change();
        repo.commit(branch);
        repo.git(&["checkout", "-q", "-f", "main"]);
        repo.git(&["submodule", "--quiet", "update"]);
    }
}

fn oracle() -> Oracle {
    Oracle::new(SAPWOOD, history)
}

#[track_caller]
fn says(run: &Run, line: &str) {
    assert!(run.stdout.to_string().lines().any(|said| said == line), "no '{line}': {}", run.stdout);
}

#[test]
fn a_subcommand_may_follow_options() {
    let oracle = oracle();
    oracle.both(|repo| drop(repo.git(&["checkout", "-q", "next"])));
    let loud = oracle.same(&["submodule", "update"]);
    assert!(loud.stdout.contains_str("checked out"), "{}", loud.stdout);
    for args in [
        &["submodule", "-q", "update"][..],
        &["submodule", "--quiet", "-q", "update", "--", "sub"],
        &["submodule", "-q", "update", "-v"],
    ] {
        oracle.both(|repo| drop(repo.git(&["-C", "sub", "checkout", "-q", "one"])));
        oracle.same(args);
    }
    oracle.both(|repo| {
        repo.git(&["config", "-f", ".gitmodules", "submodule.sub.url", "https://example.com/sub"]);
        repo.git(&["config", "--remove-section", "submodule.sub"]);
    });
    oracle.same(&["submodule", "-q", "init"]);
    let shim = Shim::new();
    let ours = oracle.ours();
    assert_eq!(shim.run(&ours, &["submodule", "-q", "update"]).code, 0);
    shim.was_native(&["submodule -q update"]);
    // Git accepts `--cached` there for other subcommands, and refuses it for these.
    for args in [&["submodule", "-q", "--cached", "update"][..], &["submodule", "-qq", "update"]] {
        assert_eq!(ours.try_git(args), shim.run(&ours, args), "{args:?}: git left, shim right");
        assert_ne!(ours.run(SAPWOOD.as_ref(), args).code, 0, "{args:?}");
    }
}

#[test]
fn another_commit_within_is_a_change() {
    let oracle = oracle();
    says(&oracle.same(&["checkout", "next"]), "M\tsub");
    says(&oracle.same(&["reset"]), "M\tsub");
    says(&oracle.same(&["switch", "-c", "here", "next"]), "M\tsub");
    oracle.same(&["reset", "--hard"]);
    oracle.same(&["checkout", "--", "sub"]);
    oracle.same(&["checkout", "main"]);
    oracle.both(|repo| drop(repo.git(&["-C", "sub", "checkout", "-q", "two"])));
    oracle.same(&["checkout", "none"]);
    oracle.same(&["checkout", "-f", "none"]);
    says(&oracle.same(&["checkout", "main"]), "M\tsub");
    oracle.same(&["-c", "diff.ignoreSubmodules=all", "checkout", "main"]);
    oracle.same(&["reset", "--keep", "next"]);
    oracle.same(&["checkout", "-q", "main"]);
}

#[test]
fn changes_within_are_listed_unless_ignored() {
    let oracle = oracle();
    let all = |what: &str, expected: [bool; 4]| {
        for (ignore, listed) in ["none", "untracked", "dirty", "all"].into_iter().zip(expected) {
            let config = format!("submodule.sub.ignore={ignore}");
            let run = oracle.same_as(what, &["-c", &config, "checkout", "main"]);
            assert_eq!(run.stdout.contains_str("M\tsub"), listed, "{what}, {ignore}: {}", run.stdout);
        }
    };
    all("clean", [false; 4]);
    oracle.both(|repo| repo.write("sub/new", "new\n"));
    all("untracked", [true, false, false, false]);
    oracle.both(|repo| repo.write("sub/.gitignore", "new\n.gitignore\n"));
    all("ignored", [false; 4]);
    oracle.both(|repo| drop(repo.git(&["-C", "sub", "add", "-f", "new"])));
    all("staged", [true, true, false, false]);
    oracle.both(|repo| {
        repo.git(&["-C", "sub", "commit", "-q", "-m", "new"]);
        repo.write("sub/new", "changed\n");
        repo.git(&["config", "-f", ".gitmodules", "submodule.sub.ignore", "dirty"]);
    });
    all("another commit", [true, true, true, false]);
    oracle.same(&["checkout", "main"]);
    oracle.both(|repo| repo.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\tignore = maybe\n"));
    oracle.same(&["checkout", "main"]);
}

#[test]
fn nested_submodules_obey_the_superprojects_ignore_setting() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        let add = ["-C", "sub", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
        repo.git(&[&add[..], &["../sub.git", "inner"]].concat());
        repo.git(&["-C", "sub", "commit", "-q", "-m", "nested"]);
        repo.git(&["add", "sub"]);
        repo.commit("nested");
    });
    oracle.same(&["checkout", "main"]);
    oracle.both(|repo| repo.write("sub/inner/new", "new\n"));
    says(&oracle.same(&["checkout", "main"]), "M\tsub");
    oracle.same(&["-c", "submodule.sub.ignore=untracked", "checkout", "main"]);
    oracle.both(|repo| drop(repo.git(&["-C", "sub", "config", "status.showUntrackedFiles", "no"])));
    oracle.same(&["checkout", "main"]);
    oracle.both(|repo| drop(repo.git(&["-C", "sub/inner", "checkout", "-q", "one"])));
    says(&oracle.same(&["checkout", "main"]), "M\tsub");
    oracle.both(|repo| drop(repo.git(&["-C", "sub", "config", "submodule.inner.ignore", "all"])));
    oracle.same(&["checkout", "main"]);
}

#[test]
fn submodules_that_come_and_go() {
    for branch in ["none", "file", "dir"] {
        for populated in [true, false] {
            let oracle = oracle();
            if !populated {
                oracle.both(|repo| drop(repo.git(&["submodule", "--quiet", "deinit", "-f", "--all"])));
            }
            oracle.same_as(&format!("{branch} {populated}"), &["checkout", branch]);
            oracle.same(&["checkout", "main"]);
            oracle.same(&["reset", "--hard", branch]);
            oracle.same(&["reset", "--merge", "next"]);
            oracle.same(&["checkout", "-f", branch]);
            oracle.same_as(branch, &["checkout", "next", "--", "sub"]);
            oracle.same(&["restore", "--source=none", "--staged", "--worktree", "sub/"]);
            oracle.same(&["restore", "--source=next", "sub/"]);
        }
    }
}

#[test]
fn files_in_place_of_a_submodule() {
    let oracle = oracle();
    oracle.both(|repo| {
        repo.remove("sub");
        repo.write("sub", "a file\n");
    });
    says(&oracle.same(&["checkout", "main"]), "T\tsub");
    oracle.same(&["reset"]);
    oracle.same(&["checkout", "next"]);
    oracle.both(|repo| repo.remove("sub"));
    oracle.same(&["checkout", "next"]);
    oracle.both(|repo| {
        repo.remove("a");
        repo.git(&["init", "-q", "a"]);
        repo.git(&["-C", "a", "commit", "-q", "--allow-empty", "-m", "within"]);
    });
    oracle.same(&["checkout", "next"]);
    oracle.same(&["checkout", "next", "--", "sub/", "sub/x"]);
    oracle.same(&["checkout", "next", "--", "sub/"]);
}
