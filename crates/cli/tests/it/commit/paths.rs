//! Commits of some files.

use super::after;

#[test]
fn commits_only_some_paths() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native(
        "git commit -m two d/b && git show --format=%s --name-status && git status --short && git ls-files -s",
    );
    native("rm c && git commit -m three -o c && git status --short && git ls-files -s");
    native(
        "echo 8 >d/b && git commit -q -m four d && git status --short; git commit -m five a; git status --short",
    );
    native("git commit -m six new; echo $?; git add -N new && git commit -m six new && git status --short");
    native("echo 9 >a && echo 9 >d/b && git add d && git commit --amend --no-edit -o && git status --short");
    native("echo d/b >list && git commit -m seven --pathspec-from-file=list && git status --short");
    native(
        "printf 'a\\0' | git commit -m eight --pathspec-from-file=- --pathspec-file-nul; git status --short",
    );
    native("rm a && mkdir a && echo x >a/x && git add a/x && git commit -m nine a && git ls-tree -r HEAD");
}

#[test]
fn includes_paths() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native("git commit -m two -i d/b && git show --format=%s --name-status && git status --short");
    native(
        "echo 7 >c && git commit -m three -i new c; echo $?; git commit -m three -i c && git status --short",
    );
}

#[test]
fn commits_in_sparse_checkouts() {
    let both = after("git add a && git sparse-checkout set --cone --sparse-index d");
    let native = |line: &str| both.native("commit", line);
    native(
        "git commit -m two && git ls-files --sparse -s && echo 9 >d/b && git commit -am three && git ls-files --sparse -s",
    );
    native("echo 8 >d/b && git commit -m four d/b && git ls-files --sparse -s; git commit --amend --no-edit");
}

#[test]
fn refuses_conflicts() {
    let both = after(
        "git commit -q -am two && git checkout -q -b side HEAD~1 && echo side >a && git commit -q -am side &&
         (git merge main || true) >/dev/null 2>&1",
    );
    let native = |line: &str| both.native("commit", line);
    native("git commit -m x; echo $?; git commit --dry-run; echo $?; git commit -m x a; git commit --amend");
    native("git commit -m x -i d/b; echo $?; git -c advice.resolveConflict=false commit -m x");
    native(
        "echo both >a && git commit -a -m merged && git cat-file commit HEAD && git status --short && ls .git",
    );
}

/// Git commits the file that the link leads to. sapwood used to commit a deletion.
#[test]
fn a_path_behind_a_link_is_refused() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("d/f", "one\n");
    repo.commit("one");
    std::fs::rename(repo.join("d"), repo.join("e")).expect("renamed");
    repo.symlink("e", "d");
    repo.write("e/f", "two\n");
    let head = repo.git(&["rev-parse", "HEAD"]).stdout;
    let refused = repo.run(crate::SAPWOOD.as_ref(), &["commit", "-m", "two", "--", "d/f"]);
    assert_eq!(refused.code, 128, "{}", refused.stderr);
    assert_eq!(refused.stderr, "fatal: 'd/f' is beyond a symbolic link\n");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, head);
    assert_eq!(repo.git(&["ls-files"]).stdout, "d/f\n");
}
