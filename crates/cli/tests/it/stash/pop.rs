//! How `pop`, `apply` and `branch` apply a stash.

use super::Pair;

/// Changes after a stash of everything, as lines of shell code.
const SINCE: &[(&str, &str)] = &[
    ("nothing", "true"),
    ("a commit of another path", "echo 9 >b; git commit -qam b"),
    ("a commit of a new path", "echo 9 >n; git add n; git commit -qm n"),
    ("a commit of the same change", "echo 3 >a; git commit -qam a"),
    ("a commit of another change", "echo 8 >a; git commit -qam a"),
    ("a commit that deletes", "git rm -q a; git commit -qm a"),
    ("a local change of another path", "echo 9 >b"),
    ("a local change of the path", "echo 9 >a"),
    ("a staged change of another path", "echo 9 >b; git add b"),
    ("a staged new file", "echo 9 >n; git add n"),
    ("a touched file", "touch -d 2001-01-01 a"),
    ("an untracked file in the way", "echo 9 >new; echo 9 >u"),
    ("an ignored file in the way", "echo 9 >x.o"),
    ("a directory in the way", "mkdir new; echo x >new/x"),
    ("an earlier commit", "git checkout -q HEAD~1"),
    ("a local deletion", "rm b"),
    ("a local deletion of the path", "rm a"),
];

#[test]
fn brings_back_as_git_does() {
    for stashed in [
        "echo 3 >a; git stash -q",
        "echo 3 >a; git add a; echo 4 >a; git stash -q",
        "echo 3 >a; rm dir/c; git mv dir/deep/d moved; echo n >new; git add new; git stash -q",
        "echo 3 >a; echo n >new; git add new; echo u >u; echo o >x.o; git stash -q -a",
        "echo u >u; git stash -qu",
        "chmod +x a; ln -sfn b link; git stash -q",
    ] {
        for (name, since) in SINCE {
            for form in [&["pop"][..], &["apply", "-q"], &["pop", "--index"]] {
                println!("{stashed}; {name}: {form:?}");
                let pair = Pair::new();
                pair.both(stashed).both(since).same(form).native(&["list"]);
            }
        }
    }
}

#[test]
fn is_native_without_merges_of_contents() {
    for since in
        ["true", "echo 9 >b; git commit -qam b", "echo 9 >b", "echo 9 >n; git add n", "touch -d 2001-01-01 a"]
    {
        for stashed in [
            "echo 3 >a; git stash -q",
            "echo 3 >a; rm dir/c; echo n >new; git add new; echo u >u; git stash -q -u",
        ] {
            println!("{stashed}; {since}");
            let pair = Pair::new();
            if since.contains(">n;") && stashed.contains("rm ") {
                // Both sides add a file, and one of them may have renamed its file.
                pair.both(stashed).both(since).handed_over(&["apply"], "renames");
                continue;
            }
            pair.both(stashed).both(since).native(&["apply"]);
            pair.both("git reset -q --hard; git clean -fdq").native(&["pop", "-q"]).native(&["list"]);
        }
    }
    let pair = Pair::new();
    pair.both("echo 3 >a; git add a; echo 4 >a; echo n >new; git add new; echo 5 >b; git stash -q");
    pair.native(&["apply", "--index"]).both("git reset -q --hard").native(&["pop", "--index"]);
    pair.both("git config stash.index true; git stash -q").native(&["pop"]);
}

#[test]
fn leaves_merges_to_git() {
    for (since, why) in [
        ("echo 8 >a; git commit -qam a", "merges of contents"),
        ("echo 9 >a", "local changes in the place"),
        ("git rm -q a; git commit -qm a; echo x >y; git add y; git commit -qm y", "merges of contents"),
    ] {
        println!("{since}");
        let pair = Pair::new();
        pair.both("echo 3 >a; git stash -q").both(since).handed_over(&["pop"], why);
    }
    let pair = Pair::new();
    pair.both("git mv dir moved; git stash -q; echo 9 >dir/n; git add dir; git commit -qm n");
    pair.handed_over(&["pop"], "renames");
}

#[test]
fn makes_a_branch() {
    for since in ["true", "echo 9 >a; git commit -qam a", "echo 9 >b", "echo 9 >a"] {
        for form in [
            &["branch", "new"][..],
            &["branch", "new", "stash@{0}"],
            &["branch", "main"],
            &["branch"],
            &["branch", "x", "7"],
        ] {
            println!("{since}: {form:?}");
            let pair = Pair::new();
            pair.both("echo 3 >a; git add a; echo 4 >a; echo n >new-file; git add new-file; git stash -q");
            pair.both(since).same(form).native(&["list"]);
        }
    }
    let pair = Pair::new();
    pair.both("echo 3 >a; git add a; echo 4 >b; git stash -q; echo 9 >a; git commit -qam a");
    pair.native(&["branch", "new"]);
}
