//! Tests of `check-ignore`: the rule that matches, the output, and its order. The rule of each path
//! is printed before the next path is read.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use crate::{SAPWOOD, shim::Shim};

/// Writes ignore rules of all kinds to every place where Git reads rules.
fn rules(repo: &Repo<'_>) {
    repo.write("users", "\n# comment\n*.user\n");
    repo.git(&["config", "core.excludesFile", "users"]);
    std::fs::create_dir_all(repo.join(".git/info")).expect("made");
    repo.write(".git/info/exclude", "*.info\n/top\n");
    repo.write(".gitignore", "\u{feff}*.o\r\n!keep.o\nout/\n/a/b\n\n# x\n*\\ \ntr ail  \ndeep/**/x\n");
    repo.write("a/.gitignore", "!*.o\nlocal\n\"quo\n");
    repo.write("a/file.c", "1\n");
    repo.write("a/tracked.user", "1\n");
    repo.git(&["add", "-f", "."]);
    repo.git(&["commit", "-qm", "first"]);
    std::fs::create_dir_all(repo.join("out/sub")).expect("made");
    repo.write("notdir", "x");
    repo.symlink("a", "link");
}

const PATHS: &[&str] = &[
    "x.o",
    "keep.o",
    "a/x.o",
    "a/local",
    "a/b",
    "a/b/c",
    "a/b/c.o",
    "out",
    "out/",
    "out/sub/y",
    "nowhere/out/y",
    "new/",
    "x.user",
    "a/tracked.user",
    "x.info",
    "top",
    "a/top",
    "tr ail",
    "deep/1/2/x",
    "a/\"quo",
    "t\u{e9}.o",
    "a",
    "a/*.c",
    "*.o",
    "notdir",
    "./x.o",
    "a/../x.o",
];

#[test]
fn names_the_matching_rule_by_file_and_line() {
    let oracle = Oracle::new(SAPWOOD, rules);
    for options in [&["-v", "-n"][..], &["-v"], &[], &["--no-index", "-v", "-n"]] {
        oracle.same(&[&["check-ignore"], options, PATHS].concat());
        oracle.same_in(
            "a",
            &[&["check-ignore"], options, &["x.o", "../x.o", "b", "local", ":/x.user"]].concat(),
        );
    }
    for path in PATHS {
        oracle.same(&["check-ignore", "-q", path]);
        oracle.same(&["check-ignore", "-v", "--", path]);
    }
}

/// A rule that consists of spaces matches the empty name.
#[test]
fn matches_names_with_a_trailing_slash() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("there/file", "1\n");
        for (dir, rules) in
            [("blanks", "  \n"), ("end", "\r\n"), ("slash", "/\n"), ("not", "/\n\n!\n"), ("none", "\n# x\n")]
        {
            repo.write(format!("{dir}/.gitignore"), rules);
            repo.write(format!("{dir}/there/file"), "1\n");
        }
    });
    for dir in ["", "blanks", "end", "slash", "not", "none"] {
        for args in [&["-v", "-n"][..], &["-v", "--no-index"], &[]] {
            let paths = ["there/", "nowhere/", "there", "there/file/", "nowhere/x/"];
            oracle.same_in(dir, &[&["check-ignore"], args, &paths[..]].concat());
        }
    }
}

#[test]
fn rejects_wrong_arguments() {
    let oracle = Oracle::new(SAPWOOD, rules);
    for args in [
        &["-z", "x"][..],
        &[],
        &["-q", "a", "b"],
        &["-q", "-v", "a"],
        &["-n", "a"],
        &["--stdin", "a"],
        &["link/x"],
        &["link/"],
        &["link"],
        &["../x"],
        &["x.o", "../x"],
        &[""],
        &[":(icase)x"],
        &[":!x"],
        &[":(glob,exclude)x"],
        &["."],
        &["/"],
    ] {
        oracle.same(&[&["check-ignore"], args].concat());
    }
    oracle.both(|repo| {
        repo.git(&["init", "-q", "sub"]);
        repo.git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "x"]);
        repo.git(&["add", "sub"]);
        repo.remove("a/.gitignore");
        repo.symlink("../users", "a/.gitignore");
    });
    for path in ["sub", "sub/", "sub/x", "a/x.o"] {
        oracle.same(&["check-ignore", "-v", "-n", path]);
    }
}

