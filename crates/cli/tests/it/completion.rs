//! Shell completion, tested with the real shells.

use std::{collections::BTreeSet, path::PathBuf, process::Command};

use testkit::{Repo, Sandbox, has_program};

use crate::SAPWOOD;

/// Returns PATH with the directory of the program under test in front.
fn path() -> String {
    let bin = PathBuf::from(SAPWOOD);
    let rest = std::env::var("PATH").expect("a PATH");
    format!("{}:{rest}", bin.parent().expect("a directory").display())
}

/// Creates a branch, a tag, a remote branch, a directory, a file, and a branch whose name is a
/// shell command.
fn repository<'s>(sandbox: &'s Sandbox) -> Repo<'s> {
    let repo = sandbox.init("repo");
    repo.write("some-file", "");
    repo.write("some dir/file", "");
    repo.commit("one");
    for args in [
        &["branch", "topic-one"][..],
        &["branch", "evil-$(touch${IFS}pwned)`touch${IFS}pwned`"],
        &["tag", "v1.0"],
        &["update-ref", "refs/remotes/origin/topic-two", "HEAD"],
        &["worktree", "add", "-q", "../linked"],
    ] {
        repo.git(args);
    }
    for name in ["space-one", "space-two"] {
        let made = repo.run(SAPWOOD.as_ref(), &["workspace", "create", "--backend", "copy", name]);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    repo
}

/// Writes the script of a shell, and returns its path.
fn script(repo: &Repo<'_>, shell: &str) -> PathBuf {
    let run = repo.run(SAPWOOD.as_ref(), &["completion", shell]);
    assert_eq!((run.code, run.stderr), (0, "".into()));
    repo.write(format!(".git/completion.{shell}"), run.stdout);
    repo.join(format!(".git/completion.{shell}"))
}

