//! Commits that conclude a merge, a pick or a revert.

use super::after;

const EDIT: &str = "EDITOR='sh -c \"cat \\$1\" -'; export EDITOR; ";

fn sides() -> String {
    "git commit -q -am two && git branch side HEAD~1 && git checkout -q side && echo s >c && git commit -q -am side &&
     git checkout -q main".to_owned()
}

#[test]
fn merges() {
    let both = after(&format!("{} && git tag -a -m tagged annotated side", sides()));
    let native = |line: &str| both.native("commit", &format!("{EDIT}{line}"));
    native(
        "git merge -q --no-commit side; git commit && git cat-file commit HEAD && cat .git/logs/HEAD && ls .git",
    );
    native(
        "git reset -q --hard HEAD~1 && git merge -q --no-commit annotated; git commit -m tag && git cat-file commit HEAD && ls .git",
    );
    native(
        "git reset -q --hard HEAD~1; end=PGP\\ SIGNATURE-----; tag=$(printf \"object $(git rev-parse side)\\ntype commit\\ntag signed\\ntagger A <a@b> 1 +0000\\n\\none\\r\\n-----BEGIN $end\\r\\n\\r\\nabc\\r\\n-----END $end\\n\" | git hash-object -w -t tag --stdin); git update-ref refs/tags/signed $tag; git merge -q --no-commit signed; git commit -m tag; git cat-file commit HEAD | cat -v; git commit --amend -m again; git cat-file commit HEAD | cat -v",
    );
    native(
        "git reset -q --hard HEAD~1 && git merge -q --squash side; git commit && git cat-file commit HEAD && ls .git",
    );
    native(
        "git reset -q --hard side && git merge -q --no-ff --no-commit main; git commit --no-edit && git cat-file commit HEAD",
    );
    native(
        "git reset -q --hard side~1 && git merge -q --no-ff --no-commit side; git commit -q && git cat-file commit HEAD",
    );
    native(
        "git merge -q --no-commit main; git commit --amend; git commit -m x a; rm .git/MERGE_MSG; git commit; git merge --abort",
    );
    native(
        "git merge -q --no-commit main; echo nonsense >.git/MERGE_HEAD; git commit -m x; echo $?; ls .git",
    );
}

#[test]
fn picks_and_reverts() {
    let both = after(&sides());
    let native = |line: &str| both.native("commit", &format!("{EDIT}{line}"));
    native("git cherry-pick -n side && git commit -m picked && git cat-file commit HEAD && ls .git");
    native(
        "echo x >c && git commit -qam x; git cherry-pick side >/dev/null 2>&1; echo both >c; git commit -a && git cat-file commit HEAD && cat .git/logs/HEAD && ls .git",
    );
    native("git revert -n HEAD && git commit -m reverted && git cat-file commit HEAD && ls .git");
    native(
        "echo y >c && git commit -qam y; git revert HEAD~1 >/dev/null 2>&1; echo z >c; git commit -a && git cat-file commit HEAD && ls .git",
    );
    native(
        "git cherry-pick side side~1 >/dev/null 2>&1; git commit; git commit --amend; ls .git; git checkout -q -f HEAD c; git commit; echo $?; git commit --allow-empty; ls .git",
    );
}

#[test]
fn runs_rerere() {
    let both =
        after(&format!("{} && git config rerere.enabled true && echo x >c && git commit -q -am x", sides()));
    let native = |line: &str| both.native("commit", line);
    native(
        "git merge side >/dev/null 2>&1; echo both >c; git commit -a -m merged && ls .git .git/rr-cache/*",
    );
}
