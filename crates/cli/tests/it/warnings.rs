//! Warnings are printed as often as Git prints them. Settings without a value are refused with
//! Git's message.

use std::{
    fs::File,
    path::Path,
    time::{Duration, SystemTime},
};

use testkit::{Oracle, Repo, Sandbox};

use crate::SAPWOOD;

/// Attributes of `f` and `g`, with settings, that make their conversion fail.
const BROKEN: [(&str, &[[&str; 2]]); 4] = [
    ("working-tree-encoding=UTF-16", &[]),
    ("working-tree-encoding=none", &[]),
    ("filter=bad", &[["filter.bad.clean", "false"]]),
    ("filter=bad", &[["filter.bad.clean", "false"], ["filter.bad.required", "true"]]),
];

const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["status", "--porcelain=v2"],
    &["ls-files", "-m"],
    &["ls-files", "-d"],
    &["ls-files", "-t", "-m", "-o"],
    &["diff-files"],
    &["diff-index", "HEAD"],
    &["update-index", "--refresh"],
    &["update-index", "-q", "--refresh"],
    &["update-index", "f"],
    &["checkout"],
    &["checkout", "other"],
    &["switch", "other"],
    &["reset"],
    &["reset", "other"],
    &["read-tree", "-m", "HEAD"],
    &["read-tree", "-m", "-u", "HEAD", "other"],
    &["checkout-index", "f"],
    &["clean", "-fd"],
];

/// Creates two branches that differ in `h`.
fn branches(repo: &Repo<'_>) {
    repo.write("f", "one\n");
    repo.write("g", "two\n");
    repo.write("h", "x\n");
    repo.commit("first");
    repo.git(&["checkout", "-q", "-b", "other"]);
    repo.write("h", "other\n");
    repo.commit("second");
    repo.git(&["checkout", "-q", "main"]);
}

/// Restores the worktree and breaks the conversion again. `f` and `g` look changed; `age` gives
/// them another modification time in each call.
fn break_conversion(
    repo: &Repo<'_>,
    (attributes, settings): (&str, &[[&str; 2]]),
    content: [&str; 2],
    age: u64,
) {
    std::fs::create_dir_all(repo.join(".git/info")).expect("made");
    repo.write(".git/info/attributes", "");
    repo.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    repo.git(&["reset", "-q", "--hard"]);
    repo.write(".git/info/attributes", format!("[fg] {attributes}\n"));
    settings.iter().for_each(|[key, value]| drop(repo.git(&["config", key, value])));
    for (name, content) in ["f", "g"].into_iter().zip(content) {
        repo.write(name, content);
        let file = File::options().append(true).open(repo.join(name)).expect("just written");
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + age);
        file.set_modified(old).expect("ours");
    }
}

#[test]
fn reports_conversion_failures_as_often_as_git() {
    let contents = [["one\n", "two\n"], ["One\n", "Two\n"], ["longer\n", "longer\n"]];
    for (number, (attributes, settings)) in BROKEN.into_iter().enumerate() {
        let oracle = Oracle::new(SAPWOOD, branches);
        for content in [contents[0], contents[1 + number % 2]] {
            for (age, command) in (1..).zip(COMMANDS) {
                oracle.both(|repo| break_conversion(repo, (attributes, settings), content, age));
                oracle.same_as(&format!("{attributes} {settings:?} {content:?}"), command);
            }
        }
    }
}

/// Settings that need a value.
const TEXTS: &[&str] = &[
    "core.hooksPath",
    "core.attributesFile",
    "core.excludesFile",
    "core.editor",
    "core.fsync",
    "core.logAllRefUpdates",
    "core.checkRoundtripEncoding",
    "branch.autoSetupRebase",
    "author.name",
    "committer.email",
    "user.name",
    "attr.tree",
    "push.default",
    "diff.orderFile",
    "diff.ignoreSubmodules",
    "diff.x.textconv",
    "diff.x.xfuncname",
    "merge.conflictStyle",
    "column.ui",
    "column.status",
    "include.path",
    "includeIf.onbranch:main.path",
    "extensions.partialClone",
    "extensions.objectFormat",
];

/// Commands that fail before they write anything.
const READERS: &[&[&str]] = &[
    &["status", "-s"],
    &["ls-files"],
    &["diff-files"],
    &["diff-index", "--cached", "HEAD"],
    &["update-index", "--refresh"],
    &["check-attr", "-a", "f"],
    &["worktree", "list"],
    &["checkout", "-q"],
    &["reset", "-q"],
    &["clean", "-n"],
];

#[test]
fn refuses_settings_without_a_value() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write(".gitattributes", "f filter=x diff=x\n");
    branches(&repo);
    let config = repo.read(".git/config");
    let same = |args: &[&str], context: &str| {
        let ours = repo.run(Path::new(SAPWOOD), args);
        assert_eq!(ours, repo.try_git(args), "{context} {args:?}; Git right");
        ours.code
    };
    let mut refused = 0;
    for key in TEXTS {
        for command in READERS {
            // Git reads the hooks path only if it has to compare content, which depends on the time
            // that has passed since the files were written.
            if *key == "core.hooksPath" && matches!(command[0], "diff-files" | "update-index") {
                continue;
            }
            repo.write(".git/config", &config);
            refused += usize::from(same(&[&["-c", key], *command].concat(), "") == 128);
            let (section, name) = key.rsplit_once('.').expect("a section");
            let section = match section.split_once('.') {
                Some((section, sub)) => format!("{section} \"{sub}\""),
                None => section.to_owned(),
            };
            repo.write(".git/config", format!("{config}[{section}]\n\t{name}\n"));
            refused += usize::from(same(command, key) == 128);
        }
    }
    repo.write("f", "One\n");
    for key in ["filter.x.clean", "filter.x.smudge", "filter.x.process"] {
        for command in [&["status"][..], &["ls-files", "-m"], &["update-index", "f"], &["checkout", "f"]] {
            repo.write(".git/config", &config);
            same(&[&["-c", key], command].concat(), "");
            let name = key.rsplit('.').next().expect("a name");
            repo.write(".git/config", format!("{config}[filter \"x\"]\n\t{name}\n"));
            same(command, key);
        }
    }
    repo.write("f", "one\n");
    assert!(refused > TEXTS.len() * READERS.len(), "only {refused} refused");
    repo.write(".git/config", &config);
    // Where Git fails after its first write, sapwood writes nothing.
    for command in [&["switch", "-c", "new"][..], &["checkout", "other"], &["reset", "--hard", "other"]] {
        let run = repo.run(Path::new(SAPWOOD), &[&["-c", "core.hooksPath"], command].concat());
        let words = "error: missing value for 'core.hookspath'\n\
             fatal: unable to parse 'core.hookspath' from command-line config\n";
        assert_eq!((run.code, run.stderr.as_slice()), (128, words.as_bytes()), "{command:?}");
        assert_eq!(repo.git(&["log", "-1", "--format=%s %D"]).stdout, "first HEAD -> main\n", "{command:?}");
    }
}
