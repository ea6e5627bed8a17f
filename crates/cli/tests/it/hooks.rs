//! Hooks: the time and the arguments of each call. Configured hooks run before the hook in the
//! hooks directory.

use std::{ffi::OsStr, path::Path};

use testkit::{Oracle, Repo, Sandbox};

use crate::SAPWOOD;

/// Installs hooks that print their arguments. The standard error of the command shows the stream
/// that they print to.
fn hooked(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.write("dir/b", "1\n");
    repo.commit("first");
    repo.git(&["branch", "topic"]);
    repo.write("a", "2\n");
    repo.commit("second");
    for event in ["post-index-change", "post-checkout"] {
        let hook = format!(
            "#!/bin/sh\necho \"{event} $* in ${{PWD##*/}} from '$GIT_PREFIX'\"\ngit ls-files -s | wc -l\n"
        );
        repo.write_executable(format!(".git/hooks/{event}"), hook);
    }
}

const CALLS: &[&[&str]] = &[
    &["switch", "topic"],
    &["switch", "-c", "new"],
    &["checkout", "main"],
    &["checkout", "topic", "--", "a"],
    &["checkout", "--", "a"],
    &["restore", "--source=HEAD~1", "a"],
    &["restore", "--staged", "a"],
    &["reset"],
    &["reset", "--", "a"],
    &["reset", "--soft", "HEAD~1"],
    &["reset", "--hard", "topic"],
    &["reset", "--keep", "main"],
    &["checkout", "--detach"],
    &["checkout", "nowhere"],
];

#[test]
fn runs_hooks_of_the_hooks_directory() {
    let oracle = Oracle::new(SAPWOOD, hooked);
    for args in CALLS {
        oracle.same(args);
    }
    oracle.same_in("dir", &["reset", "--hard"]);
    // A hook that fails changes only the exit code of a checkout.
    oracle.both(|repo| {
        for event in ["post-index-change", "post-checkout"] {
            repo.write_executable(format!(".git/hooks/{event}"), "#!/bin/sh\nexit 7\n");
        }
    });
    oracle.same(&["switch", "main"]);
    oracle.same(&["reset", "--hard", "topic"]);
}

#[test]
fn runs_hooks_of_the_configuration() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        hooked(repo);
        for (name, value) in [
            ("hook.one.event", "post-checkout"),
            ("hook.one.command", "echo one; printf '<%s>\\n'"),
            ("hook.two.event", "post-index-change"),
            ("hook.two.command", "echo"),
            ("hook.three.event", "pre-commit"),
            ("hook.three.command", "false"),
        ] {
            repo.git(&["config", name, value]);
        }
    });
    for args in CALLS {
        oracle.same(args);
    }
    oracle.both(|repo| drop(repo.git(&["config", "hook.one.enabled", "false"])));
    oracle.same(&["switch", "topic"]);
    oracle.both(|repo| drop(repo.git(&["config", "hook.post-index-change.enabled", "false"])));
    oracle.same(&["switch", "main"]);
}

