//! The untracked cache compared with Git's: the output, and the directories that remain valid,
//! which Git counts in its traces.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, UNIX_EPOCH},
};

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Gives `paths` an old time that no other file has, so that neither they nor the index are racy.
fn age(repo: &Repo<'_>, step: usize, paths: &[&str]) {
    let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + step as u64);
    for path in paths {
        let open = fs::File::open(repo.path.join(path));
        open.and_then(|file| file.set_modified(then)).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

/// Returns the output of `status`, and the numbers of its scan for untracked files.
fn traced(repo: &Repo<'_>, mut command: Command, args: &[&str]) -> (String, Vec<String>) {
    let target = repo.join(".git/trace");
    command.args(["status", "--porcelain"]).args(args).env("GIT_TRACE2_PERF", &target);
    let output = command.output().expect("can be run");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", output.stderr.as_bstr());
    let text = fs::read_to_string(&target).unwrap_or_default();
    fs::remove_file(&target).expect("was written");
    // The number of visited paths also depends on the order in which a directory is listed.
    let is_figure = |line: &&str| {
        line.contains("| data ") && line.contains("| read_directo | ") && !line.contains("-visited:")
    };
    let last = |line: &str| line.rsplit('|').next().unwrap_or_default().to_owned();
    (output.stdout.as_bstr().to_string(), text.lines().filter(is_figure).map(last).collect())
}

/// A change, and the paths whose times it changes.
type Step = (fn(&Repo<'_>), &'static [&'static str]);

const STEPS: &[Step] = &[
    (|repo| repo.write("new", "x"), &["new", "."]),
    (|repo| repo.write("a/new", "x"), &["a/new", "a"]),
    (|repo| repo.write("made/inner/file", "x"), &["made/inner/file", "made/inner", "made", "."]),
    (|repo| repo.write("a/.gitignore", "new\n"), &["a/.gitignore", "a"]),
    (|repo| repo.write("a/.gitignore", "other\n"), &["a/.gitignore"]),
    (|repo| repo.write(".git/info/exclude", "*.o\n"), &[]),
    (|repo| drop(repo.git(&["add", "new"])), &[]),
    (|repo| drop(repo.git(&["rm", "-q", "--cached", "a/b/file"])), &[]),
    (|repo| drop(repo.git(&["init", "-q", "nested"])), &["nested", "."]),
    (|repo| repo.write("kept/below/one.o", "x"), &["kept/below/one.o", "kept/below", "kept"]),
    (|repo| repo.remove("kept/.gitignore"), &["kept"]),
    (|repo| repo.remove("made"), &["."]),
    (|repo| fs::rename(repo.join("a"), repo.join("z")).expect("it is there"), &["."]),
    (|repo| repo.write(".gitignore", "z\n"), &[".gitignore", "."]),
    (|repo| repo.remove(".gitignore"), &["."]),
];

fn counts_are_gits(config: &[(&str, &str)], args: &[&str]) {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["top", "a/file", "a/b/file", "kept/file"] {
            repo.write(path, "x\n");
        }
        // All other files in the directory are tracked: it is not read until an untracked one
        // appears.
        repo.write("kept/.gitignore", "*.o\n");
        repo.commit("all");
        repo.write("untracked/file", "x\n");
        repo.git(&["config", "core.untrackedCache", "true"]);
        for (name, value) in config {
            repo.git(&["config", name, value]);
        }
    });
    let all = [
        "top",
        "a/file",
        "a/b/file",
        "a/b",
        "a",
        "kept/file",
        "kept/.gitignore",
        "kept",
        "untracked/file",
        "untracked",
        ".",
    ];
    oracle.both(|repo| age(repo, 0, &all));
    let same = |what: &str| {
        let (ours, git) = (oracle.ours(), oracle.git());
        let expected = traced(&git, git.git_command(), args);
        assert_eq!(traced(&ours, ours.command(Path::new(SAPWOOD)), args), expected, "{what}");
        expected.1
    };
    same("first");
    assert_eq!(same("again").last().map(String::as_str), Some(" ....opendir:0"), "the cache is used");
    for (number, (change, paths)) in STEPS.iter().enumerate() {
        oracle.both(|repo| {
            change(repo);
            age(repo, number + 1, paths);
        });
        same(&format!("after step {number}"));
        same(&format!("after step {number}, again"));
    }
    // Each program can use the cache that the other has written.
    let (ours, git) = (oracle.ours(), oracle.git());
    let expected = traced(&ours, ours.git_command(), args);
    assert_eq!(traced(&git, git.command(Path::new(SAPWOOD)), args), expected);
}

#[test]
fn counts_valid_directories_as_git_does() {
    counts_are_gits(&[], &[]);
}

#[test]
fn counts_valid_directories_as_git_does_with_all_files() {
    counts_are_gits(&[("status.showUntrackedFiles", "all")], &[]);
}
