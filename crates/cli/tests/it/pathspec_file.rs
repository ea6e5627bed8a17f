//! `--pathspec-from-file` and `--pathspec-file-nul` of `checkout`, `restore` and `reset`.

use std::{io::Write as _, path::Path, process::Stdio};

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

fn history(repo: &Repo<'_>) {
    for path in ["a", "b c", "dir/b", "\u{f6}\n"] {
        repo.write(path, "one\n");
    }
    repo.commit("first");
    repo.git(&["tag", "v1"]);
    for path in ["a", "b c", "dir/b", "\u{f6}\n"] {
        repo.write(path, "two\n");
    }
    repo.commit("second");
}

fn oracle() -> Oracle {
    let oracle = Oracle::new(SAPWOOD, history);
    oracle.both(|repo| {
        for (name, content) in [
            ("lines", "a\r\n\"b c\" and what follows\n\"\\303\\266\\n\"\n"),
            ("nul", "a\0b c\0\u{f6}\n\0"),
            ("open", "a\nb c"),
            ("magic", ":(icase)A\n:!dir\ndir/../b c\n"),
            ("empty", ""),
            ("blank", "a\n\n"),
            ("bad", "a\n\"b\n"),
            ("dir/from-here", "b\n../a\n"),
        ] {
            repo.write(name, content);
        }
    });
    oracle
}

#[test]
fn reads_paths_from_a_file() {
    for file in ["lines", "nul", "open", "magic", "empty", "blank", "bad", "gone", ":(optional)gone", "dir"] {
        let oracle = oracle();
        let file = format!("--pathspec-from-file={file}");
        for command in [
            &["checkout", "v1"][..],
            &["reset"],
            &["restore"],
            &["restore", "--source=v1", "-SW"],
            &["reset", "v1"],
            &["reset", "--soft"],
            &["checkout"],
        ] {
            oracle.same(&[command, &[file.as_str()]].concat());
            oracle.same(&[command, &[file.as_str(), "--pathspec-file-nul"]].concat());
        }
    }
}

#[test]
fn resolves_paths_from_the_current_directory() {
    let oracle = oracle();
    oracle.same_in("dir", &["checkout", "v1", "--pathspec-from-file=from-here"]);
    oracle.same_in("dir", &["reset", "--pathspec-from-file", "from-here"]);
    oracle.same_in("dir", &["restore", "--pathspec-from-file=lines"]);
    oracle.same_in("dir", &["restore", "--pathspec-from-file=../lines"]);
}

#[test]
fn rejects_options_that_exclude_a_pathspec_file() {
    let oracle = oracle();
    for line in [
        "restore --pathspec-from-file=lines a",
        "checkout --pathspec-from-file=lines -- a",
        "reset --pathspec-from-file=lines HEAD a",
        "checkout --detach --pathspec-from-file=lines",
        "checkout -b new --pathspec-from-file=lines",
        "checkout --track --pathspec-from-file=lines",
        "restore --pathspec-file-nul a",
        "restore --pathspec-file-nul",
        "checkout --pathspec-file-nul a",
        "reset --pathspec-file-nul",
        "reset --hard --pathspec-from-file=lines",
        "reset --hard --pathspec-from-file=empty",
        "restore --pathspec-from-file=lines --pathspec-file-nul --no-pathspec-file-nul",
        "restore --pathspec-from-file=gone --no-pathspec-from-file",
        "restore --pathspec-from-file=open --pathspec-from-file=:(optional)gone",
        "restore --no-pathspec-from-file a",
        "checkout HEAD --pathspec-from-file=lines",
        "checkout -q v1 --pathspec-from-file=lines",
    ] {
        oracle.same(&line.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn reads_paths_from_standard_input() {
    let oracle = oracle();
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let answers = [(oracle.git(), git.as_str()), (oracle.ours(), SAPWOOD)].map(|(repo, program)| {
        let mut command = repo.command(Path::new(program));
        command.args(["checkout", "v1", "--pathspec-from-file=-"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("can be run");
        child.stdin.take().expect("piped").write_all(b"a\ndir\n").expect("is read");
        let output = child.wait_with_output().expect("it ends");
        (output.status.code(), output.stderr)
    });
    assert_eq!(answers[0], answers[1], "git left, ours right");
    oracle.same_state(&["from the standard input"]);
    assert_eq!(oracle.ours().read("dir/b"), "one\n");
}
