//! Hooks of commits: their arguments, variables and input, and what they may change.

use testkit::{Sandbox, costs};

use super::after;
use crate::SAPWOOD;

/// Installs hooks that print their arguments and environment.
fn telling() -> String {
    let mut script = String::from("git add a && mkdir -p .git/hooks");
    for name in ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-rewrite"] {
        script += &format!(
            " && printf '#!/bin/sh\\n{{ echo {name} \"$@\"; env | grep -E \"^GIT_(AUTHOR|EDITOR|INDEX|DIR|PREFIX|WORK)\" | \
             sed \"s/next-index-[0-9]*/next-index/\" | sort; pwd; cat; }} >>\"$(git rev-parse --git-dir)/../told\"\\n' \
             >.git/hooks/{name} && chmod +x .git/hooks/{name}"
        );
    }
    script + " && echo told >.git/info/exclude"
}

#[test]
fn hooks_get_the_same_arguments_and_variables_as_from_git() {
    let both = after(&telling());
    let native =
        |line: &str| both.native("commit", &format!("{line}; sed \"s,$PWD,<here>,\" told; rm -f told"));
    native("git commit -m two");
    native("git commit -a -m three");
    native("echo 9 >a && git commit -m four a");
    native("git commit --amend --no-edit");
    native("EDITOR=true git commit --amend");
    native("git commit --allow-empty -n -q -m five");
    native("git commit --allow-empty -C HEAD~1 --no-post-rewrite --amend");
    native("echo 8 >d/b; cd d && git commit -F b b; cd ..");
    native("git commit --allow-empty --fixup HEAD; echo t >t; EDITOR=true git commit --allow-empty -t t");
}

#[test]
fn obeys_hooks() {
    for name in ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"] {
        let both = after(&format!(
            "git add a && mkdir -p .git/hooks && printf '#!/bin/sh\\necho out; echo err >&2; exit 1\\n' >.git/hooks/{name} &&
             chmod +x .git/hooks/{name}"
        ));
        let native = |line: &str| both.native("commit", line);
        native("git commit -m two; echo $?; git status --short; ls .git");
        native("git commit -a -m two; echo $?; git status --short; git commit -n -m two; echo $?");
        native("echo 8 >c; git commit -m two c; echo $?; git status --short; ls .git");
    }
}

#[test]
fn checks_for_changes_before_pre_commit_runs() {
    let hook = |line: &str| {
        format!(
            "mkdir -p .git/hooks && printf '#!/bin/sh\\n{line}\\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit"
        )
    };
    let both = after(&hook("git add a"));
    let native = |line: &str| both.native("commit", line);
    native("git commit -m two; echo $?; git status --short; git log --oneline | wc -l");
    let both = after(&format!("git add a && {}", hook("git reset -q")));
    let native = |line: &str| both.native("commit", line);
    native("git commit -m two; echo $?; git status --short; git log --oneline | wc -l");
    native("git add a; EDITOR='sed -i 1s/^/three/' git commit; echo $?; git log --oneline | wc -l");
}

#[test]
fn takes_what_hooks_change() {
    let hook = "mkdir -p .git/hooks && printf '#!/bin/sh\\necho hooked >a; git add a new\\n' >.git/hooks/pre-commit &&
                chmod +x .git/hooks/pre-commit";
    let both = after(&format!("git add a && {hook}"));
    let native = |line: &str| both.native("commit", line);
    native("git commit -m two && git ls-tree -r HEAD && git status --short && git ls-files -s");
    native(
        "echo 7 >d/b && rm new && git commit -a -m three; git ls-tree -r HEAD; git status --short; git ls-files -s",
    );
    native("echo 8 >d/b && git commit -m four d/b; git ls-tree -r HEAD; git status --short; git ls-files -s");
    native(
        "printf '#!/bin/sh\\necho changed >\"$1\"\\n' >.git/hooks/commit-msg; chmod +x .git/hooks/commit-msg; git commit --allow-empty -m five; git cat-file commit HEAD",
    );
    native(
        "printf '#!/bin/sh\\nrm \"$1\"\\n' >.git/hooks/commit-msg; git commit --allow-empty -m six; echo $?; git status --short",
    );
    native(
        "chmod -x .git/hooks/commit-msg; git commit --allow-empty -m seven; git -c core.hooksPath=/nowhere commit --allow-empty -m eight",
    );
}

#[test]
fn looks_for_each_hook_once() {
    testkit::need_program("strace");
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.git(&["add", "a"]);
    let mut command = repo.command(SAPWOOD.as_ref());
    command.args(["commit", "-q", "-m", "one"]);
    let Some(calls) = costs::system_calls(&command, |name| repo.command(name.as_ref())) else { return };
    assert_eq!(repo.git(&["log", "--format=%s"]).stdout, "one\n");
    for name in ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"] {
        let wanted = format!("hooks/{name}\"");
        let found: Vec<_> = calls.iter().filter(|call| call.contains(&wanted)).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
    }
}

#[test]
fn reports_an_ignored_hook_once() {
    for name in ["pre-commit", "prepare-commit-msg", "commit-msg", "post-commit"] {
        let both = after(&format!("git add a; mkdir -p .git/hooks; echo >.git/hooks/{name}"));
        both.native("commit", "git commit -m two");
        both.native("commit", "git commit -n -m three --allow-empty");
        both.native("commit", "EDITOR=true git commit --amend");
    }
}

/// A filter runs before Git looks for hooks.
#[test]
fn a_filter_may_install_a_hook() {
    let install =
        "cat; printf \"#!/bin/sh\\necho hook\\n\" >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit";
    let both = after(&format!(
        "mkdir -p .git/hooks; git config filter.x.clean '{install}'; echo 'a filter=x' >.git/info/attributes; echo 9 >a"
    ));
    both.native("commit", "git commit -a -m two");
}
