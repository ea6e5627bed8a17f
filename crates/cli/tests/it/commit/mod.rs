//! `commit` compared with Git: commits byte for byte, reflogs, output, and what hooks observe.

use crate::scripted::Scripted;

mod conclusions;
mod hooks;
mod messages;
mod paths;

const SETUP: &str = "
    mkdir d && echo 1 >a && echo 2 >d/b && echo 3 >c && git add . && git commit -q -m one &&
    echo 4 >a && echo 5 >d/b && echo 6 >new";

/// Creates two repositories and runs `SETUP` and another script in them.
fn after(script: &str) -> Scripted {
    Scripted::new(&format!("{SETUP} && {script}"))
}

const SHOW: &str =
    "git cat-file commit HEAD; cat .git/logs/HEAD; cat .git/COMMIT_EDITMSG; git status --short";

#[test]
fn commits_what_is_staged() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native("git commit -m two && git cat-file commit HEAD && cat .git/logs/HEAD .git/COMMIT_EDITMSG");
    native(
        "git commit -m three; git add new && git commit -q -m three -m 'a body' && git cat-file commit HEAD",
    );
    native("git commit -a -m four && git ls-tree -r HEAD && cat .git/logs/refs/heads/main");
    native("git rm -q c && git commit -m five && git mv a b && git commit -m six; git status --short");
    native("git commit --allow-empty -m seven && git commit --allow-empty --allow-empty-message -m ''");
    native("chmod +x b && git commit -am mode; ln -s b link && git add link && git commit -m link");
    native("git checkout -q --detach && echo 9 >b && git commit -am detached && cat .git/logs/HEAD");
}

#[test]
fn makes_the_first_commit() {
    let both = Scripted::new("echo 1 >a");
    let native = |line: &str| both.native("commit", line);
    native("git commit -m one; git commit --amend -m one; git commit -a -m one; echo $?");
    native("git add a && git commit -m one && git cat-file commit HEAD && cat .git/logs/HEAD");
    native("git checkout -q --orphan other && git commit -m two && cat .git/logs/HEAD");
    native("git commit --amend -m three && git cat-file commit HEAD");
}

#[test]
fn amends() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native("git commit --amend -m 'other words' && git cat-file commit HEAD && cat .git/logs/HEAD");
    native("git commit --amend --no-edit && git cat-file commit HEAD");
    native(
        "git commit --amend --no-edit -a --author='X Y <x@y>' --date='2001-02-03 04:05:06 +0100' && git cat-file commit HEAD",
    );
    native("git commit --amend --no-edit --reset-author && git cat-file commit HEAD");
    native(
        "echo 7 >a && git commit -q -a -m two && echo 4 >a && git commit --amend -a -m empty; git status --short",
    );
    native("git commit --amend --allow-empty -q -a -m empty; git status --short");
    native("EDITOR='sh -c \"cat \\$1; echo more >>\\$1\" -' git commit --amend && git cat-file commit HEAD");
    native(
        "wide=$(printf '\\343\\200\\200'); commit=$(printf \"$wide\\n\\nsubject\\n\" | GIT_AUTHOR_NAME=\"A$wide\" git commit-tree HEAD:); git reset -q --soft $commit; git commit --amend --no-edit --allow-empty; git cat-file commit HEAD",
    );
}

#[test]
fn dry_runs() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    for options in ["--dry-run", "--short", "--porcelain", "--long", "-z", "--short --branch", "--dry-run -a"]
    {
        native(&format!("git commit {options}; echo $?"));
    }
    native("git commit --dry-run --amend; git commit --short -uno; git commit --dry-run -uall d/b; echo $?");
    native("git reset -q && git commit --dry-run; echo $?; git commit -m x; git commit -m x -uno; echo $?");
    native("git commit --long -z; git commit --dry-run -a a; git commit --dry-run -o");
}

#[test]
fn refuses_what_git_refuses() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    for options in [
        "-C HEAD -c HEAD",
        "-m x -F y",
        "-C HEAD -F y --fixup HEAD",
        "--squash HEAD --fixup HEAD",
        "--reset-author -m x",
        "--author='a <b>' --reset-author --amend",
        "-i -o a",
        "-a -o a",
        "-a a",
        "-o -m x",
        "-i -m x",
        "-m x nothing",
        "-m x -i nothing",
        "-C nothing",
        "-F nothing",
        "-t nothing",
        "--cleanup=nonsense -m x",
        "-u nonsense -m x",
        "-m x -unonsense",
        "--fixup=wrong:HEAD",
        "--fixup=reword:HEAD -a",
        "--fixup=reword:HEAD a",
        "--fixup=amend:HEAD -m x",
        "--pathspec-file-nul -m x",
        "-m x --pathspec-from-file=nothing",
        "-m ''",
        "-m '  ' -s",
        "--trailer= -m x",
        "--trailer=:x -m x",
    ] {
        native(&format!("git commit {options}; echo $?"));
    }
}

#[test]
fn takes_authors_and_dates() {
    let both = after("true");
    let native = |line: &str| both.native("commit", line);
    native("git commit -am x --author='X Y <x@y>' && git cat-file commit HEAD");
    native("git commit --allow-empty -m x --date=@1234567890 && git cat-file commit HEAD");
    native(
        "git commit --allow-empty -m x --date='Thu, 07 Apr 2005 22:13:13 +0200'; git cat-file commit HEAD",
    );
    native("git commit --allow-empty -C HEAD~1 && git cat-file commit HEAD");
    native("git commit --allow-empty -C HEAD~1 --reset-author && git cat-file commit HEAD");
    native(
        "GIT_AUTHOR_NAME= git commit --allow-empty -m x; GIT_AUTHOR_DATE=never git commit --allow-empty -m x",
    );
    native(
        "unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL;
         git config user.useConfigOnly true; git commit --allow-empty -m x;
         git config user.name N; git config user.email m@n; git commit --allow-empty -m x; git cat-file commit HEAD",
    );
    both.handed_over("git commit --allow-empty -m x --author=Thor; git cat-file commit HEAD", "an author");
}

#[test]
fn hands_over_what_is_gits() {
    let both = after("git add a");
    both.handed_over("git commit -m x --date=yesterday --dry-run", "a date");
    both.handed_over("git -c core.commentChar=auto commit -m x", "core.commentchar");
    both.handed_over("git -c notes.rewriteRef=refs/notes/commits commit --amend -m y", "notes.rewriteref");
}

#[test]
fn works_from_a_directory_and_in_a_linked_worktree() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native("cd d && git commit -m two b && cd .. && git show --stat --format=%s && git status --short");
    native("echo text >d/file && cd d && git commit -a -F file && git cat-file commit HEAD");
    native(
        "cd d && echo 9 >b && GIT_DIR=../.git GIT_WORK_TREE=.. git commit -a -m three; cd .. && git status --short",
    );
    native(
        "git worktree add -q -b side ../linked && cd ../linked && echo 9 >c && git commit -am side && cat ../repo/.git/worktrees/linked/logs/HEAD",
    );
    native(SHOW.replace("git cat-file", "git commit --allow-empty -q -m last; git cat-file").as_str());
}