#[test]
fn reads_paths_from_standard_input() {
    let oracle = Oracle::new(SAPWOOD, rules);
    let plain = "x.o\n\"a\\tb.o\"\nkeep.o\nout/y\nx.user";
    let bad = "x.o\n\"open\n";
    let outside = "x.o\n../x\nkeep.o\n";
    let nul = "x.o\0\"a\0t b.o\0";
    for (input, args) in [
        (plain, &["--stdin"][..]),
        (plain, &["--stdin", "-v", "-n"]),
        (nul, &["--stdin", "-z", "-v", "-n"]),
        (nul, &["--stdin", "-z"]),
        (bad, &["--stdin"]),
        (outside, &["--stdin", "-v"]),
        ("", &["--stdin"]),
        ("\n", &["--stdin"]),
    ] {
        let args = [&["check-ignore"], args].concat();
        let theirs = fed(&oracle.git(), "git", &args, input);
        let ours = fed(&oracle.ours(), SAPWOOD, &args, input);
        assert_eq!(theirs, ours, "{args:?} {input:?}");
    }
}

/// Runs the command with `input`. Returns exit code, standard output and standard error, with the
/// repository's path replaced.
pub(crate) fn fed(
    repo: &Repo<'_>,
    program: &str,
    args: &[&str],
    input: &str,
) -> (Option<i32>, String, String) {
    let mut command = if program == "git" { repo.git_command() } else { repo.command(program.as_ref()) };
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    // The process may have ended already, so the write may fail.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&repo.path.display().to_string(), "<repo>");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Sends one path, waits for its line of output, and only then sends the next path.
pub(crate) fn in_turns(command: &mut std::process::Command, turns: &[(&str, &str)]) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be run");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    for (asked, expected) in turns {
        input.write_all(format!("{asked}\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        output.read_line(&mut answer).expect("it answers");
        assert_eq!(answer.trim_end(), *expected, "{asked}");
    }
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn prints_each_result_before_reading_the_next_path() {
    let oracle = Oracle::new(SAPWOOD, rules);
    let shim = Shim::new();
    let turns = [("x.o", ".gitignore:1:*.o\tx.o"), ("z", "::\tz"), ("x.user", "users:3:*.user\tx.user")];
    let args = ["check-ignore", "--stdin", "-v", "-n"];
    in_turns(oracle.ours().command(SAPWOOD.as_ref()).args(args), &turns);
    in_turns(shim.command(&oracle.ours()).args(args), &turns);
    shim.was_native(&args);
}

/// Like [`in_turns`], but truncates the index after the first response and expects no second one.
pub(crate) fn without_its_index(repo: &Repo<'_>, args: &[&str], [one, two]: [&str; 2]) {
    let index = repo.join(".git/index");
    let before = std::fs::read(&index).expect("there");
    let mut command = repo.command(SAPWOOD.as_ref());
    let command = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    input.write_all(format!("{one}\n").as_bytes()).expect("it reads");
    let mut answer = String::new();
    output.read_line(&mut answer).expect("it answers");
    assert!(!answer.is_empty(), "{args:?}");
    std::fs::write(&index, "").expect("it is there");
    input.write_all(format!("{two}\n").as_bytes()).expect("it reads");
    drop(input);
    answer.clear();
    output.read_line(&mut answer).expect("it ends");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!((answer.as_str(), ended.status.code()), ("", Some(128)), "{args:?}");
    assert!(ended.stderr.contains_str("/.git/index': Input/output error"), "{args:?}: {ended:?}");
    std::fs::write(&index, before).expect("it was there");
}

#[test]
fn fails_when_the_index_is_truncated_between_two_paths() {
    let oracle = Oracle::new(SAPWOOD, rules);
    without_its_index(&oracle.ours(), &["check-ignore", "--stdin", "-v", "-n"], ["x.o", "z"]);
}

/// Git expands a sparse index to find out which paths are tracked, and prints advice about it.
#[test]
fn expands_a_sparse_index_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write(".gitignore", "*.o\n");
        for path in ["in/a", "out/a", "out/deep/b.o"] {
            repo.write(path, "1\n");
        }
        repo.git(&["add", "-f", "."]);
        repo.commit("first");
        repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    });
    let all = || {
        for args in
            [&["x.o", "out/deep/b.o"][..], &["-v", "-n", "out/deep/b.o", "out"], &["--no-index", "x.o"]]
        {
            for setting in ["advice.sparseIndexExpanded=false", "index.sparse=false", "index.sparse=true"] {
                oracle.same(&[&["-c", setting, "check-ignore"], args].concat());
            }
            oracle.same(&[&["check-ignore"], args].concat());
        }
    };
    all();
    oracle.both(|repo| repo.write(".git/info/sparse-checkout", "/*\n!/*/\n/out/\n"));
    all();
    oracle.both(|repo| repo.write(".git/info/sparse-checkout", "a/b\n"));
    all();
    // No directory is outside the cone.
    oracle.both(|repo| drop(repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in", "out"])));
    all();
}
