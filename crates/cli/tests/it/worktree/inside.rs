//! Worktrees moved, removed and repaired by paths that lead through them, or from inside them.

use testkit::Sandbox;

use super::agree;
use crate::SAPWOOD;

#[test]
fn moving() {
    agree(&[
        "worktree add -q ../one",
        "@one worktree move . ../two",
        "@two/dir worktree move .. ../../three",
        "@three worktree move ../three ../four",
        "@four/dir worktree move ../../four ../../five",
        "@five worktree move --relative-paths . ../six",
        "@six/dir worktree move --relative-paths .. ../../seven",
        "@seven -C dir worktree move .. ../../eight",
        "@eight --git-dir=../repo/.git worktree move . ../nine",
        "@nine --git-dir=../repo/.git worktree move --relative-paths ../nine ../ten",
        "!mkdir ../ten/sub",
        "@ten/sub worktree move ../../ten ../../eleven",
        "@eleven worktree move . inside",
        "@eleven worktree move . sub",
        "@eleven worktree move . dir/deeper",
        "@eleven worktree move . ../nowhere/at/all",
        "@eleven worktree list",
        "worktree list --porcelain",
    ]);
}

#[test]
fn into_a_directory_beside_the_current_one() {
    // The path is different afterwards, and Git leaves a worktree that it would prune.
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.commit("one");
    repo.git(&["worktree", "add", "-q", "../tree"]);
    std::fs::create_dir(sandbox.path().join("beside")).expect("a new directory");
    let moved = sandbox.repo("tree").run(SAPWOOD.as_ref(), &["worktree", "move", ".", "../beside"]);
    assert_eq!((moved.code, moved.stderr.as_slice()), (0, &b""[..]));
    let gitdir = sandbox.path().join("beside/tree/.git");
    assert_eq!(repo.read(".git/worktrees/tree/gitdir"), format!("{}\n", gitdir.display()));
    assert_eq!(repo.git(&["worktree", "prune", "-n", "-v"]).stderr, "");
}

#[test]
fn removing() {
    agree(&[
        "worktree add -q ../one",
        "@one worktree remove .",
        "worktree add -q ../two",
        "@two/dir worktree remove ..",
        "worktree add -q ../three",
        "!mkdir ../three/sub && touch ../three/sub/untracked",
        "@three/sub worktree remove ..",
        "@three/sub worktree remove -f ..",
        "worktree add -q ../four",
        "@four worktree remove ../four",
        "worktree add -q ../five",
        "@five/dir -C .. worktree remove five",
        "worktree add -q ../six",
        "@six --git-dir=../repo/.git worktree remove .",
        // More files than one batch deletes.
        "worktree add -q ../seven",
        "!mkdir ../seven/sub && for n in $(seq 300); do echo >../seven/sub/$n; done",
        "@seven/sub worktree remove -f ..",
        // The directory behind a link is emptied, and the link stays.
        "worktree add -q ../eight",
        "!mv ../eight ../real && ln -s real ../eight",
        "worktree remove eight",
        "worktree add -q ../nine",
        "!mv ../nine ../real/nine && ln -s real/nine ../nine && touch ../nine/untracked",
        "worktree remove nine",
        "worktree remove -f nine",
        "worktree list",
    ]);
}

#[test]
fn mending() {
    agree(&[
        "worktree add -q ../one",
        "!mv ../one ../two",
        "@two/dir worktree repair ..",
        "@two/dir worktree repair",
        "!mv ../two ../three",
        "@three --git-dir=../repo/.git worktree repair ../three",
        "!mv ../three ../four && rm ../four/.git",
        "worktree repair ../four",
        "worktree repair ../nothing",
        "worktree list",
    ]);
}

#[test]
fn other_repositories_are_not_mended() {
    let sandbox = Sandbox::new();
    for name in ["repo", "other"] {
        let repo = sandbox.init(name);
        repo.commit("one");
        repo.git(&["worktree", "add", "-q", &format!("../of-{name}")]);
    }
    let (repo, other) = (sandbox.repo("repo"), sandbox.repo("other"));
    // Move the worktree, so that there is something to repair.
    std::fs::rename(sandbox.path().join("of-other"), sandbox.path().join("moved")).expect("moved");
    other.git(&["init", "-q", "--separate-git-dir=../apart", "../plain"]);
    let before = other.read(".git/worktrees/of-other/gitdir");
    let ran = repo.run(SAPWOOD.as_ref(), &["worktree", "repair", "../moved", "../plain", "../of-repo"]);
    let said = |place: &str| {
        let gitfile = sandbox.path().join(place).join(".git");
        let why = "unable to repair; .git file leads outside of this repository's worktrees";
        format!("error: {why}: {}\n", gitfile.display())
    };
    assert_eq!((ran.code, ran.stderr.to_string()), (1, said("moved") + &said("plain")));
    assert_eq!(other.read(".git/worktrees/of-other/gitdir"), before);
    assert!(!sandbox.path().join("apart/gitdir").exists());
}

#[test]
fn no_branch_is_made_for_a_worktree_without_a_place() {
    let (sandbox, shim) = (Sandbox::new(), crate::shim::Shim::new());
    let repo = sandbox.init("repo");
    repo.write("d/file", "x\n");
    repo.commit("one");
    for dir in ["repo", "repo/d"] {
        let at = sandbox.repo(dir);
        for args in
            [&["-b", "x", ""][..], &["-B", "x", ""], &["", "HEAD"], &["--orphan", ""], &["-d", ""], &[""]]
        {
            let args = [&["worktree", "add"], args].concat();
            let refused = "fatal: The empty string is not a valid path\n";
            for ran in [at.run(SAPWOOD.as_ref(), &args), shim.run(&at, &args)] {
                assert_eq!((ran.code, ran.stderr.to_string()), (128, refused.to_owned()), "{args:?}");
            }
            shim.was_native(&["add"]);
        }
    }
    assert_eq!(repo.git(&["branch", "--format=%(refname:short)"]).stdout, "main\n");
}
