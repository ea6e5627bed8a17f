//! `mktree` compared with Git.

use crate::scripted::Scripted;

const SETUP: &str = "
    mkdir -p d && echo 1 >a && echo 2 >d/b && echo 3 >d.c && git add . && git commit -q -m one";

#[test]
fn makes_what_git_makes() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("mktree", line);
    native("git ls-tree HEAD | sort -r | git mktree; git ls-tree -z HEAD | git mktree -z");
    native("git mktree </dev/null; git mktree --batch </dev/null");
    native("(git ls-tree HEAD; echo; git ls-tree HEAD:d; echo; echo; git ls-tree HEAD) | git mktree --batch");
    native("(git ls-tree HEAD; echo; git ls-tree HEAD:d; echo) | git mktree --batch");
    native("printf '160000 commit 1234567890123456789012345678901234567890\\tsub\\n' | git mktree");
    native("printf '100664 blob %s\\tmode\\n' $(git rev-parse HEAD:a) | git mktree | xargs git ls-tree");
    native(
        "printf '100644 blob %s\\t\"q\\\\tuote\"\\n' $(git rev-parse HEAD:a) | git mktree | xargs git ls-tree",
    );
    native("printf '100644 blob 1234567890123456789012345678901234567890\\tx\\n' | git mktree --missing");
}

#[test]
fn refuses_what_git_refuses() {
    let both = Scripted::new(SETUP);
    let native = |line: &str| both.native("mktree", line);
    let a = "$(git rev-parse HEAD:a)";
    for line in [
        "nonsense".to_owned(),
        format!("100644 blob {a}"),
        format!("100644 blob {a} x"),
        format!("100644 blob {a}\\ta/b"),
        format!("100644 tree {a}\\tx"),
        format!("040000 tree {a}\\tx"),
        format!("100644 blub {a}\\tx"),
        format!("100644 blob {a}\\t\"x"),
        "100644 blob 1234567890123456789012345678901234567890\\tx".to_owned(),
        "8 blob 1234\\tx".to_owned(),
        String::new(),
    ] {
        native(&format!(
            "printf \"%b\\n\" '{}' | git mktree",
            line.replace("$(git rev-parse HEAD:a)", &format!("'{a}'"))
        ));
    }
    native("(git ls-tree HEAD; echo; echo nonsense) | git mktree --batch");
}