/// Runs a shell, and returns the lines that it prints.
fn lines(mut shell: Command) -> Vec<String> {
    let output = shell.env("PATH", path()).env("TERM", "dumb").output().expect("a shell");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Completes `line` with the function registered in bash for sapwood, split into words as by bash.
fn bash(repo: &Repo<'_>, line: &str) -> Vec<String> {
    const ASK: &str = r#"
        . "$1"
        [[ $(complete -p sapwood) =~ -F\ ([a-z_]+) ]] || exit 1
        COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDS=() COMP_CWORD=0
        while IFS= read -r word; do COMP_WORDS+=("$word"); done < <(
            sed 's/=/ = /g; s/ $/ \n/' <<<"$2" | tr -s ' ' '\n')
        [[ $2 == *' ' || $2 == *= ]] && [[ ${COMP_WORDS[-1]} ]] && [[ $2 != *= ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        "${BASH_REMATCH[1]}"
        [[ ${#COMPREPLY[@]} == 0 ]] || printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let script = script(repo, "bash");
    let mut shell = repo.command("bash".as_ref());
    shell.args(["--norc", "--noprofile", "-c", ASK, "ask"]).arg(script).arg(line);
    lines(shell)
}

/// Completes `line` as fish does. A description follows a tab.
fn fish(repo: &Repo<'_>, line: &str) -> Vec<String> {
    let script = script(repo, "fish");
    let mut shell = repo.command("fish".as_ref());
    shell.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]).arg(script).arg(line);
    lines(shell)
}

/// Completes `line` as zsh does. A description follows ` # `.
fn zsh(repo: &Repo<'_>, line: &str) -> Vec<String> {
    let script = script(repo, "zsh");
    let ask = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/completion/ask.zsh");
    let mut shell = repo.command("zsh".as_ref());
    shell.arg("-f").arg(ask).arg(script).arg(line);
    lines(shell)
}

/// Asserts that each line is completed to exactly these words. If the list ends with `...`, other
/// words may be offered too.
fn check(ask: impl Fn(&str) -> Vec<String>, cases: &[(&str, &[&str])]) {
    for (line, expected) in cases {
        let word = |line: &String| line.split(['\t', '#']).next().unwrap_or_default().trim().to_owned();
        let found: BTreeSet<String> = ask(line).iter().map(word).filter(|word| !word.is_empty()).collect();
        let wanted: BTreeSet<String> =
            expected.iter().filter(|word| **word != "...").map(|word| (*word).to_owned()).collect();
        match expected.last() {
            Some(&"...") => {
                assert!(wanted.is_subset(&found), "'{line}' gives {found:?}, not all of {wanted:?}")
            }
            _ => assert_eq!(found, wanted, "'{line}'"),
        }
    }
}

/// The completions that all three shells offer.
const CASES: &[(&str, &[&str])] = &[
    ("sapwood stat", &["status"]),
    ("sapwood ", &["status", "clone", "worktree", "completion", "..."]),
    ("sapwood nonsense", &[]),
    ("sapwood -C /tmp swi", &["switch"]),
    ("sapwood switch topic", &["topic-one", "topic-two"]),
    ("sapwood switch --tr", &["--track", "..."]),
    ("sapwood worktree re", &["remove", "repair"]),
    ("sapwood worktree add --lo", &["--lock"]),
    ("sapwood worktree add ../x v", &["v1.0"]),
    ("sapwood sparse-checkout set --no-", &["--no-cone", "--no-sparse-index", "..."]),
    ("sapwood restore --source v", &["v1.0"]),
    ("sapwood completion ", &["bash", "zsh", "fish"]),
    ("sapwood shim ", &["install", "status", "remove"]),
    ("sapwood help cou", &["count-objects"]),
    ("sapwood workspace remove ", &["space-one", "space-two"]),
    ("sapwood workspace remove space-one sp", &["space-one", "space-two"]),
    ("sapwood workspace exec space-o", &["space-one"]),
    ("sapwood workspace rebase space-o", &["space-one"]),
    ("sapwood workspace rebase space-one v", &["v1.0"]),
    ("sapwood -C ../linked workspace enter s", &["space-one", "space-two"]),
    ("sapwood clone --recurse-s", &["--recurse-submodules", "..."]),
];

#[test]
fn bash_completes() {
    if !has_program("bash") {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    check(|line| bash(&repo, line), CASES);
    let linked = sandbox.path().join("linked").display().to_string();
    check(
        |line| bash(&repo, line),
        &[
            ("sapwood switch --track=di", &["direct"]),
            ("sapwood switch --track=", &["direct", "inherit"]),
            ("sapwood status --untracked-files=", &["all", "normal", "no"]),
            ("sapwood restore --source=v", &["v1.0"]),
            // Without a completion bash offers files.
            ("sapwood checkout some", &[]),
            ("sapwood checkout -- topic", &[]),
            ("sapwood worktree remove /", &[&linked, "..."]),
            ("sapwood -C ../linked switch topic", &["topic-one", "topic-two"]),
        ],
    );
    let evil = bash(&repo, "sapwood switch ev");
    assert_eq!(evil, [r"evil-\$\(touch\$\{IFS\}pwned\)\`touch\$\{IFS\}pwned\`"]);
    assert!(!repo.exists("pwned"));
}

/// bash on a terminal calls the function itself: tests the TAB key, and the resulting line.
#[test]
fn bash_completes_on_a_terminal() {
    if !has_program("bash") || !has_program("script") {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let file = script(&repo, "bash");
    // A shell function replaces sapwood and records its arguments.
    let rc = format!(
        ". '{}'\nPS1='$ ' PROMPT_COMMAND='touch .git/ready'\nbind 'set enable-bracketed-paste off'\n\
         sapwood() {{ printf '<%s>' \"$@\" >.git/called; }}\n",
        file.display()
    );
    repo.write(".git/rc", rc);
    // The shell ignores keys that arrive before it reads input.
    const TYPE: &str = r#"{
        until [ -e .git/ready ]; do sleep 0.1; done
        for keys in 'sapwood swi\t' 'topic-o\t' '--track=inh\t' '\nexit\n'; do sleep 1; printf '%b' "$keys"; done
    } | script -qec 'bash --noprofile --rcfile .git/rc -i' /dev/null"#;
    let mut shell = repo.command("sh".as_ref());
    shell.args(["-c", TYPE]);
    shell.env("PATH", path()).env("TERM", "dumb").output().expect("a terminal");
    assert_eq!(repo.read(".git/called"), "<switch><topic-one><--track=inherit>");
}

#[test]
fn fish_completes() {
    if !has_program("fish") {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    check(|line| fish(&repo, line), CASES);
    let linked = sandbox.path().join("linked").display().to_string();
    check(
        |line| fish(&repo, line),
        &[
            ("sapwood switch --track=", &["--track=direct", "--track=inherit"]),
            ("sapwood checkout some", &["some dir/", "some-file"]),
            ("sapwood sparse-checkout set so", &["some dir/"]),
            ("sapwood worktree remove ", &[&linked, "..."]),
            ("sapwood -C ../linked switch topic", &["topic-one", "topic-two"]),
        ],
    );
    assert_eq!(fish(&repo, "sapwood stat"), ["status\tShow the working tree status"]);
    assert_eq!(fish(&repo, "sapwood clone --dep"), ["--depth\tcreate a shallow clone of that depth"]);
    assert!(!repo.exists("pwned"));
}

#[test]
fn zsh_completes() {
    if !has_program("zsh") {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    check(|line| zsh(&repo, line), CASES);
    let linked = sandbox.path().join("linked").display().to_string();
    check(
        |line| zsh(&repo, line),
        &[
            ("sapwood switch --track=", &["direct", "inherit"]),
            ("sapwood checkout some", &[r"some\ dir", "some-file"]),
            ("sapwood sparse-checkout set so", &[r"some\ dir"]),
            ("sapwood checkout -- some-", &["some-file"]),
            ("sapwood worktree remove ", &[&linked, "..."]),
            ("sapwood -C ../linked switch topic", &["topic-one", "topic-two"]),
        ],
    );
    let described = zsh(&repo, "sapwood clone --dep");
    assert!(described[0].ends_with("create a shallow clone of that depth"), "{described:?}");
    assert!(!repo.exists("pwned"));
}

/// The file of a package on fpath is loaded on first use.
#[test]
fn zsh_loads_the_function_from_fpath() {
    if !has_program("zsh") {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let file = script(&repo, "zsh");
    repo.write(".git/functions/_sapwood", std::fs::read(file).expect("the script"));
    repo.write(".git/rc", "fpath=($PWD/.git/functions $fpath); compinit -D -u\n");
    let ask = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/completion/ask.zsh");
    let mut shell = repo.command("zsh".as_ref());
    shell.arg("-f").arg(ask).arg(repo.join(".git/rc")).arg("sapwood stat");
    assert_eq!(lines(shell), ["status # status  -- Show the working tree status"]);
}

#[test]
fn unknown_shells_are_refused() {
    let sandbox = Sandbox::new();
    let run = sandbox.repo("").run(SAPWOOD.as_ref(), &["completion", "csh"]);
    assert_eq!(run.code, 129);
    assert!(run.stdout.is_empty());
}
