//! Counts the system calls of `status` with `strace`: they grow with the files to compare, and with
//! nothing else.
//!
//! Two trees of different sizes are compared, so that the fixed cost of a run cancels out.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

const FILES: usize = 5;

/// Creates a tree of `dirs` directories with some files each, older than its index, which has an
/// untracked cache if `cache` is true.
fn tree<'s>(sandbox: &'s Sandbox, name: &str, dirs: usize, cache: bool) -> Repo<'s> {
    let repo = sandbox.init(name);
    for dir in 0..dirs {
        for file in 0..FILES {
            repo.write(format!("dir-{dir}/file-{file}"), "x\n");
        }
    }
    repo.write("dir-0/.gitignore", "*.o\n");
    repo.commit("all");
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    age(&repo.path, long_ago);
    // Under strace the disk seems slow, and sapwood would list directories instead of lstat.
    repo.git(&["config", "core.preloadIndex", "false"]);
    if cache {
        repo.git(&["config", "core.untrackedCache", "true"]);
        repo.git(&["update-index", "--untracked-cache"]);
    }
    repo.git(&["status"]);
    repo.git(&["status"]);
    repo
}

fn age(dir: &Path, time: SystemTime) {
    for entry in fs::read_dir(dir).expect("readable").flatten() {
        let (path, file_type) = (entry.path(), entry.file_type().expect("known"));
        match file_type.is_dir() {
            true if entry.file_name() != ".git" => age(&path, time),
            true => {}
            false => fs::File::open(&path).and_then(|file| file.set_modified(time)).expect("ours"),
        }
    }
    fs::File::open(dir).and_then(|dir| dir.set_modified(time)).expect("ours");
}

/// The number of calls by kind.
#[derive(Debug, PartialEq, Eq)]
struct Calls {
    stats: usize,
    opens: usize,
    lists: usize,
}

fn calls(repo: &Repo<'_>, args: &[&str]) -> Calls {
    let (said, calls) = traced(repo, &[&["status", "--porcelain"], args].concat());
    assert_eq!(said, "");
    calls
}

/// Returns the output of a command and its calls.
fn traced(repo: &Repo<'_>, args: &[&str]) -> (String, Calls) {
    testkit::need_program("strace");
    let trace = repo.join(".git/trace");
    let mut command = repo.command(Path::new("strace"));
    command
        .args(["-f", "-o"])
        .arg(&trace)
        .args(["-e", "trace=stat,lstat,newfstatat,statx,open,openat,openat2,getdents64"]);
    let run: &mut Command = command.args([SAPWOOD, "--no-optional-locks"]).args(args);
    let output = run.output().expect("strace is there");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&trace).expect("it wrote it");
    fs::remove_file(&trace).expect("it is there");
    // Counts each call once. Calls on `/proc` and `/sys` query threads and processors. They depend
    // on time and lock contention, not on the work, so they are left out.
    let of = |names: &[&str]| {
        let begins = |line: &&str| {
            // With several threads, the line begins with the process id.
            let call = line.trim_start_matches(|char: char| char.is_ascii_digit() || char == ' ');
            names.iter().any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')))
        };
        text.lines().filter(begins).filter(|line| !line.contains("/proc/") && !line.contains("/sys/")).count()
    };
    let calls = Calls {
        stats: of(&["stat", "lstat", "newfstatat", "statx"]),
        opens: of(&["open", "openat", "openat2"]),
        lists: of(&["getdents64"]),
    };
    (String::from_utf8(output.stdout).expect("plain names"), calls)
}

/// Returns the additional calls for the larger of two trees.
fn more(cache: bool, args: &[&str]) -> (Calls, usize, usize) {
    let sandbox = Sandbox::new();
    // Both trees are too large for a single worker at the start, because determining the number of
    // workers takes system calls too.
    let (few, many) = (100, 140);
    let small = calls(&tree(&sandbox, "small", few, cache), args);
    let large = calls(&tree(&sandbox, "large", many, cache), args);
    let more = Calls {
        stats: large.stats - small.stats,
        opens: large.opens - small.opens,
        lists: large.lists - small.lists,
    };
    (more, many - few, (many - few) * FILES)
}

#[test]
fn a_stat_for_each_file_and_a_listing_for_each_directory() {
    let (calls, dirs, files) = more(false, &[]);
    // The end of a listing is a call of its own if the file system does not report it earlier.
    assert!(calls.lists == dirs || calls.lists == 2 * dirs, "{calls:?}");
    assert_eq!((calls.stats, calls.opens), (files, dirs));
    let (calls, dirs, files) = more(false, &["-uno"]);
    let from_there = Calls { stats: files + dirs, opens: 0, lists: 0 };
    // For systems where threads cannot have their own working directories.
    let by_handles = Calls { stats: files, opens: dirs, lists: 0 };
    assert!(calls == from_there || calls == by_handles, "{calls:?}");
}

#[test]
fn with_an_untracked_cache_a_stat_for_each_file_and_each_directory() {
    let (calls, dirs, files) = more(true, &[]);
    assert_eq!(calls, Calls { stats: files + dirs, opens: 0, lists: 0 });
}

#[test]
fn a_missing_file_costs_no_more_than_one_that_is_there() {
    let sandbox = Sandbox::new();
    let repo = tree(&sandbox, "repo", 20, false);
    let (said, before) = traced(&repo, &["ls-files", "-d"]);
    assert_eq!(said, "");
    for dir in 0..20 {
        fs::remove_file(repo.join(format!("dir-{dir}/file-0"))).expect("it was written");
    }
    let (said, after) = traced(&repo, &["ls-files", "-d"]);
    assert_eq!((said.lines().count(), &after), (20, &before));
    // A link to the directory: one look per path determines its target.
    fs::rename(repo.join("dir-1"), repo.join("moved")).expect("moved");
    repo.symlink("moved", "dir-1");
    let (said, linked) = traced(&repo, &["ls-files", "-d"]);
    assert_eq!(said.lines().count(), 20);
    assert_eq!(linked.stats, before.stats);
}

#[test]
fn names_to_be_checked_cost_a_stat_each_and_one_for_their_directory() {
    let sandbox = Sandbox::new();
    let repo = tree(&sandbox, "repo", 20, false);
    let names = |dirs: usize| -> Vec<String> {
        (0..dirs).flat_map(|dir| (0..FILES).map(move |file| format!("dir-{dir}/file-{file}"))).collect()
    };
    let of = |dirs: usize| {
        let names = names(dirs);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // One name is ignored, so that the exit code is equal.
        repo.write("x.o", "");
        repo.write(".gitignore", "*.o\nfile-*/\n");
        let args = [&["check-ignore", "--no-index", "x.o"], names.as_slice()].concat();
        let (said, calls) = traced(&repo, &args);
        assert_eq!(said, "x.o\n");
        calls
    };
    let (few, many) = (of(5), of(20));
    // The ignore file of a directory is looked up once.
    let more = Calls { stats: 15 * (FILES + 1), opens: 15, lists: 0 };
    let found = Calls { stats: many.stats - few.stats, opens: many.opens - few.opens, lists: many.lists };
    assert_eq!(found, more);
}