/// A hook that writes its arguments and the repository variables that Git sets to `$HOME/calls`.
const WITNESS: &str = "#!/bin/sh
{
    echo \"== ${0##*/} $*\"; pwd; readlink /proc/self/fd/0 | sed s/:.*//
    env | grep '^GIT_\\(DIR\\|WORK_TREE\\|IMPLICIT_WORK_TREE\\|PREFIX\\|COMMON_DIR\\|INDEX_FILE\\|CONFIG_PARAMETERS\\)=' | sort
} >>\"$HOME/calls\"
case ${0##*/} in smudge) exec cat ;; esac
echo \"out of $0\"; echo \"err of $0\" >&2
";

/// Creates a repository whose branches `main` and `topic` differ. `../linked` is a worktree,
/// `../bare.git` a bare clone, and `../template` holds the hooks.
fn witnessed(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.write("dir/b", "1\n");
    repo.commit("first");
    for branch in ["topic", "linked"] {
        repo.git(&["branch", branch]);
    }
    repo.write("a", "2\n");
    repo.write("dir/b", "2\n");
    repo.commit("second");
    repo.git(&["worktree", "add", "-q", "../linked", "linked"]);
    repo.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    repo.write_executable("../smudge", WITNESS);
    for event in ["post-index-change", "post-checkout"] {
        for dir in [".git/hooks", "../bare.git/hooks", "../template/hooks"] {
            repo.write_executable(format!("{dir}/{event}"), WITNESS);
        }
    }
}

/// Pairs of a script that prepares the repository and a command line, in which `$G` is Git.
const SURROUNDINGS: &[(&str, &str)] = &[
    ("", "$G switch topic"),
    ("", "cd dir; $G switch topic"),
    ("", "cd dir; $G checkout HEAD^ -- b"),
    ("", "cd ..; $G -C repo/dir switch topic"),
    ("", "cd ..; $G --git-dir=repo/.git --work-tree=repo switch topic"),
    ("", "GIT_DIR=.git $G switch topic"),
    ("", "cd dir; GIT_DIR=../.git GIT_WORK_TREE=.. $G switch topic"),
    ("", "cd dir; GIT_DIR=../.git $G read-tree topic"),
    ("", "cd dir; GIT_WORK_TREE=.. $G switch topic"),
    ("", "GIT_DIR=$PWD/.git $G switch topic"),
    ("", "GIT_PREFIX=foo/ $G switch topic"),
    ("", "$G -c a.b=c -c a.d switch topic"),
    ("", "cd ../linked/dir; $G switch topic"),
    ("", "cd .git; $G --work-tree=.. switch topic"),
    ("git config core.worktree \"$PWD\"", "cd dir; $G switch topic"),
    ("git config core.bare true", "cd dir; $G read-tree topic"),
    ("", "cd ../bare.git; $G read-tree topic"),
    ("", "cd ../bare.git/refs; $G read-tree topic"),
    ("", "cd dir; $G worktree add ../../new topic"),
    ("", "cd ../linked/dir; $G worktree add --detach ../../new"),
    ("", "cd ../bare.git; $G worktree add ../new topic"),
    ("", "cd ..; GIT_DIR=repo/.git GIT_WORK_TREE=repo $G worktree add new topic"),
    ("", "cd dir; $G clone -q --template=../../template .. ../../new"),
    ("", "cd ..; GIT_PREFIX=x/ $G clone -q --template=template repo new"),
    ("", "cd ..; GIT_WORK_TREE=tree $G clone -q --template=template repo new"),
    ("git config core.hooksPath hk; cp -r .git/hooks hk", "cd dir; $G switch topic"),
    ("git config core.hooksPath hk; cp -r .git/hooks hk", "$G worktree add ../new topic"),
    ("echo '* filter=f' >.git/info/attributes", "cd dir; $G -c filter.f.smudge=../smudge switch topic"),
    (
        "echo '* filter=f' >.git/info/attributes",
        "cd ..; GIT_DIR=repo/.git GIT_WORK_TREE=repo $G -c filter.f.smudge=../smudge switch topic",
    ),
    ("chmod -x .git/hooks/*", "cd dir; $G switch topic"),
    ("chmod -x .git/hooks/*", "$G worktree add ../new topic"),
    ("rm .git/hooks/post-checkout; mkdir .git/hooks/post-checkout", "$G switch topic"),
    ("echo '#!/no/such' >.git/hooks/post-checkout", "$G switch topic"),
    ("echo '#!/no/such' >.git/hooks/post-checkout", "$G worktree add ../new topic"),
    ("echo 'echo by $0 \"$@\"' >.git/hooks/post-checkout", "$G switch topic"),
    ("printf '#!/bin/sh\\nkill -9 $$\\n' >.git/hooks/post-checkout", "$G switch topic"),
    ("printf '#!/bin/sh\\nkill -INT $$\\n' >.git/hooks/post-checkout", "$G switch topic"),
    ("printf '#!/bin/sh\\nkill -TERM $$\\n' >.git/hooks/post-checkout", "$G worktree add ../new topic"),
    ("printf '#!/bin/sh\\nkill -TERM $$\\n' >.git/hooks/post-index-change", "$G switch topic"),
    (
        "printf '#!/bin/sh\\nkill -TERM $$\\n' >../template/hooks/post-checkout",
        "cd ..; $G clone -q --template=template repo new",
    ),
    ("git config hook.h.event post-checkout; git config hook.h.command /no/such", "$G switch topic"),
    ("git config hook.h.event post-checkout; git config hook.h.command no-such", "$G switch topic"),
    ("git config hook.h.event post-checkout; git config hook.h.command 'kill -9 $$'", "$G switch topic"),
    ("git config core.fsmonitor 'kill -9 $$;'; git update-index --fsmonitor", "$G status --porcelain"),
];

#[test]
fn runs_hooks_in_the_same_environment_as_git() {
    let sandbox = Sandbox::new();
    let git = sandbox.repo("").git_command().get_program().to_owned();
    let sh = Path::new("/bin/sh");
    let mut calls = 0;
    for (before, line) in SURROUNDINGS {
        let answer = |program: &OsStr| {
            let repo = sandbox.init("place/repo");
            witnessed(&repo);
            assert_eq!(repo.run(sh, &["-c", before]).code, 0, "{before}");
            let home = sandbox.path().join("home");
            std::fs::remove_file(home.join("calls")).ok();
            let run = repo.run(sh, &["-c", &format!("G='{}'\n{line}", Path::new(program).display())]);
            let called = std::fs::read_to_string(home.join("calls")).unwrap_or_default();
            sandbox.repo("").remove("place");
            (run.code, run.stdout.to_string(), run.stderr.to_string().replace("sapwood", "git"), called)
        };
        let (theirs, ours) = (answer(&git), answer(OsStr::new(SAPWOOD)));
        assert_eq!(theirs, ours, "{before}; {line}: git left, ours right");
        calls += ours.3.matches("== ").count();
    }
    assert!(calls > 40, "{calls} calls");
}
