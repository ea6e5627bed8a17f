//! Commits that were made in a workspace, and the branches in which they land.

use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{class, committed, create, script};

/// A repository whose default branch `main` has two commits, and workspaces at the first one.
fn behind<'s>(sandbox: &'s Sandbox, names: &[&str]) -> (Repo<'s>, Vec<Repo<'s>>) {
    let repo = committed(sandbox);
    repo.git(&["branch", "-M", "main"]);
    let workspaces = names.iter().map(|name| create(sandbox, &repo, name)).collect();
    repo.write("second", "2\n");
    repo.commit("two");
    (repo, workspaces)
}

#[test]
fn only_a_commit_is_a_move() {
    let all = [
        ("nothing", "", false),
        ("pull", "git pull -q --ff-only . main", false),
        ("pull-rebase", "git pull -q --rebase . main", false),
        ("merge", "git merge -q --ff-only main", false),
        ("reset", "git reset -q --hard main", false),
        ("checkout", "git checkout -q -B checkout main", false),
        ("commit", "git commit -q --allow-empty -m x", true),
        ("amend", "git commit -q --amend -m x", true),
        ("pick", "git cherry-pick main", true),
        ("revert", "git revert --no-edit HEAD", true),
        ("am", "git format-patch -1 --stdout main | git am -q", true),
        ("rebase", "$commit; git rebase -q main", true),
        ("patches", "$commit; git rebase -q --apply main", true),
    ];
    // A commit without a trace in the reflog of the workspace.
    let commit = "git commit -q --allow-empty -m x; echo x >x; git add x; git commit -q --amend -m x
                  : >$(git rev-parse --git-path logs/HEAD)";
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let (repo, workspaces) = behind(&sandbox, &all.map(|(name, ..)| name));
    for (workspace, (_, make, _)) in workspaces.iter().zip(all) {
        script(workspace, &make.replace("$commit", commit));
    }
    let moved = all.map(|(name, ..)| (name, class(&repo, name).has_moved));
    assert_eq!(moved, all.map(|(name, _, moved)| (name, moved)));
}

/// Returns the branch in which a workspace landed.
fn landed(repo: &Repo<'_>, name: &str) -> String {
    class(repo, name).landed.map(|branch| branch.to_string()).unwrap_or_default()
}

#[test]
fn the_default_branch_is_that_of_the_remote() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let (repo, workspaces) = behind(&sandbox, &["one"]);
    workspaces[0].commit("mine");
    repo.git(&["branch", "develop", "one"]);
    assert_eq!(landed(&repo, "one"), "");
    repo.git(&["update-ref", "refs/remotes/origin/develop", "main"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/develop"]);
    assert_eq!(landed(&repo, "one"), "develop");
    repo.git(&["update-ref", "refs/remotes/origin/develop", "one"]);
    repo.git(&["branch", "-D", "develop"]);
    assert_eq!(landed(&repo, "one"), "origin/develop");
    // The branch of the main worktree is no default branch then.
    repo.git(&["update-ref", "refs/remotes/origin/develop", "main~1"]);
    repo.git(&["merge", "-q", "--no-edit", "one"]);
    assert_eq!(landed(&repo, "one"), "");
    repo.git(&["symbolic-ref", "-d", "refs/remotes/origin/HEAD"]);
    assert_eq!(landed(&repo, "one"), "main");
    // Without a branch in the main worktree: one of the usual names.
    repo.git(&["checkout", "-q", "--detach"]);
    assert_eq!(landed(&repo, "one"), "main");
    repo.git(&["branch", "-m", "main", "trunk"]);
    assert_eq!(landed(&repo, "one"), "");
    repo.git(&["config", "init.defaultBranch", "trunk"]);
    assert_eq!(landed(&repo, "one"), "trunk");
}

#[test]
fn a_workspace_on_the_default_branch_has_not_landed() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let (repo, workspaces) = behind(&sandbox, &["one", "two"]);
    let [one, two] = &workspaces[..] else { unreachable!("two were made") };
    repo.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(&["checkout", "-q", "--detach"]);
    one.git(&["checkout", "-q", "main"]);
    two.git(&["checkout", "-q", "--detach", "main"]);
    one.commit("of one");
    two.commit("of two");
    repo.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    let of_one = class(&repo, "one");
    assert!(of_one.pushed && of_one.has_moved && of_one.landed.is_none(), "{of_one:?}");
    assert_eq!(landed(&repo, "two"), "");
    two.git(&["checkout", "-q", "--detach", "main"]);
    assert_eq!(landed(&repo, "two"), "main", "a detached HEAD is on no branch");
}

