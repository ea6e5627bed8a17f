//! `commit-tree` compared with Git.

use crate::scripted::Scripted;

const SETUP: &str = "
    echo 1 >a && git add . && git commit -q -m one && echo 2 >a && git commit -q -a -m two &&
    git tag -a -m tagged tag && printf 'from\\na file' >message";

#[test]
fn makes_what_git_makes() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("commit-tree", line);
    native("git commit-tree HEAD^{tree} -m one -m two -p HEAD -p HEAD^ | xargs git cat-file commit");
    native("echo text | git commit-tree HEAD: | xargs git cat-file commit");
    native("git commit-tree -F message -m x -F message HEAD^{tree} | xargs git cat-file commit");
    native("cat message | git commit-tree -F - HEAD^{tree} | xargs git cat-file commit");
    native("git commit-tree HEAD -m x -p HEAD -p HEAD");
    native("printf 'a\\351\\n' | git commit-tree HEAD^{tree} | xargs git cat-file commit");
    native(
        "printf 'a\\351\\n' | git -c i18n.commitEncoding=ISO-8859-1 commit-tree HEAD: | xargs git cat-file commit",
    );
    native(
        "GIT_AUTHOR_DATE='2005-04-07T22:13:13 +0200' git commit-tree HEAD: -m x | xargs git cat-file commit",
    );
    native("echo text | git commit-tree HEAD: -m '' | xargs git cat-file commit");
    native(
        "mkdir d; echo x >d/message; cd d; git commit-tree HEAD: -F message | xargs git cat-file commit; cd ..",
    );
    native("git commit-tree HEAD: -m x </dev/null; git commit-tree HEAD: </dev/null");
}

#[test]
fn refuses_what_git_refuses() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("commit-tree", line);
    native("git commit-tree; git commit-tree HEAD: HEAD: -m x; git commit-tree missing -m x");
    native("git commit-tree HEAD: -p missing -m x; git commit-tree HEAD: -p HEAD: -m x");
    native("git commit-tree HEAD: -p tag -m x; git commit-tree -F missing HEAD:");
    native("printf 'a\\0b' | git commit-tree HEAD:");
    native("GIT_AUTHOR_NAME= git commit-tree HEAD: -m x; GIT_AUTHOR_NAME=, git commit-tree HEAD: -m x");
    native("GIT_COMMITTER_DATE=never git commit-tree HEAD: -m x");
    native(
        "git config user.useConfigOnly true; unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL;
         git commit-tree HEAD: -m x; git config user.email a@b; git commit-tree HEAD: -m x;
         git config user.name '' ; git commit-tree HEAD: -m x",
    );
}
