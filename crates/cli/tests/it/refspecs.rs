//! Refspecs that decide which ref a branch follows.

use crate::scripted::Scripted;

const SETUP: &str = "
    git init -q -b main ../source && cd ../source && echo 1 >f && git add f && git commit -q -m one &&
    git branch x && git branch y && cd - && git remote add origin ../source && git fetch -q &&
    git switch -q -c x origin/x 2>/dev/null && git commit -q --allow-empty -m mine";

#[test]
fn negative_refspecs_have_gits_effect() {
    for added in [
        "remote.origin.fetch=^refs/heads/x",
        "remote.origin.fetch=^refs/heads/*",
        "remote.origin.fetch=^refs/remotes/origin/x",
        "remote.origin.fetch=^refs/heads/y",
    ] {
        for specs in ["", "git config remote.origin.fetch refs/heads/x:refs/remotes/origin/x;"] {
            let both = Scripted::new(SETUP);
            let (key, value) = added.split_once('=').expect("a value");
            both.same(&format!("{specs} git config --add {key} '{value}'"));
            for line in [
                "git status -sb",
                "git status",
                "git rev-parse --symbolic-full-name @{u} @{push}",
                "git for-each-ref --format='%(refname) %(upstream) %(push) %(upstream:track)' refs/heads",
                "git switch -c t origin/x; git config --get-regexp 'branch.t.*'; git switch -q x",
                "git checkout -b t2 origin/y; git config --get-regexp 'branch.t2.*'; git switch -q x",
                "git switch --track -c t3 origin/x; git switch -q x",
                "git branch -q -D t2; git switch y; git switch -q x",
                "git -c push.default=current rev-parse --symbolic-full-name x@{push}",
                "git fetch -q --prune; git for-each-ref refs/remotes",
            ] {
                both.same(&format!("{line} 2>&1"));
            }
        }
    }
}