#[test]
fn an_upstream_of_another_name_is_a_place_to_land() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let (repo, workspaces) = behind(&sandbox, &["one", "two"]);
    repo.git(&["remote", "add", "origin", "."]);
    for (workspace, upstream) in workspaces.iter().zip(["release", "two"]) {
        workspace.commit("mine");
        repo.git(&["update-ref", &format!("refs/remotes/origin/{upstream}"), "main~1"]);
        workspace.git(&["branch", "-q", "--set-upstream-to", &format!("origin/{upstream}")]);
    }
    assert_eq!(["one", "two"].map(|name| landed(&repo, name)), ["", ""]);
    repo.git(&["update-ref", "refs/remotes/origin/release", "one"]);
    repo.git(&["update-ref", "refs/remotes/origin/two", "two"]);
    assert_eq!(["one", "two"].map(|name| landed(&repo, name)), ["origin/release", ""]);
    assert!(["one", "two"].iter().all(|name| class(&repo, name).pushed));
}

/// A commit lands by a counterpart in `main` if Git's `cherry` finds it there.
#[test]
fn patches_land_as_git_compares_them() {
    const BEFORE: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let all = [
        ("same", ("5", "x"), ("5", "x"), true),
        ("line", ("5", "x"), ("5", "y"), false),
        ("around", ("5", "x"), ("3\n4\n5", "3\nx\nx"), false),
        ("blanks", ("5", "\tx y"), ("5", "xy  "), true),
        ("only-blanks", ("5", "5 "), ("5", "5\t"), true),
        // Without their blanks, both would change nothing.
        ("blanks-elsewhere", ("8", "8 "), ("2", "2 "), false),
        ("removed", ("5\n", ""), ("5", ""), false),
    ];
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    repo.git(&["branch", "-M", "main"]);
    for (name, ..) in all {
        repo.write(name, BEFORE);
    }
    repo.write("mode", "mode\n");
    repo.commit("files");
    for (name, mine, theirs, _) in all {
        let workspace = create(&sandbox, &repo, name);
        workspace.write(name, BEFORE.replace(mine.0, mine.1));
        workspace.commit("mine");
        repo.write(name, BEFORE.replace(theirs.0, theirs.1));
        repo.commit("theirs");
    }
    let mode = create(&sandbox, &repo, "mode");
    mode.write_executable("mode", "mode\nx\n");
    mode.commit("mine");
    repo.write("mode", "mode\nx\n");
    repo.commit("theirs");
    // Git does not look at a mode that changes together with the content.
    assert_eq!(landed(&repo, "mode"), "");
    for (name, .., expected) in all {
        assert_eq!(!landed(&repo, name).is_empty(), expected, "{name}");
        let cherry = repo.git(&["cherry", "main", name]).stdout.to_string();
        assert_eq!(cherry.starts_with('-'), expected, "{name}: {cherry}");
    }
}

/// A commit that was taken, and reverted: the workspace builds on both, and its work is new.
#[test]
fn a_commit_that_the_workspace_builds_on_is_no_counterpart() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    repo.write("a", "new\n");
    repo.commit("taken");
    repo.git(&["revert", "--no-edit", "HEAD"]);
    let again = create(&sandbox, &repo, "again");
    again.write("a", "new\n");
    again.commit("once more");
    repo.commit("main goes on");
    assert_eq!(landed(&repo, "again"), "");
    repo.git(&["cherry-pick", "again"]);
    assert_ne!(landed(&repo, "again"), "");
}
