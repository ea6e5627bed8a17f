//! All that sapwood writes is readable by the Gits that users have: Debian's, or those that
//! `SAPWOOD_TEST_OLD_GITS` lists (`.ci/old-gits` brings some). Each answers as the oracle does, and
//! can go on from there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bstr::BString;
use testkit::{Repo, Sandbox, disk::NoMountsBelow};

use crate::{SAPWOOD, bounded};

/// Steps that write one format, in a repository with some commits, and a number that is the oldest
/// version of Git with the format: (2, minor). `S` is sapwood.
const WRITTEN: &[(&str, &str, u32)] = &[
    ("index, version 2", "S add -A; S rm -q --cached dir/b; echo x >>a", 0),
    (
        "index, version 4",
        "git config index.version 4; git update-index --index-version 4; S add new; S reset -q",
        0,
    ),
    (
        "cache tree and resolve undo",
        "S add -A; S commit -q -m two; S reset -q --hard HEAD~1; S status >/dev/null",
        0,
    ),
    (
        "untracked cache",
        "git update-index --untracked-cache; S status >/dev/null; touch other; S add dir; S status >/dev/null",
        0,
    ),
    (
        "split index",
        "git config core.splitIndex true; git update-index --split-index; S add new; S status >/dev/null",
        0,
    ),
    ("end of entries and offsets", "git config index.threads 4; S add new; S add -A", 20),
    (
        "sparse index",
        "S sparse-checkout set --cone dir; git config index.sparse true; S sparse-checkout reapply; S add a",
        37,
    ),
    ("sparse patterns", "S sparse-checkout set --no-cone '/dir/*' '!/dir/b'; S status >/dev/null", 37),
    ("loose objects", "git config sapwood.packOnAdd false; S add -A; S commit -q -m two", 0),
    ("a pack of add", "git config sapwood.packOnAdd true; S add -A; S commit -q -m two", 0),
    (
        "a pack that arrives",
        "git pack-objects -q --all --stdout </dev/null >../a.pack; S index-pack ../a.pack; S index-pack --stdin <../a.pack",
        0,
    ),
    (
        "multi-pack-index",
        "git repack -q; S add -A; S commit -q -m two; git repack -q; S multi-pack-index write",
        21,
    ),
    ("commit-graph", "S add -A; S commit -q -m two; S commit-graph write --reachable --changed-paths", 27),
    (
        "refs and reflogs",
        "S switch -q -c topic; S add -A; S commit -q -m two; S switch -q main; S update-ref refs/x/y HEAD",
        0,
    ),
    ("symbolic and detached", "S switch -q --detach; S symbolic-ref refs/heads/s refs/heads/main", 0),
    ("stash", "S stash push -q -u; S stash apply -q; S stash push -q", 0),
    (
        "checkpoints",
        "S checkpoint -m one >/dev/null; echo z >>a; S checkpoint -m two >/dev/null; S undo >/dev/null",
        0,
    ),
    (
        "configuration",
        "S config set a.b 'x # \"y\"'; S config --add a.b z; S config set 'sub.A b.c' 1; S config unset --value=z a.b",
        0,
    ),
    (
        "a linked worktree",
        "S worktree add -q ../linked -b linked; cd ../linked; echo x >>a; S add -A; S commit -q -m two",
        0,
    ),
    (
        "a moved worktree",
        "S worktree add -q ../linked; S worktree move ../linked ../moved; S worktree lock ../moved",
        0,
    ),
    (
        "a workspace that copies",
        "S workspace create -q --backend copy made; cd \"$(S workspace dir made)\"; echo x >>a; S add -A; S commit -q -m two",
        0,
    ),
    (
        "a workspace",
        "S workspace create -q made; cd \"$(S workspace dir made)\"; echo x >>a; S add -A; S commit -q -m two; \
         S status >/dev/null",
        0,
    ),
    (
        "a sealed workspace",
        "S workspace create -q --sealed made; cd \"$(S workspace dir made)\"; echo x >>a; S add -A; S commit -q -m two",
        0,
    ),
    ("a clone", "S add -A; S commit -q -m two; S clone -q . ../made; cd ../made; echo x >>a; S add a", 0),
    (
        "a shallow clone",
        "S add -A; S commit -q -m two; S clone -q --depth 1 \"file://$PWD\" ../made; cd ../made",
        0,
    ),
    ("a bare clone", "S clone -q --bare . ../made; cd ../made", 0),
    ("a shared clone", "S clone -q --shared . ../made; cd ../made; S status >/dev/null", 0),
    (
        "a fetch",
        "S clone -q . ../made; S add -A; S commit -q -m two; cd ../made; S fetch -q; S pull -q --ff-only",
        0,
    ),
    ("a new repository", "S init -q ../made; cd ../made; echo x >a; S add a; S commit -q -m one", 0),
    ("a job's checkout", "S ci checkout -q --ref=main --path=../made \"file://$PWD\"; cd ../made", 0),
    (
        "submodules",
        "S -c protocol.file.allow=always submodule add -q \"file://$PWD\" sub 2>/dev/null || \
       git -c protocol.file.allow=always submodule add -q \"file://$PWD\" sub; S commit -q -m sub; \
       git -c protocol.file.allow=always clone -q . ../made; cd ../made; \
       S -c protocol.file.allow=always submodule update -q --init",
        0,
    ),
];

/// The questions to each Git. They change nothing but stat data.
const QUESTIONS: &[&[&str]] = &[
    &["fsck", "--strict", "--no-dangling"],
    &["status", "--porcelain=v2", "--branch"],
    &["ls-files", "--stage", "-t"],
    &["log", "--all", "--format=%H %s", "--", "a"],
    &["for-each-ref"],
    &["reflog", "show", "--format=%gs"],
    &["diff", "HEAD", "--raw"],
    &["cat-file", "--batch-check", "--batch-all-objects"],
    &["config", "--list", "--local"],
    &["worktree", "list", "--porcelain"],
    &["stash", "list"],
    &["count-objects", "-v"],
];

