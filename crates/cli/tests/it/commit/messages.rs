//! The sources of messages, and their cleaning.

use super::after;

/// An editor that shows the file and changes it.
const EDIT: &str = "EDITOR='sh -c \"cat \\$1; sed -i s/one/ONE/ \\$1\" -'; export EDITOR; ";

#[test]
fn edits_templates() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", &format!("{EDIT}{line}"));
    native("git commit; echo $?; git commit -m one -e && git cat-file commit HEAD");
    native("echo more >a && git commit -a --allow-empty-message; git cat-file commit HEAD");
    native(
        "echo text >template && git commit --allow-empty -t template; echo $?; git commit --allow-empty -c HEAD",
    );
    native("git -c commit.template=template commit --allow-empty --no-template; git cat-file commit HEAD");
    native(
        "git commit --allow-empty -m one -e --no-status; git -c commit.status=false commit --allow-empty -e -m one",
    );
    native("git commit --amend --author='X Y <x@y>' && git cat-file commit HEAD");
    native("git add new && git -c core.commentChar=';' commit -e -m one; git cat-file commit HEAD");
    native("git -c core.commentString=// commit --allow-empty -e -m one; git cat-file commit HEAD");
    native("git commit --allow-empty -e -m one -uno; git commit --allow-empty -e -m one -uall");
    native("git commit --allow-empty -e -m one --long; cd d && git commit --allow-empty -e -m one");
}

#[test]
fn shows_patches() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", &format!("{EDIT}{line}"));
    native("git commit -v -e -m one && git cat-file commit HEAD");
    native("git -c commit.verbose=true commit --amend && git cat-file commit HEAD");
    native("git commit --amend -v --cleanup=scissors && git cat-file commit HEAD");
    native("git add new && git commit -v -m 'two # x' && git cat-file commit HEAD");
    native("echo 9 >a && echo 9 >c && git add c && git commit -v -v --dry-run; git commit -v -v -e -m one");
    native(
        "git -c commit.verbose=2 commit --allow-empty -e -m one; git commit -v -v; git commit -v --dry-run",
    );
}

#[test]
fn fails_with_the_editor() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native("git commit; echo $?; EDITOR=false git commit; echo $?; EDITOR=/nonexistent git commit; echo $?");
    native("EDITOR=: git commit; echo $?; GIT_EDITOR='echo x >' git commit && git cat-file commit HEAD");
    native("git add new; VISUAL='echo y >' TERM=vt100 EDITOR=false git commit && git cat-file commit HEAD");
    native("git config core.editor 'echo z >' && git commit --allow-empty && git cat-file commit HEAD");
    native("GIT_EDITOR='rm' git commit --allow-empty; echo $?");
}

#[test]
fn cleans() {
    let both = after("git add a; printf '\\n\\n a  \\n\\n\\n# c\\nb\\n\\n' >text");
    let native = |line: &str| both.native("commit", line);
    for mode in ["strip", "whitespace", "verbatim", "scissors", "default"] {
        native(&format!(
            "git commit --allow-empty -F text --cleanup={mode} && git cat-file commit HEAD;
             {EDIT}git commit --allow-empty -e -F text --cleanup={mode} && git cat-file commit HEAD;
             git -c commit.cleanup={mode} commit --allow-empty -F text && git cat-file commit HEAD"
        ));
    }
    native(
        "printf 'a\\n# ------------------------ >8 ------------------------\\nb\\n' | git commit --allow-empty -F - --cleanup=scissors; git cat-file commit HEAD",
    );
    native("printf 'x\\0y' | git commit --allow-empty -F -; echo $?");
    native("printf 'h\\351llo\\n' | git commit --allow-empty -F -; git cat-file commit HEAD");
    native(
        "printf 'h\\351llo\\n' | git -c i18n.commitEncoding=ISO-8859-1 commit --allow-empty -F -; git cat-file commit HEAD",
    );
    native("git commit --amend --no-edit --allow-empty; git cat-file commit HEAD");
}

#[test]
fn signs_off_and_adds_trailers() {
    let both = after("git add a");
    let native = |line: &str| both.native("commit", line);
    native(
        "git commit -s -m one && git cat-file commit HEAD && git commit --amend -s --no-edit && git cat-file commit HEAD",
    );
    native("git commit --allow-empty -s -m 'two\n\nbody\n\nFixes: #1' && git cat-file commit HEAD");
    native(
        "git commit --allow-empty -s -m 'three: x' --trailer 'Acked-by: A <a@b>' && git cat-file commit HEAD",
    );
    native(
        "git commit --allow-empty -m 'four' --trailer 'Acked-by=A <a@b>' --trailer Tested-by:B && git cat-file commit HEAD",
    );
    native(&format!(
        "{EDIT}git commit --allow-empty -s; echo $?; git commit --allow-empty -s -e -m one; git cat-file commit HEAD"
    ));
}

#[test]
fn reuses_and_fixes_up() {
    let both = after("git add a && git commit -q -m 'amend! x' -m body && git add new");
    let native = |line: &str| both.native("commit", &format!("{EDIT}{line}"));
    native(
        "git commit --fixup HEAD && git cat-file commit HEAD && git commit --allow-empty --fixup=HEAD~1 -m more && git cat-file commit HEAD",
    );
    native("git commit --allow-empty --squash HEAD~1 -m more && git cat-file commit HEAD");
    native("git commit --allow-empty --squash HEAD~1; git cat-file commit HEAD");
    native(
        "git commit --allow-empty --squash HEAD -C HEAD; git cat-file commit HEAD; git commit --allow-empty --squash HEAD -C HEAD~2; git cat-file commit HEAD",
    );
    native(
        "git commit --fixup=amend:HEAD~3; echo $?; git commit --fixup=reword:HEAD; echo $?; git cat-file commit HEAD",
    );
    native(
        "git commit --allow-empty -C HEAD~2 && git cat-file commit HEAD; git commit --allow-empty -c HEAD~2 && git cat-file commit HEAD",
    );
}
