//! Commands that change several names of one file. Each removal of a name changes the file's ctime.

use crate::scripted::Scripted;

const SETUP: &str = "
    mkdir d && echo a >t1 && echo a >t2 && echo a >d/t3 && echo i >.gitignore && git add . &&
    git commit -q -m one && git branch same && git switch -q -c other && git rm -q t1 d/t3 && echo b >t2 &&
    git commit -q -a -m two && git switch -q main";

/// Makes all names of tracked files hard links of one file.
const LINK: &str = "ln -f t1 t2; mkdir -p d; ln -f t1 d/t3; git update-index -q --refresh;";

#[test]
fn all_names_of_a_file_are_changed() {
    for line in [
        "echo b >>t1; git stash -q",
        "echo b >>t1; git stash -q -- t1 d",
        "echo b >>t1; git add t1; git stash -q --keep-index",
        "echo b >>t1; git stash -q; git status --porcelain; git stash pop -q",
        "echo b >>t1; ln t1 u1; ln t1 u2; git stash -q -u; ls; git stash pop -q",
        "echo b >>t1; ln t1 u1; git stash -q -u -- t1 u1",
        "git rm -q t1 t2 d/t3",
        "git rm -q -r d t1",
        "git switch -q other",
        "ln t1 i; git switch -q other",
        "git rm -q --cached t2; git checkout -q other; git reset -q --hard",
        "git reset -q --keep other",
        "git reset -q --hard other",
        "git checkout -q other -- .",
        "git sparse-checkout set --no-cone /t2 2>&1",
        "git mv t1 n1; git mv t2 n2",
        "ln t1 u1; ln t1 u2; git clean -fdq",
        "git worktree add -q ../tree same; ln -f ../tree/t1 ../tree/t2; git worktree remove ../tree",
    ] {
        let both = Scripted::new(SETUP);
        both.same(&format!(
            "{LINK} {line} 2>&1; echo $?; git status --porcelain; cat t1 t2 d/t3 u1 u2 2>/dev/null"
        ));
    }
}