/// Returns the Gits that are older than the oracle, and their versions.
fn old_gits() -> Vec<(PathBuf, (u32, u32))> {
    let given = std::env::var_os("SAPWOOD_TEST_OLD_GITS").unwrap_or_else(|| "/usr/bin/git".into());
    let oracle = Sandbox::new().git_version();
    let version = |path: &Path| {
        let output = Command::new(path).arg("version").output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let mut numbers = text.split(' ').nth(2)?.split('.').map(|number| number.trim().parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    let all = std::env::split_paths(&given).filter_map(|path| Some((version(&path)?, path)));
    all.filter(|(version, _)| *version < oracle).map(|(version, path)| (path, version)).collect()
}

/// A repository with two commits, and something to add.
fn repository(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    for number in 0..20 {
        repo.write(format!("many/file{number}"), format!("{number}\n"));
    }
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("zero");
    repo.write("a", "1\n2\n");
    repo.commit("one");
    repo.write("new", "3\n");
    repo.write("dir/c", "4\n");
    repo
}

/// Runs a script with the oracle as `git`. Returns the directory in which it ended.
fn steps(repo: &Repo<'_>, script: &str) -> PathBuf {
    let script = format!(
        "S() {{ {SAPWOOD} \"$@\"; }}; {script}; pwd >'{}'",
        repo.path.with_extension("end").display()
    );
    let output = repo.command("sh".as_ref()).args(["-ec", &script]).output().expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    let end = fs::read_to_string(repo.path.with_extension("end")).expect("it was written");
    end.trim().into()
}

/// Runs a Git. Its own directory comes first in `PATH`.
fn ask(repo: &Repo<'_>, git: &Path, at: &Path, args: &[&str]) -> (i32, BString, BString) {
    let mut command = repo.command(git);
    let path = std::env::var("PATH").expect("a PATH");
    command.env("PATH", format!("{}:{path}", git.parent().expect("a directory").display()));
    let output = command.current_dir(at).args(args).output().expect("a Git");
    (output.status.code().unwrap_or(-1), output.stdout.into(), output.stderr.into())
}

#[test]
fn older_gits_read_what_sapwood_writes() {
    let gits = old_gits();
    if gits.is_empty() {
        println!("skipped: no Git here is older than the oracle");
        return;
    }
    let oracle: PathBuf = std::env::var_os("SAPWOOD_TEST_GIT").map_or_else(|| "git".into(), PathBuf::from);
    let names = WRITTEN.iter().map(|(name, ..)| *name).collect();
    bounded(names, usize::MAX, |name: &&str| {
        let (_, script, since) = WRITTEN.iter().find(|(known, ..)| known == name).expect("in the table");
        for (old, version) in &gits {
            if *version < (2, *since) {
                println!("{name}: Git {}.{} is too old for the format", version.0, version.1);
                continue;
            }
            let sandbox = Sandbox::new();
            let _mounts = NoMountsBelow::new(&sandbox.path());
            let repo = repository(&sandbox);
            let at = steps(&repo, script);
            for question in QUESTIONS {
                let theirs = ask(&repo, &oracle, &at, question);
                let answer = ask(&repo, old, &at, question);
                assert_eq!(answer.0, theirs.0, "{name}: {old:?} {question:?}: {}{}", answer.1, answer.2);
                // A newer Git checks more, and says more of a worktree.
                if question[0] != "fsck" {
                    assert_eq!(known(&answer.1), known(&theirs.1), "{name}: {old:?} {question:?}");
                }
            }
            goes_on(&repo, &oracle, old, &at, name);
        }
    });
}

/// Returns an answer without the lines that Git before 2.31 does not print, and without the number
/// of unknown files: that Git does not know reverse indexes of packs.
fn known(answer: &BString) -> Vec<String> {
    let lines = answer.to_string();
    let new = ["locked", "prunable", "garbage: ", "size-garbage: "];
    let is_new = |line: &str| new.iter().any(|word| line.starts_with(word));
    lines.lines().filter(|line| !is_new(line)).map(str::to_owned).collect()
}

/// The old Git records a change, and sapwood and the oracle agree with it afterwards.
fn goes_on(repo: &Repo<'_>, oracle: &Path, old: &Path, at: &Path, name: &str) {
    if ask(repo, old, at, &["rev-parse", "--is-bare-repository"]).1 == "true\n" {
        return;
    }
    fs::create_dir_all(at.join("dir")).expect("a directory");
    fs::write(at.join("dir/of-old"), "old\n").expect("a new file");
    for args in [
        &["add", "dir/of-old"][..],
        &["commit", "-q", "-m", "by an old Git"],
        &["checkout", "-q", "--detach"],
        &["gc", "-q"],
    ] {
        let run = ask(repo, old, at, args);
        assert_eq!(run.0, 0, "{name}: {old:?} {args:?}: {}", run.2);
    }
    let questions: [&[&str]; 3] = [&["status", "--porcelain"], &["ls-files", "--stage"], &["for-each-ref"]];
    for question in questions {
        let theirs = ask(repo, oracle, at, question);
        assert_eq!(
            ask(repo, Path::new(SAPWOOD), at, question).1,
            theirs.1,
            "{name}: {question:?} after {old:?}"
        );
    }
    assert_eq!(ask(repo, oracle, at, &["fsck", "--strict"]).0, 0, "{name}: after {old:?}");
}
